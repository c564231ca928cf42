"""Which requests may run side by side: those that touch nothing in common, or only look.

A client that sends a write and then a read of the same path, without waiting in between, reads what it
wrote; a slow disk holds up nobody who does not need it. Paths are compared as they are written: two
names of one file by a link are two things here.
"""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Claim:
    """What one request looks at and what it changes, by name; a folder's name stands for all below it.

    `makes` are folders below which it may make others on its way: who comes later waits for it there, but it
    waits for nobody.
    """

    __slots__ = ("_changes", "_looks", "_touches", "abandoned", "begin", "blockers", "blocks", "holds")

    def __init__(
        self,
        looks: tuple[str, ...],
        changes: tuple[str, ...],
        begin: Callable[[], None],
        makes: tuple[str, ...] = (),
    ) -> None:
        self.begin = begin
        self.abandoned = False  # it runs, and takes nobody's place: its client has lost the connection
        self.blockers = 0  # how many that came before have to end first
        self.blocks: list[Claim] = []  # who waits for this one
        self._looks = looks
        self._changes = changes
        self._touches = looks + changes
        self.holds = changes + makes

    def conflicts(self, earlier: Claim) -> bool:
        # Plain loops: a busy connection asks this a thousand times for each of its requests.
        for theirs in earlier.holds:
            for mine in self._touches:
                if _overlap(mine, theirs):
                    return True
        for theirs in earlier._looks:
            for mine in self._changes:
                if _overlap(mine, theirs):
                    return True
        return False

    def hides(self, looks: tuple[str, ...]) -> bool:
        """Whether what is there now may not be what is there when this one is done."""
        return any(_overlap(mine, theirs) for theirs in self.holds for mine in looks)


def _overlap(one: str, other: str) -> bool:
    if len(one) > len(other):
        one, other = other, one
    return other.startswith(one) and (len(one) == len(other) or one[-1:] == "/" or other[len(one)] == "/")


class Lanes:
    """The unfinished requests of one client, in the order they came; at most `width` run at a time."""

    __slots__ = ("_claims", "_running", "_unblocked", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._claims: dict[Claim, None] = {}  # in order, and quickly forgotten
        self._unblocked: deque[Claim] = deque()  # could run, were there room
        self._running = 0

    def __len__(self) -> int:
        return len(self._claims)

    def free(self, looks: tuple[str, ...]) -> bool:
        """Whether a request that only looks at these could run now."""
        return not self._claims or not any(claim.hides(looks) for claim in self._claims)

    def add(self, claim: Claim) -> bool:
        """Whether it may begin now; else `done` will say so later."""
        for earlier in self._claims:
            if claim.conflicts(earlier):
                earlier.blocks.append(claim)
                claim.blockers += 1
        self._claims[claim] = None
        if claim.blockers:
            return False
        if self._running < self._width:
            self._running += 1
            return True
        self._unblocked.append(claim)
        return False

    def done(self, claim: Claim) -> list[Claim]:
        """Takes a finished one out; returns those that may begin now."""
        if not claim.abandoned:
            self._running -= 1
        self._release(claim)
        return self._ready()

    def abandon(self) -> list[Claim]:
        """The client has lost its connection. What comes over the next one waits for what is still being
        changed, but not for those who only look, and has the whole width. Returns those that may begin now.
        """
        waiting = set(self._unblocked)
        for claim in self._claims:
            claim.abandoned = not claim.blockers and claim not in waiting
        for claim in [one for one in self._claims if not one.holds]:
            self._release(claim)
        self._running = 0
        return self._ready()

    def _release(self, claim: Claim) -> None:
        self._claims.pop(claim, None)
        for later in claim.blocks:
            later.blockers -= 1
            if not later.blockers:
                self._unblocked.append(later)
        claim.blocks.clear()

    def _ready(self) -> list[Claim]:
        ready = []
        while self._unblocked and self._running < self._width:
            self._running += 1
            ready.append(self._unblocked.popleft())
        return ready
