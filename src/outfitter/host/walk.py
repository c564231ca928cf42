"""Walks a tree for fs/walk; what is listed and when it stops is decided in `core.walk`."""

from __future__ import annotations

import os
import re
import stat
import time
from bisect import bisect
from functools import partial

from ..core.walk import DIRECTORY, FILE, OTHER, Walk
from .files import failed, open_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from typing import Protocol

    from ..core.walk import Found

    class Options(Protocol):
        """What protocol.filesystem.WalkParams says."""

        @property
        def max_depth(self) -> int: ...
        @property
        def max_directories(self) -> int: ...
        @property
        def max_entries(self) -> int: ...
        @property
        def follow_directories(self) -> bool: ...
        @property
        def prune_hidden(self) -> bool: ...

    class Entry(Protocol):
        """Those parts of an os.DirEntry that a walk uses."""

        @property
        def name(self) -> str: ...
        def is_file(self, *, follow_symlinks: bool) -> bool: ...
        def is_dir(self, *, follow_symlinks: bool) -> bool: ...
        def is_symlink(self) -> bool: ...
        def stat(self) -> os.stat_result: ...

    class Sight(Protocol):
        """How files are seen: as they are, or from inside a confinement. All may raise OSError."""

        def stat(self, path: str) -> os.stat_result: ...
        def is_link(self, path: str) -> bool: ...
        def real(self, path: str) -> str: ...
        def scan(self, path: str) -> AbstractContextManager[Iterable[Entry]]: ...
        def open_read(self, path: str) -> tuple[int, os.stat_result]: ...


class PlainSight:
    """Files as they are."""

    def stat(self, path: str) -> os.stat_result:
        return os.stat(path)

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def scan(self, path: str) -> AbstractContextManager[Iterable[Entry]]:
        return os.scandir(path)

    def open_read(self, path: str) -> tuple[int, os.stat_result]:
        return open_read(path)


PLAIN: Sight = PlainSight()


def walk(
    path: str,
    uri: str,
    options: Options,
    encode: Callable[[str], str],
    seconds: float,
    sight: Sight = PLAIN,
) -> Walk:
    """`encode` makes a name part of a URI. Raises OSError when the root is not there."""
    done = Walk(
        (path, "file://" if path == "/" else uri.rstrip("/")),
        max_depth=options.max_depth,
        max_directories=options.max_directories,
        max_entries=options.max_entries,
        prune_hidden=options.prune_hidden,
    )
    root = sight.stat(path)  # a link that leads nowhere is an error, followed or not
    if not stat.S_ISDIR(root.st_mode) or (not options.follow_directories and sight.is_link(path)):
        return done
    entered = {(root.st_dev, root.st_ino)} if options.follow_directories else None
    deadline = time.monotonic() + seconds
    while (folder := done.next()) is not None:
        if time.monotonic() > deadline:
            done.stop()
            break
        here, here_uri, depth = folder
        try:
            with sight.scan(here) as entries:
                files, others = _look(here_uri, entries, encode, follow=entered is not None)
        except OSError as error:
            done.failed(here_uri, str(failed(error)))
            continue
        fresh = None if entered is None else partial(_once, entered, sight)
        place = 0
        for other in others:
            following = bisect(files, other[0], place)
            done.saw_files(f"{here_uri}/", files[place:following])
            done.saw(here, depth, [other], fresh)
            place = following
        done.saw_files(f"{here_uri}/", files[place:] if place else files)
    return done


def _look(
    here_uri: str, entries: Iterable[Entry], encode: Callable[[str], str], *, follow: bool
) -> tuple[list[str], list[Found]]:
    """What a folder holds, sorted: the names of files that a URI holds as they are, and all the rest."""
    files: list[str] = []
    others: list[Found] = []
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            files.append(entry.name)
            continue
        kind, enter = OTHER, False
        if entry.is_symlink():
            # Links to files are never listed, links to folders only when they are followed.
            try:
                mode = entry.stat().st_mode
            except OSError:
                continue  # it leads nowhere, and does not count either
            if follow and stat.S_ISDIR(mode):
                kind, enter = DIRECTORY, True
        elif entry.is_dir(follow_symlinks=False):
            kind, enter = DIRECTORY, True
        others.append((entry.name, f"{here_uri}/{encode(entry.name)}", kind, enter))
    if _NOT_PLAIN.search("".join(files)):
        odd = [name for name in files if _NOT_PLAIN.search(name)]
        others += ((name, f"{here_uri}/{encode(name)}", FILE, False) for name in odd)
        files = [name for name in files if not _NOT_PLAIN.search(name)]
    files.sort()
    others.sort()
    return files, others


def _once(entered: set[tuple[int, int]], sight: Sight, path: str) -> bool:
    """Each folder is entered once, by whatever name: that ends cycles."""
    try:
        found = sight.stat(path)
    except OSError:
        return True  # who looks at it will say why
    if (found.st_dev, found.st_ino) in entered:
        return False
    entered.add((found.st_dev, found.st_ino))
    return True


# What a URI need not hold as it is; `encode` decides about names with these. One look for a whole folder.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9\-_.~+,=@]")
