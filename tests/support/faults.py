"""Makes one call of the C library fail in a running server: which one, its how-manieth call, with what error.

`faults.c` is preloaded into the server and does it; both map the same file. A server under test is an
ordinary one, and knows nothing of it.
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path

from .machine import PROC

_SOURCE = Path(__file__).with_name("faults.c")
_KINDS = 64
_LAYOUT = struct.Struct(f"6i{_KINDS}i")

_OPENING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_DISK = (errno.EIO, errno.ENOSPC, errno.ENOMEM)

# What each function can fail with, by their manuals, of EMFILE, ENFILE, ENOMEM, EAGAIN, ENOSPC and EIO. In
# the order of faults.c.
ERRORS: dict[str, tuple[int, ...]] = {
    "open": (*_OPENING, errno.ENOSPC, errno.EIO),
    "pipe": _OPENING,
    "socket": _OPENING,
    "accept": (*_OPENING, errno.EAGAIN),
    "epoll_ctl": (errno.ENOMEM, errno.ENOSPC),
    "epoll_wait": (errno.ENOMEM,),
    "read": (errno.EIO, errno.EAGAIN, errno.ENOMEM),
    "write": (errno.ENOSPC, errno.EIO, errno.EAGAIN),
    "recv": (errno.ENOMEM, errno.EAGAIN),
    "send": (errno.ENOMEM, errno.EAGAIN),
    "close": (errno.EIO, errno.ENOSPC),
    "dup": (errno.EMFILE,),
    "fcntl": (errno.EMFILE,),
    "ioctl": (errno.EIO,),
    "stat": (errno.ENOMEM, errno.EIO),
    "look": (errno.ENOMEM, errno.EIO),
    "opendir": _OPENING,
    "readdir": (errno.EIO,),
    "memfd_create": _OPENING,
    "posix_spawn": (errno.EAGAIN, errno.ENOMEM),
    "pthread_create": (errno.EAGAIN,),
    "pidfd_open": _OPENING,
    "syscall": (errno.ENOMEM,),
    "limit": (errno.ENOMEM,),
    "openpty": (*_OPENING, errno.ENOSPC, errno.EIO),
    "ttyname": (errno.EIO,),
    "name": _DISK,
    "make": _DISK,
    "truncate": _DISK,
    "mode": _DISK,
    "inotify": (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC),
    "poll": (errno.ENOMEM,),
    "sockopt": (errno.ENOMEM,),
    "seek": (errno.EIO,),
    "getrandom": (errno.EAGAIN,),
    "mmap": (errno.ENOMEM,),
}
KINDS = tuple(ERRORS)


@functools.cache
def library(folder: Path) -> Path | None:
    """The library to preload, compiled into this folder; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    made = folder / "faults.so"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", made, _SOURCE, "-ldl", "-lpthread"],
        check=True,
        timeout=60,
    )
    return made


class Faults:
    """Tells one server what is to fail. `env` is for that server's start."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._file = folder / "faults"
        self._file.write_bytes(bytes(_LAYOUT.size))
        with self._file.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        self.env = {"LD_PRELOAD": str(library), "FAULTS_FILE": str(self._file)}

    def watch(self, pid: int) -> None:
        """The server that is meant."""
        self._put(0, pid)

    def arm(self, kind: str, nth: int, error: int) -> None:
        """From now on, the nth call of this kind fails, once."""
        self._put(1, 0)
        for place in range(len(KINDS)):
            self._put(6 + place, 0)
        self._put(5, 0)
        self._put(2, KINDS.index(kind))
        self._put(3, nth)
        self._put(4, error)
        self._put(1, 1)

    def count(self) -> None:
        """From now on, calls are only counted."""
        self.arm("open", 0, 0)
        self._put(1, 0)

    def disarm(self) -> bool:
        """Whether a call has failed; none will from now on."""
        self._put(1, 0)
        return self.has_failed

    @property
    def has_failed(self) -> bool:
        return self._get(5) > 0

    @property
    def counts(self) -> dict[str, int]:
        return {kind: self._get(6 + place) for place, kind in enumerate(KINDS)}

    def close(self) -> None:
        self._map.close()

    def _put(self, place: int, value: int) -> None:
        struct.pack_into("i", self._map, 4 * place, value)

    def _get(self, place: int) -> int:
        return int(struct.unpack_from("i", self._map, 4 * place)[0])


def name(error: int) -> str:
    return errno.errorcode[error]


def leftover_children(pid: int) -> list[int]:
    """Direct children, with the dead ones that nobody has reaped; without the watchdog, which stays."""
    found = []
    for task in os.listdir(f"{PROC}/{pid}/task"):
        try:
            text = Path(f"{PROC}/{pid}/task/{task}/children").read_text()
        except OSError:
            continue
        for child in map(int, text.split()):
            try:
                line = Path(f"{PROC}/{child}/cmdline").read_bytes()
            except OSError:
                line = b""
            if b"outfitter-watchdog" not in line:
                found.append(child)
    return found
