"""environment/overlay/*: what sessions add to their commands, kept in this process and nowhere else."""

from __future__ import annotations

from ...contract.overlays import refusals, why_no_scope
from ...env.overlay import describe, read, why_no_producer
from ...env.redact import Secrets, holding
from ...errors import InvalidParams, OverlayRefused
from ...protocol.jsontext import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...contract.overlays import Scopes
    from ...contract.settings import Settings
    from ...env.overlay import Overlay
    from ...protocol.jsontext import Json
    from ...protocol.overlay import DropParams, EventParams, ListParams, PutParams
    from ..connection import Connection


def put(connection: Connection, params: PutParams) -> str:
    """Takes a producer's words; says which variables they are about, and what was refused of them."""
    why = why_no_scope(params.scope) or why_no_producer(params.producer)
    if why:
        raise InvalidParams(why)
    contribution, rejected = read(params.producer, params.told)
    # Whether an entry is allowed is decided anew for every command; its producer is told now.
    refused = refusals(contribution, _settings(connection))
    rejected = (*rejected, *refused)
    if params.strict and rejected:
        raise OverlayRefused(params.producer, tuple(map(str, rejected)))
    _scopes(connection).put(
        params.scope, contribution, _owner(connection), merge=params.merge, order=params.order
    )
    not_taken = {one.name for one in refused}
    told: list[Json] = [
        {"producer": one.producer, "name": one.name, "reason": one.reason, "why": one.why} for one in rejected
    ]
    return dumps({"names": [name for name in contribution.names if name not in not_taken], "rejected": told})


def list_contributions(connection: Connection, params: ListParams) -> str:
    """Names only: whoever knows a scope's id need not know its values."""
    overlay = _scopes(connection).get(params.scope)
    told = {"contributions": _described(overlay), "withheld": sorted(overlay.withheld)}
    return dumps({**told, "parent": overlay.parent or None})


def drop(connection: Connection, params: DropParams) -> str:
    """Forgets what a producer has said, or the whole session."""
    scopes = _scopes(connection)
    if params.producer is not None:
        return dumps({"dropped": scopes.drop(params.scope, params.producer, params.names)})
    if params.names:
        raise InvalidParams("`names` go with a `producer`")
    return dumps({"dropped": scopes.end(params.scope)})


def event(connection: Connection, params: EventParams) -> str:
    """Does to an overlay what the event does; says whose hooks must run again, and what is lost."""
    if params.event != "fork" and (params.to is not None or params.unset or params.hide_secrets):
        raise InvalidParams("`to`, `unset` and `hideSecrets` go with the event `fork` only")
    settings = _settings(connection)
    unset = set(params.unset)
    if params.hide_secrets:
        unset.update(_secrets_of(connection, settings, params.scope))
    outcome = _scopes(connection).happened(
        params.scope,
        params.event,
        settings,
        _owner(connection),
        to=params.to or "",
        unset=sorted(unset),
        hide_secrets=params.hide_secrets,
    )
    return dumps(
        {
            "contributions": _described(outcome.overlay),
            "rerun": list(outcome.rerun),
            "reason": outcome.reason,
            "lost": [{"producer": producer, "name": name} for producer, name in outcome.lost],
        }
    )


def _described(overlay: Overlay) -> list[dict[str, object]]:
    return [describe(one) for one in overlay.contributions]


def _secrets_of(connection: Connection, settings: Settings, scope: str) -> set[str]:
    """The secrets that commands start from, those of the user's configuration and of the session, and what
    has one of them in it: a child that shall have none gets these neither.
    """
    session = connection.session
    contract = connection.server.environments.contract
    base = contract.base if session is None or session.base is None else session.base
    values = dict(base.values)
    if settings.user_policy is not None:
        values.update(settings.user_policy.set)
    if settings.user_env is not None:
        values.update((name, value) for name, value, _ in settings.user_env.set)
    secrets = Secrets(settings.secret_names)
    hidden = secrets.among(values)
    texts = list(values.items())
    for one in _scopes(connection).get(scope).contributions:
        texts += one.texts
        names = frozenset(one.secret_names(secrets))
        hidden += [pair for pair in one.texts if pair[0] in names]
    return {*(name for name, _ in hidden), *(name for name, _ in holding(texts, hidden))}


def _settings(connection: Connection) -> Settings:
    return connection.server.environments.contract.settings(None)


def _owner(connection: Connection) -> str:
    assert connection.session is not None, "the handshake guarantees a session"
    return connection.session.id


def _scopes(connection: Connection) -> Scopes:
    scopes = connection.server.environments.contract.overlays.scopes
    scopes.is_alive = connection.server.sessions.knows
    return scopes
