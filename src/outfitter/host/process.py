"""One running command: pumps its output into the log, feeds its stdin, signals and reaps it.

What happens is reported to an `Owner`; what is recorded is the log's business. A Process never blocks:
descriptors are non-blocking and every wait is a callback.
"""

from __future__ import annotations

import os
import select

from ..core.output import OUT_OF_MEMORY, Budget, OutputLog
from ..core.stdin import StdinQueue, WriteIds
from ..pace import READ_SIZE, WIDE_READ_SIZE
from ..refusals import LaunchFailed, Refused
from .killing import kill_group
from .pipes import let_go
from .spawn import Stdio
from .unix import waitpid, watch_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from ..core.launch import Launch
    from ..core.output import Chunk
    from ..loop import Loop, Timer
    from .spawn import Spawner
    from .tree import Trees

    class Owner(Protocol):
        @property
        def principal(self) -> str:
            """On whose behalf it runs."""

        def output(self, process: Process, chunks: list[Chunk]) -> bool:
            """New output. False asks the process to stop reading until `resume`."""

        def appetite(self, process: Process) -> int:
            """How much output to read at a time: `READ_SIZE`, more when nobody would have to wait for it,
            less when somebody has. 0 asks to stop until `resume`."""

        def much(self, fd: int) -> None:
            """A read of this descriptor was full: it brings much."""

        def ended(self, process: Process, exited_seq: int | None, closed_seq: int | None) -> None:
            """The leader was reaped, or the process closed, or both at once."""

        def stdin_moved(self, process: Process) -> None:
            """The stdin queue has room again, or stdin is closed."""


# The largest chunk. Of what is retained whole chunks are dropped, so it is an eighth of that.
WIDE_CHUNK = 128 << 10
SIGINT, SIGTERM = 2, 15
DESCRIPTORS = 4  # that a command holds: stdout, stderr, its pidfd, and stdin or what its shell reports
_SIGNALS = 64  # on Linux
_KILLED = 128 + 9  # the exit code of who was killed, and of a shell whose command was
# How much of what is already in the pipes is delivered before `exited`; the rest follows after it.
_EXIT_DRAIN = 1 << 20
# How long `closed` waits, after a terminate, for the pipes to end: somebody we could not kill may hold them,
# or the peer may not take what is in them.
_LINGER_SECONDS = 1.0
# How long the end of a command in a sandbox waits for what those that it left behind print: they are killed
# at that moment. What its output says about the sandbox goes with the news of its end.
_LATE_SECONDS = 0.02
# How often a terminal that its leader has closed is looked at again.
_TERMINAL_SECONDS = 0.1
_EOT = b"\x04"  # end of file as typed at a terminal


