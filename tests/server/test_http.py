"""http/request on a real server: streams, limits, addresses, secrets, and hostile answers."""

from __future__ import annotations

import base64
import contextlib
import os
import queue
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import authority, server_pair
from tests.support.http2 import LARGE, http2_origin
from tests.support.machine import PROC, SECOND, status, wait_until
from tests.support.rawhttp import CLOSE, HOLD, RawOrigin, raw_origin
from tests.support.servers import Server, serving
from tests.support.tunnel import TunnelProxy, tunnel_proxy
from tests.support.wire import Wire

OK = [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]


@pytest.fixture(scope="module")
def origin() -> Iterator[RawOrigin]:
    with raw_origin() as made:
        made.answers["/ok"] = OK
        made.answers["/hold"] = [HOLD]
        made.answers["/hold-body"] = [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc", HOLD]
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {"TOKEN": "s3cret-value", "BROKEN": "s3cret\nvalue"}
    with serving("outfitter", tmp_path_factory.mktemp("home"), "--log-level", "debug", env=env) as made:
        yield made


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as made:
        greet(made)
        yield made


def greet(wire: Wire) -> None:
    wire.call("initialize", {"clientName": "test", "resumeSessionId": None})
    wire.send({"method": "initialized", "params": {}})


def params(url: str, **more: Any) -> dict[str, Any]:
    return {"method": "GET", "url": url, "requestId": "r", **more}


def deltas(wire: Wire, ident: str = "r") -> list[dict[str, Any]]:
    """All notices of a stream to its end."""

    def of_stream(message: dict[str, Any]) -> bool:
        return message["method"] == "http/request/bodyDelta" and message["params"]["requestId"] == ident

    wire.until(lambda message: of_stream(message) and message["params"]["done"])
    return [message["params"] for message in wire.notices if of_stream(message)]


# Streams


class Faucet:
    """An origin that sends as long as somebody takes it, and counts."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.sent = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self._peer: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        self._peer, _ = self._socket.accept()
        with self._peer as peer:
            peer.recv(65536)
            try:
                peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % self._size)
                block = bytes(65536)
                while self.sent < self._size:
                    self.sent += peer.send(block[: self._size - self.sent])
            except OSError:
                pass

    def close(self) -> None:
        self._socket.close()
        if self._peer is not None:
            with contextlib.suppress(OSError):  # it has sent everything
                self._peer.shutdown(socket.SHUT_RDWR)  # nobody may take what it waits to send
        self._thread.join()


def held_by_sockets() -> int:
    """The most that the kernel keeps of two connections, in bytes: on newer ones 32 MiB on their way in."""
    found = 0
    for name in ("tcp_rmem", "tcp_wmem"):
        try:
            found += 2 * int(Path(f"{PROC}/sys/net/ipv4/{name}").read_text().split()[2])
        except OSError:
            found += 64 << 20
    return found


def test_slow_reader_holds_the_source_back_and_memory_stays_flat(server: Server, wire: Wire) -> None:
    faucet = Faucet(1 << 30)
    try:
        wire.call("http/request", params(faucet.url, streamResponse=True))
        seen: list[int] = []

        def stopped() -> bool:
            seen.append(faucet.sent)
            return len(seen) > 50 and seen[-1] == seen[-50]

        wait_until(stopped, "the source goes on though nobody reads")
        assert faucet.sent < 64 << 20
        assert int(status(server.pid)["VmRSS"].split()[0]) < 200_000  # kB
        assert wire.call("http/cancel", {"requestId": "r"}) == {"cancelled": True}
        last = deltas(wire)[-1]
        assert (last["done"], last["error"]) == (True, "cancelled")
    finally:
        faucet.close()


def test_memory_stays_flat_while_a_slow_reader_gets_all_of_it(server: Server, wire: Wire) -> None:
    most = held_by_sockets() + (16 << 20)  # and ours
    size = 1 << 30 if os.environ.get("OUTFITTER_CHAOS") else 2 * most
    faucet = Faucet(size)
    try:
        wire.call("http/request", params(faucet.url, streamResponse=True))
        came = peak = 0
        done = False
        while not done:
            notice = wire.receive()["params"]
            wire.notices.clear()
            done = notice["done"]
            came += len(base64.b64decode(notice["deltaBase64"]))
            peak = max(peak, int(status(server.pid)["VmRSS"].split()[0]))
            assert faucet.sent - came < most
        assert (came, notice["error"]) == (size, None)
        assert peak < 200_000  # kB
    finally:
        faucet.close()


def test_stream_comes_whole_in_pieces_of_a_megabyte_at_most(wire: Wire) -> None:
    faucet = Faucet(20 << 20)
    try:
        wire.call("http/request", params(faucet.url, streamResponse=True))
        told = deltas(wire)
        sizes = [len(base64.b64decode(one["deltaBase64"])) for one in told]
        assert (sum(sizes), max(sizes) <= 1 << 20) == (20 << 20, True)
        assert [one["seq"] for one in told] == list(range(1, len(told) + 1))
    finally:
        faucet.close()


def test_lost_connection_ends_its_requests(server: Server, origin: RawOrigin) -> None:
    gone: queue.SimpleQueue[None] = queue.SimpleQueue()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\n\r\nabc")
            if peer.recv(1) == b"":
                gone.put(None)

    thread = threading.Thread(target=serve)
    thread.start()
    with Wire(server.url) as wire:
        greet(wire)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        wire.call("http/request", params(url, streamResponse=True))
        wire.until(lambda message: message["method"] == "http/request/bodyDelta")
    gone.get(timeout=20)
    thread.join()
    listener.close()


def test_held_stream_waits_and_the_others_go_on(wire: Wire, origin: RawOrigin) -> None:
    faucet = Faucet(64 << 20)
    try:
        begun = wire.request("http/request", params(faucet.url, streamResponse=True))
        assert (
            wire.call("http/hold", {"requestId": "r", "held": True}) == {}
        )  # most often before its first piece
        before = len(wire.notices)
        assert wire.answer(begun)["result"]["status"] == 200
        with pytest.raises(TimeoutError):  # when all that was on its way is here
            while not wire.receive(SECOND)["params"]["done"]:
                pass
        said = len(wire.notices)
        assert said <= before + 1
        wire.start("p", ["/bin/sh", "-c", "head -c 16777216 /dev/zero"])  # which fills the connection
        events = wire.closed("p")
        assert len(wire.notices) == said + len(events)
        assert wire.call("http/request", params(f"{origin.url}/ok", requestId="s"))["bodyBase64"] == "b2s="
        assert wire.call("http/hold", {"requestId": "s", "held": True}) == {}  # it is over
        assert wire.call("http/hold", {"requestId": "r", "held": False}) == {}
        told = deltas(wire)
        assert [one["seq"] for one in told] == list(range(1, len(told) + 1))
        assert sum(len(one["deltaBase64"]) // 4 * 3 for one in told) >= 64 << 20
    finally:
        faucet.close()


def test_cancel_ends_what_was_not_answered(wire: Wire, origin: RawOrigin) -> None:
    first = wire.request("http/request", params(f"{origin.url}/hold"))
    second = wire.request("http/request", params(f"{origin.url}/hold", requestId="s", streamResponse=True))
    origin.seen.get(timeout=20), origin.seen.get(timeout=20)
    for ident in ("r", "s"):
        assert wire.call("http/cancel", {"requestId": ident}) == {"cancelled": True}
        assert wire.call("http/cancel", {"requestId": ident}) == {"cancelled": False}
    for request in (first, second):
        assert wire.answer(request)["error"]["message"] == "http/request failed: cancelled"
    assert wire.call("http/request", params(f"{origin.url}/ok", requestId="s"))["bodyBase64"] == "b2s="


def test_id_is_free_again_after_its_end(wire: Wire, origin: RawOrigin) -> None:
    for _ in range(2):
        wire.notices.clear()
        wire.call("http/request", params(f"{origin.url}/ok", streamResponse=True))
        assert [one["done"] for one in deltas(wire)] == [False, True]


def test_too_many_at_a_time_are_refused(wire: Wire, origin: RawOrigin) -> None:
    for number in range(64):
        wire.request("http/request", params(f"{origin.url}/hold", requestId=f"{number}"))
    error = wire.error("http/request", params(f"{origin.url}/ok"))
    assert (error["code"], error["message"][:39]) == (-32600, "64 http requests of this connection are")
    for number in range(64):
        wire.call("http/cancel", {"requestId": f"{number}"})
    wait_until(
        lambda: "result" in wire.answer(wire.request("http/request", params(f"{origin.url}/ok"))),
        "there is no room, though all have ended",
    )


def test_body_that_is_too_large_for_one_message_is_refused(wire: Wire) -> None:
    faucet = Faucet(64 << 20)
    try:
        error = wire.error("http/request", params(faucet.url))
        assert error["message"].endswith(f"it has more than {45 << 20} bytes; set streamResponse to read it")
    finally:
        faucet.close()


def test_connection_is_used_again_but_not_with_what_nobody_asked_for(wire: Wire, origin: RawOrigin) -> None:
    origin.answers["/more"] = [OK[0] + b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nother"]
    for path in ("/more", "/ok", "/more", "/ok"):
        assert wire.call("http/request", params(origin.url + path))["bodyBase64"] == "b2s="


# Secrets


def test_secret_is_sent_and_never_told(server: Server, wire: Wire, origin: RawOrigin) -> None:
    secret = [{"name": "Authorization", "value": "Bearer ", "valueEnvVar": "TOKEN"}]
    origin.asked()
    told = wire.call("http/request", params(f"{origin.url}/ok", headers=secret))
    assert b"authorization: Bearer s3cret-value" in origin.seen.get(timeout=20)
    assert "s3cret" not in str(told)
    broken = [{"name": "A", "value": "", "valueEnvVar": "BROKEN"}]
    longer = [*secret, {"name": "content-length", "value": "9"}]
    for headers in (broken, longer):
        assert "s3cret" not in str(wire.error("http/request", params(origin.url, headers=headers)))
    nowhere = params("http://us:s3cret@127.0.0.1:1/", headers=secret)
    assert "s3cret" not in str(wire.error("http/request", nowhere))
    assert "s3cret" not in (server.home / "outfitter.stderr").read_text()


# Addresses


def test_forbidden_address_is_refused_also_after_a_redirect(tmp_path: Path, origin: RawOrigin) -> None:
    origin.answers["/away"] = [b"HTTP/1.1 302 x\r\nlocation: http://127.0.0.9/\r\ncontent-length: 0\r\n\r\n"]
    flags = ("--http-deny", "127.0.0.0/8", "--http-allow", "127.0.0.1/32", "--http-deny", "::1/128")
    with serving("outfitter", tmp_path, *flags) as server, Wire(server.url) as wire:
        greet(wire)
        assert wire.call("http/request", params(f"{origin.url}/ok"))["status"] == 200
        for url, address in (
            ("http://127.0.0.9/", "127.0.0.9"),
            ("http://0x7f.9/", "127.0.0.9"),
            ("http://[::ffff:127.0.0.9]/", "127.0.0.9"),
            ("http://[::1]/", "::1"),
            (f"{origin.url}/away", "127.0.0.9"),
        ):
            error = wire.error("http/request", params(url))
            assert (error["code"], error["data"]["error"]) == (-32602, "address-refused")
            assert f"does not connect to {address}," in error["message"]


@pytest.mark.parametrize("flag", ["--http-deny", "--http-allow"])
def test_range_that_is_none_is_told_at_once(flag: str, tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=r"`10\.0\.0\.300` is no range of addresses"),
        serving("outfitter", tmp_path, flag, "10.0.0.300"),
    ):
        pass


# TLS


@pytest.fixture(scope="module")
def secure() -> Iterator[RawOrigin]:
    pair = server_pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    with raw_origin(context) as made:
        made.answers["/ok"] = OK
        yield made


@pytest.fixture(scope="module")
def proxy() -> Iterator[TunnelProxy]:
    with tunnel_proxy() as made:
        yield made


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory, proxy: TunnelProxy) -> Iterator[Server]:
    """It knows our authority, shares a cookie, and asks a proxy for what is not exempt."""
    env = {
        "SSL_CERT_FILE": str(authority().file),
        "HTTPS_PROXY": f"http://me:s3cret@{proxy.place}",
        "HTTP_PROXY": f"http://{proxy.place}",
        "NO_PROXY": "127.0.0.0/8",
    }
    flags = ("--http-cookie", "127.0.0.1:route", "--http-deny", "10.0.0.0/8", "--log-level", "debug")
    with serving("outfitter", tmp_path_factory.mktemp("trusting"), *flags, env=env) as made:
        yield made


@pytest.fixture
def safe(trusting: Server) -> Iterator[Wire]:
    with Wire(trusting.url) as made:
        greet(made)
        yield made


def test_tls_is_checked(wire: Wire, safe: Wire, secure: RawOrigin) -> None:
    for _ in range(3):
        assert safe.call("http/request", params(f"{secure.url}/ok"))["bodyBase64"] == "b2s="
        assert len(secure._open) == 1  # the same connection
    error = wire.error("http/request", params(f"{secure.url}/ok"))
    assert error["message"] == f"http/request failed: error sending request for url ({secure.url}/ok)"


def test_server_without_tls_is_no_server_of_https(safe: Wire, server: Server) -> None:
    url = f"https://127.0.0.1:{server.port}/"
    error = safe.error("http/request", params(url))
    assert error["message"] == f"http/request failed: error sending request for url ({url})"


def test_large_body_comes_whole_over_tls(safe: Wire, secure: RawOrigin) -> None:
    body = random.Random(7).randbytes(3 << 20)
    secure.answers["/large"] = [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)]
    secure.answers["/to-large"] = [b"HTTP/1.1 302 x\r\nlocation: /large\r\ncontent-length: 0\r\n\r\n"]
    told = safe.call("http/request", params(f"{secure.url}/to-large"))
    assert base64.b64decode(told["bodyBase64"]) == body
    safe.call("http/request", params(f"{secure.url}/large", streamResponse=True))
    assert b"".join(base64.b64decode(one["deltaBase64"]) for one in deltas(safe)) == body


def test_body_that_is_cut_below_tls_is_not_whole(safe: Wire, secure: RawOrigin) -> None:
    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"
    secure.answers["/cut"] = [head + b"some", CLOSE]
    error = safe.error("http/request", params(f"{secure.url}/cut"))
    assert error["message"] == "failed to read http/request response body: error decoding response body"


def test_large_body_is_sent(safe: Wire, secure: RawOrigin) -> None:
    body = base64.b64encode(bytes(2 << 20)).decode()
    secure.asked()
    assert (
        safe.call("http/request", params(f"{secure.url}/ok", method="POST", bodyBase64=body))["status"] == 200
    )
    [asked] = secure.asked()
    assert asked.endswith(bytes(2 << 20))


def test_cookie_that_an_operator_named_is_shared(safe: Wire, secure: RawOrigin) -> None:
    cookies = b"set-cookie: route=7; path=/\r\nset-cookie: session=8\r\n"
    secure.answers["/marked"] = [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n" + cookies + b"\r\n"]
    secure.asked()
    for path in ("/marked", "/ok"):
        safe.call("http/request", params(secure.url + path))
    own = [{"name": "Cookie", "value": "mine=1"}]
    safe.call("http/request", params(f"{secure.url}/ok", headers=own))
    first, second, third = [one.partition(b"cookie: ")[2].split(b"\r\n")[0] for one in secure.asked()]
    assert (first, second, third) == (b"", b"route=7", b"mine=1")


# Proxies


def test_https_goes_through_a_tunnel(
    trusting: Server, safe: Wire, secure: RawOrigin, proxy: TunnelProxy
) -> None:
    url = f"https://localhost:{secure.port}/ok"
    for _ in range(2):
        assert safe.call("http/request", params(url))["bodyBase64"] == "b2s="
    head = proxy.seen.get(timeout=20)
    assert (
        head
        == (
            f"CONNECT localhost:{secure.port} HTTP/1.1\r\nHost: localhost:{secure.port}\r\n"
            "Proxy-Authorization: Basic bWU6czNjcmV0\r\n\r\n"
        ).encode()
    )
    assert proxy.seen.empty()  # the tunnel was used again
    assert "s3cret" not in (trusting.home / "outfitter.stderr").read_text()


def test_tunnel_that_is_refused_is_an_error(safe: Wire, proxy: TunnelProxy) -> None:
    kept, proxy.answer = proxy.answer, b"HTTP/1.1 403 no\r\n\r\n"
    try:
        error = safe.error("http/request", params("https://elsewhere.invalid/"))
        message = "http/request failed: error sending request for url (https://elsewhere.invalid/)"
        assert error["message"] == message
        assert proxy.seen.get(timeout=20).startswith(b"CONNECT elsewhere.invalid:443 ")
    finally:
        proxy.answer = kept


def test_plain_request_is_read_by_the_proxy(safe: Wire, proxy: TunnelProxy) -> None:
    kept, proxy.answer = proxy.answer, b"HTTP/1.1 203 from the proxy\r\ncontent-length: 0\r\n\r\n"
    try:
        assert safe.call("http/request", params("http://us:pw@elsewhere.invalid/a?b#c"))["status"] == 203
        assert proxy.seen.get(timeout=20) == (
            b"GET http://elsewhere.invalid/a?b HTTP/1.1\r\nauthorization: Basic dXM6cHc=\r\n"
            b"accept: */*\r\nhost: elsewhere.invalid\r\n\r\n"
        )
    finally:
        proxy.answer = kept


def test_proxy_is_not_asked_for_a_refused_address(safe: Wire, proxy: TunnelProxy) -> None:
    for url in ("http://10.1.2.3/", "https://10.1.2.3/"):
        assert safe.error("http/request", params(url))["data"]["error"] == "address-refused"
    assert proxy.seen.empty()


def test_http2_is_spoken_where_it_is_offered(safe: Wire) -> None:
    with http2_origin() as origin:
        headers = [{"name": "X-B", "value": "1"}, {"name": "Connection", "value": "keep-alive"}]
        told = safe.call("http/request", params(f"{origin.url}/x", headers=headers))
        assert told["headers"] == [{"name": "x-a", "value": "1"}, {"name": "x-a", "value": "2"}]
        text = base64.b64decode(told["bodyBase64"]).decode()
        assert ":path: /x\n" in text and "x-b: 1\n" in text and "connection" not in text
        safe.call("http/request", params(f"{origin.url}/large", requestId="s", streamResponse=True))
        pieces = [base64.b64decode(one["deltaBase64"]) for one in deltas(safe, "s")]
        assert b"".join(pieces) == bytes(LARGE)
        assert origin.connections == 1


def test_http2_answer_is_whole_when_it_is_the_last_of_its_connection(safe: Wire) -> None:
    with http2_origin() as origin:
        for _ in range(2):
            for path in ("/x", "/last"):
                told = safe.call("http/request", params(origin.url + path))
                assert f":path: {path}\n" in base64.b64decode(told["bodyBase64"]).decode()
        assert origin.connections == 2


def test_http2_body_that_a_server_refuses_is_not_waited_for(safe: Wire) -> None:
    body = base64.b64encode(bytes(1 << 20)).decode()
    with http2_origin() as origin:
        asked = params(f"{origin.url}/refused", method="POST", bodyBase64=body)
        assert safe.call("http/request", asked)["status"] == 413
        url = f"{origin.url}/reset"
        error = safe.error("http/request", params(url, method="POST", bodyBase64=body))
        assert error["message"] == f"http/request failed: error sending request for url ({url})"
        assert safe.call("http/request", params(f"{origin.url}/x"))["status"] == 200
        assert origin.connections == 3


def test_http2_answer_has_a_status_that_there_can_be(safe: Wire) -> None:
    with http2_origin() as origin:
        for status in (299, 999):
            assert safe.call("http/request", params(f"{origin.url}/status/{status}"))["status"] == status
        for wrong in ("-5", "0", "99", "1000", "9999", "x"):
            url = f"{origin.url}/status/{wrong}"
            error = safe.error("http/request", params(url))
            assert error["message"] == f"http/request failed: error sending request for url ({url})"


def test_proxy_with_http2_is_told_the_scheme_and_who_asks(tmp_path: Path) -> None:
    with http2_origin() as proxy:
        env = {
            "SSL_CERT_FILE": str(authority().file),
            "HTTP_PROXY": proxy.url.replace("https://", "https://me:s3cret@"),
        }
        with serving("outfitter", tmp_path, env=env) as server, Wire(server.url) as wire:
            greet(wire)
            told = wire.call("http/request", params("http://elsewhere.invalid/x"))
    text = base64.b64decode(told["bodyBase64"]).decode()
    assert ":scheme: http\n" in text and ":authority: elsewhere.invalid\n" in text
    assert "proxy-authorization: Basic bWU6czNjcmV0\n" in text


def test_http2_that_is_cancelled_ends(safe: Wire) -> None:
    with http2_origin() as origin:
        safe.call("http/request", params(f"{origin.url}/large", streamResponse=True))
        safe.until(lambda message: message["method"] == "http/request/bodyDelta")
        if safe.call("http/cancel", {"requestId": "r"})["cancelled"]:
            assert deltas(safe)[-1]["error"] == "cancelled"
        assert safe.call("http/request", params(f"{origin.url}/x"))["status"] == 200


# Whatever another server sends


def test_hostile_answers_never_end_a_connection(wire: Wire, origin: RawOrigin) -> None:
    dice = random.Random(19)
    whole = [b"".join(answer) for answer in origin.answers.values() if HOLD not in answer]
    parts = [
        b"\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 ",
        b"200",
        b"content-length: ",
        b"transfer-encoding: chunked\r\n",
        b"0\r\n",
    ]
    for number in range(300):
        match number % 3:
            case 0:
                answer = dice.randbytes(dice.randrange(200))
            case 1:
                answer = bytearray(dice.choice(whole))
                for _ in range(dice.randrange(1, 6)):
                    answer[dice.randrange(len(answer))] = dice.randrange(256)
            case _:
                answer = b"HTTP/1.1 200 OK\r\n" + b"".join(dice.choices([*parts, dice.randbytes(5)], k=12))
        origin.answers["/fuzz"] = [bytes(answer), b"\0close"]
        told = params(
            f"{origin.url}/fuzz", requestId=str(number), streamResponse=number % 2 == 0, timeoutMs=20_000
        )
        answered = wire.answer(wire.request("http/request", told))
        if "result" in answered and told["streamResponse"]:
            deltas(wire, str(number))
            wire.notices.clear()
        assert "result" in answered or answered["error"]["code"] == -32603
    assert wire.call("http/request", params(f"{origin.url}/ok"))["bodyBase64"] == "b2s="
