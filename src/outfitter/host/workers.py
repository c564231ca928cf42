"""Threads for calls that may block, and their results back on the loop.

The server itself is one thread. What may wait for a disk goes through here: `run` returns at once, and
`done` is called on the loop when the work is over. Threads are started when they are needed and end when
they have been idle for a while. A call that never returns costs its thread and nothing else; when so
many do that no thread is left, the next ones wait.
"""

from __future__ import annotations

import errno

from ..log import warn
from ..stdlib import Empty, SimpleQueue, allocate_lock, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..loop import Loop

    # The result is whatever the work returns; `done` knows.
    Work = Callable[[], Any]
    Done = Callable[[Any, BaseException | None], None]

THREADS = 64  # a stuck network file system takes one per request; a disk is busy with far fewer
_BEGIN_SECONDS = 1.0  # then a thread that was started has begun, or never will
_IDLE_SECONDS = 10.0  # then a thread ends: most servers do file work in bursts


class Workers:
    """A pool of threads that report to one loop."""

    def __init__(self, loop: Loop, threads: int = THREADS) -> None:
        self._loop = loop
        self._limit = threads
        self._queue: SimpleQueue[tuple[Work, Done]] = SimpleQueue()
        self._threads = 0
        self._idle = 0  # threads that wait for work, less the work that waits for them
        self._started = self._begun = 0  # threads, as the kernel and as they themselves say
        self._lock = allocate_lock()

    @property
    def busy(self) -> bool:
        """Whether any work is under way or waits."""
        return self._threads > self._idle

    def run(self, work: Work, done: Done) -> None:
        """Calls `work` in a thread, then `done` with its result or exception on the loop."""
        with self._lock:
            self._idle -= 1
            if self._idle < 0 and self._threads < self._limit:
                try:
                    start_new_thread(self._serve, ())
                    self._threads += 1
                    self._idle += 1
                    self._started += 1
                    self._loop.call_later(_BEGIN_SECONDS, self._look)
                except RuntimeError:
                    # The machine has none to give. Those that there are will do it, or nobody.
                    if not self._threads:
                        self._idle += 1
                        self._loop.call_soon_threadsafe(done, None, OSError(errno.EAGAIN, "no thread"))
                        return
        self._queue.put((work, done))

    def _look(self) -> None:
        """A thread for which there was no memory ends before it begins, without a word: others replace it."""
        with self._lock:
            missing = self._started - self._begun
            self._started -= missing
            self._threads -= missing
            self._idle -= missing
            waiting = min(missing, self._queue.qsize())
        if missing > 0:
            warn("server", "%d threads could not begin: no memory", missing)
        for _ in range(waiting):
            self.run(_nothing, _nobody)  # which starts a thread, and what waits comes first

    def _serve(self) -> None:
        with self._lock:
            self._begun += 1
        while True:
            try:
                work, done = self._queue.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle > 0:  # else work for this thread is on its way
                        self._threads -= 1
                        self._idle -= 1
                        return
                continue
            result: Any = None
            failure: BaseException | None = None
            try:
                result = work()
            except BaseException as error:
                failure = error
            with self._lock:
                self._idle += 1
            try:
                self._loop.call_soon_threadsafe(done, result, failure)
            except (RuntimeError, ValueError):
                return  # a loop that was closed meanwhile: asyncio's, ours
            del work, done, result, failure


def _nothing() -> None:
    """Work that is none."""


def _nobody(_: object, __: BaseException | None) -> None:
    """Nobody waits for it."""
