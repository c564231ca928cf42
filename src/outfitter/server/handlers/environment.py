"""environment/*, but for overlays."""

from __future__ import annotations

from ...contract.contract import Asked, Ready
from ...errors import InvalidParams
from ...host import facts
from ...protocol.environment import BaseResult, DiffResult, ExplainResult, ResolveResult, StatusResult
from ...protocol.session import InfoResult
from ...record import replace
from ..call import LATER
from ..forks import enter
from ..limits import EXPLAINED_BYTES, EXPLAINED_VARIABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ...contract.contract import Questions
    from ...protocol.environment import BaseParams, DiffParams, NoParams, ResolveParams
    from ...protocol.results import Result, Wire
    from ...protocol.wishes import EnvPolicyParams
    from ..call import Call, Handler, Later

    T = TypeVar("T", bound=Result)


def info(call: Call, params: NoParams) -> InfoResult:
    return InfoResult(call.services.info)


def status(call: Call, params: NoParams) -> StatusResult:
    return StatusResult("ready")


def resolve(call: Call, params: ResolveParams) -> ResolveResult | Later:
    """What a command would get. Values only when they are asked for."""
    from ...contract import answers

    found = _all_asked(call, resolve, params, params)
    if found is None:
        return LATER
    [asked] = found
    contract, base = call.services.environments.contract, call.session.base
    tell = answers.resolve(contract, asked, params.show, base=base, digest_key=params.digest_key)
    return _told(call, lambda: ResolveResult(tell()), [asked], [params.env_policy])


def explain(call: Call, params: ResolveParams) -> ExplainResult | Later:
    """Every variable a command would see or lose, with its whole history."""
    from ...contract import answers

    contract, base = call.services.environments.contract, call.session.base
    found = _all_asked(call, explain, params, params)
    if found is None:
        return LATER
    [asked] = found
    if not params.login:
        tell = answers.explain(contract, asked, params.show, base=base, programs=params.programs)
        return _told(call, lambda: ExplainResult(tell()), [asked], [params.env_policy])
    # A program of ours that ends with the session, and with the server however that ends.
    sessions = call.services.sessions
    sessions.watchdog.ensure()
    mark = sessions.marks.new(call.session.number)
    wait = answers.explain(
        contract, asked, params.show, base=base, programs=params.programs, login=True, mark=mark
    )
    call.later()
    # A login shell takes its time.
    owner = (call.principal, call.session.number)
    call.services.asking.attended(lambda: ExplainResult(wait()), call.done, owner)
    return LATER


def diff(call: Call, params: DiffParams) -> DiffResult | Later:
    """Two environments of this executor, compared here."""
    from ...contract import answers

    contract, base = call.services.environments.contract, call.session.base
    found = _all_asked(call, diff, params, params.a, params.b)
    if found is None:
        return LATER
    a, b = found
    tell = answers.compare(contract, a, b, base_a=base, base_b=base)
    return _told(
        call, lambda: DiffResult(tell()["differences"]), [a, b], [params.a.env_policy, params.b.env_policy]
    )


def base(call: Call, params: BaseParams) -> BaseResult:
    """Whose environment this session's commands start from, and in what the client's differs from ours."""
    environments = call.services.environments
    call.session.base = environments.base_of(params)
    used = call.session.base or environments.contract.base
    return BaseResult(used.describe(), environments.differences(params))


def _told(
    call: Call, tell: Callable[[], T], asked: list[Asked], policies: list[EnvPolicyParams | None]
) -> T | Later:
    """The answer, at once or, where the environment is large, from a thread."""
    base = call.session.base or call.services.environments.contract.base
    maps = [base.values, *(one.env for one in asked), *(dict(one.set) for one in policies if one is not None)]
    if sum(map(len, maps)) <= EXPLAINED_VARIABLES and (
        sum(len(value) for values in maps for value in values.values()) <= EXPLAINED_BYTES
    ):
        return tell()
    call.later()

    def done(wire: Any, failure: BaseException | None) -> None:
        if failure is not None:
            call.refuse(failure)
        else:
            call.send(wire)

    def work() -> Wire:
        wire = tell().wire()
        return [wire.encode()] if isinstance(wire, str) else wire  # megabytes: nothing is left to be copied

    call.services.explain(call.session.number, work, done)
    return LATER


def _asked(call: Call, params: ResolveParams) -> Asked | Questions:
    try:
        cwd = facts.working_directory() or "/" if params.cwd is None else params.cwd.local_path()
    except ValueError as error:
        raise InvalidParams(f"cwd is not a path of this executor: {error}") from None
    environments = call.services.environments
    if params.contract is not None and params.contract.scope is not None:
        enter(call, params.contract.scope)
    asked = environments.asked(
        cwd, params.env, params.env_policy, params.contract, params.tty, call.principal
    )
    if params.network_proxy is not None:
        from ..network import in_sandbox

        asked = replace(asked, network=in_sandbox(params.network_proxy))
    if params.shell_snapshot is None:
        return asked
    from ..snapshots import joined

    return joined(call, params.shell_snapshot, asked, params.contract)


def _all_asked(call: Call, handler: Handler, params: object, *several: ResolveParams) -> list[Asked] | None:
    """What is asked; None while something must be found out before, and then `handler` runs again."""
    contract, base = call.services.environments.contract, call.session.base
    found: list[Asked] = []
    for one in several:
        asked = _asked(call, one)
        ready = contract.next(asked, base) if isinstance(asked, Asked) else asked
        if not isinstance(ready, Ready):
            call.services.asking.first(call, ready, lambda: call.run(handler, params))
            return None
        found.append(ready.asked)
    return found
