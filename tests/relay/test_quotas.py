"""What the service refuses to give anybody more of, over real sockets, and what it counts."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.core.rates import Rate, Rates
from outfitter.loop import EpollLoop
from outfitter.observe.relaying import relay_metrics
from outfitter.protocol import relay
from outfitter.protocol.registry import PROFILE, ConnectParams, KeyObject, RegisterParams, ValidateParams
from outfitter.relay import service as service_module
from outfitter.relay.asking import StoreThread
from outfitter.relay.authority import EXECUTE, USE, Authority
from outfitter.relay.keys import Keys
from outfitter.relay.limits import RelayRoom
from outfitter.relay.service import Service
from outfitter.relay.store import SqliteStore
from outfitter.transport.sockets import TcpPlace
from tests.support.machine import wait_until

_PUBLIC = Keys().public
KEY = KeyObject(_PUBLIC.x25519, _PUBLIC.mlkem)
REGISTER = RegisterParams(PROFILE, KEY).encode()
CONNECT = ConnectParams(KEY).encode()


class Place:
    """A service in a thread of its own, with the executor of `box` and a user of it."""

    def __init__(self, path: Path, limits: RelayRoom | None = None) -> None:
        self.loop = EpollLoop()
        place = TcpPlace("127.0.0.1", 0)
        sock = place.listen()
        self.port = sock.getsockname()[1]
        self.store = SqliteStore(str(path))
        self.authority = Authority(self.store, time.time, f"ws://127.0.0.1:{self.port}")
        self.executor, self.user = self.token(EXECUTE), self.token(USE)
        self.service = Service(self.loop, sock, self.authority, limits=limits)
        self._thread = threading.Thread(target=self.loop.run)
        self._thread.start()
        self._open: list[socket.socket] = []

    def token(self, role: str) -> str:
        return self.authority.enrol(self.authority.code("somebody", "box", role)).token

    def call(self, what: str, token: str, body: Any) -> tuple[int, dict[str, str], Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {token}"}
        connection.request("POST", f"/cloud/environment/box/{what}", json.dumps(body), headers)
        response = connection.getresponse()
        said = json.loads(response.read())
        connection.close()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, said

    def dial(self, url: str) -> tuple[bytes, socket.socket]:
        """The head of the answer to an upgrade, and the socket."""
        path = url.split(str(self.port), 1)[1]
        one = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self._open.append(one)
        key = base64.b64encode(os.urandom(16)).decode()
        one.sendall(
            f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        return one.recv(4096), one

    def attach(self) -> socket.socket:
        """The executor's socket."""
        head, one = self.dial(self.call("register", self.executor, REGISTER)[2]["url"])
        assert head.startswith(b"HTTP/1.1 101 "), head
        attached = "SELECT 1 FROM attachments WHERE environment = 'box'"
        wait_until(lambda: bool(self.store.rows(attached)), "the store knows the executor")
        return one

    def join(self) -> tuple[bytes, socket.socket]:
        """A harness's socket."""
        return self.dial(self.call("connect", self.user, CONNECT)[2]["url"])

    def block(self, release: threading.Event) -> None:
        """The store answers nobody until it is released."""
        begun = threading.Event()

        def work() -> None:
            begun.set()
            release.wait(600)

        self.service._asking.tell(work, lambda *_: None)
        assert begun.wait(600)

    def close(self) -> None:
        for one in self._open:
            one.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.service.stop()
        self.service.leave("over")
        self.service.settle()
        self.store.close()

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        found = response.status, response.read()
        connection.close()
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path / "store")
    yield one
    one.close()


def test_a_principal_that_calls_too_often_is_told_when_to_come_again(place: Place) -> None:
    place.authority._rates["register"] = Rates(Rate(minute=1, burst=1))
    assert place.call("register", place.executor, REGISTER)[0] == 200
    status, headers, said = place.call("register", place.executor, REGISTER)
    assert (status, said["error"]["code"]) == (429, "too_many_calls")
    assert 58 <= int(headers["retry-after"]) <= 61
    assert place.call("connect", place.user, CONNECT)[0] == 409, "another principal, another call"
    assert place.service.counts.refused == {"rate": 1, "offline": 1}


