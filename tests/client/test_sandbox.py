"""A client's sandbox, on our server and on the reference: the wire is the same, and so is what it means."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter import Client, RequestFailed, Sandbox
from tests.support.machine import SECOND
from tests.support.sandboxes import elsewhere
from tests.support.servers import Server, serving

SECONDS = 30 * SECOND
Scenario = Callable[[Client, Path], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module", params=["codex", "outfitter"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One server for all tests, outside of the temporary directories that a profile makes writable."""
    with elsewhere() as folder, serving(request.param, folder) as server:
        yield server


@pytest.fixture
def workspace(server: Server) -> Iterator[Path]:
    path = Path(server.home) / "work"
    path.mkdir(exist_ok=True)
    yield path
    for each in path.iterdir():
        if each.is_file():
            each.unlink()


def play(server: Server, workspace: Path, scenario: Scenario) -> None:
    async def run() -> None:
        async with asyncio.timeout(SECONDS), outfitter.connect(server.url) as client:
            await scenario(client, workspace)

    asyncio.run(run())


def test_read_only_lets_read_and_not_write(server: Server, workspace: Path) -> None:
    async def scenario(client: Client, workspace: Path) -> None:
        (workspace / "a").write_text("hello")
        sandbox = Sandbox.read_only()
        done = await client.run(["cat", "a"], cwd=str(workspace), sandbox=sandbox)
        assert (done.exit_code, done.stdout, done.sandbox_denied) == (0, b"hello", False)
        assert (await client.shell("kill -9 $$", sandbox=sandbox)).signal == "KILL"
        done = await client.run(["touch", "b"], cwd=str(workspace), sandbox=sandbox)
        assert (done.exit_code, done.sandbox_denied) == (1, True)
        assert b"Read-only file system" in done.stderr
        assert not (workspace / "b").exists()

    play(server, workspace, scenario)


def test_workspace_write_lets_write_there_and_where_it_says(server: Server, workspace: Path) -> None:
    async def scenario(client: Client, workspace: Path) -> None:
        beside = server.home / "beside"
        beside.mkdir(exist_ok=True)
        script = f"touch a; touch {beside}/b; mkdir -p .git && touch .git/hook"
        done = await client.run(
            ["sh", "-c", script], cwd=str(workspace), sandbox=Sandbox.workspace_write(writable=[str(beside)])
        )
        assert done.sandbox_denied
        assert (workspace / "a").exists()
        assert (beside / "b").exists()
        assert not (workspace / ".git" / "hook").exists()
        (beside / "b").unlink()
        done = await client.run(
            ["touch", f"{beside}/b"], cwd=str(workspace), sandbox=Sandbox.workspace_write()
        )
        assert (done.exit_code, done.sandbox_denied, (beside / "b").exists()) == (1, True, False)

    play(server, workspace, scenario)


def test_what_is_hidden_is_not_read(server: Server, workspace: Path) -> None:
    async def scenario(client: Client, workspace: Path) -> None:
        (workspace / "a.env").write_text("secret")
        (workspace / "b.txt").write_text("public")
        (workspace / "c").write_text("secret")
        sandbox = Sandbox.workspace_write(deny_read=["*.env", str(workspace / "c")])
        done = await client.run(["cat", "b.txt", "a.env", "c"], cwd=str(workspace), sandbox=sandbox)
        assert (done.stdout, done.sandbox_denied) == (b"public", True)

    play(server, workspace, scenario)


