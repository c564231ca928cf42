"""Params and result of environmentConfig/read."""

from __future__ import annotations

from ..errors import InvalidParams
from .fields import Fields, wrong
from .results import Result
from .shape import Shape, member, shape
from .uri import FileUri

MAX_KEYS = 1024  # paths of one request; the client that there is asks for a handful


def _paths(fields: Fields, name: str) -> tuple[tuple[str, ...], ...]:
    found = []
    for path in fields.items(name):
        if type(path) is not list:
            raise wrong(path, "a sequence")
        for part in path:
            if type(part) is not str:
                raise wrong(part, "a string")
        found.append(tuple(path))
    if len(found) > MAX_KEYS:
        raise InvalidParams(f"`{name}` takes {MAX_KEYS} paths at most")
    return tuple(found)


@shape()
class ConfigParams(Shape):
    """environmentConfig/read: which keys of the executor's configuration files a client wants."""

    cwd: FileUri
    config_paths: tuple[tuple[str, ...], ...] = member(_paths, lambda told: [list(one) for one in told])
    requirements_paths: tuple[tuple[str, ...], ...] = member(_paths, lambda told: [list(one) for one in told])


def check_paths(params: ConfigParams) -> None:
    """Raises InvalidParams."""
    paths = (*params.config_paths, *params.requirements_paths)
    if not paths:
        raise InvalidParams("at least one config or requirements path is required")
    if not all(paths):
        raise InvalidParams("TOML paths must contain at least one key segment")


@shape()
class LayerResult(Shape):
    """One file: what it is called, where it lies, and what it says of what was asked for."""

    source: str
    base_dir: str
    toml: str


@shape("ConfigLayers")
class LayersResult(Shape):
    """Files, lowest first; those of a cloud go in at `cloud_index`."""

    layers: list[LayerResult]
    cloud_index: int = member(name="cloudInsertionIndex")


@shape()
class ConfigResult(Result):
    """The executor's configuration, of what was asked for. Homes are URIs."""

    home: str | None = member(name="userHomeDir")
    codex_home: str = member(name="codexHomeDir")
    hostname: str | None
    config: LayersResult
    requirements: LayersResult
