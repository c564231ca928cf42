"""Dialling a WebSocket server: addresses, refusals, frames, and how the connection ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
from websockets.utils import accept_key

from outfitter.errors import DialFailed, SettingInvalid
from outfitter.transport import dial as dialling
from outfitter.transport.address import Address, parse_address, usual_address
from outfitter.transport.base import HIGH, LOW
from outfitter.transport.dial import DialledTransport, dial
from tests.support.machine import SECOND
from tests.support.raw import frame

Scenario = Callable[[], Coroutine[Any, Any, None]]
TEXT, CONTINUATION, BINARY, CLOSE, PING, PONG = 0x81, 0x80, 0x82, 0x88, 0x89, 0x8A


def in_a_loop(scenario: Scenario) -> Callable[[], None]:
    """Runs an async test on a loop of its own, within its time."""

    def test() -> None:
        asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))

    test.__name__ = scenario.__name__
    return test


# Addresses


ADDRESSES = {
    "ws://127.0.0.1:8080": ("127.0.0.1", 8080, "/", False, True),
    "ws://localhost": ("localhost", 80, "/", False, True),
    "ws://[::1]:9/": ("::1", 9, "/", False, True),
    "ws://127.3.2.1:1/a/b?c=d": ("127.3.2.1", 1, "/a/b?c=d", False, True),
    "wss://Example.com/path": ("example.com", 443, "/path", True, False),
    "wss://10.0.0.1:65535": ("10.0.0.1", 65535, "/", True, False),
    # Names that only look like this machine.
    "ws://127.example.com": ("127.example.com", 80, "/", False, False),
    "ws://localhost.example.com": ("localhost.example.com", 80, "/", False, False),
    "ws://0.0.0.0:1": ("0.0.0.0", 1, "/", False, False),
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_address_is_taken_apart(url: str) -> None:
    host, port, path, secure, loopback = ADDRESSES[url]
    address = parse_address(url)
    shown = url.replace("?c=d", "?…")  # a query may hold a secret
    assert address == Address(shown, host, port, path, secure)
    assert address.loopback is loopback


@pytest.mark.parametrize("url", [*ADDRESSES, "ws://::1:9", "ws://localhost:0", "ws://localhost:²", "ws://:9"])
def test_usual_address_is_the_same_or_none(url: str) -> None:
    usual = ("ws://127.0.0.1:8080", "ws://[::1]:9/")
    assert usual_address(url) == (parse_address(url) if url in usual else None)


CANNOT = "is not a WebSocket URL: write ws://HOST:PORT, wss://HOST:PORT or unix:PATH"
INVALID = {
    "": f"`` {CANNOT}",
    "127.0.0.1:8080": f"`127.0.0.1:8080` {CANNOT}",
    "http://127.0.0.1": f"`http://127.0.0.1` {CANNOT}",
    "ws://": f"`ws://` {CANNOT}",
    "ws://:80": f"`ws://:80` {CANNOT}",
    "stdio": f"`stdio` {CANNOT}",
    "ws://h:port": "`ws://h:port` is not a URL: Port could not be cast to integer value as 'port'",
    "ws://h:70000": "`ws://h:70000` is not a URL: Port out of range 0-65535",
    "ws://[::1": "`ws://[::1` is not a URL: Invalid IPv6 URL",
    "ws://me:secret@h": "the URL contains credentials, which could appear in logs: pass a token instead",
    "ws://me@h": "the URL contains credentials, which could appear in logs: pass a token instead",
    "ws://h/a b": "the path of `ws://h/a b` must be percent-encoded ASCII",
    "ws://h/ä": "the path of `ws://h/ä` must be percent-encoded ASCII",
    "ws://h/?q=ä": "the path of `ws://h/` must be percent-encoded ASCII",  # a query may hold a secret
}


@pytest.mark.parametrize("url", INVALID)
def test_address_that_cannot_be_dialled_says_why(url: str) -> None:
    with pytest.raises(SettingInvalid) as raised:
        parse_address(url)
    assert str(raised.value) == INVALID[url]


@pytest.mark.parametrize("url", ["ws://h:0", "wss://h:0"])
def test_port_zero_is_not_another_port(url: str) -> None:
    with pytest.raises(SettingInvalid):
        parse_address(url)


@pytest.mark.parametrize("host", ["bücher.invalid", "x" * 64 + ".invalid", "a..invalid", "ex ample"])
def test_host_that_is_no_host_name_cannot_be_dialled(host: str) -> None:
    # Wherever it is noticed, it is one of our own errors.
    async def scenario() -> None:
        with pytest.raises((DialFailed, SettingInvalid)):
            await dial(parse_address(f"ws://{host}"), limit=SECOND)

    asyncio.run(scenario())


# The far end


class Recorder:
    """A receiver that writes everything down."""

    def __init__(self) -> None:
        self.messages: list[str | bytes] = []
        self.drains = 0
        self.reasons: list[str] = []
        self._news = asyncio.Event()

    def message(self, data: str | bytes) -> None:
        self.messages.append(data)
        self._news.set()

    def drained(self) -> None:
        self.drains += 1
        self._news.set()

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._news.clear()
            await self._news.wait()


class FarEnd:
    """The server's end of one connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.head = b""

    async def asked(self) -> dict[str, str]:
        """Reads the request; returns its headers, and the request line as ""."""
        self.head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = self.head.decode("ascii").split("\r\n")[:-2]
        return {"": first} | dict(line.split(": ", 1) for line in lines)

    async def upgrade(self, more: bytes = b"", **headers: str) -> None:
        asked = await self.asked()
        answers = {
            "connection": "upgrade",
            "upgrade": "websocket",
            "sec-websocket-accept": accept_key(asked["Sec-WebSocket-Key"]),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in answers.items())
        self.writer.write(f"HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n".encode() + more)

    def say(self, payload: bytes, first: int = TEXT) -> None:
        self.writer.write(frame(payload, first, masked=False))

    async def frame(self) -> tuple[int, bytes]:
        """The next frame of the client, which must be masked: first byte and payload."""
        first, second = await self.reader.readexactly(2)
        assert second & 0x80
        length = second & 0x7F
        if length >= 126:
            length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8), "big")
        key = await self.reader.readexactly(4)
        payload = await self.reader.readexactly(length)
        pad = (key * (length // 4 + 1))[:length]
        number = int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")
        return first, number.to_bytes(length, "big")

    async def closed(self) -> tuple[int, str]:
        """Reads up to the client's close frame."""
        while True:
            first, payload = await self.frame()
            if first == CLOSE:
                return int.from_bytes(payload[:2], "big"), payload[2:].decode()


@contextlib.asynccontextmanager
async def listening(handle: Callable[[FarEnd], Awaitable[object]]) -> AsyncIterator[Address]:
    """A server on loopback that treats each connection so, and then leaves it open."""
    writers: list[asyncio.StreamWriter] = []
    handling: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        task = asyncio.current_task()
        assert task is not None
        handling.add(task)
        await handle(FarEnd(reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 30)
    try:
        yield parse_address(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        for task in handling:
            task.cancel()
        for result in await asyncio.gather(*handling, return_exceptions=True):
            if isinstance(result, AssertionError):
                raise result
        await server.wait_closed()


@contextlib.asynccontextmanager
async def connected(
    more: bytes = b"", *, begin: bool = True, keepalive: float | None = None
) -> AsyncIterator[tuple[DialledTransport, Recorder, FarEnd]]:
    """Both ends of an upgraded connection; `more` comes with the server's answer."""
    ends: list[FarEnd] = []

    async def upgraded(far: FarEnd) -> None:
        await far.upgrade(more)
        ends.append(far)

    async with listening(upgraded) as address:
        transport = await dial(address, keepalive=keepalive)
        recorder = Recorder()
        if begin:
            transport.receiver = recorder
            transport.begin()
        try:
            yield transport, recorder, ends[0]
        finally:
            transport.abort()


# The request


@in_a_loop
async def test_request_is_an_upgrade_and_nothing_else() -> None:
    # Spec 14.1: no Origin, no extension, no compression.
    asked: list[dict[str, str]] = []

    async def handle(far: FarEnd) -> None:
        asked.append(await far.asked())
        far.writer.close()

    async with listening(handle) as address:
        with pytest.raises(DialFailed):
            await dial(parse_address(f"{address.text}/a/b?c=d"), token="s3cret")
        key = asked[0].pop("Sec-WebSocket-Key")
        assert asked == [
            {
                "": "GET /a/b?c=d HTTP/1.1",
                "Host": f"127.0.0.1:{address.port}",
                "Upgrade": "websocket",
                "Connection": "Upgrade",
                "Sec-WebSocket-Version": "13",
                "Authorization": "Bearer s3cret",
            }
        ]
        assert len(key) == 24


@in_a_loop
async def test_key_is_another_one_each_time() -> None:
    keys: list[str] = []

    async def handle(far: FarEnd) -> None:
        keys.append((await far.asked())["Sec-WebSocket-Key"])
        far.writer.close()

    async with listening(handle) as address:
        for _ in range(3):
            with pytest.raises(DialFailed):
                await dial(address)
    assert len(set(keys)) == 3


@pytest.mark.parametrize("token", ["", "two\r\nlines", "ümlaut", "nul\0"])
def test_token_that_is_no_header_is_refused(token: str) -> None:
    async def scenario() -> None:
        async def handle(far: FarEnd) -> None:
            assert await far.reader.read() == b"", "something was sent"

        async with listening(handle) as address:
            with pytest.raises(SettingInvalid, match="the token must be printable ASCII"):
                await dial(address, token=token)

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["192.0.2.1", "127.example.com", "0.0.0.0", "[2001:db8::1]"])
def test_token_never_travels_in_the_clear(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async def create_connection(*_: object, **__: object) -> None:
            raise AssertionError("somebody was dialled")

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
        with pytest.raises(SettingInvalid) as raised:
            await dial(parse_address(f"ws://{host}:9"), token="t")
        assert str(raised.value) == ("exec-server WebSocket headers require wss:// or a loopback destination")

    asyncio.run(scenario())


# Refusals


REFUSALS = {
    "404": (b"HTTP/1.1 404 Not Found\r\n\r\n", "404 Not Found", False),
    "401 with a reason": (
        b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 5\r\n\r\nno\nno",
        "401 Unauthorized; pass its token with `token=` or --token-file FILE",
        False,
    ),
    "403 with a text": (b"HTTP/1.1 403 Forbidden\r\n\r\nnot you", "403 Forbidden: not you", False),
    "503": (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "503 Service Unavailable", True),
    "429": (b"HTTP/1.1 429 \r\n\r\n", "429", True),
    "200": (b"HTTP/1.0 200 OK\r\n\r\n", "200 OK", False),
    "not ours": (
        b"HTTP/1.1 101 Yes\r\nsec-websocket-accept: AAAA\r\n\r\n",
        "its answer does not match the request",
        False,
    ),
    "no key": (b"HTTP/1.1 101 Yes\r\n\r\n", "its answer does not match the request", False),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "its answer is not HTTP", False),
    "not a head": (b"HTTP/1.1 101 Yes\r\nno colon\r\n\r\n", "its answer is not HTTP", False),
    "endless": (bytes(17 << 10), "its answer is not that of a WebSocket server", False),
}


@pytest.mark.parametrize(("answer", "why", "retryable"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusal_says_why_and_whether_to_come_again(answer: bytes, why: str, retryable: bool) -> None:
    async def scenario() -> None:
        async def handle(far: FarEnd) -> None:
            await far.asked()
            far.writer.write(answer)

        async with listening(handle) as address:
            with pytest.raises(DialFailed) as raised:
                await dial(address)
            text = f"{address.text} refused the connection: {why}"
            assert (str(raised.value), raised.value.retryable) == (text, retryable)

    asyncio.run(scenario())


@in_a_loop
async def test_answer_may_come_in_pieces() -> None:
    async def handle(far: FarEnd) -> None:
        asked = await far.asked()
        answer = (
            "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: "
            f"{accept_key(asked['Sec-WebSocket-Key'])}\r\n\r\n"
        ).encode() + frame(b"first", masked=False)
        for place in range(len(answer)):
            far.writer.write(answer[place : place + 1])
            await far.writer.drain()

    async with listening(handle) as address:
        transport = await dial(address)
        recorder = transport.receiver = Recorder()
        transport.begin()
        await recorder.until(lambda: bool(recorder.messages))
        assert recorder.messages == [b"first"]
        transport.abort()


@in_a_loop
async def test_connection_that_ends_before_its_answer_may_be_tried_again() -> None:
    async def handle(far: FarEnd) -> None:
        await far.asked()
        far.writer.write(b"HTTP/1.1 101 Swi")
        far.writer.close()

    async with listening(handle) as address:
        with pytest.raises(DialFailed) as raised:
            await dial(address)
        text = f"cannot connect to {address.text}: the server closed the connection"
        assert (str(raised.value), raised.value.retryable) == (text, True)


@in_a_loop
async def test_nobody_listening_may_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DialFailed) as raised:
        await dial(parse_address(f"ws://127.0.0.1:{port}"))
    text = f"cannot connect to ws://127.0.0.1:{port}: Connection refused"
    assert (str(raised.value), raised.value.retryable) == (text, True)


@in_a_loop
async def test_silence_is_not_waited_out() -> None:
    async def handle(far: FarEnd) -> None:
        await far.reader.read()  # up to the end, which the client makes

    async with listening(handle) as address:
        with pytest.raises(DialFailed) as raised:
            await dial(address, limit=0.2 * SECOND)
        text = f"{address.text} did not answer within {0.2 * SECOND:g} s"
        assert (str(raised.value), raised.value.retryable) == (text, True)


@in_a_loop
async def test_dialling_that_is_cancelled_leaves_no_connection() -> None:
    ended = asyncio.Event()
    asked = asyncio.Event()

    async def handle(far: FarEnd) -> None:
        await far.asked()
        asked.set()
        with contextlib.suppress(ConnectionError):
            await far.reader.read()
        ended.set()

    async with listening(handle) as address:
        task = asyncio.ensure_future(dial(address))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ended.wait()


# Messages


@in_a_loop
async def test_messages_go_both_ways() -> None:
    async with connected() as (transport, recorder, far):
        transport.send(b"one", b"two")
        transport.send_parts((b"th", b"r", b"ee"))
        assert [await far.frame() for _ in range(3)] == [(TEXT, b"one"), (TEXT, b"two"), (TEXT, b"three")]
        far.say(b"text")
        far.say(b"\xff\0", BINARY)
        far.say(b"in ", 0x01)
        far.say(b"pieces", CONTINUATION)
        await recorder.until(lambda: len(recorder.messages) == 3)
        assert recorder.messages == [b"text", b"\xff\0", b"in pieces"]


@in_a_loop
async def test_message_that_comes_before_its_receiver_is_not_lost() -> None:
    early = frame(b"with the answer", masked=False)
    async with connected(early, begin=False) as (transport, recorder, far):
        far.say(b"before the receiver")
        far.say(b"", PING)
        assert await far.frame() == (PONG, b"")  # so it has been read
        transport.receiver = recorder
        transport.begin()
        assert recorder.messages == [b"with the answer", b"before the receiver"]


@in_a_loop
async def test_end_that_comes_before_its_receiver_is_told_after_the_messages() -> None:
    early = frame(b"hello", masked=False) + frame(b"\x03\xe9and goodbye", CLOSE, masked=False)
    async with connected(early, begin=False) as (transport, recorder, far):
        assert await far.closed() == (1001, "")
        transport.receiver = recorder
        transport.begin()
        await recorder.until(lambda: bool(recorder.reasons))
        assert (recorder.messages, recorder.reasons) == (
            [b"hello"],
            ["the server closed the connection: and goodbye"],
        )


@in_a_loop
async def test_large_message_leaves_in_frames_that_servers_take() -> None:
    # Row 18: the reference takes at most 16 MiB in one frame.
    message = bytes(range(256)) * (70 << 10)
    async with connected() as (transport, _, far):
        transport.send(message, b"next")
        frames = [await far.frame() for _ in range(4)]
        size = 8 << 20
        assert frames == [
            (0x01, message[:size]),
            (0x00, message[size : 2 * size]),
            (CONTINUATION, message[2 * size :]),
            (TEXT, b"next"),
        ]


@in_a_loop
async def test_what_the_server_does_not_take_is_counted_and_its_going_is_told() -> None:
    async with connected() as (transport, recorder, far):
        sent = 0
        while transport.buffered <= HIGH:
            transport.send(bytes(100_000))
            sent += 1
        assert recorder.drains == 0
        for _ in range(sent):
            assert await far.frame() == (TEXT, bytes(100_000))
        await recorder.until(lambda: recorder.drains == 1)
        assert transport.buffered <= LOW


@in_a_loop
async def test_ping_is_answered_with_its_payload() -> None:
    async with connected() as (_, recorder, far):
        far.say(b"are you there", PING)
        assert await far.frame() == (PONG, b"are you there")
        far.say(b"unasked", PONG)
        far.say(b"last")
        await recorder.until(lambda: recorder.messages == [b"last"])


# Holding back


@in_a_loop
async def test_reading_pauses_and_goes_on() -> None:
    async with connected() as (transport, recorder, far):
        transport.pause_reading()
        for number in range(20):
            far.say(b"%d" % number)
        await asyncio.sleep(0.1 * SECOND)  # an absence has no event
        assert recorder.messages == []
        transport.resume_reading()
        await recorder.until(lambda: len(recorder.messages) == 20)
        assert recorder.messages == [b"%d" % number for number in range(20)]


@in_a_loop
async def test_pause_holds_messages_that_were_read_already() -> None:
    class Pausing(Recorder):
        def message(self, data: str | bytes) -> None:
            super().message(data)
            transport.pause_reading()

    async with connected() as (transport, _, far):
        recorder = transport.receiver = Pausing()
        far.writer.write(b"".join(frame(b"%d" % number, masked=False) for number in range(5)))
        for count in range(1, 6):
            await recorder.until(lambda count=count: len(recorder.messages) == count)  # type: ignore[misc]
            assert recorder.messages == [b"%d" % number for number in range(count)]
            transport.resume_reading()


@in_a_loop
async def test_what_came_before_the_end_is_taken_first_however_long_it_waits() -> None:
    class Pausing(Recorder):
        def message(self, data: str | bytes) -> None:
            super().message(data)
            transport.pause_reading()

    async with connected() as (transport, _, far):
        recorder = transport.receiver = Pausing()
        close = frame(b"\x03\xe8done", CLOSE, masked=False)
        far.writer.write(frame(b"one", masked=False) + frame(b"two", masked=False) + close)
        assert await far.closed() == (1000, "")
        far.writer.close()
        assert (recorder.messages, recorder.reasons) == ([b"one"], [])
        transport.resume_reading()
        await recorder.until(lambda: len(recorder.messages) == 2)
        transport.resume_reading()
        await recorder.until(lambda: bool(recorder.reasons))
        assert (recorder.messages, recorder.reasons) == (
            [b"one", b"two"],
            ["the server closed the connection: done"],
        )


# The end


@in_a_loop
async def test_our_close_tells_code_and_reason_and_waits_for_nobody() -> None:
    async with connected() as (transport, recorder, far):
        transport.send(b"goodbye")
        transport.close(1002, "unreadable")
        transport.close(1000, "twice")
        transport.send(b"into the void")
        assert recorder.reasons == ["unreadable"]
        assert [await far.frame(), await far.closed()] == [(TEXT, b"goodbye"), (1002, "unreadable")]


@in_a_loop
async def test_nothing_is_delivered_after_our_close() -> None:
    class Closing(Recorder):
        def message(self, data: str | bytes) -> None:
            super().message(data)
            transport.close(1002, "enough")

    async with connected() as (transport, _, far):
        recorder = transport.receiver = Closing()
        far.writer.write(frame(b"one", masked=False) + frame(b"two", masked=False))
        assert await far.closed() == (1002, "enough")
        far.say(b"three")
        far.say(b"\x03\xe8", CLOSE)
        assert await far.reader.read() == b""
        assert (recorder.messages, recorder.reasons) == ([b"one"], ["enough"])


CLOSES = {
    "with a reason": (b"\x03\xf0go away", "go away", 1008),
    "with a code": (b"\x03\xe9", "code 1001", 1001),
    "with nothing": (b"", "code 1005", 1000),
    "with a code that may not be sent": (b"\x00\x01", "invalid close frame", 1002),
    "with half a code": (b"\x03", "invalid close frame", 1002),
    "with a reason that is no text": (b"\x03\xe8\xff", "close reason is not UTF-8", 1007),
}


@pytest.mark.parametrize(("payload", "reason", "answer"), CLOSES.values(), ids=CLOSES.keys())
def test_close_of_the_server_is_answered_and_its_reason_told(
    payload: bytes, reason: str, answer: int
) -> None:
    async def scenario() -> None:
        async with connected() as (_, recorder, far):
            far.say(payload, CLOSE)
            assert await far.closed() == (answer, "")
            await recorder.until(lambda: bool(recorder.reasons))
            assert recorder.reasons == [f"the server closed the connection: {reason}"]

    asyncio.run(scenario())


@in_a_loop
async def test_connection_that_just_ends_is_told_once() -> None:
    async with connected() as (transport, recorder, far):
        far.writer.close()
        await recorder.until(lambda: bool(recorder.reasons))
        transport.close(1000, "again")
        assert recorder.reasons == ["the connection was lost"]


def stuffed(transport: DialledTransport) -> None:
    """Sends more than a far end takes that does not read, and than the kernel holds for it."""
    while transport.buffered <= HIGH:
        transport.send(bytes(100_000))


@in_a_loop
async def test_end_is_told_although_the_server_takes_nothing_more() -> None:
    async with connected() as (transport, recorder, far):
        far.writer.transport.pause_reading()  # type: ignore[attr-defined]  # its window closes
        stuffed(transport)
        far.writer.write_eof()
        await recorder.until(lambda: bool(recorder.reasons))
        assert recorder.reasons == ["the connection was lost"]


def test_close_of_a_server_that_takes_nothing_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_a_loop
    async def scenario() -> None:
        async with connected() as (transport, recorder, far):
            far.writer.transport.pause_reading()  # type: ignore[attr-defined]
            stuffed(transport)
            far.say(b"\x03\xf0go away", CLOSE)
            await recorder.until(lambda: bool(recorder.reasons))
            assert recorder.reasons == ["the server closed the connection: go away"]

    monkeypatch.setattr("outfitter.transport.dial._CLOSE_SECONDS", 0.1 * SECOND)
    scenario()


def test_close_of_a_server_that_takes_the_rest_leaves_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_a_loop
    async def scenario() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: faults.append(told))
        async with connected() as (transport, recorder, far):
            far.writer.transport.pause_reading()  # type: ignore[attr-defined]
            stuffed(transport)
            far.say(b"\x03\xf0go away", CLOSE)
            while transport.close_code is None:
                await asyncio.sleep(0.01)
            far.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await transport.wait_ended()
            assert recorder.reasons == ["the server closed the connection: go away"]
            await asyncio.sleep(2 * patience)  # no more is done for a server that has taken all of it
        assert faults == []

    patience = 0.1 * SECOND
    monkeypatch.setattr("outfitter.transport.dial._CLOSE_SECONDS", patience)
    scenario()


@in_a_loop
async def test_connection_that_is_reset_says_so() -> None:
    async with connected() as (_, recorder, far):
        far.writer.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
        )
        far.writer.transport.abort()
        await recorder.until(lambda: bool(recorder.reasons))
        assert recorder.reasons == ["the connection was lost: Connection reset by peer"]


MASKED = "client frames must be masked, server frames must not"
BROKEN = {
    "masked": (frame(b"{}"), 1002, MASKED),
    "reserved bits": (
        frame(b"{}", 0xF1, masked=False),
        1002,
        "reserved bits are set and no extension was agreed on",
    ),
    "unknown opcode": (frame(b"", 0x83, masked=False), 1002, "unknown opcode 3"),
    "continuation of nothing": (
        frame(b"", 0x80, masked=False),
        1002,
        "continuation without a message to continue",
    ),
    "too large": (
        frame(b"{", length=(64 << 20) + 1, masked=False),
        1009,
        "message exceeds the limit of 67108864 bytes",
    ),
    "HTTP": (b"HTTP/1.1 200 OK\r\n", 1002, "reserved bits are set and no extension was agreed on"),
}


@pytest.mark.parametrize(("data", "code", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_rule_closes_with_its_code_after_what_came_before(data: bytes, code: int, reason: str) -> None:
    async def scenario() -> None:
        async with connected() as (_, recorder, far):
            far.writer.write(frame(b"before", masked=False) + data + frame(b"after", masked=False))
            assert await far.closed() == (code, reason)
            await recorder.until(lambda: bool(recorder.reasons))
            assert (recorder.messages, recorder.reasons) == ([b"before"], [reason])

    asyncio.run(scenario())


@in_a_loop
async def test_broken_rule_right_after_the_upgrade_is_told_too() -> None:
    # It is read together with the answer, before there is a receiver.
    async with connected(frame(b"masked"), begin=False) as (transport, recorder, far):
        assert await far.closed() == (1002, MASKED)
        transport.receiver = recorder
        transport.begin()
        await recorder.until(lambda: bool(recorder.reasons))
        assert (recorder.messages, recorder.reasons) == ([], [MASKED])


# Silence


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keep-alive's minutes as tenths of seconds."""
    monkeypatch.setattr(dialling, "_PING_SECONDS", 0.1 * SECOND)
    monkeypatch.setattr(dialling, "_DEAD_SECONDS", 0.2 * SECOND)


@pytest.mark.usefixtures("impatient")
def test_server_that_answers_pings_stays() -> None:
    async def scenario() -> None:
        async with connected() as (_, recorder, far):
            for _ in range(5):
                assert await far.frame() == (PING, b"")
                far.say(b"", PONG)
            assert recorder.reasons == []

    asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))


@pytest.mark.usefixtures("impatient")
def test_server_that_gives_no_sign_of_life_is_lost() -> None:
    async def scenario() -> None:
        async with connected() as (_, recorder, _far):
            await recorder.until(lambda: bool(recorder.reasons))
            assert recorder.reasons == ["the server stopped responding"]

    asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))


