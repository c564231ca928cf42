"""The project's Python environment: venv, virtualenv, uv, poetry, pdm, pipenv and hatch, found from files.

Each tool keeps its environments where its own rules put them; those rules are computed here, so nothing of
the project runs. A tool is asked only where files leave it open, and then it must be trusted: poetry and
hatch may load plugins that the project names.
"""

from __future__ import annotations

import os

from ..env.origin import Origin
from ..record import KW_ONLY, record, replace
from . import venv
from .base import Lost, Resolution, Trust
from .files import planted, program, upwards
from .manifests import Marked, absolute, covered, names, present, read_text, read_toml, table, text
from .owned import is_own
from .wrapping import as_it_is, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .base import Context, Detection

FOLDERS = (".venv", "venv", "env")
# What gives a tool away; `pyproject.toml` may name any of them.
_BY_FILE = {
    "uv": ("uv.lock", "uv.toml"),
    "poetry": ("poetry.lock", "poetry.toml"),
    "pdm": ("pdm.lock", "pdm.toml", ".pdm-python"),
    "pipenv": ("Pipfile", "Pipfile.lock"),
    "hatch": ("hatch.toml",),
}
MANIFESTS = (*(name for names in _BY_FILE.values() for name in names), "pyproject.toml")
CREATE = {
    "uv": "uv sync",
    "poetry": "poetry install",
    "pdm": "pdm install",
    "pipenv": "pipenv install",
    "hatch": "hatch env create",
    "venv": "python3 -m venv .venv",
}
# What belongs to a build backend of the same name, not to the tool that makes environments.
_BACKENDS = {
    "uv": {"build-backend"},
    "pdm": {"build", "version"},
    "hatch": {"build", "version", "metadata", "publish"},
}
_CFG = venv.MARK
# How a tool runs a command in an environment that is there, without making or changing one. uv stays its
# parent, and tells a signal that has ended it as we do: 128 and its number.
_RUN = {
    "uv": ("run", "--no-sync", "--project", "{root}", "--"),
    "poetry": ("--no-interaction", "--project", "{root}", "run", "--"),
}
_NOT_RUN = {
    "pipenv": "`pipenv run` expands `$NAME` in arguments",
    "pdm": "`pdm run` expands `${NAME}` in arguments",
    "hatch": "`hatch run` expands `{name}` in arguments",
    "venv": "a plain virtual environment has no tool that starts commands",
}


@record
class _Place:
    """Where a tool keeps the environment: a `path`, or whom to `ask`, or `why` there is none at all."""

    path: str = ""
    _: KW_ONLY
    ask: Sequence[str] = ()
    why: str = ""
    watch: Sequence[str] = ()


