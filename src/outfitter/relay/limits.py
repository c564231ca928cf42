"""How much of the service anybody may have: every number of it, with its reason.

Before somebody is known, an address counts: `transport.attempts` bounds how many connections may wait, and
has each refusal answered later than the one before. After that, the principal counts. Each service of a store
counts for itself.
"""

from __future__ import annotations

import resource

from ..core.rates import Rate
from ..record import record
from ..transport.attempts import PENDING

# Calls of one principal. An executor of the reference ends when it is refused here: only one that starts anew
# every second is.
RATES = {
    "register": Rate(minute=60, burst=60),
    # An executor of a pool registers for each lease: as often as its users connect. See `Authority._caller`.
    "pool register": Rate(minute=1200, burst=256),
    # A user's tools connect for each command: twenty in a second, and all of an executor's streams at once
    # when its connection was lost.
    "connect": Rate(minute=1200, burst=256),
    # As many as its users may begin together.
    "validate": Rate(minute=2400, burst=512),
}
# Sockets of one principal: twice what one executor of the reference serves at a time. Streams follow from
# it: `core.routing` has those of one socket and of one executor.
SOCKETS_PER_PRINCIPAL = 256
MAX_SOCKETS = 20_000  # each takes a descriptor and about 10 kB
MAX_API_CONNECTIONS = 2_000  # each takes a descriptor, and is idle for a minute at most
MAX_TUNNELS = 5_000  # to other services of the store; each takes two descriptors
# The store, the log, the loop, a thread that dials, modules that are imported late.
_OWN = 64
_PLENTY = 1 << 20  # where there is no limit; nobody gets so far

# How long somebody waits for the store. An executor of the reference gives up after 10 s, a harness after 6.
STORE_SECONDS = {"register": 9.0, "validate": 9.0}
OTHER_STORE_SECONDS = 5.0
QUEUED = 10_000  # questions that wait for the store; then whoever asks comes again later

# What the store remembers of what has happened: a busy day of a hundred executors. A row has 200 bytes.
AUDIT_ROWS = 100_000
AUDIT_SECONDS = 90 * 86_400.0
PRUNE_SECONDS = 60.0  # between two looks for what has expired


@record
class RelayRoom:
    """How many of each kind there may be at a time."""

    files: int
    sockets: int
    api: int
    tunnels: int
    strangers: int


def room(files: int) -> RelayRoom:
    """What a process may have that may open so many files."""
    free = max(0, files - _OWN)
    strangers = max(1, min(PENDING, free // 16))
    api = max(1, min(MAX_API_CONNECTIONS, free // 8))
    tunnels = max(1, min(MAX_TUNNELS, free // 16))
    # Twice strangers: of those whose refusal comes later there are as many.
    sockets = min(MAX_SOCKETS, free - 2 * strangers - api - 2 * tunnels)
    return RelayRoom(files, max(1, sockets), api, tunnels, strangers)


def raise_file_limit() -> int:
    """Lets this process open as many files as it may; how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError):
        pass  # some kernels do not allow their own limit
    return soft if 0 <= soft < _PLENTY else _PLENTY
