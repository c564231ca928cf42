"""Commands for which startup files look empty, however deep down a shell is started.

A process of ours keeps a mount namespace for each set of files (`masking`), made with the first command that
needs it, and starts commands in it. It costs one idle process of about 8 MiB, and per command a fork and a
message: 1.5 ms more than a plain start (1.0 and 2.5 ms).
"""

from __future__ import annotations

import os

from ..core.abilities import refusal
from ..core.launch import Launch
from ..errors import MasksUnavailable
from ..system import LINUX
from .spawn import Stdio
from .starters import Starter, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .spawn import Spawner

# Sets of files at a time: each user and each HOME has one, and a startup file that comes or goes makes a new
# one. The oldest ends when there are more; its commands go on.
_NAMESPACES = 4


class Masks:
    """The namespaces of one server."""

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        self._starters: dict[tuple[str, ...], Starter] = {}

    @property
    def pids(self) -> list[int]:
        """The processes that keep the namespaces."""
        return [starter.pid for starter in self._starters.values()]

    def spawn(self, launch: Launch, stdio: Stdio, mark: int | None = None, group: str = "") -> int:
        """As `Spawner.spawn`, for a launch with masks. `group` is the control group that the child enters.

        Raises MasksUnavailable, LaunchFailed.
        """
        masks = launch.masks
        return started(
            lambda: self._starters.get(masks) or self._made(masks),
            lambda: self._starters.pop(masks).close(),
            launch,
            stdio,
            mark,
            group=group,
        )

    def _made(self, masks: tuple[str, ...]) -> Starter:
        while len(self._starters) >= _NAMESPACES:
            self._starters.pop(next(iter(self._starters))).close()
        starter = self._starters[masks] = _masking(self._spawner, masks)
        return starter

    def close(self) -> None:
        for starter in self._starters.values():
            starter.close()
        self._starters.clear()


def _masking(spawner: Spawner, masks: tuple[str, ...]) -> Starter:
    """A process that keeps a namespace. Raises MasksUnavailable."""
    if not LINUX:
        raise MasksUnavailable(refusal("mask"))
    starter = Starter(spawner, "host.masking", (list(masks),))
    try:
        why = starter.answer()
    except (EOFError, OSError) as error:
        why = f"the process that masks them did not start: {error}"
    if why:
        starter.close()
        raise MasksUnavailable(why)
    return starter


def existing(paths: list[str], exists: Callable[[str], bool] = os.path.exists) -> tuple[str, ...]:
    """Those that there are: nothing can be put in the place of what is not there."""
    return tuple([path for path in paths if exists(path)])


def check(paths: tuple[str, ...]) -> None:
    """Raises MasksUnavailable if startup files cannot be masked here."""
    from .unix import Spawner

    _masking(Spawner(), paths).close()