def test_wrong_tokens_are_answered_later_and_later_and_right_ones_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    failed = place.service.attempts.failed
    monkeypatch.setattr(place.service.attempts, "failed", lambda source: waits.append(failed(source)) or 0.0)
    for _ in range(6):
        assert place.call("register", "wrong", REGISTER)[0] == 401
    assert place.call("register", place.executor, REGISTER)[0] == 200
    assert waits == [0.0, 0.0, 0.0, 0.05, 0.1, 0.2]
    assert place.service.counts.refused == {"token": 6}


def test_urls_that_are_made_up_count_as_failures_of_their_source(place: Place) -> None:
    for _ in range(4):
        head, _one = place.dial(
            f"ws://127.0.0.1:{place.port}/cloud/environment/box/rendezvous?role=harness&sig=x"
        )
        assert head.startswith(b"HTTP/1.1 401 ")
    assert place.service.attempts.failed("127.0.0.1") == 0.1, "the fourth has waited already"
    assert place.service.counts.refused == {"url": 4}


def test_no_more_made_up_urls_are_kept_waiting_than_there_may_be_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "store", RelayRoom(files=99, sockets=1, api=1, tunnels=1, strangers=2))
    monkeypatch.setattr(place.service.attempts, "failed", lambda source: 600.0)
    request = (
        b"GET /cloud/environment/box/rendezvous?role=harness&sig=x HTTP/1.1\r\nHost: x\r\n"
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    try:
        waiting = []
        for count in range(1, 4):
            one = socket.create_connection(("127.0.0.1", place.port), timeout=30)
            waiting.append(one)
            one.sendall(request)
            wait_until(lambda: place.service.counts.refused.get("url") == count, "it is refused")  # noqa: B023
        assert waiting[0].recv(4096).startswith(b"HTTP/1.1 401 "), "the oldest hears it now"
        assert len(place.service._late) == 2
        later = [one for one in place.loop._timers if one.callback == place.service._refuse_now]
        assert len(later) == 2, "and hears it once"
        for one in waiting:
            one.close()
    finally:
        place.close()


def test_one_has_only_so_many_sockets_and_gets_another_for_each_it_closes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "SOCKETS_PER_PRINCIPAL", 2)
    place.attach()
    (_, first), (head, _second) = place.join(), place.join()
    assert head.startswith(b"HTTP/1.1 101 ")
    head, _third = place.join()
    assert head.startswith(b"HTTP/1.1 429 ") and b"you have 2 connections" in head
    first.close()
    wait_until(lambda: place.service.open_sockets["harness"] == 1, "the service has noticed")
    assert place.join()[0].startswith(b"HTTP/1.1 101 ")
    assert place.service.counts.refused == {"share": 1}


ELSEWHERE = "INSERT INTO attachments (environment, instance, since) VALUES ('box', ?, 0)"


def test_a_harness_reaches_an_executor_of_another_service_through_one_tunnel_at_a_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    near = Place(tmp_path / "store", RelayRoom(files=99, sockets=8, api=8, tunnels=1, strangers=8))
    far = Place(tmp_path / "store")
    near.authority.instance, far.authority.instance = "near", f"127.0.0.1:{far.port}"
    try:
        executor = far.attach()
        head, harness = near.join()
        assert head.startswith(b"HTTP/1.1 101 ")
        frame = relay.resume("a stream")
        harness.sendall(b"\x82" + bytes((0x80 | len(frame),)) + bytes(4) + frame)
        assert executor.recv(4096).endswith(frame)
        assert near.join()[0].startswith(b"HTTP/1.1 503 ")
        assert near.service.counts.refused == {"full": 1}
        assert "all 1 of tunnels to other services are taken, with 99 open files allowed" in caplog.text
        harness.close()
        wait_until(lambda: not near.service.open_sockets["tunnel"], "the tunnel has ended")
        assert near.join()[0].startswith(b"HTTP/1.1 101 ")
    finally:
        near.close()
        far.close()


