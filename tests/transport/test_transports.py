"""What every transport promises, tested over memory, stdio, websocket and websocket with TLS alike."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from outfitter.loop import EpollLoop
from outfitter.server.auth import gate
from outfitter.transport.base import HIGH, LOW
from outfitter.transport.caller import SocketCaller
from outfitter.transport.certificates import server_context
from outfitter.transport.listener import Listener
from outfitter.transport.memory import pair
from outfitter.transport.sockets import listen
from outfitter.transport.stdio import StdioTransport
from outfitter.transport.tls import TlsSocket
from outfitter.transport.unix import UnixPlace
from outfitter.transport.websocket import WebSocketTransport
from tests.support.certificates import authority, server_pair
from tests.support.machine import SECOND


class Recorder:
    """A receiver that writes everything down."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.messages: list[bytes] = []
        self.drains = 0
        self.lost_reasons: list[str] = []

    def message(self, data: str | bytes | tuple[bytes, ...]) -> None:
        if isinstance(data, tuple):  # a large one, in pieces
            data = b"".join(data)
        self.messages.append(data.encode() if isinstance(data, str) else data)
        self._link.news()

    def drained(self) -> None:
        self.drains += 1
        self._link.news()

    def lost(self, reason: str) -> None:
        self.lost_reasons.append(reason)
        self._link.news()


class Link:
    """A transport of ours with a recorder behind it, and a peer. `until` runs both."""

    transport: Any  # one of three classes with one interface

    def __init__(self) -> None:
        self.loop = EpollLoop()
        self.recorder = Recorder(self)
        self._wanted: Callable[[], bool] | None = None
        self._failure: Exception | None = None

    # What the peer does

    def peer_send(self, *messages: bytes) -> None:
        raise NotImplementedError

    def peer_messages(self) -> list[bytes]:
        """Reads what has come; everything so far."""
        raise NotImplementedError

    def peer_close(self) -> None:
        raise NotImplementedError

    # Running

    def news(self) -> None:
        if self._wanted is not None and self._wanted():
            self.loop.stop()

    def _tick(self) -> None:
        """Looks at what has no callback: the peer, the clock."""
        self._timer = self.loop.call_later(0.005, self._tick)
        try:
            self.news()
        except Exception as error:
            self._failure = error
            self.loop.stop()

    def until(self, wanted: Callable[[], bool], seconds: float = 30 * SECOND) -> None:
        """Runs the loop until `wanted()`, which may also look at the peer."""
        deadline = time.monotonic() + seconds
        self._wanted = lambda: wanted() or time.monotonic() > deadline
        self._timer = self.loop.call_later(0, self._tick)
        self.loop._stopping = False  # `stop` is for the end of a server; a test goes on
        self.loop.run()
        self._timer.cancel()
        self._wanted = None
        if self._failure is not None:
            raise self._failure
        assert wanted()

    def close(self) -> None:
        self.transport.close(1000, "")
        self.loop.close()


class MemoryLink(Link):
    def __init__(self) -> None:
        super().__init__()
        self.transport, self.peer = pair(self.loop)
        self.transport.receiver = self.recorder
        self.peer_recorder = Recorder(self)
        self.peer.receiver = self.peer_recorder
        self.peer.pause_reading()

    def peer_send(self, *messages: bytes) -> None:
        self.peer.send(*messages)

    def peer_messages(self) -> list[bytes]:
        self.peer.resume_reading()
        return self.peer_recorder.messages

    def peer_close(self) -> None:
        self.peer.close(1000, "")


