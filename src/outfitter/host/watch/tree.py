"""Watches a folder, or a whole tree, and collects what changes in it (`core.changes`).

Everything is decided on the loop; threads only add watches and list folders. A folder is watched before it
is listed, so what appears in between is seen twice rather than not at all. Links are not followed.
"""

from __future__ import annotations

import errno
import os
import stat

from ...core.changes import CREATED, MODIFIED, REMOVED, Changes, Names
from ...errors import FileFailed, Refused
from ...log import warn
from ..pipes import let_go
from .inotify import (
    ATTRIB,
    CREATE,
    DELETE,
    DELETE_SELF,
    IGNORED,
    ISDIR,
    MODIFY,
    MOVE_SELF,
    MOVED_FROM,
    MOVED_TO,
    UNMOUNT,
)
from .notifying import tells_nothing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...formats.ignore import IgnoreRules
    from ...loop import Loop, Timer
    from ..sandbox.seen import SeenTree
    from ..workers import Workers
    from .watching import Watching

# What a machine says that has nothing left, not even a thread: nothing about the folder.
_SPENT = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN))
_BITS = CREATE | DELETE | MOVED_FROM | MOVED_TO | MODIFY | ATTRIB | DELETE_SELF | MOVE_SELF
# Events of a folder that is being listed; a folder with more news than this is listed again.
_HELD = 4096
# Between two looks at a whole tree whose events got lost: a flood goes on for a while.
_AGAIN_SECONDS = 1.0


