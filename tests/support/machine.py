"""What the kernel says about processes, and waiting until it says something else.

Where there is no /proc, `ps` and /dev/fd say the most of it, and a test that reads /proc itself is skipped.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from outfitter.host import keyring


class _Nowhere(str):
    """/proc where there is none: whoever names a file in it says nothing here."""

    def __format__(self, how: str) -> str:
        pytest.skip("Linux only: it reads /proc")


# Where the kernel tells it; `scripts/portable` takes /proc out of everybody else's sight. OUTFITTER_BLIND=1
# has the tests themselves live without, as on a Mac.
_PLACES = () if os.environ.get("OUTFITTER_BLIND") else ("/run/outfitter-proc", "/proc")
PROC = next((place for place in _PLACES if os.path.exists(f"{place}/self")), None) or _Nowhere("/proc")
HAS_PROC = not isinstance(PROC, _Nowhere)
SECOND = 1.0  # every real wait of the tests is a multiple of this; raise it for a slow machine
GONE_SECONDS = 8 * SECOND  # how long descendants may take to be gone
_POLL = 0.01 * SECOND


def wait_until(holds: Callable[[], bool], what: str, seconds: float = GONE_SECONDS) -> None:
    """Returns as soon as `holds()`; fails the test with `what` when it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(_POLL)


def _listed(*columns: str) -> dict[int, list[str]]:
    """What `ps` says of every process, by its number."""
    words = ["ps", "-A", "-ww", "-o", ",".join(f"{column}=" for column in ("pid", *columns))]
    said = subprocess.run(words, capture_output=True, text=True, errors="replace", check=True).stdout
    rows = (line.rstrip().split(None, len(columns)) for line in said.splitlines())
    return {int(row[0]): row[1:] for row in rows}


def status(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status, empty when there is no such process; elsewhere the three that count."""
    if not HAS_PROC:
        row = _listed("ppid", "stat", "rss").get(pid)
        return {} if row is None else dict(zip(("PPid", "State", "VmRSS"), row, strict=True))
    try:
        text = Path(f"{PROC}/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    return status(pid).get("State", "Z")[0] not in "ZX"


def stop(pid: int) -> None:
    """Stops it, and returns when none of its threads runs any more."""
    os.kill(pid, signal.SIGSTOP)

    def has_stopped() -> bool:
        if not HAS_PROC:
            return status(pid)["State"][0] == "T"
        return all(status(int(thread))["State"][0] == "T" for thread in os.listdir(f"{PROC}/{pid}/task"))

    wait_until(has_stopped, "every thread has stopped")


def wait_gone(pids: Iterable[int], seconds: float = GONE_SECONDS) -> None:
    """Returns when none of these processes is alive."""
    wanted = list(pids)
    deadline = time.monotonic() + seconds
    while left := [pid for pid in wanted if alive(pid)]:
        assert time.monotonic() < deadline, f"still alive after {seconds} s: {[command(pid) for pid in left]}"
        time.sleep(_POLL)


def command(pid: int) -> str:
    if not HAS_PROC:
        return f"{pid} {' '.join(_listed('command').get(pid, ['(gone)']))}"
    try:
        words = Path(f"{PROC}/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return f"{pid} (gone)"
    return f"{pid} " + b" ".join(words).decode(errors="replace")


def children(pid: int) -> list[int]:
    """Direct children that are alive."""
    if not HAS_PROC:
        rows = _listed("ppid", "stat").items()
        return [child for child, (parent, state) in rows if parent == str(pid) and state[0] not in "ZX"]
    return [child for child in _pids() if status(child).get("PPid") == str(pid) and alive(child)]


def running(text: str) -> list[int]:
    """Living processes with `text` in their command line, except this one."""
    if not HAS_PROC:
        rows = _listed("stat", "command").items()
        return [pid for pid, row in rows if pid != os.getpid() and text in row[-1] and row[0][0] not in "ZX"]
    return [pid for pid in _pids() if pid != os.getpid() and text in command(pid) and alive(pid)]


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(PROC) if entry.isdigit()]


def descriptors(pid: int) -> int:
    return len(os.listdir(f"{PROC}/{pid}/fd"))


def own_descriptors() -> list[str]:
    """Those that this process has open, and the one of this look, if it needs one."""
    try:
        return os.listdir(f"{PROC}/self/fd" if HAS_PROC else "/dev/fd")
    except FileNotFoundError:
        return [str(number) for number in range(os.sysconf("SC_OPEN_MAX")) if _is_open(number)]


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def resident_kib(pid: int) -> int:
    """Memory in use."""
    return int(status(pid)["VmRSS"].split()[0])


def peak_kib(pid: int) -> int:
    """The most memory that ever was in use, which no `ps` tells."""
    if not HAS_PROC:
        pytest.skip("Linux only: it reads /proc")
    return int(status(pid)["VmHWM"].split()[0])


@contextmanager
def public_folder() -> Iterator[Path]:
    """A scratch folder in which every user of the machine may read and write."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@contextmanager
def terminal() -> Iterator[str]:
    """The path of a terminal at which nobody types."""
    ours, theirs = os.openpty()
    try:
        yield os.ttyname(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def leave_socket(path: Path) -> None:
    """Makes a socket of which nobody hears, also where its path is longer than a socket's may be."""
    with socket.socket(socket.AF_UNIX) as bound, TemporaryDirectory(dir="/tmp") as short:
        bound.bind(f"{short}/s")
        os.rename(f"{short}/s", path)


@contextmanager
def no_descriptors() -> Iterator[None]:
    """This process can open nothing meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _has_keyring() -> bool:
    name = f"outfitter:probe:{os.getpid()}"
    found = keyring.keep(name, b"x", 10)
    keyring.forget(name)
    return found


# Many containers forbid the calls.
KEYRING = pytest.mark.skipif(not _has_keyring(), reason="the kernel's keyring is not to be had here")


def free_port() -> int:
    """A port on loopback on which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def own_children() -> set[str]:
    """The pids of all children of this process, zombies included: those of other tests, too."""
    if not HAS_PROC:
        # All but the `ps` that says so.
        rows = _listed("ppid", "command").items()
        return {str(pid) for pid, row in rows if row[0] == str(os.getpid()) and "ps -A" not in row[-1]}
    found: set[str] = set()
    for path in Path(f"{PROC}/self/task").glob("*/children"):
        try:
            found.update(path.read_text().split())
        except FileNotFoundError:
            continue  # a thread that has ended meanwhile: its children are another's
    return found


def exchange(one: Path, other: Path) -> None:
    """Has two names change places, at once (renameat2 with RENAME_EXCHANGE)."""
    here = -100  # AT_FDCWD
    assert ctypes.CDLL(None).renameat2(here, os.fsencode(one), here, os.fsencode(other), 2) == 0
