"""http/request, http/cancel and http/hold: requests from this machine to other servers."""

from __future__ import annotations

from ...core.http import prepare
from ...protocol.http import CancelResult
from ...protocol.results import DONE
from ..http import HttpRequests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...protocol.http import CancelParams, HoldStreamParams, RequestParams
    from ...protocol.results import Done
    from ..call import Call, Later


def request(call: Call, params: RequestParams) -> Later:
    headers = [(one.name, one.value, one.value_env_var) for one in params.headers] if params.headers else ()
    variables = call.services.environments.contract.base.values
    outgoing = prepare(params.method, params.url, headers, params.body or b"", variables)
    return call.feature(HttpRequests).begin(call, params, outgoing)


def cancel(call: Call, params: CancelParams) -> CancelResult:
    return CancelResult(call.feature(HttpRequests).cancel(params.request_id))


def hold(call: Call, params: HoldStreamParams) -> Done:
    call.feature(HttpRequests).hold(params.request_id, params.held)
    return DONE
