"""Descendants whose parents have died: adopted, reaped, and found at the server's end whatever they did.

As a child subreaper the server becomes the parent of every descendant that is left alone, so that the
whole tree stays below it: at its end, nothing is missed, not even a program that removed its mark. For a
server of its own only: an application that embeds one keeps its children to itself.
"""

from __future__ import annotations

import os

from .killing import kill
from .unix import adopt_orphans, below, children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop

# Dead orphans cost a slot in the process table until then.
_SWEEP_SECONDS = 5.0
_ROUNDS = 32  # as in host.tree


class Orphans:
    """Adopts orphans from now on; `is_ours` tells pids that somebody else waits for.

    `others` are children that were there before us: a script has started them, and then became this program
    (`exec outfitter serve --audit >(gzip > audit.gz)`). They, and what is below them, are not ours to end.
    """

    def __init__(self, loop: Loop, is_ours: Callable[[int], bool], others: set[int]) -> None:
        self._loop = loop
        self._is_ours = is_ours
        self.others = others
        self.adopting = adopt_orphans()
        if self.adopting:
            loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Reaps the orphans that have died."""
        self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                # One that is waited for elsewhere hides those behind it until the next sweep.
                if found is None or self._is_ours(found.si_pid):
                    return
                os.waitpid(found.si_pid, os.WNOHANG)
                self.others.discard(found.si_pid)  # the number may be anybody's now
            except OSError:
                return  # no child at all, most often

    def none_left(self, spare: int) -> bool:
        """Whether nothing but `spare` and the others is below this process, which a look at its children
        tells: whoever is left alone is one of them, and nobody but us makes them go away."""
        found = children() if self.adopting else None
        return found is not None and found <= {spare, *self.others}

    def kill_all(self, spare: int) -> bool:
        """SIGKILL for everything below this process but `spare` and the others, until a look finds no more.

        False when it could not look.
        """
        killed: set[int] = {spare}
        for _ in range(_ROUNDS):
            try:
                fresh = below(os.getpid()) - killed
                for other in self.others:
                    fresh -= {other, *below(other)}
            except OSError:
                return False
            if not fresh:
                return True
            for pid in fresh:
                kill(pid)
            killed |= fresh
        return False