class Python(Marked):
    """One provider for all of them: `python`. Reading its files needs no trust."""

    id = "python"
    rank = 60
    modes = ("snapshot", "wrap")
    refused: Mapping[str, str] = {"capture": "a snapshot already has everything"}

    def trust(self, found: Detection, context: Context) -> Trust:
        tool, place = _Project(found.root, context).chosen()
        if context.mode == "wrap" and tool in _RUN:
            what, use = f"`{tool} run` would start each command", context.mode
        elif place.ask:
            what, use = f"`{' '.join(place.ask)}` would run to find the environment", ""
        else:
            return Trust("suggested")
        digest, read = covered(self._manifests(found), use, root=found.root)
        why = f"{what}, and may load code that the project names"
        return Trust("untrusted", "outfitter", digest, why=why, files=read)

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        tool, place = _Project(found.root, context).chosen()
        asked = [list(place.ask)] if place.ask else []
        if context.mode == "wrap" and tool in _RUN:
            asked.append([*_running(tool, tool, found.root, context), "COMMAND"])
        return asked

    def watch(self, found: Detection, context: Context) -> list[str]:
        return self._watched(found, _Project(found.root, context))

    def _watched(self, found: Detection, project: _Project) -> list[str]:
        watched = [*self._manifests(found), os.path.join(found.root, ".python-version")]
        watched += [os.path.join(found.root, name, _CFG) for name in FOLDERS]
        return list(dict.fromkeys([*watched, *project.watch()]))

    def resolve(self, found: Detection, context: Context) -> Resolution:
        project = _Project(found.root, context)
        tool, place = project.chosen()
        watch = self._watched(found, project)
        if place.ask:
            asked = _ask(tool, list(place.ask), found.root, context)
            if isinstance(asked, Resolution):
                return replace(asked, watch=tuple(watch))
            place = _Place(asked)
        result = self._at(tool, place, project, found)
        result = replace(result, watch=tuple(dict.fromkeys((*watch, *result.watch))))
        return _wrapped(tool, found.root, context, result) if context.mode == "wrap" else result

    def _at(self, tool: str, place: _Place, project: _Project, found: Detection) -> Resolution:
        if not place.path:
            return Resolution(
                "failed" if project.problem else "not-applicable", note=project.problem or place.why
            )
        create = f"`{CREATE[tool]}` in {found.root}"
        environment = venv.look(place.path)
        if environment is not None:
            fault = venv.fault(environment)
        elif os.path.isdir(place.path) and names(place.path):
            fault = f"{place.path} is not a virtual environment (no {_CFG})"
        else:
            note = f"{tool} has not created {place.path} yet: run {create}{project.beside(tool)}"
            return Resolution("missing", note=note, watch=venv.watched(place.path))
        if environment is None or fault:
            note = f"{fault}: remove it, then run {create}"
            return Resolution("failed", note=note, watch=venv.watched(place.path))
        origin = Origin("provider", f"python: {place.path}", os.path.join(place.path, _CFG))
        version = f" (Python {environment.version})" if environment.version else ""
        result = venv.activation(environment, origin, f"{tool}{version}")
        own = is_own(place.path, "bin", "bin/python", _CFG)
        return replace(result, own=own, lost=tuple(_lost(tool, project)))

    def _manifests(self, found: Detection) -> list[str]:
        return [os.path.join(found.root, name) for name in MANIFESTS]


class _Project:
    """One project folder, read once."""

    def __init__(self, root: str, context: Context) -> None:
        self.root = root
        self.env = context.env
        self.home = context.home
        self.given = context.option()
        self.pyproject, self.problem = read_toml(os.path.join(root, "pyproject.toml"))
        self._found: tuple[str, _Place] | None = None
        self._seen: list[str] = []

    def chosen(self) -> tuple[str, _Place]:
        """The tool, and where its environment is. Of several tools, the first whose environment exists."""
        if self._found is None:
            self._found = self._choose()
        return self._found

    def watch(self) -> list[str]:
        """What the choice depends on besides the manifests."""
        place = self.chosen()[1]
        return [*self._seen, *(venv.watched(place.path) if place.path else ())]

    def _choose(self) -> tuple[str, _Place]:
        if self.given:
            return "venv", _Place(absolute(self.given, self.root, self.home))
        places = []
        for tool in self.declared():
            place = _PLACES[tool](self)
            self._seen += place.watch
            if place.ask or (place.path and os.path.exists(os.path.join(place.path, _CFG))):
                return tool, place
            places.append((tool, place))
        if places:
            return next((one for one in places if one[1].path), places[0])
        # No tool is named: what lies here, or further up in the repository, is meant.
        for folder in upwards(self.root):
            for name in FOLDERS:
                path = os.path.join(folder, name)
                self._seen.append(os.path.join(path, _CFG))
                if os.path.exists(os.path.join(path, _CFG)) and not planted(folder, path):
                    return "venv", _Place(path)
        why = f"{self.root} names no tool and has no {', '.join(FOLDERS)}: `{CREATE['venv']}` creates one"
        return "venv", _Place(why=why)

    def declared(self) -> list[str]:
        """The tools that the project's files name, the surest first: locks before tables."""
        tools = [tool for tool, files in _BY_FILE.items() if present(self.root, files)]
        said = table(self.pyproject, "tool")
        for tool in _BY_FILE:
            if tool not in tools and set(table(said, tool)) - _BACKENDS.get(tool, set()):
                tools.append(tool)
        if "uv" not in tools and self.workspace() != self.root:
            tools.insert(0, "uv")
        return tools

    def beside(self, tool: str) -> str:
        """A hint at an environment that is there and not meant."""
        for name in FOLDERS:
            path = os.path.join(self.root, name)
            if tool != "venv" and os.path.exists(os.path.join(path, _CFG)):
                return f"; or configure {path} to use that one"
        return ""

    def workspace(self) -> str:
        """The root of the uv workspace that the project is a member of; itself when it is of none."""
        for folder in list(upwards(self.root))[1:]:
            path = os.path.join(folder, "pyproject.toml")
            if not os.path.exists(path) or planted(folder, path):
                continue
            said = table(read_toml(path)[0], "tool", "uv", "workspace")
            relative = os.path.relpath(self.root, folder)
            if _matches(relative, said.get("members")) and not _matches(relative, said.get("exclude")):
                self._seen.append(path)
                return folder
        return self.root

    def project_name(self) -> str:
        """As it is in `[project]` or `[tool.poetry]`, written the way package indexes do."""
        name = text(table(self.pyproject, "project"), "name")
        return _normal(name or text(table(self.pyproject, "tool", "poetry"), "name"))

    def folder(self, variable: str, default: str) -> str:
        """A base folder of the XDG rules: the variable's, or this below home."""
        value = self.env.get(variable, "")
        return value if os.path.isabs(value) else os.path.join(self.home, default)