class Process:
    """A started command. `pid` leads its session; `mark` is what its descendants carry."""

    __slots__ = (
        "_discarded",
        "_done",
        "_fds",
        "_grace",
        "_held_to_the_end",
        "_late",
        "_left",
        "_linger",
        "_loop",
        "_owner",
        "_paused",
        "_pidfd",
        "_queue",
        "_set_back",
        "_stdin",
        "_streams",
        "_terminated",
        "_trees",
        "_widened",
        "_writing",
        "argv0",
        "cwd",
        "killed_by",
        "log",
        "mark",
        "pid",
        "process_id",
        "sandboxed",
        "started_ms",
        "tty",
        "writes",
    )

    def __init__(
        self,
        process_id: str,
        launch: Launch,
        mark: int,
        *,
        loop: Loop,
        spawner: Spawner,
        trees: Trees,
        owner: Owner,
        budget: Budget,
        started_ms: int,
    ) -> None:
        """Starts the command. Raises LaunchFailed, MasksUnavailable, SandboxUnavailable, InvalidParams,
        leaving nothing behind."""
        self.process_id = process_id
        self.argv0 = launch.argv[0]
        self.cwd = launch.cwd
        self.tty = launch.tty
        self.sandboxed = launch.sandboxed
        self.mark = mark
        self.started_ms = started_ms
        self.killed_by: int | None = None  # the signal that has ended the leader
        self.writes: WriteIds | None = None  # made at the first write: most commands get none
        self._loop = loop
        self._trees = trees
        self._owner = owner
        self._queue: StdinQueue | None = None
        self._writing = False
        self._paused = False
        self._set_back = -1  # the descriptor of which the loop knows that it can wait
        self._held_to_the_end = False
        self._terminated = False
        self._discarded = False
        self._widened: bool | None = None  # not tried yet
        self._done: list[int] = []  # descriptors to be closed after the next report
        self._left = False  # nobody has the terminal, which is looked at again in a moment
        self._linger: Timer | None = None
        self._late: Timer | None = None  # the leader has ended, and its last output is awaited
        self._grace: tuple[float, Timer] | None = None  # when SIGKILL follows SIGTERM
        if launch.tty:
            self._start_on_terminal(launch, spawner)
        else:
            self._start_on_pipes(launch, spawner)
        self.log = OutputLog(len(self._fds), budget)
        self._pidfd = -1
        try:
            self._pidfd = watch_exit(self.pid)
            for number, fd in enumerate(self._fds):
                loop.add_reader(fd, self._readable, number)
            loop.add_reader(self._pidfd, self._leader_ended)
        except OSError as error:
            # Nobody would hear of it: it must not run.
            trees.kill(self.pid, mark, reaped=False)
            waitpid(self.pid, 0)
            ends = {*self._fds, self._stdin, self._pidfd} - {-1}
            for fd in ends:
                loop.remove_reader(fd)
            raise _no_descriptors(error, list(ends)) from None

    # Starting

    def _start_on_pipes(self, launch: Launch, spawner: Spawner) -> None:
        self._streams: tuple[bytes, ...] = (b"stdout", b"stderr")
        opened: list[int] = []
        try:
            opened += spawner.pipes.take()
            out_ours, out_theirs, err_ours, err_theirs = opened
            in_theirs = in_ours = -1
            if launch.pipe_stdin:
                in_theirs, in_ours = os.pipe()
                opened += (in_theirs, in_ours)
                os.set_blocking(in_ours, False)
            stdio = Stdio(in_theirs, out_theirs, err_theirs)
            self.pid = self._trees.spawn(spawner, launch, stdio, self.mark)
        except OSError as error:
            raise _no_descriptors(error, opened) from None
        except (LaunchFailed, Refused):
            let_go(*opened)
            raise
        let_go(out_theirs, err_theirs, in_theirs)
        self._fds = [out_ours, err_ours]
        self._stdin = in_ours

    def _start_on_terminal(self, launch: Launch, spawner: Spawner) -> None:
        from . import pty

        self._streams = (b"pty",)
        opened: list[int] = []
        try:
            ours, theirs, name = pty.open_terminal(launch.rows, launch.cols)
            opened += (ours, theirs)
            os.set_blocking(ours, False)
            # In a sandbox the command takes control of it, not what makes the sandbox.
            confined = launch.confinement is not None
            stdio = Stdio(theirs, theirs, theirs) if confined else Stdio(terminal=name)
            self.pid = self._trees.spawn(spawner, launch, stdio, self.mark)
        except OSError as error:
            raise _no_descriptors(error, opened) from None
        except (LaunchFailed, Refused):
            let_go(*opened)
            raise
        let_go(theirs)
        self._fds = [ours]
        self._stdin = ours

    # Output

    def _readable(self, number: int) -> None:
        size = self._owner.appetite(self)
        if not size:
            self.hold()
            return
        fd = self._fds[number]
        wide = size > READ_SIZE
        if wide and not self._widened:
            size = READ_SIZE
        try:
            data = os.read(fd, size)
        except BlockingIOError:
            return
        except OSError:  # EIO: the last holder of the terminal's other end is gone
            data = b""
        if data:
            if len(data) == size and fd != self._set_back:
                # A command that prints much comes after whoever wants something.
                self._set_back = fd
                self._owner.much(fd)
            if wide and self._widened is None and len(data) == READ_SIZE:
                self._widen(fd)
            if not self._owner.output(self, self._record(number, data)):
                self.hold()
        elif self.tty and not self.exited and self._late is None:
            self._terminal_left(fd)
        else:
            self._end_stream(number)
            # Most often it ends with its output: then all is told at once.
            if self._pidfd < 0 or (self.sandboxed and self._talking) or not self._reap():
                self._report(None)

    def _record(self, number: int, data: bytes) -> list[Chunk]:
        """Puts what was read into the log, in chunks of `WIDE_CHUNK` at most."""
        append, stream = self.log.append, self._streams[number]
        if len(data) <= READ_SIZE:
            return [append(stream, data)]
        view = memoryview(data)  # to copy each part costs as much as to read it
        size = READ_SIZE if self.log.crowded else WIDE_CHUNK
        return [append(stream, view[at : at + size]) for at in range(0, len(data), size)]

    def remark(self, data: bytes) -> None:
        """Ours, not the command's: on its stderr or terminal, in front of all that it says from now on."""
        if not self._owner.output(self, [self.log.append(self._streams[-1], data)]):
            self.hold()

    def _widen(self, fd: int) -> None:
        """A command that fills its pipe gets a wider one: far fewer switches between it and us.

        Not from the start: the kernel grants each user only so many pages of pipes.
        """
        from .filecalls import widen_pipe

        self._widened = widen_pipe(fd, WIDE_READ_SIZE)

    def _terminal_left(self, fd: int) -> None:
        """Nobody has the terminal open, but the leader lives and may open it again.

        Closing our end would hang up on it.
        """
        self._loop.remove_reader(fd)
        if not self._left:  # else `resume` has looked before its time
            self._left = True
            self._loop.call_later(_TERMINAL_SECONDS, self._terminal_again)

    def _terminal_again(self) -> None:
        self._left = False
        # Also after the exit: somebody else may have opened it meanwhile, and prints or closes it later.
        if self._fds[0] >= 0 and not self._paused:
            self._loop.add_reader(self._fds[0], self._readable, 0)

    def _end_stream(self, number: int) -> None:
        fd = self._fds[number]
        self._fds[number] = -1
        self.log.end_stream()
        if fd == self._stdin:
            self._loop.remove_reader(fd)
            self._close_stdin()
        else:
            self._done.append(fd)

    def hold(self, *, to_the_end: bool = True) -> None:
        """Reads no more output until `resume`; the command waits when its pipe is full.

        With `to_the_end=False`, what is in the pipes when it exits is read all the same.
        """
        self._held_to_the_end = to_the_end
        if self._paused:
            return
        self._paused = True
        for fd in self._fds:
            if fd >= 0:
                self._loop.remove_reader(fd)

    def resume(self) -> None:
        """Reads on after `hold`, or after `output` returned False."""
        if not self._paused:
            return
        self._paused = False
        self._set_back = -1
        for number, fd in enumerate(self._fds):
            if fd >= 0:
                self._loop.add_reader(fd, self._readable, number)

    # End

    @property
    def _talking(self) -> bool:
        """Whether more output may come."""
        return any(fd >= 0 for fd in self._fds)

    def _leader_ended(self) -> None:
        if self.sandboxed and not self._paused:
            self._drain()
            if self._talking and not self._paused:
                self._loop.remove_reader(self._pidfd)
                self._late = self._loop.call_later(_LATE_SECONDS, self._reap)
                self._report(None)  # closes what has ended
                return
        self._reap()

    def _reap(self) -> bool:
        """Whether the leader had ended; then it is reported."""
        try:
            pid, status = waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # an embedding application reaped it: the status is lost
            code = -1
        else:
            if pid == 0:
                return False
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                self.killed_by = -code
                code = 128 - code
        self._done.append(self._pidfd)
        self._pidfd = -1
        if self._late is not None:
            self._late.cancel()
            self._late = None
        if not (self._paused and self._held_to_the_end):
            self._drain()
        denied = self.sandboxed and self._denied(code)
        exited_seq = self.log.exit(code, denied=denied, reason=self._reason() if code == _KILLED else None)
        if self._stdin >= 0 and not self.tty:
            self._close_stdin()
        self._report(exited_seq)
        if self._terminated and not self.log.closed:
            self._linger = self._loop.call_later(_LINGER_SECONDS, self._abandon)
        return True

    def _reason(self) -> str | None:
        """Why the kernel has killed it, or the last one that it waited for; None if we did."""
        found = not self._terminated and self._trees.killed_for_memory(self.mark)
        return OUT_OF_MEMORY if found else None

    def _denied(self, code: int) -> bool:
        from ..core.denial import denied

        return denied(code, self.log.after(0))

    def _drain(self) -> None:
        """Takes what the command has printed already, so that it usually precedes `exited`."""
        taken = 0
        for number, fd in enumerate(self._fds):
            while fd >= 0 and taken < _EXIT_DRAIN:
                size = self._owner.appetite(self)
                if not size:
                    self.hold()
                    return
                try:
                    data = os.read(fd, size)
                except BlockingIOError:
                    break
                except OSError:
                    data = b""
                if not data:
                    self._end_stream(number)
                    break
                taken += len(data)
                if not self._owner.output(self, self._record(number, data)):
                    self.hold()
                    return

    def _abandon(self) -> None:
        """Closes a terminated command without the end of its pipes.

        Somebody we could not kill holds them, or nobody takes what is in them: `closed` waits for neither.
        """
        self._linger = None
        if self.closed:
            return
        for number, fd in enumerate(self._fds):
            if fd >= 0:
                self._end_stream(number)
        self._report(None)

    def discard(self, seconds: float) -> None:
        """Reaps a killed command and closes its descriptors, reporting nothing more; for a server's end."""
        self._discarded = True
        if self._linger is not None:
            self._linger.cancel()
        if self._grace is not None:
            self._grace[1].cancel()
        if self._late is not None:
            self._late.cancel()
        if self._pidfd >= 0:
            waiting = select.poll()
            waiting.register(self._pidfd, select.POLLIN)
            waiting.poll(seconds * 1000)
            try:
                waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pass
            self._loop.remove_reader(self._pidfd)
            let_go(self._pidfd)
            self._pidfd = -1
        if self._stdin >= 0 and self._stdin not in self._fds:
            self._loop.remove_writer(self._stdin)
            let_go(self._stdin)
        self._stdin = -1
        for number, fd in enumerate(self._fds):
            if fd >= 0:
                self._loop.remove_reader(fd)
                self._loop.remove_writer(fd)
                let_go(fd)
                self._fds[number] = -1

    def _report(self, exited_seq: int | None) -> None:
        closed_seq = self.log.close()
        if closed_seq is not None and self._linger is not None:
            self._linger.cancel()
            self._linger = None
        try:
            if exited_seq is not None or closed_seq is not None:
                self._owner.ended(self, exited_seq, closed_seq)
        finally:
            # Whoever waits for the news has it; now there is time to clean up. A fault in telling it must not
            # leave a descriptor behind that is ready for ever.
            if closed_seq is not None:
                self._trees.let_go(self.mark)
            for fd in self._done:
                self._loop.remove_reader(fd)
            let_go(*self._done)
            self._done.clear()

    # Control

    @property
    def exited(self) -> bool:
        return self.log.exited

    @property
    def ended_by(self) -> int | None:
        """The signal that has ended the command.

        A sandbox exits with 128 more for its command, which may also have exited with such a code by itself.
        """
        code = self.log.exit_code
        if self.killed_by is None and self.sandboxed and code is not None and 128 < code <= 128 + _SIGNALS:
            return code - 128
        return self.killed_by

    @property
    def principal(self) -> str:
        """On whose behalf it runs."""
        return self._owner.principal

    @property
    def closed(self) -> bool:
        return self.log.closed

    def interrupt(self) -> None:
        """SIGINT for the command's group; on a terminal, for the job in its foreground."""
        self.signal(SIGINT)

    def signal(self, number: int) -> None:
        """The same for any signal."""
        if self.closed or self._discarded:
            return
        group: int | None = None if self.exited else self.pid
        if self.tty and self._stdin >= 0:
            from . import pty

            foreground = pty.foreground_group(self._stdin)
            if foreground:
                kill_group(foreground, number)
                return
        if group is not None:
            self._signal_group(number)

    def _signal_group(self, number: int) -> None:
        """For the leader's group; in a sandbox, for that of the command inside."""
        sandbox = self._trees.sandbox(self.mark) if self.sandboxed else None
        if sandbox is None:
            kill_group(self.pid, number)
        else:
            sandbox.signal(number)

    def terminate(self, grace: float = 0.0) -> bool:
        """Ends the whole tree; True if the leader was still running.

        With `grace`, SIGTERM first and SIGKILL that many seconds later. After `closed` nothing is
        touched: what a finished command left running on purpose belongs to the session.
        """
        if self.closed or self._discarded:
            return False
        running = not self.exited
        if grace > 0 and running:
            self._signal_group(SIGTERM)
            self._give(grace)
            return True
        self._terminated = True
        self._trees.kill(self.pid, self.mark, reaped=self.exited)
        if self._paused:
            self.resume()
        if not running and self._linger is None:
            self._linger = self._loop.call_later(_LINGER_SECONDS, self._abandon)
        return running

    def _give(self, grace: float) -> None:
        """One timer for a process, however often it is asked for: the earliest end counts."""
        end = self._loop.time() + grace
        if self._grace is not None:
            if self._grace[0] <= end:
                return
            self._grace[1].cancel()
        self._grace = (end, self._loop.call_later(grace, self._grace_over))

    def _grace_over(self) -> None:
        """Kills what is left of the tree, also when the leader went quietly and the process closed."""
        self._grace = None
        if self.closed and not self._discarded:
            self._trees.kill(self.pid, self.mark, reaped=True)
        self.terminate()

    def go_on(self, lingers: bool, kill_at: float | None) -> None:
        """Is watched again by a server that has taken it over; its timers, too."""
        for number, fd in enumerate(self._fds):
            if fd >= 0 and not self._paused:
                self._loop.add_reader(fd, self._readable, number)
        if self._pidfd >= 0:
            self._loop.add_reader(self._pidfd, self._leader_ended)
        if self._queue and self._stdin >= 0:
            self._writing = True
            self._loop.add_writer(self._stdin, self._writable)
        if lingers:
            self._linger = self._loop.call_later(_LINGER_SECONDS, self._abandon)
        if kill_at is not None:
            self._give(max(0.0, kill_at - self._loop.time()))

    def resize(self, rows: int, cols: int) -> bool:
        """Sets the terminal's size; False when there is no terminal (any more)."""
        if not self.tty or self._stdin < 0:
            return False
        from . import pty

        pty.resize(self._stdin, rows, cols)
        return True

    # Stdin

    @property
    def stdin_open(self) -> bool:
        """Whether a write can still reach the command."""
        return self._stdin >= 0 and not self.exited and not (self._queue is not None and self._queue.eof)

    def stdin_has_room(self) -> bool:
        return self._queue is None or self._queue.has_room()

    def write(self, data: bytes, *, eof: bool = False) -> bool:
        """Queues bytes for stdin and writes what fits now. False when the command closed its end."""
        queue = self._queue
        if not queue and not eof and self._stdin >= 0:
            # Nothing waits: the usual case needs no queue.
            try:
                written = os.write(self._stdin, data)
            except OSError:
                written = 0  # full, or closed: the long way finds out which
            if written == len(data):
                self._owner.stdin_moved(self)
                return True
            data = data[written:]
        if queue is None:
            queue = self._queue = StdinQueue()
        queue.push(data)
        if eof and self.tty:
            queue.push(_EOT)
        elif eof:
            queue.eof = True
        if not self._writing:
            self._flush()
        return self._stdin >= 0 or eof

    def _flush(self) -> None:
        queue = self._queue
        assert queue is not None
        moved = False
        while queue:
            try:
                written = os.write(self._stdin, queue.head())
            except OSError as error:
                if isinstance(error, BlockingIOError) and not self._hung_up():
                    break
                # EPIPE: the command closed its stdin; EIO: nobody has the terminal
                queue.clear()
                moved = True
                if not self.tty:
                    self._close_stdin()
                break
            queue.advance(written)
            moved = True
        if queue and not self._writing:
            self._writing = True
            self._loop.add_writer(self._stdin, self._writable)
        elif not queue:
            if self._writing:
                self._writing = False
                if self._stdin >= 0:
                    self._loop.remove_writer(self._stdin)
            if queue.eof and self._stdin >= 0:
                self._close_stdin()
        if moved:
            self._owner.stdin_moved(self)

    def _hung_up(self) -> bool:
        """Whether nobody has the terminal. One that is full only says so here: a write would block as before,
        and the loop would call for one again and again."""
        if not self.tty:
            return False
        asked = select.poll()
        asked.register(self._stdin, 0)
        return bool(asked.poll(0))

    def _writable(self) -> None:
        if self._stdin >= 0:
            self._flush()

    def _close_stdin(self) -> None:
        fd = self._stdin
        if fd < 0:
            return
        if self._writing:
            self._writing = False
            self._loop.remove_writer(fd)
        self._stdin = -1
        if self._queue is not None:
            self._queue.clear()
            self._queue.eof = True
        let_go(fd)
        self._owner.stdin_moved(self)


def _no_descriptors(error: OSError, opened: list[int]) -> LaunchFailed:
    import errno

    let_go(*opened)
    number = error.errno or 0
    return LaunchFailed(
        f"{os.strerror(number)} (os error {number})",
        errno.errorcode.get(number),
        "cannot create a pipe or terminal for the command; the server may have reached its limit on open "
        "files",
    )
