"""The files that configure Codex on this machine, as layers, lowest first: for clients that run elsewhere.

Only what a client names is passed on. A project's own files count where the user's file trusts the project.
"""

from __future__ import annotations

import os

from ..errors import FileInvalid, SettingInvalid
from ..formats.toml import parse
from ..formats.tomltext import write
from ..openers import plain_file
from ..places import codex_file
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SYSTEM = "/etc/codex"
_PROJECT = ".codex/config.toml"
_LARGEST = 4 << 20  # bytes of one file; the largest that people have are some 100 KiB


@record
class CodexLayer:
    """What one file says, of what was asked for."""

    source: str
    folder: str
    toml: str


class ConfigUnreadable(Exception):
    """A file cannot be read, or is no TOML."""


def config(
    environ: Mapping[str, str], cwd: str, paths: Sequence[Sequence[str]], system: str = SYSTEM
) -> tuple[list[CodexLayer], int]:
    """The layers that say something of `paths`; and how many of them stand below what a cloud would add.

    Raises ConfigUnreadable.
    """
    below = _layers([("system ({})", f"{system}/config.toml")], paths)
    try:
        user = codex_file(environ)
    except SettingInvalid:
        user = ""
    files = [("user ({})", user)] if user else []
    trusted = _document(user).get("projects", {}) if user else {}
    files += [("project ({})", path) for path in _project_files(cwd, trusted)]
    files.append(("legacy managed_config.toml ({})", f"{system}/managed_config.toml"))
    return below + _layers(files, paths), len(below)


def requirements(paths: Sequence[Sequence[str]], system: str = SYSTEM) -> tuple[list[CodexLayer], int]:
    """What the machine's owner requires of Codex, in the same form. Raises ConfigUnreadable."""
    found = _layers([("{}", f"{system}/requirements.toml")], paths)
    return found, len(found)


def _layers(files: list[tuple[str, str]], paths: Sequence[Sequence[str]]) -> list[CodexLayer]:
    found = []
    for source, path in files:
        chosen = project(_document(path), paths)
        if chosen:
            found.append(CodexLayer(source.format(path), os.path.dirname(path), write(chosen)))
    return found


def _document(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb", opener=plain_file) as file:
            data = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigUnreadable(f"{path}: {error.strerror} (os error {error.errno})") from None
    if len(data) > _LARGEST:
        raise ConfigUnreadable(f"{path}: larger than {_LARGEST} bytes")
    try:
        value: dict[str, Any] = parse(data.decode(), path).value
    except UnicodeDecodeError:
        raise ConfigUnreadable(f"{path}: not UTF-8") from None
    except FileInvalid as error:
        raise ConfigUnreadable(str(error)) from None
    return value


def project(table: Mapping[str, Any], paths: Sequence[Sequence[str]]) -> dict[str, Any]:
    """What a table says at and below some paths, in its own order. A path that ends at a value has it."""
    chosen: dict[str, Any] = {}
    whole = {path[0] for path in paths if len(path) == 1}
    deeper: dict[str, list[Sequence[str]]] = {}
    for path in paths:
        if len(path) > 1:
            deeper.setdefault(path[0], []).append(path[1:])
    for key, value in table.items():
        if key in whole or (key in deeper and not isinstance(value, dict)):
            chosen[key] = value
        elif key in deeper:
            chosen[key] = project(value, deeper[key])
    return chosen


def _project_files(cwd: str, trusted: object) -> list[str]:
    """The files of a trusted project, from its root down to the working directory."""
    root = _repository(cwd)
    if not isinstance(trusted, dict) or not os.path.isdir(cwd) or not _is_trusted(trusted, cwd, root):
        return []
    folders = [cwd]
    while folders[-1] != root and folders[-1] != "/":
        folders.append(os.path.dirname(folders[-1]))
    return [os.path.join(folder, _PROJECT) for folder in reversed(folders)]


def _is_trusted(trusted: dict[str, Any], cwd: str, root: str) -> bool:
    names = {cwd, root, os.path.realpath(cwd), os.path.realpath(root)}
    found = [trusted.get(name) for name in names]
    return any(isinstance(one, dict) and one.get("trust_level") == "trusted" for one in found)


def _repository(cwd: str) -> str:
    """The nearest folder above that is a repository; the working directory itself where none is."""
    folder = cwd
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isfile(git) or os.path.isfile(os.path.join(git, "HEAD")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return cwd
        folder = above
