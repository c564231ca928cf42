"""Who descends from whom, as `ps` says: by a mark in the environment, by group, and by parent.

The mark is `OUTFITTER_MARK`, which children inherit with their environment. Of some programs a system does
not show the environment (on a Mac, those that Apple signed as its own), and a program can drop it. Then the
group of a leader that we started counts, and the mark of the parent. Missed is who has left its group and
whose parents have ended, with no mark in sight.

A look takes some 20 ms, where reading marks on Linux takes one.
"""

from __future__ import annotations

import errno
import os
import subprocess
import time

from ...core.marks import FLAG, NONCE_SHIFT
from ...env.names import MARK
from ...log import warn
from ...stdlib import allocate_lock, start_new_thread
from ..killing import kill, kill_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ROUNDS = 32  # as in host.descendants
_COLUMNS = "pid=,ppid=,pgid=,stat="
# With the environment as macOS and FreeBSD show it, and without. `ps` has no other name on any of them.
_PS = ("/bin/ps", "/usr/bin/ps", "/usr/local/sbin/ps")
_WAYS = (["-A", "-E", "-ww", "-o", f"{_COLUMNS},command="], ["-A", "-o", _COLUMNS])
_SECONDS = 5.0  # more than a machine that is out of breath takes for a thousand processes
_LEADERS = 4096  # as many as a server may run at a time, twice; the oldest is forgotten first
_FOLLOW_SECONDS = 1.0  # nobody can use up all numbers of processes meanwhile
# For a shell: SIGKILL for all whose mark begins with $1; `found` is set when there were some. A process that
# does not show its environment has the group of one that does. Not the group $3, which is the server's: `ps`
# can say it of a command that was just started, as it looks at the group first and at the environment later.
KILL_MARKED = f"""
  for ps in {" ".join(_PS)}; do [ -x "$ps" ] && break; done
  found=$("$ps" {" ".join(_WAYS[0])} | while read -r pid parent group state words; do
    case " $words" in *" {MARK}="*) ;; *) continue ;; esac
    mark=${{words##*{MARK}=}}
    mark=${{mark%% *}}
    case "$mark" in "" | *[!0-9]*) continue ;; esac
    [ $((mark >> {NONCE_SHIFT})) -eq "$1" ] || continue
    case "$state" in Z*) continue ;; esac
    kill -9 "$pid" && echo "$pid"
    [ "$group" -le 1 ] || [ "$group" -eq "$3" ] || kill -9 "-$group"
  done)
"""

_leaders: dict[int, int] = {}  # the mark of each that we started, by its number, which is its group's
_left: set[int] = set()  # of these groups, those whose leader has ended before the others
_leaving = allocate_lock()  # for both, as threads reap the leaders
_way = 0  # of `_WAYS`: the first that this system's `ps` understands
_understood = False  # whether it has


class Row:
    """One process."""

    __slots__ = ("dead", "group", "mark", "parent", "pid")

    def __init__(self, pid: int, parent: int, group: int, *, dead: bool, mark: int) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.dead = dead  # ended, and not yet reaped
        self.mark = mark


def children() -> set[int] | None:
    """Nobody tells."""
    return None


def adopt_orphans() -> bool:
    """Orphans go to the system's first process: only Linux lets another have them."""
    return False


def usable() -> bool:
    return True


def leads(pid: int, mark: int) -> None:
    """A leader was started: who is in its group has its mark."""
    with _leaving:
        _leaders.pop(pid, None)
        while len(_leaders) >= _LEADERS:
            del _leaders[next(iter(_leaders))]
        _leaders[pid] = mark


def reaped(pid: int) -> None:
    """A child was reaped. If it was a leader, its number is its group's as long as anybody is in it, and may
    be a stranger's from then on."""
    if pid not in _leaders:
        return
    with _leaving:
        if _peopled(pid):
            _left.add(pid)
            if len(_left) > 1:
                return  # it is followed with the others
            try:
                start_new_thread(_follow, ())
                return
            except RuntimeError:
                _left.discard(pid)  # rather miss one of ours than hit a stranger
        _leaders.pop(pid, None)


def _follow() -> None:
    """Forgets the groups that are left when they are empty. A thread, as long as there are some."""
    while True:
        time.sleep(_FOLLOW_SECONDS)
        with _leaving:
            for group in [group for group in _left if not _peopled(group)]:
                _left.discard(group)
                _leaders.pop(group, None)
            if not _left:
                return


