"""What a setup would run: the project's script, its commands, or those of another tool's file.

Files are read, nothing is run. The digest stands for all that is run and for no path of this machine, so it
is the same in every worktree.
"""

from __future__ import annotations

import os
import shlex
from hashlib import sha256
from json import dumps

from ...errors import SettingInvalid
from ...formats import jsonc
from ...formats.document import refuse
from ...formats.toml import Table, parse
from ...providers.manifests import names, present, read_text, read_toml, text
from ...record import KW_ONLY, record, replace
from ...system import PLATFORM
from .inputs import read_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..settings import SetupSettings

CODEX_FOLDER = ".codex/environments"
_CODEX_FILE = "environment.toml"
_PLATFORMS = ("darwin", "linux", "win32")
_DEVCONTAINER = ".devcontainer"
_DEVCONTAINER_FILE = "devcontainer.json"
# In their order; the others are for every start, or for the machine outside.
LIFECYCLE = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
# The variables of a devcontainer.json that mean the project's folder.
_FOLDERS = ("${localWorkspaceFolder}", "${containerWorkspaceFolder}")
_MOST_FILES = 100  # environments of one project


@record
class SetupPlan:
    """What would be run: the file `script`, or `text`, which is empty when there is nothing to do.

    `label` names it for people, `files` are what it was read from, `digest` ("sha256:...") is what trust is
    bound to. `content` is what the script says: that is run, whatever is in the file by then.
    """

    label: str
    files: tuple[str, ...]
    _: KW_ONLY
    script: str = ""
    text: str = ""
    digest: str = ""
    content: bytes = b""
    hidden = ("content",)

    @property
    def argv(self) -> list[str]:
        """For people to read before they allow it."""
        return ["bash", self.script] if self.script else ["bash", "-c", self.text]


def make_plan(setup: SetupSettings) -> SetupPlan:
    """What a declaration comes to. Raises SettingInvalid, FileInvalid."""
    folder = setup.folder
    content: str | None = None
    if setup.script is not None:
        path = os.path.join(folder, setup.script)
        data = read_script(path, setup.script)
        if data is None:
            raise SettingInvalid(f"[setup]: {folder} has no {setup.script}: create it, or write another path")
        content = f"sha256:{sha256(data).hexdigest()}"
        found = SetupPlan(setup.script, (path,), script=path, content=data)
    elif setup.run is not None:
        found = SetupPlan("[setup] run", (setup.file,), text=setup.run)
    elif setup.source == "codex":
        found = _codex(folder, setup.name)
    else:
        found = _devcontainer(folder, setup.name)
    told = [setup.source, setup.script, found.text, content]
    return replace(found, digest=f"sha256:{sha256(dumps(told).encode()).hexdigest()}")


def _content(path: str) -> str:
    content = read_text(path)
    if content is None:
        raise SettingInvalid(f"{path} cannot be read as text: correct it")
    return content


def watched(setup: SetupSettings) -> tuple[str, ...]:
    """The paths whose change can change the plan, or make one possible."""
    folder = setup.folder
    if setup.script is not None:
        return (os.path.join(folder, setup.script),)
    if setup.source == "codex":
        return (os.path.join(folder, CODEX_FOLDER), *_codex_files(folder))
    if setup.source == "devcontainer":
        return (os.path.join(folder, _DEVCONTAINER), *_devcontainer_candidates(folder))
    return ()


# Codex


def _codex_files(folder: str) -> list[str]:
    inside = os.path.join(folder, CODEX_FOLDER)
    return [f"{inside}/{name}" for name in names(inside) if name.endswith(".toml")][:_MOST_FILES]


def _codex(folder: str, name: str | None) -> SetupPlan:
    files = _codex_files(folder)
    if not files:
        raise SettingInvalid(f'[setup] from = "codex": {folder}/{CODEX_FOLDER} has no .toml file')
    if name is None:
        usual = [path for path in files if path.endswith(f"/{_CODEX_FILE}")] or files
        if len(usual) > 1:
            known = ", ".join(os.path.basename(path).removesuffix(".toml") for path in files)
            raise SettingInvalid(f'[setup] from = "codex": choose one with `name`: {known}')
        return _codex_plan(usual[0])
    by_name = {text(read_toml(path)[0], "name"): path for path in reversed(files)}
    by_name.update(
        (os.path.basename(path).removesuffix(".toml"), path) for path in files if name not in by_name
    )
    if name not in by_name:
        known = ", ".join(sorted(by_name))
        raise SettingInvalid(f"[setup]: no Codex environment is named `{name}`; known: {known}")
    return _codex_plan(by_name[name])


