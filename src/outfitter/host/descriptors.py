"""How many descriptors the server may hold, and who has them: so that none is missing where it counts.

What lives for a while (a command, an open file, a search) takes its descriptors here first, and is refused
when they are spent. Connections have a share of their own, so that commands cannot lock clients out. Some are
never given away: for the server itself, for what threads open in passing, for modules that are imported late.
"""

from __future__ import annotations

import resource

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

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self.held = 0
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

    def take(self, count: int) -> None:
        """Raises Exhausted when there are not so many left; else they are to be given back."""
        with self._lock:
            if self.held + count <= self.limit:
                self.held += count
                return
        raise Exhausted(
            f"this server may open {self._all} files, and commands, file handles and searches have "
            f"{self.held} of the {self.limit} that are for them: end or close some, or raise its limit "
            f"(ulimit -n, or LimitNOFILE= in a systemd unit)",
            "EMFILE",
        )

    def adopt(self, count: int) -> None:
        """So many are open already, whatever the limit is; they are to be given back, too."""
        with self._lock:
            self.held += count

    def give_back(self, count: int) -> None:
        with self._lock:
            self.held -= count
