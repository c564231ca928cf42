"""The audit log: who did what on a server, one JSON object per line.

Values of variables are never written, arguments only on request. The loop hands lines to a thread and never
waits for a disk: what does not fit is counted, and the log says how much is missing.
"""

from __future__ import annotations

import os
import select
import time
from stat import S_ISREG

from ..errors import SettingInvalid
from ..log import warn
from ..protocol.jsontext import dumps
from ..stdlib import SimpleQueue, allocate_lock, sha256, start_new_thread
from .observer import Observer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ..protocol.jsontext import Json
    from .observer import StartedCommand

_WAITING_BYTES = 4 << 20  # that wait for the disk: some ten seconds of a busy server
_LONGEST = 4096  # characters of one text; what is longer is cut, but its digest is that of the whole
_WORDS = 256  # of a command line that is written in full
_SESSION = 8  # characters of a session's id: enough to find it again, too few to resume it
_CLOSE_SECONDS = 2.0  # for a disk that does not take the last lines
_PIPE_SECONDS = 10.0  # for a pipe that is full: as long as lines can usually wait


class Audit(Observer):
    """An Observer that writes to `path` ("-" is standard error), commands by "digest" or in "full".

    Raises SettingInvalid when the file cannot be opened.
    """

    def __init__(self, path: str, commands: str = "digest") -> None:
        self._path = path
        self._full = commands == "full"
        self._torn = False  # it ends within a line
        self._fd = self._open()
        # As whom the file is opened again, if not as who we are by then.
        self.opener: Callable[[], AbstractContextManager[None]] | None = None
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = allocate_lock()  # for the next three
        self._waiting = 0
        self._lost = 0  # lines that were never written
        self._running = False  # the thread; it is started with the first line
        self._ended = allocate_lock()
        self._failing = False

    def _open(self) -> int:
        if self._path == "-":
            return 2
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        try:
            fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise SettingInvalid(f"cannot open --audit {self._path}: {error.strerror}") from None
        self._look_at_end(fd)
        return fd

    def _look_at_end(self, fd: int) -> None:
        """A full disk or a crash leaves half a line, in this process or the one before."""
        found = os.fstat(fd)
        if not S_ISREG(found.st_mode):
            return  # what was written to a pipe is in it still
        self._torn = False
        try:
            reading = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return  # a file that may only be written
        try:
            self._torn = os.pread(reading, 1, max(0, found.st_size - 1)) not in (b"", b"\n")
        except OSError:
            pass
        finally:
            os.close(reading)

    # What happens (Observer)

    def happened(self, event: str, principal: str, peer: str, session: str, **facts: Json) -> None:
        now = time.time()
        told = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z",
            "event": event,
            "principal": principal or None,
            "peer": peer or None,
            "session": session[:_SESSION] or None,
            **{name: _cut(value) for name, value in facts.items()},
        }
        self._put(dumps(told).encode() + b"\n")

    def started(self, begun: StartedCommand) -> None:
        # No argument has a NUL in it, so two command lines are never the same text.
        digest = sha256("\0".join(begun.argv).encode("utf-8", "surrogatepass")).hexdigest()
        facts: dict[str, Json] = {"program": os.path.basename(begun.argv[0]), "sha256": digest}
        if self._full:
            words = [_cut(word) for word in begun.argv[:_WORDS]]
            facts.update(argv=words if len(begun.argv) <= _WORDS else [*words, "…"], cwd=begun.cwd)
        process = {"process": begun.process.process_id, "pid": begun.process.pid}
        self.happened("command-started", begun.principal, begun.peer, begun.session, **process, **facts)

    # The way to the disk

    def _put(self, line: bytes | None) -> None:
        """Hands a line to the thread; b"" has it open the file again, None has it end."""
        with self._lock:
            if line and self._waiting > _WAITING_BYTES:
                self._lost += 1
                return
            if not self._running:
                try:
                    start_new_thread(self._write_all, ())
                except RuntimeError:  # the machine has no room for a thread now
                    self._lost += 1 if line else 0
                    return
                self._running = True
                self._ended.acquire()
            self._waiting += len(line or b"")
            self._queue.put(line)

    def _write_all(self) -> None:
        ending = False
        try:
            while not (ending and self._is_done()):
                line = self._queue.get()
                if line == b"":
                    self._open_again()
                    continue
                ending = ending or line is None
                with self._lock:
                    self._waiting -= len(line or b"")
                    lost, self._lost = self._lost, 0
                if not self._write(self._missing(lost) + (line or b"")):
                    with self._lock:
                        self._lost += lost + (1 if line else 0)
        except BaseException:
            with self._lock:
                self._running = False  # whatever comes now starts another
            raise
        finally:
            self._ended.release()

    def _is_done(self) -> bool:
        """Whether nothing has come since it was told to end; then whatever comes starts another thread."""
        with self._lock:
            self._running = not self._queue.empty()
            return not self._running

    @staticmethod
    def _missing(lost: int) -> bytes:
        return dumps({"event": "audit-lost", "lines": lost}).encode() + b"\n" if lost else b""

    def _write(self, data: bytes) -> bool:
        """Whether all of it is there. A disk that is full is told about once, until it is not."""
        rest = b"\n" + data if data and self._torn else data
        try:
            while rest:
                try:
                    written = os.write(self._fd, rest)
                except BlockingIOError:
                    if self._failing or not self._has_room():
                        raise
                    continue
                self._torn = written < len(rest)
                rest = rest[written:]
        except OSError as error:
            if not self._failing:
                self._failing = True
                warn(
                    "server",
                    "the audit log %s cannot be written: %s; the server goes on, and the log will say how "
                    "many lines are missing",
                    self._path,
                    error.strerror,
                )
            return False
        self._failing = False
        return True

    def _has_room(self) -> bool:
        """Waits until somebody has read from a pipe that is full, or has closed it."""
        taken = select.poll()
        taken.register(self._fd, select.POLLOUT)
        return bool(taken.poll(_PIPE_SECONDS * 1000))

    def _open_again(self) -> None:
        try:
            if self.opener is None:
                fd = self._open()
            else:
                with self.opener():
                    fd = self._open()
        except SettingInvalid as error:
            warn("server", "%s; the audit log goes on in the file that was open", error)
            return
        if fd != self._fd:
            os.close(self._fd)
        self._fd, self._failing = fd, False

    # From the server

    def reopen(self) -> None:
        """Goes on in the file that has the name now: for whoever rotates logs."""
        self._put(b"")

    def flush(self) -> None:
        """Writes what waits, as far as the disk takes it in time. If something comes later, it goes on."""
        with self._lock:
            wanted = self._running or self._lost
        if wanted:
            self._put(None)
            if self._ended.acquire(timeout=_CLOSE_SECONDS):
                self._ended.release()


def _cut(value: Json) -> Json:
    return f"{value[:_LONGEST]}…" if isinstance(value, str) and len(value) > _LONGEST else value
