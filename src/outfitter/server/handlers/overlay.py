"""environment/overlay/*: what sessions add to their commands. Only what is no secret reaches the disk."""

from __future__ import annotations

from ...contract.overlays import refusals, why_no_scope
from ...env.overlay import describe, read, why_no_producer
from ...env.redact import Secrets, holding
from ...errors import InvalidParams, OverlayRefused
from ...protocol.overlay import DropResult, EventResult, OverlayResult, PutResult
from ..forks import enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...contract.overlays import Scopes
    from ...contract.settings import Settings
    from ...env.overlay import Overlay
    from ...protocol.documents import ContributionDocument
    from ...protocol.overlay import DropParams, EventParams, ListParams, PutParams
    from ..call import Call


def put(call: Call, params: PutParams) -> PutResult:
    """Takes a producer's words; says which variables they are about, and what was refused of them."""
    why = why_no_scope(params.scope) or why_no_producer(params.producer)
    if why:
        raise InvalidParams(why)
    enter(call, params.scope)
    contribution, rejected = read(params.producer, params.told)
    # Whether an entry is allowed is decided anew for every command; its producer is told now.
    scopes = _scopes(call)
    withheld = scopes.get(params.scope).withheld
    settings = _settings(call)
    refused = refusals(contribution, settings, withheld)
    rejected = (*rejected, *refused)
    if params.strict and rejected:
        raise OverlayRefused(params.producer, tuple(map(str, rejected)))
    contribution = contribution.without([one.name for one in refused if one.reason == "path"])
    scopes.put(params.scope, contribution, _owner(call), merge=params.merge, order=params.order)
    _remember(call, settings, params.scope)
    not_taken = {one.name for one in refused}
    return PutResult(
        [name for name in contribution.names if name not in not_taken],
        [(one.producer, one.name, one.reason, one.why) for one in rejected],
    )


def list_contributions(call: Call, params: ListParams) -> OverlayResult:
    """Names only: whoever knows a scope's id need not know its values."""
    enter(call, params.scope)
    overlay = _scopes(call).get(params.scope)
    return OverlayResult(_described(overlay), sorted(overlay.withheld), overlay.parent or None)


def drop(call: Call, params: DropParams) -> DropResult:
    """Forgets what a producer has said, or the whole session."""
    enter(call, params.scope)
    scopes = _scopes(call)
    if params.producer is not None:
        dropped = scopes.drop(params.scope, params.producer, params.names)
    elif params.names:
        raise InvalidParams("`names` needs a `producer`")
    else:
        dropped = params.scope in scopes and scopes.end(params.scope)
    if dropped:
        _remember(call, _settings(call), params.scope)
    return DropResult(dropped)


def event(call: Call, params: EventParams) -> EventResult:
    """Does to an overlay what the event does; says whose hooks must run again, and what is lost."""
    if params.event != "fork" and (params.to is not None or params.unset or params.hide_secrets):
        raise InvalidParams("`to`, `unset` and `hideSecrets` need the event `fork`")
    enter(call, params.scope)
    settings = _settings(call)
    unset = set(params.unset)
    if params.hide_secrets:
        unset.update(_secrets_of(call, settings, params.scope))
    outcome = _scopes(call).happened(
        params.scope,
        params.event,
        settings,
        _owner(call),
        to=params.to or "",
        unset=sorted(unset),
        hide_secrets=params.hide_secrets,
    )
    _remember(call, settings, outcome.overlay.id)
    return EventResult(_described(outcome.overlay), list(outcome.rerun), outcome.reason, list(outcome.lost))


def _described(overlay: Overlay) -> list[ContributionDocument]:
    return [describe(one) for one in overlay.contributions]


def _remember(call: Call, settings: Settings, scope: str) -> None:
    """Keeps what can be for the next server: neither secrets nor what has one of them in it."""
    scopes = _scopes(call)
    if scopes.keeps(scope):
        scopes.remember(scope, _secrets_of(call, settings, scope))


def _secrets_of(call: Call, settings: Settings, scope: str) -> set[str]:
    """The secrets that commands start from, those of the user's configuration and of the session, and what
    has one of them in it: a child that shall have none gets these neither.
    """
    base = call.session.base or call.services.environments.contract.base
    values = dict(base.values)
    if settings.user_policy is not None:
        values.update(settings.user_policy.set)
    if settings.user_env is not None:
        values.update((name, value) for name, value, _ in settings.user_env.set)
    secrets = Secrets(settings.secret_names)
    hidden = secrets.among(values)
    texts = list(values.items())
    for one in _scopes(call).get(scope).contributions:
        texts += one.texts
        names = frozenset(one.secret_names(secrets))
        hidden += [pair for pair in one.texts if pair[0] in names]
    return {*(name for name, _ in hidden), *(name for name, _ in holding(texts, hidden))}


def _settings(call: Call) -> Settings:
    return call.services.environments.contract.settings(None)


def _owner(call: Call) -> str:
    return call.session.id


def _scopes(call: Call) -> Scopes:
    """Those of who asks: nobody can list, change or use another principal's."""
    scopes, sessions = call.services.environments.contract.overlays.scopes, call.services.sessions
    scopes.share(sessions.sharing, sessions.knows)
    return scopes.of(call.principal)
