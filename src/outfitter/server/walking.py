"""Walks of large trees, in processes of their own (`server.walker`).

A walk in a thread takes the interpreter from the loop for milliseconds at a time, which everybody else's
commands would feel. A small one is done before such a process could be asked. Everything here runs in
threads, and may block.
"""

from __future__ import annotations

import os
import select
import time

from ..core.launch import Launch
from ..errors import FileFailed, LaunchFailed
from ..host.facts import own_program
from ..host.pipes import let_go
from ..host.spawn import Stdio
from ..host.unix import Spawner, kill_watched, reap_watched, waitpid, watch_exit
from ..host.walk import PLAIN
from ..stdlib import allocate_lock
from .limits import WALK_SECONDS, WALKERS
from .seenfiles import within
from .walker import pieces_of, walk_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..host.sandbox.grounding import Bounds
    from ..protocol.filesystem import WalkParams

_SMALL = 2000  # names that a thread looks at in about 2 ms, before a process is asked
_GRACE_SECONDS = 5.0  # beyond the time of a walk, until its process counts as stuck
_READ_SIZE = 256 << 10


class Walkers:
    """The walking processes of one server: started when needed, ended by themselves."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self._idle: list[_Walker] = []
        self._count = 0
        self._lock = allocate_lock()

    def walk(self, params: WalkParams, bounds: Bounds | None = None) -> list[bytes]:
        """The result's JSON text, in pieces. Raises OSError, FileFailed."""
        sight = PLAIN if bounds is None else within(bounds)
        done = walk_for(params, sight, _SMALL)
        if not done.truncated or params.max_entries <= _SMALL:
            return pieces_of(done)
        request = params.text().encode() + b"\n"
        walker = self._take()
        while walker is not None:
            answer = walker.ask(request)
            if answer is not None:
                self._give_back(walker)
                kind, pieces = answer
                if kind == b"!":
                    name, _, text = b"".join(pieces).decode().partition(" ")
                    raise FileFailed(text, name or None)
                return pieces
            # It had ended while it waited, or something ended it: the next one is fresh.
            fresh = walker.fresh
            self._discard(walker)
            walker = None if fresh else self._take()
        return pieces_of(walk_for(params, sight))

    def _take(self) -> _Walker | None:
        """A process, or None when there are enough of them already."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._count >= WALKERS:
                return None
            self._count += 1
        try:
            return _Walker(self._env)
        except (OSError, LaunchFailed):
            with self._lock:
                self._count -= 1
            return None

    def _give_back(self, walker: _Walker) -> None:
        walker.fresh = False
        with self._lock:
            self._idle.append(walker)

    def _discard(self, walker: _Walker) -> None:
        walker.end()
        with self._lock:
            self._count -= 1


class _Walker:
    """One process and its pipes. It ends when they are closed."""

    def __init__(self, env: dict[str, str]) -> None:
        self.fresh = True  # nobody has asked it yet
        theirs, self._requests = os.pipe()
        try:
            self._answers, mine = os.pipe()
            try:
                self._pid = _started(env, theirs, mine)
                self._ending = _watched(self._pid)
            except BaseException:
                let_go(self._answers)
                raise
            finally:
                let_go(mine)
        except BaseException:
            let_go(self._requests)
            raise
        finally:
            let_go(theirs)

    def ask(self, request: bytes) -> tuple[bytes, list[bytes]] | None:
        """Its answer; None when it is gone or stuck."""
        deadline = time.monotonic() + WALK_SECONDS + _GRACE_SECONDS
        try:
            os.write(self._requests, request)
            head = b"".join(self._read(9, deadline))
            return head[:1], self._read(int.from_bytes(head[1:], "big"), deadline)
        except (OSError, EOFError):
            return None

    def _read(self, size: int, deadline: float) -> list[bytes]:
        pieces = []
        ready = select.poll()
        ready.register(self._answers, select.POLLIN)
        while size:
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise EOFError
            piece = os.read(self._answers, min(size, _READ_SIZE))
            if not piece:
                raise EOFError
            pieces.append(piece)
            size -= len(piece)
        return pieces

    def end(self) -> None:
        # By its descriptor: it may have ended long ago, and its number be another's.
        let_go(self._requests, self._answers)
        kill_watched(self._pid, self._ending)
        ended = select.poll()
        ended.register(self._ending, select.POLLIN)
        ended.poll()
        reap_watched(self._pid, self._ending)
        let_go(self._ending)


def _watched(pid: int) -> int:
    """The descriptor of a process that was just started. Raises OSError, and leaves none behind."""
    try:
        return watch_exit(pid)
    except OSError:
        os.kill(pid, 9)
        waitpid(pid, 0)
        raise


def _started(env: dict[str, str], requests: int, answers: int) -> int:
    """The process, as the user that commands have. A spawner of our own, since this is a thread."""
    argv = own_program("server.walker")
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        return Spawner().spawn(Launch(argv[0], argv, "/", env), Stdio(requests, answers, null))
    finally:
        let_go(null)
