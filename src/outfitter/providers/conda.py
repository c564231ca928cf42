"""conda, mamba and pixi: an environment is a prefix, and its activation is mostly data in it.

For conda the prefix is the configured one, a `.conda` in the project itself, or the one of those that conda
knows whose name the project's file has. Scripts below `etc/conda/activate.d` are named as lost; the mode
`capture` runs them.
"""

from __future__ import annotations

import os

from ..env.layer import Operation
from ..env.origin import Origin
from ..env.pathops import operations
from ..record import replace
from .base import Lost, Resolution, Trust
from .capturing import SOURCE, captured
from .manifests import (
    Marked,
    absolute,
    covered,
    is_text,
    names,
    parsed,
    read_text,
    read_toml,
    table,
    texts,
    typed,
)
from .owned import is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .base import Context, Detection

MARK = "conda-meta/history"
_LISTED = ".conda/environments.txt"  # below home: every prefix that conda, mamba or micromamba has made
_UNSET = "***unset***"  # how conda writes that a variable of an environment was taken back
_SCRIPTS = "etc/conda/activate.d"
# Of the prompt and of the shell that asked, not of the environment.
_NOT_FOR_PROGRAMS = frozenset(("PS1", "PIXI_PROMPT", "PIXI_IN_SHELL", "CONDA_PROMPT_MODIFIER"))


class Conda(Marked):
    """`conda = ["PREFIX"]` in the configuration; with "ask" behind it, conda is asked, when it is trusted."""

    id = "conda"
    rank = 51
    modes = ("snapshot", "capture")
    refused: Mapping[str, str] = {
        "wrap": "`conda run` writes a script and accepts no argument with a line break"
    }

    def trust(self, found: Detection, context: Context) -> Trust:
        prefix = _prefix(found, context)
        scripts = _to_run(prefix, context)
        if not prefix or not (_asks(context) or scripts):
            return Trust("suggested")
        files = [os.path.join(prefix, name) for name in (MARK, "conda-meta/state")]
        why = "conda and its plugins would run" if _asks(context) else ""
        if scripts:
            why = f"{why}; these scripts would run: {', '.join(scripts)}".removeprefix("; ")
        digest, read = covered([*files, *scripts], root=found.root)
        return Trust("untrusted", "outfitter", digest, why=why, files=read)

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        prefix = _prefix(found, context)
        asked = [_activate(prefix)] if prefix and _asks(context) else []
        scripts = _to_run(prefix, context)
        return [*asked, ["bash", "-c", SOURCE, "bash", *scripts]] if scripts else asked

    def watch(self, found: Detection, context: Context) -> list[str]:
        prefix = _prefix(found, context)
        watched = [*super().watch(found, context), os.path.join(context.home, _LISTED)]
        return [*watched, *_watched(prefix), *_to_run(prefix, context)] if prefix else watched

    def resolve(self, found: Detection, context: Context) -> Resolution:
        prefix = _prefix(found, context)
        watch = self.watch(found, context)
        if not prefix:
            note = 'no file names the prefix of the project: configure it as conda = ["PREFIX"]'
            fitting = _known(found, context)
            if fitting:
                note = f'choose one of {", ".join(fitting)}: configure it as conda = ["PREFIX"]'
            elif name := _declared(found):
                note = f'conda has no environment named {name}: create it, or configure conda = ["PREFIX"]'
            return Resolution("not-applicable", note=note, watch=watch)
        if _asks(context) and is_prefix(prefix):
            document, failed = _asked(_activate(prefix), found.root, context)
            result = failed or from_conda(document, context.tool_env.get("PATH"), prefix)
        else:
            result = activation(prefix)
        scripts = _to_run(prefix, context)
        if scripts and result.state == "applied":
            result = captured(
                SOURCE,
                scripts,
                found.root,
                context,
                origin=Origin("provider", f"conda: {prefix}", os.path.join(prefix, _SCRIPTS)),
                remedy=f"`conda activate {typed(prefix)}` runs the same scripts",
                snapshot=result,
                dropped=_NOT_FOR_PROGRAMS,
            )
        return replace(result, watch=tuple(watch))


class Pixi(Marked):
    """pixi, asked for the environment "default" or the configured one; it runs the project's own scripts."""

    id = "pixi"
    rank = 50
    modes = ("snapshot", "capture")  # it runs the scripts for a snapshot, so that is a capture, too
    refused: Mapping[str, str] = {"wrap": "`pixi run` parses arguments with a shell of its own"}

    def trust(self, found: Detection, context: Context) -> Trust:
        why = "pixi runs the activation scripts of the project"
        digest, read = covered(_pixi_inputs(found.root), root=found.root)
        return Trust("untrusted", "outfitter", digest, why=why, files=read)

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        return [_shell_hook(found.root, context)]

    def watch(self, found: Detection, context: Context) -> list[str]:
        return [*_pixi_inputs(found.root), *_watched(_pixi_prefix(found.root, context))]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        watch = self.watch(found, context)
        name = _pixi_name(context)
        if "/" in name or name in (".", ".."):
            return Resolution("failed", note=f"`{name}` is not the name of an environment", watch=watch)
        if not is_prefix(_pixi_prefix(found.root, context)):
            install = f"pixi install -e {typed(name)}"
            note = f"pixi has not created the environment {name} yet: run `{install}` in {found.root}"
            return Resolution("missing", note=note, watch=watch)
        document, failed = _asked(_shell_hook(found.root, context), found.root, context)
        result = failed or from_pixi(document, context.tool_env.get("PATH"), found.root)
        return replace(result, watch=tuple(watch))


