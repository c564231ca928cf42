"""TLS in `outfitter serve`, from outside: who gets in, what they are told, and peers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter import DialFailed, SettingInvalid, connect
from outfitter.server.auth import gate
from outfitter.transport.certificates import server_context
from outfitter.transport.listener import Listener
from outfitter.transport.sockets import listen
from outfitter.transport.tls import TlsSocket
from outfitter.transport.websocket import WebSocketTransport
from tests.support.certificates import Pair, authority, server_pair
from tests.support.handloop import HandLoop
from tests.support.machine import PROC, SECOND, wait_until
from tests.support.proxy import Cutter
from tests.support.raw import UPGRADE, frame
from tests.support.servers import Server, serving

SECONDS = 60 * SECOND
ANY = "wss://127.0.0.1:0"
READY = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("outfitter", tmp_path_factory.mktemp("home"), *server_pair().flags, listen=ANY) as server:
        yield server


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, SECONDS))


def context(ca: Path | None = None, **settings: Any) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=ca or authority().file)
    for name, value in settings.items():
        setattr(made, name, value)
    return made


@contextlib.contextmanager
def secured(server: Server, tls: ssl.SSLContext | None = None) -> Iterator[ssl.SSLSocket]:
    """A connection with TLS and nothing above it."""
    raw = socket.create_connection(("127.0.0.1", server.port), 20 * SECOND)
    with (tls or context()).wrap_socket(raw, server_hostname="localhost") as sock:
        yield sock


def rest(sock: socket.socket) -> bytes:
    """All that comes, up to the end, however it comes."""
    read = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while more := sock.recv(65536):
            read += more
    return read


def ready(server: Server, tls: ssl.SSLContext | None = None) -> bool:
    with secured(server, tls) as sock:
        sock.sendall(READY)
        return rest(sock).startswith(b"HTTP/1.1 200 OK\r\n")


# Who gets in


async def _says(url: str, **settings: Any) -> str:
    async with connect(url, **{"ca": authority().file, **settings}) as client:
        return (await client.run(["echo", "hello"])).stdout.decode()


def failure(url: str, **settings: Any) -> tuple[str, bool]:
    with pytest.raises(DialFailed) as raised:
        run(_says(url, **settings))
    return str(raised.value).replace(url, "URL"), raised.value.retryable


def test_versions_older_than_1_2_are_refused(server: Server) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        assert ready(server, context(minimum_version=version, maximum_version=version))
    done = subprocess.run(
        [
            "openssl",
            "s_client",
            "-connect",
            f"127.0.0.1:{server.port}",
            "-tls1_1",
            "-cipher",
            "ALL@SECLEVEL=0",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "alert protocol version" in done.stderr


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_private_ca_is_named_to_the_client(host: str, server: Server) -> None:
    assert run(_says(f"wss://{host}:{server.port}")) == "hello\n"


def test_the_servers_own_certificate_may_be_named_instead_of_its_ca(server: Server) -> None:
    assert run(_says(server.url, ca=server_pair().cert)) == "hello\n"


def test_the_variable_of_openssl_names_it_too(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority().file))
    assert run(_says(server.url, ca=None)) == "hello\n"


def test_an_unknown_ca_is_told_with_the_remedy(server: Server) -> None:
    assert failure(server.url, ca=None) == (
        "cannot connect to URL: its certificate is not trusted: unable to get local issuer certificate; name "
        "the file of its CA with --tls-ca FILE, `ca=` or `tls_ca`, or in SSL_CERT_FILE",
        False,
    )


def test_a_client_that_refuses_the_certificate_is_in_the_log(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, *server_pair().flags, listen=ANY) as server:
        socket.create_connection(("127.0.0.1", server.port)).close()  # only looks whether it is there
        failure(server.url, ca=None)
        log = tmp_path / "outfitter.stderr"
        wait_until(lambda: "refused" in log.read_text(), "the refusal is in the log")
    (line,) = [line for line in log.read_text().splitlines() if "refused" in line]
    assert line.endswith("TLS: the client left during the handshake; it may not trust the certificate"), line


def test_another_name_and_an_expired_certificate_are_told(tmp_path: Path) -> None:
    other = authority().issue("other", "DNS:other.invalid")
    with serving("outfitter", tmp_path / "name", *other.flags, listen=ANY) as server:
        assert failure(server.url) == (
            "cannot connect to URL: its certificate is not trusted: IP address mismatch, certificate is not "
            "valid for '127.0.0.1'; use a name that is in the certificate, or have 127.0.0.1 put into it "
            "(subjectAltName)",
            False,
        )
    old = authority().issue("localhost", days=-1)
    with serving("outfitter", tmp_path / "old", *old.flags, listen=ANY) as server:
        assert failure(server.url) == (
            "cannot connect to URL: its certificate is not trusted: certificate has expired; renew it, or "
            "correct this machine's clock",
            False,
        )
    # The operator was told when the server started, without asking for a log.
    assert "clients will refuse this certificate" in (tmp_path / "old" / "outfitter.stderr").read_text()


def test_with_and_without_tls_are_told_apart(server: Server, tmp_path: Path) -> None:
    # Plain HTTP to a server with TLS.
    assert failure(server.url.replace("wss:", "ws:"), ca=None) == (
        "URL refused the connection: 400 Bad Request: this port speaks TLS: connect with wss:// instead of ws://",
        False,
    )
    # TLS to something that answers in plain HTTP, and to our server without TLS, which ends the connection.
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            sock, _ = listening.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert failure(f"wss://127.0.0.1:{listening.getsockname()[1]}") == (
            "cannot connect to URL: it does not speak TLS on this port; write ws://, or start the server "
            "with --listen wss://IP:PORT",
            False,
        )
        thread.join()
    with serving("outfitter", tmp_path / "plain") as plain:
        said, _ = failure(plain.url.replace("ws:", "wss:"))
        assert said.endswith("it ended the TLS handshake; for a server without TLS, write ws://")


def test_files_without_tls_and_two_ways_to_say_it_are_refused(server: Server) -> None:
    with pytest.raises(SettingInvalid, match="certificates need a wss:// URL"):
        connect("ws://127.0.0.1:1", ca="ca.pem")
    with pytest.raises(SettingInvalid, match="`tls` cannot be used with `ca`"):
        connect(server.url, ca="ca.pem", tls=context())
    assert run(_says(server.url, ca=None, tls=context())) == "hello\n"


# Certificates of clients


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("strict")
    flags = (*server_pair().flags, "--tls-client-ca", str(authority().file))
    with serving("outfitter", home, *flags, listen=ANY) as server:
        yield server


def test_a_client_with_a_certificate_of_the_ca_gets_in(strict: Server) -> None:
    mine = authority().issue("alice")
    assert run(_says(strict.url, client_cert=mine.cert, client_key=mine.key)) == "hello\n"


def test_a_client_without_one_is_told_what_to_do(strict: Server) -> None:
    assert failure(strict.url) == (
        "cannot connect to URL: it wants a certificate from its clients; name yours with --tls-cert FILE and "
        "--tls-key FILE, or `client_cert=` and `client_key=`",
        False,
    )


def test_a_certificate_of_another_ca_or_an_expired_one_is_refused(strict: Server) -> None:
    for theirs in (authority("strangers").issue("alice"), authority().issue("alice", days=-1)):
        said, retryable = failure(strict.url, client_cert=theirs.cert, client_key=theirs.key)
        assert said.startswith("cannot connect to URL: it does not accept our certificate: ")
        assert not retryable
    assert not ready_without_a_word(strict)


def ready_without_a_word(server: Server) -> bool:
    """Whether a client without a certificate learns anything."""
    with secured(server) as sock, contextlib.suppress(ConnectionError, ssl.SSLError):
        sock.sendall(READY)
        return bool(rest(sock))
    return False


def admitted(mine: Pair) -> tuple[str, float | None]:
    """Who a client with this certificate is, and until when."""
    with contextlib.closing(Line(client_ca=authority().file)) as line:
        tls = context()
        tls.load_cert_chain(mine.cert, mine.key)
        transport = upgraded(line, tls)
        return transport.principal, transport.expires


def upgraded(line: Line, tls: ssl.SSLContext) -> WebSocketTransport:
    """The server's end, once the client has asked for a WebSocket."""

    def ask() -> None:
        with tls.wrap_socket(line.peer, server_hostname="localhost") as sock:
            sock.sendall(head())
            sock.recv(4096)

    thread = threading.Thread(target=ask)
    thread.start()
    line.loop.serve(lambda: bool(line.transports))
    thread.join()
    return line.transports[0]


