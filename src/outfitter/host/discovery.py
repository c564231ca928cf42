"""Skills and plugins on this machine: walks the folders and reads the files. `core.capabilities` decides."""

from __future__ import annotations

import os
import stat

from ..core import capabilities
from ..core.capabilities import FILE_BYTES, MANIFESTS, METADATA, ROOT_BYTES, SKILL
from ..core.walk import FILE
from ..errors import Refused
from .files import failed
from .pipes import let_go
from .walk import PLAIN, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..core.walk import Walk
    from .walk import Sight

    Encode = Callable[[str], str]  # a name as a part of a URI
    File = dict[str, str]  # "path", which is a URI, and "contents"

_METADATA_FOLDER = METADATA.partition("/")[0]
_SECONDS = 30.0  # for one root on a slow disk; a root has 2,000 folders at most


class _Options:
    """What a walk needs to know: links to folders are followed, hidden folders are entered."""

    max_depth = capabilities.DEPTH
    max_directories = capabilities.DIRECTORIES
    max_entries = capabilities.ENTRIES
    follow_directories = True
    prune_hidden = False


class Bundle:
    """The files of one root: what was read of them, and what could not be."""

    def __init__(self, encode: Encode, sight: Sight) -> None:
        self.warnings: list[str] = []
        self.sight = sight
        self._encode = encode
        self._known: dict[str, File | None] = {}
        self._left = ROOT_BYTES

    def uri(self, path: str) -> str:
        return "file://" + "/".join(map(self._encode, path.split("/")))

    def read(self, path: str, uri: str = "") -> File | None:
        """A file, or None: it is not there, or a warning says what is wrong with it."""
        if path not in self._known:
            self._known[path] = self._read(path, uri or self.uri(path))
        return self._known[path]

    def _read(self, path: str, uri: str) -> File | None:
        try:
            data = read_small(path, self.sight)
        except (FileNotFoundError, NotADirectoryError, Refused):
            return None
        except OSError as error:
            self.warnings.append(f"failed to read capability file {uri}: {failed(error)}")
            return None
        if len(data) > FILE_BYTES:
            self.warnings.append(f"capability file {uri} exceeds the {FILE_BYTES}-byte limit")
            return None
        if len(data) > self._left:
            self.warnings.append(f"capability root bundle exceeds the {ROOT_BYTES}-byte limit")
            return None
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            self.warnings.append(f"capability file {uri} is not UTF-8: {_not_utf8(error)}")
            return None
        self._left -= len(data)
        return {"path": uri, "contents": text}


def read_small(path: str, sight: Sight) -> bytes:
    """A regular file, up to one byte more than it may have. Raises OSError, Refused for anything else."""
    fd, found = sight.open_read(path)
    try:
        data = os.read(fd, min(found.st_size, FILE_BYTES) + 1)
        parts = [data]
        left = FILE_BYTES + 1 - len(data)
        while len(data) > found.st_size and left > 0 and (part := os.read(fd, left)):  # it grows
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        let_go(fd)


def _not_utf8(error: UnicodeDecodeError) -> str:
    """In the words of the reference, for those who compare."""
    if error.reason == "unexpected end of data":
        return f"incomplete utf-8 byte sequence from index {error.start}"
    return f"invalid utf-8 sequence of {error.end - error.start} bytes from index {error.start}"


# capabilityRoots/discoverV1


def nothing(ident: str, uri: str) -> dict[str, Any]:
    """A root that holds nothing."""
    found: dict[str, Any] = {"id": ident, "path": uri, "plugin": None, "skills": [], "namespaceManifests": []}
    return found | {"warnings": [], "error": None}


