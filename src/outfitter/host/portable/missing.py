"""Watches for paths that are missing, by looking at every name on the way to them, again and again.

A look takes some microseconds a name. It needs no extra package, sees what other machines do in a folder that
they share, and knows where `a` and `A` are one name. What came and went between two looks is never told.
"""

from __future__ import annotations

import os
import stat
import time

from ...core.missing import ABSENT, FOLDER, LINK, OTHER, UNKNOWN, Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..watch.missing import Means

    # By path: what makes one thing another, or other than it was. None is a name that is absent.
    Seen = dict[str, tuple[int, ...] | None]

_PAUSE_SECONDS = 0.2  # between two looks: who waits for a file to be made notices no shorter time
_REST = 50  # times as long as a look took is the least until the next: a fiftieth of one core is enough


class MissingWatch:
    """Calls `fire` once, on the loop, when one of the paths appears or `present` changes."""

    def __init__(self, means: Means, fire: Callable[[], None], principal: str = "") -> None:
        self._loop = means.loop
        self._workers = means.workers
        self._fire: Callable[[], None] | None = fire
        self._paths: tuple[list[str], str | None] = [], None
        self._seen: Seen | None = None
        self._pause = _PAUSE_SECONDS

    def arm(self, missing: list[str], present: str | None) -> bool:
        """Begins, in a thread; False when it cannot be done, or makes no sense any more."""
        self._paths = missing, present
        self._seen = look(missing, present)
        if self._seen is not None:
            self._loop.call_soon_threadsafe(self._rest)
        return self._seen is not None

    def drop(self) -> None:
        """Watches no more; what is on its way may still be told."""
        self._fire = None

    # On the loop

    def _rest(self) -> None:
        if self._fire is not None:
            self._loop.call_later(self._pause, self._look_again)

    def _look_again(self) -> None:
        if self._fire is not None:
            self._workers.run(self._is_same, self._looked)

    def _looked(self, same: bool, failure: BaseException | None) -> None:
        if same or failure is not None:  # no thread could be had, say
            self._rest()
            return
        fire, self._fire = self._fire, None
        if fire is not None:
            fire()

    # In a thread

    def _is_same(self) -> bool:
        began = time.monotonic()
        same = look(*self._paths) == self._seen
        self._pause = max(_PAUSE_SECONDS, _REST * (time.monotonic() - began))
        return same


def look(missing: list[str], present: str | None) -> Seen | None:
    """What every name on the way to these paths is now; None when they are not to be waited for."""
    plan = Plan(missing, present)
    seen: Seen = {}
    while (folder := plan.next()) is not None:
        for name in folder.names:
            path = f"{folder.path.rstrip('/')}/{name}"
            kind, seen[path] = _state(path)
            folder.saw(name, kind)
    return seen if plan.possible else None


def _state(path: str) -> tuple[str, tuple[int, ...] | None]:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ABSENT, None
    except (OSError, ValueError):
        return UNKNOWN, None
    same = found.st_dev, found.st_ino, found.st_mode
    if stat.S_ISDIR(found.st_mode):
        return FOLDER, same  # what happens in it is not waited for
    return LINK if stat.S_ISLNK(found.st_mode) else OTHER, (*same, found.st_size, found.st_mtime_ns)
