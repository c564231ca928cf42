"""MCP servers that an executor runs, with the real `mcp` package at both ends."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp
import mcp_types
import pytest
from mcp.shared.message import SessionMessage

import outfitter
from outfitter.adapters.mcp import STDERR_BYTES, StdioServer
from outfitter.errors import AdapterMissing, RemoteProtocolError, RequestFailed, SessionExpired
from tests.support import mcpserver
from tests.support.machine import alive, wait_gone
from tests.support.sandbox import need_sandbox
from tests.support.servers import serving
from tests.support.tap import tapping

REAL = [sys.executable, mcpserver.__file__]

# Answers each line with what it says, or does; its first line is its pid.
SMALL = """\
import json, os, signal, sys, time
out = sys.stdout
def say(text):
    out.write(text); out.flush()
say(json.dumps({"jsonrpc": "2.0", "method": "pid", "params": {"pid": os.getpid()}}) + "\\n")
for line in sys.stdin:
    exec(json.loads(line)["params"]["code"])
"""


def small(client: outfitter.Client, **settings: Any) -> StdioServer:
    return StdioServer(client, [sys.executable, "-S", "-c", SMALL], **settings)


def do(code: str) -> SessionMessage:
    """A message that makes the small server do this."""
    params = {"code": code}
    return SessionMessage(mcp_types.JSONRPCNotification(jsonrpc="2.0", method="do", params=params))


def said(message: object) -> Any:
    assert isinstance(message, SessionMessage), message
    return json.loads(message.message.model_dump_json(by_alias=True, exclude_unset=True))


async def pid_of(stream: Any) -> int:
    found: int = said(await stream.receive())["params"]["pid"]
    return found


async def text(client: mcp.Client, tool: str, **arguments: Any) -> str:
    found = await client.call_tool(tool, arguments)
    [item] = found.content
    assert isinstance(item, mcp_types.TextContent)
    return item.text


# With the package's own server


def test_the_package_talks_to_a_server_on_the_executor(tmp_path: Path) -> None:
    large = "ä" * 300_000  # more than one piece of output, and split within a character

    async def main() -> None:
        async with outfitter.local() as executor:
            server = StdioServer(executor, REAL, cwd=str(tmp_path), env={"MARK": "here"}, grace=60)
            async with mcp.Client(server) as client:
                assert "echo" in {tool.name for tool in (await client.list_tools()).tools}
                assert await text(client, "where", name="MARK") == f"{tmp_path} here"
                assert await text(client, "echo", text=large) == f"1 {large}"
                assert await text(client, "complain", text="on stderr") == "done"
            assert b"on stderr\n" in server.stderr
            assert server.process is not None
            assert server.process.exit_code == 0  # by itself, at the end of its input

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["outfitter", "codex"])
def test_a_cut_connection_loses_and_doubles_nothing(kind: str, tmp_path: Path) -> None:
    async def main(url: str) -> list[str]:
        answers = []
        async with outfitter.connect(url) as executor, mcp.Client(StdioServer(executor, REAL)) as client:
            for number in range(6):
                if number in (1, 3):
                    # In the middle of an answer of the server, and of a message to it.
                    tap.cut_at(lambda heard, on=number: heard.method == cuts[on])
                answers.append(await text(client, "echo", text="x" * 5000))
        return answers

    cuts = {1: "process/output", 3: "process/write"}
    with serving(kind, tmp_path) as server, tapping(server.port) as tap:
        answers = asyncio.run(main(tap.url))
        assert answers == [f"{number} {'x' * 5000}" for number in range(1, 7)]
        assert tap.connections == 3
        assert len(tap.sent("process/start")) == 1


# With a small one


def test_lines_come_whole_and_bad_ones_as_exceptions() -> None:
    async def main() -> None:
        async with outfitter.local() as executor, small(executor) as (received, sent):
            await pid_of(received)
            await sent.send(
                do(r"""say('{"jsonrpc": "2.0", "met'); time.sleep(0.05); say('hod": "a"}\r\n\nno\n')""")
            )
            assert said(await received.receive()) == {"jsonrpc": "2.0", "method": "a"}
            assert isinstance(await received.receive(), ValueError)
            await sent.send(do(r"""say('{"jsonrpc": "2.0", "method": "last"}'); sys.exit()"""))
            assert said(await received.receive()) == {"jsonrpc": "2.0", "method": "last"}
            with pytest.raises(anyio.EndOfStream):
                await received.receive()

    asyncio.run(main())


def test_a_message_above_the_limit_ends_the_server() -> None:
    async def main() -> int:
        async with outfitter.local() as executor, small(executor, max_message=1000) as (received, sent):
            pid = await pid_of(received)
            await sent.send(do("say('x' * 1002); time.sleep(1000)"))
            failure = await received.receive()
            assert isinstance(failure, RemoteProtocolError)
            assert "1000 bytes" in str(failure)
            with pytest.raises(anyio.EndOfStream):
                await received.receive()
            return pid

    wait_gone([asyncio.run(main())])


def test_stderr_is_kept_to_its_end_and_no_more() -> None:
    async def main() -> None:
        async with outfitter.local() as executor:
            server = small(executor)
            async with server as (received, sent):
                await pid_of(received)
                await sent.send(do("sys.stderr.write('e' * 1_000_000 + 'end'); sys.exit(3)"))
                with pytest.raises(anyio.EndOfStream):
                    await received.receive()
            assert server.stderr == b"e" * (STDERR_BYTES - 3) + b"end"
            assert server.process is not None
            assert server.process.exit_code == 3

    asyncio.run(main())


def test_a_server_that_does_not_want_to_end_is_killed_with_its_children() -> None:
    code = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); child = os.fork()\n"
        "if child:\n"
        "    say(json.dumps({'jsonrpc': '2.0', 'method': 'child', 'params': {'pid': child}}) + '\\n')\n"
        "while True: time.sleep(1000)"
    )

    async def main() -> list[int]:
        async with outfitter.local() as executor:
            async with small(executor, grace=0.1) as (received, sent):
                pids = [await pid_of(received)]
                await sent.send(do(code))
                pids.append(await pid_of(received))
            assert not alive(pids[0])
            return pids

    wait_gone(asyncio.run(main()))


def test_a_server_that_wants_to_end_only_at_sigterm_does_so() -> None:
    code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); say('x\\n')\nwhile True: time.sleep(1000)"

    async def main() -> int | None:
        async with outfitter.local() as executor:
            server = small(executor, grace=0.1)
            async with server as (received, sent):
                await pid_of(received)
                await sent.send(do(code))
                await received.receive()
            assert server.process is not None
            return server.process.exit_code

    assert asyncio.run(main()) == 7


@pytest.mark.parametrize("natively", [True, False])
def test_a_cancelled_block_leaves_nothing_running(natively: bool) -> None:
    async def main() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def use(executor: outfitter.Client) -> None:
            async with small(executor) as (received, _):
                found.set_result(await pid_of(received))
                await received.receive()

        async with outfitter.local() as executor:
            if natively:
                task = asyncio.create_task(use(executor))
                pid = await found
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            else:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(use, executor)
                    pid = await found
                    tasks.cancel_scope.cancel()
            wait_gone([pid])
            return pid

    asyncio.run(main())


def test_a_server_that_ends_ends_the_calls_that_wait() -> None:
    async def main() -> None:
        async with outfitter.local() as executor:
            ended = StdioServer(executor, ["sh", "-c", "read line; exit 1"])
            async with ended as (received, sent), mcp.ClientSession(received, sent) as session:
                with pytest.raises(mcp.MCPError, match="closed"):
                    await session.initialize()

    asyncio.run(main())


def test_messages_to_a_server_that_does_not_listen_end_the_stream() -> None:
    async def main() -> None:
        async with outfitter.local() as executor:
            deaf = StdioServer(executor, ["sh", "-c", "exec <&-; echo x; exec sleep 1000"], grace=0.0)
            async with deaf as (received, sent):
                assert isinstance(await received.receive(), ValueError)
                flooding = asyncio.create_task(flood(sent))
                with pytest.raises(anyio.EndOfStream):
                    await received.receive()
                await flooding

    async def flood(sent: Any) -> None:
        with contextlib.suppress(anyio.BrokenResourceError):
            while True:
                await sent.send(do(""))

    asyncio.run(main())


def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with outfitter.local() as executor:
            with pytest.raises(RequestFailed, match="no-such-program"):
                async with StdioServer(executor, ["no-such-program"]):
                    pass

    asyncio.run(main())


def test_a_lost_session_comes_as_an_exception(tmp_path: Path) -> None:
    async def main() -> None:
        with serving("outfitter", tmp_path) as server:
            async with (
                outfitter.connect(server.url, recovery_timeout=0.1) as executor,
                small(executor, grace=0.1) as (received, _),
            ):
                await pid_of(received)
                server.popen.kill()
                assert isinstance(await received.receive(), SessionExpired)
                with pytest.raises(anyio.EndOfStream):
                    await received.receive()

    asyncio.run(main())


def test_it_is_started_as_a_command_is(tmp_path: Path) -> None:
    """In the environment of its project, by its contract, in its sandbox."""
    need_sandbox()
    (tmp_path / "outfitter.toml").write_text('[env]\nset = { NO_COLOR = "1" }\n')
    code = (
        "try: open('made', 'w'); made = True\n"
        "except OSError: made = False\n"
        "found = {'made': made, 'names': sorted({'A', 'B', 'C', 'NO_COLOR'} & set(os.environ))}\n"
        "say(json.dumps({'jsonrpc': '2.0', 'method': 'x', 'params': found}) + '\\n')"
    )

    async def main() -> None:
        async with outfitter.local(environment={"PATH": "/usr/bin:/bin", "A": "1", "B": "2"}) as executor:
            server = small(
                executor,
                cwd=str(tmp_path),
                env={"C": "3"},
                contract=outfitter.EnvContract(unset=("B",)),
                sandbox=outfitter.Sandbox.read_only(),
            )
            async with server as (received, sent):
                await pid_of(received)
                await sent.send(do(code))
                names = ["A", "C", "NO_COLOR"]
                assert said(await received.receive())["params"] == {"made": False, "names": names}

    asyncio.run(main())


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "outfitter.adapters.mcp")
    with pytest.raises(AdapterMissing, match=r"pip install 'outfitter\[mcp\]'"):
        importlib.import_module("outfitter.adapters.mcp")
