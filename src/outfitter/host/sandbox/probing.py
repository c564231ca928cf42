"""Finds out whether sandboxes can be made here, in a process of its own: a server that never needs one keeps
nothing of it but the answer."""

from __future__ import annotations

import os

from ..facts import own_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    # What `Finder.learn` takes, or why there is none.
    Answer = tuple[str, bool, bool, bool] | str

_SECONDS = 60.0  # for three runs of bubblewrap, each of which gives up sooner, and for Python to start
_ABILITIES = 3  # of a Bubblewrap: argv0, bind_fd, proc
_PROGRAM = "PROGRAM"  # the variable that says where bubblewrap is, if not where it usually is


def probe(program: str, env: Mapping[str, str]) -> Answer:
    """Blocks for about 0.1 s: call it in a thread. `program` is where bubblewrap is, if that is said, and
    `env` what our own interpreter needs."""
    from ...core.marks import Marks
    from ..tools.tool import run_tool
    from ..tree import new_nonce

    argv, given = own_program("host.sandbox.probing"), {**env, _PROGRAM: program}
    mark = Marks(new_nonce()).new(0)  # its own: it ends by itself
    ran = run_tool(argv, "/", given, timeout=_SECONDS, mark=mark)
    if ran.code != 0:
        return ran.failure or ran.stderr.decode(errors="replace") or ran.outcome
    return read(ran.stdout)


def read(said: bytes) -> Answer:
    """What the process says. The commands' user could forge it where that is another one than ours: so it is
    text alone, and `Finder` looks at the file itself."""
    path, _, abilities = os.fsdecode(said).partition("\0")
    if len(abilities) != _ABILITIES or abilities.strip("01"):
        return path
    argv0, bind_fd, proc = [one == "1" for one in abilities]
    return path, argv0, bind_fd, proc


def main() -> None:
    from ...errors import SandboxUnavailable
    from .bubblewrap import Finder

    try:
        found = Finder(os.environ[_PROGRAM]).find()
        answer = f"{found.path}\0{found.argv0:d}{found.bind_fd:d}{found.proc:d}"
    except SandboxUnavailable as error:
        answer = error.why
    os.write(1, os.fsencode(answer))
