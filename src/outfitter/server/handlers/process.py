"""process/*: the requests of a session's processes."""

from __future__ import annotations

from ...contract.contract import Ready
from ...core.launch import Launch
from ...errors import InvalidParams, Refused
from ...protocol.jsontext import dumps, quote
from ...protocol.process import ProcessSummary
from ...protocol.uri import from_path
from ...shell.start import is_shell
from ..limits import (
    LONGEST_WAIT_SECONDS,
    QUICK_COMMAND_SECONDS,
    QUICK_ECHO_SECONDS,
    QUICK_SERIES_SECONDS,
)
from ..session import UNKNOWN_PROCESS
from ..shells import plan_shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...host.process import Process
    from ...protocol.environment import NoParams
    from ...protocol.jsonrpc import Request
    from ...protocol.jsontext import Json
    from ...protocol.process import (
        AttachParams,
        ReadParams,
        ResizeParams,
        SignalParams,
        StartParams,
        TerminateParams,
        WriteParams,
    )
    from ..connection import Connection
    from ..session import Session

DEFAULT_ROWS, DEFAULT_COLS = 24, 80  # the reference's fixed size


def start(connection: Connection, request: Request, params: StartParams) -> str | None:
    session = _session(connection)
    try:
        cwd = params.cwd.local_path()
    except ValueError as error:
        raise InvalidParams(
            f"cwd URI `{params.cwd.text}` is not valid on this exec-server host: {error}"
        ) from None
    if params.restriction is not None:
        raise InvalidParams("sandbox intent cannot be enforced on this executor")
    if not params.argv:
        raise InvalidParams("argv must not be empty")
    program = params.argv[0]
    argv: Sequence[str] = params.argv if params.arg0 is None else [params.arg0, *params.argv[1:]]
    environments = connection.server.environments
    asked = environments.asked(cwd, params.env, params.env_policy, params.contract, params.tty)
    ready = environments.contract.next(asked, session.base)
    if not isinstance(ready, Ready):
        told = params.process_id if params.contract is not None else None
        connection.server.asking.first(connection, request, ready, params.process_id, tell=told)
        return None
    resolved = environments.contract.environment(ready)
    env: Mapping[str, str] = resolved.values
    shell = None
    if is_shell(program):
        shell = plan_shell(
            program,
            argv,
            cwd,
            env,
            environments.contract,
            params.contract,
            report=session.summaries,
            wrapped=bool(ready.prefix),
            settings=ready.settings,
        )
        if shell is not None:
            argv, env = shell.argv, shell.env
    if ready.prefix:
        if params.arg0 is not None:
            raise InvalidParams("arg0 is lost: a provider of this project starts its commands (mode wrap)")
        program, argv = ready.prefix[0], [*ready.prefix, program, *argv[1:]]
    rows = cols = 0
    if params.tty:
        rows, cols = DEFAULT_ROWS, DEFAULT_COLS
        if params.size is not None:
            rows, cols = params.size.rows, params.size.cols
    launch = Launch(program, argv, cwd, env, pipe_stdin=params.pipe_stdin, rows=rows, cols=cols)
    session.start(params.process_id, launch, shell)
    answered = connection.server.answered
    if answered is not None and connection.server.sessions.running == 1:
        answered(QUICK_SERIES_SECONDS, QUICK_COMMAND_SECONDS)
    more = ""
    if ready.warnings:
        if params.contract is not None:
            more = f',"warnings":{dumps(list(ready.warnings))}'
        else:
            environments.say(ready.warnings)  # its protocol has no place for it
    if session.summaries:
        more += f',"environment":{dumps(environments.summary(resolved, session.base, shell))}'
    return f'{{"processId":{quote(params.process_id)},"sandboxType":"none"{more}}}'


def read(connection: Connection, request: Request, params: ReadParams) -> str | None:
    session = _session(connection)
    return session.read(session.get(params.process_id), request.id, params, LONGEST_WAIT_SECONDS)


def write(connection: Connection, request: Request, params: WriteParams) -> str | None:
    session = _session(connection)
    process = session.processes.get(params.process_id)
    if process is None:
        return UNKNOWN_PROCESS
    answer = session.write(process, request.id, params)
    if connection.server.answered is not None:
        connection.server.answered(look=QUICK_ECHO_SECONDS)
    return answer


def signal(connection: Connection, request: Request, params: SignalParams) -> str:
    process = _session(connection).processes.get(params.process_id)
    if process is not None:
        process.interrupt()
    return "{}"


def terminate(connection: Connection, request: Request, params: TerminateParams) -> str:
    process = _session(connection).processes.get(params.process_id)
    grace = min(params.grace_ms / 1000, LONGEST_WAIT_SECONDS)
    running = process is not None and process.terminate(grace)
    return '{"running":true}' if running else '{"running":false}'


def resize(connection: Connection, request: Request, params: ResizeParams) -> str:
    process = _session(connection).get(params.process_id)
    if not process.resize(params.size.rows, params.size.cols):
        raise Refused(f"process {params.process_id} has no open terminal")
    return "{}"


def list_processes(connection: Connection, request: Request, params: NoParams) -> str:
    """The processes of this session, oldest first. Command lines are not shown: they may hold secrets."""
    processes = _session(connection).processes.values()
    return dumps({"processes": [_summary(process) for process in processes]})


def attach(connection: Connection, request: Request, params: AttachParams) -> str | None:
    """Answers with the state, then sends what is retained after `afterSeq` again."""
    from ...protocol.jsonrpc import result

    session = _session(connection)
    process = session.get(params.process_id)
    connection.reply(result(request.id, _summary(process)))
    connection.push(*session.replay(process, params.after_seq))
    return None


def _summary(process: Process) -> Json:
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
    ).encode()


def _session(connection: Connection) -> Session:
    session = connection.session
    assert session is not None, "the handshake guarantees a session"
    return session