@pytest.mark.parametrize(("sockets", "each", "status"), [(2, 256, b"503"), (8, 1, b"429")])
def test_who_waits_for_a_slow_store_counts_as_who_is_admitted(
    sockets: int, each: int, status: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "SOCKETS_PER_PRINCIPAL", each)
    monkeypatch.setattr(StoreThread.ask, "__defaults__", (600.0,))
    place = Place(tmp_path / "store", RelayRoom(files=99, sockets=sockets, api=8, tunnels=1, strangers=8))
    release = threading.Event()
    try:
        place.attach()
        url = place.call("connect", place.user, CONNECT)[2]["url"]
        place.block(release)
        said: list[bytes] = []
        waiting = threading.Thread(target=lambda: said.append(place.dial(url)[0]))
        waiting.start()
        wait_until(lambda: len(place.service._asking) == 1, "it waits for the store")
        assert place.dial(url)[0].split(b" ")[1] == status
        release.set()
        waiting.join()
        assert said[0].startswith(b"HTTP/1.1 101 ")
        assert place.dial(url)[0].split(b" ")[1] == status, "it has its place now"
    finally:
        release.set()
        place.close()


@pytest.mark.parametrize(("tunnels", "each", "status"), [(1, 256, b"503"), (8, 1, b"429")])
def test_a_service_that_does_not_answer_takes_no_more_threads_and_descriptors_than_tunnels_may_have(
    tunnels: int, each: int, status: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dials: list[Any] = []
    monkeypatch.setattr(service_module, "dial", lambda loop, where, done: dials.append((where, done)))
    monkeypatch.setattr(service_module, "SOCKETS_PER_PRINCIPAL", each)
    place = Place(tmp_path / "store", RelayRoom(files=99, sockets=8, api=8, tunnels=tunnels, strangers=8))
    try:
        place.call("register", place.executor, REGISTER)
        place.store.change(ELSEWHERE, "192.0.2.1:9")
        said: list[bytes] = []
        for count in (1, 2):
            waiting = threading.Thread(target=lambda: said.append(place.join()[0]))
            waiting.start()
            wait_until(lambda: len(dials) == count, "the other service is dialled")  # noqa: B023
            assert place.join()[0].split(b" ")[1] == status
            where, done = dials[-1]
            assert where == "192.0.2.1:9"
            place.loop.call_soon_threadsafe(done, None)
            waiting.join()
            assert b"the service that has the executor does not answer" in said[-1]
    finally:
        place.close()


def test_a_full_table_is_refused_with_503_and_the_log_names_the_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path / "store", RelayRoom(files=99, sockets=1, api=1, tunnels=1, strangers=8))
    try:
        place.attach()
        head, _ = place.join()
        assert head.startswith(b"HTTP/1.1 503 ")
        assert place.service.counts.refused == {"full": 1}
        assert place.join()[0].startswith(b"HTTP/1.1 503 ")
        [told] = caplog.messages  # a flood is told once
        assert "99 open files allowed: raise the limit (ulimit -n" in told
    finally:
        place.close()


