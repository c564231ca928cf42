"""Questions to providers: asked in a thread, once for all who wait, while everything else goes on.

A request that needs an answer first is set aside and handled again when it is there; what comes meanwhile for
the same process waits behind it, so that nothing overtakes a start.
"""

from __future__ import annotations

from ..core.marks import NO_SESSION
from ..core.quotas import Quota
from ..core.shares import Shares
from ..protocol.wishes import WaitingNotice
from ..refusals import Refused
from ..stdlib import allocate_lock
from .limits import FIRST_NEWS_SECONDS, MATCHING, MATCHING_TOTAL, QUESTIONS, QUESTIONS_TOTAL, SET_ASIDE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..contract.contract import Questions
    from ..host.workers import Workers
    from ..loop import Loop
    from .session import Session
    from .sessions import Sessions

    Then = Callable[[BaseException | None], None]
    Owner = tuple[str, int]  # a principal, and the number of its session

    class Asker(Protocol):
        """What is needed of a call."""

        @property
        def open(self) -> bool: ...
        @property
        def size(self) -> int: ...
        @property
        def session(self) -> Session: ...
        @property
        def principal(self) -> str: ...
        def later(self, cancel: Callable[[], None] | None = None) -> object: ...
        def refuse(self, error: BaseException) -> None: ...
        def tell(self, notice: WaitingNotice) -> None: ...


class Asking:
    """What is being asked for all connections of a server."""

    def __init__(self, loop: Loop, sessions: Sessions, workers: Workers) -> None:
        self._loop = loop
        self._sessions = sessions
        self._workers = workers
        self._turns = Shares(QUESTIONS_TOTAL, QUESTIONS, sessions.sharing)
        self._matching = Shares(MATCHING_TOTAL, MATCHING, sessions.sharing)
        self._waiting: dict[object, _Question] = {}
        self._bytes = Quota(SET_ASIDE_BYTES, sessions.sharing)  # of what was set aside

    def first(
        self,
        call: Asker,
        questions: Questions,
        again: Callable[[], None],
        process_id: str | None = None,
        *,
        tell: str | None = None,
    ) -> None:
        """Asks, then handles the request `again`. `process_id` is the process that it will start.

        `tell`: the client is told under this name, now and then, what it waits for.
        """
        # Before the first command, too: what is asked ends with the server, however that ends.
        self._sessions.watchdog.ensure()
        then = self._set_aside(call, again, process_id, tell, questions.what)
        self._ask(questions, then, (call.principal, call.session.number))
        call.later(lambda: self._unask(questions, then))

    def beside(
        self,
        call: Asker,
        work: Callable[[], Any],
        use: Callable[[Any], None],
        process_id: str,
        *,
        tell: str | None,
        what: str,
    ) -> None:
        """Does in a thread what a start needs and takes seconds at most, then calls `use` with what came of
        it. It is not begun for a client that has gone."""
        found: list[Any] = []
        then = self._set_aside(call, lambda: use(found[0]), process_id, tell, what)
        owner = (call.principal, call.session.number)

        def done(result: Any, failure: BaseException | None) -> None:
            self._matching.done(owner)
            found.append(result)
            then(failure)

        self._matching.add(owner, lambda: self._workers.run(lambda: work() if call.open else None, done))

    def _set_aside(
        self, call: Asker, again: Callable[[], None], process_id: str | None, tell: str | None, what: str
    ) -> Then:
        """What to call when the request can be handled. Until then its process's id is taken. Raises Refused
        where too much waits."""
        principal, size = call.principal, call.size
        if not self._bytes.allows(principal, size):
            raise Refused(
                "too many requests wait for the environments of projects; wait for their answers first"
            )
        call.later()
        self._bytes.take(principal, size)
        session = call.session
        starting = session.starting
        if process_id is not None:
            starting[process_id] = []
        news = None if tell is None else _News(self._loop, call, WaitingNotice(tell, what))

        def then(failure: BaseException | None) -> None:
            self._bytes.give(principal, size)
            if news is not None:
                news.over = True
            held = [] if process_id is None else starting.pop(process_id, [])
            if not call.open:
                pass  # nobody waits for an answer: what was to be started is not
            elif failure is not None:
                call.refuse(failure)
            else:
                again()
            for place, one in enumerate(held):
                if process_id in starting:
                    starting[process_id] += held[place:]  # the start waits for something else now
                    return
                one()
            if session.left and session.idle:
                self._sessions.settled(session)  # it was kept for no more than this

        return then

    def _ask(self, questions: Questions, then: Then, owner: Owner) -> None:
        question = self._waiting.get(questions.key)
        if question is None:
            question = self._waiting[questions.key] = _Question()
        question.thens.append(then)
        if question.begun or owner in question.turns:
            return  # somebody asks just that

        def begin() -> None:
            if question.begun:  # when it was another's turn
                self._loop.call_soon(self._turns.done, owner)
                return
            question.begun = True
            # Of no session: who asked first may go while others still wait.
            mark = self._sessions.marks.new(NO_SESSION)
            self._attend(lambda: questions.ask(mark), done, owner)

        def done(_: None, failure: BaseException | None) -> None:
            for one in self._waiting.pop(questions.key).thens:
                one(failure)

        # Each has its own turn: who has much to ask may be far from it.
        question.turns[owner] = begin
        self._turns.add(owner, begin)

    def _unask(self, questions: Questions, then: Then) -> None:
        """A client that waits has gone: what nobody waits for is not asked, if it has not begun."""
        question = self._waiting.get(questions.key)
        if question is None or question.begun or then not in question.thens:
            return
        question.thens.remove(then)
        if not question.thens:
            del self._waiting[questions.key]
            for owner, begin in question.turns.items():
                self._turns.drop(owner, begin)
        then(None)

    def attended(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None], owner: Owner
    ) -> None:
        """Runs in a thread what waits for children of its own, when it is the turn of session `owner`."""
        self._turns.add(owner, lambda: self._attend(work, done, owner))

    def _attend(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None], owner: Owner
    ) -> None:
        sessions = self._sessions
        ended = allocate_lock()
        ended.acquire()
        sessions.other_begins(ended)

        def run() -> Any:
            try:
                return work()
            finally:
                ended.release()

        def over(result: Any, failure: BaseException | None) -> None:
            sessions.other_ended(ended)
            self._turns.done(owner)
            done(result, failure)

        self._workers.run(run, over)


class _Question:
    """What is asked once for all who wait: `thens` are theirs, and `turns` what begins it, by owner."""

    __slots__ = ("begun", "thens", "turns")

    def __init__(self) -> None:
        self.begun = False
        self.thens: list[Then] = []
        self.turns: dict[Owner, Callable[[], None]] = {}


class _News:
    """Tells a client what it waits for: soon, and then less and less often."""

    def __init__(self, loop: Loop, call: Asker, notice: WaitingNotice) -> None:
        self.over = False
        self._loop = loop
        self._call = call
        self._notice = notice
        self._seconds = FIRST_NEWS_SECONDS
        self._next()

    def _next(self) -> None:
        self._loop.call_later(self._seconds, self._tell)

    def _tell(self) -> None:
        if self.over or not self._call.open:
            return
        self._call.tell(self._notice)
        self._seconds *= 2
        self._next()
