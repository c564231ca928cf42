"""Keys that people rely on: an end's own that is kept, an executor's that is remembered, harnesses' that an
executor accepts.

None of it asks the registry: who has a key pinned is not deceived by a service that gives out another.
"""

from __future__ import annotations

import errno
import os

from ..errors import DialFailed, SettingInvalid
from ..log import warn
from ..stdlib import allocate_lock
from .keys import Keys, fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Protocol

    from ..core.noise import PublicKey
    from .known import Known

    class Pin(Protocol):
        """What is known of an executor's key."""

        def check(self, key: PublicKey) -> None: ...
        def remember(self, key: PublicKey, kept: bool) -> None: ...


_MARK = "outfitter-relay-key-1"  # what a file of keys begins with
_X25519, _SEED = 32, 64  # bytes of what is kept of a pair
_LARGEST_LIST = 1 << 20  # bytes of accepted keys: 10,000 lines with long names


def kept_keys(known: Known, path: str) -> Keys:
    """The keys in a private file, made with the first call. Raises SettingInvalid."""
    from base64 import b64decode, b64encode

    from ..transport.certificates import check_private

    if not os.path.lexists(path):
        made = b64encode(os.urandom(_X25519 + _SEED)).decode()
        known.keep(path, f"{_MARK} {made}\n", over=False)
    check_private(path, "the key file")
    mark, _, text = (known.read(path) or "").strip().partition(" ")
    try:
        raw = b64decode(text, validate=True)
        if mark != _MARK or len(raw) != _X25519 + _SEED:
            raise ValueError
        return Keys(raw[:_X25519], raw[_X25519:])
    except ValueError:
        raise SettingInvalid(
            f"{path} has no keys of a relay: name a file that does not exist, to have new ones made"
        ) from None


class PinnedExecutor:
    """An executor's key as this user knows it, once the executor has said that it is kept."""

    def __init__(self, known: Known, registry: str, environment_id: str) -> None:
        self._known = known
        self._path = known.pin_file(registry, environment_id)
        self._name = f"{environment_id} at {registry}"

    def check(self, key: PublicKey) -> None:
        """Raises DialFailed for a key that is not the one that is known."""
        known = self._known.read(self._path)
        if known is not None and known.strip() != fingerprint(key):
            raise DialFailed(
                f"the key of {self._name} has changed: {known.strip()[:32]} is known, {fingerprint(key)} was "
                "given. Somebody may pretend to be the executor. Ask its owner for the key; if the new "
                f"one is right, delete {self._path} and connect again",
                retryable=False,
            )

    def remember(self, key: PublicKey, kept: bool) -> None:
        """The executor has proved that it has this key. Raises SettingInvalid."""
        if kept and self._known.read(self._path) is None:
            self._known.keep(self._path, fingerprint(key) + "\n")


class ExpectedExecutor:
    """An executor whose key was told by somebody else than the registry."""

    def __init__(self, known: str, name: str) -> None:
        self._known = known
        self._name = name

    def check(self, key: PublicKey) -> None:
        """Raises DialFailed for another key."""
        if fingerprint(key) != self._known:
            raise DialFailed(
                f"{self._name} has another key than its URL says: {fingerprint(key)} was given. Somebody "
                "else may have registered in its place: ask its owner for the key",
                retryable=False,
            )

    def remember(self, key: PublicKey, kept: bool) -> None:
        pass


class AcceptedHarnesses:
    """The harnesses that an executor serves, whatever the registry says: a file with a key on each line.

    With `first`, an empty or missing file gets the first harness that the registry lets in.
    """

    def __init__(self, path: str, *, first: bool, owners: Callable[[], Collection[int]]) -> None:
        """`owners` are the users whose word counts. Raises SettingInvalid."""
        self._path = path
        self._first = first
        self._owners = owners
        self._lock = allocate_lock()
        self._read()  # mistakes are for whoever starts the executor

    def may_ask(self, key: PublicKey) -> bool:
        """Whether the registry is to be asked at all. Raises SettingInvalid."""
        accepted = self._read()
        if fingerprint(key) in accepted or (self._first and not accepted):
            return True
        warn(
            "relay",
            "refused a harness with the key %s; to accept it, add the key as a line to %s",
            fingerprint(key),
            self._path,
        )
        return False

    def accepts(self, key: PublicKey) -> bool:
        """Whether a harness that the registry lets in is served; the first one may be written down.

        Raises SettingInvalid.
        """
        with self._lock:
            accepted = self._read()
            if self._first and not accepted:
                self._add(fingerprint(key))
                return True
            return fingerprint(key) in accepted

    def _read(self) -> set[str]:
        try:
            with open(self._path, encoding="utf-8") as file:
                found = os.fstat(file.fileno())
                if found.st_mode & 0o022:
                    raise SettingInvalid(
                        f"{self._path} can be changed by other users: run `chmod 600 {self._path}`"
                    )
                if found.st_uid not in self._owners():
                    raise SettingInvalid(
                        f"{self._path} belongs to another user (uid {found.st_uid}), who can add keys: name "
                        "a file of your own"
                    )
                text = file.read(_LARGEST_LIST)
        except FileNotFoundError:
            if self._first:
                return set()
            raise SettingInvalid(f"{self._path} does not exist: write a harness's key on each line") from None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingInvalid(f"{self._path} cannot be read: {type(error).__name__}") from None
        lines = (line.split("#")[0].split() for line in text.splitlines())
        return {words[0].lower() for words in lines if words}

    def _add(self, key: str) -> None:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # On a line of its own: in a comment without an end it would accept whoever comes next, too.
                size = os.fstat(fd).st_size
                begin = "\n" if size and os.pread(fd, 1, size - 1) != b"\n" else ""
                line = f"{begin}{key} # the first\n".encode()
                if os.write(fd, line) < len(line):
                    os.ftruncate(fd, size)  # half of a key locks everybody out, nothing of it lets all in
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise SettingInvalid(f"{self._path} cannot be written: {error.strerror}") from None
