"""Params and results of environment/*, and the environment policy as it stands on the wire."""

from __future__ import annotations

from ..errors import InvalidParams
from ..record import Record
from .fields import Fields, kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json


class NoParams(Record):
    """For methods that take nothing: absent, null or an empty object."""

    __slots__ = ()

    @classmethod
    def decode(cls, params: Json) -> NoParams:
        if params is None or (params == {} and type(params) is dict):
            return _NOTHING
        raise InvalidParams(f"invalid type: {kind(params)}, expected unit")


_NOTHING = NoParams()


class EnvPolicyParams(Record):
    """`envPolicy`: which of the executor's variables a command inherits. All members required."""

    __slots__ = ("exclude", "ignore_default_excludes", "include_only", "inherit", "set")

    def __init__(
        self,
        inherit: str,
        ignore_default_excludes: bool,
        exclude: tuple[str, ...],
        set: tuple[tuple[str, str], ...],
        include_only: tuple[str, ...],
    ) -> None:
        self.inherit = inherit
        self.ignore_default_excludes = ignore_default_excludes
        self.exclude = exclude
        self.set = set
        self.include_only = include_only

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal policies, and quick to hash."""
        return (self.inherit, self.ignore_default_excludes, self.exclude, self.set, self.include_only)

    @classmethod
    def decode(cls, fields: Fields) -> EnvPolicyParams:
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


class ExplainParams(Record):
    """environment/explain: the same `envPolicy`, `env` and `tty` that process/start would get."""

    __slots__ = ("env", "env_policy", "tty")

    def __init__(self, env: dict[str, str], env_policy: EnvPolicyParams | None, tty: bool) -> None:
        self.env = env
        self.env_policy = env_policy
        self.tty = tty

    @classmethod
    def decode(cls, params: Json) -> ExplainParams:
        fields = Fields(params, "ExplainParams")
        policy = fields.object_or_none("envPolicy", "ExecEnvPolicy")
        return cls(
            fields.text_map("env"),
            None if policy is None else EnvPolicyParams.decode(policy),
            fields.flag_or("tty", False),
        )

    def encode(self) -> Json:
        return {
            "env": self.env,
            "envPolicy": None if self.env_policy is None else self.env_policy.encode(),
            "tty": self.tty,
        }
