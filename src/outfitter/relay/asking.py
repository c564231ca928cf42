"""The store, asked in a thread of its own: a slow disk or database holds up no stream."""

from __future__ import annotations

from ..errors import OutfitterError
from ..log import fault, warn
from ..stdlib import SimpleQueue, allocate_lock, start_new_thread
from .authority import NotGranted
from .limits import OTHER_STORE_SECONDS, QUEUED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..loop import Loop, Timer

    Done = Callable[[Any, Exception | None], None]

_SETTLE_SECONDS = 5.0  # for the store, at the end


class StoreSlow(OutfitterError):
    """The store has not answered in time, or too many wait for it."""

    slug = "registry-refused"


class _Question:
    """Answered once: by the store, or by the clock."""

    def __init__(self, work: Callable[[], Any], done: Done) -> None:
        self.work = work
        self.done: Done | None = done
        self.late: Timer | None = None

    def answer(self, result: Any, error: Exception | None) -> bool:
        """Whether somebody still waited for it."""
        done, self.done = self.done, None
        if self.late is not None:
            self.late.cancel()
        if done is None:
            return False
        done(result, error)
        return True


class StoreThread:
    """Calls that block, one after the other in a thread, and their results on the loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._queue: SimpleQueue[_Question | None] = SimpleQueue()
        self._begun = False
        self._ended = allocate_lock()
        self.slow = ""  # what is wrong with the store now, for people

    def __len__(self) -> int:
        """How many wait."""
        return self._queue.qsize()

    def ask(self, work: Callable[[], Any], done: Done, seconds: float = OTHER_STORE_SECONDS) -> None:
        """`done` gets what `work` returns or raises, or StoreSlow after so many seconds; nobody does the work
        of a question that was given up."""
        question = self._put(work, done)
        if question is not None:
            question.late = self._loop.call_later(seconds, self._give_up, question, seconds)

    def tell(self, work: Callable[[], Any], done: Done) -> None:
        """The same for what has to be done in any case."""
        self._put(work, done)

    def _put(self, work: Callable[[], Any], done: Done) -> _Question | None:
        if not self._begun:
            self._begun = True
            self._ended.acquire()
            start_new_thread(self._serve, ())
        if self._queue.qsize() >= QUEUED:
            self._loop.call_soon(done, None, StoreSlow("too many questions wait for the store"))
            return None
        question = _Question(work, done)
        self._queue.put(question)
        return question

    def _give_up(self, question: _Question, seconds: float) -> None:
        if not self.slow:
            self.slow = f"the store has not answered for {seconds:g} s"
            warn("relay", "%s: requests get 503, streams go on", self.slow)
        question.answer(None, StoreSlow(self.slow))

    def stop(self) -> None:
        """Returns when all that was asked is done, or takes too long."""
        self._queue.put(None)
        if self._begun:
            self._ended.acquire(timeout=_SETTLE_SECONDS)

    def _serve(self) -> None:
        try:
            self._answer_all()
        finally:
            self._ended.release()

    def _answer_all(self) -> None:
        while (question := self._queue.get()) is not None:
            if question.done is None:
                continue  # it was given up
            result: Any = None
            error: Exception | None = None
            try:
                result = question.work()
            except NotGranted as refusal:
                error = refusal
            except Exception as caught:
                fault("relay", "the store failed", caught)
                error = caught
            self._loop.call_soon_threadsafe(self._answered, question, result, error)

    def _answered(self, question: _Question, result: Any, error: Exception | None) -> None:
        if question.answer(result, error):
            self.slow = ""
