"""Commands confined by Landlock, where bubblewrap cannot be used and an operator wants that.

Landlock only allows: it cannot take a name out of what may be written, nor hide something from a command. So
a command must have no network, hide nothing, and write only where no name is protected; others are refused.
Around what no command may see (files of the server, startup files, devices) everything else is allowed name
by name: what comes to those folders later cannot be read. `landlocked` is the program that does it.
"""

from __future__ import annotations

import marshal
import os

from ...core.permissions import covers
from ..facts import own_program
from .landlocked import EVERYTHING, EXECUTE, IOCTL, READ_FILE, WRITE_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...core.launch import Launch
    from ...core.permissions import Confinement
    from .paths import Found

    Rules = list[tuple[str, int]]  # paths, and what is allowed at and below each

MAX_RULES = 8192  # 20 ms; a folder beside a startup file, such as /etc or a home, has a few hundred names
HINT = (
    "Landlock is here: `outfitter serve --sandbox-landlock` confines commands that only read, without network"
)
_READ_DIR = 8
_READS = EXECUTE | READ_FILE | _READ_DIR
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def obstacle(confinement: Confinement, found: Found, *, proxied: bool) -> str:
    """What of a confinement cannot be enforced by Landlock; nothing if all can."""
    if proxied or confinement.network:
        return "it keeps a command only from all of the network"
    if not confinement.files:
        return "the files of this command are not confined"
    if found.hidden:
        return f"it cannot hide {found.hidden[0].path}"
    for one in found.writable:
        if one.protected:
            return f"it cannot keep {one.protected[0].path} read-only below {one.path}, which may be written"
    return ""


def allowed(found: Found, unseen: Collection[str]) -> Rules:
    """What a command may do, around what it must not see. Raises ValueError where that is too much to say."""
    hidden = {"/dev", *unseen}
    rules: Rules = []
    for path in found.read_roots:
        rules += _around(path, hidden, _READS)
    for one in found.writable:
        if any(covers(one.target, path) or covers(path, one.target) for path in hidden):
            raise ValueError(
                f"it cannot hide devices or files of the server at {one.path}, which may be written"
            )
        rules.append((one.target, EVERYTHING))
    rules += [(f"/dev/{name}", READ_FILE | WRITE_FILE | IOCTL) for name in _DEVICES]
    if len(rules) > MAX_RULES:
        raise ValueError(f"there are more than {MAX_RULES} names beside what it must not see")
    return rules


def _around(path: str, hidden: Collection[str], access: int) -> Rules:
    """Allows a path, and everything below, but for what is hidden."""
    if any(covers(one, path) for one in hidden):
        return []
    inside = [one for one in hidden if covers(path, one)]
    if not inside:
        return [(path, access)]
    rules: Rules = [(path, _READ_DIR)]
    with os.scandir(path) as entries:
        names = [entry.path for entry in entries if not entry.is_symlink()]
    for name in names:
        rules += _around(name, inside, access)
        if len(rules) > MAX_RULES:
            break
    return rules


def words() -> list[str]:
    """The command line of the program."""
    return own_program("host.sandbox.landlocked")


def plan(launch: Launch, rules: Sequence[tuple[str, int]], filter_: bytes) -> bytes:
    """What the program is told."""
    program = launch.found or launch.program
    return marshal.dumps((list(rules), filter_, launch.tty, program, list(launch.argv), dict(launch.env)))
