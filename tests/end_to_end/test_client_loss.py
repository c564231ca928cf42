"""Servers that die, stop, hang or turn the client away: one stable error in time, and never a hang."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as websocket_server

import outfitter
from outfitter import (
    Completed,
    DialFailed,
    Disconnected,
    Output,
    RemoteProcess,
    SessionExpired,
    SettingInvalid,
    TimedOut,
)
from outfitter.client.connect import open_program
from outfitter.transport import dial
from tests.support import servers
from tests.support.machine import SECOND, alive, children, command, running, stop, wait_gone, wait_until
from tests.support.servers import Server, environment, serving
from tests.support.tools import program

KINDS = ("outfitter", "codex")
LIMIT = 1.5 * SECOND  # what the client may take to come back
SLACK = 3 * SECOND  # a busy machine
TICKER = "echo $$; while :; do echo tick; sleep 0.01; done"

# A connection that is reset may end before or after the client wrote to it.
LOST = r"the connection was lost(: Connection reset by peer|: Broken pipe)?"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("outfitter", tmp_path_factory.mktemp("home")) as server:
        yield server


def run(scenario: Awaitable[None], seconds: float = 20 * SECOND) -> None:
    async def within() -> None:
        await asyncio.wait_for(scenario, seconds)

    asyncio.run(within())


async def first_line(process: RemoteProcess) -> bytes:
    """The first line of its output; the rest is left to the next reader."""
    text = b""
    async for event in process:
        assert isinstance(event, Output)
        text += event.data
        if b"\n" in text:
            break
    return text.splitlines()[0]


async def drain(process: RemoteProcess) -> None:
    async for _ in process:
        pass


async def write_for_ever(process: RemoteProcess) -> None:
    while True:
        await process.write(bytes(60_000))


async def failures(tasks: list[asyncio.Task[Any]]) -> list[BaseException | Any]:
    return await asyncio.gather(*tasks, return_exceptions=True)


# Killed


def kill(server: Server) -> socket.socket:
    """Kills it; nobody else gets its port while the result is open, and whoever dials it is refused."""
    os.kill(server.pid, signal.SIGKILL)
    server.popen.wait()
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", server.port))
    return held


@pytest.mark.parametrize("kind", KINDS)
def test_everybody_who_waits_for_a_killed_server_gets_the_same_error_in_time(
    kind: str, tmp_path: Path
) -> None:
    states: list[str] = []

    async def scenario(server: Server) -> None:
        recovering = asyncio.Event()

        def told(state: str) -> None:
            states.append(state)
            recovering.set()

        async with (
            contextlib.AsyncExitStack() as on_leaving,
            outfitter.connect(server.url, recovery_timeout=LIMIT, on_state=told) as client,
        ):
            ticker = await client.start(["sh", "-c", TICKER])
            pid = int(await first_line(ticker))
            deaf = await client.start(["sleep", "60"], stdin=True)
            silent = await client.start(["sh", "-c", "setsid sleep 60 & echo $!; wait"])
            descendant = int(await first_line(silent))
            params = {"processId": deaf.process_id, "afterSeq": 0, "waitMs": 60_000}
            tasks = [
                asyncio.ensure_future(one)
                for one in (
                    drain(ticker),
                    write_for_ever(deaf),
                    client.run(["sleep", "60"]),
                    silent.wait(),
                )
            ]
            for _ in range(10):
                await client.status()  # all of these are under way
            tasks.append(asyncio.ensure_future(client.call("process/read", params, repeat=True)))
            once = asyncio.ensure_future(client.call("process/read", params))
            await asyncio.sleep(0)
            began = time.monotonic()
            on_leaving.enter_context(kill(server))
            await recovering.wait()
            with pytest.raises(Disconnected):  # it may have been carried out: its caller must decide
                await once
            with pytest.raises(Disconnected, match=r"^exec-server environment is recovering$"):
                await client.status()
            tasks += [
                asyncio.ensure_future(one)
                for one in (
                    client.call("environment/info", None),
                    client.run(["true"]),
                    ticker.interrupt(),
                    silent.terminate(),
                )
            ]
            ends = await failures(tasks)
            assert time.monotonic() - began < LIMIT + SLACK
            assert client.failed is not None
            assert re.fullmatch(
                rf"{LOST}; failed to resume exec-server session: recovery timed out after {LIMIT:g}s "
                rf"\(last attempt: cannot connect to {server.url}: Connection refused\)",
                str(client.failed),
            )
            assert [(type(end), str(end)) for end in ends] == [(SessionExpired, str(client.failed))] * 9
            # And it stays so.
            with pytest.raises(SessionExpired) as raised:
                await client.run(["true"])
            assert str(raised.value) == str(client.failed)
            if kind == "outfitter":
                await asyncio.to_thread(wait_gone, [pid, descendant])
            else:
                for orphan in (pid, descendant):  # the reference leaves them
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(orphan, signal.SIGKILL)

    with serving(kind, tmp_path) as server:
        run(scenario(server))
    assert states == ["recovering", "failed"]


def test_client_can_be_closed_while_it_looks_for_its_server(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        recovering = asyncio.Event()
        async with outfitter.connect(server.url, on_state=lambda _: recovering.set()) as client:
            process = await client.start(["sleep", "60"])
            waiting = [asyncio.ensure_future(one) for one in (process.wait(), client.run(["sleep", "60"]))]
            for _ in range(2):
                await client.status()  # the first one overtakes what has yet to begin
            held = kill(server)
            await recovering.wait()
            waiting.append(asyncio.ensure_future(client.call("environment/info", None)))
            await asyncio.sleep(0)
            began = time.monotonic()
        held.close()
        assert time.monotonic() - began < 2.0 + SLACK  # which it gives the server to end what runs
        assert [(type(end), str(end)) for end in await failures(waiting)] == [
            (SessionExpired, "the client is closed")
        ] * 3

    with serving("outfitter", tmp_path) as server:
        run(scenario(server))


@pytest.mark.parametrize("kind", KINDS)
def test_timeout_holds_though_the_server_does_not_answer(kind: str, tmp_path: Path) -> None:
    text = f"60.{secrets.randbelow(10**9):09}"

    async def scenario(server: Server) -> None:
        async with outfitter.connect(server.url) as client:
            stop(server.pid)
            try:
                began = time.monotonic()
                with pytest.raises(TimedOut) as raised:
                    await client.run(["sleep", text], timeout=0.3 * SECOND)
                assert time.monotonic() - began < SLACK
                assert (raised.value.stdout, raised.value.stderr) == (b"", b"")
            finally:
                os.kill(server.pid, signal.SIGCONT)
            # It was started after all, and is ended.
            assert await client.run(["true"]) == Completed(0, b"", b"")
            await asyncio.to_thread(wait_until, lambda: not running(f"sleep {text}"), "it is ended")

    with serving(kind, tmp_path) as server:
        run(scenario(server))


def test_client_can_be_closed_though_its_server_is_stopped(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        async with outfitter.connect(server.url) as client:
            await client.start(["sleep", "60"])
            stop(server.pid)
            began = time.monotonic()
        assert time.monotonic() - began < 4.0 + SLACK  # for what runs, and for the closing handshake
        os.kill(server.pid, signal.SIGCONT)

    with serving("outfitter", tmp_path) as server:
        run(scenario(server))


@pytest.mark.parametrize("kind", KINDS)
def test_server_that_comes_back_without_the_session_ends_it_at_once(kind: str, tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        async with outfitter.connect(server.url) as client:
            process = await client.start(["sleep", "60"])
            waiting = asyncio.ensure_future(process.wait())
            await client.status()
            kill(server).close()
            with serving(kind, tmp_path, listen=server.url):
                began = time.monotonic()
                with pytest.raises(SessionExpired) as raised:
                    await waiting
                assert time.monotonic() - began < SLACK  # the deadline is 25 s away
                assert re.fullmatch(
                    rf"{LOST}; failed to resume exec-server session: "
                    rf"unknown session id {client.session_id} \(code -32600\)",
                    str(raised.value),
                )

    with serving(kind, tmp_path) as server:
        run(scenario(server))


@pytest.mark.parametrize("kind", KINDS)
def test_server_that_is_stopped_for_a_while_loses_nothing(kind: str, tmp_path: Path) -> None:
    states: list[str] = []
    lines, writes = 20_000, 50

    async def scenario(server: Server) -> None:
        async with outfitter.connect(server.url, on_state=states.append) as client:
            printer = asyncio.ensure_future(
                client.run(["sh", "-c", f"seq 1 {lines // 2}; sleep 0.2; seq {lines // 2 + 1} {lines}"])
            )
            cat = await client.start(["cat"], stdin=True)
            stop(server.pid)
            try:
                writing = [asyncio.ensure_future(cat.write(b"%d\n" % number)) for number in range(writes)]
                await asyncio.sleep(0.5 * SECOND)  # as long as it is stopped
                assert not any(one.done() for one in writing)
            finally:
                os.kill(server.pid, signal.SIGCONT)
            assert await asyncio.gather(*writing) == ["accepted"] * writes
            text = b""
            expected = b"".join(b"%d\n" % number for number in range(writes))
            async for event in cat:
                assert isinstance(event, Output)
                text += event.data
                if len(text) >= len(expected):
                    break
            assert text == expected
            numbers = "".join(f"{number}\n" for number in range(1, lines + 1))
            assert await printer == Completed(0, numbers.encode(), b"")
            assert states == []

    with serving(kind, tmp_path) as server:
        run(scenario(server))


# Half open


class Hole:
    """A TCP proxy whose connections can be made to swallow everything, as a network that is gone does."""

    def __init__(self, server: Server) -> None:
        self._target = ("127.0.0.1", server.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._listening.getsockname()[1]}"
        self._open: list[tuple[socket.socket, threading.Event]] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def swallow(self) -> None:
        """From now on nothing comes through the connections that there are; new ones work."""
        for _, swallowing in self._open:
            swallowing.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            swallowing = threading.Event()
            self._open += [(near, swallowing), (far, swallowing)]
            for one, other in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pump, args=(one, other, swallowing))
                self._threads.append(thread)
                thread.start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, swallowing: threading.Event) -> None:
        try:
            while data := source.recv(65536):
                if not swallowing.is_set():
                    target.sendall(data)
        except OSError:
            pass
        if not swallowing.is_set():
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._threads[0].join()
        for one, _ in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one, _ in self._open:
            one.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keep-alive's minutes as tenths of seconds."""
    monkeypatch.setattr(dial, "_PING_SECONDS", 0.1 * SECOND)
    monkeypatch.setattr(dial, "_DEAD_SECONDS", 0.2 * SECOND)


