"""One client's session: its processes, across its connections, and who waits for what.

A process belongs to its session, not to a connection: a dropped link leaves it running, the end of the
session takes its whole tree. The log is the record; what is pushed to a connection is only the news.
"""

from __future__ import annotations

from ..core.stdin import WAITING_BYTES, WAITING_WRITES, WriteIds
from ..protocol.process import ACCEPTED, STDIN_CLOSED, Notices, ReadResult
from ..refusals import Refused
from ..stdlib import deque
from .limits import CATCH_UP_SECONDS, LONGEST_WAIT_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..contract.base import Base
    from ..core.lanes import Lanes
    from ..core.launch import Launch
    from ..core.output import Chunk, Page
    from ..core.snapshots import SnapshotCache
    from ..host.process import Process
    from ..host.spawn import Spawner
    from ..loop import Loop, Timer
    from ..pace import Pace
    from ..protocol.jsontext import Json
    from ..protocol.process import ReadParams, WriteParams, WriteResult
    from ..protocol.results import Result
    from .questions import Done
    from .settings import ServerSettings
    from .shells import ShellStart

    class Outlet(Protocol):
        """What a session needs of the connection that it is attached to."""

        @property
        def principal(self) -> str: ...
        @property
        def address(self) -> str: ...
        @property
        def full(self) -> bool: ...
        def push(self, *messages: bytes) -> bool: ...
        def push_parts(self, *messages: tuple[bytes, ...]) -> bool: ...
        def ask(self, method: str, params: Json, seconds: float, done: Done) -> None: ...
        def probe(self, seconds: float) -> None: ...
        def close(self, code: int, reason: str) -> None: ...

    class Ending(Protocol):
        """What ends with a command."""

        def close(self) -> None: ...

    class Waiting(Protocol):
        """What a session needs of a call that it answers later."""

        def later(self) -> object: ...
        def answer(self, result: Result) -> None: ...

    class Registry(Protocol):
        """What a session needs of all of them."""

        @property
        def loop(self) -> Loop: ...
        @property
        def pace(self) -> Pace: ...
        @property
        def settings(self) -> ServerSettings: ...
        @property
        def spawner(self) -> Spawner: ...
        def launch(self, session: Session, process_id: str, launch: Launch) -> Process: ...
        def reaped(self, session: Session, process: Process) -> None: ...
        def settled(self, session: Session) -> None: ...
        def closed(self, session: Session, process: Process) -> None: ...


_SHORT = 2048  # of output, which is rather joined than sent in parts


class _WaitingRead:
    """A process/read that waits for news or for its time."""

    __slots__ = ("call", "params", "timer")

    def __init__(self, call: Waiting, params: ReadParams) -> None:
        self.call = call
        self.params = params
        self.timer: Timer | None = None