class _Folder:
    """A watched folder; `path` is relative to the root, which is ""."""

    __slots__ = ("below", "held", "names", "path", "replaced", "watch")

    def __init__(self, path: str) -> None:
        self.path = path
        self.watch = -1
        self.names: Names | None = None  # None while it is being listed
        self.held: list[tuple[int, str]] = []  # what happened meanwhile
        self.below: set[str] = set()  # names of watched folders in it
        self.replaced = ""  # the name that was taken last by something that moved there

    def inner(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


class Listing:
    """What a thread found: watched folders, what is in them, and whether that is all."""

    __slots__ = ("complete", "folders", "found")

    def __init__(self) -> None:
        self.folders: list[tuple[_Folder, Names]] = []
        self.found: list[tuple[str, bool]] = []  # path, and whether it is a folder
        self.complete = True


class TreeWatch:
    """One watch. `told` is called on the loop whenever `changes` has something new.

    `incomplete` says that some folders could not be watched, so that changes may be missed.
    """

    def __init__(
        self,
        loop: Loop,
        workers: Workers,
        watching: Watching,
        path: str,
        *,
        recursive: bool,
        ignore: IgnoreRules | None,
        folders: int,
        changes: int,
        told: Callable[[], None],
        principal: str = "",
        sight: SeenTree | None = None,
    ) -> None:
        """`folders` and `changes` are how many of them it may have; `principal` is who watches; `sight` is
        how files are seen by who may not see all."""
        self._sight = sight
        self.principal = principal
        self._loop = loop
        self._workers = workers
        self._watching = watching
        self._root = path
        self._only: str | None = None  # the one name that matters, when a file is watched
        self._recursive = recursive
        self._ignore = ignore
        self._limit = folders
        self._told = told
        self._folders: dict[str, _Folder] = {}
        self._queue: list[str] = []  # folders that appeared and are to be listed
        self._listing = True  # a thread is at it; until `begin`, the one that arms
        self._gone: set[str] = set()  # what went while a thread was listing
        # Names that may be there again and are looked at, and who asked last; None: it went once more.
        self._sought: dict[str, tuple[_Folder, Names] | None] = {}
        self._lost = False  # events got lost: all is to be listed again
        self._again: Timer | None = None
        self._closed = False
        self._change_limit = changes
        self.changes = Changes(changes)
        self.incomplete = False

    def full(self, path: str) -> str:
        """The native path of a change."""
        return f"{self._root.rstrip('/')}/{path}" if path else self._root

    # Beginning

    def arm(self) -> Listing:
        """Watches and lists everything, in a thread. Raises OSError, Refused, FileFailed."""
        look = os.stat if self._sight is None else self._sight.stat
        if not stat.S_ISDIR(look(self._root).st_mode):
            # A file is watched by its name: many programs save by putting a new one in its place.
            folder, _, self._only = self._root.rpartition("/")
            self._root = folder or "/"
            self._recursive = False
        try:
            listing = self._list([""], self._limit, first=True)
            if not listing.complete:
                raise Refused(
                    f"this tree has more than {self._limit} directories: watch a part of it, or add to "
                    f"`ignore`"
                )
        except BaseException:
            self._watching.drop(self)
            raise
        return listing

    def begin(self, listing: Listing) -> None:
        """Takes what `arm` found; on the loop."""
        self._listed(listing, None, tell=False)

    # Threads

    def _list(self, paths: list[str], room: int, *, first: bool = False) -> Listing:
        """Watches and lists folders and all below them, as long as there is room for `room` of them.

        The first time, a limit of the machine is a reason not to begin; later, it makes the watch incomplete.
        """
        listing = Listing()
        pending = paths[::-1]
        while pending and not self._closed:
            path = pending.pop()
            if len(listing.folders) >= room:
                listing.complete = False
                break
            folder = _Folder(path)
            try:
                entries = self._watch_and_list(folder)
            except (FileFailed, OSError) as error:
                self._watching.remove(self, folder.watch, folder)
                spent = isinstance(error, FileFailed) or _is_spent(error)
                if (isinstance(error, OSError) and not path) or (spent and first):
                    raise
                if spent:
                    listing.complete = False
                    break
                continue  # it went again, or is not ours to read
            if entries is None:
                continue
            listing.folders.append((folder, Names(name for name, _ in entries)))
            for name, is_folder in entries:
                inner = folder.inner(name)
                if self._ignore is not None and self._ignore.ignores(inner, is_folder):
                    continue
                if len(listing.found) <= self._change_limit:
                    listing.found.append((inner, is_folder))
                if is_folder and self._recursive:
                    pending.append(inner)
        return listing

    def _watch_and_list(self, folder: _Folder) -> list[tuple[str, bool]] | None:
        """Name and is a folder of each entry; None for a folder that never tells anything."""
        if self._sight is not None:
            with self._sight.open(self._root, folder.path) as seen:
                folder.watch = self._watching.add(self, seen.fd, _BITS, folder)
                names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in seen]
            return [one for one in names if self._sight.tells(folder.inner(one[0]), one[1])]
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if folder.path else 0)
        fd = os.open(self.full(folder.path), flags)
        try:
            if tells_nothing(fd):
                if folder.path:
                    return None
                raise Refused("the kernel generates these files and does not report changes")
            folder.watch = self._watching.add(self, fd, _BITS, folder, self.full(folder.path))
            with os.scandir(fd) as entries:
                return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        finally:
            let_go(fd)

    # Listings

    def _take(self, listing: Listing, *, tell: bool) -> None:
        fresh: list[_Folder] = []
        for folder, names in listing.folders:
            parent = self._folders.get(folder.path.rpartition("/")[0])
            if _is_within(folder.path, self._gone) or (folder.path and parent is None):
                self._let_go([folder])
                continue
            self._forget(folder.path)
            self._folders[folder.path] = folder
            if parent is not None and folder.path:
                parent.below.add(folder.path.rpartition("/")[2])
            folder.names = names
            fresh.append(folder)
        if tell:
            for path, is_folder in listing.found:
                if not _is_within(path, self._gone):
                    self.changes.add(path, CREATED, folder=is_folder)
        if not listing.complete:
            self.incomplete = True
            self.changes.overflow()
        # Only now: what happened in one of them may concern another.
        for folder in fresh:
            held, folder.held = folder.held, []
            for bits, name in held:
                self.event(folder, bits, name)
        if self.changes:
            self._told()

    def _list_next(self) -> None:
        """One listing at a time; what comes meanwhile waits for the next."""
        if self._listing or self._closed or self._again is not None:
            return
        if self._lost:
            self._lost = False
            self._queue.clear()
            self._folders.clear()
            self._gone.clear()
            self._listing = True
            self._workers.run(self._list_all, self._listed_all)
        elif self._queue:
            paths, self._queue = self._queue, []
            room = self._limit - len(self._folders)
            self._gone.clear()
            self._listing = True
            self._workers.run(lambda: self._list(paths, room), self._listed)

    def _listed(self, listing: Listing, failure: BaseException | None, *, tell: bool = True) -> None:
        self._listing = False
        if self._closed:
            self._drop()
        elif _is_spent(failure):
            self._lost = True
        elif failure is not None:
            warn("server", "a watched directory could not be listed: %r", failure)
            self.incomplete = True
        elif not self._lost:
            self._take(listing, tell=tell)
        self._list_next()

    def _list_all(self) -> Listing:
        self._watching.drop(self)
        return self._list([""], self._limit)

    def _listed_all(self, listing: Listing, failure: BaseException | None) -> None:
        self._listing = False
        if self._closed:
            self._drop()
            return
        self._again = self._loop.call_later(_AGAIN_SECONDS, self._listed_long_ago)
        if _is_spent(failure):
            self._lost = True  # and looked for once more
        elif isinstance(failure, OSError):
            self._root_gone()
        elif failure is not None:
            warn("server", "a watched tree could not be listed again: %s", failure)
            self.incomplete = True
        elif not self._lost:
            self._take(listing, tell=False)
        # Told last: who looks now sees all that was missed, and everything after it is watched.
        self.changes.overflow()
        self._told()

    def _listed_long_ago(self) -> None:
        self._again = None
        self._list_next()

    # Events (host.watch.watching.Watcher)

    def event(self, folder: _Folder, bits: int, name: str) -> None:
        if self._closed:
            return
        if folder.names is None:
            if len(folder.held) < _HELD:
                folder.held.append((bits, name))
            else:
                self.overflowed()
        elif self._folders.get(folder.path) is not folder:
            return  # moved away or replaced meanwhile
        elif bits & (IGNORED | UNMOUNT) or not name:
            self._about_itself(folder, bits)
        elif self._only is None or name == self._only:
            self._about(folder, folder.names, bits, name)
        if self.changes:
            self._told()

    def overflowed(self) -> None:
        if not self._closed:
            self._lost = True
            self._list_next()

    def _about_itself(self, folder: _Folder, bits: int) -> None:
        if not folder.path and bits & (DELETE_SELF | MOVE_SELF | IGNORED | UNMOUNT):
            self._root_gone()
        elif bits & UNMOUNT:
            self._unmounted(folder)
        elif bits & IGNORED:
            self._forget(folder.path)
        elif not folder.path and bits & ATTRIB and self._only is None:
            self.changes.add("", MODIFIED)

    def _unmounted(self, folder: _Folder) -> None:
        """What was mounted is gone, with all that was in it; the folder that it hid is there again."""
        self.changes.add(folder.path, REMOVED, folder=True)
        self._forget(folder.path)
        above, _, name = folder.path.rpartition("/")
        parent = self._folders.get(above)
        if parent is not None and parent.names is not None:
            parent.names.discard(name)
            self._look_for(parent, parent.names, name)

    def _about(self, folder: _Folder, names: Names, bits: int, name: str) -> None:
        path, is_folder = folder.inner(name), bool(bits & ISDIR)
        if self._ignore is not None and self._ignore.ignores(path, is_folder):
            return
        if self._sight is not None and not self._sight.tells(path, is_folder):
            return
        if bits & (CREATE | MOVED_TO):
            if bits & MOVED_TO and name in names:
                # It took the place of another one, of which nothing else is said.
                folder.replaced = name
                if is_folder:
                    self.changes.add(path, REMOVED, folder=True)
                    self.changes.add(path, CREATED, folder=True)
                else:
                    self.changes.add(path, MODIFIED)
            else:
                self.changes.add(path, CREATED, folder=is_folder)
            names.add(name)
            if is_folder and self._recursive:
                self._appeared(path, moved=bool(bits & MOVED_TO))
        elif bits & (DELETE | MOVED_FROM):
            names.discard(name)
            self.changes.add(path, REMOVED, folder=is_folder)
            if is_folder:
                self._forget(path)
            if path in self._sought:
                self._sought[path] = None
            if bits & MOVED_FROM and name == folder.replaced:
                self._look_for(folder, names, name)
        elif name in names:
            # A file that is open but has no name any more, or none yet, is changed under a name nobody knows.
            self.changes.add(path, MODIFIED)

    def _look_for(self, folder: _Folder, names: Names, name: str) -> None:
        """Looks whether something has a name that went.

        Of two that change places (RENAME_EXCHANGE) the kernel says the same as of two renames in a row: one
        took the other's place, and went on from there. Two that do so all the time are looked at in turn.
        """
        path = folder.inner(name)
        is_under_way = path in self._sought
        asked = self._sought[path] = folder, names

        def looked(found: os.stat_result, failure: BaseException | None) -> None:
            last = self._sought.pop(path)
            if last is not asked:
                if last is not None:
                    self._look_for(*last, name)
            elif _is_spent(failure):
                self.overflowed()
            elif failure is None and name not in names:
                self.event(folder, MOVED_TO | (ISDIR if stat.S_ISDIR(found.st_mode) else 0), name)

        if not is_under_way:
            self._workers.run(lambda: os.lstat(self.full(path)), looked)

    def _appeared(self, path: str, *, moved: bool) -> None:
        if moved:
            self._forget(path)
        elif path in self._folders:
            return  # listed with the folder it is in
        self._queue.append(path)
        self._list_next()

    def _root_gone(self) -> None:
        """What was watched is not there any more, and nothing will be heard again."""
        self.changes.add(self._only or "", REMOVED, folder=self._only is None)
        self._forget("")
        self._queue.clear()
        self._drop()

    # Letting go

    def _forget(self, path: str) -> None:
        """A folder is gone, with all below it."""
        if self._listing:
            self._gone.add(path)
        if path not in self._folders:
            return
        above, _, name = path.rpartition("/")
        parent = self._folders.get(above)
        if parent is not None:
            parent.below.discard(name)
        gone, pending = [], [path]
        while pending:
            folder = self._folders.pop(pending.pop(), None)
            if folder is not None:
                gone.append(folder)
                pending.extend(map(folder.inner, folder.below))
        self._let_go(gone)

    def _let_go(self, folders: list[_Folder]) -> None:
        def remove() -> None:
            for folder in folders:
                self._watching.remove(self, folder.watch, folder)

        self._workers.run(remove, _nothing)

    def _drop(self) -> None:
        self._workers.run(lambda: self._watching.drop(self), _nothing)

    def close(self) -> None:
        """Nothing is told from now on."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self._folders.clear()
        self._queue.clear()
        self._drop()


def _is_spent(failure: BaseException | None) -> bool:
    return isinstance(failure, OSError) and failure.errno in _SPENT


def _is_within(path: str, folders: set[str]) -> bool:
    """Whether a path is one of these or lies below one, "" being the root. Both may be thousands: it looks at
    the folders above the path, not at each of those."""
    while path and path not in folders:
        path = path.rpartition("/")[0]
    return path in folders


def _nothing(_: object, __: BaseException | None) -> None:
    """For work whose result nobody waits for."""