def _ask(tool: str, argv: list[str], root: str, context: Context) -> str | Resolution:
    """The path that a tool names, or what to report instead. Only after trust was confirmed."""
    from ..host.tools.tool import run_tool
    from .tool import failed

    ran = run_tool(argv, root, context.tool_env, timeout=context.timeout, mark=context.mark)
    path = ran.stdout.decode("utf-8", "surrogateescape").strip()
    if ran.ok and os.path.isabs(path) and "\n" not in path:
        return path
    if ran.code == 1 and not path:
        note = f"{tool} has not created an environment yet: run `{CREATE[tool]}` in {root}"
        return Resolution("missing", note=note)
    what = f"`{' '.join(argv)}` in {root} did not print a path: run it by hand to see why"
    return failed(ran, context, what)


def _lost(tool: str, project: _Project) -> list[Lost]:
    """Variables of the tool's own settings, for commands that it starts itself. Those tools never do here."""
    if tool == "pdm":
        for_all = table(project.pyproject, "tool", "pdm", "scripts", "_")
        file = for_all.get("env_file")
        given = file if type(file) is str else text(table(for_all, "env_file"), "override")
        return [
            *(Lost("variable", name, "session") for name in sorted(table(for_all, "env"))),
            *([Lost("file", given, "session")] if given else []),
        ]
    if tool == "hatch":
        return [
            Lost("variable", name, "session") for name in sorted(table(_hatch_default(project), "env-vars"))
        ]
    return []


def _hatch_default(project: _Project) -> dict[str, Any]:
    """The table of hatch's environment `default`."""
    own = table(read_toml(os.path.join(project.root, "hatch.toml"))[0], "envs")
    return table({**table(project.pyproject, "tool", "hatch", "envs"), **own}, "default")


def _running(tool: str, path: str, root: str, context: Context) -> list[str]:
    words = [root if word == "{root}" else word for word in _RUN[tool]]
    return [path, *words, *as_it_is(context.tool_env)]


def _wrapped(tool: str, root: str, context: Context, snapshot: Resolution) -> Resolution:
    """For a tool that can; a reason for the others."""
    path = program(tool, context.tool_env) if tool in _RUN else None
    if path is not None:
        return wrapped(snapshot, _running(tool, path, root, context))
    if snapshot.state != "applied":
        return snapshot
    if tool in _RUN:
        note = f"{tool} is not in PATH: install it"
        return Resolution("missing", note=f'{note}, or write python = "snapshot"', watch=snapshot.watch)
    note = f'{_NOT_RUN[tool]}: write python = "snapshot" in [providers.modes]'
    return Resolution("failed", note=note, watch=snapshot.watch, producer=snapshot.producer)