# Of a prefix, as data


def is_prefix(path: str) -> bool:
    return os.path.exists(os.path.join(path, MARK))


def activation(prefix: str, origin: Origin | None = None) -> Resolution:
    """What `conda activate PREFIX` exports in a shell where nothing is active, from files of the prefix.

    The prompt is not part of it, nor is the folder of the `conda` command.
    """
    if ":" in prefix:
        return Resolution("failed", note=f"{prefix} has a colon in its path, which PATH does not allow")
    if not is_prefix(prefix):
        if not os.path.isdir(prefix):
            create = f"conda env create -p {typed(prefix)}"
            note = f"{prefix} does not exist: run `{create}` in the project"
            return Resolution("missing", note=note)
        return Resolution("failed", note=f"{prefix} is not a conda environment (it has no {MARK})")
    origin = origin or Origin("provider", f"conda: {prefix}", os.path.join(prefix, MARK))
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    folder = os.path.join(prefix, "etc/conda/env_vars.d")
    state = os.path.join(prefix, "conda-meta/state")
    for file in (*(os.path.join(folder, name) for name in names(folder)), state):
        said = parsed(read_text(file) or "") if os.path.lexists(file) else {}
        if type(said) is not dict:
            return Resolution("failed", note=f"{file} is not a JSON object: reinstall its package")
        own = table(said, "env_vars") if file == state else said
        values.update(own)
        origins.update(dict.fromkeys(own, Origin("provider", f"conda: {prefix}", file)))
    values = {name: value for name, value in values.items() if value != _UNSET}
    wrong = [name for name, value in values.items() if not is_text(value)]
    if wrong:
        note = (
            f"{prefix} sets {', '.join(wrong)} to something other than a string: "
            "correct it with `conda env config vars set`"
        )
        return Resolution("failed", note=note)
    values.update({"CONDA_PREFIX": prefix, "CONDA_DEFAULT_ENV": _name(prefix), "CONDA_SHLVL": "1"})
    return Resolution(
        "applied",
        set=values,
        operations=[Operation("PATH", "prepend", (os.path.join(prefix, "bin"),), origin)],
        origins={name: origins.get(name, origin) for name in values},
        lost=[Lost("hook", os.path.relpath(path, prefix), "capture") for path in _scripts_of(prefix)],
        own=is_own(prefix, "bin", "conda-meta", MARK),
        watch=_watched(prefix),
        producer="conda",
    )


def _name(prefix: str) -> str:
    """What conda calls it: the last part below `envs`, `base` for its own, else the path."""
    if os.path.exists(os.path.join(prefix, "condabin", "conda")):
        return "base"
    above, name = os.path.split(prefix)
    return name if os.path.basename(above) == "envs" else prefix


def _scripts_of(prefix: str) -> list[str]:
    """What an activation runs, in its order."""
    folder = os.path.join(prefix, _SCRIPTS)
    return [os.path.join(folder, name) for name in names(folder) if name.endswith(".sh")]


def _to_run(prefix: str, context: Context) -> list[str]:
    return _scripts_of(prefix) if prefix and context.mode == "capture" else []


def _watched(prefix: str) -> tuple[str, ...]:
    inside = (MARK, "conda-meta/state", "etc/conda/env_vars.d", _SCRIPTS)
    return tuple(os.path.join(prefix, name) for name in inside)


# What the tools print


def from_conda(document: object, base_path: str | None, prefix: str) -> Resolution:
    """What `conda shell.posix+json activate PREFIX` prints, as a resolution; `base_path` is its own PATH."""
    if type(document) is not dict:
        return Resolution("failed", note="conda did not print a JSON object: it may be too old")
    variables = table(document, "vars")
    named = (variables.get("unset"), table(document, "scripts").get("activate"))
    unset, scripts = [[] if said is None else texts(said) for said in named]
    path = texts(table(document, "path").get("PATH"))
    if not path or unset is None or scripts is None:
        return Resolution("failed", note="conda did not understand `shell.posix+json`: it may be too old")
    origin = Origin("provider", f"conda: {prefix}")
    return _said(
        table(variables, "export"),
        operations(base_path, ":".join(path), "PATH", origin),
        origin,
        unset=[name for name in unset if name not in _NOT_FOR_PROGRAMS],
        lost=[Lost("hook", script, "capture") for script in scripts],
        producer="conda",
    )


