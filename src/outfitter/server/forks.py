"""A session that came in as a fork stays one: the scopes of its parents are not its own.

Who made the fork, or what it was forked from, uses both. This keeps a subagent from widening itself by
accident; between users and tokens it is the principal that keeps scopes apart.
"""

from __future__ import annotations

from ..errors import InvalidParams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .call import Call


def enter(call: Call, scope: str) -> None:
    """Notes whose session it is when it names its first fork. Raises InvalidParams for a parent's scope."""
    session = call.session
    if session.fork:
        if session.fork.startswith(f"{scope}/"):
            raise InvalidParams(
                f"this session belongs to the fork `{session.fork}`, which may have less than `{scope}`: "
                f"name the fork itself"
            )
    elif "/" in scope:
        scopes = call.services.environments.contract.overlays.scopes.of(call.principal)
        if scope in scopes and not scopes.is_made_by(session.id, scope):
            session.fork = scope
