"""Which processes descend from a command, and their end, however they try to leave.

A child inherits its resource limits through fork, exec, setsid and the death of its parents. One limit
means nothing for ordinary programs: RLIMIT_RTTIME, how long a *real-time* thread may run without
sleeping. Its soft value, "unlimited" otherwise, carries a mark: a number above 2^62 microseconds
(146,000 years) made of the server's nonce, the session and the process. One system call reads it, so
finding every descendant on a busy machine takes under a millisecond and needs no privilege.

What a mark cannot hold: a program that sets this limit itself (some `su` configurations do) or one that
hides on purpose. A control group (`host.cgroup`) holds those, where an operator asks for it.
"""

from __future__ import annotations

import os
import resource

from ..core.marks import FLAG, NONCE_BITS, Marks
from ..log import warn
from .orphans import below, kill, pids
from .pipes import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Protocol

    from ..core.launch import Launch
    from ..loop import Loop
    from .cgroup import Cgroups
    from .masks import Masks
    from .spawn import Spawner, Stdio

    class Sandbox(Protocol):
        """One that runs: `host.sandbox.running`."""

        def signal(self, number: int) -> None:
            """For the command inside."""

    class Sandboxing(Protocol):
        """All of a server: `host.sandbox.sandboxes`."""

        @property
        def running(self) -> Mapping[int, Sandbox]: ...
        def spawn(
            self, spawner: Spawner, launch: Launch, stdio: Stdio, limit: int | None, mark: int
        ) -> int: ...
        def let_go(self, mark: int) -> None: ...
        def stopped(self) -> None: ...


# A tree that forks while it is killed needs another look. One that outruns this many is a fork bomb;
# others get their turn before it is looked at again.
_ROUNDS = 32
_AGAIN_SECONDS = 0.05
# How long a look waits for other requests to share it: 200 commands ended at once take one or two looks.
_SWEEP_SECONDS = 0.01


def usable() -> bool:
    """Whether this machine lets us set the limit to any number: its hard value must be unlimited."""
    return resource.getrlimit(resource.RLIMIT_RTTIME)[1] == resource.RLIM_INFINITY


def new_nonce() -> int:
    return int.from_bytes(os.urandom(8), "big") >> (64 - NONCE_BITS)