def test_a_client_is_who_its_certificate_names_until_that_expires() -> None:
    mine = authority().issue("alice", days=2)
    form = subprocess.run(
        ["openssl", "x509", "-in", mine.cert, "-noout", "-enddate"],
        check=True,
        capture_output=True,
        text=True,
    )
    ends = ssl.cert_time_to_seconds(form.stdout.strip().partition("=")[2])
    assert admitted(mine) == ("cn:alice", ends)


@pytest.mark.parametrize("name", ["ä", "a\x1b[2Jb", "alice/CN=bob"])
def test_a_name_that_is_odd_or_not_one_becomes_a_digest(name: str) -> None:
    mine = authority().issue(name)
    der = ssl.PEM_cert_to_DER_cert(mine.cert.read_text())
    assert admitted(mine)[0] == f"cert:{hashlib.sha256(der).hexdigest()[:16]}"


def test_without_certificates_of_clients_the_user_counts() -> None:
    with contextlib.closing(Line()) as line:
        assert upgraded(line, context()).principal == f"uid:{os.geteuid()}"


def test_a_failed_handshake_is_in_the_log_with_peer_and_reason(tmp_path: Path) -> None:
    flags = (*server_pair().flags, "--tls-client-ca", str(authority().file))
    with serving("outfitter", tmp_path, *flags, listen=ANY) as server:
        theirs = authority("strangers").issue("alice")
        failure(server.url, client_cert=theirs.cert, client_key=theirs.key)
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            plain.sendall(READY)
            assert b"this port speaks TLS" in rest(plain)
        log = tmp_path / "outfitter.stderr"
        # A busy machine may have more to say.
        lines = lambda: [line for line in log.read_text().splitlines() if "refused" in line]  # noqa: E731
        wait_until(lambda: len(lines()) == 2, "the log does not have both")
    refused, unencrypted = lines()
    assert re.fullmatch(
        r"! refused 127\.0\.0\.1:\d+: TLS: handshake failed: the client's certificate is not accepted: .+",
        refused,
    )
    assert re.fullmatch(r"! refused 127\.0\.0\.1:\d+: TLS: the client spoke without it", unencrypted)


