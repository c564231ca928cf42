"""What a hostile service may send to an executor, row by row, to ours and to stock Codex over real sockets.

The rows are those of the relay's specification: frames that are dropped, records that end their stream, what
a handshake may be, and the limits. `Between` is registry and rendezvous in one, and has a harness's keys.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from outfitter.core.calling import Calling, Invitation
from outfitter.core.noise import PublicKey
from outfitter.core.records import MAX_MESSAGE, MAX_RECORD
from outfitter.core.streams import FAILURES, MAX_PENDING
from outfitter.protocol import relay
from outfitter.protocol.registry import PROFILE, KeyObject
from outfitter.relay.keys import Keys, encapsulate
from tests.support.machine import SECOND
from tests.support.registries import answering, reply
from tests.support.relays import dialling

HARNESS = Keys()
YES = reply({"valid": True}, 200, "Connection: close")


class Between:
    """A service that sees every frame of one executor, and sends what it wants."""

    def __init__(self) -> None:
        self.verdict: bytes | None = YES  # of the registry; None: it never says
        self.validated: list[dict[str, Any]] = []
        self._url = ""
        self._executor = PublicKey(HARNESS.public.x25519, HARNESS.public.mlkem)
        self._sockets: queue.Queue[ServerConnection] = queue.Queue()
        self._over = threading.Event()
        self._heard: dict[str, deque[relay.Frame]] = defaultdict(deque)
        self._numbers = 0
        self.socket: ServerConnection

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        options: Any = {"compression": None, "max_size": None, "ping_interval": None, "close_timeout": 1}
        with serve(self._keep, "127.0.0.1", 0, **options) as server, answering(self._answer) as registry:
            self._url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield registry.url
            finally:
                self._over.set()
                server.shutdown()
                thread.join()

    def _keep(self, socket: ServerConnection) -> None:
        self._sockets.put(socket)
        self._over.wait()

    def _answer(self, head: bytes, body: bytes) -> bytes | None:
        asked = json.loads(body)
        if b"/validate" in head:
            self.validated.append(asked)
            return self.verdict
        key = KeyObject.decode(asked["executor_public_key"])
        self._executor = PublicKey(key.x25519, key.mlkem)
        told = {"environment_id": "box", "url": self._url, "security_profile": PROFILE}
        return reply({**told, "executor_registration_id": "r1"}, 200, "Connection: close")

    def take_socket(self) -> None:
        """Waits for the executor."""
        self.socket = self._sockets.get(timeout=30 * SECOND)

    # What it sends, and what it hears

    def say(self, *frames: bytes) -> None:
        for frame in frames:
            self.socket.send(frame)

    def hear(self, stream: str) -> relay.Frame:
        """The next frame of a stream."""
        while not self._heard[stream]:
            frame = relay.decode(bytes(self.socket.recv(20 * SECOND, decode=False)))
            assert not isinstance(frame, relay.NoFrame), frame
            self._heard[frame.stream].append(frame)
        return self._heard[stream].popleft()

    def calling(self, *, authorization: str = "may", registration: str = "r1", stream: str = "") -> Calling:
        self._numbers += 1  # names of one length: a row puts one in the place of another
        invitation = Invitation("box", registration, self._executor, "ws://unused/", authorization)
        return Calling(invitation, stream or f"stream {self._numbers:04}", HARNESS, Keys(), encapsulate)

    def open(self) -> Harness:
        calling = self.calling()
        self.say(calling.opening[1])  # `resume` is not required
        answer = self.hear(calling.stream)
        assert isinstance(answer, relay.Handshake), answer
        calling.receive(relay.handshake(calling.stream, answer.payload))
        return Harness(self, calling)

    def refuses(self, stream: str) -> bool:
        return self.hear(stream) == relay.Reset(stream, relay.RESET_REASON)


class Harness:
    """One stream that is open."""

    def __init__(self, between: Between, calling: Calling) -> None:
        self.between, self.calling, self.stream = between, calling, calling.stream
        self._asked = 0
        self.seq = 0

    def record(self, plain: bytes) -> bytes:
        assert self.calling.sealer is not None
        self.seq, record = self.calling.sealer.seal(plain)
        return record

    def frame(self, plain: bytes) -> bytes:
        """The next record of the stream in its frame."""
        record = self.record(plain)
        return relay.DataWriter(self.stream).head(self.seq, len(record)) + record

    def question(self) -> bytes:
        self._asked += 1
        message = b'{"id":%d,"method":"no/such","params":{}}' % self._asked
        return len(message).to_bytes(4, "big") + message

    def message(self) -> Any:
        """The next thing that comes on the stream, which must be one message."""
        frame = self.between.hear(self.stream)
        assert isinstance(frame, relay.Data), frame
        head = relay.DataWriter(self.stream).head(frame.seq, len(frame.payload))
        [message] = self.calling.receive(head + frame.payload)
        return json.loads(message)

    def hears(self, count: int = 1) -> None:
        """Its last questions are answered, in order, and nothing else has come."""
        for number in range(self._asked - count + 1, self._asked + 1):
            assert self.message()["id"] == number

    def goes_on(self) -> None:
        self.between.say(self.frame(self.question()))
        self.hears()


@contextlib.contextmanager
def executing(kind: str, home: Path) -> Iterator[Between]:
    between = Between()
    with between.serving() as url, dialling(kind, home, url, "box", "a-token-of-some-length"):
        between.take_socket()
        yield between


KINDS = ["outfitter", "codex"]


@pytest.fixture(scope="module", params=KINDS)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Between, Harness]]:
    """An executor of each kind, and a stream that nobody may hurt."""
    with executing(request.param, tmp_path_factory.mktemp("rows")) as between:
        yield request.param, between, between.open()


def field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 2, len(content))) + content


def head(stream: str, version: int = 1) -> bytes:
    return bytes((0x08, version)) + field(2, stream.encode())


def data(stream: str, body: str) -> bytes:
    """A record's frame whose body is written out."""
    return head(stream) + field(5, bytes.fromhex(body))


