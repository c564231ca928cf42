"""server/*: the requests of whoever looks after a server, or after what is theirs on it."""

from __future__ import annotations

import os

from ... import VERSION
from ...errors import HostUnsupported, OperatorOnly
from ...protocol.operating import SIGNALS, DrainResult, KillResult, SessionsResult, SessionSummary
from ..limits import LONGEST_GRACE_SECONDS
from .listing import summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...protocol.environment import NoParams
    from ...protocol.operating import KillParams
    from ..call import Call


def sessions(call: Call, params: NoParams) -> SessionsResult:
    """The sessions of the caller's principal; an operator sees all."""
    known, operator = call.services.sessions, call.services.is_operator(call.principal)
    found = [
        SessionSummary(
            one.id,
            one.principal,
            one.client,
            one.peer,
            one.opened_ms,
            one.detached_ms,
            one.operates,
            [summary(process) for process in one.processes],
        )
        for one in known.overview(None if operator else call.principal)
    ]
    drain = call.services.drain
    since = drain.since_ms if drain is not None and drain.since_ms else None
    return SessionsResult(call.principal, operator, VERSION, os.getpid(), since, found)


def kill(call: Call, params: KillParams) -> KillResult:
    """Ends a command, or sends it a signal. What belongs to others does not exist, except for an operator."""
    whose = None if call.services.is_operator(call.principal) else call.principal
    session, process = call.services.sessions.find_process(
        whose, params.pid, params.session_id, params.process_id
    )
    running = not process.exited
    if params.signal in (None, "KILL"):
        process.terminate(min(params.grace_ms / 1000, LONGEST_GRACE_SECONDS))
    else:
        process.signal(SIGNALS[params.signal or ""])
    call.observe(
        "killed",
        of=session.principal,
        ofSession=session.id[:8],
        process=process.process_id,
        pid=process.pid,
        signal=params.signal,
    )
    return KillResult(session.id, process.process_id, process.pid, running)


def drain(call: Call, params: NoParams) -> DrainResult:
    """Takes no more sessions; the server ends when nothing is left. Raises OperatorOnly, HostUnsupported."""
    if not call.services.is_operator(call.principal):
        raise OperatorOnly(call.principal, "drain this server")
    drain = call.services.drain
    if drain is None:
        raise HostUnsupported("this server is part of a program and ends with it: end that program instead")
    if drain.begin():
        call.observe("draining")
    return DrainResult(drain.since_ms, call.services.sessions.in_use(call.services.loop.time()))
