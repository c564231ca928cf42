"""How many descriptors the server may hold, and who has them: so that none is missing where it counts.

What lives for a while (a command, an open file, a search) takes its descriptors here first, and is refused
when they are spent, or when its principal has its share of them. Connections have a share of their own, so
that commands cannot lock clients out. Some are never given away: for the server itself, for what threads open
in passing, for modules that are imported late.
"""

from __future__ import annotations

import resource

from ..core.quotas import Sharing
from ..refusals import Exhausted
from ..stdlib import allocate_lock

# Never given away: an eighth of all, 256 at most. 64 threads with three each, and what the server itself has.
_RESERVED = 256
_RESERVED_PART = 8
# Connections may take a quarter of the rest: a client has most often a command or more.
_CONNECTIONS_PART = 4
# Those that nobody has vouched for may take a sixteenth: they come and go within milliseconds.
_STRANGERS_PART = 16
_PLENTY = 1 << 20  # where there is no limit; nobody gets so far


class Descriptors:
    """Counts for all connections of a server, from any thread."""

    def __init__(self, sharing: Sharing | None = None) -> None:
        self._lock = allocate_lock()
        self._sharing = sharing or Sharing()
        self._mine: dict[str, int] = {}  # by principal
        self.held = 0  # by all together
        self.limit = self.connections = self.strangers = 0
        self.measure()

    def measure(self) -> None:
        """Divides what the process may open now: again when that has changed."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._all = soft if 0 <= soft < _PLENTY else _PLENTY
        free = self._all - min(_RESERVED, self._all // _RESERVED_PART)
        self.connections = max(1, free // _CONNECTIONS_PART)
        self.strangers = max(1, free // _STRANGERS_PART)
        self.limit = free - self.connections - self.strangers

    def take(self, count: int, principal: str = "") -> None:
        """Raises Exhausted when there are not so many left for a principal; else they are to be given
        back."""
        with self._lock:
            mine = self._mine.get(principal, 0)
            if self._sharing.allows(self.limit, self.held, mine, count):
                self._add(count, principal)
                return
        if self.held + count <= self.limit:
            raise Exhausted(
                f"your commands, file handles and searches have {mine} of this server's open files, your "
                "share: end or close some",
                "EMFILE",
            )
        raise Exhausted(
            f"this server may open {self._all} files, and commands, file handles and searches have "
            f"{self.held} of the {self.limit} that are for them: end or close some, or raise its limit "
            f"(ulimit -n, or LimitNOFILE= in a systemd unit)",
            "EMFILE",
        )

    def adopt(self, count: int, principal: str = "") -> None:
        """So many are open already, whatever the limit is; they are to be given back, too."""
        with self._lock:
            self._add(count, principal)

    def give_back(self, count: int, principal: str = "") -> None:
        with self._lock:
            self._add(-count, principal)

    def _add(self, count: int, principal: str) -> None:
        self.held += count
        mine = self._mine.get(principal, 0) + count
        if mine:
            self._mine[principal] = mine
        else:
            self._mine.pop(principal, None)  # principals come and go
