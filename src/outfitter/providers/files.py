"""How providers look at a project's files: by name, from a folder upwards, and never into a trap.

A project may have a pipe, a device or a gigabyte where a small text is expected: such a file is not read.
"""

from __future__ import annotations

import os
import stat

from ..host.uids import ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Manifests, .env files and the like are far smaller.
FILE_BYTES = 1 << 20

# Above this directory no project is looked for. Set once, before the first look, by a server that is told so.
ceiling = ""


def is_ceiling(folder: str) -> bool:
    """Whether it is the ceiling, whichever links lead there."""
    if not ceiling or folder == ceiling:
        return folder == ceiling
    try:
        return os.path.samefile(folder, ceiling)
    except (OSError, ValueError):
        return False


def is_repository(folder: str) -> bool:
    """Whether a folder has a `.git`. An empty one that nobody may write to keeps the place for a sandbox, and
    is gone when its command ends."""
    path = os.path.join(folder, ".git")
    try:
        mode = os.lstat(path).st_mode
        return not (stat.S_ISDIR(mode) and not mode & 0o222 and not os.listdir(path))
    except OSError:
        return os.path.lexists(path)


def upwards(directory: str, *, beyond: bool = False) -> Iterator[str]:
    """The directory and those above it; unless `beyond` is set, one that holds `.git` is the last.

    The ceiling is the last in any case.
    """
    folder = os.path.abspath(directory)
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder or is_ceiling(folder) or (not beyond and is_repository(folder)):
            return
        folder = above


def nearest(directory: str, names: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """The nearest folder with a regular file of one of these names, and the paths of those it has."""
    for folder in upwards(directory):
        found = tuple(path for name in names if os.path.isfile(path := below(folder, name)))
        if found:
            return folder, found
    return None


def planted(folder: str, path: str) -> bool:
    """Whether anybody may put files into a folder, such as /tmp, and somebody else has put this one there.

    One that cannot be looked at is, as far as anybody knows: whoever remembers that looks with `foreign`.
    """
    try:
        return foreign(folder, path)
    except OSError:
        return True  # it has gone


def foreign(folder: str, path: str) -> bool:
    """The same. Raises OSError."""
    if not os.stat(folder).st_mode & stat.S_IWOTH:
        return False
    name = os.path.relpath(path, folder).partition("/")[0]
    return os.lstat(os.path.join(folder, name)).st_uid not in ours()


def below(folder: str, name: str) -> str:
    """The path of a name in a folder, for people to read; an absolute one is its own."""
    return os.path.join(folder, name.removeprefix("./"))


def read(path: str, most: int = FILE_BYTES) -> bytes | None:
    """What a regular file holds. None when there is none, it cannot be read, or it is too large."""
    try:
        # A pipe would wait for somebody to write.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        with open(fd, "rb", closefd=False) as file:
            data = file.read(most + 1)
    except OSError:
        return None
    finally:
        os.close(fd)
    return data if len(data) <= most else None


def program(name: str, env: Mapping[str, str], root: str = "") -> str | None:
    """The executable file that a name stands for: one with a slash in `root`, others in `env`'s PATH."""
    if "/" in name:
        candidates = [below(root, name)]
    else:
        candidates = [
            f"{folder}/{name}" for folder in env.get("PATH", "").split(":") if folder.startswith("/")
        ]
    return next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), None)
