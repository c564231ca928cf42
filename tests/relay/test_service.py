"""The service over real sockets: who is let in, where frames go, and what is never lost or reordered."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection as Connection
from websockets.sync.client import connect

from outfitter.protocol import relay
from outfitter.protocol.registry import PROFILE, ConnectParams, RegisterParams
from outfitter.relay import service as service_module
from tests.support.machine import wait_until
from tests.support.relays import KEY, Hosted, hosting, open_socket

SECONDS = 20.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosting(tmp_path_factory.mktemp("service") / "store") as hosted:
        yield hosted


@pytest.fixture
def box(place: Hosted, request: pytest.FixtureRequest) -> Iterator[Box]:
    with Box(place, f"box{abs(hash(request.node.name))}") as one:
        yield one


class Box:
    """An executor's socket, and harnesses of it."""

    def __init__(self, place: Hosted, name: str) -> None:
        self.place, self.name = place, name
        self.token, self.user = place.token(name, "execute"), place.token(name, "use")
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Box:
        self.executor = self._open.enter_context(self.place.executor(self.token, self.name))
        return self

    def harness(self) -> Connection:
        return self._open.enter_context(self.place.harness(self.user, self.name))

    def __exit__(self, *_: object) -> None:
        self._open.close()


def data(stream: str, seq: int, size: int = 1) -> bytes:
    return relay.DataWriter(stream).head(seq, size) + b"x" * size


def how_it_ended(one: Connection) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            one.recv(SECONDS)
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


def test_rule_1_a_new_executor_takes_the_place_of_the_old(box: Box) -> None:
    harness = box.harness()
    with open_socket(url_of(box)) as second:
        assert how_it_ended(box.executor) == (1000, "another executor took this one's place")
        assert how_it_ended(harness)[0] == 1012
        third = box.harness()
        third.send(relay.resume("s"))
        assert second.recv(SECONDS) == relay.resume("s")
        assert box.place.knows(box.name)


def url_of(box: Box) -> str:
    """The URL that an executor dials again."""
    rows = box.place.store.rows("SELECT id, principal FROM registrations WHERE environment = ?", box.name)
    return box.place.authority._ticket("environment", box.name, *rows[0])


def test_rules_2_and_3_frames_go_unchanged_both_ways(box: Box) -> None:
    one, other = box.harness(), box.harness()
    odd = b"\x12\x01s\x08\x01\xfa\x07\x01z\x3a\x00"  # another order, and a field that nobody knows
    one.send(odd)
    assert box.executor.recv(SECONDS) == odd
    box.executor.send(data("nobody's", 0))
    box.executor.send(data("s", 0))
    assert one.recv(SECONDS) == data("s", 0)
    other.send(data("s", 7))
    assert how_it_ended(other) == (1008, "the stream belongs to another connection")
    one.send(data("s", 1))
    assert box.executor.recv(SECONDS) == data("s", 1)


def test_rule_4_a_harness_that_is_lost_ends_its_streams(box: Box) -> None:
    one = box.harness()
    one.send(relay.resume("s"))
    box.executor.recv(SECONDS)
    one.socket.shutdown(socket.SHUT_RDWR)
    assert box.executor.recv(SECONDS) == relay.reset("s")


def test_rule_5_an_executor_that_is_lost_ends_its_harnesses(box: Box) -> None:
    one = box.harness()
    box.executor.socket.shutdown(socket.SHUT_RDWR)
    assert how_it_ended(one) == (1012, "the executor's connection was lost")
    wait_until(lambda: not box.place.knows(box.name), "the store knows")


def test_rule_6_a_harness_without_an_executor_is_sent_away(box: Box) -> None:
    url = box.place.authority.connect(box.user, box.name, ConnectParams(KEY)).url
    box.executor.close()
    wait_until(lambda: not box.place.knows(box.name), "the store knows")
    with open_socket(url) as late:
        assert how_it_ended(late) == (1012, "the executor is not connected")


def test_rule_7_what_nobody_reads_yet_is_neither_lost_nor_reordered(box: Box) -> None:
    one = box.harness()
    one.send(relay.resume("s"))
    box.executor.recv(SECONDS)
    for seq in range(100):  # 10 MB: more than any buffer between takes
        box.executor.send(data("s", seq, 250_000 if seq < 40 else 1))
    assert [relay.decode(one.recv(SECONDS)).seq for _ in range(100)] == list(range(100))  # type: ignore