@pytest.mark.usefixtures("impatient")
def test_half_open_connection_is_noticed_and_replaced(server: Server) -> None:
    states: list[str] = []

    async def scenario(hole: Hole) -> None:
        async with outfitter.connect(hole.url, on_state=states.append) as client:
            process = await client.start(["sh", "-c", "echo 1; read x; echo 2; exit 3"], stdin=True)
            assert await first_line(process) == b"1"
            hole.swallow()
            assert await process.write(b"\n") == "accepted"
            assert await first_line(process) == b"2"
            assert await process.wait() == 3
            assert states == ["recovering", "connected"]

    with contextlib.closing(Hole(server)) as hole:
        run(scenario(hole))


@pytest.mark.usefixtures("impatient")
def test_half_open_connection_that_the_server_does_not_give_up_ends_in_time(tmp_path: Path) -> None:
    # The reference keeps the session for a connection that is gone: nothing can be done but to say so.
    async def scenario(hole: Hole) -> None:
        async with outfitter.connect(hole.url, recovery_timeout=LIMIT) as client:
            process = await client.start(["sleep", "60"])
            hole.swallow()
            with pytest.raises(SessionExpired) as raised:
                await process.wait()
            assert str(raised.value) == (
                "the server stopped responding; failed to resume exec-server session: "
                f"recovery timed out after {LIMIT:g}s (last attempt: session {client.session_id} is "
                "already attached to another connection (code -32010))"
            )

    with serving("codex", tmp_path) as server, contextlib.closing(Hole(server)) as hole:
        run(scenario(hole))