def test_no_network_is_reached_without_it(server: Server, workspace: Path) -> None:
    script = "import socket; socket.create_connection(('127.0.0.1', 9)).close()"

    async def scenario(client: Client, workspace: Path) -> None:
        for sandbox, said in (
            (Sandbox.read_only(), "Operation not permitted"),
            (Sandbox.read_only(network=True), "Connection refused"),
        ):
            done = await client.run(["python3", "-c", script], cwd=str(workspace), sandbox=sandbox)
            assert said in done.stderr.decode()

    play(server, workspace, scenario)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"reached")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page() -> Iterator[str]:
    """The URL of a page on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        serving.join()


def test_a_domain_is_reached_if_it_is_allowed(server: Server, workspace: Path, page: str) -> None:
    fetch = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode(), end='')"

    async def scenario(client: Client, workspace: Path) -> None:
        for domains, code, said in ((["127.0.0.1"], 0, b"reached"), (["example.org"], 1, b"")):
            done = await client.run(
                ["python3", "-c", fetch, page], cwd=str(workspace), sandbox=Sandbox.read_only(domains=domains)
            )
            assert (done.exit_code, done.stdout) == (code, said), done.stderr

    play(server, workspace, scenario)


def test_full_access_confines_nothing(server: Server, workspace: Path) -> None:
    async def scenario(client: Client, workspace: Path) -> None:
        done = await client.run(["touch", "a"], cwd=str(workspace), sandbox=Sandbox.full_access())
        assert (done.exit_code, (workspace / "a").exists()) == (0, True)

    play(server, workspace, scenario)


def test_files_within_a_sandbox_are_read_and_written_as_it_says(server: Server, workspace: Path) -> None:
    async def scenario(client: Client, workspace: Path) -> None:
        (workspace / "a").write_text("hello")
        reading = client.files.within(Sandbox.read_only(), str(workspace))
        assert await reading.read(f"{workspace}/a") == b"hello"
        with pytest.raises(RequestFailed, match="Read-only file system"):
            await reading.write(f"{workspace}/a", b"other")
        writing = client.files.within(Sandbox.workspace_write(), str(workspace))
        await writing.write(f"{workspace}/a", b"other")
        assert (workspace / "a").read_bytes() == b"other"
        with pytest.raises(RequestFailed, match="Read-only file system"):
            await writing.write(f"{server.home}/outside", b"other")
        hiding = client.files.within(Sandbox.workspace_write(deny_read=[f"{workspace}/a"]), str(workspace))
        with pytest.raises(RequestFailed, match="Permission denied"):
            await hiding.read(f"{workspace}/a")

    play(server, workspace, scenario)


def test_a_large_file_is_read_within_a_sandbox(server: Server, workspace: Path) -> None:
    async def scenario(client: Client, workspace: Path) -> None:
        data = bytes(range(256)) * (20 << 10)  # 5 MiB: more than goes at once
        (workspace / "large").write_bytes(data)
        files = client.files.within(Sandbox.read_only(), str(workspace))
        assert await files.read(f"{workspace}/large") == data

    play(server, workspace, scenario)


def test_a_stream_in_a_sandbox_and_its_start(server: Server, workspace: Path) -> None:
    async def scenario(client: Client, workspace: Path) -> None:
        process = await client.start(
            ["sh", "-c", "read line; echo got $line; touch x"],
            cwd=str(workspace),
            sandbox=Sandbox.read_only(),
            stdin=True,
            tty=(24, 80),
        )
        await process.write("it\n")
        assert await process.wait() == 1
        assert process.sandbox_denied

    play(server, workspace, scenario)


def test_the_plain_client_says_the_same(server: Server, workspace: Path) -> None:
    with outfitter.sync.connect(server.url) as client:
        sandbox = Sandbox.read_only()
        done = client.run(["touch", "b"], cwd=str(workspace), sandbox=sandbox)
        assert (done.exit_code, done.sandbox_denied) == (1, True)
        said: list[bytes] = []
        done = client.run(
            ["touch", "b"],
            cwd=str(workspace),
            sandbox=sandbox,
            on_output=lambda event: said.append(event.data),
        )
        assert (done.exit_code, done.sandbox_denied) == (1, True)
        assert b"Read-only file system" in b"".join(said)
        with pytest.raises(RequestFailed, match="Read-only file system"):
            client.files.within(sandbox, str(workspace)).write(f"{workspace}/c", b"x")
