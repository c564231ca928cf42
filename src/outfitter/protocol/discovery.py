"""Params and results of capabilityRoots/discoverV1 and capabilities/discoverV2."""

from __future__ import annotations

from ..errors import Refused
from .fields import Fields
from .filesystem import sandbox_member
from .results import Result
from .shape import Shape, member, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .sandbox import SandboxContext
    from .shape import Read
    from .uri import FileUri

MAX_ROOTS = 128  # the reference's


@shape("CapabilityRoot")
class Root(Shape):
    """A folder that may hold skills and plugins; `id` is the client's name for it."""

    id: str
    path: FileUri
    sandbox: SandboxContext | None = sandbox_member()


def _roots(fields: Fields, name: str) -> list[Root]:
    roots = [Root.decode(one) for one in fields.items(name)]
    if len(roots) > MAX_ROOTS:
        raise Refused(f"capability root discovery accepts at most {MAX_ROOTS} roots")
    return roots


@shape()
class RootsParams(Shape):
    """capabilityRoots/discoverV1."""

    roots: list[Root] = member(_roots, lambda roots: [one.encode() for one in roots])


@shape()
class DiscoverParams(Shape):
    """capabilities/discoverV2."""

    cwd: FileUri
    sandbox: SandboxContext | None = sandbox_member()


# What is found is data of others, passed on as it is: docs/reference/protocol.md shows the members.


def _objects(struct: str) -> Read:
    return lambda fields, name: [Fields(one, struct).members for one in fields.items(name)]


@shape()
class RootsResult(Result):
    """What each root holds, in the order of the request."""

    roots: list[dict[str, Any]] = member(_objects("Root"))


@shape()
class DiscoverResult(Result):
    """The skills and plugins of the executor's own stores."""

    plugins: list[dict[str, Any]] = member(_objects("Plugin"))
    skills: list[dict[str, Any]] = member(_objects("Skill"))
    warnings: list[str]
