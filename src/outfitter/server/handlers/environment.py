"""initialize and environment/*."""

from __future__ import annotations

from ...contract.contract import Ready
from ...errors import InvalidParams
from ...host import facts
from ...protocol import codes, jsonrpc
from ...protocol.jsontext import dumps
from ..limits import PROBE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...contract.base import Base
    from ...contract.contract import Asked
    from ...protocol.environment import BaseParams, DiffParams, NoParams, ResolveParams
    from ...protocol.jsonrpc import Request
    from ...protocol.overlay import DropParams, EventParams, ListParams, PutParams
    from ...protocol.session import InitializeParams
    from ..connection import Connection


def initialize(connection: Connection, request: Request, params: InitializeParams) -> str:
    sessions = connection.server.sessions
    if params.resume_session_id is None:
        session = sessions.create(connection)
    else:
        session = sessions.resume(
            params.resume_session_id, connection, PROBE_SECONDS, take_over=params.take_over
        )
    session.summaries = params.environment_summary
    connection.session = session
    connection.client_name = params.client_name
    connection.peer.greeted()
    return f'{{"sessionId":"{session.id}","environmentInfo":{connection.server.info_text()}}}'


def info(connection: Connection, request: Request, params: NoParams) -> str:
    return connection.server.info_text()


def status(connection: Connection, request: Request, params: NoParams) -> str:
    return '{"status":"ready"}'


def resolve(connection: Connection, request: Request, params: ResolveParams) -> str | None:
    """What a command would get. Values only when they are asked for."""
    from ...contract import answers

    asked = _asked(connection, params)
    if _asks_first(connection, request, asked):
        return None
    return dumps(
        answers.resolve(
            connection.server.environments.contract,
            asked,
            params.show,
            base=_base(connection),
            digest_key=params.digest_key,
        )
    )


def explain(connection: Connection, request: Request, params: ResolveParams) -> str | None:
    """Every variable a command would see or lose, with its whole history."""
    from ...contract import answers

    contract = connection.server.environments.contract
    asked, base = _asked(connection, params), _base(connection)
    if _asks_first(connection, request, asked):
        return None
    if not params.login:
        return dumps(answers.explain(contract, asked, params.show, base=base, programs=params.programs))
    mark = _mark(connection)
    wait = answers.explain_later(contract, asked, params.show, base=base, programs=params.programs, mark=mark)
    _later(connection, request, lambda: dumps(wait()))  # a login shell takes its time
    return None


def diff(connection: Connection, request: Request, params: DiffParams) -> str | None:
    """Two environments of this executor, compared here."""
    from ...contract import answers

    contract, base = connection.server.environments.contract, _base(connection)
    a, b = _asked(connection, params.a), _asked(connection, params.b)
    if _asks_first(connection, request, a) or _asks_first(connection, request, b):
        return None
    return dumps(answers.compare(contract, a, b, base_a=base, base_b=base))


def base(connection: Connection, request: Request, params: BaseParams) -> str:
    """Whose environment this session's commands start from, and in what the client's differs from ours."""
    environments = connection.server.environments
    session = connection.session
    assert session is not None, "the handshake guarantees a session"
    session.base = environments.base_of(params)
    differences = environments.differences(params)
    return dumps(
        {
            "base": (session.base or environments.contract.base).describe(),
            "matchesClient": not any(differences.values()),
            "differences": differences,
        }
    )


# What does the work is imported when somebody has an overlay.


def overlay_put(connection: Connection, request: Request, params: PutParams) -> str:
    from .overlay import put

    return put(connection, params)


def overlay_list(connection: Connection, request: Request, params: ListParams) -> str:
    from .overlay import list_contributions

    return list_contributions(connection, params)


def overlay_drop(connection: Connection, request: Request, params: DropParams) -> str:
    from .overlay import drop

    return drop(connection, params)


def overlay_event(connection: Connection, request: Request, params: EventParams) -> str:
    from .overlay import event

    return event(connection, params)


def _asked(connection: Connection, params: ResolveParams) -> Asked:
    try:
        cwd = facts.working_directory() or "/" if params.cwd is None else params.cwd.local_path()
    except ValueError as error:
        raise InvalidParams(f"cwd is not a path of this executor: {error}") from None
    environments = connection.server.environments
    return environments.asked(cwd, params.env, params.env_policy, params.contract, params.tty)


def _asks_first(connection: Connection, request: Request, asked: Asked) -> bool:
    """Whether providers must be asked before this can be answered; it is, when they have been."""
    ready = connection.server.environments.contract.next(asked, _base(connection))
    if isinstance(ready, Ready):
        return False
    connection.server.asking.first(connection, request, ready)
    return True


def _base(connection: Connection) -> Base | None:
    return None if connection.session is None else connection.session.base


def _mark(connection: Connection) -> int:
    """For a program of ours that is to end with the session, and with the server however that ends."""
    sessions = connection.server.sessions
    sessions.watchdog.ensure()
    assert connection.session is not None, "the handshake guarantees a session"
    return sessions.marks.new(connection.session.number)


def _later(connection: Connection, request: Request, work: Callable[[], str]) -> None:
    """Answers from a thread."""
    from _thread import allocate_lock

    from ...errors import OutfitterError
    from ...log import warn

    connection.peer.wait(request.id)
    sessions = connection.server.sessions
    ended = allocate_lock()
    ended.acquire()
    sessions.other_begins(ended)

    def run() -> str:
        try:
            return work()
        finally:
            ended.release()

    def done(text: str | None, failure: BaseException | None) -> None:
        sessions.other_ended(ended)
        if connection not in connection.server.connections:
            return
        connection.peer.answered(request.id)
        if text is not None:
            connection.reply(jsonrpc.result_text(request.id, text))
        elif isinstance(failure, OutfitterError):
            connection.reply(jsonrpc.error(request.id, *codes.of(failure)))
        else:
            # Its text may be sensitive.
            warn("server", "%s failed: %s", request.method, type(failure).__name__)
            internal = {"error": "internal-error"}
            connection.reply(jsonrpc.error(request.id, codes.INTERNAL, "internal error", internal))

    connection.server.workers.run(run, done)
