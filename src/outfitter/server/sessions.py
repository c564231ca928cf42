"""All sessions of a server: who holds which, when they end, and what they share to run processes."""

from __future__ import annotations

import os
import time

from ..core.marks import NO_SESSION, Marks
from ..core.output import Budget, Share
from ..core.quotas import Sharing
from ..core.session import SessionBook
from ..host import spawn
from ..host.descriptors import Descriptors
from ..host.orphans import Orphans
from ..host.process import DESCRIPTORS, Process
from ..host.tree import Trees, new_nonce
from ..host.unix import Spawner
from ..host.watchdog import Watchdog
from ..log import note, tell
from ..protocol.session import TAKEN_OVER
from ..record import record
from ..refusals import Draining, QuotaReached, Refused
from ..system import LINUX
from .limits import PROCESSES
from .session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.launch import Launch
    from ..host.memory import FreedMemory
    from ..host.sandbox.netns import NetOpener
    from ..loop import Loop, Timer
    from ..observe.observer import Observer
    from ..pace import Pace
    from ..protocol.jsontext import Json
    from ..stdlib import LockType
    from .session import Outlet
    from .settings import ServerSettings

# How long stopping waits for killed processes to be gone; only those in the kernel's hands take longer.
_REAP_SECONDS = 1.0
# After what the first client waits for; a start takes the loop for a millisecond.
_WATCHDOG_SECONDS = 0.05
# Numbers of sessions that have just ended: nobody else has one until nothing of its session is left, 10 ms
# or more.
_ENDING_NUMBERS = 128


@record
class SessionView:
    """What there is to know of a session: `peer` is None while nobody holds it, `detached_ms` while somebody
    does."""

    id: str
    principal: str
    client: str
    peer: str | None
    opened_ms: int
    detached_ms: int | None
    operates: bool
    processes: tuple[Process, ...]