class Session:
    """One client's processes, across its connections."""

    def __init__(self, session_id: str, number: int, principal: str, registry: Registry) -> None:
        self.id = session_id
        self.principal = principal  # whose it is
        self.number = number
        self.connection: Outlet | None = None
        self.processes: dict[str, Process] = {}
        self.running = 0
        self.starting: dict[
            str, list[Callable[[], None]]
        ] = {}  # what waits for processes that are not started yet
        self.held_bytes = 0  # of writes among that
        self.summaries = False  # whether the client wants to hear about environments
        self.base: Base | None = None  # the environment that it brought along
        self.frozen = False  # output waits for a client that was sent away and will be back
        self.left = False  # its last client will not come back
        self.fork = ""  # the scope of a fork, if it is a fork's session: see server.forks
        self.client_name = ""  # what its last client calls itself
        self.opened_ms = 0
        self.detached_at: float | None = None  # on the loop's clock, while no client holds it
        self.operates = False  # it only looks after what others have started
        self.snapshots: SnapshotCache | None = None  # of shells, if its clients have asked for some
        self.lanes: Lanes | None = None  # of its file requests, over all its connections, if there were any
        self._registry = registry
        self._loop = registry.loop
        self._notices: dict[Process, Notices] = {}
        self._shells: dict[Process, ShellStart] = {}
        self._networks: dict[Process, Ending] = {}  # of those that have a proxy
        self._reads: dict[Process, list[_WaitingRead]] = {}
        self._writes: dict[Process, deque[tuple[Waiting, WriteParams]]] = {}
        self._waiting_bytes = 0
        self._answering_writes = False
        self._paused: set[Process] = set()
        self._catching_up: set[Process] = set()
        self._held: set[Process] = set()  # by the client, which has enough of their output for now
        self._closed: deque[tuple[float, Process]] = deque()
        self._forgetting: Timer | None = None
        # Commands that outlive their client: for how many seconds while they run, and until when they can be
        # read after their end.
        self._unattended: dict[Process, float] = {}
        self._readable: dict[Process, tuple[float, Timer]] = {}
        self._ended = False

    @property
    def idle(self) -> bool:
        """Whether nothing runs in it, or is about to."""
        return not self.running and not self.starting

    def deadline(self, now: float) -> float:
        """Until when it waits for a client, should it lose its own now.

        As long as every session does, and as long as is needed for a command that was started to outlive its
        client: while it runs, then for the time in which it can be read.
        """
        retention = self._registry.settings.session_retention
        deadline = now + max(retention, *self._unattended.values(), 0.0)
        return max(deadline, *(until for until, _ in self._readable.values()), 0.0)

    # Connection

    def attach(self, connection: Outlet) -> None:
        self.connection = connection
        self.left = False
        self.detached_at = None

    def reattach(self, connection: Outlet) -> None:
        """Attaches a client that comes back and will ask, process by process, for what it missed.

        Until it has, output waits in the pipes: the stock client gives a command up when more than 256
        events overtake the answer it waits for. A client that never asks gets its output a little later.
        """
        self.attach(connection)
        self.frozen = False
        for process in self.processes.values():
            if not process.closed:
                process.hold(to_the_end=False)
                self._catching_up.add(process)
        if self._catching_up:
            self._loop.call_later(CATCH_UP_SECONDS, self._waited_for, connection)

    def _waited_for(self, connection: Outlet) -> None:
        """A client has had its time to ask; not one that has come back since then."""
        if self.connection is connection:
            self._caught_up(list(self._catching_up))

    def _caught_up(self, processes: list[Process]) -> None:
        for process in processes:
            if process in self._catching_up:
                self._catching_up.discard(process)
                process.resume()

    def detach(self) -> None:
        """Forgets the connection and what it waited for; processes run on, read without holding back."""
        self.connection = None
        for reads in self._reads.values():
            for read in reads:
                if read.timer is not None:
                    read.timer.cancel()
        self._reads.clear()
        self._writes.clear()
        self._waiting_bytes = 0
        self._caught_up(list(self._catching_up))
        self.resume_output()
        for process in list(self._held):
            self.hold(process, False)

    def freeze(self) -> None:
        """Leaves output in the pipes until a client is back, or `thaw`.

        So a client that is sent away for a moment misses nothing, however much is printed meanwhile.
        """
        self.frozen = True
        self._catching_up.clear()
        self._paused.clear()
        self._held.clear()
        for process in self.processes.values():
            if not process.closed:
                process.hold()

    def thaw(self) -> None:
        """Nobody came back: processes run on as those of every session that nobody holds."""
        if self.frozen:
            self.frozen = False
            for process in self.processes.values():
                process.resume()

    def resume_output(self) -> None:
        """Lets processes read on that were held back by a slow connection."""
        if self._paused:
            paused, self._paused = self._paused, set()
            for process in paused:
                process.resume()

    def hold(self, process: Process, on: bool) -> None:
        """Leaves the output of one process in its pipes, or reads it again. Ends with the connection."""
        if not on:
            self._held.discard(process)
            if process not in self._catching_up and not self.frozen:
                process.resume()
        elif not process.closed:
            self._held.add(process)
            process.hold()

    # Processes

    def start(
        self,
        process_id: str,
        launch: Launch,
        shell: ShellStart | None = None,
        unattended: float | None = None,
        network: Ending | None = None,
    ) -> Process:
        """Starts a command under this id. Raises Refused, LaunchFailed.

        `shell` is how it is started when it is a shell; it is told about with the exit. `unattended` is how
        many seconds it may run without a client, where that is more than the session would. `network` is its
        proxy, which ends with it.
        """
        try:
            process = self._start(process_id, launch)
        except BaseException:
            if shell is not None:
                shell.close()
            raise
        if shell is not None and shell.reports:
            shell.listen(self._loop)
            self._shells[process] = shell
        if unattended is not None:
            self._unattended[process] = unattended
        if network is not None:
            self._networks[process] = network
        return process

    def _start(self, process_id: str, launch: Launch) -> Process:
        if self.operates:
            raise Refused("this session was opened to operate the server and can start nothing")
        if process_id in self.processes:
            raise Refused(f"process {process_id} already exists")
        limit = self._registry.settings.max_processes
        if self.running >= limit:
            raise Refused(
                f"this session already runs {limit} processes; end one, or start the server with a larger "
                "--max-processes"
            )
        process = self._registry.launch(self, process_id, launch)
        self.processes[process_id] = process
        self._notices[process] = Notices(process_id)
        self.running += 1
        return process

    def get(self, process_id: str) -> Process:
        """The process with this id. Raises Refused when it is unknown or forgotten."""
        process = self.processes.get(process_id)
        if process is None:
            raise Refused(f"unknown process id {process_id}")
        return process

    # What processes report (host.process.Owner)

    def output(self, process: Process, chunks: list[Chunk]) -> bool:
        if self._reads:
            self._wake(process)
        connection = self.connection
        if connection is None:
            return True
        if len(chunks) == 1 and len(chunks[0].data) < _SHORT:
            room = connection.push(b"".join(self._notices[process].output(chunks[0])))
        else:
            room = connection.push_parts(*map(self._notices[process].output, chunks))
        if room:
            return True
        self._paused.add(process)
        return False

    def appetite(self, process: Process) -> int:
        connection = self.connection
        if connection is not None and connection.full:
            self._paused.add(process)
            return 0
        if process in self._held:  # somebody else has let it read on
            return 0
        return self._registry.pace.appetite()

    def much(self, fd: int) -> None:
        self._registry.pace.much(fd)

    def ended(self, process: Process, exited_seq: int | None, closed_seq: int | None) -> None:
        try:
            self._tell_end(process, exited_seq, closed_seq)
        finally:
            # Whoever waits for the end of the command has heard of it, most often.
            if exited_seq is not None:
                self._registry.reaped(self, process)
        if closed_seq is not None:
            self.running -= 1
            self._registry.closed(self, process)
            self._paused.discard(process)
            self._catching_up.discard(process)
            self._held.discard(process)
            if self._networks:
                self._end_network(process)
            del self._notices[process]
            if self._ended:
                process.log.release()
            elif process in self._unattended:
                self._retire_unattended(process)
            else:
                self._retire(process)
            if self.left:
                self._loop.call_soon(self._registry.settled, self)

    def _tell_end(self, process: Process, exited_seq: int | None, closed_seq: int | None) -> None:
        told = b""
        if exited_seq is not None and self._shells:
            shell = self._shells.pop(process, None)
            if shell is not None:
                told = shell.report_text()
        connection = self.connection
        if connection is not None:
            notices = self._notices[process]
            news = []
            if exited_seq is not None:
                about = told if self.summaries else b""
                news.append(_exit(notices, process, about))
            if closed_seq is not None:
                news.append(notices.closed(closed_seq))
            connection.push(*news)
        if self._reads:
            self._wake(process)

    def _end_network(self, process: Process) -> None:
        network = self._networks.pop(process, None)
        if network is not None:
            network.close()

    def stdin_moved(self, process: Process) -> None:
        # A write that waited moves stdin itself; the one loop below goes on, not one inside another.
        if self._writes and not self._answering_writes:
            self._answering_writes = True
            try:
                self._write_waiting(process)
            finally:
                self._answering_writes = False

    # Closed processes

    def _retire(self, process: Process) -> None:
        """Keeps a closed process readable for its time, and no more than so many of them."""
        self._closed.append((self._loop.time() + self._registry.settings.process_retention, process))
        if len(self._closed) > self._registry.settings.closed_processes:
            self._forget(self._closed.popleft()[1])
        if self._forgetting is None:
            retention = self._registry.settings.process_retention
            self._forgetting = self._loop.call_later(retention, self._forget_due)
        # Whoever waited has the news; another command may follow.
        self._registry.spawner.pipes.prepare()

    def _retire_unattended(self, process: Process) -> None:
        """Keeps a command readable for whoever comes back for it, some time after its end."""
        settings = self._registry.settings
        del self._unattended[process]
        if len(self._readable) >= settings.closed_processes:
            self._forget(next(iter(self._readable)))
        until = self._loop.time() + settings.detached_retention
        timer = self._loop.call_later(settings.detached_retention, self._forget, process)
        self._readable[process] = (until, timer)
        if self.connection is None:
            self._loop.call_soon(self._registry.settled, self)

    def _forget_due(self) -> None:
        self._forgetting = None
        now = self._loop.time()
        while self._closed and self._closed[0][0] <= now:
            self._forget(self._closed.popleft()[1])
        if self._closed:
            self._forgetting = self._loop.call_later(self._closed[0][0] - now, self._forget_due)

    def _forget(self, process: Process) -> None:
        if process in self._readable:
            self._readable.pop(process)[1].cancel()
        if self.processes.get(process.process_id) is process:
            del self.processes[process.process_id]
        process.log.release()

    # Reading

    def read(self, process: Process, call: Waiting, params: ReadParams) -> ReadResult | None:
        """The answer to process/read, or None when it comes later."""
        if self._catching_up:
            self._caught_up([process])
        log = process.log
        if params.wait_ms == 0 or log.ready(params.after_seq):
            return _result(process, log.read(params.after_seq, params.max_bytes))
        call.later()
        waiting = _WaitingRead(call, params)
        waiting.timer = self._loop.call_later(
            min(params.wait_ms / 1000, LONGEST_WAIT_SECONDS), self._read_due, process, waiting
        )
        self._reads.setdefault(process, []).append(waiting)
        return None

    def _read_due(self, process: Process, waiting: _WaitingRead) -> None:
        waiting.timer = None
        reads = self._reads.get(process)
        if reads is not None and waiting in reads:
            reads.remove(waiting)
            if not reads:
                del self._reads[process]
            self._answer_read(process, waiting)

    def _wake(self, process: Process) -> None:
        """Answers the reads that have waited for what just happened."""
        reads = self._reads.get(process)
        if reads is None:
            return
        due = [read for read in reads if process.log.ready(read.params.after_seq)]
        if len(due) == len(reads):
            del self._reads[process]
        else:
            self._reads[process] = [read for read in reads if read not in due]
        for read in due:
            if read.timer is not None:
                read.timer.cancel()
            self._answer_read(process, read)

    def _answer_read(self, process: Process, waiting: _WaitingRead) -> None:
        page = process.log.read(waiting.params.after_seq, waiting.params.max_bytes)
        waiting.call.answer(_result(process, page))

    # Writing

    def write(self, process: Process, call: Waiting, params: WriteParams) -> WriteResult | None:
        """The answer to process/write, or None while it waits for room. Writes keep their order."""
        if process.writes is not None and params.write_id in process.writes:
            return ACCEPTED
        if not process.stdin_open:
            return STDIN_CLOSED
        waiting = self._writes.get(process)
        if waiting is None and process.stdin_has_room():
            return self._write_now(process, params)
        count = sum(map(len, self._writes.values()))
        if count >= WAITING_WRITES or self._waiting_bytes + len(params.data) > WAITING_BYTES:
            raise Refused(
                f"stdin of process {process.process_id} is full and too many writes are waiting; wait for "
                f"their answers first"
            )
        call.later()
        self._writes.setdefault(process, deque()).append((call, params))
        self._waiting_bytes += len(params.data)
        return None

    def _write_now(self, process: Process, params: WriteParams) -> WriteResult:
        if not process.write(params.data, eof=params.eof):
            return STDIN_CLOSED
        if process.writes is None:
            process.writes = WriteIds()
        process.writes.add(params.write_id)
        return ACCEPTED

    def _write_waiting(self, process: Process) -> None:
        """Stdin has room again, or is closed: answers the writes that waited."""
        waiting = self._writes.get(process)
        while waiting and (not process.stdin_open or process.stdin_has_room()):
            call, params = waiting.popleft()
            self._waiting_bytes -= len(params.data)
            if process.writes is not None and params.write_id in process.writes:
                result = ACCEPTED
            elif not process.stdin_open:
                result = STDIN_CLOSED
            else:
                result = self._write_now(process, params)
            call.answer(result)
        if waiting is not None and not waiting:
            self._writes.pop(process, None)

    # Looking back

    def replay(self, process: Process, after: int) -> list[bytes]:
        """The retained events after a sequence number, as notices in order."""
        self._caught_up([process])
        log = process.log
        notices = Notices(process.process_id)
        events = [(chunk.seq, b"".join(notices.output(chunk))) for chunk in log.after(after)]
        if log.exited_seq is not None and log.exited_seq > after:
            events.append((log.exited_seq, _exit(notices, process)))
        if log.closed_seq is not None and log.closed_seq > after:
            events.append((log.closed_seq, notices.closed(log.closed_seq)))
        return [notice for _, notice in sorted(events)]

    # End

    def end(self) -> None:
        """Kills every descendant of every process, those that outlived a closed one included."""
        self._ended = True
        for process in list(self.processes.values()):
            if process.closed:
                process.log.release()
            else:
                process.terminate()
        self.processes.clear()
        self._closed.clear()
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._unattended.clear()
        for _, timer in self._readable.values():
            timer.cancel()
        self._readable.clear()
        # Nobody will hear what they report; and a server that stops is not told of exits any more.
        for shell in self._shells.values():
            shell.close()
        self._shells.clear()
        for network in self._networks.values():
            network.close()
        self._networks.clear()


def _exit(notices: Notices, process: Process, environment: bytes = b"") -> bytes:
    """The news of the exit of a command."""
    log = process.log
    assert log.exited_seq is not None and log.exit_code is not None
    seq, code, signal = log.exited_seq, log.exit_code, process.ended_by
    return notices.exited(seq, code, environment, denied=log.denied, signal=signal, reason=log.reason)


def _result(process: Process, page: Page) -> ReadResult:
    return ReadResult(
        [(chunk.seq, chunk.stream.decode(), bytes(chunk.data)) for chunk in page.chunks],
        page.next_seq,
        page.exited,
        page.exit_code,
        page.closed,
        sandbox_denied=page.denied,
        dropped_bytes=page.dropped_bytes,
        signal=process.ended_by if page.exited else None,
        reason=process.log.reason,
    )