def root(ident: str, path: str, uri: str, encode: Encode, sight: Sight = PLAIN) -> dict[str, Any]:
    """What one root holds, as far as it is in sight."""
    told = nothing(ident, uri)
    try:
        if not stat.S_ISDIR(sight.stat(path).st_mode):
            return {**told, "error": f"capability root {uri} is not a directory"}
        found = walk(path, uri, _Options, encode, _SECONDS, sight)
    except OSError as error:
        return {**told, "error": f"failed to inspect capability root {uri}: {failed(error)}"}
    bundle = Bundle(encode, sight)
    bundle.warnings += [f"failed to walk {where}: {why}" for where, why in found.errors]
    if found.truncated:
        bundle.warnings.append(f"capability scan reached its traversal limit (root: {uri})")
    base = path.rstrip("/")
    manifest = _manifest(base, bundle)
    if manifest is not None:
        told["plugin"] = _plugin(base, manifest, bundle)
    listed = _Listed(found)
    told["skills"] = _skills(listed, base, uri, bundle)
    told["namespaceManifests"] = _namespaces(base, uri, manifest, listed.manifests, bundle)
    told["warnings"] = bundle.warnings
    return told


def _manifest(folder: str, bundle: Bundle) -> File | None:
    for name in MANIFESTS:
        path = f"{folder}/{name}"
        try:
            is_there = stat.S_ISREG(bundle.sight.stat(path).st_mode)
        except OSError:
            continue
        if is_there:
            return bundle.read(path)
    return None


def _plugin(folder: str, manifest: File, bundle: Bundle) -> dict[str, File | None]:
    text = manifest["contents"]
    configs: dict[str, File | None] = {}
    for key in ("mcpServers", "apps"):
        named = capabilities.named(text, key)
        if named.wrong:
            bundle.warnings.append(f"ignoring {key} in {manifest['path']}: {named.wrong}")
        default = capabilities.MCP_CONFIG if key == "mcpServers" and not named.inline else ""
        name = named.path or default
        configs[key] = bundle.read(f"{folder}/{name}") if name else None
    return {"manifest": manifest, "mcpConfig": configs["mcpServers"], "appsConfig": configs["apps"]}


class _Listed:
    """What a walk has seen, as URIs: skills, folders of their metadata, other plugins' manifests."""

    def __init__(self, found: Walk) -> None:
        self.skills: list[str] = []
        self.metadata: set[str] = set()
        self.manifests: list[str] = []
        for prefix, names, kind in found.groups:
            if kind != FILE:
                if names[0] == _METADATA_FOLDER:
                    self.metadata.add(prefix)
                continue
            if SKILL in names:
                self.skills.append(f"{prefix}{SKILL}")
            if "plugin.json" in names:
                self.manifests.append(f"{prefix}plugin.json")
        self.skills.sort()


def _skills(listed: _Listed, base: str, uri: str, bundle: Bundle) -> list[dict[str, File | None]]:
    found = []
    for one in listed.skills:
        path = _path(one, base, uri)
        instructions = bundle.read(path, one)
        if instructions is not None:
            folder = one[: -len(SKILL)]
            metadata = None
            if folder in listed.metadata:
                metadata = bundle.read(path[: -len(SKILL)] + METADATA, folder + METADATA)
            found.append({"instructions": instructions, "metadata": metadata})
    return found


def _namespaces(base: str, uri: str, own: File | None, listed: list[str], bundle: Bundle) -> list[File]:
    """The manifest of the root or of the nearest folder above it; then those below, one for each plugin."""
    found = [own] if own is not None else []
    above = base
    while not found and above:
        above = above.rpartition("/")[0]
        manifest = _manifest(above, bundle) if above else None
        if manifest is not None:
            found.append(manifest)
    plugins: dict[str, list[str]] = {}
    for one in listed:
        for name in MANIFESTS:
            if one.endswith(f"/{name}"):
                plugins.setdefault(one[: -len(name) - 1], []).append(name)
    for plugin in sorted(plugins):
        name = min(plugins[plugin], key=MANIFESTS.index)
        one = f"{plugin}/{name}"
        manifest = bundle.read(_path(one, base, uri), one)
        if manifest is not None and manifest not in found:
            found.append(manifest)
    return found


def _path(one: str, base: str, uri: str) -> str:
    """The path of a URI below a root."""
    below = one[len(uri.rstrip("/")) :]
    if "%" not in below:
        return base + below
    from urllib.parse import unquote_to_bytes

    return base + os.fsdecode(unquote_to_bytes(below))
