"""The client over a link that keeps breaking: nothing lost, nothing doubled, in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter import Completed, Disconnected, Exited, Output, OutputLost, RemoteProcess
from tests.support.machine import SECOND, running, wait_gone, wait_until
from tests.support.proxy import Cutter
from tests.support.servers import Server, serving
from tests.support.tap import Heard, Tap, tapping

SECONDS = 60 * SECOND  # a storm that takes longer has stuck

BURSTS, LINES = 15, 1000
CATS, WRITES = 8, 125  # at once: one after the other, a thousand writes to the reference take long
# Prints a burst for each line it reads. A burst is far below what a server retains, and the next one is
# asked for when the last one has come: so nothing may be lost, however long the link is down.
PRINTER = f"""
import sys
number = 0
for _ in range({BURSTS}):
    sys.stdin.readline()
    for _ in range({LINES}):
        sys.stdout.write(f"line {{number}}\\n")
        number += 1
    sys.stdout.flush()
"""


@pytest.fixture(scope="module", params=["outfitter", "codex"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory.mktemp("home")) as server:
        yield server


class Storm(Cutter):
    """Gives each connection a budget of bytes of its own, after which it is cut."""

    def __init__(self, server: Server, budgets: Callable[[], int | None]) -> None:
        self._budgets = budgets
        self.connections = 0
        super().__init__(server)

    @property
    def budget(self) -> int | None:
        """Asked for once by each connection."""
        self.connections += 1
        return self._budgets()

    @budget.setter
    def budget(self, value: int | None) -> None:
        pass


@contextlib.contextmanager
def storming(server: Server, budgets: Callable[[], int | None]) -> Iterator[Storm]:
    storm = Storm(server, budgets)
    try:
        yield storm
    finally:
        storm.close()


def of_any_size(seed: int) -> Callable[[], int]:
    """Budgets that cut inside the upgrade, the handshake, the catching up, or long after."""
    chance = random.Random(seed)
    first = iter([20_000])  # the client itself must come to be

    def budget() -> int:
        most = chance.choice([300, 3_000, 20_000, 40_000, 100_000])
        return next(first, 0) or chance.randint(3, most)

    return budget


async def read_bursts(printer: RemoteProcess) -> bytes:
    """All that the printer prints; asks for each burst when the last one is whole."""
    text = b""
    asked = 1
    await printer.write(b"\n")
    async for event in printer:
        if isinstance(event, Output):
            assert event.stream == "stdout", event
            text += event.data
            if text.endswith(b"line %d\n" % (asked * LINES - 1)) and asked < BURSTS:
                asked += 1
                await printer.write(b"\n")
        else:
            assert event == Exited(0)
    return text


async def echo(cat: RemoteProcess) -> bytes:
    """All that a cat prints, from the first write to the last."""
    parts: list[bytes] = []
    whole = asyncio.Event()

    async def read() -> None:
        async for event in cat:
            if isinstance(event, Output):
                parts.append(event.data)
                if event.data.endswith(b"last\n"):
                    whole.set()

    reading = asyncio.ensure_future(read())
    for number in range(WRITES):
        assert await cat.write(b"write %d\n" % number) == "accepted"
    assert await cat.write(b"last\n") == "accepted"
    await whole.wait()
    await cat.terminate()
    await reading
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_or_doubled_over_a_link_that_keeps_breaking(seed: int, server: Server) -> None:
    # X1, X2
    states: list[str] = []

    async def scenario(storm: Storm) -> list[bytes]:
        async with outfitter.connect(storm.url, on_state=states.append) as client:
            printer = await client.start(["python3", "-c", PRINTER], stdin=True)
            cats = [await client.start(["cat"], stdin=True) for _ in range(CATS)]
            said = await asyncio.gather(read_bursts(printer), *map(echo, cats))
            assert (client.failed, printer.exit_code) == (None, 0)
            assert "failed" not in states
            return said

    with storming(server, of_any_size(seed)) as storm:
        printed, *echoed = asyncio.run(asyncio.wait_for(scenario(storm), SECONDS))
    assert states.count("recovering") >= 5
    assert printed == b"".join(b"line %d\n" % number for number in range(BURSTS * LINES))
    assert echoed == [b"".join(b"write %d\n" % number for number in range(WRITES)) + b"last\n"] * CATS


def test_output_that_outran_the_server_fails_its_own_process_and_no_other(
    server: Server, tmp_path: Path
) -> None:
    # Spec 14.5: lost output ends the process it belongs to.
    done = tmp_path / "done"
    budgets: list[int | None] = [30_000]
    states: list[str] = []

    def until_done() -> int | None:
        """The first connection breaks in the flood; nobody comes through until the flood is over."""
        return budgets.pop() if budgets else None if done.exists() else 1

    async def scenario(storm: Storm) -> None:
        async with outfitter.connect(storm.url, on_state=states.append) as client:
            cat = await client.start(["cat"], stdin=True)
            echoed = aiter(cat)
            await cat.write(b"before\n")
            assert await anext(echoed) == Output("stdout", b"before\n")
            script = f"echo $$; read go; head -c 3000000 /dev/zero; touch {done}; exec sleep 60"
            flood = await client.start(["sh", "-c", script], stdin=True)
            events = aiter(flood)
            first = await anext(events)
            assert isinstance(first, Output)
            go = asyncio.ensure_future(flood.write(b"\n"))
            with pytest.raises(OutputLost) as raised:
                async for _ in events:
                    pass
            assert re.fullmatch(
                r"process events are no longer retained while recovering through sequence \d+",
                str(raised.value),
            )
            with pytest.raises(OutputLost):
                await flood.wait()
            await asyncio.to_thread(wait_gone, [int(first.data)])
            await asyncio.gather(go, return_exceptions=True)  # its answer may have been cut off
            await cat.write(b"after\n")
            assert await anext(echoed) == Output("stdout", b"after\n")
            assert await client.run(["echo", "hi"]) == Completed(0, b"hi\n", b"")
            assert states == ["recovering", "connected"]

    with storming(server, until_done) as storm:
        asyncio.run(asyncio.wait_for(scenario(storm), SECONDS))


def test_start_that_the_break_leaves_open_is_not_repeated_and_ended(server: Server) -> None:
    # Spec 14.4: the answer is torn, so the command runs and nobody knows.
    text = f"60.{secrets.randbelow(10**9):09}"
    states: list[str] = []

    async def scenario(tap: Tap) -> None:
        async with outfitter.connect(tap.url, on_state=states.append) as client:
            cat = await client.start(["cat"], stdin=True)
            tap.cut_at(lambda heard: heard.sender == "server" and "processId" in result(heard))
            with pytest.raises(Disconnected):
                await client.start(["sleep", text])
            await cat.write(b"still here\n")  # so it is connected again
            await asyncio.to_thread(wait_until, lambda: not running(f"sleep {text}"), "it is ended")
            assert states == ["recovering", "connected"]

    with tapping(server.port) as tap:
        asyncio.run(asyncio.wait_for(scenario(tap), SECONDS))
        starts = [params["argv"] for params in tap.sent("process/start")]
        assert starts == [["cat"], ["sleep", text]]
        assert [set(params) for params in tap.sent("process/terminate")] == [{"processId"}] * 2


def result(heard: Heard) -> dict[str, Any]:
    """What an answer holds; nothing for anything else."""
    found = heard.message.get("result")
    return found if isinstance(found, dict) else {}


def test_command_that_is_given_up_during_a_break_is_ended_after_it(server: Server) -> None:
    back = threading.Event()
    budgets: list[int | None] = [30_000]

    def until_back() -> int | None:
        return budgets.pop() if budgets else None if back.is_set() else 1

    async def scenario(storm: Storm) -> None:
        recovering = asyncio.Event()
        async with outfitter.connect(storm.url, on_state=lambda _: recovering.set()) as client:
            pids: list[int] = []
            told = asyncio.Event()

            def tell(output: Output) -> None:
                pids.append(int(output.data))
                told.set()

            task = asyncio.ensure_future(client.run(["sh", "-c", "echo $$; exec sleep 60"], on_output=tell))
            await told.wait()
            # More than the connection has left; it waits, since a start is not made up for.
            flood = await client.start(["sh", "-c", "read go; head -c 100000 /dev/zero"], stdin=True)
            go = asyncio.ensure_future(flood.write(b"\n"))
            await recovering.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.state == "recovering"  # nobody waited for it
            back.set()
            assert await go == "accepted"
            parts = [event.data async for event in flood if isinstance(event, Output)]
            assert (b"".join(parts), flood.exit_code) == (bytes(100_000), 0)
            await asyncio.to_thread(wait_gone, pids)

    with storming(server, until_back) as storm:
        asyncio.run(asyncio.wait_for(scenario(storm), SECONDS))
