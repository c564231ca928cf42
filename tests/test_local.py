"""outfitter.local(): the real client and the real server in one process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter import Completed, Exited, Output, RequestFailed
from outfitter.errors import FileInvalid
from tests.support.machine import SECOND, alive, own_children, own_descriptors, wait_gone

Scenario = Callable[[], Coroutine[Any, Any, None]]


def in_a_loop(scenario: Scenario) -> Callable[[], None]:
    """Runs an async test on a loop of its own, within its time."""

    def test() -> None:
        asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))

    test.__name__ = scenario.__name__
    return test


async def listed(client: outfitter.Client) -> list[Any]:
    """The server's own view of the session's processes."""
    result = await client.call("process/list", None)
    processes: list[Any] = result["processes"]
    return processes


async def ended(client: outfitter.Client) -> None:
    """Waits until no process of the session runs."""
    async with asyncio.timeout(10 * SECOND):
        while any(not entry["exited"] for entry in await listed(client)):
            await asyncio.sleep(0.01 * SECOND)


@in_a_loop
async def test_run_collects_output_and_exit_code() -> None:
    async with outfitter.local() as client:
        done = await client.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert done == Completed(3, b"out\n", b"err\n")


@in_a_loop
async def test_run_takes_directory_environment_and_policy() -> None:
    async with outfitter.local(environment={"PATH": "/usr/bin:/bin", "GIVEN": "1", "A_KEY": "2"}) as client:
        done = await client.run(["pwd"], cwd="/usr/../usr")
        assert done == Completed(0, b"/usr\n", b"")
        done = await client.run(["env", "-0"], env={"MINE": "3"}, cwd="/")
        assert sorted(done.stdout.split(b"\0")[:-1]) == [
            b"A_KEY=2",
            b"GIVEN=1",
            b"MINE=3",
            b"PATH=/usr/bin:/bin",
            b"SHLVL=1",
        ]
        strict = outfitter.EnvPolicy("all", False, exclude=["G*"], set=[("SET", "4")])
        done = await client.run(["env", "-0"], policy=strict, cwd="/")
        assert sorted(done.stdout.split(b"\0")[:-1]) == [b"PATH=/usr/bin:/bin", b"SET=4"]
        done = await client.run(["/usr/bin/env", "-0"], env={"ONLY": "5"}, policy=None)
        assert done.stdout == b"ONLY=5\0"


@in_a_loop
async def test_events_come_in_order_and_end() -> None:
    async with outfitter.local() as client:
        process = await client.start(["cat"], stdin=True)
        seen: list[Output | Exited] = []
        assert await process.write(b"one") == "accepted"
        async for event in process:
            seen.append(event)
            if len(seen) == 1:
                await process.write(b"two")
            elif len(seen) == 2:
                assert await process.close_stdin() == "accepted"
        assert seen == [Output("stdout", b"one"), Output("stdout", b"two"), Exited(0)]
        assert process.exit_code == 0
        assert await process.write(b"late") == "stdinClosed"


@in_a_loop
async def test_many_commands_at_once_do_not_mix() -> None:
    async with outfitter.local() as client:
        numbers = range(60)
        done = await asyncio.gather(*(client.run(["sh", "-c", f"echo {n}; exit {n}"]) for n in numbers))
        assert done == [Completed(n, f"{n}\n".encode(), b"") for n in numbers]


@in_a_loop
async def test_large_output_arrives_whole_and_in_order() -> None:
    async with outfitter.local() as client:
        done = await client.run(["seq", "1", "400000"])
        assert done == Completed(0, "".join(f"{n}\n" for n in range(1, 400_001)).encode(), b"")


@in_a_loop
async def test_terminal_is_sized_resized_and_interrupted() -> None:
    async with outfitter.local() as client:
        script = "stty size; read x; stty size; trap 'exit 5' INT; echo ready; while :; do sleep 0.05; done"
        process = await client.start(["sh", "-c", script], tty=(30, 100))
        text = b""
        async for event in process:
            if not isinstance(event, Output):
                continue
            assert event.stream == "pty"
            text += event.data
            if text == b"30 100\r\n":
                await process.resize(10, 20)
                await process.write(b"\n")
            elif text.endswith(b"ready\r\n"):
                await process.interrupt()
        assert (text, process.exit_code) == (b"30 100\r\n\r\n10 20\r\nready\r\n", 5)


@in_a_loop
async def test_command_that_cannot_start_says_why() -> None:
    async with outfitter.local() as client:
        with pytest.raises(RequestFailed) as raised:
            await client.run(["nonesuch"])
        assert raised.value.data == {
            "error": "launch-failed",
            "errno": "ENOENT",
            "reason": "`nonesuch` was not found in the command's PATH",
            "subject": "program",
        }
        assert await listed(client) == []
        assert (await client.run(["true"])).exit_code == 0


@in_a_loop
async def test_timeout_terminates_the_command_and_its_tree() -> None:
    async with outfitter.local() as client:
        with pytest.raises(TimeoutError):
            await client.run(["sh", "-c", "setsid sleep 60 & exec sleep 60"], timeout=0.3 * SECOND)
        await ended(client)
        [entry] = await listed(client)
        assert entry["exitCode"] == 137


@pytest.mark.parametrize("ticks", range(8))
def test_cancelled_run_leaves_nothing_running(ticks: int) -> None:
    # Whenever it comes: before the request was sent, while its answer is under way, after.
    async def scenario() -> None:
        async with outfitter.local() as client:
            task = asyncio.ensure_future(client.run(["sleep", "60"]))
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.run(["true"])).exit_code == 0
            await ended(client)

    asyncio.run(scenario())


@in_a_loop
async def test_floods_that_are_given_up_do_not_stop_the_client() -> None:
    # What nobody will ever read must not count against what may wait for its reader.
    async with outfitter.local() as client:
        for _ in range(50):
            with pytest.raises(TimeoutError):
                await client.run(["yes"], timeout=0.05 * SECOND)
        async with asyncio.timeout(10 * SECOND):
            assert await client.run(["echo", "hi"]) == Completed(0, b"hi\n", b"")


@in_a_loop
async def test_slow_consumer_slows_the_command_down() -> None:
    async with outfitter.local() as client:
        process = await client.start(["sh", "-c", "head -c 100000000 /dev/zero; echo done >&2"])
        [entry] = await listed(client)
        events = aiter(process)
        first = await anext(events)
        assert isinstance(first, Output)
        # Nothing is taken for a while: what was produced stays far below what it wants to print.
        await asyncio.sleep(0.5 * SECOND)
        assert alive(entry["pid"])
        taken = len(first.data)
        async for event in events:
            if isinstance(event, Output) and event.stream == "stdout":
                taken += len(event.data)
        assert (taken, process.exit_code) == (100_000_000, 0)


@in_a_loop
async def test_end_of_the_block_ends_everything_at_once() -> None:
    before = len(own_descriptors()), own_children()
    async with outfitter.local() as client:
        await client.start(["sh", "-c", "setsid sleep 60 & exec sleep 60"])
        await client.start(["cat"], stdin=True)
        await client.start(["sh"], tty=(24, 80))
        pids = [entry["pid"] for entry in await listed(client)]
    assert [pid for pid in pids if alive(pid)] == []
    # No zombie is left to the application.
    assert (len(own_descriptors()), own_children()) == before


@in_a_loop
async def test_process_of_an_ended_block_is_not_waited_for() -> None:
    async with outfitter.local() as client:
        process = await client.start(["sleep", "60"])
    try:
        assert await process.wait() == 137  # its end was still heard of
    except outfitter.ConnectionLost:
        pass
    with pytest.raises(outfitter.ConnectionLost):
        await client.run(["true"])


@in_a_loop
async def test_two_blocks_in_one_process_keep_apart() -> None:
    async with outfitter.local() as one:
        await one.start(["sleep", "60"])
        [entry] = await listed(one)
        async with outfitter.local() as two:
            await two.start(["sleep", "60"])
            [other] = await listed(two)
        wait_gone([other["pid"]])
        assert alive(entry["pid"])


@in_a_loop
async def test_explain_names_every_variable_and_no_value() -> None:
    own = {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}  # else its key is kept in the home of our user
    async with outfitter.local(environment={"A_SECRET": "hush", "PLAIN": "hush", **own}) as client:
        policy = outfitter.EnvPolicy("all", False)
        told = await client.explain(policy=policy, env={"X": "hush"}, cwd="/")
        assert [(name, "removed" in entry) for name, entry in told["variables"].items()] == [
            ("A_SECRET", True),
            ("PLAIN", False),
            ("X", False),
            ("XDG_STATE_HOME", False),
        ]
        assert "hush" not in str(told)


@in_a_loop
async def test_info_is_this_machines() -> None:
    async with outfitter.local() as client:
        assert client.info is not None and client.info.cwd is not None
        assert client.info.cwd.text == Path.cwd().as_uri()
        assert client.offers("processList")


def test_a_mistake_in_the_users_file_is_told_as_one(tmp_path: Path) -> None:
    file = tmp_path / ".config/outfitter/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("x = [\n")

    async def scenario() -> None:
        with pytest.raises(FileInvalid, match="not valid TOML"):
            async with outfitter.local(environment={"HOME": str(tmp_path)}):
                pass

    asyncio.run(scenario())
