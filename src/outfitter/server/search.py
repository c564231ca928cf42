"""The searches of one connection, each a process of its own (`server.searcher`).

What it is asked and what it answers are files in memory: nothing has to be fed or read while it runs, and
its end is all there is to wait for.
"""

from __future__ import annotations

import errno
import os
import sys
from collections import deque

from ..core.launch import Launch
from ..errors import FileFailed, HostUnsupported, OutfitterError, Refused
from ..host.facts import own_program
from ..host.files import failed
from ..host.memoryfiles import memory_file
from ..host.pipes import let_go
from ..host.spawn import Stdio
from ..host.unix import kill_watched, reap_watched, waitpid, watch_exit
from ..log import warn
from ..protocol.results import Written
from .limits import SEARCH_GRACE_SECONDS, SEARCHES, WAITING_SEARCHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Timer
    from ..protocol.search import SearchParams
    from .call import Call, Channel
    from .services import Services

    Over = Callable[["_Search", bytes, BaseException | None], None]

DESCRIPTORS = 3  # that a search holds: its answer, its complaints, its pidfd
_STDERR_SHOWN = 2000  # bytes of a failure in the log


class Searches:
    """At most `SEARCHES` run at a time; the others wait in the order they came."""

    def __init__(self, channel: Channel, services: Services) -> None:
        self._services = services
        self._room = services.searching
        self.principal = channel.principal
        self._running: set[_Search] = set()
        self._waiting: deque[tuple[Call, SearchParams]] = deque()
        self._gone = False

    def begin(self, call: Call, params: SearchParams) -> None:
        if self._gone:
            return
        if len(self._waiting) >= WAITING_SEARCHES:
            call.refuse(
                Refused(
                    f"{WAITING_SEARCHES} searches of this connection are waiting already; wait for one of "
                    f"them first (at most {SEARCHES} of a connection run at a time)"
                )
            )
            return
        self._waiting.append((call, params))
        self.start()

    def start(self) -> None:
        """Begins as many of those that wait as there is room for."""
        while self._waiting and len(self._running) < SEARCHES and self._room.enter(self):
            call, params = self._waiting.popleft()
            try:
                self._running.add(_Search(self._services, call, params, self._ended))
            except (OSError, OutfitterError) as error:
                call.refuse(failed(error) if isinstance(error, OSError) else error)
                self._room.leave(self.principal)

    def _ended(self, search: _Search, answer: bytes, failure: BaseException | None) -> None:
        self._running.discard(search)
        if not self._gone:
            search.call.done(None if failure is not None else Written([answer]), failure)
        self._room.leave(self.principal)
        self.start()

    def drained(self) -> None:
        pass

    def lost(self) -> None:
        self._gone = True
        self._waiting.clear()
        self._room.forget(self)
        for search in self._running:
            search.kill()


class _Search:
    """One that runs. Raises LaunchFailed, HostUnsupported, OSError."""

    def __init__(self, services: Services, call: Call, params: SearchParams, over: Over) -> None:
        self.call = call
        self._over = over
        self._loop = services.loop
        if not sys.executable:
            raise HostUnsupported("searching needs the server's Python interpreter, whose path is unknown")
        self._descriptors = services.sessions.descriptors
        self._principal = call.principal
        self._descriptors.take(DESCRIPTORS, self._principal)
        files: list[int] = []
        pid = 0
        try:
            for name in ("query", "answer", "complaint"):
                files.append(memory_file(name))
            query = params.text().encode()
            if os.pwrite(files[0], query, 0) != len(query):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            env = services.environments.for_file_work(services.own_files)
            launch = Launch(sys.executable, own_program("server.searcher"), "/", env)
            pid = services.sessions.spawner.spawn(launch, Stdio(files[0], files[1], files[2]))
            self._pidfd = watch_exit(pid)
        except BaseException:
            if pid:  # nobody would hear of its end
                os.kill(pid, 9)
                waitpid(pid, 0)
            let_go(*files)
            self._descriptors.give_back(DESCRIPTORS, self._principal)
            raise
        self._pid = pid
        let_go(files[0])
        self._answer, self._complaint = files[1:]
        self._killed = False
        seconds = params.timeout_ms / 1000 + SEARCH_GRACE_SECONDS
        self._deadline: Timer = self._loop.call_later(seconds, self.kill)
        self._loop.add_reader(self._pidfd, self._ended)

    @property
    def principal(self) -> str:
        """Who has asked."""
        return self.call.principal

    def kill(self) -> None:
        self._killed = True
        kill_watched(self._pid, self._pidfd)

    def _ended(self) -> None:
        if not reap_watched(self._pid, self._pidfd):
            return
        self._deadline.cancel()
        self._loop.remove_reader(self._pidfd)
        answer = b""
        failure: BaseException | None
        try:
            answer = _content(self._answer)
            failure = self._failure(answer)
        except (OSError, MemoryError) as error:
            failure = error
        let_go(self._pidfd, self._answer, self._complaint)
        self._descriptors.give_back(DESCRIPTORS, self._principal)
        self._over(self, answer[1:], failure)

    def _failure(self, answer: bytes) -> BaseException | None:
        text = answer[1:].decode("utf-8", "replace") if answer[:1] != b"+" else ""
        match answer[:1]:
            case b"+":
                return None
            case b"-":
                return Refused(text)
            case b"!":
                name, _, message = text.partition(" ")
                return FileFailed(message, name or None)
        if self._killed:
            return FileFailed("the search did not finish in time")
        warn(
            "server",
            "a search failed: %s",
            _content(self._complaint)[-_STDERR_SHOWN:].decode("utf-8", "replace"),
        )
        return FileFailed("the search failed")


def _content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)