class Trees:
    """Kills whole trees of one server. Requests that come together share one look at the process table."""

    def __init__(self, loop: Loop, marks: Marks, cgroups: Cgroups | None = None) -> None:
        self._loop = loop
        self._marks = marks
        self._cgroups = cgroups
        self._marking = usable()
        # For the next look: marks; sessions, and who is told.
        self._doomed: set[int] = set()
        self._ending: dict[int, Callable[[], None] | None] = {}
        # Of looks that have to be repeated.
        self._doomed_still: list[set[int]] = []
        self._ending_still: list[set[int]] = []
        self.masks: Masks | None = None  # made with the first command that needs them
        self.sandboxes: Sandboxing | None = None  # the same

    def spawn(self, spawner: Spawner, launch: Launch, stdio: Stdio, mark: int) -> int:
        """Starts a program whose descendants can be found by the mark.

        Raises LaunchFailed, MasksUnavailable for one with `masks`; for one with a `confinement`
        SandboxUnavailable, InvalidParams.
        """
        limit = mark if self._marking else None
        if launch.masks and launch.confinement is None:
            return self._masked(spawner, launch, stdio, limit, mark)
        if self._cgroups is None:
            return self._spawn(spawner, launch, stdio, limit, mark)
        self._cgroups.enter(mark)
        try:
            return self._spawn(spawner, launch, stdio, limit, mark)
        finally:
            self._cgroups.leave()

    def _spawn(self, spawner: Spawner, launch: Launch, stdio: Stdio, limit: int | None, mark: int) -> int:
        if launch.confinement is None:
            return spawner.spawn(launch, stdio, limit)
        assert self.sandboxes is not None, "somebody asked for a sandbox"
        return self.sandboxes.spawn(spawner, launch, stdio, limit, mark)

    def sandbox(self, mark: int) -> Sandbox | None:
        """The sandbox of a command, if it runs in one."""
        return None if self.sandboxes is None else self.sandboxes.running.get(mark)

    def _masked(self, spawner: Spawner, launch: Launch, stdio: Stdio, limit: int | None, mark: int) -> int:
        if self.masks is None:
            from .masks import Masks

            self.masks = Masks(spawner)
        group = "" if self._cgroups is None else self._cgroups.made(mark)
        return self.masks.spawn(launch, stdio, limit, group)

    def let_go(self, mark: int) -> None:
        """A process closed; what it left running belongs to the session."""
        if self.sandboxes is not None:
            self.sandboxes.let_go(mark)
        if self._cgroups is not None:
            self._cgroups.let_go(mark)

    def kill(self, leader: int, mark: int, *, reaped: bool) -> None:
        """SIGKILL for a leader's group now, and for every other descendant a moment later.

        When the leader is `reaped` its number may belong to somebody else; only the mark counts then.
        """
        if not reaped:
            kill_group(leader)
        if self._cgroups is not None:
            self._cgroups.kill(mark)
        if not self._marking:
            kill_session_members(leader, reaped=reaped)
            return
        self.kill_marks((mark,))

    @property
    def doomed(self) -> set[int]:
        """Marks whose processes are still to be killed."""
        return self._doomed.union(*self._doomed_still)

    @property
    def ending(self) -> set[int]:
        """Numbers of sessions of which something may still run."""
        return set(self._ending).union(*self._ending_still)

    def kill_marks(self, marks: Iterable[int]) -> None:
        """SIGKILL for whoever carries one of these marks, a moment later."""
        if not self._doomed:
            self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        self._doomed.update(marks)

    def _sweep(self) -> None:
        doomed, self._doomed = self._doomed, set()
        self._doomed_still.append(doomed)
        self._kill_until(doomed.__contains__, lambda: self._doomed_still.remove(doomed))

    def _kill_until(
        self, wanted: Callable[[int], bool], done: Callable[[], None] | None = None, *, again: bool = False
    ) -> bool:
        """Kills those whose mark is wanted: now or, where that fails, as often as it takes. Then `done`."""
        try:
            all_killed = kill_marked(wanted)
        except OSError as error:
            # No descriptor to look at the process table with, say.
            if not again:
                why = error.strerror
                warn("server", "cannot look for processes that are to be ended, and try again: %s", why)
            all_killed = False
        if not all_killed:
            self._loop.call_later(_AGAIN_SECONDS, lambda: self._kill_until(wanted, done, again=True))
        elif done is not None:
            done()
        return all_killed

    def kill_session(self, session: int, done: Callable[[], None] | None = None) -> None:
        """SIGKILL for whatever descends from any process of the session, closed ones included.

        A moment later, so that many sessions that end at once share one look: a thousand looks at a thousand
        processes take half a minute. `done` is called when nothing is left: until then no other session may
        have its number.
        """
        if self._cgroups is not None:
            self._cgroups.kill_session(session)
        if not self._ending:
            self._loop.call_later(_SWEEP_SECONDS, self._end_sessions)
        self._ending[session] = done

    def _end_sessions(self) -> None:
        ending, self._ending = self._ending, {}
        numbers = set(ending)
        self._ending_still.append(numbers)

        def ended() -> None:
            self._ending_still.remove(numbers)
            for session, done in ending.items():
                if self._cgroups is not None:
                    self._cgroups.tidy(session)
                if done is not None:
                    done()

        marks = self._marks
        self._kill_until(lambda mark: marks.is_ours(mark) and marks.session_of(mark) in numbers, ended)

    def kill_all(self) -> bool:
        """SIGKILL for whatever descends from any process of this server; False when some may be left."""
        if self._cgroups is not None:
            self._cgroups.kill_all()
        return self._kill_until(self._marks.is_ours)

    def stopped(self) -> None:
        """Everything was killed and reaped: nothing of ours stays behind."""
        if self.sandboxes is not None:
            self.sandboxes.stopped()
        if self.masks is not None:
            self.masks.close()
        if self._cgroups is not None:
            self._cgroups.tidy()


def kill_group(group: int, number: int = 9) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


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


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return (file.read() or b"").rpartition(b") ")[2][:1] in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False  # who knows: then it is killed once more


def _kill_if(pid: int, wanted: Callable[[int], bool]) -> None:
    """Kills through a descriptor that is checked after it was opened: the number may be reused."""
    from signal import pidfd_send_signal

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
    for pid in doomed - {os.getpid()}:
        kill(pid)
