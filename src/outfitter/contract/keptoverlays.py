"""What the user keeps for each worktree: one private file for each, without secrets."""

from __future__ import annotations

import os

from ..env.origin import Origin
from ..env.overlay import Contribution, Overlay, Rejection, encode, read_kept
from ..openers import private_folder
from ..places import kept_folder
from . import privatefile
from .config import PASSING, cannot_read
from .freshness import lasting, stamp_of
from .worktree import worktree_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .freshness import Stamp
    from .settings import Settings

LARGEST_FILE = 4 << 20  # of what the user keeps for one worktree; JSON takes more room than what it says
REMEMBERED = 256  # worktrees
_NOT_KEPT = (
    "which is never written to disk: set it on a running server with --on and --scope, or let a provider "
    "supply it"
)


class KeptOverlays:
    """What the user keeps for each worktree: one private file for each, without secrets."""

    def __init__(self, state_folder: str) -> None:
        self.folder = kept_folder(state_folder)
        self._seen: dict[str, tuple[Stamp, Overlay]] = {}

    @property
    def any(self) -> bool:
        """Whether anything was ever kept, for any worktree."""
        return os.access(self.folder, os.F_OK)

    def path(self, root: str) -> str:
        from ..stdlib import sha256

        return f"{self.folder}/{sha256(root.encode('utf-8', 'surrogateescape')).hexdigest()}.json"

    def overlay(self, directory: str) -> Overlay:
        """What is kept for the worktree of a directory: the same object while that is. Raises FileInvalid."""
        root = worktree_root(directory)
        path = self.path(root)
        now = _stamp(path)
        known = self._seen.get(root)
        if known is not None and known[0] == now:
            return known[1]
        lasts = lasting(now)
        origin = Origin("overlay", "set for this worktree", path)
        before = Overlay(origin=origin, prefix="kept:") if known is None else known[1]
        overlay = before.only(() if now is None else _read(path, root))
        if len(self._seen) >= REMEMBERED and root not in self._seen:
            del self._seen[next(iter(self._seen))]
        self._seen[root] = (lasts, overlay)
        return overlay

    def put(
        self,
        directory: str,
        contribution: Contribution,
        settings: Settings,
        *,
        merge: bool = False,
        secret: Sequence[tuple[str, str]] = (),
    ) -> tuple[Rejection, ...]:
        """Keeps a contribution without what is secret in it, and returns why. `secret` are names and values
        of others that may be part of its own. Raises FileInvalid, SettingInvalid.
        """
        from ..env.redact import Secrets, holding

        secrets = Secrets(settings.secret_names)
        taken_away = frozenset(contribution.unset)  # which is no secret
        hidden = [name for name in contribution.secret_names(secrets) if name not in taken_away]
        reasons = dict.fromkeys(hidden, f"it looks like a secret, {_NOT_KEPT}")
        pairs = [*secret, *(pair for pair in contribution.texts if pair[0] in reasons)]
        contribution = contribution.without(hidden)
        for name, part in holding(contribution.texts, pairs):
            reasons[name] = f"its value contains the secret {part}, {_NOT_KEPT}"
        contribution = contribution.without(reasons)

        def change(overlay: Overlay) -> Overlay:
            if not contribution.names:
                return overlay.drop(contribution.producer)  # it has nothing to say any more
            return overlay.put(contribution, merge=merge)

        if contribution.names or (self.any and not merge):
            self._change(directory, change)
        return tuple(Rejection(contribution.producer, name, "secret", why) for name, why in reasons.items())

    def drop(self, directory: str, producer: str, names: Sequence[str] = ()) -> bool:
        """Forgets a producer, or what it said of some variables; whether there was anything."""
        return self.any and self._change(directory, lambda overlay: overlay.drop(producer, names))

    def _change(self, directory: str, change: Callable[[Overlay], Overlay]) -> bool:
        import fcntl

        from ..errors import SettingInvalid

        root = worktree_root(directory)
        path = self.path(root)
        try:
            private_folder(self.folder)
            lock = os.open(f"{self.folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)  # two at once must not lose a word
                before = Overlay(_read(path, root) if os.path.lexists(path) else ())
                after = change(before)
                if after is before:
                    return False
                _write(path, root, after)
            finally:
                os.close(lock)
        except OSError as error:
            raise SettingInvalid(f"cannot write to {self.folder}: {error.strerror}") from None
        return True


def _read(path: str, root: str) -> tuple[Contribution, ...]:
    """What a file says. Raises FileInvalid: a word that is lost without a sign is worse."""
    try:
        data = privatefile.read(path, LARGEST_FILE + 1)
    except privatefile.NotOurs:
        raise _unusable(path, "another user may have written it") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    from json import loads

    try:
        told = loads(data.decode("utf-8", "surrogatepass"))
        if told["root"] != root:
            raise ValueError
        return tuple(read_kept(told["contributions"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _unusable(path, "`outfitter env set` did not write it") from None


def _unreadable(path: str, error: OSError) -> Exception:
    if error.errno in PASSING:  # nobody should remove it for that
        return cannot_read(path, error)
    return _unusable(path, f"cannot be read: {error.strerror}")


def _unusable(path: str, problem: str) -> Exception:
    from .file import unreadable

    return unreadable(path, problem, "remove it, then set what is missing again")


def _write(path: str, root: str, overlay: Overlay) -> None:
    if not overlay.contributions:
        if os.path.lexists(path):
            os.unlink(path)
        return
    from json import dumps

    from ..errors import SettingInvalid

    told = [{"producer": one.producer, **encode(one)} for one in overlay.contributions]
    data = dumps({"root": root, "contributions": told}).encode("utf-8", "surrogatepass")
    if len(data) > LARGEST_FILE:
        raise SettingInvalid(
            f"more than {LARGEST_FILE} bytes would be written for {root}: set fewer or shorter variables"
        )
    privatefile.write(path, data)


def _stamp(path: str) -> Stamp:
    try:
        return stamp_of(os.lstat(path))
    except FileNotFoundError:
        return None
    except OSError as error:  # what is there may not be lost without a sign
        raise _unreadable(path, error) from None
