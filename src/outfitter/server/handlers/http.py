"""http/request and http/cancel: requests from this machine to other servers."""

from __future__ import annotations

from ...core.http import prepare
from ...protocol.http import CancelResult
from ..http import HttpRequests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...protocol.http import CancelParams, RequestParams
    from ..call import Call, Later


def request(call: Call, params: RequestParams) -> Later:
    headers = [(one.name, one.value, one.value_env_var) for one in params.headers] if params.headers else ()
    variables = call.services.environments.contract.base.values
    outgoing = prepare(params.method, params.url, headers, params.body or b"", variables)
    return call.feature(HttpRequests).begin(call, params, outgoing)


def cancel(call: Call, params: CancelParams) -> CancelResult:
    return CancelResult(call.feature(HttpRequests).cancel(params.request_id))
