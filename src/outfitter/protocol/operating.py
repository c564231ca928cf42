"""server/* (ours): what runs on a server, for whoever it belongs to and for operators."""

from __future__ import annotations

from .fields import Fields, wrong
from .listing import ProcessSummary as ProcessSummary
from .results import Result
from .shape import Shape, choice, member, shape

# The signals that server/kill sends: those that a person would send. The numbers are Linux's on every machine
# that we know.
SIGNALS = {
    "HUP": 1,
    "INT": 2,
    "QUIT": 3,
    "KILL": 9,
    "USR1": 10,
    "USR2": 12,
    "TERM": 15,
    "CONT": 18,
    "STOP": 19,
}


@shape()
class SessionSummary(Shape):
    """One entry of server/sessions. `peer` is None while no client holds it, `detached_for_ms` while one
    does."""

    session_id: str
    principal: str
    client: str
    peer: str | None
    opened_at_ms: int
    detached_for_ms: int | None
    operates: bool
    processes: list[ProcessSummary]


@shape()
class SessionsResult(Result):
    """server/sessions: the sessions that the caller may see, oldest first, and who the caller is."""

    principal: str
    operator: bool
    version: str
    pid: int
    draining_since_ms: int | None
    sessions: list[SessionSummary]


def _check(fields: Fields) -> None:
    """A command is named by its pid, or by its session and its own id."""
    by_pid = fields.unsigned_or_none("pid") is not None
    by_id = fields.text_or_none("sessionId") is not None and fields.text_or_none("processId") is not None
    if by_pid == by_id:
        raise wrong(None, "either `pid` or `sessionId` and `processId`")


@shape(before=_check)
class KillParams(Shape):
    """server/kill. Without `signal` the command is terminated, as process/terminate does it."""

    pid: int | None = member(default=None, omit=True)
    session_id: str | None = member(default=None, omit=True)
    process_id: str | None = member(default=None, omit=True)
    signal: str | None = member(choice(*SIGNALS), default=None, omit=True)
    grace_ms: int = member(default=0, null=True, omit=True)


@shape()
class KillResult(Result):
    """server/kill: which command it was, and whether its leader was still running."""

    session_id: str
    process_id: str
    pid: int
    running: bool


@shape()
class DrainResult(Result):
    """server/drain: since when no new sessions are taken, and how many the server still waits for."""

    since_ms: int
    sessions: int


@shape()
class UpgradesParams(Shape):
    """server/upgrades (ours): waits for one more than `after`, if that is given."""

    after: int | None = None


@shape()
class UpgradesResult(Result):
    """How often the server was asked to replace itself, and what came of it the last time.

    `outcome` is "none", "upgraded" or "refused"; `reason` says why it was refused.
    """

    count: int
    outcome: str
    reason: str
    version: str
    pid: int