@pytest.mark.usefixtures("impatient")
def test_silence_of_a_connection_that_we_do_not_read_is_our_own() -> None:
    async def scenario() -> None:
        async with connected() as (transport, recorder, far):
            transport.pause_reading()
            assert await far.frame() == (PING, b"")
            far.say(b"", PONG)
            await asyncio.sleep(0.6 * SECOND)  # an absence has no event
            transport.resume_reading()
            far.say(b"still here")
            await recorder.until(lambda: bool(recorder.messages or recorder.reasons))
            assert (recorder.messages, recorder.reasons) == ([b"still here"], [])

    asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))


@in_a_loop
async def test_probe_spares_a_server_that_answers_and_ends_one_that_does_not() -> None:
    async with connected() as (transport, recorder, far):
        transport.probe(0.2 * SECOND)
        assert await far.frame() == (PING, b"")
        far.say(b"", PONG)
        await asyncio.sleep(0.3 * SECOND)  # an absence has no event
        assert recorder.reasons == []
        transport.probe(0.1 * SECOND)
        await recorder.until(lambda: bool(recorder.reasons))
        assert recorder.reasons == ["the server did not answer a ping"]


def test_a_keepalive_gives_signs_of_life_whatever_the_server_says() -> None:
    """A server that counts the seconds hears a client that only listens."""

    async def scenario() -> None:
        async with connected(keepalive=0.3 * SECOND) as (transport, recorder, far):
            far.say(b"output")
            assert await far.frame() == (PING, b"")
            transport.pause_reading()
            for _ in range(4):  # more than a silent server would get
                assert await far.frame() == (PING, b"")
            assert recorder.reasons == []

    asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))


