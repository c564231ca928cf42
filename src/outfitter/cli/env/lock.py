"""outfitter env lock: writes down what the environment is, so that a change is noticed."""

from __future__ import annotations

from ...contract.contract import Asked
from ...formats.lockfile import encode
from . import asking
from .lockfile import TOOLS, make, salt_of, versions
from .output import emit, write_whole
from .places import lock_file
from .text import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..wishes import Flags


def lock(flags: Flags) -> int:
    """Writes the file and says where it is; returns the exit status. Raises OutfitterError."""
    folder = asking.folder_of(flags["cwd"])
    path = lock_file(flags["file"], folder)
    contract = asking.prepared()
    resolved = contract.resolve(Asked(folder, {}))
    tools = versions(flags["tool"] or TOOLS, resolved, folder)
    made = make(resolved, contract, folder, salt_of(path), tools=tools)
    write_whole(path, encode(made).encode())
    emit(f"{path}: {count(len(made.variables), 'variable')}, {count(len(made.tools), 'tool')}")
    return 0
