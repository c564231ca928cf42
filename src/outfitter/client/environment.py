"""What a command would get: the questions of a client about environments, and the words of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InvalidParams, VariableInvalid
from ..protocol import environment as wire
from ..protocol.wishes import ContractParams, EnvPolicyParams
from ..record import fields, record
from .arguments import made

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..protocol.documents import BaseAnswer, Change, Explanation, ResolutionDocument
    from .arguments import Place
    from .session import RemoteSession


@record
class EnvPolicy:
    """Which of the executor's variables a command inherits.

        policy = outfitter.EnvPolicy("core", set=[("STAGE", "test")])
        print((await client.shell("echo $STAGE", policy=policy)).text.strip())  # test

    `inherit` is "all", "core" (a short list of names) or "none". Names that look like secrets (`*KEY*`,
    `*SECRET*`, `*TOKEN*`) stay out unless `ignore_default_excludes`. Names that match a pattern of `exclude`
    are removed, (name, value) pairs of `set` are added, and of all these only names that match a pattern of
    `include_only` stay, if it has any.
    """

    inherit: str = "all"
    ignore_default_excludes: bool = True
    exclude: Sequence[str] = ()
    set: Sequence[tuple[str, str]] = ()
    include_only: Sequence[str] = ()

    def __post_init__(self) -> None:
        if any(isinstance(pair, str) for pair in self.set):  # one of two letters would be taken for a pair
            raise TypeError('`set` is a list of (name, value) pairs: write [("CI", "1")]')


@record
class EnvContract:
    """More about a command's environment, for a server that keeps environment contracts.

        contract = outfitter.EnvContract("model", unset=["DEPLOY_TOKEN"])
        done = await client.run(["make"], contract=contract)

    `author` is who speaks in `env`: "user" or "model". `unset` removes variables. `login` ("allow", "strip",
    "reject") and `startup` ("enforce", "repair", "report") say what becomes of a shell's login flag and
    startup files. `scope` is the session whose overlay applies, and `overlays` are named ones of the
    executor's configuration. `kind` is the kind of launch, of an agent, that the command belongs to.
    """

    author: str = "user"
    unset: Sequence[str] = ()
    login: str | None = None
    startup: str | None = None
    scope: str | None = None
    overlays: Sequence[str] = ()
    kind: str | None = None


# Everything the executor has.
INHERIT_ALL = EnvPolicyParams("all", True, (), (), ())
_PLAIN = ContractParams()


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
        cwd: Place | None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        **more: Any,  # the other members, as they are
    ) -> wire.ResolveParams:
        told, kept = wire_policy(self._session, policy, contract)
        here = self._session.resolve(cwd)
        return wire.ResolveParams(wire_env(env), told, contract=kept, cwd=here, **more)

    async def environment(
        self,
        *,
        cwd: Place | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: bool = False,
        show: str = "names",
        digest_key: bytes | None = None,
    ) -> ResolutionDocument:
        """The environment that a command would get: its variables, fingerprints and base.

            found = await client.environment(env={"CI": "1"}, show="values")
            print(found["variables"]["CI"]["value"])  # 1

        `show` is "names", "values" (all except secrets) or "secrets". Raises CapabilityMissing.
        """
        self._session.require("environmentExplain", "resolve environments")
        params = self._question(cwd, env, policy, contract, tty=tty, show=show, digest_key=digest_key)
        result = await self._session.ask(wire.ResolveResult, "environment/resolve", params, repeat=True)
        return result.told

    async def explain(
        self,
        *,
        cwd: Place | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: bool = False,
        show: str = "names",
        programs: Sequence[str] = (),
        login: bool = False,
    ) -> Explanation:
        """Explains where each variable of a command would come from, and why others are missing.

            found = await client.explain(env={"CI": "1"})
            print(found["variables"]["CI"]["origin"]["kind"])  # request

        `programs` are looked up in the command's PATH; with `login`, the answer also has what a login shell
        would change. Values are included only if `show` asks for them. Raises CapabilityMissing.
        """
        self._session.require("environmentExplain", "explain an environment")
        more = {"tty": tty, "show": show, "programs": programs, "login": login}
        params = self._question(cwd, env, policy, contract, **more)
        result = await self._session.ask(wire.ExplainResult, "environment/explain", params, repeat=True)
        return result.told

    async def compare(self, cwd: Place, other: Place) -> list[Change]:
        """The differences between the environments of two directories, without values.

            for change in await client.compare("src", "/"):
                print(change["name"])

        Raises CapabilityMissing.
        """
        self._session.require("environmentExplain", "compare environments")
        params = wire.DiffParams(self._question(cwd), self._question(other))
        result = await self._session.ask(wire.DiffResult, "environment/diff", params, repeat=True)
        return result.differences

    async def base(self, params: wire.BaseParams) -> BaseAnswer:
        """Sets whose environment commands start from; returns that base and the names that differ.

            from outfitter.protocol.environment import BaseParams

            answer = await client.base(BaseParams("client", os.getpid(), dict(os.environ)))

        Only for a server of the same user on the same machine, because it may send the environment of this
        process.
        """
        self._session.require("environmentContract", "start commands from the client's environment")
        result = await self._session.ask(wire.BaseResult, "environment/base", params, repeat=True)
        return result.encode()


def wire_policy(
    session: RemoteSession, policy: EnvPolicy | ByContract | None, contract: EnvContract | None
) -> tuple[EnvPolicyParams | None, ContractParams | None]:
    """What a request says: the contract where the server has one, except for an exact environment."""
    made("policy", policy, (EnvPolicy, ByContract), "outfitter.EnvPolicy")
    made("contract", contract, EnvContract, "outfitter.EnvContract")
    if policy is None:
        if contract is not None:
            raise InvalidParams(
                "policy=None asks for an exact environment, which has no contract: leave out one of them"
            )
        return None, None
    if contract is not None:
        session.require("environmentContract", "keep an environment contract")
        if contract.scope is not None or contract.overlays:
            session.require("environmentOverlay", "keep overlays")
    given = None if isinstance(policy, ByContract) else EnvPolicyParams(*_values(policy))
    if not session.offers("environmentContract"):
        return given or INHERIT_ALL, None
    return given, _PLAIN if contract is None else ContractParams(*_values(contract))


def _values(one: EnvPolicy | EnvContract) -> Iterator[Any]:
    """The values of its fields, which are the same on the wire."""
    return (getattr(one, name) for name in fields(one))


def wire_env(env: Mapping[str, str] | None) -> dict[str, str]:
    """A request's variables. Raises VariableInvalid for what no command can be given, and TypeError."""
    if env is not None and not isinstance(env, Mapping):
        raise TypeError(f"env is a mapping of names to values, not {type(env).__name__}")
    told = dict(env or {})
    for name, value in told.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env: {name!r} is {value!r}: names and values of variables are text")
        if not name or "=" in name or "\0" in name:
            raise VariableInvalid(
                f"env: {name!r} cannot be the name of a variable: it is empty, or contains `=` or NUL", name
            )
        if "\0" in value:
            raise VariableInvalid(
                f"env: the value of {name} contains a NUL byte, which no command can be given", name
            )
    return told
