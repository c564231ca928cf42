"""Params and results of environment/*, and the environment policy as it stands on the wire."""

from __future__ import annotations

from ..errors import InvalidParams, LimitExceeded
from ..record import record
from . import base64
from .fields import Fields, check_names, kind, wrong
from .jsonrpc import notice
from .results import Result
from .shape import Shape, choice, member, shape

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


@shape()
class WaitingNotice(Shape):
    """environment/waiting: a process is not started yet, because of `what`."""

    process_id: str
    what: str

    def message(self) -> bytes:
        return notice("environment/waiting", self.encode())


@record
class EnvPolicyParams:
    """`envPolicy`: which of the executor's variables a command inherits. All members required."""

    inherit: str
    ignore_default_excludes: bool
    exclude: tuple[str, ...]
    set: tuple[tuple[str, str], ...]
    include_only: tuple[str, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal policies, and quick to hash."""
        return (self.inherit, self.ignore_default_excludes, self.exclude, self.set, self.include_only)

    # By hand: most commands come with one.
    @classmethod
    def decode(cls, value: Json) -> EnvPolicyParams:
        fields = value if type(value) is Fields else Fields(value, "ExecEnvPolicy")
        return cls(
            fields.choice("inherit", ("core", "all", "none")),
            fields.flag("ignoreDefaultExcludes"),
            tuple(fields.texts("exclude")),
            tuple(fields.text_map("set").items()),
            tuple(fields.texts("includeOnly")),
        )

    def encode(self) -> Json:
        return {
            "inherit": self.inherit,
            "ignoreDefaultExcludes": self.ignore_default_excludes,
            "exclude": list(self.exclude),
            "set": dict(self.set),
            "includeOnly": list(self.include_only),
        }


SHOW = ("names", "values", "secrets")
AUTHORS = ("user", "model")
LOGINS = ("allow", "strip", "reject")
STARTUPS = ("enforce", "repair", "report")


@record
class ContractParams:
    """`contract` (ours): the command gets the executor's environment contract.

    Without an `envPolicy` the configured one holds, and `env` is what `author` ("user" or "model") says on
    top of it; `unset` takes variables away. `login` and `startup` say what becomes of a shell's login flag
    and startup files, where the executor's configuration does not forbid it; None leaves that to it.
    `scope` is the session whose overlay holds, `overlays` are named ones of the configuration. `kind` is the
    kind of launch (of an agent) that the command belongs to.
    """

    author: str = "user"
    unset: tuple[str, ...] = ()
    login: str | None = None
    startup: str | None = None
    scope: str | None = None
    overlays: tuple[str, ...] = ()
    kind: str | None = None

    # By hand: every command of our own client comes with one.
    @classmethod
    def decode(cls, value: Json) -> ContractParams:
        fields = value if type(value) is Fields else Fields(value, "ContractParams")
        return cls(
            _choice_or(fields, "author", AUTHORS) or "user",
            tuple(fields.texts("unset")) if "unset" in fields else (),
            _choice_or(fields, "login", LOGINS),
            _choice_or(fields, "startup", STARTUPS),
            fields.ident_or_none("scope"),
            tuple(fields.texts("overlays")) if "overlays" in fields else (),
            fields.ident_or_none("kind"),
        )

    def encode(self) -> Json:
        params: dict[str, Json] = {"author": self.author}
        if self.unset:
            params["unset"] = list(self.unset)
        if self.login is not None:
            params["login"] = self.login
        if self.startup is not None:
            params["startup"] = self.startup
        if self.scope is not None:
            params["scope"] = self.scope
        if self.overlays:
            params["overlays"] = list(self.overlays)
        if self.kind is not None:
            params["kind"] = self.kind
        return params


def _choice_or(fields: Fields, name: str, allowed: tuple[str, ...]) -> str | None:
    return None if fields.raw_or_none(name) is None else fields.choice(name, allowed)


MAX_SCOPE_BYTES = 256  # of a snapshot's scope: the reference's


@record
class ShellSnapshotParams:
    """`shellSnapshot`: the command's login shell starts with what startup files left in an earlier one.

    `scope_id` is whatever the client takes one snapshot for: a thread, say. `name` is "bash", "zsh" or "sh".
    """

    scope_id: str
    name: str
    path: str

    @classmethod
    def decode(cls, value: Json) -> ShellSnapshotParams:
        fields = value if type(value) is Fields else Fields(value, "ShellSnapshotRequest")
        scope = fields.text("scopeId")
        if not 1 <= len(scope.encode("utf-8", "surrogatepass")) <= MAX_SCOPE_BYTES:
            raise InvalidParams(f"shell snapshot scope must be non-empty and at most {MAX_SCOPE_BYTES} bytes")
        shell = Fields(fields.raw("shell"), "ShellInfo")
        return cls(scope, shell.text("name"), shell.text("path"))

    def encode(self) -> Json:
        return {"scopeId": self.scope_id, "shell": {"name": self.name, "path": self.path}}


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
