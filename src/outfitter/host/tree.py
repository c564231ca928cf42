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

from ..core.marks import NONCE_BITS, Marks
from ..log import warn
from ..refusals import LaunchFailed
from .killing import kill_group
from .unix import kill_marked, kill_session_members, usable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Protocol

    from ..core.launch import Launch
    from ..loop import Loop
    from .cgroup import Cgroups
    from .limits import MemoryKills
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
        def killed_for_memory(self, mark: int) -> bool: ...
        def stopped(self) -> None: ...


_AGAIN_SECONDS = 0.05
# How long a look waits for other requests to share it: 200 commands ended at once take one or two looks.
_SWEEP_SECONDS = 0.01


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
        self.held: Callable[[], bool] | None = None  # by a client, so that commands may start: with --fence
        self.memory: MemoryKills | None = None  # of a server whose memory is limited

    def spawn(self, spawner: Spawner, launch: Launch, stdio: Stdio, mark: int) -> int:
        """Starts a program whose descendants can be found by the mark.

        Raises LaunchFailed, MasksUnavailable for one with `masks`; for one with a `confinement`
        SandboxUnavailable, InvalidParams.
        """
        if self.held is not None and not self.held():
            raise LaunchFailed("no client was heard for too long (--fence): the server ends")
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

    def killed_for_memory(self, mark: int) -> bool:
        """Whether the kernel has killed something for want of memory: in the command's sandbox, or in the
        server's group since this was last asked."""
        if self.sandboxes is not None and self.sandboxes.killed_for_memory(mark):
            return True
        return self.memory is not None and self.memory.more()

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