class Sessions:
    """All sessions of a server, and what they share to run processes."""

    def __init__(
        self,
        loop: Loop,
        settings: ServerSettings,
        pace: Pace,
        sharing: Sharing | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.loop = loop
        self.pace = pace
        self.settings = settings
        self.observer = observer
        self.draining = ""  # since when no new sessions are taken
        self._limit = min(settings.max_sessions, NO_SESSION - _ENDING_NUMBERS)
        self.sharing = sharing or Sharing()
        self._book = SessionBook(self._limit)
        self._sessions: dict[str, Session] = {}
        self._numbers: set[int] = set()
        self._expiry: Timer | None = None
        self._expires = 0.0  # when that is
        self._budget = Budget(settings.retained_total_bytes)
        self._shares: dict[str, Share] = {}  # of it, by principal
        self.spawner = Spawner()
        self.descriptors = Descriptors(self.sharing)
        self.marks = Marks(new_nonce())
        cgroups = None
        if settings.cgroup:
            from ..host.cgroup import Cgroups

            cgroups = Cgroups(self.marks)
        self.trees = Trees(loop, self.marks, cgroups)
        self.watchdog = Watchdog(loop, self.spawner, self.marks, cgroups.root if cgroups is not None else "")
        self._net_opener: NetOpener | None = None
        self._orphans: Orphans | None = None
        self._freed: FreedMemory | None = None  # in a process of our own
        self._leaders: set[int] = set()
        self._ending: set[Process] = set()  # of sessions that are over: killed, and not closed yet
        self._others: set[LockType] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def knows(self, session_id: object) -> bool:
        """Whether there is such a session, held by somebody or waiting for its client."""
        return session_id in self._sessions

    def own_process(self, others: set[int]) -> None:
        """This process exists for the server alone: it may adopt orphans and raise its own limits. `others`
        are children that it had before."""
        self.spawner.raise_file_limit()
        if self.settings.allowance is not None and LINUX:
            from ..host.limits import CommandsFirst, MemoryKills

            self.spawner.commands_first = CommandsFirst()
            self.trees.memory = MemoryKills()
        self.descriptors.measure()
        if spawn.assumed is not None:
            spawn.assumed.prepare(self.spawner)
        from ..host.memory import FreedMemory

        self._freed = FreedMemory(self.loop)
        self._orphans = Orphans(self.loop, self._is_waited_for, others)
        # Soon, so that no command has to wait for it, and so that it is there when descriptors are short.
        self.loop.call_later(_WATCHDOG_SECONDS, self.watchdog.try_to_ensure)

    def _is_waited_for(self, pid: int) -> bool:
        return (
            bool(self._others)
            or pid in self._leaders
            or pid == self.watchdog.pid
            or (self.trees.masks is not None and pid in self.trees.masks.pids)
            or (self._net_opener is not None and pid == self._net_opener.pid)
        )

    @property
    def net_opener(self) -> NetOpener:
        """What opens sockets inside sandboxes."""
        if self._net_opener is None:
            from ..host.sandbox.netns import NetOpener

            self._net_opener = NetOpener(self.loop, self.spawner)
        return self._net_opener

    def other_begins(self, ended: LockType) -> None:
        """A thread waits for children of its own: meanwhile nobody else's are reaped.

        `ended` is locked until it has cleaned up; `other_ended` comes from the loop, hence later or never.
        """
        self._others.add(ended)

    def other_ended(self, ended: LockType) -> None:
        self._others.discard(ended)

    # Holding

    def create(self, connection: Outlet, *, operates: bool = False) -> Session:
        """A new session for this connection. Raises Draining, Refused at the limit.

        One that `operates` can start nothing; it is accepted at any time.
        """
        if self.draining and not operates:
            raise Draining(self.draining)
        session_id, principal = _uuid4(), connection.principal
        self.sharing.seen(principal)
        number = next((one for one in range(NO_SESSION) if one not in self._numbers), None)
        if number is None:
            raise Refused("too many sessions have just ended on this exec-server; try again in a moment")
        if self.sharing.several or len(self._book) >= self._limit:
            self._make_room(principal)
        self._book.create(session_id, connection, principal)
        self._numbers.add(number)
        session = self._sessions[session_id] = Session(session_id, number, principal, self)
        session.opened_ms = int(time.time() * 1000)
        session.operates = operates
        session.attach(connection)
        self.pace.clients = self._book.held
        note("server", "=", "session opened, %d in all", len(self._sessions))
        return session

    def opened(self, session: Session, connection: Outlet, *, resumed: bool) -> None:
        """A client has a session: those who watch are told."""
        what = "resumed" if resumed else "opened"
        tell(
            "server",
            "=",
            "session %s %s by %s at %s (%s)",
            session.id[:8],
            what,
            session.principal,
            connection.address,
            session.client_name[:80],
        )
        facts: dict[str, Json] = {"client": session.client_name}
        if session.operates:
            facts["operates"] = True
        self._observe(f"session-{what}", session, connection.address, **facts)

    def _observe(self, event: str, session: Session, peer: str, **facts: Json) -> None:
        if self.observer is not None:
            self.observer.happened(event, session.principal, peer, session.id, **facts)

    def _make_room(self, principal: str) -> None:
        """A session that nobody holds and in which nothing runs yields to a new one: the oldest does, where
        there are several principals the oldest of the one that has the most. Raises QuotaReached.
        """
        idle = [one for one in map(self._sessions.__getitem__, self._book.detached()) if one.idle]
        if self.sharing.several:
            mine = self.count(principal) - sum(one.principal == principal for one in idle)
            busy = len(self._sessions) - len(idle)
            if busy < self._limit and not self.sharing.allows(self._limit, busy, mine):
                raise QuotaReached("sessions in use", mine, "close one")
            idle.sort(key=lambda one: -self.count(one.principal))
        if idle and len(self._book) >= self._limit:
            self.end(idle[0], "made room")

    def count(self, principal: str) -> int:
        """How many sessions it has."""
        return sum(one.principal == principal for one in self._sessions.values())

    def running(self, principal: str | None = None) -> int:
        """How many processes run, of all sessions or of one principal's."""
        return sum(
            one.running for one in self._sessions.values() if principal is None or one.principal == principal
        )

    def resume(
        self, session_id: str, connection: Outlet, probe: float, *, take_over: bool = False
    ) -> Session:
        """Attaches a detached session. Raises SessionAttached, Refused: also for one of another principal.

        A holder that does not answer a ping loses it, so that a half-open connection blocks nobody; with
        `take_over` any holder does, at once, and is told.
        """
        principal, now = connection.principal, self.loop.time()
        self._book.check(session_id, principal, now)
        held = self._sessions.get(session_id)
        if held is not None and held.connection is not None:
            if take_over:
                self._observe("session-taken-over", held, connection.address, before=held.connection.address)
                held.connection.close(TAKEN_OVER, "another client has taken the session over")
            else:
                held.connection.probe(probe)
        self._book.resume(session_id, connection, principal, now)
        session = self._sessions[session_id]
        session.reattach(connection)
        self.pace.clients = self._book.held
        note("server", "=", "session resumed")
        return session

    def detach(self, session: Session, connection: Outlet, *, left: bool = False) -> None:
        """The connection is gone; the session waits for another.

        Its client has `left` it for good when it said so: then it ends as soon as nothing runs in it.
        """
        detached = self._book.detach(session.id, connection, session.deadline(self.loop.time()))
        self.pace.clients = self._book.held
        if not detached:
            return
        session.detach()
        session.left = left
        session.detached_at = self.loop.time()
        if self.observer is not None:
            self.observer.detached()
        if left and session.idle:
            self.end(session, "left")
        else:
            self._expire_later()

    def settled(self, session: Session) -> None:
        """A process has ended for whose sake a session without a client was kept."""
        if session.connection is not None or session.id not in self._sessions:
            return
        if session.left and session.idle:
            self.end(session, "left")
            return
        self._book.postpone(session.id, session.deadline(self.loop.time()))
        self._expire_later()

    def _expire_later(self) -> None:
        deadline = self._book.next_deadline()
        if self._expiry is not None:
            if deadline is None or self._expires <= deadline:
                return
            self._expiry.cancel()
            self._expiry = None
        if deadline is not None:
            self._expires = deadline
            self._expiry = self.loop.call_later(max(0.0, deadline - self.loop.time()), self._expire)

    def _expire(self) -> None:
        self._expiry = None
        for session_id in self._book.expire(self.loop.time()):
            self.end(self._sessions[session_id], "expired")
        self._expire_later()

    # Sent away for a moment

    @property
    def waits_for_others(self) -> bool:
        """Whether a thread waits for children of its own."""
        return bool(self._others)

    def keep(self, session: Session, until: float) -> None:
        """Keeps a session whose client was sent away at least so long, whatever the retention is."""
        if self._book.deadline(session.id) is not None:
            self._book.adopt(session.id, session.principal, until)

    def thaw(self) -> None:
        """Who was sent away and is not back has had the time for it."""
        for session in self._sessions.values():
            session.thaw()

    # Running

    def launch(self, session: Session, process_id: str, launch: Launch) -> Process:
        """Starts a command. Raises QuotaReached, Exhausted, LaunchFailed."""
        budget = self._budget
        if self.sharing.several:
            budget = self._share(session.principal)
        self.watchdog.try_to_ensure()
        self.descriptors.take(DESCRIPTORS, session.principal)
        try:
            process = Process(
                process_id,
                launch,
                self.marks.new(session.number),
                loop=self.loop,
                spawner=self.spawner,
                trees=self.trees,
                owner=session,
                budget=budget,
                started_ms=int(time.time() * 1000),
            )
        except BaseException:
            self.descriptors.give_back(DESCRIPTORS, session.principal)
            raise
        self.pace.started()
        self._leaders.add(process.pid)
        return process

    def _share(self, principal: str) -> Budget:
        """What the output of a new process of this principal counts for. Raises QuotaReached."""
        mine = self.running(principal)
        if not self.sharing.allows(PROCESSES, self.running(), mine):
            raise QuotaReached("running processes", mine, "end one")
        return self.budget_of(principal)

    def budget_of(self, principal: str) -> Budget:
        """What the output of its processes counts for."""
        if not self.sharing.several:
            return self._budget
        share = self._shares.get(principal)
        if share is None:
            share = self._shares[principal] = Share(self._budget)
        return share

    def reaped(self, session: Session, process: Process) -> None:
        self._leaders.discard(process.pid)
        self.pace.ended()
        if self.observer is not None:
            ended = {"process": process.process_id, "pid": process.pid, "exit": process.log.exit_code}
            self._observe("command-ended", session, "", **ended)

    # Looking at all of them

    def overview(self, principal: str | None) -> list[SessionView]:
        """Every session, oldest first, or those of one principal."""
        now = self.loop.time()
        return [
            SessionView(
                one.id,
                one.principal,
                one.client_name,
                None if one.connection is None else one.connection.address,
                one.opened_ms,
                None if one.detached_at is None else int((now - one.detached_at) * 1000),
                one.operates,
                tuple(one.processes.values()),
            )
            for one in self._sessions.values()
            if principal in (None, one.principal)
        ]

    def find_process(
        self, principal: str | None, pid: int | None, session_id: str | None, process_id: str | None
    ) -> tuple[Session, Process]:
        """A process that has not closed, by its pid, or by its session and its own id; of one principal, if
        one is given. Raises Refused."""
        for session in self._sessions.values():
            if principal not in (None, session.principal) or session_id not in (None, session.id):
                continue
            for process in session.processes.values():
                if not process.closed and (process.pid == pid or process.process_id == process_id):
                    return session, process
        name = f"pid {pid}" if pid is not None else f"id {process_id} in session {session_id}"
        raise Refused(f"no running command of yours has the {name}")

    def in_use(self, now: float) -> int:
        """How many sessions somebody holds, runs something in, or may still come back to after a break."""
        kept = self.settings.session_retention
        return sum(
            not one.operates
            and (
                one.frozen
                or not one.idle
                or one.detached_at is None
                or (not one.left and now < one.detached_at + kept)
            )
            for one in self._sessions.values()
        )

    def closed(self, session: Session, process: Process) -> None:
        """A process has closed: its descriptors are free."""
        self._ending.discard(process)
        self.descriptors.give_back(DESCRIPTORS, session.principal)
        if self.observer is not None:
            self.observer.ended(process)

    # Ending

    def end(self, session: Session, why: str = "its connection ended") -> None:
        """The end of a session: its processes and whatever descends from them."""
        self._book.forget(session.id)
        self.pace.clients = self._book.held
        if self._sessions.pop(session.id, None) is None:
            return
        tell("server", "=", "session %s of %s closed: %s", session.id[:8], session.principal, why)
        peer = "" if session.connection is None else session.connection.address
        self._observe("session-closed", session, peer, reason=why)
        session.detach()
        self._ending.update(process for process in session.processes.values() if not process.closed)
        session.end()
        self.end_number(session.number)
        if session.principal in self._shares and not self.count(session.principal):
            del self._shares[session.principal]  # its logs may still have it; nobody else needs it
        if not self._sessions:
            self.spawner.pipes.close()
        if self._freed is not None:
            self._freed.later()

    def end_number(self, number: int) -> None:
        """Ends whatever descends from the session with this number; until then no other session has it."""
        self._numbers.add(number)
        self.trees.kill_session(number, lambda: self._numbers.discard(number))

    def _kill_all(self) -> bool:
        """Ends every descendant but the watchdog; False when one may be left.

        A look at all processes of a machine takes 10 ms, which the end of a server with nothing left can do
        without.
        """
        spare = self.watchdog.pid
        if self._orphans is None:
            return self.trees.kill_all()
        if self._orphans.none_left(spare):
            return True
        all_killed = self.trees.kill_all()
        return self._orphans.kill_all(spare) and all_killed

    def stop(self) -> bool:
        """Ends every session, every descendant and the watchdog; False when a descendant may be left."""
        if self._expiry is not None:
            self._expiry.cancel()
        for session in list(self._sessions.values()):
            self.end(session, "the server ends")
        all_killed = self._kill_all()
        until = time.monotonic() + _REAP_SECONDS
        for process in self._ending:
            process.discard(max(0.0, until - time.monotonic()))
        for ended in self._others:
            # What they waited for was killed; their pipes are on disk.
            ended.acquire(timeout=max(0.0, until - time.monotonic()))
        self.trees.stopped()
        if self._net_opener is not None:
            self._net_opener.close()
        if spawn.assumed is not None:
            spawn.assumed.close()
        if all_killed:
            self.watchdog.stop()
        # Else it outlives us, and ends what we could not.
        return all_killed


def _uuid4() -> str:
    # `uuid` imports half the platform module; an unguessable id is all that is wanted.
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
