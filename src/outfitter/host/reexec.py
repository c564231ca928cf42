"""Replaces the program of this process by another one, which keeps its number, children and descriptors.

What the next program needs to know goes through sealed memory: it may be secret, so no disk sees it, and once
it is written nobody can change it.
"""

from __future__ import annotations

import fcntl
import os
import sys

from ..stdlib import SIGUSR1, SIGUSR2, pthread_sigmask
from .pipes import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Those that would end the next program before it is ready for them. They wait for it.
_SIGNALS = (1, 2, int(SIGUSR1), int(SIGUSR2), 15)  # and HUP, INT, TERM
_BLOCK, _UNBLOCK = 0, 1
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_IOV = 512  # pieces per system call; the kernel takes 1024


def own_command(folder: str = "") -> list[str]:
    """The words that started this program, in `folder` if not here: they load what is installed now.

    A script with a `#!` line is started as such, since a newly installed one may name another interpreter.
    """
    words = list(sys.orig_argv)
    script = words[1] if len(words) > 1 else ""
    path = os.path.abspath(os.path.join(folder, script))
    if script == sys.argv[0] and os.access(path, os.X_OK):
        try:
            with open(path, "rb") as file:
                if file.read(2) == b"#!":
                    return [path, *words[2:]]
        except OSError:
            pass  # the interpreter will say why it cannot be read
    return [sys.executable, *words[1:]]


def sealed(pieces: Sequence[bytes | memoryview]) -> int:
    """Memory with these contents, as a descriptor. Raises OSError."""
    fd = os.memfd_create("outfitter-handover", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        full = [piece for piece in pieces if len(piece)]
        for begin in range(0, len(full), _IOV):
            _write(fd, full[begin : begin + _IOV])
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        let_go(fd)
        raise
    return fd


def _write(fd: int, pieces: list[bytes | memoryview]) -> None:
    while pieces:
        written = os.writev(fd, pieces)
        while pieces and written >= len(pieces[0]):
            written -= len(pieces.pop(0))
        if written:
            pieces[0] = memoryview(pieces[0])[written:]


def contents(fd: int) -> memoryview:
    """What `sealed` was given. Raises OSError, ValueError if it is not such memory."""
    if fcntl.fcntl(fd, fcntl.F_GET_SEALS) != _SEALS:
        raise ValueError("the memory is not sealed")
    import mmap

    return memoryview(mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ))


def keep(descriptors: Iterable[int], on: bool) -> None:
    """Whether the next program has these descriptors."""
    for fd in descriptors:
        os.set_inheritable(fd, on)


def hold_signals() -> None:
    """Signals that end a program wait from now on, also for the next program."""
    pthread_sigmask(_BLOCK, _SIGNALS)


def take_signals() -> None:
    """Those that have waited come now, and none waits any more."""
    pthread_sigmask(_UNBLOCK, _SIGNALS)


def raise_again(fd: int) -> None:
    """Sends ourselves the signals whose numbers wait in the pipe of the program before; closes it.

    A thread of that program has taken them while its main thread held them back, and nobody heeded them.
    """
    try:
        numbers = set(os.read(fd, 4096))
    except OSError:
        numbers = set()
    let_go(fd)
    for number in numbers.intersection(_SIGNALS):
        os.kill(os.getpid(), number)


def replace(argv: Sequence[str], env: Mapping[str, str], descriptors: Sequence[int]) -> None:
    """Executes another program in this process. Returns only by OSError: then all is as it was."""
    block = {_bytes(name): _bytes(value) for name, value in env.items()}
    keep(descriptors, True)
    try:
        os.execve(argv[0], list(argv), block)
    finally:
        keep(descriptors, False)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # as `providers.inherited` reads them