def from_pixi(document: object, base_path: str | None, root: str) -> Resolution:
    """What `pixi shell-hook --json` prints, as a resolution; `base_path` is its own PATH."""
    values = dict(table(document, "environment_variables")) if type(document) is dict else {}
    if type(document) is not dict or not values:
        return Resolution("failed", note="pixi did not print `environment_variables`: it may be too old")
    origin = Origin("provider", f"pixi: {root}", os.path.join(root, "pixi.toml"))
    new = values.pop("PATH", None)
    return _said(
        values,
        operations(base_path, new, "PATH", origin) if type(new) is str else [],
        origin,
        producer="pixi",
    )


def _said(
    values: Mapping[str, Any],
    path: list[Operation],
    origin: Origin,
    *,
    producer: str,
    unset: Sequence[str] = (),
    lost: Sequence[Lost] = (),
) -> Resolution:
    converted: dict[str, str] = {}
    for name, value in values.items():
        if type(value) in (int, float):
            value = str(value)  # CONDA_SHLVL is a number there
        if not is_text(value):
            return Resolution("failed", note=f"{producer} gives {name} a value that is not a string")
        if name not in _NOT_FOR_PROGRAMS:
            converted[name] = value
    return Resolution(
        "applied",
        set=converted,
        unset=unset,
        operations=path,
        origins=dict.fromkeys(converted, origin),
        lost=lost,
        producer=producer,
    )


# Asking them


def _prefix(found: Detection, context: Context) -> str:
    given = context.option()
    if given:
        return absolute(given, found.root, context.home)
    own = os.path.join(found.root, ".conda")
    if is_prefix(own):
        return own
    fitting = _known(found, context)
    return fitting[0] if len(fitting) == 1 else ""


def _known(found: Detection, context: Context) -> list[str]:
    """Of the prefixes that conda has a list of, those with the name in the project's file."""
    name = _declared(found)
    if not name:
        return []
    listed = read_text(os.path.join(context.home, _LISTED)) or ""
    paths = dict.fromkeys(os.path.normpath(line.strip()) for line in listed.splitlines() if line.strip())
    return [
        path
        for path in paths
        if os.path.isabs(path)
        and os.path.basename(path) == name
        and os.path.basename(os.path.dirname(path)) == "envs"
        and is_prefix(path)
    ]


def _declared(found: Detection) -> str:
    """`name:` of the environment's file, which is YAML: at the beginning of a line, a plain word."""
    for path in found.files:
        if not path.endswith(("environment.yml", "environment.yaml")):
            continue
        for line in (read_text(path) or "").splitlines():
            key, colon, value = line.partition(":")
            if colon and key.rstrip() == "name":
                value = value.partition(" #")[0].strip()
                quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
                value = value[1:-1] if quoted else value
                return value if value and "/" not in value and value not in (".", "..") else ""
    return ""


def _asks(context: Context) -> bool:
    return context.option(1) == "ask"


def _activate(prefix: str) -> list[str]:
    return ["conda", "shell.posix+json", "activate", prefix]


def _asked(argv: list[str], root: str, context: Context) -> tuple[object, Resolution | None]:
    """The JSON that a tool prints, or what to report instead."""
    from ..host.tools.tool import run_tool
    from .tool import failed

    ran = run_tool(argv, root, context.tool_env, timeout=context.timeout, mark=context.mark)
    if ran.ok and (said := parsed(ran.stdout)) is not None:
        return said, None
    what = f"`{' '.join(ran.argv)}` did not print an environment: run it by hand to see why"
    return None, failed(ran, context, what)


def _pixi_name(context: Context) -> str:
    return context.option() or "default"


def _pixi_prefix(root: str, context: Context) -> str:
    return os.path.join(root, ".pixi", "envs", _pixi_name(context))


def _shell_hook(root: str, context: Context) -> list[str]:
    # Neither installs nor changes the lock file.
    options = ["--frozen", "--no-install", "--environment", _pixi_name(context)]
    return ["pixi", "shell-hook", "--json", *options, "--manifest-path", root]


def _pixi_inputs(root: str) -> list[str]:
    """What decides what pixi runs: its manifests, and the scripts that they name."""
    files = [os.path.join(root, name) for name in ("pixi.toml", "pyproject.toml", "pixi.lock")]
    manifests = [read_toml(files[0])[0], table(read_toml(files[1])[0], "tool", "pixi")]
    config = os.path.join(root, ".pixi", "config.toml")
    return [*files, config, *(os.path.join(root, script) for one in manifests for script in _scripts(one))]


def _scripts(manifest: dict[str, Any]) -> list[str]:
    """`activation.scripts` of the workspace, of its features and of both for one platform."""
    found = []
    waiting = [manifest]
    while waiting:
        one = waiting.pop()
        scripts = table(one, "activation").get("scripts")
        if isinstance(scripts, list):
            found += [script for script in scripts if type(script) is str]
        for several in ("feature", "target"):
            waiting += [value for value in table(one, several).values() if type(value) is dict]
    return found
