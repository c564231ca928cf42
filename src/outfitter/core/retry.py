"""Which failures of an attempt to come back are worth another one, and when it is due."""

from __future__ import annotations

from ..errors import DialFailed, Disconnected, OutfitterError, RequestFailed
from ..protocol.codes import SESSION_ATTACHED

STEP_SECONDS = 0.1  # the reference's: the gap is usually a dropped link or a restarted proxy
STEPS = 250  # as many fit into its 25 s; who waits longer waits for a laptop or a network, so
LONGEST_SECONDS = 5.0  # the steps then double up to this, which nobody notices and no server minds

# What depends on the connection that it was sent on: a handle, a watch.
_OF_ONE_CONNECTION = frozenset(
    ("fs/open", "fs/readBlock", "fs/writeBlock", "fs/close", "fs/watch", "fs/unwatch", "fs/watchMissing")
)


def after_restart(method: str) -> bool:
    """Whether a request that a restarting server has not handled means the same to its next version."""
    return method not in _OF_ONE_CONNECTION


def retryable(error: OutfitterError) -> bool:
    """Whether the same attempt may succeed later.

    The session of a connection that the server has not given up yet is "attached" still: it will be
    free when the server notices.
    """
    if isinstance(error, DialFailed):
        return error.retryable
    if isinstance(error, RequestFailed):
        return error.code == SESSION_ATTACHED
    return isinstance(error, Disconnected)


def delay(attempts: int) -> float:
    """Seconds before the next attempt, after so many that failed. The first one is made at once."""
    if attempts == 0:
        return 0.0
    if attempts <= STEPS:
        return STEP_SECONDS
    return min(LONGEST_SECONDS, STEP_SECONDS * 2.0 ** min(attempts - STEPS, 16))
