"""The skills and plugins of this machine's own stores, for capabilities/discoverV2."""

from __future__ import annotations

import time

from ..core import capabilities
from ..core.capabilities import APPS_CONFIG, INSTALLED, REMOTE, REMOTE_BYTES, ROOT_BYTES, Unusable
from ..errors import Refused
from . import discovery
from .discovery import Bundle, read_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .discovery import Encode, File
    from .walk import Sight

SYSTEM_SKILLS = "/etc/codex/skills"
_SECONDS = 30.0  # for all plugins on a slow disk


class Stores:
    """What was found. `unresolved` says whether a place could not be looked at, `failures` counts what could
    not be read: files, and the roots of which skills are left out."""

    def __init__(self, encode: Encode, sight: Sight) -> None:
        self.plugins: list[dict[str, Any]] = []
        self.skills: list[dict[str, Any]] = []
        self.unresolved = False
        self.failures = 0
        self._encode = encode
        self._sight = sight

    def add_skills(self, ident: str, path: str) -> None:
        """A folder of skills."""
        try:
            self._sight.stat(path)
        except OSError:
            return
        told, skills = self._root(ident, path)
        store = {"id": ident, "path": told["path"]}
        for one in skills:
            self.skills.append({**one, "discoveryRoot": store})

    def _root(self, ident: str, path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """What a root holds, and its skills as they are told."""
        uri = Bundle(self._encode, self._sight).uri(path)
        told = discovery.root(ident, path, uri, self._encode, self._sight)
        plugins = _plugins(told["namespaceManifests"])
        skills = []
        for one in told["skills"]:
            try:
                skills.append(_skill(one, plugins))
            except Unusable:
                pass  # counted below
        complete = told["error"] is None and len(skills) == len(told["skills"])
        self.failures += len(told["warnings"]) + (not complete)
        return told, skills

    # Plugins: WHENCE/NAME/VERSION in their folder

    def add_plugins(self, path: str) -> None:
        known = sorted(
            (f"{name}@{whence}", f"{path}/{whence}/{name}")
            for whence in filter(capabilities.is_plugin_part, self._folders(path))
            for name in filter(capabilities.is_plugin, self._folders(f"{path}/{whence}"))
        )
        left = ROOT_BYTES  # for the files of all together
        deadline = time.monotonic() + _SECONDS
        for number, (ident, folder) in enumerate(known):
            if number == INSTALLED or left < 0 or time.monotonic() > deadline:
                self.failures += 1
                return
            version = capabilities.newest(self._folders(folder, links=False))
            told = None if version is None else self._plugin(ident, folder, version)
            if told is not None:
                self.plugins.append(told)
                left -= sum(len(file["contents"]) for file in told["files"].values() if file is not None)

    def _folders(self, path: str, *, links: bool = True) -> list[str]:
        try:
            with self._sight.scan(path) as entries:
                return [one.name for one in entries if _is_folder(one, links=links)]
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            self.unresolved = True
        return []

    def _plugin(self, ident: str, folder: str, version: str) -> dict[str, Any] | None:
        before = self.failures
        remote = self._remote(f"{folder}/{REMOTE}")
        path = f"{folder}/{version}"
        told, skills = self._root(ident, path)
        try:
            if told["plugin"] is None:
                raise Unusable("it has no manifest")
            files = dict(told["plugin"])
            manifest = files["manifest"]
            face = capabilities.face(manifest["contents"], version)
        except Unusable:
            self.failures = before + 1
            return None
        if face.inline is not None:
            files["mcpConfig"] = {"path": manifest["path"], "contents": face.inline}
        if not capabilities.named(manifest["contents"], "apps").path:
            files["appsConfig"] = Bundle(self._encode, self._sight).read(f"{path}/{APPS_CONFIG}")
        return {
            "id": ident,
            "displayName": face.display_name,
            "remotePluginId": remote,
            "version": version,
            "root": told["path"],
            "files": files,
            "skills": skills,
        }

    def _remote(self, path: str) -> str | None:
        try:
            data = read_small(path, self._sight)
            if len(data) > REMOTE_BYTES:
                raise Unusable("it is too long")
            return capabilities.remote_id(data.decode())
        except FileNotFoundError:
            pass
        except (OSError, Refused, UnicodeDecodeError, Unusable):
            self.unresolved = True
        return None


def _is_folder(entry: Any, *, links: bool) -> bool:
    try:
        return bool(entry.is_dir(follow_symlinks=links))
    except OSError:
        return False


def _plugins(manifests: list[File]) -> dict[str, str]:
    """The names of plugins by their folders' URIs. What has a manifest that cannot be used is none."""
    found: dict[str, str] = {}
    for one in manifests:
        folder = one["path"].rsplit("/", 2)[0]
        try:
            found[folder] = capabilities.face(one["contents"], folder.rpartition("/")[2]).name
        except Unusable:
            pass
    return found


def _owner(folder: str, plugins: dict[str, str]) -> str | None:
    """The plugin in whose folder something lies: the nearest."""
    while plugins and folder:
        if folder in plugins:
            return plugins[folder]
        folder = folder.rpartition("/")[0]
    return None


def _skill(one: dict[str, File | None], plugins: dict[str, str]) -> dict[str, Any]:
    from ..formats import yaml

    instructions, metadata = one["instructions"], one["metadata"]
    assert instructions is not None
    path = instructions["path"]
    folder = path.rpartition("/")[0]
    told = _front(capabilities.front_matter(instructions["contents"]), folder.rpartition("/")[2])
    more: object = None
    if metadata is not None:
        try:
            more = yaml.parse(metadata["contents"])
        except ValueError:
            pass  # the skill itself is fine
    return {
        **told,
        "name": capabilities.qualified(told["name"], _owner(folder, plugins)),
        "path": path,
        "dependencies": capabilities.dependencies(more),
        "policy": capabilities.policy(more),
    }


# What skills say about themselves, by the text: to read it again takes longer than all else. A machine with
# more skills than this forgets them all, and starts again.
_KNOWN = 8192
_known: dict[tuple[str, str], dict[str, Any]] = {}


def _front(text: str, folder: str) -> dict[str, Any]:
    """Raises Unusable."""
    from ..formats import yaml

    found = _known.get((text, folder))
    if found is None:
        try:
            found = capabilities.skill(yaml.parse_loosely(text), folder)
        except ValueError as error:
            raise Unusable(str(error)) from None
        if len(_known) >= _KNOWN:
            _known.clear()
        _known[text, folder] = found
    return found
