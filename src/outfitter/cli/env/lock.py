"""outfitter env lock: writes down what the environment is, so that a change is noticed."""

from __future__ import annotations

import os

from ...contract.contract import Asked
from ...env.lock import EVERY_LEVEL, PROJECT_LEVELS
from ...errors import SettingInvalid
from ...formats.lockfile import encode
from . import asking
from .lockfile import TOOLS, make, salt_of, tools_of, versions
from .output import emit, emit_json, printable, say, write_whole
from .places import lock_file
from .text import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wishes import Flags

_GROUPS = {"project": PROJECT_LEVELS, "all": EVERY_LEVEL}
_NAMES = {f"L{level}": level for level in EVERY_LEVEL}


def lock(flags: Flags) -> int:
    """Writes the file and says where it is; returns the exit status. Raises OutfitterError."""
    folder = asking.folder_of(flags["cwd"])
    path = lock_file(flags["file"], folder)
    real = os.path.realpath(path)
    if flags["file"] is None and not real.startswith(os.path.join(os.path.dirname(path), "")):
        # The project's author has made it: what it leads to may be any file of the user's.
        raise SettingInvalid(f"{path} is a link to {real}, out of the project: remove it, or add --file FILE")
    contract = asking.prepared()
    levels = _levels(flags["layers"])
    ready = contract.ready(Asked(folder, {}))
    resolved = contract.environment(ready)
    # Without a word about tools, those that the layers bring: this machine's own are another's on the next.
    names = flags["tool"] or tools_of(TOOLS, resolved, folder, levels)
    tools = versions(names, resolved, folder)
    made = make(resolved, contract, folder, salt_of(path), tools=tools, levels=levels, only=flags["only"])
    write_whole(path, encode(made).encode())
    for warning in ready.warnings:  # what is missing in it: a setup has failed, say
        say(warning)
    if flags["json"]:
        emit_json({"file": path, "variables": list(made.variables), "tools": list(made.tools)})
        return 0
    emit(f"{printable(path)}: {count(len(made.variables), 'variable')}, {count(len(made.tools), 'tool')}")
    if not made.layers and levels == PROJECT_LEVELS:
        say("this project brings no layer: to lock what this machine has, add --layers all")
    return 0


def _levels(words: Sequence[str]) -> tuple[int, ...]:
    """The layers that are locked; without a word, those of the project. Raises SettingInvalid."""
    found: set[int] = set()
    for word in words or ("project",):
        if word in _GROUPS:
            found.update(_GROUPS[word])
        elif word in _NAMES:
            found.add(_NAMES[word])
        else:
            raise SettingInvalid(
                f"--layers {printable(word)}: choose project, all, or one of {', '.join(_NAMES)}"
            )
    return tuple(sorted(found))
