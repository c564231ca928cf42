"""Accepts connections: the request head, and what becomes of it. `websocket` has those that were admitted."""

from __future__ import annotations

import os
import time

from ..log import fault, warn
from ..protocol.upgrade import MAX_HEAD, Response, answer
from ..stdlib import socket
from .attempts import Attempts
from .caller import SocketCaller
from .sockets import HandshakeFailed, accept, socket_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..loop import EpollLoop, Loop, Timer
    from ..protocol.upgrade import Admitted, Gate
    from ..protocol.websocket import Payload
    from .sockets import Stream
    from .websocket import WebSocketTransport

    class Shares(Protocol):
        """How principals share what there is: `core.quotas.Sharing`."""

        @property
        def several(self) -> bool: ...
        def seen(self, principal: str) -> None: ...
        def allows(self, limit: int, held: int, mine: int, amount: int = 1) -> bool: ...


# What unfinished messages of all connections may take together: eight of the largest.
MAX_HELD = 512 << 20
_ACCEPT_AGAIN_SECONDS = 1.0
_SAY_AGAIN_SECONDS = 10.0  # between two lines about it: a flood comes back at once
_NO_DESCRIPTOR = (23, 24)  # ENFILE of the machine, EMFILE of this process
_REMEDY = "end commands or connections, or raise the server's limit on open files (ulimit -n)"
_SPENT = f"this exec-server has no descriptor left for another connection; {_REMEDY}"
_HEAD_SECONDS = 10.0  # how long a connection may take to say what it wants
_SHORT = 4096  # an answer that a new connection takes at once

# Who has not said yet who it is: all of them take turns as one principal.
STRANGERS = "?"
_SOL_TCP, _TCP_NODELAY = 6, 1