def _codex_plan(path: str) -> SetupPlan:
    """Of `[setup]`, this platform's script, else the one for all. What else is in the file is Codex's."""
    root = Table(parse(_content(path), path))
    root.only("version", "name", "setup", "cleanup", "actions")
    if (version := root.number("version")) is not None and version != 1:
        root.wrong(f"`version` is {version:g}, but only 1 is supported", "write version = 1", "version")
    name = root.text("name")
    setup = ""
    for part in ("setup", "cleanup"):
        table = root.table(part)
        if table is None:
            continue
        table.only("script", *_PLATFORMS)
        script = table.text("script")
        for platform in _PLATFORMS:
            own = table.table(platform)
            if own is None:
                continue
            own.only("script")
            said = own.text("script")
            if platform == PLATFORM and said is not None:
                script = said
        if part == "setup":
            setup = script or ""
    for action in root.tables("actions"):
        action.only("name", "icon", "command", "platform")
    refuse(root.mistakes)
    return SetupPlan(f"codex: {name or os.path.basename(path)}", (path,), text=setup if setup.strip() else "")


# devcontainer.json


def _devcontainer_candidates(folder: str) -> list[str]:
    inside = os.path.join(folder, _DEVCONTAINER)
    found = [f"{inside}/{_DEVCONTAINER_FILE}", f"{folder}/.{_DEVCONTAINER_FILE}"]
    for name in names(inside)[:_MOST_FILES]:
        path = f"{inside}/{name}"
        if os.path.isdir(path):
            found += [path, f"{path}/{_DEVCONTAINER_FILE}"]
    return found


def _devcontainer(folder: str, name: str | None) -> SetupPlan:
    candidates = [path for path in _devcontainer_candidates(folder) if path.endswith(".json")]
    files = list(present("", candidates))
    if name is not None:
        # By its path from the project on, or by the folder that it is in.
        files = [path for path in files if name in (os.path.relpath(path, folder), path.split("/")[-2])]
    if not files:
        which = f" `{name}`" if name is not None else ""
        raise SettingInvalid(f'[setup] from = "devcontainer": {folder} has no{which} devcontainer.json')
    if len(files) > 1:
        known = ", ".join(os.path.relpath(path, folder) for path in files)
        raise SettingInvalid(f'[setup] from = "devcontainer": choose one with `name`: {known}')
    [path] = files
    document = jsonc.parse(_content(path), path)
    if type(document.value) is not dict:
        raise SettingInvalid(f"{path} is not a JSON object: see containers.dev for its format")
    lines = []
    for key in LIFECYCLE:
        if document.value.get(key) is not None:
            where = f"{path}:{document.line(key)}: {key}"
            lines.append(f"# {key}\n{_lifecycle(document.value[key], where)}\n")
    script = "set -e\n" + "".join(lines) if lines else ""
    return SetupPlan(f"devcontainer: {os.path.relpath(path, folder)}", (path,), text=script)


def _lifecycle(value: object, where: str) -> str:
    """A command as the devcontainer specification has it, each in a process of its own.

    A string is for a shell, an array is not; those of an object run at once, and all must go well.
    """
    if type(value) is not dict:
        return _command(value, where)
    if not value:
        return ":"
    started = "".join(
        f"{_command(one, f'{where}.{name}')} & outfitter_jobs+=($!)\n" for name, one in value.items()
    )
    return (
        f"outfitter_jobs=()\n{started}outfitter_status=0\n"
        'for outfitter_job in "${outfitter_jobs[@]}"; do wait "$outfitter_job" || outfitter_status=$?; done\n'
        '[ "$outfitter_status" = 0 ] || exit "$outfitter_status"'
    )


def _command(value: object, where: str) -> str:
    if type(value) is str and "\0" not in value:
        for folder in _FOLDERS:
            value = value.replace(folder, "${OUTFITTER_WORKTREE}")
        return f"/bin/sh -c {shlex.quote(value)}" if value.strip() else ":"
    if type(value) is list and value and all(type(one) is str and "\0" not in one for one in value):
        # Whatever it is called: no function, and no assignment.
        return " ".join(["command", "--", *map(_word, value)])
    raise SettingInvalid(f"{where} must be a string, an array of strings, or an object of these")


def _word(text: str) -> str:
    for folder in _FOLDERS:
        text = text.replace(folder, "\0")
    return (
        '"$OUTFITTER_WORKTREE"'.join(shlex.quote(part) if part else "" for part in text.split("\0")) or "''"
    )
