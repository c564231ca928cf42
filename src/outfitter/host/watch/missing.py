"""Watches for paths that are missing; which folders that takes is decided in `core.missing`.

`host.portable.missing` has the same class for other systems.
"""

from __future__ import annotations

import os
import stat

from ...core.missing import ABSENT, FOLDER, LINK, OTHER, UNKNOWN, Plan
from ...errors import OutfitterError
from ...log import note
from ..filecalls import FOLDER as OPENED
from ..pipes import let_go
from .inotify import ATTRIB, CREATE, DELETE, MODIFY, MOVED_FROM, MOVED_TO, tells_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ...loop import Loop
    from ..workers import Workers
    from .watching import Watching

    class Means(Protocol):
        """What it takes to watch. `watching` raises HostUnsupported, FileFailed."""

        loop: Loop

        @property
        def workers(self) -> Workers: ...
        @property
        def watching(self) -> Watching: ...


# A change of mode may open or close the way to a path.
_BITS = CREATE | DELETE | MOVED_FROM | MOVED_TO | ATTRIB
_FOLDER = OPENED | os.O_NOFOLLOW


class MissingWatch:
    """Calls `fire` once, on the loop, when one of the paths appears or `present` changes.

    Raises HostUnsupported, FileFailed.
    """

    def __init__(self, means: Means, fire: Callable[[], None], principal: str = "") -> None:
        self.principal = principal  # who watches
        self._watching = means.watching
        self._fire: Callable[[], None] | None = fire

    def arm(self, missing: list[str], present: str | None) -> bool:
        """Begins, in a thread; False when it cannot be done, or makes no sense any more."""
        plan = Plan(missing, present)
        try:
            while (folder := plan.next()) is not None:
                fd = os.open(folder.path, _FOLDER)
                try:
                    if not tells_all(fd):
                        plan.refuse()
                        break
                    bits = _BITS | MODIFY if folder.has_present else _BITS
                    self._watching.add(self, fd, bits, folder.names)
                    for name in folder.names:
                        folder.saw(name, _kind(fd, name))
                finally:
                    let_go(fd)
        except (OSError, OutfitterError) as error:
            # Whoever asks can look for itself instead; that is what False says.
            note("server", "!", "paths cannot be watched: %s", error)
            plan.refuse()
        if not plan.possible:
            self._watching.drop(self)
        return plan.possible

    def drop(self) -> None:
        """Watches no more; what is on its way may still be told."""
        self._watching.drop(self)

    # host.watch.watching.Watcher

    def event(self, key: frozenset[str], bits: int, name: str) -> None:
        # Without a name: the kernel has ended the watch, so nothing would be heard any more.
        if not name or name in key:
            self.overflowed()

    def overflowed(self) -> None:
        fire, self._fire = self._fire, None
        if fire is not None:
            fire()


def _kind(folder: int, name: str) -> str:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError):
        return UNKNOWN
    if stat.S_ISDIR(mode):
        return FOLDER
    return LINK if stat.S_ISLNK(mode) else OTHER
