"""VS Code: the interpreter that `.vscode/settings.json` names for Python.

That is the editor's default only: what somebody selected in it is kept where no other program can read it,
and the editor has to hand it over itself.
"""

from __future__ import annotations

import os

from ..env.layer import Operation
from ..env.origin import Origin
from ..record import replace
from . import conda, venv
from .base import Detection, ReadsFiles, Resolution
from .files import nearest
from .manifests import expanded, read_jsonc
from .owned import is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .base import Context

FILE = ".vscode/settings.json"
KEY = "python.defaultInterpreterPath"


class Vscode(ReadsFiles):
    """`python.defaultInterpreterPath`, with what its environment needs besides. Reading it needs no trust."""

    id = "vscode"
    rank = 80

    def detect(self, directory: str) -> Detection | None:
        found = nearest(directory, (FILE,))
        return found and Detection(*found, f"vscode:{found[1][0]}")

    def watch(self, found: Detection, context: Context) -> list[str]:
        return [os.path.join(found.root, FILE)]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        file = os.path.join(found.root, FILE)
        result = _resolve(file, found.root, context)
        return replace(result, watch=(file, *(path for path in result.watch if path != file)))


def _resolve(file: str, root: str, context: Context) -> Resolution:
    document, wrong = read_jsonc(file)
    if document is None:
        return Resolution("failed", note=wrong)
    said = document.value.get(KEY) if type(document.value) is dict else None
    if said is None or said == "":
        return Resolution("not-applicable", note=f"{file} names no {KEY}")
    line = document.line(KEY)
    if type(said) is not str:
        return Resolution("failed", note=f"{file}:{line}: {KEY} must be a string; write a path in quotes")
    given, unknown = _expanded(said, root, context)
    if unknown:
        note = f"{file}:{line}: {unknown} is not supported: write the path itself"
        return Resolution("failed", note=note)
    if "/" not in given and not os.path.exists(os.path.join(root, given)):
        return Resolution("not-applicable", note=f"{file}:{line}: `{given}` adds nothing to PATH")
    path = os.path.normpath(os.path.join(root, given))
    return _activation(path, Origin("provider", f"vscode: {KEY}", file, line), f"{file}:{line}")


def _activation(path: str, origin: Origin, where: str) -> Resolution:
    """For an interpreter, or for the folder of an environment: the editor takes both."""
    is_folder = os.path.isdir(path)
    folder = path if is_folder else os.path.dirname(os.path.dirname(path))
    if not os.path.lexists(path):
        note = f"{where}: {path} does not exist: create it, or write another path"
        return Resolution("missing", note=note, watch=(path, *venv.watched(folder)))
    environment = venv.look(folder)
    if environment is not None:
        fault = venv.fault(environment)
        if fault:
            return Resolution("failed", note=f"{where}: {fault}: create it again", watch=venv.watched(folder))
        version = f" (Python {environment.version})" if environment.version else ""
        own = is_own(folder, "bin", "bin/python", venv.MARK)
        return replace(venv.activation(environment, origin, f"vscode{version}"), own=own)
    if conda.is_prefix(folder):
        result = conda.activation(folder, origin)
        return replace(result, note=f"{where}: {result.note}" if result.note else "")
    programs = os.path.join(path, "bin") if is_folder else os.path.dirname(path)
    if not (os.path.isdir(programs) if is_folder else os.access(path, os.X_OK)):
        note = f"{where}: {path} is not a Python interpreter: write the path of one"
        return Resolution("failed", note=note, watch=(path,))
    if ":" in programs:
        return Resolution("failed", note=f"{where}: {path} has a colon in it, which PATH does not allow")
    operation = Operation("PATH", "prepend", (programs,), origin)
    return Resolution("applied", operations=[operation], watch=(path,), producer="vscode")


def _expanded(text: str, root: str, context: Context) -> tuple[str, str]:
    """The text with the editor's variables replaced, and the first that is not known."""
    known = {
        "workspaceFolder": root,
        "workspaceRoot": root,
        "workspaceFolderBasename": os.path.basename(root),
        "userHome": context.home,
        "pathSeparator": "/",
        "/": "/",
    }

    def value_of(name: str) -> str | None:
        return context.env.get(name[4:], "") if name.startswith("env:") else known.get(name)

    result, unknown = expanded(text, value_of)
    return (context.home + result[1:] if result.startswith("~/") else result), unknown
