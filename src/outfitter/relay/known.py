"""What this user keeps of relays: tokens from enrolling, and the keys of executors and harnesses it has seen.

Private files, as ssh keeps its own: `$OUTFITTER_HOME/relay`, else `~/.local/state/outfitter/relay`.
"""

from __future__ import annotations

import os

from ..errors import SettingInvalid
from ..openers import private_folder
from ..protocol.registry import is_environment_id
from ..stdlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_BYTES = 16 << 10


def folder(environ: Mapping[str, str]) -> str:
    """Where it is kept, whether it exists or not. Raises SettingInvalid when no variable tells."""
    if home := environ.get("OUTFITTER_HOME"):
        return os.path.join(os.path.abspath(home), "relay")
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        return os.path.join(state, "outfitter", "relay")
    if home := environ.get("HOME"):
        return os.path.join(os.path.abspath(home), ".local", "state", "outfitter", "relay")
    raise SettingInvalid("HOME is not set: relays' tokens and keys have no place; set OUTFITTER_HOME")


class Known:
    """The files of one user."""

    def __init__(self, place: str) -> None:
        self._place = place

    def token_file(self, registry: str, environment_id: str, role: str) -> str:
        """The path of a token, whether it exists or not."""
        return self._path(registry, environment_id, f"{role}.token")

    def pin_file(self, registry: str, environment_id: str) -> str:
        """The path of what is known of an executor's key."""
        return self._path(registry, environment_id, "executor.pin")

    @property
    def key_file(self) -> str:
        """The path of this user's own keys, as a harness."""
        return os.path.join(self._place, "harness.key")

    def _path(self, registry: str, environment_id: str, name: str) -> str:
        assert is_environment_id(environment_id)
        # The registry as a digest: a URL is no file name. The environment for people who look.
        where = sha256(registry.rstrip("/").encode()).hexdigest()[:16]
        return os.path.join(self._place, where, f"{environment_id}.{name}")

    def keep(self, path: str, text: str, *, over: bool = True) -> None:
        """Writes a private file, whole or not at all; without `over`, one that is there stays.

        Raises SettingInvalid.
        """
        partial = f"{path}.{os.getpid()}.new"
        try:
            private_folder(os.path.dirname(path))
            fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                with open(fd, "wb") as file:
                    file.write(text.encode())
                    file.flush()
                    os.fsync(fd)
                if over:
                    os.replace(partial, path)
                else:
                    os.link(partial, path)
            except FileExistsError:
                pass  # somebody was quicker
            finally:
                if os.path.lexists(partial):
                    os.unlink(partial)
        except OSError as error:
            raise SettingInvalid(f"{path} cannot be written: {error.strerror}") from None

    def check_room(self) -> None:
        """Keeps something for a moment: who finds out afterwards has used up a code or a token for nothing.

        Raises SettingInvalid.
        """
        path = os.path.join(self._place, f"probe.{os.getpid()}")
        self.keep(path, "\n")
        os.unlink(path)

    def read(self, path: str) -> str | None:
        """A private file's text; None where there is none. Raises SettingInvalid."""
        try:
            with open(path, encoding="utf-8") as file:
                return file.read(_MAX_BYTES)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingInvalid(f"{path} cannot be read: {type(error).__name__}") from None