def _peopled(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody is there: another user's, or one that has ended and is not reaped yet
    return True


def table() -> list[Row]:
    """Every process that can be seen, but the one that looks. Raises OSError."""
    global _way, _understood
    while True:
        ps = next((path for path in _PS if os.access(path, os.X_OK)), _PS[0])
        with subprocess.Popen(
            [ps, *_WAYS[_way]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
            start_new_session=True,  # what ends us by our group, such as Ctrl-C, must not end the look
        ) as looking:
            try:
                said, _ = looking.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                looking.kill()
                raise OSError(errno.ETIMEDOUT, "`ps` has not answered") from None
        if looking.returncode == 0:
            _understood = True
            return [row for row in read(said) if row.pid != looking.pid]
        if looking.returncode < 0 or _understood:
            raise OSError(errno.EIO, f"`ps` has failed with status {looking.returncode}")
        _way += 1
        if _way == len(_WAYS):
            _way = 0
            raise OSError(errno.EIO, f"`ps` has failed with status {looking.returncode}")


def read(said: bytes) -> list[Row]:
    """The rows of what `ps` has printed."""
    rows = []
    for line in said.splitlines():
        fields = line.split(None, 4)
        if len(fields) < 4 or not all(map(bytes.isdigit, fields[:3])):
            continue  # the rest of an argument with a line break in it
        dead = fields[3].startswith(b"Z")
        mark = _in_environment(fields[4]) if len(fields) > 4 else 0
        rows.append(Row(int(fields[0]), int(fields[1]), int(fields[2]), dead=dead, mark=mark))
    return rows


def _in_environment(command: bytes) -> int:
    """The mark in what `ps` shows of a process: its arguments, then its environment."""
    told = command.rpartition(f" {MARK}=".encode())[2].split(None, 1)
    number = int(told[0]) if told and told[0].isdigit() and len(told[0]) < 20 else 0
    return number if number >= FLAG else 0


def spread(rows: Iterable[Row], leaders: dict[int, int]) -> dict[int, int]:
    """The mark of each process, by its number; of one that shows none, that of its group or its parent."""
    by_pid = {row.pid: row for row in rows}
    marks = {pid: row.mark or leaders.get(row.group, 0) for pid, row in by_pid.items()}
    for pid in by_pid:
        way = []
        while pid in by_pid and not marks[pid] and pid not in way:
            way.append(pid)
            pid = by_pid[pid].parent
        for below in way:
            marks[below] = marks.get(pid, 0)
    return marks


def marked(wanted: Callable[[int], bool]) -> list[int]:
    """Living processes (zombies are not) whose mark is wanted. Raises OSError."""
    own = os.getpid()
    rows = table()
    with _leaving:
        leaders = dict(_leaders)
    marks = spread((row for row in rows if row.pid != own), leaders)
    return [row.pid for row in rows if row.pid != own and not row.dead and wanted(marks[row.pid])]


def kill_marked(wanted: Callable[[int], bool]) -> bool:
    """SIGKILL for every process whose mark is wanted, until a look finds no new one. Raises OSError.

    False when there still were new ones after so many looks.
    """
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        fresh = [pid for pid in marked(wanted) if pid not in killed]
        for pid in fresh:
            kill(pid)
        if not fresh:
            return True
        killed.update(fresh)
    return False


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return any(row.pid == pid and not row.dead for row in table())
    except OSError:
        return False


def pids() -> list[int]:
    """Every process that can be seen. Raises OSError."""
    return [row.pid for row in table()]


def below(ancestor: int) -> set[int]:
    """All descendants of a process, by parentage. Raises OSError."""
    return _below(ancestor, table())


def _below(ancestor: int, rows: list[Row]) -> set[int]:
    children: dict[int, list[int]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append(row.pid)
    found: set[int] = set()
    pending = [ancestor]
    while pending:
        for pid in children.get(pending.pop(), ()):
            if pid not in found:
                found.add(pid)
                pending.append(pid)
    return found


def kill_session_members(leader: int, *, reaped: bool) -> None:
    """Whoever is in the leader's group, or below it by parentage."""
    doomed = set() if reaped else {leader}
    try:
        rows = table()
        doomed |= {row.pid for row in rows if row.group == leader}
        doomed |= set() if reaped else _below(leader, rows)
    except OSError as error:
        warn("server", "cannot look for descendants that are to be ended: %s", error.strerror)
    if not reaped:
        kill_group(leader)  # all at once: a shell whose child died first would go on with its next command
    for pid in doomed - {os.getpid()}:
        kill(pid)
