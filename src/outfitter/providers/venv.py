"""One virtual environment of Python: whether it is in order, and what its activation is.

Activation is two variables, one entry of PATH and one variable less. No script of it is ever run.
"""

from __future__ import annotations

import os

from ..env.layer import Operation
from ..env.origin import Origin
from ..record import record
from .base import Resolution
from .manifests import is_plain, read_text

MARK = "pyvenv.cfg"


@record
class Venv:
    """A folder with a `pyvenv.cfg`, and what that says. `home` is where the base interpreter is."""

    path: str
    prompt: str
    home: str
    version: str
    relocatable: bool


def look(path: str) -> Venv | None:
    """The environment in a folder; None when there is none."""
    text = read_text(os.path.join(path, MARK))
    if text is None:
        return None
    said = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            said[key.strip().lower()] = value.strip()
    prompt = said.get("prompt", "")
    if len(prompt) > 1 and prompt[0] in "'\"" and prompt[-1] == prompt[0]:
        prompt = prompt[1:-1]
    return Venv(
        path,
        prompt or os.path.basename(path),
        said.get("home", ""),
        said.get("version", "") or said.get("version_info", ""),
        said.get("relocatable", "").lower() == "true",
    )


def fault(venv: Venv) -> str:
    """What keeps it from working; "" when nothing is known to."""
    python = os.path.join(venv.path, "bin", "python")
    if ":" in venv.path:
        return f"{venv.path} has a colon in its path, which PATH does not allow"
    if not os.path.lexists(python):
        return f"{venv.path} has no bin/python"
    if not os.path.exists(python):
        return f"the interpreter of {venv.path} no longer exists ({os.path.realpath(python)})"
    if not os.access(python, os.X_OK):
        return f"{python} is not executable"
    if venv.home and not os.path.isdir(venv.home):
        return f"{venv.path} was created from an interpreter in {venv.home}, which no longer exists"
    made_at = "" if venv.relocatable else _made_at(venv.path)
    if made_at and not _same(made_at, venv.path):
        # Its programs begin with the old path: they fail, or start what is there now.
        return f"{venv.path} was created as {made_at} and has been moved or copied"
    return ""


def activation(venv: Venv, origin: Origin, producer: str) -> Resolution:
    """Exactly what its activate script would export and unset, for an environment without a fault."""
    return Resolution(
        "applied",
        set={"VIRTUAL_ENV": venv.path, "VIRTUAL_ENV_PROMPT": venv.prompt},
        unset=("PYTHONHOME",),
        operations=(Operation("PATH", "prepend", (os.path.join(venv.path, "bin"),), origin),),
        origins=dict.fromkeys(("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PYTHONHOME"), origin),
        watch=watched(venv.path),
        producer=producer,
    )


def watched(path: str) -> tuple[str, ...]:
    """What tells that an environment was made, replaced or broken."""
    programs = os.path.join(path, "bin")  # a pull may add programs to it
    return (os.path.join(path, MARK), programs, os.path.join(programs, "python"))


def _made_at(path: str) -> str:
    """Where its activate script believes it to be; "" when it does not say so plainly."""
    for line in (read_text(os.path.join(path, "bin", "activate")) or "").splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        # What a program prints, `cygpath` say, is for another system.
        if name != "VIRTUAL_ENV" or not equals or value.startswith("$"):
            continue
        word = _one_word(value)
        if word.startswith("/"):
            return word
    return ""


def _one_word(text: str) -> str:
    """The word that a shell reads there; "" when it is none, or several."""
    inner = text[1:-1] if text[:1] in ("'", '"') and text[:1] == text[-1:] else text
    if is_plain(inner):
        return inner
    from shlex import split

    try:
        words = split(text)
    except ValueError:
        return ""
    return words[0] if len(words) == 1 else ""


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
