"""A proxy and real clients: what is allowed passes as it is, and nothing gets around the policy."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator

import pytest

from outfitter.core.network import ALLOWED, DENIED, LOCAL, UNLISTED, Destination
from outfitter.host.descriptors import Descriptors
from outfitter.host.sandbox import admission
from outfitter.host.sandbox import proxy as limits
from outfitter.host.sandbox.relay import StreamPipes
from outfitter.transport.sockets import listen
from tests.support.machine import wait_until
from tests.support.origin import BIG, origin
from tests.support.proxies import SECONDS, Served, proxying, rest

ALLOW_HERE = {"127.0.0.1": "allow", "bad.test": "deny", "two.test": "allow", "**.wild.test": "allow"}
NAMES = {
    "two.test": ["127.0.0.1"],
    "rebind.wild.test": ["8.8.8.8", "127.0.0.2"],
    "inner.wild.test": ["10.0.0.1"],
    "six.wild.test": ["::1"],
    "mapped.wild.test": ["::ffff:127.0.0.3"],
    "meta.wild.test": ["169.254.169.254"],
}


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    with origin() as port:
        yield port


@pytest.fixture
def proxy() -> Iterator[Served]:
    with proxying(ALLOW_HERE, names=NAMES) as served:
        yield served


def head(line: str, *headers: str) -> bytes:
    return "\r\n".join([line, *headers, "", ""]).encode("latin-1")


def get(where: str, host: str, method: str = "GET", version: str = "1.1") -> bytes:
    return head(f"{method} {where} HTTP/{version}", f"Host: {host}")


def parts(answer: bytes) -> tuple[bytes, bytes]:
    first, _, body = answer.partition(b"\r\n\r\n")
    return first, body


# What is allowed


def test_a_request_reaches_its_server_and_the_answer_comes_back(proxy: Served, web: int) -> None:
    first, body = parts(proxy.exchange(get(f"http://127.0.0.1:{web}/x?y=1", f"127.0.0.1:{web}")))
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert json.loads(body) == {
        "method": "GET",
        "path": "/x?y=1",
        "headers": {"host": f"127.0.0.1:{web}", "connection": "close"},
        "body": "",
    }
    assert proxy.verdicts == [(Destination("http", "127.0.0.1", web, "GET"), ALLOWED)]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("kind", ["", "chunked", "close"])
def test_large_answers_arrive_whole_however_they_end(
    proxy: Served, web: int, kind: str, version: str
) -> None:
    request = get(f"http://127.0.0.1:{web}/big{kind}", f"127.0.0.1:{web}", version=version)
    first, body = parts(proxy.exchange(request))
    if b"chunked" in first.lower():
        assert version == "1.1"
        decoded = b""
        while body != b"0\r\n\r\n":
            size, _, body = body.partition(b"\r\n")
            decoded += body[: int(size, 16)]
            body = body[int(size, 16) + 2 :]
        body = decoded
    assert body == BIG


def test_answers_without_a_body_end_at_once(proxy: Served, web: int) -> None:
    for request in (
        get(f"http://127.0.0.1:{web}/big", f"127.0.0.1:{web}", "HEAD"),
        get(f"http://127.0.0.1:{web}/nothing", f"127.0.0.1:{web}"),
    ):
        first, body = parts(proxy.exchange(request))
        assert (first[:10], body) == (b"HTTP/1.1 2", b"")


def test_bodies_go_on_as_they_were_sent(proxy: Served, web: int) -> None:
    there = f"127.0.0.1:{web}"
    plain = head(f"POST http://{there}/p HTTP/1.1", f"Host: {there}", "Content-Length: 5") + b"hello"
    chunked = head(f"POST http://{there}/p HTTP/1.1", f"Host: {there}", "Transfer-Encoding: chunked")
    chunked += b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: 1\r\n\r\n"
    large = head(f"PUT http://{there}/p HTTP/1.1", f"Host: {there}", f"Content-Length: {len(BIG)}") + BIG
    bodies = [json.loads(parts(proxy.exchange(one))[1])["body"] for one in (plain, chunked, large)]
    assert bodies == ["hello", "hello", len(BIG)]


def test_a_client_that_waits_for_permission_to_send_gets_it(proxy: Served) -> None:
    server = listen("127.0.0.1", 0)
    listening = socket.socket(fileno=server.detach())
    there = f"127.0.0.1:{listening.getsockname()[1]}"
    with proxy.connect() as near:
        near.sendall(
            head(
                f"POST http://{there}/ HTTP/1.1",
                f"Host: {there}",
                "Content-Length: 2",
                "Expect: 100-continue",
            )
        )
        far, _ = listening.accept()
        far.settimeout(SECONDS)
        assert b"100-continue" in far.recv(4096)
        far.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert near.recv(4096).startswith(b"HTTP/1.1 100 ")
        near.sendall(b"ok")
        assert far.recv(4096) == b"ok"
        far.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        assert rest(near).endswith(b"\r\n\r\nhi")
    far.close()
    listening.close()


def test_a_tunnel_carries_both_directions_and_their_ends(proxy: Served) -> None:
    server = listen("127.0.0.1", 0)
    listening = socket.socket(fileno=server.detach())
    port = listening.getsockname()[1]
    sent = b"0123456789abcdef" * (1 << 18)  # 4 MiB: it becomes a stream

    def serve() -> None:
        far, _ = listening.accept()
        with far:
            digest = hashlib.sha256(rest(far)).digest()  # to the end of what the client sends
            far.sendall(sent + digest)

    for socks in (False, True):
        thread = threading.Thread(target=serve)
        thread.start()
        with proxy.connect(socks=socks) as near:
            if socks:
                near.sendall(b"\x05\x01\x00" + b"\x05\x01\x00\x01\x7f\0\0\x01" + port.to_bytes(2, "big"))
                assert near.recv(2) == b"\x05\x00"
                assert near.recv(10) == b"\x05\x00\x00\x01" + bytes(6)
            else:
                near.sendall(head(f"CONNECT 127.0.0.1:{port} HTTP/1.1", f"Host: 127.0.0.1:{port}"))
                assert near.recv(4096) == b"HTTP/1.1 200 OK\r\n\r\n"
            near.sendall(sent)
            near.shutdown(socket.SHUT_WR)
            assert rest(near) == sent + hashlib.sha256(sent).digest()
        thread.join()
    listening.close()
    wait_until(lambda: len(proxy.proxy) == 0, "every connection has ended")


def test_what_a_client_sends_before_the_tunnel_is_there_is_not_lost(proxy: Served, web: int) -> None:
    request = head(f"CONNECT 127.0.0.1:{web} HTTP/1.1", "Host: x") + head("GET /t HTTP/1.0", "Host: x")
    assert b'"path": "/t"' in proxy.exchange(request)


# What is refused


def verdicts(proxy: Served) -> list[tuple[str, object]]:
    return [(target.host, verdict) for target, verdict in proxy.verdicts]


ATTEMPTS = {
    "an unlisted name": ("nope.test", "nope.test", UNLISTED),
    "a denied name": ("bad.test", "bad.test", DENIED),
    "a denied name in capitals with a dot": ("BAD.test.", "bad.test", DENIED),
    "another loopback address": ("127.0.0.2", "127.0.0.2", LOCAL),
    "localhost": ("localhost", "localhost", LOCAL),
    "localhost with a dot": ("LOCALHOST.", "localhost", LOCAL),
    "a decimal number": ("2130706434", "127.0.0.2", LOCAL),
    "octal": ("0177.0.0.2", "127.0.0.2", LOCAL),
    "hexadecimal": ("0x7f.2", "127.0.0.2", LOCAL),
    "short": ("127.2", "127.0.0.2", LOCAL),
    "zero": ("0", "0.0.0.0", LOCAL),
    "IPv6 loopback": ("[::1]", "::1", LOCAL),
    "IPv4 in IPv6": ("[::ffff:127.0.0.2]", "127.0.0.2", LOCAL),
    "IPv4 behind NAT64": ("[64:ff9b::7f00:1]", "64:ff9b::7f00:1", LOCAL),
    "a scope": ("[fe80::1%25lo]", "fe80::1", LOCAL),
    "a private network": ("10.0.0.1", "10.0.0.1", LOCAL),
    "the machine's metadata": ("169.254.169.254", "169.254.169.254", LOCAL),
    "a public address": ("8.8.8.8", "8.8.8.8", UNLISTED),
    "a name with a public and a local address": ("rebind.wild.test", "rebind.wild.test", LOCAL),
    "a name of a private address": ("inner.wild.test", "inner.wild.test", LOCAL),
    "a name of ::1": ("six.wild.test", "six.wild.test", LOCAL),
    "a name of a mapped address": ("mapped.wild.test", "mapped.wild.test", LOCAL),
    "a name of the metadata": ("meta.wild.test", "meta.wild.test", LOCAL),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_nothing_gets_around_the_policy(proxy: Served, web: int, attempt: str) -> None:
    spelled, host, verdict = ATTEMPTS[attempt]
    there = f"{spelled}:{web}"
    answer = proxy.exchange(get(f"http://{there}/", there))
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    tunnel = proxy.exchange(head(f"CONNECT {there} HTTP/1.1", f"Host: {there}"))
    assert tunnel.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    name = spelled.strip("[]").replace("%25", "%").encode()
    with proxy.connect(socks=True) as near:
        port = web.to_bytes(2, "big")
        near.sendall(b"\x05\x01\x00" + b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port)
        assert rest(near) == b"\x05\x00" + b"\x05\x02\x00\x01" + bytes(6)
    assert verdicts(proxy) == [(host, verdict)] * 3


@pytest.mark.parametrize(
    "request_head",
    [
        "GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: two.test\r\n\r\n",
        "GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",  # another port
        "GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: two.test\r\n\r\n",
        "GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n",
        "GET http://two.test@127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 4\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 4\r\n"
        "Content-Length: 5\r\n\r\nabcde",
        "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: +4\r\n\r\nabcd",
        "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n X: folded\x00\r\n\r\n",
        "GET  http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        "nonsense\r\n\r\n",
        "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
        "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_requests_that_two_readers_could_read_differently_are_refused(
    proxy: Served, web: int, request_head: str
) -> None:
    answer = proxy.exchange(request_head.format(port=web).encode("latin-1"))
    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 501"), answer
    assert proxy.verdicts == []


def test_what_follows_a_request_is_not_another_one(proxy: Served) -> None:
    server = listen("127.0.0.1", 0)
    listening = socket.socket(fileno=server.detach())
    there = f"127.0.0.1:{listening.getsockname()[1]}"
    with proxy.connect() as near:
        near.sendall(get(f"http://{there}/first", there) + get("http://bad.test/second", "bad.test"))
        far, _ = listening.accept()
        far.settimeout(SECONDS)
        got = far.recv(65536)
        far.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        assert rest(near).endswith(b"hi")
        got += rest(far)
    assert (got.count(b"HTTP/1.1"), b"second" in got) == (1, False)
    far.close()
    listening.close()


def test_a_unix_socket_is_refused(proxy: Served, web: int) -> None:
    request = head(f"GET http://127.0.0.1:{web}/ HTTP/1.1", f"Host: 127.0.0.1:{web}", "X-Unix-Socket: /run/x")
    assert proxy.exchange(request).startswith(b"HTTP/1.1 501 Not Implemented\r\n")
    assert [verdict.reason for _, verdict in proxy.verdicts] == ["unix_socket_unsupported"]


def test_a_head_that_never_ends_is_refused(proxy: Served) -> None:
    answer = proxy.exchange(b"GET / HTTP/1.1\r\nX: " + b"a" * (admission.HEAD_BYTES + 1))
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_a_server_that_is_not_there_and_a_name_that_means_nothing(proxy: Served) -> None:
    sock = listen("127.0.0.1", 0)
    there = f"127.0.0.1:{sock.getsockname()[1]}"
    sock.close()
    assert proxy.exchange(get(f"http://{there}/", there)).endswith(b"\r\n\r\nupstream failure")
    assert proxy.exchange(head(f"CONNECT {there} HTTP/1.1", "Host: x")).startswith(b"HTTP/1.1 502 ")
    assert b"wild.test cannot be resolved" in proxy.exchange(get("http://wild.test/", "wild.test"))


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 101 Switching\r\n\r\n"])
def test_a_server_that_stops_in_the_middle(proxy: Served, answer: bytes) -> None:
    server = listen("127.0.0.1", 0)
    listening = socket.socket(fileno=server.detach())
    there = f"127.0.0.1:{listening.getsockname()[1]}"
    with proxy.connect() as near:
        near.sendall(get(f"http://{there}/", there))
        far, _ = listening.accept()
        far.recv(65536)
        far.sendall(answer)
        far.close()
        assert rest(near).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    listening.close()
    wait_until(lambda: len(proxy.proxy) == 0, "every connection has ended")


def test_a_port_of_the_server_itself_is_never_reached(web: int) -> None:
    there = f"127.0.0.1:{web}"
    names = {"a.test": ["127.0.0.1"]}
    with proxying({"*": "allow", "127.0.0.1": "allow"}, names=names, local=True, own_ports=(web,)) as proxy:
        for host in (there, f"a.test:{web}", f"2130706433:{web}"):
            assert b"not_allowed_local" in proxy.exchange(get(f"http://{host}/", host))
    assert {verdict for _, verdict in proxy.verdicts} == {LOCAL}


def test_a_server_that_does_not_speak_http(proxy: Served) -> None:
    server = listen("127.0.0.1", 0)
    listening = socket.socket(fileno=server.detach())
    there = f"127.0.0.1:{listening.getsockname()[1]}"
    with proxy.connect() as near:
        near.sendall(get(f"http://{there}/", there))
        far, _ = listening.accept()
        far.recv(65536)
        far.sendall(b"SSH-2.0-x\r\n\r\n")
        assert rest(near).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    far.close()
    listening.close()


# Limited mode, and questions


def test_limited_mode_reads_and_does_not_write(web: int) -> None:
    there = f"127.0.0.1:{web}"
    with proxying({"127.0.0.1": "allow"}, mode="limited") as proxy:
        assert proxy.exchange(get(f"http://{there}/", there)).startswith(b"HTTP/1.1 200 ")
        posted = proxy.exchange(head(f"POST http://{there}/ HTTP/1.1", f"Host: {there}", "Content-Length: 0"))
        assert b"x-proxy-error: blocked-by-method-policy" in posted
        tunnel = proxy.exchange(head(f"CONNECT {there} HTTP/1.1", f"Host: {there}"))
        assert b"x-proxy-error: blocked-by-mitm-required" in tunnel
        with proxy.connect(socks=True) as near:
            near.sendall(b"\x05\x01\x00" + b"\x05\x01\x00\x01\x7f\0\0\x01" + web.to_bytes(2, "big"))
            assert rest(near)[2:4] == b"\x05\x02"


def test_a_client_is_asked_about_unlisted_hosts_and_no_others(web: int) -> None:
    answers = {"yes.test": ("allow", ""), "no.test": ("deny", "because"), "local.test": ("allow", "")}
    names = {"yes.test": ["127.0.0.9"], "local.test": ["127.0.0.1"]}
    rules = {"127.0.0.9": "allow", "bad.test": "deny"}
    with origin("127.0.0.9") as port, proxying(rules, names=names, answers=answers) as proxy:
        assert proxy.exchange(get(f"http://yes.test:{port}/", f"yes.test:{port}")).startswith(
            b"HTTP/1.1 200 "
        )
        assert b'"reason":"because"' in proxy.exchange(get("http://no.test/", "no.test"))
        # An answer is about a name: it does not open what is behind it.
        assert b"not_allowed_local" in proxy.exchange(get(f"http://local.test:{web}/", f"local.test:{web}"))
        for never in ("bad.test", "10.0.0.1"):
            assert proxy.exchange(get(f"http://{never}/", never)).startswith(b"HTTP/1.1 403 ")
    assert [target.host for target in proxy.asked] == ["yes.test", "no.test", "local.test"]


# Limits


def test_more_connections_than_allowed_wait_their_turn(monkeypatch: pytest.MonkeyPatch, web: int) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 2)
    with proxying(ALLOW_HERE, names=NAMES) as proxy:
        held = [proxy.connect() for _ in range(2)]
        wait_until(lambda: len(proxy.proxy) == 2, "two connections are there")
        with proxy.connect() as third:
            third.sendall(get(f"http://127.0.0.1:{web}/", f"127.0.0.1:{web}"))
            assert len(proxy.proxy) == 2
            held[0].close()
            assert rest(third).startswith(b"HTTP/1.1 200 ")
        held[1].close()


def test_who_says_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HEAD_SECONDS", 0.05)
    with proxying(ALLOW_HERE) as proxy, proxy.connect() as near:
        near.sendall(b"GET ")
        assert rest(near) == b""
        wait_until(lambda: len(proxy.proxy) == 0, "the connection is forgotten")


def test_an_idle_tunnel_ends(monkeypatch: pytest.MonkeyPatch, web: int) -> None:
    monkeypatch.setattr(admission, "IDLE_SECONDS", 0.05)
    with proxying(ALLOW_HERE) as proxy, proxy.connect() as near:
        near.sendall(head(f"CONNECT 127.0.0.1:{web} HTTP/1.1", "Host: x"))
        assert rest(near) == b"HTTP/1.1 200 OK\r\n\r\n"


def test_a_client_that_goes_away_leaves_nothing_behind(proxy: Served, web: int) -> None:
    for request in (
        b"GET ",
        get(f"http://127.0.0.1:{web}/big", f"127.0.0.1:{web}"),
        head(f"CONNECT 127.0.0.1:{web} HTTP/1.1", "Host: x"),
        head(f"POST http://127.0.0.1:{web}/ HTTP/1.1", f"Host: 127.0.0.1:{web}", "Content-Length: 9"),
    ):
        with proxy.connect() as near:
            near.sendall(request)
    wait_until(lambda: len(proxy.proxy) == 0, "every connection has ended")


def test_a_crowd_of_all_kinds_gets_its_answers_and_leaves_nothing_behind(proxy: Served, web: int) -> None:
    there = f"127.0.0.1:{web}"
    before = len(os.listdir("/proc/self/fd"))
    failures: list[str] = []

    def visit(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(4):
            path = chance.choice(["/big", "/bigchunked", "/bigclose"])
            kind = chance.randrange(5)
            with proxy.connect(socks=kind == 2) as near:
                plain_request = head(f"GET {path} HTTP/1.0", "Host: x")
                if kind == 0:
                    near.sendall(get(f"http://{there}{path}", there))
                elif kind == 1:
                    near.sendall(head(f"CONNECT {there} HTTP/1.1", "Host: x") + plain_request)
                elif kind == 2:
                    wanted = b"\x05\x01\x00\x05\x01\x00\x01\x7f\0\0\x01" + web.to_bytes(2, "big")
                    near.sendall(wanted + plain_request)
                elif kind == 3:
                    near.sendall(get(f"http://{there}{path}", there))
                    near.recv(100)
                    continue  # it has enough
                else:
                    near.sendall(b"GET /")
                    continue  # it has changed its mind
                size = len(rest(near))
                if size <= len(BIG):
                    failures.append(f"{kind} {path}: {size}")

    threads = [threading.Thread(target=visit, args=(seed,)) for seed in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    wait_until(lambda: len(proxy.proxy) == 0, "every connection has ended")
    # What is left are pipes that the next stream uses.
    wait_until(lambda: len(os.listdir("/proc/self/fd")) - before <= 2 * 8, "all descriptors are closed")


def test_pipes_of_streams_are_counted_as_descriptors() -> None:
    descriptors = Descriptors()
    descriptors.limit = 2
    pipes = StreamPipes(descriptors)
    pipe = pipes.take()
    assert pipe is not None and descriptors.held == 2
    assert pipes.take() is None  # its stream is copied
    pipes.give(pipe)
    assert pipes.take() == pipe
    pipes.drop(pipe)
    assert descriptors.held == 0
    other = pipes.take()
    assert other is not None
    pipes.give(other)
    pipes.close()
    assert descriptors.held == 0


@pytest.mark.parametrize("resets", [True, False], ids=["its client resets it", "its command ends"])
@pytest.mark.parametrize("tunnel", [True, False], ids=["a tunnel", "a request"])
def test_a_download_that_is_given_up_leaves_no_pipe_behind(tunnel: bool, resets: bool) -> None:
    server = listen("127.0.0.1", 0)
    listening = socket.socket(fileno=server.detach())
    there = f"127.0.0.1:{listening.getsockname()[1]}"
    descriptors = Descriptors()

    def serve() -> None:
        far, _ = listening.accept()
        with far, contextlib.suppress(OSError):
            far.recv(65536)
            far.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
            while True:
                far.sendall(bytes(1 << 20))

    thread = threading.Thread(target=serve)
    thread.start()
    with proxying(ALLOW_HERE, descriptors=descriptors) as proxy:
        near = proxy.connect()
        if tunnel:
            near.sendall(head(f"CONNECT {there} HTTP/1.1", "Host: x") + get("/", there))
        else:
            near.sendall(get(f"http://{there}/", there))
        # Two are of the connection, two of a pipe with what the client does not take.
        wait_until(lambda: descriptors.held == 4, "the answer is a stream")
        if resets:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            near.close()
            wait_until(lambda: len(proxy.proxy) == 0, "the connection has ended")
    assert descriptors.held == 0
    near.close()
    thread.join()
    listening.close()


# Clients that we did not write


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("way", ["http", "tunnel", "socks5h", "socks5"])
def test_curl(proxy: Served, web: int, way: str) -> None:
    port = proxy.socks if way.startswith("socks") else proxy.http
    scheme = way if way.startswith("socks") else "http"
    host = "127.0.0.1" if way == "socks5" else "two.test"  # which only the proxy knows
    words = ["curl", "-sS", "--noproxy", "", "-x", f"{scheme}://127.0.0.1:{port}"]
    words += ["-p"] if way == "tunnel" else []
    ran = subprocess.run(
        [*words, "-d", "x" * 100_000, "-H", "Expect: 100-continue", f"http://{host}:{web}/c"],
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert json.loads(ran.stdout)["body"] == 100_000
