"""initialize and environment/*."""

from __future__ import annotations

from ...protocol.jsontext import dumps
from ..limits import PROBE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...protocol.environment import ExplainParams, NoParams
    from ...protocol.jsonrpc import Request
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
    connection.session = session
    connection.client_name = params.client_name
    connection.peer.greeted()
    return f'{{"sessionId":"{session.id}","environmentInfo":{connection.server.info_text()}}}'


def info(connection: Connection, request: Request, params: NoParams) -> str:
    return connection.server.info_text()


def status(connection: Connection, request: Request, params: NoParams) -> str:
    return '{"status":"ready"}'


def explain(connection: Connection, request: Request, params: ExplainParams) -> str:
    """Every variable a command would see or lose, with origin and rule. Names only, never values."""
    resolved = connection.server.environments.resolve(params.env_policy, params.env, params.tty)
    variables = []
    for verdict in resolved.verdicts():
        entry: dict[str, object] = {
            "name": verdict.name.encode("utf-8", "replace").decode(),
            "kept": verdict.kept,
            "origin": {"kind": verdict.origin.kind, "detail": verdict.origin.detail},
            "rule": verdict.rule,
        }
        if verdict.replaced is not None:
            entry["replaced"] = {"kind": verdict.replaced.kind, "detail": verdict.replaced.detail}
        variables.append(entry)
    return dumps({"variables": variables})