class Listener:
    """A listening socket. `connected` gets a transport for every upgraded connection.

    `secure` puts TLS over an accepted socket, and tells the caller's certificate; without it, transports use
    the socket as it is.
    """

    keepalive: float | None = None  # seconds between pings, where an operator says so

    def __init__(
        self,
        loop: Loop,
        sock: socket,
        gate: Gate,
        connected: Callable[[WebSocketTransport], None],
        limit: int,
        wall: Callable[[], float] = time.time,
        secure: Callable[[socket, SocketCaller], Stream] | None = None,
        sharing: Callable[[], Shares] | None = None,
    ) -> None:
        self._loop = loop
        self.wall = wall
        self._sock = sock
        self._secure = secure
        self.gate = gate
        self._connected = connected
        self._transport: type[WebSocketTransport] | None = None
        self._limit = limit
        self._suspended = False
        self._sharing = sharing  # asked for when somebody is admitted; without it there is one principal
        self._emptied: Callable[[], None] | None = None  # called when the last connection has gone
        self._reserve = _Reserve()
        self._said = -_SAY_AGAIN_SECONDS
        self.open: set[WebSocketTransport | _Incoming] = set()
        self._heard = loop.time()  # of those who have left, the last
        self.attempts = Attempts(loop)
        self._paused: Timer | None = None
        self.software = ""  # what /readyz says that we are
        self.draining = ""  # why new clients should go elsewhere
        self.metrics: Callable[[], str] | None = None  # what /metrics says, to whoever is let in
        self.on_refusal: Callable[[str, str], None] | None = None  # gets every address and reason
        sock.setblocking(False)
        loop.add_reader(sock.fileno(), self._accept)

    def _accept(self) -> None:
        wait = self.attempts.make_room()
        if wait:
            self._pause(wait)
            return
        try:
            raw = accept(self._sock)
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):
            return
        except OSError as error:
            if error.errno in _NO_DESCRIPTOR and self._reserve.fd >= 0:
                self._turn_away(error)
            else:
                # No memory for it now: leave it in the backlog for a while.
                self._say(error)
                self._pause(_ACCEPT_AGAIN_SECONDS)
            return
        try:
            caller = SocketCaller(raw)
            if caller.over_tcp:
                try:
                    raw.setsockopt(_SOL_TCP, _TCP_NODELAY, 1)
                except OSError:
                    pass  # a connection reset while it waited
            sock: Stream = raw if self._secure is None else self._secure(raw, caller)
        except OSError as error:
            self._say(error)
            raw.close()
            return
        self.open.add(_Incoming(self._loop, self, sock, caller))

    def _pause(self, seconds: float) -> None:
        """Leaves connections in the kernel's queue for a while."""
        self._loop.remove_reader(self._sock.fileno())
        self._paused = self._loop.call_later(seconds, self._accept_again)

    def _turn_away(self, error: OSError) -> None:
        """No descriptor is left but the one in reserve: whoever comes is told so, instead of waiting."""
        self._reserve.give_up()
        try:
            sock = accept(self._sock)
        except OSError:
            self._say(error)
            self._pause(_ACCEPT_AGAIN_SECONDS)  # somebody else took it
        else:
            self._say(error)
            if self._secure is None:
                self.attempts.count("descriptors")
                _refuse(sock, Response(503, _SPENT))
            else:
                sock.close()  # a handshake would need more than there is
        finally:
            self._reserve.take()

    def _say(self, error: OSError) -> None:
        now = self._loop.time()
        if now - self._said >= _SAY_AGAIN_SECONDS:
            self._said = now
            warn("server", "cannot accept a connection now: %s; %s", error.strerror, _REMEDY)

    def _accept_again(self) -> None:
        self._reserve.take()
        if self._paused is not None and self._sock.fileno() >= 0 and not self._suspended:
            self._loop.add_reader(self._sock.fileno(), self._accept)
        self._paused = None

    def left(self, incoming: _Incoming) -> None:
        """A connection has been admitted, refused or lost."""
        self.open.discard(incoming)
        self.attempts.leave(incoming)
        if self._paused is not None:
            self._paused.cancel()
            self._accept_again()

    def judge(self, head: bytes, caller: SocketCaller) -> Response:
        """What to answer to a request head. Raises ImportError, OSError where it cannot be served now."""
        response = answer(
            head,
            self.gate,
            caller,
            software=self.software,
            draining=self.draining,
            metrics=self.metrics,
        )
        if response.admitted is None:
            return response
        self.load()  # before it is told that it is welcome
        held, principal = len(self.open) - len(self.attempts), response.admitted.principal
        if held >= self._limit:
            full = f"this exec-server already has {self._limit} connections, which is its limit"
            return Response(503, full, cause="full")
        sharing = None if self._sharing is None else self._sharing()
        if sharing is not None:
            sharing.seen(principal)
        if sharing is not None and sharing.several:
            mine = sum(one.principal == principal for one in self.open)
            if not sharing.allows(self._limit, held, mine):
                full = f"you already have {mine} connections, your share of this exec-server: close one"
                return Response(503, full, cause="share")
        return response

    def heir(self, head: bytes, caller: SocketCaller) -> Callable[[Stream, bytes], None] | None:
        """Who goes on with a connection that has sent this head, given its socket and what came behind the
        head; None where `judge` is to answer. A listener that serves more than one path has some."""
        return None

    def load(self) -> type[WebSocketTransport]:
        """What serves a connection that was admitted; whoever only asks /readyz does not wait for it."""
        if self._transport is None:
            from .websocket import WebSocketTransport

            self._transport = WebSocketTransport
        return self._transport

    def suspend(self) -> None:
        """Accepts nobody for now: who comes waits in the kernel. Who has just come is not heard, either."""
        self._suspended = True
        self._loop.remove_reader(self._sock.fileno())
        for one in list(self.open):
            if isinstance(one, _Incoming) and one.can_wait:
                one.listen(False)
            elif isinstance(one, _Incoming) and not one.turned_away:
                one.abort()  # what it has agreed with this process alone, no other can go on with

    def resume(self) -> None:
        """Accepts again."""
        self._suspended = False
        self._loop.add_reader(self._sock.fileno(), self._accept)
        for one in self._incoming():
            one.listen(True)

    def _incoming(self) -> list[_Incoming]:
        return [one for one in self.open if isinstance(one, _Incoming) and one.can_wait]

    def unheard(self) -> list[tuple[int, bytes]]:
        """The descriptors of those who have not said yet what they want, and what they have said."""
        return [one.said() for one in self._incoming()]

    @property
    def served(self) -> int:
        """How many connections there are, whose close has to be answered included."""
        return sum(not isinstance(one, _Incoming) for one in self.open)

    def adopt(self, fd: int, head: bytes) -> None:
        """Goes on with somebody whom another listener has accepted."""
        try:
            sock = socket_of(self._sock, fd)
        except OSError as error:
            self._say(error)
            return
        self.open.add(_Incoming(self._loop, self, sock, SocketCaller(sock), head))

    def holds_too_much(self, principal: str) -> bool:
        """Whether there are too many bytes of unfinished messages, of all connections or of a principal's."""
        held = sum(one.held for one in self.open)
        sharing = None if self._sharing is None else self._sharing()
        if sharing is None or not sharing.several:
            return held > MAX_HELD
        mine = sum(one.held for one in self.open if one.principal == principal)
        return not sharing.allows(MAX_HELD, held, mine, 0)

    def upgrade(self, sock: Stream, rest: bytes, admitted: Admitted, address: str) -> None:
        transport = self.load()(self._loop, sock, self, admitted, address)
        self.open.add(transport)
        try:
            self._connected(transport)
        except Exception as error:
            # What serves it could not be loaded or made: no descriptor, no memory.
            fault("server", "a connection could not be served", error)
            transport.receiver = _Nobody()
            transport.close(1013, _SPENT)
            return
        transport.begin(rest)

    def end_unless(self, admitted: Callable[[str], bool]) -> None:
        """Ends the connections of every principal who would not be let in again."""
        for one in list(self.open):
            if not isinstance(one, _Incoming) and not admitted(one.principal):
                one.close(1008, "the token of this connection is not accepted any more")

    def stop(self) -> None:
        """Accepts no more. Open connections go on."""
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        self._reserve.give_up()

    def heard(self) -> float:
        """When the last byte came from anybody who was admitted, by the loop's clock; at first our start."""
        return max([self._heard, *[one.heard for one in self.open if not isinstance(one, _Incoming)]])

    def narrow(self, limit: int, strangers: int) -> None:
        """Accepts no more connections at a time than this, and no more that are not admitted yet."""
        self._limit = min(self._limit, limit)
        self.attempts.narrow(strangers)

    def drain(self, loop: EpollLoop) -> None:
        """Runs the loop until every closing connection has gone: its client takes what is on its way, and
        learns why it ends. None takes longer than a closing handshake may."""
        for one in list(self.open):
            if isinstance(one, _Incoming):
                one.abort()
        if self.open:
            from .websocket import CLOSE_SECONDS

            self._emptied = loop.stop
            loop.call_later(CLOSE_SECONDS, loop.stop)
            loop.run()

    def gone(self, transport: WebSocketTransport) -> None:
        """An upgraded connection has ended."""
        self.open.discard(transport)
        self._heard = max(self._heard, transport.heard)
        if not self.open and self._emptied is not None:
            self._emptied()


