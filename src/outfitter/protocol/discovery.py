"""Params and results of capabilityRoots/discoverV1 and capabilities/discoverV2."""

from __future__ import annotations

from ..errors import Refused
from ..record import record
from .fields import Fields
from .results import Result
from .sandbox import SandboxContext
from .uri import FileUri

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .jsontext import Json

MAX_ROOTS = 128  # the reference's


@record
class Root:
    """A folder that may hold skills and plugins; `id` is the client's name for it."""

    id: str
    path: FileUri
    sandbox: SandboxContext | None = None


@record
class RootsParams:
    """capabilityRoots/discoverV1."""

    roots: tuple[Root, ...]

    @classmethod
    def decode(cls, params: Json) -> RootsParams:
        roots = tuple(
            _root(Fields(one, "CapabilityRoot")) for one in Fields(params, "RootsParams").items("roots")
        )
        if len(roots) > MAX_ROOTS:
            raise Refused(f"capability root discovery accepts at most {MAX_ROOTS} roots")
        return cls(roots)

    def encode(self) -> Json:
        return {
            "roots": [
                {
                    "id": root.id,
                    "path": root.path.text,
                    **({} if root.sandbox is None else {"sandbox": root.sandbox.encode()}),
                }
                for root in self.roots
            ]
        }


def _root(fields: Fields) -> Root:
    ident, path = fields.text("id"), fields.uri("path")
    return Root(ident, path, _sandbox(fields))


def _sandbox(fields: Fields) -> SandboxContext | None:
    said = fields.raw_or_none("sandbox")
    return None if said is None else SandboxContext.decode(said)


@record
class DiscoverParams:
    """capabilities/discoverV2."""

    cwd: FileUri
    sandbox: SandboxContext | None = None

    @classmethod
    def decode(cls, params: Json) -> DiscoverParams:
        fields = Fields(params, "DiscoverParams")
        return cls(fields.uri("cwd"), _sandbox(fields))

    def encode(self) -> Json:
        told: dict[str, Json] = {"cwd": self.cwd.text}
        if self.sandbox is not None:
            told["sandbox"] = self.sandbox.encode()
        return told


# What is found is data of others, passed on as it is: docs/reference/protocol.md shows the members.


@record
class RootsResult(Result):
    """What each root holds, in the order of the request."""

    roots: list[dict[str, Any]]

    def encode(self) -> Json:
        return {"roots": self.roots}

    @classmethod
    def decode(cls, result: Json) -> RootsResult:
        return cls([Fields(one, "Root").members for one in Fields(result, "RootsResult").items("roots")])


@record
class DiscoverResult(Result):
    """The skills and plugins of the executor's own stores."""

    plugins: list[dict[str, Any]]
    skills: list[dict[str, Any]]
    warnings: list[str]

    def encode(self) -> Json:
        return {"plugins": self.plugins, "skills": self.skills, "warnings": self.warnings}

    @classmethod
    def decode(cls, result: Json) -> DiscoverResult:
        fields = Fields(result, "DiscoverResult")
        return cls(
            [Fields(one, "Plugin").members for one in fields.items("plugins")],
            [Fields(one, "Skill").members for one in fields.items("skills")],
            fields.texts("warnings"),
        )
