"""initialize."""

from __future__ import annotations

from ...protocol.session import InitializeResult
from ..call import LATER
from ..limits import PROBE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...protocol.operating import UpgradesParams, UpgradesResult
    from ...protocol.session import InitializeParams
    from ..call import Call, Later


def initialize(call: Call, params: InitializeParams) -> InitializeResult:
    sessions = call.services.sessions
    if params.resume_session_id is None:
        session = sessions.create(call.channel, operates=params.operate)
    else:
        session = sessions.resume(
            params.resume_session_id, call.channel, PROBE_SECONDS, take_over=params.take_over
        )
    session.client_name = params.client_name
    session.summaries = params.environment_summary
    call.greet(session, params.client_name)
    sessions.opened(session, call.channel, resumed=params.resume_session_id is not None)
    return InitializeResult(session.id, call.services.info)


def upgrades(call: Call, params: UpgradesParams) -> UpgradesResult | Later:
    return call.services.upgrades.told(call, params.after) or LATER
