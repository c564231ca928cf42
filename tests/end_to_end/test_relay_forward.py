"""outfitter forward: streams to a server that listens, whatever they say."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

import outfitter
from outfitter.relay.credentials import bearer
from outfitter.relay.harness import Harness, RelayTransport
from outfitter.relay.registry import Registry
from tests.support.codex import run_codex
from tests.support.machine import SECOND
from tests.support.model import Script, exec_command, modelling
from tests.support.relays import Rendezvous, dialling, meeting
from tests.support.servers import command, end, environment, serving


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rendezvous]:
    with meeting(tmp_path_factory.mktemp("forward") / "service") as running:
        yield running


@contextlib.contextmanager
def forwarding(service: Rendezvous, home: Path, name: str, to: str) -> Iterator[str]:
    """A forwarder; gives a user's token."""
    token = service.token(name, "execute")
    with dialling("forward", home, service.url, name, token, "--connect", to):
        service.wait_for(name)
        yield service.token(name, "use")


def test_stock_codex_as_destination_and_as_harness(service: Rendezvous, tmp_path: Path) -> None:
    def script() -> Script:
        [out] = yield [exec_command("echo forwarded")]
        assert out.text == "forwarded\n"
        return "done"

    with contextlib.ExitStack() as stack:
        destination = stack.enter_context(serving("codex", tmp_path / "codex"))
        model = stack.enter_context(modelling(script))
        token = stack.enter_context(forwarding(service, tmp_path / "forward", "codex", destination.url))

        async def scenario() -> None:
            async with outfitter.connect(f"noise+{service.url}/codex", token=token) as client:
                done = await client.run(["sh", "-c", "head -c 3000000 /dev/zero"], max_output=1 << 24)
                assert len(done.stdout) == 3_000_000

        asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))
        run = run_codex(
            tmp_path,
            model=model.url,
            cwd=tmp_path,
            env={
                "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL": service.url,
                "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID": "codex",
                "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN": token,
            },
        )
        assert (run.exit_code, run.message) == (0, "done"), run.stderr


@pytest.mark.parametrize("kind", ["forward", "outfitter"])
def test_one_that_ends_with_its_input_ends_when_the_terminal_is_gone(
    kind: str, service: Rendezvous, tmp_path: Path
) -> None:
    """Its end is an error there, as with a connection that is reset."""
    name = f"terminal-{kind}"
    ours, theirs = os.openpty()
    words = command(kind, "--remote", service.url, "--environment-id", name, "--exit-on-stdin-close")
    popen = subprocess.Popen(
        [*words, "--connect", "ws://127.0.0.1:1"] if kind == "forward" else words,
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(tmp_path, {"CODEX_API_KEY": service.token(name, "execute")}),
        start_new_session=True,
    )
    os.close(theirs)
    try:
        service.wait_for(name)
        os.close(ours)
        _, stderr = popen.communicate(timeout=30 * SECOND)
    finally:
        end(popen)
    assert (popen.returncode, stderr) == (0, b"")


class Opaque:
    """What the harness's end of a stream hears."""

    def __init__(self, transport: RelayTransport) -> None:
        self.got: asyncio.Queue[bytes | None] = asyncio.Queue()
        transport.receiver = self
        transport.begin()

    def message(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.got.put_nowait(data)

    def drained(self) -> None: ...

    def lost(self, reason: str) -> None:
        self.got.put_nowait(None)


def test_what_is_in_a_stream_is_passed_on_as_it_is(service: Rendezvous, tmp_path: Path) -> None:
    """No JSON either way, texts, ten megabytes; what came before the destination left is delivered."""
    large = bytes(range(256)) * 40_000

    async def destination(socket: ServerConnection) -> None:
        kinds = [await socket.recv() for _ in range(3)]
        assert kinds == [b"\x00\xffno JSON", b"{", large]
        await socket.send("a text: ü")
        await socket.send(b"\xff\x00")
        await socket.send(kinds[2])
        await socket.close()

    async def scenario() -> None:
        async with serve(destination, "127.0.0.1", 0, max_size=None, compression=None) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            ended = asyncio.Event()
            loop = asyncio.get_running_loop()
            ready: asyncio.Future[str] = loop.create_future()
            done = threading.Event()

            def run() -> None:
                with forwarding(service, tmp_path / "opaque", "opaque", f"ws://127.0.0.1:{port}") as token:
                    loop.call_soon_threadsafe(ready.set_result, token)
                    done.wait()
                loop.call_soon_threadsafe(ended.set)

            thread = threading.Thread(target=run)
            thread.start()
            try:
                token = await ready
                harness = Harness(Registry(service.url, "opaque", lambda: bearer(token)))
                transport = await harness.dial(20 * SECOND)
                heard = Opaque(transport)
                transport.send(b"\x00\xffno JSON", b"{", large)
                got = [await heard.got.get() for _ in range(4)]
                assert got == ["a text: ü".encode(), b"\xff\x00", large, None]
                await transport.wait_ended()
            finally:
                done.set()
                await ended.wait()
                thread.join()

    asyncio.run(asyncio.wait_for(scenario(), 90 * SECOND))


def test_a_destination_that_is_not_there_ends_the_stream(service: Rendezvous, tmp_path: Path) -> None:
    with forwarding(service, tmp_path / "nowhere", "nowhere", "ws://127.0.0.1:9") as token:

        async def scenario() -> None:
            with pytest.raises(outfitter.OutfitterError):
                async with outfitter.connect(
                    f"noise+{service.url}/nowhere", token=token, recovery_timeout=1.0, connect_timeout=5.0
                ):
                    pass

        asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))
