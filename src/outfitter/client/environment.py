"""What a command would get: the questions of a client about environments, and the words of its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidParams
from ..protocol.environment import (
    BaseParams,
    BaseResult,
    ContractParams,
    DiffParams,
    DiffResult,
    EnvPolicyParams,
    ExplainResult,
    ResolveParams,
    ResolveResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..protocol.documents import BaseAnswer, Change, Explanation, Resolution
    from .session import RemoteSession

#: Which of the executor's variables a command inherits: inherit ("all", "core", "none"),
#: ignore_default_excludes, exclude patterns, (name, value) pairs to set, include-only patterns.
EnvPolicy = EnvPolicyParams

#: More about a command's environment: who speaks in `env` ("user" or "model"), what to `unset`, what becomes
#: of a shell's `login` flag and `startup` files, the `scope` whose overlay applies, and named `overlays`.
EnvContract = ContractParams

#: Everything the executor has.
INHERIT_ALL = EnvPolicyParams("all", True, (), (), ())


class ByContract:
    """The type of CONTRACT."""

    def __repr__(self) -> str:
        return "CONTRACT"


#: What a command inherits when the caller does not say: what the executor's environment contract says. On a
#: server that has none, everything.
CONTRACT = ByContract()


class EnvironmentCalls:
    """The part of `Client` that asks about environments."""

    _session: RemoteSession

    def _question(
        self,
        cwd: str | None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        **more: Any,  # the other members, as they are
    ) -> ResolveParams:
        wire, contract = wire_policy(self._session, policy, contract)
        here = self._session.resolve(cwd)
        return ResolveParams(dict(env or {}), wire, contract=contract, cwd=here, **more)

    async def environment(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: bool = False,
        show: str = "names",
        digest_key: bytes | None = None,
    ) -> Resolution:
        """What a command would get: its variables, fingerprints, and whose environment it is.

        `show` is "names", "values" (all but secrets) or "secrets". Raises CapabilityMissing.
        """
        self._session.require("environmentExplain", "tell what a command would get")
        params = self._question(cwd, env, policy, contract, tty=tty, show=show, digest_key=digest_key)
        result = await self._session.ask(ResolveResult, "environment/resolve", params.encode(), repeat=True)
        return result.told

    async def explain(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: bool = False,
        show: str = "names",
        programs: Sequence[str] = (),
        login: bool = False,
    ) -> Explanation:
        """Why each variable of a command would be what it is, and where those that it lost went.

        `programs` are looked up in its PATH; `login` also asks what a login shell would make of it. Values
        are not in it unless `show` asks for them. Raises CapabilityMissing on servers that cannot tell.
        """
        self._session.require("environmentExplain", "explain an environment")
        more = {"tty": tty, "show": show, "programs": programs, "login": login}
        params = self._question(cwd, env, policy, contract, **more)
        result = await self._session.ask(ExplainResult, "environment/explain", params.encode(), repeat=True)
        return result.told

    async def compare(self, cwd: str, other: str) -> list[Change]:
        """The differences between what commands would get in two directories; never a value."""
        self._session.require("environmentExplain", "compare environments")
        params = DiffParams(self._question(cwd), self._question(other))
        result = await self._session.ask(DiffResult, "environment/diff", params.encode(), repeat=True)
        return result.differences

    async def base(self, params: BaseParams) -> BaseAnswer:
        """Says whose environment commands start from; returns that base, and what differs by name.

        Only for a server of the same user on the same machine: it may send this process's environment.
        """
        self._session.require("environmentContract", "start commands from another environment than its own")
        result = await self._session.ask(BaseResult, "environment/base", params.encode(), repeat=True)
        return result.encode()


def wire_policy(
    session: RemoteSession, policy: EnvPolicy | ByContract | None, contract: ContractParams | None
) -> tuple[EnvPolicyParams | None, ContractParams | None]:
    """What a request says: the contract where the server has one, except for an exact environment."""
    if policy is None:
        if contract is not None:
            raise InvalidParams("an exact environment (policy=None) has no contract: leave one of them out")
        return None, None
    if contract is not None:
        session.require("environmentContract", "keep an environment contract")
        if contract.scope is not None or contract.overlays:
            session.require("environmentOverlay", "keep overlays")
    given = policy if isinstance(policy, EnvPolicyParams) else None
    if not session.offers("environmentContract"):
        return given or INHERIT_ALL, None
    return given, contract or ContractParams()
