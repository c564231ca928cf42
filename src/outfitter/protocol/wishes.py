"""What the environment of a command shall be: members of process/start, and of questions about it; and the
notice that it takes a while."""

from __future__ import annotations

from ..record import record
from ..refusals import InvalidParams
from .fields import Fields
from .jsonrpc import notice
from .shape import Shape, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json


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


@shape()
class WaitingNotice(Shape):
    """environment/waiting: a process is not started yet, because of `what`."""

    process_id: str
    what: str

    def message(self) -> bytes:
        return notice("environment/waiting", self.encode())