class StdioLink(Link):
    def __init__(self) -> None:
        super().__init__()
        self._in, self._peer_out = os.pipe()
        self._peer_in, self._out = os.pipe()
        os.set_blocking(self._peer_in, False)
        os.set_blocking(self._peer_out, False)
        self._read = b""
        self._unsent = b""
        self.transport = StdioTransport(self.loop, self._in, self._out)
        self.transport.receiver = self.recorder
        self.transport.begin()

    def peer_send(self, *messages: bytes) -> None:
        idle = not self._unsent
        self._unsent += b"".join(message + b"\n" for message in messages)
        if idle:
            self.loop.add_writer(self._peer_out, self._write)

    def _write(self) -> None:
        self._unsent = self._unsent[os.write(self._peer_out, self._unsent[:65536]) :]
        if not self._unsent:
            self.loop.remove_writer(self._peer_out)

    def peer_messages(self) -> list[bytes]:
        while True:
            try:
                more = os.read(self._peer_in, 1 << 20)
            except BlockingIOError:
                break
            if not more:
                break
            self._read += more
        return self._read.split(b"\n")[:-1]

    def peer_close(self) -> None:
        os.close(self._peer_out)
        self._peer_out = -1

    def close(self) -> None:
        self.peer_messages()
        super().close()
        for fd in (self._in, self._peer_out, self._peer_in, self._out):
            if fd >= 0:
                os.close(fd)


class WebSocketLink(Link):
    """The peer is another library's protocol on a plain socket."""

    secure: Callable[[socket.socket, SocketCaller], TlsSocket] | None = None

    def __init__(self, limit: int = 10) -> None:
        super().__init__()
        listening = self.listen()
        accepted: list[WebSocketTransport] = []

        def connected(transport: WebSocketTransport) -> None:
            transport.receiver = self.recorder
            accepted.append(transport)

        self.listener = Listener(
            self.loop, listening, gate(frozenset(), None, None), connected, limit, secure=self.secure
        )
        self.protocol = ClientProtocol(parse_uri("ws://localhost/"), max_size=None)
        self.socket = self.dial()
        self._unsent = bytearray()
        self._messages: list[bytes] = []
        self._parts: list[bytes] = []
        self.frames: list[Frame] = []
        self.protocol.send_request(self.protocol.connect())
        self._flush()
        self.until(lambda: bool(accepted) and self._opened())
        self.transport = accepted[0]

    def listen(self) -> Any:
        listening = listen("127.0.0.1", 0)
        self.address = listening.getsockname()
        return listening

    def dial(self) -> Any:
        """A new connection that does not block."""
        sock = socket.create_connection(self.address)
        sock.setblocking(False)
        return sock

    def _opened(self) -> bool:
        self.peer_messages()
        return self.protocol.state is State.OPEN

    def _flush(self) -> None:
        idle = not self._unsent
        self._unsent += b"".join(self.protocol.data_to_send())
        if idle and self._unsent:
            self.loop.add_writer(self.socket.fileno(), self._write)

    def _write(self) -> None:
        try:
            del self._unsent[: self.socket.send(self._unsent[: 1 << 18])]
        except BlockingIOError:
            return
        except ConnectionError:
            self._unsent.clear()
        if not self._unsent:
            self.loop.remove_writer(self.socket.fileno())

    def raw_send(self, data: bytes) -> None:
        self.loop.add_writer(self.socket.fileno(), self._write)
        self._unsent += data

    def peer_send(self, *messages: bytes) -> None:
        for message in messages:
            self.protocol.send_text(message)
        self._flush()

    def peer_messages(self) -> list[bytes]:
        while True:
            try:
                more = self.socket.recv(1 << 20)
            except BlockingIOError:
                break
            except ConnectionError:
                more = b""
            if not more:
                self.protocol.receive_eof()
                break
            self.protocol.receive_data(more)
        for event in self.protocol.events_received():
            if isinstance(event, Frame):
                self.frames.append(event)
                if event.opcode in (Opcode.TEXT, Opcode.CONT):
                    self._parts.append(bytes(event.data))
                    if event.fin:
                        self._messages.append(b"".join(self._parts))
                        self._parts.clear()
        self._flush()
        return self._messages

    def peer_close(self) -> None:
        self.protocol.send_close(1000, "bye")
        self._flush()

    def close_code(self) -> tuple[int, str]:
        """How the peer saw our end."""
        self.until(lambda: self.peer_messages() is not None and self.protocol.close_rcvd is not None)
        received = self.protocol.close_rcvd
        assert isinstance(received, Close)
        return received.code, received.reason

    def close(self) -> None:
        self.listener.stop()
        self.transport.close(1000, "")
        for one in list(self.listener.open):
            one._finish() if isinstance(one, WebSocketTransport) else one.abort()
        self.socket.close()
        self.loop.close()


