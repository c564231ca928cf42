"""Which places a tool's view of a project has to have, for files that must look as they were checked."""

from __future__ import annotations

import os
import stat

from ...errors import LaunchFailed
from .freezing import CLOSED, LISTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .freezing import Entry

_MOST_LINKS = 40  # on the way to a file; the kernel follows no more


def layout(top: str, files: Mapping[str, bytes | None]) -> tuple[list[Entry], list[tuple[str, bytes]]]:
    """What has to be where: below `top`, with the links on the way, and elsewhere. Raises LaunchFailed.

    A path with a slash at its end is a folder: one that has nothing in it but the other files, or those names
    that are given for it as one text, with a NUL behind each.
    """
    entries: dict[str, Entry] = {}
    outside: dict[str, bytes] = {}
    here = _mount_of(top)
    mounts: dict[str, int | None] = {}
    for path, content in files.items():
        for place, found, last in _way(path):
            folder = os.path.dirname(place)
            if folder not in mounts:
                mounts[folder] = _mount_of(folder)
            inside = place == top or (place.startswith(f"{top}/") and mounts[folder] == here)
            name = place[len(top) + 1 :]
            if not last:
                if inside:
                    entries[name] = (name, found, 0)
            elif found is None and content is not None:
                raise LaunchFailed(f"{path} has gone", what=f"{path} has gone since it was checked")
            elif found is not None and path.endswith("/"):
                if inside:
                    entries[f"{name}/"] = (name, content, CLOSED if content is None else LISTED)
            elif content is None:
                if inside:
                    entries[name] = (name, None, 0)  # also of one that has come since it was checked
            elif inside:
                entries[name] = (name, content, _mode_of(place))
            else:
                outside[place] = content
    return list(entries.values()), list(outside.items())


def _way(path: str) -> Iterator[tuple[str, str | None, bool]]:
    """The links on the way to a file: place and text. The last is the file itself with an empty text, or the
    first place on the way where nothing is, with None.
    """
    done, rest = "/", path.split("/")[::-1]
    links = 0
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = os.path.dirname(done)
            continue
        place = os.path.join(done, name)
        try:
            text = os.readlink(place)
        except (FileNotFoundError, NotADirectoryError):
            yield place, None, True
            return
        except OSError:
            done = place  # no link
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        yield place, text, False
        done = "/" if text.startswith("/") else done
        rest += text.split("/")[::-1]
    yield done, "", True


def _mode_of(path: str) -> int:
    try:
        return stat.S_IMODE(os.lstat(path).st_mode) & 0o777
    except OSError:
        return 0o644


def _mount_of(folder: str) -> int | None:
    """The number of the mount that a folder is in: an overlay has only what is in one."""
    try:
        fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("mnt_id:")), None)
    except OSError:
        return None
    finally:
        os.close(fd)