class _Reserve:
    """A descriptor that is kept for the moment when no other is left."""

    def __init__(self) -> None:
        self.fd = -1
        self.take()

    def take(self) -> None:
        if self.fd < 0:
            try:
                self.fd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                pass  # at the next opportunity

    def give_up(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class _Nobody:
    """The receiver of a connection that cannot be served."""

    def message(self, data: Payload) -> None: ...
    def drained(self) -> None: ...
    def lost(self, reason: str) -> None: ...


def _refuse(sock: Stream, response: Response) -> None:
    try:
        sock.send(response.encode())
    except OSError:
        pass
    _bid_farewell(sock)


def _bid_farewell(sock: Stream) -> None:
    try:
        sock.shutdown(1)
        sock.recv(MAX_HEAD)  # what was sent and never read would turn the answer into a reset
    except OSError:
        pass
    sock.close()


class _Incoming:
    """A connection that has not said yet what it wants, or waits for its refusal."""

    held = 0  # its head is bounded by MAX_HEAD
    principal = STRANGERS

    def __init__(
        self, loop: Loop, listener: Listener, sock: Stream, caller: SocketCaller, head: bytes = b""
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._sock = sock
        self._caller = caller
        self.source = caller.source
        self.since = loop.time()
        self._head = head
        self.turned_away = False
        self._unsent: memoryview | None = None  # of a long answer
        self._timer = loop.call_later(_HEAD_SECONDS, self.abort)
        listener.attempts.enter(self)
        loop.add_reader(sock.fileno(), self._readable)

    @property
    def can_wait(self) -> bool:
        """Whether another process could go on with it: it is a plain socket, and was not refused."""
        return not self.turned_away and isinstance(self._sock, socket)

    def said(self) -> tuple[int, bytes]:
        return self._sock.fileno(), self._head

    def listen(self, on: bool) -> None:
        if on:
            self._loop.add_reader(self._sock.fileno(), self._readable)
        else:
            self._loop.remove_reader(self._sock.fileno())

    def _readable(self) -> None:
        try:
            data = self._sock.recv(MAX_HEAD)
        except BlockingIOError:
            return
        except HandshakeFailed as error:
            self._listener.attempts.log_refusal(self._caller.address, error.reason, "tls")
            data = b""
        except OSError:
            data = b""
        if not data:
            self.abort()
            return
        self._head += data
        if self._head.startswith(b"\x16\x03"):
            self.abort()  # a TLS hello: nobody here can answer it, and silence would be waited out
            return
        head, blank, rest = self._head.partition(b"\r\n\r\n")
        if not blank:
            if len(self._head) > MAX_HEAD:
                self._reply(Response(431, f"request head exceeds {MAX_HEAD} bytes"))
            return
        heir = self._listener.heir(head, self._caller)
        if heir is not None:
            self._leave()
            heir(self._sock, rest)
            return
        try:
            response = self._listener.judge(head, self._caller)
        except Exception as error:
            # Whoever asks is not to wait for an answer that never comes.
            fault("server", "a request could not be judged", error)
            response = Response(503, "the server could not look at this request now; try again later")
        if response.admitted is None:
            self._turn_away(response)
            return
        self._leave()
        head = response.encode()
        try:
            sent = self._sock.send(head)
        except OSError:
            sent = 0
        if sent != len(head):  # the first bytes of a connection: only a broken one does not take them
            self._sock.close()
            return
        self._listener.upgrade(self._sock, rest, response.admitted, self._caller.address)

    def _turn_away(self, response: Response) -> None:
        reason, wait = response.refusal, 0.0
        if reason is not None:
            attempts = self._listener.attempts
            attempts.log_refusal(self._caller.address, reason, response.cause)
            if self._listener.on_refusal is not None:
                self._listener.on_refusal(self._caller.address, reason)
            if response.status != 503:  # who comes when we are full has done nothing wrong
                wait = attempts.failed(self.source)
        if not wait:
            self._reply(response)
            return
        self.turned_away = True
        self._timer.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._timer = self._loop.call_later(wait, self._reply, response)

    def _reply(self, response: Response) -> None:
        if len(response.body) > _SHORT:
            self._send_all(response.encode())
            return
        self._leave()
        _refuse(self._sock, response)

    def _send_all(self, data: bytes) -> None:
        """Sends an answer that the kernel may not take at once, to who reads it in the usual time."""
        self.turned_away = True
        self._timer.cancel()
        self._timer = self._loop.call_later(_HEAD_SECONDS, self.abort)
        self._loop.remove_reader(self._sock.fileno())
        self._unsent = memoryview(data)
        self._loop.add_writer(self._sock.fileno(), self._writable)

    def _writable(self) -> None:
        assert self._unsent is not None
        try:
            self._unsent = self._unsent[self._sock.sendmsg((self._unsent,)) :]
        except BlockingIOError:
            return
        except OSError:
            self.abort()
            return
        if not self._unsent:
            self._leave()
            _bid_farewell(self._sock)

    def _leave(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._sock.fileno())
        if self._unsent is not None:
            self._loop.remove_writer(self._sock.fileno())
        self._listener.left(self)

    def abort(self) -> None:
        self._leave()
        self._sock.close()