# Programs


@pytest.mark.parametrize("kind", KINDS)
def test_killed_program_ends_its_session_at_once_with_its_last_words(kind: str, tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    argv = servers.command(kind, "--listen", "stdio")

    async def scenario() -> None:
        wrapped = ["sh", "-c", 'echo one last word >&2; exec "$@"', "sh", *argv]
        client = await open_program(wrapped, env=environment(tmp_path), cwd=str(tmp_path))
        try:
            [pid] = [child for child in children(os.getpid()) if "--listen stdio" in command(child)]
            ticker = await client.start(["sh", "-c", TICKER])
            descendant = int(await first_line(ticker))
            tasks = [
                asyncio.ensure_future(one)
                for one in (drain(ticker), client.run(["sleep", "60"]), client.call("environment/info", None))
            ]
            await asyncio.sleep(0)
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            ends = await failures(tasks)
            assert time.monotonic() - began < SLACK
            text = str(client.failed)
            # The reference has more to say, about its home.
            assert text.startswith("standard output of sh ended; its last output: one last word")
            # The call may have been answered just before.
            assert [(type(end), str(end)) for end in ends[:2]] == [(SessionExpired, text)] * 2
            with pytest.raises(SessionExpired) as raised:
                await client.status()
            assert str(raised.value) == text
            if kind == "outfitter":
                await asyncio.to_thread(wait_gone, [descendant])
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(descendant, signal.SIGKILL)
        finally:
            await client.aclose()
        assert not alive(pid)

    run(scenario())


# Turned away


async def turned_away(url: str, **settings: Any) -> DialFailed:
    """Why no client came to be."""
    with pytest.raises(DialFailed) as raised:
        async with outfitter.connect(url, **settings):
            pass
    return raised.value


def test_port_that_accepts_and_says_nothing_is_not_waited_for() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
            began = time.monotonic()
            error = await turned_away(url, connect_timeout=0.3 * SECOND)
            assert time.monotonic() - began < SLACK
            assert (str(error), error.retryable) == (f"{url} did not answer within {0.3 * SECOND:g} s", True)

    run(scenario())


def test_server_that_never_answers_initialize_is_not_waited_for() -> None:
    async def say_nothing(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async def scenario() -> None:
        async with websocket_server(say_nothing, "127.0.0.1", 0) as silent:
            url = f"ws://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
            began = time.monotonic()
            error = await turned_away(url, initialize_timeout=0.3 * SECOND)
            assert time.monotonic() - began < SLACK
            text = f"the server did not answer `initialize` within {0.3 * SECOND:g} s"
            assert (str(error), error.retryable) == (text, True)

    run(scenario())


def test_server_that_ends_the_handshake_may_be_tried_again() -> None:
    async def hang_up(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.close(1013, "try again later")

    async def scenario() -> None:
        async with websocket_server(hang_up, "127.0.0.1", 0) as busy:
            url = f"ws://127.0.0.1:{busy.sockets[0].getsockname()[1]}"
            error = await turned_away(url)
            reason = "the server closed the connection: try again later"
            text = f"the connection was lost during the handshake: {reason}"
            assert (str(error), error.retryable) == (text, True)

    run(scenario())


UNUSABLE = "the server's answer to `initialize` is unusable: "
ANSWERS = {
    "nonsense": ("the connection was lost during the handshake: unreadable message: ", True),
    '{"id":1,"result":{}}': (UNUSABLE, False),
    '{"id":1,"result":{"sessionId":7}}': (UNUSABLE, False),
    '{"id":1,"result":{"sessionId":"s","environmentInfo":[]}}': (UNUSABLE, False),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_answer_to_initialize_that_makes_no_sense_is_told(answer: str) -> None:
    async def talk(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(answer)
        await connection.wait_closed()

    async def scenario() -> None:
        async with websocket_server(talk, "127.0.0.1", 0) as confused:
            error = await turned_away(f"ws://127.0.0.1:{confused.sockets[0].getsockname()[1]}")
            text, retryable = ANSWERS[answer]
            assert (str(error)[: len(text)], error.retryable) == (text, retryable)

    run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_other_path_is_refused_for_good(kind: str, tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        url = f"{server.url}/elsewhere"
        error = await turned_away(url)
        assert (str(error), error.retryable) == (f"{url} refused the connection: 404 Not Found", False)

    with serving(kind, tmp_path) as server:
        run(scenario(server))


@pytest.mark.parametrize("kind", KINDS)
def test_token_opens_the_door_and_no_other_does(kind: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("the right one of all\n")

    async def scenario(server: Server) -> None:
        refused = f"{server.url} refused the connection: 401 Unauthorized"
        for given, why in (
            (None, "missing websocket bearer token"),
            ("wrong", "invalid websocket bearer token"),
        ):
            error = await turned_away(server.url, token=given)
            told, _, remedy = str(error).partition("; ")
            assert (told, error.retryable) == (f"{refused}: {why}", False)
            assert "--token-file" in remedy
        async with outfitter.connect(server.url, token="the right one of all") as client:
            assert await client.run(["echo", "in"]) == Completed(0, b"in\n", b"")

    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving(kind, tmp_path, *flags) as server:
        run(scenario(server))


def test_token_is_not_sent_in_the_clear_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async def create_connection(*_: object, **__: object) -> None:
            raise AssertionError("somebody was dialled")

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
        with pytest.raises(SettingInvalid, match=r"^exec-server WebSocket headers require wss:// or a loop"):
            async with outfitter.connect("ws://192.0.2.1:9", token="secret"):
                pass

    run(scenario())


# TLS


class Certificate:
    """A certificate for `localhost` that nobody but its holder trusts."""

    def __init__(self, place: Path) -> None:
        self.file = place / "certificate.pem"
        key = place / "key.pem"
        words = [
            program("openssl"),
            *("req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(self.file)),
        ]
        subprocess.run(words, check=True, capture_output=True)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(self.file, key)

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.file))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("tls"))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


@contextlib.asynccontextmanager
async def in_front_of(
    server: Server, certificate: Certificate
) -> AsyncIterator[tuple[int, Callable[[], None]]]:
    """Takes TLS off the connections to a server: the port, and what cuts all that there are."""
    writers: list[asyncio.StreamWriter] = []
    pumping: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        pumping.add(task)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", server.port)
        writers.extend((writer, far_writer))
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    def cut() -> None:
        for writer in writers:
            writer.transport.abort()

    secure = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=certificate.server)
    try:
        yield secure.sockets[0].getsockname()[1], cut
    finally:
        secure.close()
        cut()
        await asyncio.gather(*pumping, return_exceptions=True)
        await secure.wait_closed()


def test_certificate_that_is_trusted_is_enough(server: Server, certificate: Certificate) -> None:
    async def scenario() -> None:
        async with (
            in_front_of(server, certificate) as (port, _),
            outfitter.connect(f"wss://localhost:{port}", tls=certificate.trusting(), token="t") as client,
        ):
            done = await client.run(["seq", "1", "200000"])
            assert done == Completed(0, "".join(f"{n}\n" for n in range(1, 200_001)).encode(), b"")
            process = await client.start(["cat"], stdin=True)
            await process.write(bytes(3 << 20))
            await process.close_stdin()
            assert await process.wait() == 0
            began = time.monotonic()
        assert time.monotonic() - began < SLACK

    run(scenario())


def test_link_over_tls_comes_back(server: Server, certificate: Certificate) -> None:
    states: list[str] = []

    async def scenario() -> None:
        async with (
            in_front_of(server, certificate) as (port, cut),
            outfitter.connect(
                f"wss://localhost:{port}", tls=certificate.trusting(), on_state=states.append
            ) as client,
        ):
            process = await client.start(["sh", "-c", "echo 1; read x; echo 2; exit 3"], stdin=True)
            assert await first_line(process) == b"1"
            cut()
            assert await process.write(b"\n") == "accepted"
            assert await first_line(process) == b"2"
            assert (await process.wait(), states) == (3, ["recovering", "connected"])

    run(scenario())


@pytest.mark.parametrize(
    ("host", "trusting", "why"),
    [
        ("localhost", False, "self-signed certificate"),
        ("127.0.0.1", True, "IP address mismatch, certificate is not valid for '127.0.0.1'"),
    ],
)
def test_certificate_that_is_not_trusted_is_refused_for_good(
    host: str, trusting: bool, why: str, server: Server, certificate: Certificate
) -> None:
    async def scenario() -> None:
        async with in_front_of(server, certificate) as (port, _):
            url = f"wss://{host}:{port}"
            error = await turned_away(url, tls=certificate.trusting() if trusting else None)
            text = f"cannot connect to {url}: its certificate is not trusted: {why}; "
            assert str(error).startswith(text)  # and what to do
            assert not error.retryable

    run(scenario())


def test_server_without_tls_is_not_talked_to_over_wss(server: Server) -> None:
    async def scenario() -> None:
        url = server.url.replace("ws://", "wss://")
        error = await turned_away(url)
        reason = "it ended the TLS handshake; for a server without TLS, write ws://"
        assert str(error) == f"cannot connect to {url}: {reason}"

    run(scenario())
