"""Names that stay read-only in the folders below a writable place: those of repositories in a workspace."""

from __future__ import annotations

import os
from stat import S_ISVTX

from ...core.permissions import PROTECTED
from ...core.protecting import LEVELS
from .globs import is_closed
from .refusal import Unenforceable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_NAMES = 200_000  # that are looked at, in a thread: half a second
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
# A sandbox has its own, or only reads them; and what is in them comes and goes.
_KERNELS = ("/proc", "/sys", "/dev")


def nested(root: str, names: Sequence[str], needed: Callable[[], bool] = lambda: True) -> tuple[str, ...]:
    """The paths of names (`.git/hooks`) in the folders below a real one, if the first part of each is there.

    A temporary directory of everybody (/tmp) is left out: it may have a million names, and no workspace of a
    person. Ends early, with less, when it is `needed` no more. Raises Unenforceable."""
    if _is_everybodys(root):
        return ()
    firsts = {name: name.partition("/")[0] for name in names}
    found: list[str] = []
    waiting, left = [(root.rstrip("/"), 0)], MAX_NAMES
    while waiting and needed():
        folder, level = waiting.pop()
        for name, is_dir in _listed(folder or "/"):
            left -= 1
            if left < 0:
                raise Unenforceable(
                    f"cannot enforce sandbox read-only path {root}/**/{names[0]} because there are more than "
                    f"{MAX_NAMES} names in the first {LEVELS + 1} levels of {root}"
                )
            if level and name in firsts.values():
                found += [f"{folder}/{each}" for each, first in firsts.items() if first == name]
                continue
            path = f"{folder}/{name}"
            if is_dir and level < LEVELS and (level or name not in PROTECTED) and path not in _KERNELS:
                waiting.append((path, level + 1))
    return tuple(sorted(found))


def _is_everybodys(folder: str) -> bool:
    """Whether it is one in which everybody has files, and no command of ours can have made it so: who owns a
    folder can set its mode, and root's commands are root. For these the places of the system count."""
    try:
        found = os.stat(folder)
    except OSError:
        return True  # gone
    ours = os.geteuid() in (0, found.st_uid)
    return bool(found.st_mode & S_ISVTX) and (folder in _TEMPORARY or not ours)


def _listed(folder: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError) or is_closed(folder, error):
            return []
        raise Unenforceable(f"cannot look for what stays read-only in {folder}: {error.strerror}") from None