def test_rule_7_a_harness_that_takes_nothing_is_let_go_and_others_go_on(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "_SLOW_SECONDS", 0.3)
    slow, good = raw_harness(box), box.harness()
    slow.sendall(masked(relay.resume("slow")))
    good.send(relay.resume("good"))
    for _ in range(2):
        box.executor.recv(SECONDS)
    reset = relay.reset("slow")
    for seq in range(200):
        box.executor.send(data("slow", seq, 250_000))
    box.executor.send(data("good", 0))
    assert good.recv(SECONDS) == data("good", 0)
    assert box.executor.recv(SECONDS) == reset
    slow.close()


def raw_harness(box: Box) -> socket.socket:
    """A harness with a small buffer, which reads nothing."""
    url = box.place.authority.connect(box.user, box.name, ConnectParams(KEY)).url
    path = url.split(f":{box.place.port}", 1)[1]
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(SECONDS)
    sock.connect(("127.0.0.1", box.place.port))
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{box.place.port}", "Upgrade: websocket"]
    lines += [
        "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version: 13",
    ]
    sock.sendall("\r\n".join([*lines, "", ""]).encode())
    said = b""
    while b"\r\n\r\n" not in said:
        said += sock.recv(1)
    assert said.startswith(b"HTTP/1.1 101")
    return sock


def masked(payload: bytes) -> bytes:
    assert len(payload) < 126
    return bytes([0x82, 0x80 | len(payload)]) + bytes(4) + payload


def test_rule_8_the_ninth_stream_of_a_socket_is_reset(box: Box) -> None:
    one = box.harness()
    for number in range(9):
        one.send(relay.resume(f"s{number}"))
    assert one.recv(SECONDS) == relay.reset("s8")


@pytest.mark.parametrize("who", ["executor", "harness"])
def test_text_is_no_frame(who: str, box: Box) -> None:
    one = box.executor if who == "executor" else box.harness()
    one.send("text")
    assert how_it_ended(one) == (1003, "relay frames are binary messages")


def test_a_message_has_262144_bytes_at_most(box: Box) -> None:
    one = box.harness()
    head = len(data("s", 0, 0)) + 2 + 2  # lengths take two bytes more each
    largest = data("s", 0, 262_144 - head)
    assert len(largest) == 262_144
    one.send(largest)
    assert box.executor.recv(SECONDS) == largest
    one.send(largest + b"x")
    assert how_it_ended(one)[0] == 1009


def test_who_was_revoked_is_let_go_and_cannot_come_back(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_REVOKED_SECONDS", 0.1)
    authority = box.place.authority
    one, url = box.harness(), authority.connect(box.user, box.name, ConnectParams(KEY)).url
    one.send(relay.resume("s"))
    box.executor.recv(SECONDS)
    authority.revoke(authority.principal_of(box.user))
    assert how_it_ended(one) == (1008, "who opened this connection was revoked")
    assert box.executor.recv(SECONDS) == relay.reset("s")
    with pytest.raises(InvalidStatus, match="401"):
        open_socket(url)
    own = url_of(box)
    authority.revoke(authority.principal_of(box.token))
    assert how_it_ended(box.executor) == (1008, "who opened this connection was revoked")
    with pytest.raises(InvalidStatus, match="401"):
        open_socket(own)


def test_a_ticket_of_an_older_registration_is_refused_with_4xx(box: Box) -> None:
    old = url_of(box)
    with box.place.executor(box.token, box.name), pytest.raises(InvalidStatus, match="401"):
        open_socket(old)


@pytest.mark.parametrize("query", ["", "?role=harness", "?role=environment&registration=x&principal=y&sig=z"])
def test_without_a_ticket_nobody_is_let_in(query: str, box: Box) -> None:
    url = f"ws://127.0.0.1:{box.place.port}/cloud/environment/{box.name}/rendezvous{query}"
    with pytest.raises(InvalidStatus, match="401"):
        open_socket(url)


def test_pages_of_a_browser_are_not_served(box: Box) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        connect(url_of(box), origin="https://page.example")  # type: ignore[arg-type]


def test_a_store_that_fails_is_no_reason_to_give_up(tmp_path: Path) -> None:
    with hosting(tmp_path / "store") as place:
        params = RegisterParams(PROFILE, KEY)
        url = place.authority.register(place.token("box", "execute"), "box", params).url
        place.store.change("DROP TABLE rights")
        with pytest.raises(InvalidStatus, match="503"):
            open_socket(url)


def test_the_store_forgets_what_has_expired_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "PRUNE_SECONDS", 0.01)
    with hosting(tmp_path / "store") as place:
        for _ in range(2):
            place.store.change("INSERT INTO codes VALUES ('x', 'somebody', 'box', 'use', 1)")
            known = "SELECT 1 FROM codes WHERE digest = 'x'"
            wait_until(lambda: not place.store.rows(known), "the code is forgotten")  # noqa: B023
