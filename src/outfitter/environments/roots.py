"""Selected capability roots: directories of environments that were chosen, kept beyond any connection.

A selection is durable. Which roots are available is determined for each step, with the environments of that
step. A root that is not available now is omitted with a reason, and returns when it is available again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import EnvironmentUnknown, InvalidParams, OutfitterError, SettingInvalid
from ..protocol import uri
from ..record import fill, record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..client.client import Client
    from ..protocol.jsontext import Json
    from .manager import Environment, Step

# What a step waits for an environment: enough to start a program through ssh, less than a person's patience.
# The attempt goes on behind it, for the next step.
RESOLVE_SECONDS = 5.0

UNKNOWN = "unknown"
UNAVAILABLE = "unavailable"


@record
class SelectedRoot:
    """A directory of an environment, with an id that the caller chose.

    `where` is a `file:` URI, because the environment may use other path rules; an absolute path is accepted
    too. `path` is the same, parsed. Raises SettingInvalid.
    """

    id: str
    environment_id: str
    where: str

    def __post_init__(self) -> None:
        if not self.id:
            raise SettingInvalid("a selected root must have an id")
        if not self.environment_id:
            raise SettingInvalid(f"selected root `{self.id}` must name an environment")
        fill(self, where=file_uri(self.where, f"selected root `{self.id}`"))

    @property
    def path(self) -> uri.FileUri:
        return uri.parse(self.where)


def file_uri(text: str, whose: str) -> str:
    """A path on an environment, as the URI that it is or that it means. Raises SettingInvalid."""
    try:
        return uri.parse(uri.from_path(text) if text.startswith("/") else text).text
    except InvalidParams as error:
        raise SettingInvalid(f"{whose} has an unusable path: {error}") from None


@record
class Selection:
    """Roots in the order in which they were chosen, each id once. Raises SettingInvalid."""

    roots: Sequence[SelectedRoot] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for root in self.roots:
            if root.id in seen:
                raise SettingInvalid(f"selected root `{root.id}` is listed twice")
            seen.add(root.id)

    def add(self, root: SelectedRoot) -> Selection:
        return Selection((*self.roots, root))

    def remove(self, root_id: str) -> Selection:
        left = tuple(root for root in self.roots if root.id != root_id)
        if len(left) == len(self.roots):
            known = ", ".join(f"`{root.id}`" for root in self.roots) or "none"
            raise SettingInvalid(f"no selected root is named `{root_id}`; known: {known}")
        return Selection(left)

    def to_json(self) -> Json:
        """As Codex spells `selectedCapabilityRoots`."""
        return [
            {
                "id": root.id,
                "location": {"type": "environment", "environmentId": root.environment_id, "path": root.where},
            }
            for root in self.roots
        ]

    @classmethod
    def from_json(cls, value: Json) -> Selection:
        """Reads what `to_json` wrote. Raises SettingInvalid."""
        if type(value) is not list:
            raise SettingInvalid("selected roots must be an array")
        return cls([_root(entry, f"selected root number {place}") for place, entry in enumerate(value, 1)])


def _root(entry: Json, name: str) -> SelectedRoot:
    location, where = member(entry, "location", dict, name), f"{name}, location"
    if member(location, "type", str, where) != "environment":
        raise SettingInvalid(f"{where}: `type` must be `environment`")
    path = member(location, "path", str, where)
    if path.startswith("/"):
        raise SettingInvalid(f"{where}: `path` must be a file: URI")
    return SelectedRoot(member(entry, "id", str, name), member(location, "environmentId", str, where), path)


def member(value: Json, key: str, kind: type, name: str) -> Json:
    if type(value) is not dict:
        raise SettingInvalid(f"{name} must be an object")
    if type(value.get(key)) is not kind:
        raise SettingInvalid(f"{name}: `{key}` must be {'a string' if kind is str else 'an object'}")
    return value[key]


# Resolving


@record
class AvailableRoot:
    """A root that can be used in this step, with the client to use."""

    root: SelectedRoot
    environment: Environment
    client: Client


@record
class OmittedRoot:
    """A root that cannot be used: "unknown" or "unavailable", and the reason in words."""

    root: SelectedRoot
    kind: str
    reason: str


@record
class ResolvedRoots:
    """All roots of a selection, each either available or omitted, in the order of the selection."""

    available: tuple[AvailableRoot, ...]
    omitted: tuple[OmittedRoot, ...]


async def resolve(selection: Selection, step: Step, *, within: float = RESOLVE_SECONDS) -> ResolvedRoots:
    """Determines which roots this step has. Asks all their environments at once, for at most `within`
    seconds.

    Connects environments that are not connected; every environment must answer. One that the step has not
    captured is, now: it is asked to start, and what it is at this time stays for the rest of the step.
    """
    names = list(dict.fromkeys(root.environment_id for root in selection.roots))
    answers = await asyncio.gather(*(_reach(name, step, within) for name in names))
    reached = dict(zip(names, answers, strict=True))
    available: list[AvailableRoot] = []
    omitted: list[OmittedRoot] = []
    for root in selection.roots:
        found, kind, reason = reached[root.environment_id]
        if found is not None:
            available.append(AvailableRoot(root, *found))
        else:
            omitted.append(OmittedRoot(root, kind, reason))
    return ResolvedRoots(tuple(available), tuple(omitted))


async def _reach(name: str, step: Step, within: float) -> tuple[tuple[Environment, Client] | None, str, str]:
    """An environment that answers and its client, or why there is none."""
    try:
        environment = step.include(name)
    except EnvironmentUnknown as error:
        return None, UNKNOWN, str(error)
    try:
        async with asyncio.timeout(within):
            client = await environment.client()
            await client.status()  # one that is being recovered is not available now
    except OutfitterError as error:
        return None, UNAVAILABLE, str(error)
    except TimeoutError:
        return None, UNAVAILABLE, f"environment `{name}` gave no answer within {within:g} s"
    return (environment, client), "", ""
