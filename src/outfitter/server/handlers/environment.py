"""environment/*, but for overlays."""

from __future__ import annotations

from ...contract.contract import Ready
from ...errors import InvalidParams
from ...host import facts
from ...protocol.environment import BaseResult, DiffResult, ExplainResult, ResolveResult
from ...protocol.session import StatusResult
from ..call import LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...contract.contract import Asked
    from ...protocol.environment import BaseParams, DiffParams, NoParams, ResolveParams
    from ...protocol.session import EnvironmentInfo
    from ..call import Call, Handler, Later


def info(call: Call, params: NoParams) -> EnvironmentInfo:
    return call.services.info


def status(call: Call, params: NoParams) -> StatusResult:
    return StatusResult("ready")


def resolve(call: Call, params: ResolveParams) -> ResolveResult | Later:
    """What a command would get. Values only when they are asked for."""
    from ...contract import answers

    asked = _asked(call, params)
    if _asks_first(call, resolve, params, asked):
        return LATER
    contract, base = call.services.environments.contract, call.session.base
    told = answers.resolve(contract, asked, params.show, base=base, digest_key=params.digest_key)
    return ResolveResult(told)


def explain(call: Call, params: ResolveParams) -> ExplainResult | Later:
    """Every variable a command would see or lose, with its whole history."""
    from ...contract import answers

    contract, base = call.services.environments.contract, call.session.base
    asked = _asked(call, params)
    if _asks_first(call, explain, params, asked):
        return LATER
    if not params.login:
        return ExplainResult(
            answers.explain(contract, asked, params.show, base=base, programs=params.programs)
        )
    # A program of ours that ends with the session, and with the server however that ends.
    sessions = call.services.sessions
    sessions.watchdog.ensure()
    mark = sessions.marks.new(call.session.number)
    wait = answers.explain_later(contract, asked, params.show, base=base, programs=params.programs, mark=mark)
    call.later()
    call.services.asking.attended(lambda: ExplainResult(wait()), call.done)  # a login shell takes its time
    return LATER


def diff(call: Call, params: DiffParams) -> DiffResult | Later:
    """Two environments of this executor, compared here."""
    from ...contract import answers

    contract, base = call.services.environments.contract, call.session.base
    a, b = _asked(call, params.a), _asked(call, params.b)
    if _asks_first(call, diff, params, a) or _asks_first(call, diff, params, b):
        return LATER
    return DiffResult(answers.compare(contract, a, b, base_a=base, base_b=base)["differences"])


def base(call: Call, params: BaseParams) -> BaseResult:
    """Whose environment this session's commands start from, and in what the client's differs from ours."""
    environments = call.services.environments
    call.session.base = environments.base_of(params)
    used = call.session.base or environments.contract.base
    return BaseResult(used.describe(), environments.differences(params))


def _asked(call: Call, params: ResolveParams) -> Asked:
    try:
        cwd = facts.working_directory() or "/" if params.cwd is None else params.cwd.local_path()
    except ValueError as error:
        raise InvalidParams(f"cwd is not a path of this executor: {error}") from None
    environments = call.services.environments
    return environments.asked(cwd, params.env, params.env_policy, params.contract, params.tty, call.principal)


def _asks_first(call: Call, handler: Handler, params: object, asked: Asked) -> bool:
    """Whether providers must be asked before this can be answered; it is, when they have been."""
    ready = call.services.environments.contract.next(asked, call.session.base)
    if isinstance(ready, Ready):
        return False
    call.services.asking.first(call, ready, lambda: call.run(handler, params))
    return True
