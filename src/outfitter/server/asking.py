"""Questions to providers: asked in a thread, once for all who wait, while everything else goes on.

A request that needs an answer first is set aside and handled again when it is there; what comes meanwhile for
the same process waits behind it, so that nothing overtakes a start.
"""

from __future__ import annotations

from _thread import allocate_lock

from ..core.marks import NO_SESSION
from ..errors import OutfitterError
from ..log import warn
from ..protocol import codes, jsonrpc
from ..protocol.environment import WaitingNotice
from .limits import FIRST_NEWS_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..contract.contract import Questions
    from ..loop import Loop
    from ..protocol.jsonrpc import Request
    from .connection import Connection
    from .server import Server

    Then = Callable[[BaseException | None], None]


class Asking:
    """What is being asked for all connections of a server."""

    def __init__(self, server: Server, loop: Loop) -> None:
        self._server = server
        self._loop = loop
        self._waiting: dict[object, list[Then]] = {}

    def first(
        self,
        connection: Connection,
        request: Request,
        questions: Questions,
        process_id: str | None = None,
        *,
        tell: str | None = None,
    ) -> None:
        """Asks, then handles the request again. `process_id` is the process that it will start.

        `tell`: the client is told under this name, now and then, what it waits for.
        """
        from .dispatch import dispatch

        # Before the first command, too: what is asked ends with the server, however that ends.
        self._server.sessions.watchdog.ensure()
        connection.peer.wait(request.id)
        session = connection.session
        assert session is not None, "the handshake guarantees a session"
        if process_id is not None:
            session.starting[process_id] = []

        if tell is not None:
            news = _News(self._loop, connection, tell, questions.what)

        def then(failure: BaseException | None) -> None:
            if tell is not None:
                news.over = True
            held = [] if process_id is None else session.starting.pop(process_id, [])
            if connection not in self._server.connections:
                return  # nobody waits for an answer: what was to be started is not
            for one in (request, *held):
                connection.peer.answered(one.id)
                answer = _refused(one, failure) if one is request and failure else dispatch(connection, one)
                if answer is not None:
                    connection.reply(answer)

        self._ask(questions, then)

    def _ask(self, questions: Questions, then: Then) -> None:
        waiting = self._waiting.get(questions.key)
        if waiting is not None:
            waiting.append(then)  # somebody asks just that
            return
        self._waiting[questions.key] = [then]
        sessions = self._server.sessions
        ended = allocate_lock()
        ended.acquire()
        sessions.other_begins(ended)
        # Of no session: who asked first may go while others still wait.
        mark = sessions.marks.new(NO_SESSION)

        def work() -> None:
            try:
                questions.ask(mark)
            finally:
                ended.release()

        def done(result: None, failure: BaseException | None) -> None:
            sessions.other_ended(ended)
            for one in self._waiting.pop(questions.key):
                one(failure)

        self._server.workers.run(work, done)


class _News:
    """Tells a client what it waits for: soon, and then less and less often."""

    def __init__(self, loop: Loop, connection: Connection, name: str, what: str) -> None:
        self.over = False
        self._loop = loop
        self._connection = connection
        self._name = name
        self._what = what
        self._seconds = FIRST_NEWS_SECONDS
        self._next()

    def _next(self) -> None:
        self._loop.call_later(self._seconds, self._tell)

    def _tell(self) -> None:
        connection = self._connection
        if self.over or connection not in connection.server.connections:
            return
        notice = WaitingNotice(self._name, self._what)
        connection.push(jsonrpc.notice("environment/waiting", notice.encode()))
        self._seconds *= 2
        self._next()


def hold(connection: Connection, request: Request, process_id: str) -> bool:
    """Whether a request waits for the start of its process; it is handled when that is over."""
    session = connection.session
    if session is None or process_id not in session.starting:
        return False
    connection.peer.wait(request.id)
    session.starting[process_id].append(request)
    return True


def _refused(request: Request, failure: BaseException) -> bytes:
    if isinstance(failure, OutfitterError):
        return jsonrpc.error(request.id, *codes.of(failure))
    # Its text may be sensitive.
    warn("server", "%s failed: %s", request.method, type(failure).__name__)
    return jsonrpc.error(request.id, codes.INTERNAL, "internal error", {"error": "internal-error"})
