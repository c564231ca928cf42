"""devcontainer.json: its variables describe the container, so they hold nowhere but in it.

Whether this is that container is what its tools say (`REMOTE_CONTAINERS`, `CODESPACES`), or the configuration
does. Its `containerEnv` is then in the environment already; `remoteEnv` is what is left to do.
"""

from __future__ import annotations

import os

from ..env.lists import LIST_NAMES
from ..env.origin import Origin
from ..env.pathops import operations
from ..record import replace
from .base import Detection, ReadsFiles, Resolution
from .files import upwards
from .manifests import expanded, is_text, names, present, read_jsonc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..env.layer import Operation
    from .base import Context

FOLDER = ".devcontainer"
FILE = "devcontainer.json"
# What the tools that start such containers put into their environment.
SIGNS = ("REMOTE_CONTAINERS", "CODESPACES")
_MOST = 1000  # folders with a configuration of their own


class Devcontainer(ReadsFiles):
    """`devcontainer = ["inside"]` in the configuration says that this is the container.

    Of several configurations, another text says which: "inside", ".devcontainer/api/devcontainer.json".
    """

    id = "devcontainer"
    rank = 90

    def detect(self, directory: str) -> Detection | None:
        for folder in upwards(directory):
            files = present(folder, (f"{FOLDER}/{FILE}", f".{FILE}"))
            inner = [f"{FOLDER}/{name}/{FILE}" for name in names(os.path.join(folder, FOLDER))[:_MOST]]
            files += present(folder, inner)
            if files:
                note = f"{len(files)} configurations were found" if len(files) > 1 else ""
                return Detection(folder, files, f"devcontainer:{folder}", note)
        return None

    def watch(self, found: Detection, context: Context) -> list[str]:
        return [*found.files]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        watch = self.watch(found, context)
        inside = context.option() == "inside"
        if not inside and not any(context.env.get(name, "").lower() == "true" for name in SIGNS):
            note = (
                "commands do not run inside the container that it describes; if they do, configure "
                'devcontainer = ["inside"]'
            )
            return Resolution("not-applicable", note=note, watch=watch)
        chosen = context.option(1)
        files = [path for path in found.files if not chosen or path == os.path.join(found.root, chosen)]
        if len(files) != 1:
            several = ", ".join(os.path.relpath(path, found.root) for path in found.files)
            note = f'choose one of {several}: devcontainer = ["inside", "FILE"]'
            return Resolution("failed", note=note, watch=watch)
        return replace(_resolve(files[0], found.root, context.env), watch=tuple(watch))


def _resolve(file: str, root: str, env: Mapping[str, str]) -> Resolution:
    document, wrong = read_jsonc(file)
    if document is None:
        return Resolution("failed", note=wrong)
    if type(document.value) is not dict:
        return Resolution("failed", note=f"{file} is not a JSON object: see containers.dev for its format")
    values: dict[str, str] = {}
    unset: list[str] = []
    refused: list[str] = []
    origins: dict[str, Origin] = {}
    several: list[Operation] = []
    for key in ("containerEnv", "remoteEnv"):
        said = document.value.get(key, {})
        if type(said) is not dict:
            note = f"{file}:{document.line(key)}: {key} must be an object"
            return Resolution("failed", note=note)
        for name, value in said.items():
            line = document.line(key, name)
            origin = Origin("provider", f"devcontainer: {key}", file, line)
            if key == "containerEnv" and name in env:
                continue  # fixed when the container was made, whatever the file says now
            if value is None and key == "remoteEnv":
                unset.append(name)
                origins[name] = origin
                values.pop(name, None)
                continue
            if not is_text(value):
                note = f"{file}:{line}: {name} must be a string{' or null' if key == 'remoteEnv' else ''}"
                return Resolution("failed", note=note)
            text, unknown = expanded(value, lambda inside: _value_of(inside, root, env))
            if unknown:
                refused.append(f"{name} (line {line}: {unknown})")
            elif name in LIST_NAMES:
                several += operations(env.get(name), text, name, origin)
            else:
                values[name] = text
                origins[name] = origin
    note = f"left out, because they refer to something unknown here: {', '.join(refused)}" if refused else ""
    return Resolution(
        "applied",
        set=values,
        unset=unset,
        operations=several,
        origins=origins,
        producer="devcontainer",
        note=note,
    )


def _value_of(inside: str, root: str, env: Mapping[str, str]) -> str | None:
    """What a variable of the file stands for; None for one that is another machine's, or unknown."""
    kind, _, given = inside.partition(":")
    if kind == "containerEnv" and given:
        name, _, default = given.partition(":")
        return env.get(name, default)
    known = {"containerWorkspaceFolder": root, "containerWorkspaceFolderBasename": os.path.basename(root)}
    return known.get(inside)