# 6: what is no frame, and what asks for nothing. The stream that it names hears nothing of it.
DROPPED: dict[str, Callable[[str], bytes | str]] = {
    "another version": lambda s: head(s, 2) + field(8, field(1, b"bye")),
    "no version": lambda s: head(s)[2:] + field(8, field(1, b"bye")),
    "no stream": lambda s: head("")[:2] + field(8, field(1, b"bye")),
    "a blank stream": lambda s: head("  ") + field(8, field(1, b"bye")),
    "no body": head,
    "an empty handshake": lambda s: head(s) + field(10, b""),
    "an empty record": lambda s: data(s, "1801"),
    "no segments": lambda s: data(s, "220161"),
    "two segments": lambda s: data(s, "1802 220161"),
    "the second segment": lambda s: data(s, "1001 1801 220161"),
    "a reset without a reason": lambda s: head(s) + field(8, b""),
    "no protobuf": lambda s: b"\xff\xff",
    "half a frame": lambda s: relay.reset(s)[:-1],
    "a text": lambda s: relay.reset(s).decode(),
    "an acknowledgement": lambda s: head(s) + field(6, b""),
    "a heartbeat": lambda s: head(s) + field(9, b""),
    "resume": lambda s: head(s) + field(7, b"\x08\x07"),
    "nothing": lambda s: b"",
}


@pytest.mark.parametrize("what", DROPPED)
def test_what_is_dropped_without_a_word(what: str, place: tuple[str, Between, Harness]) -> None:
    _, between, _ = place
    one = between.open()
    between.socket.send(DROPPED[what](one.stream))
    one.goes_on()


# 6 and 8: what is odd, and right all the same. Each row returns how many questions it has asked.


def acknowledging(one: Harness) -> int:
    frame = one.frame(one.question())
    extra = bytes.fromhex("1805 2006") + field(11, b"00-x") + field(12, b"y") + field(13, b"?")
    start = len(head(one.stream))
    one.between.say(frame[:start] + extra + frame[start:])
    return 1


def split(one: Harness) -> int:
    text = one.question()
    one.between.say(*(one.frame(text[place : place + 7]) for place in range(0, len(text), 7)))
    return 1


def together(one: Harness) -> int:
    one.between.say(one.frame(one.question() + one.question()))
    return 2


def empty(one: Harness) -> int:
    one.between.say(one.frame(b""), one.frame(one.question()))
    return 1


def reordered(one: Harness) -> int:
    first, *others = [one.frame(one.question()) for _ in range(65)]
    one.between.say(*reversed(others), first)
    return 65


def twice(one: Harness) -> int:
    frames = [one.frame(one.question()) for _ in range(3)]
    changed = frames[2][:-1] + bytes((frames[2][-1] ^ 1,))
    one.between.say(frames[0], frames[0], frames[2], changed, frames[1], frames[2], frames[0])
    return 3


def full(one: Harness) -> int:
    text = one.question()[4:]
    text = text[:-1] + b" " * (MAX_RECORD - 4 - len(text)) + b"}"
    one.between.say(one.frame(len(text).to_bytes(4, "big") + text))
    return 1


def shaken_again(one: Harness) -> int:
    one.between.say(one.between.calling(stream=one.stream).opening[1])
    assert one.between.refuses(one.stream)  # and yet it goes on
    one.between.say(one.frame(one.question()))
    return 1


@pytest.mark.parametrize("row", [acknowledging, split, together, empty, reordered, twice, full, shaken_again])
def test_what_is_odd_and_right(row: Callable[[Harness], int], place: tuple[str, Between, Harness]) -> None:
    one = place[1].open()
    one.hears(row(one))
    one.goes_on()


# 8: what ends its stream, with one reset, and no other stream.


def damaged(one: Harness) -> list[bytes]:
    frame = one.frame(one.question())
    return [frame[:-1] + bytes((frame[-1] ^ 1,))]


def short(one: Harness) -> list[bytes]:
    return [relay.DataWriter(one.stream).head(0, 15) + bytes(15)]


def of_another_stream(one: Harness) -> list[bytes]:
    other = one.between.open()
    return [other.frame(other.question()).replace(other.stream.encode(), one.stream.encode())]


