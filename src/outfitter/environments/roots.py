"""Selected capability roots: which folders of which environments were chosen, kept beyond any connection.

A selection is durable; what can be had of it is found out anew for each step, against the environments
that this step holds. What is not available now is left out with its reason, and is back when it is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import EnvironmentUnknown, InvalidParams, OutfitterError, SettingInvalid
from ..protocol import uri
from ..record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..client.client import Client
    from ..protocol.jsontext import Json
    from .manager import Environment, Step

# What a step waits for an environment: enough to start a program through ssh, less than a person's patience.
# The attempt goes on behind it, for the next step.
RESOLVE_SECONDS = 5.0

UNKNOWN = "unknown"
UNAVAILABLE = "unavailable"


class SelectedRoot(Record):
    """A folder on an environment, under an id that its chooser gave it.

    `path` is a `file:` URI, because the environment may have another path convention; an absolute path is
    taken too. Raises SettingInvalid.
    """

    __slots__ = ("environment_id", "id", "path")

    def __init__(self, id: str, environment_id: str, path: str) -> None:
        if not id:
            raise SettingInvalid("a selected root must have an id")
        if not environment_id:
            raise SettingInvalid(f"selected root `{id}` must name an environment")
        self.id = id
        self.environment_id = environment_id
        try:
            self.path = uri.parse(uri.from_path(path) if path.startswith("/") else path)
        except InvalidParams as error:
            raise SettingInvalid(f"selected root `{id}` has an unusable path: {error}") from None


class Selection(Record):
    """Roots in the order they were chosen, each id once. Raises SettingInvalid."""

    __slots__ = ("roots",)

    def __init__(self, roots: Iterable[SelectedRoot] = ()) -> None:
        self.roots = tuple(roots)
        seen: set[str] = set()
        for root in self.roots:
            if root.id in seen:
                raise SettingInvalid(f"selected root `{root.id}` is there twice")
            seen.add(root.id)

    def add(self, root: SelectedRoot) -> Selection:
        return Selection((*self.roots, root))

    def remove(self, root_id: str) -> Selection:
        left = tuple(root for root in self.roots if root.id != root_id)
        if len(left) == len(self.roots):
            known = ", ".join(f"`{root.id}`" for root in self.roots) or "none"
            raise SettingInvalid(f"there is no selected root `{root_id}`; there are: {known}")
        return Selection(left)

    def to_json(self) -> Json:
        """As Codex spells `selectedCapabilityRoots`."""
        return [
            {
                "id": root.id,
                "location": {
                    "type": "environment",
                    "environmentId": root.environment_id,
                    "path": root.path.text,
                },
            }
            for root in self.roots
        ]

    @classmethod
    def from_json(cls, value: Json) -> Selection:
        """Reads what `to_json` wrote. Raises SettingInvalid."""
        if type(value) is not list:
            raise SettingInvalid("selected roots must be an array")
        return cls(_root(entry, f"selected root number {place}") for place, entry in enumerate(value, 1))


def _root(entry: Json, name: str) -> SelectedRoot:
    location = _member(entry, "location", dict, name)
    kind = _member(location, "type", str, f"{name}, location")
    if kind != "environment":
        raise SettingInvalid(f"{name}, location: `type` must be `environment`")
    path = _member(location, "path", str, f"{name}, location")
    if path.startswith("/"):
        raise SettingInvalid(f"{name}, location: `path` must be a file: URI")
    return SelectedRoot(
        _member(entry, "id", str, name), _member(location, "environmentId", str, f"{name}, location"), path
    )


def _member(value: Json, key: str, kind: type, name: str) -> Json:
    if type(value) is not dict:
        raise SettingInvalid(f"{name} must be an object")
    if type(value.get(key)) is not kind:
        raise SettingInvalid(f"{name}: `{key}` must be {'a string' if kind is str else 'an object'}")
    return value[key]


# Resolving


class AvailableRoot(Record):
    """A root that can be used in this step, and with what."""

    __slots__ = ("client", "environment", "root")

    def __init__(self, root: SelectedRoot, environment: Environment, client: Client) -> None:
        self.root = root
        self.environment = environment
        self.client = client


class OmittedRoot(Record):
    """A root that cannot, and why: "unknown" or "unavailable", and in words."""

    __slots__ = ("kind", "reason", "root")

    def __init__(self, root: SelectedRoot, kind: str, reason: str) -> None:
        self.root = root
        self.kind = kind
        self.reason = reason


class ResolvedRoots(Record):
    """All roots of a selection, each in one of the two, in the selection's order."""

    __slots__ = ("available", "omitted")

    def __init__(self, available: tuple[AvailableRoot, ...], omitted: tuple[OmittedRoot, ...]) -> None:
        self.available = available
        self.omitted = omitted


async def resolve(selection: Selection, step: Step, *, within: float = RESOLVE_SECONDS) -> ResolvedRoots:
    """Which roots this step has, asking all their environments at once, for `within` seconds at most.

    Environments that are not connected are connected, and all must answer.
    """
    names = list(dict.fromkeys(root.environment_id for root in selection.roots))
    reached = dict(
        zip(names, await asyncio.gather(*(_reach(name, step, within) for name in names)), strict=True)
    )
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
        environment = step.get(name)
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