# Where each tool keeps it


def _uv(project: _Project) -> _Place:
    name = project.env.get("UV_PROJECT_ENVIRONMENT") or ".venv"
    return _Place(os.path.normpath(os.path.join(project.workspace(), name)))


def _poetry(project: _Project) -> _Place:
    config = project.env.get("POETRY_CONFIG_DIR") or os.path.join(
        project.folder("XDG_CONFIG_HOME", ".config"), "pypoetry"
    )
    files = [os.path.join(config, "config.toml"), os.path.join(project.root, "poetry.toml")]
    said: dict[str, Any] = {}
    cache = ""
    for file in files:
        values = read_toml(file)[0]
        said.update(table(values, "virtualenvs"))
        cache = text(values, "cache-dir") or cache
    in_project = _flag(project.env.get("POETRY_VIRTUALENVS_IN_PROJECT"), said.get("in-project"))
    local = os.path.join(project.root, ".venv")
    if in_project is not False and (in_project or os.path.isdir(local)):
        return _Place(local, watch=files)
    if _flag(project.env.get("POETRY_VIRTUALENVS_CREATE"), said.get("create")) is False:
        why = "poetry is configured to create no environment (virtualenvs.create is false)"
        return _Place(why=why, watch=files)
    cache = project.env.get("POETRY_CACHE_DIR") or cache
    cache = cache or os.path.join(project.folder("XDG_CACHE_HOME", ".cache"), "pypoetry")
    folder = project.env.get("POETRY_VIRTUALENVS_PATH") or text(said, "path") or "{cache-dir}/virtualenvs"
    folder = folder.replace("{cache-dir}", cache).replace("{project-dir}", project.root)
    folder = absolute(folder, project.root, project.home)
    ask = ["poetry", "env", "info", "--path"]
    if "{" in folder:
        return _Place(ask=ask, watch=files)
    records = os.path.join(folder, "envs.toml")
    cleaned = _cleaned(project.project_name() or "non-package-mode", ' $`!*@"\\\r\n\t')
    base = f"{cleaned}-{_hash(os.path.realpath(project.root))}"
    watch = (*files, records, folder)
    minor = text(table(read_toml(records)[0], base), "minor")
    made = [name for name in names(folder) if name.startswith(f"{base}-py")]
    if minor and f"{base}-py{minor}" in made:
        return _Place(os.path.join(folder, f"{base}-py{minor}"), watch=watch)
    if len(made) > 1:
        return _Place(ask=ask, watch=watch)
    return _Place(os.path.join(folder, made[0] if made else f"{base}-py{minor or '*'}"), watch=watch)


def _pdm(project: _Project) -> _Place:
    file = os.path.join(project.root, ".pdm-python")
    interpreter = (read_text(file) or "").strip()
    if not interpreter:
        return _Place(os.path.join(project.root, ".venv"))
    interpreter = os.path.join(project.root, interpreter)
    path = os.path.dirname(os.path.dirname(interpreter))
    if os.path.exists(interpreter) and not os.path.exists(os.path.join(path, _CFG)):
        return _Place(why=f"pdm uses {interpreter}, which is not in a virtual environment")
    return _Place(path)


