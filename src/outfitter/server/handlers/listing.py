"""process/list and process/attach: what runs in a session, for whoever comes back to it."""

from __future__ import annotations

from ...protocol.listing import ListResult, ProcessSummary
from ...protocol.uri import from_path
from ..call import LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...host.process import Process
    from ...protocol.environment import NoParams
    from ...protocol.listing import AttachParams
    from ..call import Call, Later


def list_processes(call: Call, params: NoParams) -> ListResult:
    """The processes of this session, oldest first. Command lines are not shown: they may hold secrets."""
    return ListResult([summary(process) for process in call.session.processes.values()])


def attach(call: Call, params: AttachParams) -> Later:
    """Answers with the state, then sends what is retained after `afterSeq` again."""
    session = call.session
    process = session.get(params.process_id)
    call.answer(summary(process))
    call.push(session.replay(process, params.after_seq))
    return LATER


def summary(process: Process) -> ProcessSummary:
    log = process.log
    return ProcessSummary(
        process.process_id,
        process.pid,
        process.argv0,
        from_path(process.cwd),
        process.tty,
        process.started_ms,
        log.first_seq(),
        log.next_seq,
        log.exited,
        log.exit_code,
        log.closed,
        log.dropped_bytes,
    )