def far_ahead(one: Harness) -> list[bytes]:
    return [one.frame(one.question()) for _ in range(66)][-1:]


def too_much_held(one: Harness) -> list[bytes]:
    return [one.frame(bytes(MAX_RECORD)) for _ in range(19)][1:]


FATAL: dict[str, Callable[[Harness], list[bytes]]] = {
    "a record that was changed": damaged,
    "a record without a tag": short,
    "a record of another stream": of_another_stream,
    "a record beyond those that may be missing": far_ahead,
    "more than is held": too_much_held,
    "a record that is too long": lambda one: [one.frame(bytes(MAX_RECORD + 1))],
    "a message of no bytes": lambda one: [one.frame(bytes(4))],
    "a message of more than 64 MiB": lambda one: [one.frame((MAX_MESSAGE + 1).to_bytes(4, "big"))],
}


@pytest.mark.parametrize("what", FATAL)
def test_what_ends_its_stream_alone(what: str, place: tuple[str, Between, Harness]) -> None:
    _, between, unhurt = place
    one = between.open()
    between.say(*FATAL[what](one))
    assert between.refuses(one.stream)
    between.say(one.frame(one.question()))  # it is forgotten: this is refused as that of anybody
    assert between.refuses(one.stream)
    unhurt.goes_on()


def test_a_message_that_is_no_json_is_answered_where_the_reference_ends_the_stream(
    place: tuple[str, Between, Harness],
) -> None:
    kind, between, unhurt = place
    one = between.open()
    between.say(one.frame(b"\x00\x00\x00\x03{]}"))
    if kind == "codex":
        assert between.refuses(one.stream)
    else:
        assert one.message()["error"]["code"] == -32600
        one.goes_on()
    unhurt.goes_on()


# 9: what comes on streams that nobody has opened, or that are over.


def test_what_comes_on_an_unknown_stream_opens_none(place: tuple[str, Between, Harness]) -> None:
    _, between, unhurt = place
    before = len(between.validated)
    between.say(head("nobody") + field(7, b""), relay.reset("nobody"), head("nobody") + field(9, b""))
    between.say(relay.DataWriter("nobody").head(0, 2) + b"{}")  # as of a relay without encryption
    assert between.refuses("nobody")
    unhurt.goes_on()
    assert len(between.validated) == before


def test_a_stream_that_is_reset_is_over_and_its_name_is_free(place: tuple[str, Between, Harness]) -> None:
    _, between, unhurt = place
    one = between.open()
    between.say(relay.reset(one.stream, "\x1b[2J of anybody"))
    unhurt.goes_on()
    between.say(one.frame(one.question()))
    assert between.refuses(one.stream)  # and before that there was no answer to the reset
    between.say(between.calling(stream=one.stream).opening[1])
    assert isinstance(between.hear(one.stream), relay.Handshake)


# 9 and 11: who fails, how often, and how many may wait. Each executor is its own: failures are of a socket.


@pytest.mark.parametrize("kind", KINDS)
def test_failed_handshakes_are_counted_and_the_eighth_has_everybody_wait(kind: str, tmp_path: Path) -> None:
    """The 10 s themselves are in tests/core/test_streams.py."""
    with executing(kind, tmp_path) as between:
        unhurt = between.open()

        def fails(calling: Calling, *more: bytes) -> None:
            between.say(calling.opening[1], *more)
            assert between.refuses(calling.stream)

        asked = len(between.validated)
        between.say(relay.handshake("bad", bytes(3600)))
        assert between.refuses("bad")
        fails(between.calling(registration="another"))  # another prologue
        fails(between.calling(authorization="x" * 4097))
        assert len(between.validated) == asked  # of these, the registry hears nothing
        for no in (reply({"valid": False}, 200, "Connection: close"), reply(b"{", 200, "Connection: close")):
            between.verdict = no
            fails(between.calling())
        between.verdict = reply(b"", 503, "Connection: close")
        fails(between.calling())
        between.verdict = None
        waiting = between.calling()
        fails(waiting, relay.DataWriter(waiting.stream).head(0, 1) + b"x")
        between.verdict = YES
        between.open()  # seven have failed, and this does not make them good
        unhurt.goes_on()
        between.say(relay.handshake("bad", b"x"))
        assert between.refuses("bad")
        good = between.calling(authorization="too late")
        fails(good)
        unhurt.goes_on()
        assert "too late" not in [one["harness_key_authorization"] for one in between.validated]
        assert FAILURES == 8


@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_registry_keeps_32_waiting_and_nobody_else(kind: str, tmp_path: Path) -> None:
    with executing(kind, tmp_path) as between:
        unhurt = between.open()
        between.verdict = None
        for _ in range(MAX_PENDING):
            between.say(between.calling().opening[1])
        more = between.calling()
        between.say(more.opening[1])
        assert between.refuses(more.stream)
        unhurt.goes_on()
        between.socket.send(bytes(262_144))
        unhurt.goes_on()
        with contextlib.suppress(ConnectionClosed):
            between.socket.send(bytes(262_145))
            while True:
                between.socket.recv(20 * SECOND)
        between.take_socket()  # the executor has left, and comes back