# Much data


def test_64_mb_pass_both_ways_intact(server: Server, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(64 << 20)
    path = str(tmp_path / "large")

    async def scenario() -> bytes:
        async with connect(server.url, ca=authority().file) as client:
            await client.files.write(path, data)
            streamed = hashlib.sha256()
            process = await client.start(["cat", path])
            async for event in process:
                if hasattr(event, "data"):
                    streamed.update(event.data)
            return streamed.digest()

    wanted = hashlib.sha256(data).digest()
    assert run(scenario()) == wanted
    assert hashlib.sha256(Path(path).read_bytes()).digest() == wanted


class Cutters(Cutter):
    """Cuts one connection after the other, each after so many bytes; then none."""

    left = [400_000, 150, 1_500, 2_500, 300_000, 0]

    @property
    def budget(self) -> int | None:  # type: ignore[override]
        return self.left.pop(0) if self.left else None

    @budget.setter
    def budget(self, value: int | None) -> None:
        """Only what stands above counts."""


def test_no_byte_is_lost_or_doubled_when_connections_are_cut_anywhere(server: Server) -> None:
    # In a record of a stream, in the hello, among the certificates, in the request, and before anything. All
    # of it is less than the server keeps for a client that is away.
    async def scenario(url: str) -> bytes:
        async with connect(url, ca=authority().file) as client:
            return await collected(await client.start(["seq", "130000"]))

    with contextlib.closing(Cutters(server)) as cutter:
        output = run(scenario(cutter.url.replace("ws:", "wss:")))
        assert cutter.left == []
    assert output == b"".join(b"%d\n" % number for number in range(1, 130_001))


def test_a_client_that_stops_reading_holds_up_nobody(server: Server) -> None:
    tls = context()
    with secured(server, tls) as sock:
        sock.sendall(head())
        assert sock.recv(4096).startswith(b"HTTP/1.1 101 ")
        call = '{"id":%d,"method":"%s","params":%s}'
        argv = '{"processId":"p","argv":["head","-c","200000000","/dev/zero"],"cwd":"file:///","env":{},"tty":false}'
        for number, (method, params) in enumerate(
            [("initialize", '{"clientName":"stalled"}'), ("process/start", argv)], 1
        ):
            sock.sendall(frame((call % (number, method, params)).encode()))
            if number == 1:
                sock.sendall(frame(b'{"method":"initialized"}'))
        assert run(_says(server.url)) == "hello\n"
        # What it did not take waits for it, whole: the rest follows without a fault of the framing.
        taken = 0
        while taken < 32 << 20:
            taken += len(sock.recv(1 << 20))
    assert run(_says(server.url)) == "hello\n"


def head() -> bytes:
    lines = ["GET / HTTP/1.1", *(f"{name}: {value}" for name, value in UPGRADE.items()), "", ""]
    return "\r\n".join(lines).encode()


# Peers that misbehave


def test_garbage_ends_its_own_connection_only(server: Server) -> None:
    async def scenario() -> None:
        async with connect(server.url, ca=authority().file) as client:
            process = await client.start(["cat"], stdin=True)
            for data in (
                b"\x16\x03\x01\x02\x00\x01\x00",
                b"\x16" + os.urandom(500),
                os.urandom(500),
                b"\0" * 70_000,
            ):
                await asyncio.to_thread(thrown_at, data)
            await asyncio.to_thread(thrown_into_an_open_one)
            await process.write(b"still here\n")
            await process.close_stdin()
            assert (await collected(process)) == b"still here\n"

    def thrown_at(data: bytes) -> None:
        with socket.create_connection(("127.0.0.1", server.port), 20 * SECOND) as sock:
            with contextlib.suppress(OSError):  # it may be reset at once, and then is not even connected
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
            rest(sock)

    def thrown_into_an_open_one() -> None:
        with secured(server) as sock:
            plain = socket.socket(fileno=os.dup(sock.fileno()))  # beside the encryption
            with plain:
                plain.settimeout(20 * SECOND)
                plain.sendall(b"\x17\x03\x03\x00\x20" + os.urandom(32))
                rest(plain)

    run(scenario())


async def collected(process: Any) -> bytes:
    return b"".join([event.data async for event in process if hasattr(event, "data")])


def told_by_openssl(server: Server, keys: str, *flags: str) -> str:
    """What `openssl s_client` says when these keys are typed into it."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", *flags],
        input=keys,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.stdout + done.stderr


def test_renegotiation_is_refused(server: Server) -> None:
    assert "no renegotiation" in told_by_openssl(server, "R\n", "-tls1_2")
    assert ready(server)


def test_new_keys_in_tls_1_3_are_given(server: Server) -> None:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_3", "-crlf"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as openssl:
        assert openssl.stdin is not None and openssl.stdout is not None
        for _ in range(5):
            openssl.stdin.write("K\n")  # one line at a time is a command
            openssl.stdin.flush()
            assert any("KEYUPDATE" in line for line in openssl.stdout)
        openssl.stdin.write("GET /readyz HTTP/1.1\nHost: localhost\n\n")
        openssl.stdin.flush()
        assert any("HTTP/1.1 200 OK" in line for line in openssl.stdout)


def test_the_end_of_tls_is_noticed_behind_a_message_and_without_the_end_of_tcp(server: Server) -> None:
    with secured(server) as sock:
        sock.sendall(head())
        assert sock.recv(4096).startswith(b"HTTP/1.1 101 ")
        # Both in one segment: nothing comes after it that would wake the server again.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        sock.sendall(frame(b"", 0x89))
        sock.setblocking(False)
        with pytest.raises(ssl.SSLWantReadError):
            sock.unwrap()
        with socket.socket(fileno=os.dup(sock.fileno())) as beside:
            beside.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
            beside.settimeout(20 * SECOND)
            rest(beside)  # comes to an end


@pytest.mark.parametrize("upgraded", [False, True])
def test_the_server_ends_tls_before_tcp(upgraded: bool, server: Server) -> None:
    raw = socket.create_connection(("127.0.0.1", server.port), 20 * SECOND)
    # An end without the farewell of TLS would raise SSLEOFError.
    tls = context().wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False)
    with tls as sock:
        sock.sendall(head() + frame(b"", 0x88) if upgraded else READY)
        read = b""
        while more := sock.recv(65536):
            read += more
    assert read.startswith(b"HTTP/1.1 101 " if upgraded else b"HTTP/1.1 200 ")


# Handshakes that come to nothing


class Line:
    """A listener with TLS that is moved by hand, and a raw peer."""

    def __init__(
        self, cert: Path | None = None, buffer: int | None = None, client_ca: Path | None = None
    ) -> None:
        self.loop = HandLoop()
        pair = server_pair()
        tls = server_context(
            str(cert or pair.cert), str(pair.key), None if client_ca is None else str(client_ca)
        )
        listening = listen("127.0.0.1", 0)
        self.peer = socket.socket()
        if buffer is not None:  # of the kernel, at both ends
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.transports: list[WebSocketTransport] = []
        self.listener = Listener(
            self.loop,
            listening,
            gate(frozenset(), None, frozenset((os.geteuid(),))),
            self.connected,
            10,
            secure=lambda sock, caller: TlsSocket(self.loop, sock, tls, caller),
        )
        self.peer.settimeout(5 * SECOND)
        self.peer.connect(listening.getsockname())
        self.loop.serve(lambda: bool(self.listener.open))

    def connected(self, transport: Any) -> None:
        transport.receiver = self
        self.transports.append(transport)

    def lost(self, reason: str) -> None:
        """As a receiver of messages, of which none come."""

    def close(self) -> None:
        self.peer.close()
        self.listener.stop()
        for one in list(self.listener.open):
            one._finish() if isinstance(one, WebSocketTransport) else one.abort()


@pytest.fixture
def line() -> Iterator[Line]:
    with contextlib.closing(Line()) as line:
        yield line


def hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    client = context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


STALLS: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "half a hello": lambda: hello()[:100],
    "a hello and no more": hello,
}


@pytest.mark.parametrize("stall", STALLS)
def test_a_handshake_has_ten_seconds(stall: str, line: Line) -> None:
    line.peer.sendall(STALLS[stall]())
    line.loop.advance(9.9)
    assert len(line.listener.open) == 1
    line.loop.advance(0.1)
    assert line.listener.open == set()
    rest(line.peer)  # comes to an end


def test_a_handshake_that_ends_is_forgotten_at_once(line: Line) -> None:
    line.peer.sendall(hello()[:100])
    line.peer.shutdown(socket.SHUT_WR)
    line.loop.serve(lambda: not line.listener.open)
    assert line.loop.waiting == 1  # the log, which counts its lines for a while


def test_a_chain_that_the_kernel_does_not_take_at_once_is_sent_as_the_client_reads(tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"
    chain.write_bytes(server_pair().cert.read_bytes() + 100 * authority().file.read_bytes())
    with contextlib.closing(Line(chain, buffer=4096)) as line:
        line.peer.setblocking(False)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        taken, waited = 0, False
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                if outgoing.pending:
                    line.peer.sendall(outgoing.read())
            line.loop.tick()
            waited = waited or bool(line.loop.writers)
            with contextlib.suppress(BlockingIOError):
                data = line.peer.recv(1000)
                taken += len(data)
                incoming.write(data)
        assert taken > 40_000
        assert waited
        client.write(READY)
        line.peer.sendall(outgoing.read())
        line.loop.serve(lambda: not line.listener.open)
        line.peer.settimeout(5 * SECOND)
        incoming.write(rest(line.peer))
        assert client.read(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_bytes_may_come_one_at_a_time(line: Line) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context().wrap_bio(incoming, outgoing, server_hostname="localhost")

    def send_slowly() -> None:
        for byte in outgoing.read():
            line.peer.sendall(bytes((byte,)))
            line.loop.tick()

    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            send_slowly()
            incoming.write(line.peer.recv(65536))
    client.write(READY)
    send_slowly()
    line.loop.serve(lambda: not line.listener.open)
    incoming.write(rest(line.peer))
    assert client.read(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_many_half_handshakes_lock_nobody_out(server: Server) -> None:
    begun = hello()
    with contextlib.ExitStack() as stack:
        for number in range(200):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 20 * SECOND))
            sock.sendall(begun if number % 2 else begun[:100])
        assert run(_says(server.url)) == "hello\n"


# A renewal while it works


def test_a_renewal_reaches_new_connections_and_disturbs_no_open_one(tmp_path: Path) -> None:
    pair = server_pair().copy(tmp_path / "tls")
    renewed = authority().issue("renewed")

    def subject(server: Server) -> str:
        with secured(server) as sock:
            certificate: Any = sock.getpeercert()
            return str(certificate["subject"][0][0][1])

    async def scenario(server: Server) -> tuple[bytes, int]:
        async with connect(server.url, ca=authority().file) as client:
            process = await client.start(["sh", "-c", "while read line; do echo $line; done"], stdin=True)
            connections, stop = 0, asyncio.Event()

            async def many() -> None:
                nonlocal connections
                while not stop.is_set():
                    assert await asyncio.to_thread(ready, server)
                    connections += 1

            work = [asyncio.create_task(many()) for _ in range(4)]
            assert await asyncio.to_thread(subject, server) == "localhost"
            await process.write(b"before\n")
            renewed.replace(pair)
            await asyncio.to_thread(
                wait_until, lambda: subject(server) == "renewed", "the renewal is not seen"
            )
            await process.write(b"after\n")
            await process.close_stdin()
            output = await collected(process)
            stop.set()
            await asyncio.gather(*work)
            return output, connections

    with serving("outfitter", tmp_path / "home", *pair.flags, listen=ANY) as server:
        output, connections = run(scenario(server))
    assert output == b"before\nafter\n"
    assert connections > 0


# What it costs others


def test_a_server_without_tls_does_not_load_it(tmp_path: Path, server: Server) -> None:
    def loaded(pid: int) -> bool:
        return "/_ssl." in Path(f"{PROC}/{pid}/maps").read_text()

    async def scenario(url: str) -> None:
        async with connect(url) as client:
            await client.run(["true"])

    with serving("outfitter", tmp_path) as plain:
        run(scenario(plain.url))
        assert not loaded(plain.pid)
    assert loaded(server.pid)
