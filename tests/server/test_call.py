"""A request on its way to its answer: faults, answers that come later, connections that are lost first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from outfitter.core.peer import WAITING_LIMIT
from outfitter.errors import FileFailed, Refused
from outfitter.loop import EpollLoop
from outfitter.pace import Pace
from outfitter.protocol.jsonrpc import Request
from outfitter.protocol.results import DONE, Written
from outfitter.protocol.wishes import WaitingNotice
from outfitter.server.call import LATER, Call
from outfitter.server.connection import Connection
from outfitter.server.files import FileWork
from outfitter.server.limits import ANSWERS_BYTES
from outfitter.server.services import Services
from outfitter.server.session import Session
from outfitter.server.settings import ServerSettings


class Wire:
    """A transport that keeps what it is given."""

    receiver: Connection
    has_room = True

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.buffered = 0
        self.reading = True
        self.closed: tuple[int, str] | None = None

    def send(self, *messages: bytes) -> None:
        self.sent += messages

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        self.sent += [b"".join(parts) for parts in messages]

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    def take(self) -> list[Any]:
        sent, self.sent = self.sent, []
        return [json.loads(message) for message in sent]


@pytest.fixture
def services() -> Iterator[Services]:
    loop = EpollLoop()
    services = Services(loop, ServerSettings(), {}, retains=False, base="daemon", pace=Pace())
    yield services
    services.stop()
    loop.close()


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def gone() -> list[Connection]:
    return []


@pytest.fixture
def connection(services: Services, wire: Wire, gone: list[Connection]) -> Connection:
    return Connection(services, wire, gone.append)  # type: ignore[arg-type]


def call(connection: Connection, ident: int = 7) -> Call:
    return Call(connection, Request(ident, "test/method", None, None))


INTERNAL = {"code": -32603, "message": "internal error", "data": {"error": "internal-error"}}


def test_an_answer_may_come_whole_or_in_parts(connection: Connection, wire: Wire) -> None:
    call(connection).run(lambda *_: DONE, None)
    call(connection).run(lambda *_: Written([b'{"a":', b"1}"]), None)
    assert wire.take() == [{"id": 7, "result": {}}, {"id": 7, "result": {"a": 1}}]


SECRET = "hush"


def fails(*_: object) -> Any:
    raise ValueError(SECRET)


def test_a_fault_of_ours_is_answered_and_logged_without_its_text(
    connection: Connection, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    call(connection).run(fails, None)
    assert wire.take() == [{"error": INTERNAL, "id": 7}]
    assert "test/method failed: internal error, ValueError" in caplog.text
    assert "in fails" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("state", ["vendor=one\t,b=2", "vendor=x\x1b[31m", "a\n! forged", "é=1", "x" * 1024])
def test_a_trace_that_no_header_can_carry_is_left_out(state: str, connection: Connection) -> None:
    """OpenTelemetry writes members that it cannot read to the log as they are."""
    trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": state, "other": "\n"}
    call = Call(connection, Request(1, "environment/status", None, trace))
    kept = {name: trace[name] for name in ("traceparent", "tracestate")}
    assert call.trace == (kept if state.startswith("vendor=one") else None)


def test_a_refusal_says_what_it_says(connection: Connection, wire: Wire) -> None:
    for error in (Refused("no"), FileFailed("gone", "ENOENT")):
        call(connection).refuse(error)
    first, second = wire.take()
    assert first == {"error": {"code": -32600, "message": "no", "data": {"error": "refused"}}, "id": 7}
    assert (second["error"]["code"], second["error"]["data"]["errno"]) == (-32004, "ENOENT")


def test_an_answer_may_come_later_and_its_id_is_taken_until_then(connection: Connection, wire: Wire) -> None:
    one = call(connection)
    one.run(lambda later, _: later.later(), None)
    assert wire.take() == []
    with pytest.raises(Refused, match="still in use"):
        connection.peer.may_reuse(7)
    one.answer(DONE)
    connection.peer.may_reuse(7)
    assert wire.take() == [{"id": 7, "result": {}}]


def test_one_that_waits_again_waits_once(connection: Connection, wire: Wire) -> None:
    one = call(connection)
    assert one.later() is one.later() is LATER
    one.done(DONE, None)
    assert wire.take() == [{"id": 7, "result": {}}]
    assert connection.peer.waiting == set()


def test_what_came_of_work_in_a_thread_is_answered_or_refused(connection: Connection, wire: Wire) -> None:
    one, other = call(connection, 1), call(connection, 2)
    one.later()
    other.later()
    one.done(None, Refused("no"))
    other.done(DONE, None)
    assert [sorted(message) for message in wire.take()] == [["error", "id"], ["id", "result"]]


def test_a_fault_after_file_work_is_answered_too(
    services: Services, connection: Connection, wire: Wire
) -> None:
    loop = services.loop
    assert isinstance(loop, EpollLoop)

    def end() -> None:
        if wire.sent:
            loop.stop()
        else:
            loop.call_later(0.001, end)

    connection.session = Session("s", 0, "somebody", services.sessions)
    FileWork(connection, services).run(call(connection), lambda: None, finish=fails)
    end()
    loop.run()
    assert wire.take() == [{"error": INTERNAL, "id": 7}]


def test_too_many_that_wait_are_refused(connection: Connection, wire: Wire) -> None:
    for ident in range(WAITING_LIMIT):
        call(connection, ident).later()
    call(connection, -1).run(lambda later, _: later.later(), None)
    [refused] = wire.take()
    assert refused["error"]["data"] == {"error": "refused"}


def test_a_lost_connection_cancels_what_waits_and_hears_nothing_more(
    connection: Connection, wire: Wire, gone: list[Connection]
) -> None:
    cancelled: list[int] = []
    for ident in (1, 2):
        call(connection, ident).later(lambda ident=ident: cancelled.append(ident))  # type: ignore[misc]
    over = call(connection, 3)
    over.later(lambda: cancelled.append(3))
    over.answer(DONE)
    wire.take()
    waiting = call(connection, 4)
    waiting.later()
    connection.lost("gone")
    assert (sorted(cancelled), gone) == ([1, 2], [connection])
    waiting.answer(DONE)
    waiting.refuse(Refused("no"))
    waiting.tell(WaitingNotice("p", "nothing"))
    assert (wire.take(), waiting.open) == ([], False)


class Kept:
    """A feature that notes what it is told."""

    def __init__(self, channel: object, services: object) -> None:
        self.told: list[str] = []

    def drained(self) -> None:
        self.told.append("drained")

    def lost(self) -> None:
        self.told.append("lost")


def test_a_feature_is_made_once_and_told_of_room_and_of_the_end(connection: Connection) -> None:
    kept = call(connection).feature(Kept)
    assert call(connection).feature(Kept) is kept
    connection.drained()
    connection.lost("gone")
    assert kept.told == ["drained", "lost"]


def test_reading_goes_on_when_the_last_reason_not_to_is_gone(connection: Connection, wire: Wire) -> None:
    connection.hold("a", True)
    connection.hold("a", True)
    connection.hold("b", True)
    connection.hold("a", False)
    assert not wire.reading
    connection.hold("b", False)
    assert wire.reading
    connection.hold("b", False)


def test_a_peer_that_does_not_read_its_answers_is_not_read(connection: Connection, wire: Wire) -> None:
    wire.buffered = ANSWERS_BYTES + 1
    call(connection).answer(DONE)
    call(connection).answer(Written([b"{}"]))
    assert not wire.reading
    connection.drained()
    assert wire.reading


def test_a_fault_outside_of_a_handler_ends_the_connection_alone(
    connection: Connection, wire: Wire, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.services.pace, "asked", fails)
    connection.message(b"{}")
    assert wire.closed == (1011, "internal error")
    assert "a message could not be handled: internal error, ValueError" in caplog.text
    assert SECRET not in caplog.text