def test_who_says_nothing_to_a_full_registry_gives_way_and_who_waits_for_an_answer_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service_module, "OTHER_STORE_SECONDS", 600.0)
    place = Place(tmp_path / "store", RelayRoom(files=99, sockets=1, api=1, tunnels=1, strangers=8))
    release = threading.Event()
    try:
        with socket.create_connection(("127.0.0.1", place.port), timeout=30) as silent:
            silent.sendall(b"POST /enrol HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
            wait_until(lambda: place.service.open_sockets["registry"] == 1, "it is there")
            place.block(release)
            waits = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
            waits.request("POST", "/enrol", json.dumps({"code": "wrong"}))
            assert silent.recv(1) == b""
        wait_until(lambda: any(one.busy for one in list(place.service._api)), "the other one waits")
        other = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
        other.request("POST", "/enrol", "{}")
        assert other.getresponse().status == 503
        release.set()
        assert waits.getresponse().status == 403
        waits.close()
        other.close()
        assert place.service.counts.refused == {"full": 1, "code": 1}
        assert "all 1 of connections to the registry are taken" in caplog.text
    finally:
        release.set()
        place.close()


def test_who_waits_for_a_refusal_of_a_full_registry_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else wrong tokens, which are answered later and later, would keep everybody else out."""
    place = Place(tmp_path / "store", RelayRoom(files=99, sockets=1, api=1, tunnels=1, strangers=8))
    monkeypatch.setattr(place.service.attempts, "failed", lambda source: 600.0)
    try:
        wrong = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
        headers = {"Authorization": "Bearer wrong"}
        wrong.request("POST", "/cloud/environment/box/register", json.dumps(REGISTER), headers)
        wait_until(lambda: any(one.delayed for one in list(place.service._api)), "it waits to be refused")
        assert place.call("register", place.executor, REGISTER)[0] == 200
        with pytest.raises(http.client.RemoteDisconnected):
            wrong.getresponse()
        wrong.close()
    finally:
        place.close()


def test_what_was_counted_is_told_with_words_of_ours_alone(place: Place) -> None:
    executor = place.attach()
    validate = ValidateParams("none", KEY, "made up").encode()
    assert place.call("validate", place.executor, validate)[2] == {"valid": False}
    _, harness = place.join()
    frame = relay.resume("a stream")
    harness.sendall(b"\x82" + bytes((0x80 | len(frame),)) + bytes(4) + frame)
    assert executor.recv(4096).endswith(frame)
    text = relay_metrics(place.service).text()
    for line in (
        "outfitter_relay_registrations_total 1",
        'outfitter_relay_calls_total{call="connect"} 1',
        "outfitter_relay_handshakes_failed_total 1",
        'outfitter_relay_sockets_opened_total{role="executor"} 1',
        'outfitter_relay_sockets{kind="executor"} 1',
        'outfitter_relay_sockets{kind="harness"} 1',
        "outfitter_relay_streams_opened_total 1",
        "outfitter_relay_streams 1",
        "# TYPE outfitter_relay_store_waiting gauge",
    ):
        assert line in text.splitlines(), text
    assert "box" not in text and "somebody" not in text and "127.0.0.1" not in text


def test_an_executor_of_which_the_store_could_not_be_told_comes_again(place: Place) -> None:
    """Else it would stay, and whoever wants it would hear that it is not connected."""
    url = place.call("register", place.executor, REGISTER)[2]["url"]
    place.store.change(
        "CREATE TRIGGER full BEFORE INSERT ON attachments BEGIN SELECT RAISE(FAIL, 'disk is full'); END"
    )
    head, one = place.dial(url)
    said = head.partition(b"\r\n\r\n")[2] or one.recv(4096)
    assert (head[:13], said[2:4]) == (b"HTTP/1.1 101 ", (1013).to_bytes(2, "big"))
    place.store.change("DROP TRIGGER full")
    place.attach()
    assert place.call("connect", place.user, CONNECT)[0] == 200


def test_a_service_whose_store_is_slow_is_not_ready(place: Place) -> None:
    release = threading.Event()
    place.block(release)
    try:
        place.get("/readyz")  # the loop has heard all earlier answers of the store
        place.service._asking.slow = "the store has not answered for 5 s"
        assert place.get("/readyz") == (503, b"the store has not answered for 5 s")
    finally:
        release.set()
    place.call("register", place.executor, REGISTER)
    assert place.get("/readyz") == (200, b"")


def test_nobody_gets_metrics_that_were_not_asked_for(place: Place) -> None:
    assert place.get("/metrics")[0] == 404
    assert place.get("/")[0] == 404