def test_a_server_that_is_silent_for_three_beats_is_lost() -> None:
    async def scenario() -> None:
        async with connected(keepalive=0.1 * SECOND) as (_, recorder, _far):
            await recorder.until(lambda: bool(recorder.reasons))
            assert recorder.reasons == ["the server stopped responding"]

    asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))


def test_a_slower_pace_still_notices_a_ping_that_takes_too_long() -> None:
    """It does not wait for the next ping to look at the last one."""

    async def scenario() -> None:
        took: asyncio.Queue[float] = asyncio.Queue()
        async with connected(keepalive=100 * SECOND) as (transport, recorder, far):
            transport.answered = took.put_nowait
            transport.pace(100 * SECOND, 50 * SECOND)
            assert await far.frame() == (PING, b"")  # at once
            far.say(b"", PONG)
            assert await took.get() >= 0
            transport.pace(100 * SECOND, 0.1 * SECOND)
            await recorder.until(lambda: bool(recorder.reasons))
            assert recorder.reasons == ["the server did not answer a ping"]
            assert took.empty()

    asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))


class Foreign:
    """A transport of uvloop, say: it has the methods of asyncio's and not the class."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@in_a_loop
async def test_loop_of_another_library_will_do() -> None:
    made: Callable[[DialledTransport, Any], None] = DialledTransport.connection_made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DialledTransport, "connection_made", lambda self, inner: made(self, Foreign(inner)))
        async with connected() as (transport, recorder, _):
            assert (transport.close_code, recorder.reasons) == (None, [])