def _pipenv(project: _Project) -> _Place:
    pipfile = os.path.join(project.root, "Pipfile")
    home = project.env.get("WORKON_HOME") or os.path.join(
        project.folder("XDG_DATA_HOME", ".local/share"), "virtualenvs"
    )
    home = absolute(home, project.root, project.home)
    name = project.env.get("PIPENV_CUSTOM_VENV_NAME", "")
    if not name:
        # Of the Pipfile's path as it is written, unlike poetry.
        cleaned = _cleaned(os.path.basename(project.root), ' &$`!*@"()[]\\\r\n\t')
        name = f"{cleaned}-{_hash(pipfile)}"
        python = project.env.get("PIPENV_PYTHON", "")
        name += f"-{os.path.basename(python) if os.path.isabs(python) else python}" if python else ""
    elsewhere = os.path.join(home, name)
    local = os.path.join(project.root, ".venv")
    watch = (local, elsewhere)
    if os.path.isfile(local):
        said = (read_text(local) or "").strip()
        if not said:
            return _Place(elsewhere, watch=watch)
        above = project.root if "/" in said or said == "." else home
        return _Place(os.path.normpath(os.path.join(above, said)), watch=watch)
    configured = table(read_toml(pipfile)[0], "pipenv").get("venv_in_project")
    in_project = _flag(project.env.get("PIPENV_VENV_IN_PROJECT"), configured)
    if in_project is None:
        # One that it made earlier counts more than a folder that somebody else may have made.
        in_project = os.path.isdir(local) and not os.path.exists(elsewhere)
    return _Place(local if in_project else elsewhere, watch=watch)


def _hatch(project: _Project) -> _Place:
    default = _hatch_default(project)
    ask = ["hatch", "env", "find"]
    if default.get("type", "virtual") != "virtual" or project.env.get("HATCH_ENV_TYPE_VIRTUAL_PATH"):
        return _Place(ask=ask)
    chosen = text(default, "path")
    if chosen:
        return _Place(os.path.normpath(os.path.join(project.root, chosen)))
    config = project.env.get("HATCH_CONFIG") or os.path.join(
        project.folder("XDG_CONFIG_HOME", ".config"), "hatch", "config.toml"
    )
    dirs = table(read_toml(config)[0], "dirs")
    data = project.env.get("HATCH_DATA_DIR") or text(dirs, "data")
    data = data or os.path.join(project.folder("XDG_DATA_HOME", ".local/share"), "hatch")
    virtual = text(table(dirs, "env"), "virtual") or os.path.join(data, "env", "virtual")
    if "$" in virtual:
        return _Place(ask=ask, watch=(config,))
    folder = absolute(virtual, project.root, project.home)
    id = _hash(project.root)
    name = project.project_name() if table(project.pyproject, "project") else f"{id}-unmanaged"
    within = os.path.realpath(folder).startswith(f"{project.root}/")
    if within or folder == os.path.join(project.home, ".virtualenvs"):
        return _Place(os.path.join(folder, name), watch=(config,))
    return _Place(os.path.join(folder, name, id, name), watch=(config,))


_PLACES: dict[str, Callable[[_Project], _Place]] = {
    "uv": _uv,
    "poetry": _poetry,
    "pdm": _pdm,
    "pipenv": _pipenv,
    "hatch": _hatch,
}


# Names


def _normal(name: str) -> str:
    import re

    return re.sub(r"[-_.]+", "-", name).lower()


def _cleaned(name: str, unwanted: str) -> str:
    return "".join(["_" if mark in unwanted else mark for mark in name])[:42]


def _hash(path: str) -> str:
    """The eight characters that poetry, pipenv and hatch all make of a path."""
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    return urlsafe_b64encode(sha256(os.fsencode(path)).digest()).decode()[:8]


def _flag(variable: str | None, configured: object) -> bool | None:
    """What a variable says, or else a file; None when neither does."""
    if variable:
        return variable.lower() in ("1", "true", "yes", "on")
    return configured if type(configured) is bool else None


def _matches(path: str, patterns: object) -> bool:
    """Whether a relative path fits a pattern of a workspace; `*` is within one folder, `**` is any."""
    from fnmatch import fnmatchcase

    for pattern in patterns if type(patterns) is list else ():
        if type(pattern) is not str:
            continue
        if "**" in pattern:
            if fnmatchcase(path, pattern):
                return True
            continue
        mine, theirs = path.split("/"), os.path.normpath(pattern).split("/")
        if len(mine) == len(theirs) and all(fnmatchcase(a, b) for a, b in zip(mine, theirs, strict=True)):
            return True
    return False