class UnixLink(WebSocketLink):
    def listen(self) -> Any:
        self._folder = tempfile.TemporaryDirectory()
        self._path = f"{self._folder.name}/x.sock"
        return UnixPlace(self._path).listen()

    def dial(self) -> Any:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self._path)
        sock.setblocking(False)
        return sock

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


class TlsPeer:
    """A client's end with the errors of a plain socket. The handshake comes with the first call."""

    def __init__(self, sock: socket.socket) -> None:
        context = ssl.create_default_context(cafile=authority().file)
        self._tls = context.wrap_socket(sock, server_hostname="localhost", do_handshake_on_connect=False)
        self.fileno = self._tls.fileno
        self.close = self._tls.close

    def send(self, data: bytes) -> int:
        return self._try(self._tls.send, data)

    def recv(self, size: int) -> bytes:
        return self._try(self._tls.recv, size)

    def _try(self, call: Callable[[Any], Any], argument: Any) -> Any:
        try:
            return call(argument)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise ConnectionError(str(error)) from None

    def __enter__(self) -> TlsPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TlsLink(WebSocketLink):
    """The same, encrypted: the peer's TLS is the standard library's on a socket."""

    def __init__(self, limit: int = 10) -> None:
        pair = server_pair()
        context = server_context(str(pair.cert), str(pair.key))
        self.secure = lambda sock, caller: TlsSocket(self.loop, sock, context, caller)
        super().__init__(limit)

    def dial(self) -> Any:
        return TlsPeer(super().dial())


KINDS: dict[str, Callable[[], Link]] = {
    "memory": MemoryLink,
    "stdio": StdioLink,
    "websocket": WebSocketLink,
    "unix": UnixLink,
    "tls": TlsLink,
}


@pytest.fixture(params=KINDS)
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    link = KINDS[request.param]()
    yield link
    link.close()


@pytest.fixture(params=[WebSocketLink, TlsLink])
def web(request: pytest.FixtureRequest) -> Iterator[WebSocketLink]:
    link = request.param()
    yield link
    link.close()


# Every transport


def test_principal_is_the_user_at_the_other_end(link: Link) -> None:
    assert (link.transport.principal, link.transport.expires) == (f"uid:{os.geteuid()}", None)


def test_messages_arrive_whole_and_in_order(link: Link) -> None:
    messages = [b"%d " % number + b"x" * (number * 131 % 5000) for number in range(500)]
    link.peer_send(*messages)
    link.until(lambda: len(link.recorder.messages) == 500)
    assert link.recorder.messages == messages


def test_messages_leave_whole_and_in_order(link: Link) -> None:
    messages = [b"%d " % number + b"x" * (number * 131 % 5000) for number in range(500)]
    for message in messages[:250]:
        link.transport.send(message)
    link.transport.send(*messages[250:])
    link.until(lambda: len(link.peer_messages()) == 500)
    assert link.peer_messages() == messages


def test_thousands_of_messages_may_be_sent_in_one_call(link: Link) -> None:
    # More pieces than the kernel takes in one call.
    messages = [b"%d" % number for number in range(3000)]
    link.transport.send(*messages)
    link.until(lambda: len(link.peer_messages()) == 3000)
    assert link.peer_messages() == messages


def test_parts_make_one_message(link: Link) -> None:
    parts = (b'{"a":', b"1" * 100_000, b"}")
    link.transport.send_parts(parts, (b"next",))
    link.until(lambda: len(link.peer_messages()) == 2)
    assert link.peer_messages() == [b"".join(parts), b"next"]


def test_large_messages_pass_both_ways(link: Link) -> None:
    large = b"y" * (9 << 20)
    link.transport.send(large)
    link.peer_send(large)
    link.until(lambda: len(link.peer_messages()) == 1 and len(link.recorder.messages) == 1)
    assert link.peer_messages() == link.recorder.messages == [large]


