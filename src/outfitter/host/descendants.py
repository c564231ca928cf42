"""Who descends from whom on Linux: the mark in a limit that children inherit, and the parents in /proc.

`host.tree` says what a mark is. `host.portable.descendants` has the same functions for other systems.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource

from ..core.marks import FLAG, NONCE_SHIFT
from ..log import warn
from .killing import kill, kill_group
from .pipes import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# A tree that forks while it is killed needs another look. One that outruns this many is a fork bomb;
# others get their turn before it is looked at again.
_ROUNDS = 32
_PR_SET_CHILD_SUBREAPER = 36
# For a shell: SIGKILL for all whose mark begins with $1; `found` is set when there were some.
KILL_MARKED = f"""
  for file in /proc/[0-9]*/limits; do
    while read -r one two three soft rest; do
      case "$one $two $three $soft" in
        "Max realtime timeout unlimited") ;;
        "Max realtime timeout "*)
          if [ $((soft >> {NONCE_SHIFT})) -eq "$1" ]; then
            pid=${{file#/proc/}}
            kill -9 "${{pid%/limits}}" && found=1
          fi ;;
      esac
    done <"$file"
  done
"""


def adopt_orphans() -> bool:
    """Becomes the parent of every descendant that is left alone; False where the kernel refuses."""
    prctl = ctypes.CDLL(None).prctl
    return prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 or os.getpid() == 1


def usable() -> bool:
    """Whether this machine lets us set the limit to any number: its hard value must be unlimited."""
    return resource.getrlimit(resource.RLIMIT_RTTIME)[1] == resource.RLIM_INFINITY


def kill_marked(wanted: Callable[[int], bool]) -> bool:
    """SIGKILL for every process whose mark is wanted, until a look finds no new one.

    False when there still were new ones after so many looks.
    """
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        fresh = [pid for pid in marked(wanted) if pid not in killed]
        for pid in fresh:
            _kill_if(pid, wanted)
        if not fresh:
            return True
        killed.update(fresh)
    return False


def marked(wanted: Callable[[int], bool]) -> list[int]:
    """Living processes (zombies are not) whose mark is wanted."""
    own = os.getpid()
    return [pid for pid in pids() if pid != own and wanted(_mark_of(pid)) and not _is_zombie(pid)]


def _mark_of(pid: int) -> int:
    try:
        soft, _ = resource.prlimit(pid, resource.RLIMIT_RTTIME)
    except OSError:  # gone, or another user's
        return 0
    return soft if soft >= FLAG else 0


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    return os.path.exists(f"/proc/{pid}") and not _is_zombie(pid)


def _stat(pid: int) -> bytes:
    """With three calls of the system where `open` takes eight: a look at all processes takes half the time.
    Raises OSError."""
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 1024)  # a line of 52 numbers and a name
    finally:
        os.close(file)


def _is_zombie(pid: int) -> bool:
    try:
        return _stat(pid).rpartition(b") ")[2][:1] in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False  # who knows: then it is killed once more


def _kill_if(pid: int, wanted: Callable[[int], bool]) -> None:
    """Kills through a descriptor that is checked after it was opened: the number may be reused."""
    from ..stdlib import pidfd_send_signal

    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:
        # No descriptor is left. By its number, then: between the two calls nobody had time to reuse it.
        if wanted(_mark_of(pid)):
            kill(pid)
        return
    try:
        if wanted(_mark_of(pid)):
            pidfd_send_signal(fd, 9)
    except OSError:
        pass
    finally:
        let_go(fd)


def kill_session_members(leader: int, *, reaped: bool) -> None:
    """The way without marks: whoever is in the leader's session, or below it by parentage."""
    doomed = set() if reaped else {leader}
    try:
        doomed |= set() if reaped else below(leader)
        for pid in pids():
            try:
                if os.getsid(pid) == leader:
                    doomed.add(pid)
            except OSError:
                continue
    except OSError as error:
        # No descriptor to look at the process table with: those that are known.
        warn("server", "cannot look for descendants that are to be ended: %s", error.strerror)
    if not reaped:
        kill_group(leader)  # all at once: a shell whose child died first would go on with its next command
    for pid in doomed - {os.getpid()}:
        kill(pid)


def pids() -> list[int]:
    """Every process that can be seen. Raises OSError."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def children() -> set[int] | None:
    """Of this process, those that have ended included until somebody waits for them; None where the kernel
    does not tell."""
    found: set[int] = set()
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                found.update(map(int, file.read().split()))
    except OSError:
        return None
    return found


def below(ancestor: int) -> set[int]:
    """All descendants of a process, by parentage. Raises OSError."""
    children: dict[int, list[int]] = {}
    for pid in pids():
        try:
            parent = int(_stat(pid).rpartition(b") ")[2].split(None, 2)[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        except IndexError:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None  # the kernel said nothing
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    pending = [ancestor]
    while pending:
        for pid in children.get(pending.pop(), ()):
            if pid not in found:
                found.add(pid)
                pending.append(pid)
    return found
