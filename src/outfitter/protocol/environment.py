"""Params and results of environment/*."""

from __future__ import annotations

from ..record import record
from ..refusals import InvalidParams, LimitExceeded
from . import base64
from .fields import Fields, check_names, kind, wrong
from .results import Result
from .shape import Shape, choice, member, shape
from .wishes import ContractParams, EnvPolicyParams, ShellSnapshotParams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .documents import BaseAnswer, BaseDocument, Change, Explanation, ResolutionDocument
    from .jsontext import Json
    from .network import NetworkProxy
    from .uri import FileUri


@record
class NoParams:
    """For methods that take nothing: absent, null or an empty object."""

    @classmethod
    def decode(cls, params: Json) -> NoParams:
        if params is None or (params == {} and type(params) is dict):
            return _NOTHING
        raise InvalidParams(f"invalid type: {kind(params)}, expected unit")


_NOTHING = NoParams()


SHOW = ("names", "values", "secrets")


def _check_objects(fields: Fields) -> None:
    fields.object_or_none("envPolicy", "ExecEnvPolicy")
    fields.object_or_none("contract", "ContractParams")


# Names that are looked up in PATH, which may have thousands of entries.
MAX_PROGRAMS = 64


def _programs(fields: Fields, name: str) -> tuple[str, ...]:
    found = fields.texts(name)
    if len(found) > MAX_PROGRAMS:
        raise LimitExceeded(
            f"`{name}`", len(found), MAX_PROGRAMS, "programs", "ask for the others separately"
        )
    return tuple(found)


def _proxy(fields: Fields, name: str) -> NetworkProxy:
    from .network import NetworkProxy

    return NetworkProxy.decode(fields.raw(name))


@shape(before=_check_objects)
class ResolveParams(Shape):
    """environment/resolve and environment/explain: what process/start would get, and how much to tell.

    `show` is "names", "values" (all but secrets) or "secrets"; `programs` are names to look up in PATH;
    `login` also asks what a login shell would make of it; `digest_key` asks for a keyed digest of each value,
    so that environments can be compared without sending them. With `network_proxy` the command is one in a
    sandbox with that proxy, with `shell_snapshot` a login shell that begins with a snapshot.
    """

    env: dict[str, str] = member(Fields.variables)
    env_policy: EnvPolicyParams | None
    tty: bool = False
    contract: ContractParams | None = member(default=None, omit=True)
    cwd: FileUri | None = member(default=None, omit=True)
    show: str = member(choice(*SHOW), default="names", null=True, omit=True)
    programs: tuple[str, ...] = member(_programs, default=(), omit=True)
    login: bool = member(default=False, omit=True)
    digest_key: bytes | None = member(default=None, null=False, omit=True)
    network_proxy: NetworkProxy | None = member(_proxy, lambda told: told.encode(), default=None, omit=True)
    shell_snapshot: ShellSnapshotParams | None = member(default=None, omit=True)


@shape()
class DiffParams(Shape):
    """environment/diff: two environments of this executor, compared there. Values do not travel."""

    a: ResolveParams
    b: ResolveParams


@record
class BaseParams:
    """environment/base: whose environment the commands of this session start from.

    `rule` is "daemon" (the server's own), "client" (what the client was started in) or "merge" (the client's
    variables over the server's). For "daemon" a client sends only digests of its own, so that differences can
    be named; else it sends `env`. `pid` is the client's.
    """

    rule: str
    pid: int
    env: dict[str, str] | None = None
    digest_key: bytes = b""
    digests: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"BaseParams({self.rule!r}, {len(self.env or ())} variables, pid={self.pid})"

    @classmethod
    def decode(cls, params: Json) -> BaseParams:
        fields = Fields(params, "BaseParams")
        rule = fields.choice("rule", ("daemon", "client", "merge"))
        pid = fields.unsigned("pid")
        if rule == "daemon":
            key, digests = fields.base64("digestKey"), fields.text_map("digests")
            check_names(digests, "`digests`")
            return cls(rule, pid, None, key, digests)
        env = fields.text_map("env")
        check_names(env, "`env`")
        return cls(rule, pid, env)

    def encode(self) -> Json:
        params: dict[str, Json] = {"rule": self.rule, "pid": self.pid}
        if self.env is not None:
            params["env"] = self.env
        if self.digests is not None:
            params["digestKey"] = base64.encode_text(self.digest_key)
            params["digests"] = self.digests
        return params


# Results. What they say about an environment is one JSON object, described in docs/reference/env-json.md.


@record
class ResolveResult(Result):
    """environment/resolve: the variables of a command and their digests."""

    told: ResolutionDocument

    @classmethod
    def decode(cls, result: Json) -> ResolveResult:
        return cls(_with_variables(result, "ResolveResult"))

    def encode(self) -> Json:
        return self.told


@record
class ExplainResult(Result):
    """environment/explain: every variable a command would see or lose, with its whole history."""

    told: Explanation

    @classmethod
    def decode(cls, result: Json) -> ExplainResult:
        return cls(_with_variables(result, "ExplainResult"))

    def encode(self) -> Json:
        return self.told


def _with_variables(result: Json, struct: str) -> Json:
    variables = Fields(result, struct).raw("variables")
    if type(variables) is not dict:
        raise wrong(variables, "a map")
    return result


@shape()
class DiffResult(Result):
    """environment/diff: what differs between two environments, by name."""

    differences: list[Change] = member(Fields.items)


@shape()
class BaseResult(Result):
    """environment/base: whose environment commands start from, and the names in which the client differs."""

    base: BaseDocument = member(Fields.raw)
    differences: dict[str, list[str]] = member(Fields.raw)

    def encode(self) -> BaseAnswer:
        return {
            "base": self.base,
            "matchesClient": not any(self.differences.values()),
            "differences": self.differences,
        }


@shape()
class StatusResult(Result):
    """environment/status: "ready", or what the executor is still doing."""

    status: str = member(default="ready", required=True)