def test_what_the_peer_does_not_take_is_counted_and_its_going_is_told(link: Link) -> None:
    sent = 0
    while link.transport.buffered <= HIGH:
        link.transport.send(b"z" * 50_000)
        sent += 1
    assert link.recorder.drains == 0
    link.until(lambda: len(link.peer_messages()) == sent)
    link.until(lambda: link.transport.buffered == 0)
    assert link.recorder.drains == 1


def test_little_that_waits_is_not_told(link: Link) -> None:
    for _ in range(20):
        link.transport.send(b"z" * (LOW // 40))
    link.until(lambda: len(link.peer_messages()) == 20)
    assert link.recorder.drains == 0


def test_reading_pauses_and_goes_on(link: Link) -> None:
    link.transport.pause_reading()
    link.peer_send(b"one", b"two")
    link.until(lambda: True)
    deadline = time.monotonic() + 0.1 * SECOND  # an absence has no event
    link.until(lambda: time.monotonic() > deadline)
    assert link.recorder.messages == []
    link.transport.resume_reading()
    link.until(lambda: len(link.recorder.messages) == 2)
    assert link.recorder.messages == [b"one", b"two"]


def test_pause_holds_messages_that_were_read_already(link: Link) -> None:
    # Row 29: a batch of requests must not be handled past the bound of its answers.
    class Pausing(Recorder):
        def message(self, data: str | bytes) -> None:
            super().message(data)
            link.transport.pause_reading()

    recorder = link.transport.receiver = link.recorder = Pausing(link)
    link.peer_send(*[b"%d" % number for number in range(20)])
    deadline = time.monotonic() + 0.2 * SECOND
    link.until(lambda: time.monotonic() > deadline)
    assert recorder.messages == [b"0"]
    for count in range(2, 21):
        link.transport.resume_reading()
        link.until(lambda count=count: len(recorder.messages) == count)  # type: ignore[misc]
    assert recorder.messages == [b"%d" % number for number in range(20)]


def test_end_of_the_peer_is_told_once_after_its_messages(link: Link) -> None:
    link.peer_send(b"last words")
    link.until(lambda: bool(link.recorder.messages))
    link.peer_close()
    link.until(lambda: bool(link.recorder.lost_reasons))
    link.transport.close(1000, "again")
    link.transport.send(b"into the void")
    assert link.recorder.messages == [b"last words"]
    assert len(link.recorder.lost_reasons) == 1


def test_our_own_close_is_told_once_with_its_reason_after_what_was_sent(link: Link) -> None:
    link.transport.send(b"goodbye")
    link.transport.close(1001, "leaving")
    link.transport.close(1002, "twice")
    link.until(lambda: bool(link.recorder.lost_reasons))
    link.until(lambda: len(link.peer_messages()) == 1)
    assert (link.peer_messages(), link.recorder.lost_reasons) == ([b"goodbye"], ["leaving"])


def test_nothing_is_delivered_after_our_close(link: Link) -> None:
    link.peer_send(b"one", b"two")

    class Closing(Recorder):
        def message(self, data: str | bytes) -> None:
            super().message(data)
            link.transport.close(1002, "enough")

    recorder = link.transport.receiver = link.recorder = Closing(link)
    link.until(lambda: bool(recorder.lost_reasons))
    assert (recorder.messages, recorder.lost_reasons) == ([b"one"], ["enough"])


# WebSocket only


def test_close_tells_the_peer_code_and_reason(web: WebSocketLink) -> None:
    web.transport.close(1008, "not you")
    assert web.close_code() == (1008, "not you")


def test_close_of_the_peer_is_answered(web: WebSocketLink) -> None:
    # Row 20.
    web.peer_close()
    assert web.close_code() == (1000, "")


BROKEN = {
    "unmasked": (b"\x81\x02{}", 1002),
    "reserved bits": (b"\xf1\x82\0\0\0\0{}", 1002),
    "unknown opcode": (b"\x83\x80\0\0\0\0", 1002),
    "continuation of nothing": (b"\x80\x80\0\0\0\0", 1002),
    "not UTF-8": (b"\x81\x81\0\0\0\0\xff", 1007),
    "more than 64 MiB": (b"\x81\xff" + (64 * 2**20 + 1).to_bytes(8, "big") + bytes(4), 1009),
    "fragments of more than 64 MiB": (
        b"\x01\xfe\xff\xff" + bytes(4 + 65535) + b"\x80\xff" + (64 * 2**20).to_bytes(8, "big") + bytes(4),
        1009,
    ),
}


@pytest.mark.parametrize(("data", "code"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_rule_closes_with_its_code(data: bytes, code: int, web: WebSocketLink) -> None:
    # Rows 19 and 20.
    web.raw_send(data)
    assert web.close_code()[0] == code
    assert len(web.recorder.lost_reasons) == 1
    assert web.recorder.messages == []


def test_one_frame_of_64_mib_is_accepted(web: WebSocketLink) -> None:
    # Row 19: the reference takes 16 in one frame.
    size = 64 << 20
    web.raw_send(b"\x82\xff" + size.to_bytes(8, "big") + bytes(4) + b"w" * size)
    web.until(lambda: bool(web.recorder.messages), 60 * SECOND)
    assert len(web.recorder.messages[0]) == size


def test_fragments_and_binary_are_messages_too(web: WebSocketLink) -> None:
    web.raw_send(b"\x01\x82\0\0\0\0ab" + b"\x89\x81\0\0\0\0p" + b"\x00\x81\0\0\0\0c" + b"\x80\x81\0\0\0\0d")
    web.raw_send(b"\x82\x82\0\0\0\0xy")
    web.until(lambda: len(web.recorder.messages) == 2)
    assert web.recorder.messages == [b"abcd", b"xy"]


def test_large_reply_leaves_in_frames_that_peers_take(web: WebSocketLink) -> None:
    # Row 18: the reference's client drops frames above 16 MiB.
    size = 40 << 20
    web.transport.send(b"v" * size)
    web.until(lambda: bool(web.peer_messages()), 60 * SECOND)
    assert web.peer_messages() == [b"v" * size]
    assert max(len(frame.data) for frame in web.frames) < 16 << 20
    assert [frame.opcode for frame in web.frames] == [Opcode.TEXT] + [Opcode.CONT] * (len(web.frames) - 1)


def test_ping_is_answered_with_its_payload(web: WebSocketLink) -> None:
    web.protocol.send_ping(b"are you there")
    web._flush()
    web.until(lambda: web.peer_messages() is not None and bool(web.frames))
    assert [(frame.opcode, bytes(frame.data)) for frame in web.frames] == [(Opcode.PONG, b"are you there")]


def test_probe_spares_a_peer_that_answers_and_ends_one_that_does_not(web: WebSocketLink) -> None:
    # Row 21.
    web.transport.probe(0.2 * SECOND)
    web.until(lambda: web.peer_messages() is not None and bool(web.frames))  # the library answers the ping
    deadline = time.monotonic() + 0.4 * SECOND
    web.until(lambda: time.monotonic() > deadline)
    assert web.recorder.lost_reasons == []
    web.transport.probe(0.2 * SECOND)
    web.until(lambda: bool(web.recorder.lost_reasons))
    assert web.recorder.lost_reasons == [
        "the client did not answer when another connection asked for its session"
    ]


def test_connection_that_vanishes_is_told_once(web: WebSocketLink) -> None:
    web.socket.close()
    web.socket = socket.socket()
    web.until(lambda: bool(web.recorder.lost_reasons))
    assert len(web.recorder.lost_reasons) == 1


# HTTP


def ask(web: WebSocketLink, text: str) -> tuple[str, bytes]:
    """Status line and body for a request on a fresh connection."""
    with web.dial() as sock:
        unsent = text.replace("\n", "\r\n").encode("latin-1")
        read = b""

        def whole() -> bool:
            nonlocal read, unsent
            try:
                while unsent:
                    unsent = unsent[sock.send(unsent) :]
                while more := sock.recv(65536):
                    read += more
            except BlockingIOError:
                return False
            except ConnectionError:
                pass
            return True

        web.until(whole)
    head, _, body = read.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode().removeprefix("HTTP/1.1 "), body


KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n"
UPGRADE = f"Host: localhost\nConnection: upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\n{KEY}"
REQUESTS = {
    "GET /readyz": ("GET /readyz HTTP/1.1\n\n", "200 OK", b""),
    "HEAD /readyz": ("HEAD /readyz HTTP/1.1\n\n", "200 OK", b""),
    "POST /readyz": ("POST /readyz HTTP/1.1\n\n", "405 Method Not Allowed", b""),
    "another path": ("GET /ws HTTP/1.1\n\n", "404 Not Found", b""),
    "no upgrade": (
        "GET / HTTP/1.1\n\n",
        "400 Bad Request",
        b"Connection header did not include 'upgrade'",
    ),
    "another version": (
        f"GET / HTTP/1.1\n{UPGRADE.replace(': 13', ': 12')}\n",
        "400 Bad Request",
        b"`Sec-WebSocket-Version` header did not include '13'",
    ),
    "another method": ("POST / HTTP/1.1\n\n", "405 Method Not Allowed", b"Request method must be `GET`"),
    "origin": (f"GET / HTTP/1.1\nOrigin: http://x\n{UPGRADE}\n", "403 Forbidden", b""),
    "origin null": (f"GET / HTTP/1.1\nOrigin: null\n{UPGRADE}\n", "403 Forbidden", b""),
    "origin on another path": ("GET /readyz HTTP/1.1\nOrigin: x\n\n", "403 Forbidden", b""),
    "no http": ("HELO there\n\n", "400 Bad Request", b"invalid HTTP request"),
}


@pytest.mark.parametrize(("text", "status", "body"), REQUESTS.values(), ids=REQUESTS.keys())
def test_requests_are_answered_as_the_reference_does(
    text: str, status: str, body: bytes, web: WebSocketLink
) -> None:
    # X9
    assert ask(web, text) == (status, body)


def test_host_that_may_be_rebound_is_refused(web: WebSocketLink) -> None:
    # Row 32.
    status, body = ask(web, f"GET / HTTP/1.1\n{UPGRADE.replace('localhost', 'evil.example')}\n")
    assert (status, b"--allow-host NAME" in body) == ("403 Forbidden", True)


def test_head_that_never_ends_is_refused(web: WebSocketLink) -> None:
    status, body = ask(web, "GET / HTTP/1.1\nX: " + "x" * 17_000)
    assert (status, body) == ("431 Request Header Fields Too Large", b"request head exceeds 16384 bytes")


def test_connections_above_the_limit_are_refused_and_room_is_given_again() -> None:
    link = WebSocketLink(limit=1)
    try:
        status, body = ask(link, f"GET / HTTP/1.1\n{UPGRADE}\n")
        assert (status, body) == (
            "503 Service Unavailable",
            b"this exec-server already has 1 connections, which is its limit",
        )
        link.peer_close()
        link.until(lambda: link.peer_messages() is not None and not link.listener.open)
        assert ask(link, "GET /readyz HTTP/1.1\n\n")[0] == "200 OK"
    finally:
        link.close()


def test_message_that_comes_with_the_request_is_not_lost(web: WebSocketLink) -> None:
    # A quick client sends its first frame without waiting for the answer.
    with web.dial() as sock:
        unsent = f"GET / HTTP/1.1\n{UPGRADE}\n".replace("\n", "\r\n").encode() + b"\x81\x82\0\0\0\0hi"

        def taken() -> bool:
            nonlocal unsent
            try:
                unsent = unsent[sock.send(unsent) :] if unsent else b""
            except BlockingIOError:
                pass
            return web.recorder.messages == [b"hi"]

        web.until(taken)
