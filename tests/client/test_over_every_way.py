"""What a client promises, whatever the server is and however it is reached."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from outfitter import (
    CapabilityMissing,
    Client,
    Completed,
    EnvPolicy,
    Exited,
    Output,
    OutputTooLarge,
    Overloaded,
    RemoteProcess,
    RequestFailed,
    SessionExpired,
    TimedOut,
    connect,
)
from outfitter.client import link
from outfitter.client.running import feed
from tests.client.peer import Peer, events, with_a_peer
from tests.client.ways import NAMES, Way, opened
from tests.support.machine import SECOND, alive, running, wait_gone
from tests.support.portable import unmarked
from tests.support.tap import tapping

SECONDS = 30 * SECOND  # a test that takes longer has hung


@pytest.fixture(scope="module", params=NAMES)
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    with opened(request.param, tmp_path_factory.mktemp("home")) as way:
        yield way


@pytest.fixture(scope="module", params=[name for name in NAMES if name.endswith("websocket")])
def socket_way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    with opened(request.param, tmp_path_factory.mktemp("home")) as way:
        yield way


def over_every_way(
    scenario: Callable[[Client, Way], Coroutine[Any, Any, None]],
) -> Callable[[Way], None]:
    """Runs an async test with a client of each way, on a loop of its own, within its time."""

    async def run(way: Way) -> None:
        async with asyncio.timeout(SECONDS), way.connect() as client:
            await scenario(client, way)

    def test(way: Way) -> None:
        asyncio.run(run(way))

    test.__name__ = scenario.__name__
    return test


@over_every_way
async def test_signal_is_the_one_that_ended_the_command(client: Client, way: Way) -> None:
    signals = [(await client.shell(text)).signal for text in ("kill -9 $$", "exit 137", "exit 1")]
    # The stock server has no other word for it than the exit code.
    assert signals == ["KILL", None if way.ours else "KILL", None]


@over_every_way
async def test_calls_of_a_client_that_is_closed_have_no_result(client: Client, way: Way) -> None:
    """They would have one: killed, without the output that was dropped."""
    begun = Counter[str]()
    calls = [
        asyncio.ensure_future(
            client.shell("echo begun; exec sleep 60", on_output=lambda event: begun.update([event.stream]))
        )
        for _ in range(20)
    ]
    while begun.total() < len(calls):
        await asyncio.sleep(0.01)
    await client.aclose()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert {repr(one) for one in done} == {repr(SessionExpired("the client is closed"))}


def over_sockets(scenario: Callable[[Way], Coroutine[Any, Any, None]]) -> Callable[[Way], None]:
    """Runs an async test for each way that can be dialled; it makes its clients itself."""

    def test(socket_way: Way) -> None:
        asyncio.run(asyncio.wait_for(scenario(socket_way), SECONDS))

    test.__name__ = scenario.__name__
    return test


@over_sockets
async def test_awaited_client_is_closed_by_hand(way: Way) -> None:
    client = await connect(way.url)
    process = await client.start(["sh", "-c", "echo $$; exec sleep 60"])
    pid = int(await Transcript(process).line())
    await client.aclose()
    with pytest.raises(SessionExpired, match="the client is closed"):
        await client.run(["true"])
    if way.ours:
        # Who leaves cleanly closes the session, once nothing runs in it.
        await gone([pid])
        await forgotten(way, client.session_id)
    else:
        async with connect(way.url, resume=client.session_id) as again:
            assert await (await again.attach(process.process_id)).wait() == 137


async def gone(pids: list[int]) -> None:
    # In a thread: in memory it is this loop that ends them.
    await asyncio.to_thread(wait_gone, pids)


async def forgotten(way: Way, session_id: str) -> None:
    """Waits until nobody can come back to it: the server hears of a command's end a moment after we do."""
    async with connect(way.url) as client:
        while session_id in str(await client.call("server/sessions", None)):
            await asyncio.sleep(0.01)
    with pytest.raises(RequestFailed, match="unknown session id"):
        await connect(way.url, resume=session_id)


def unique_sleep() -> tuple[list[str], str]:
    """A command that runs for ever, and a text that finds it among all processes."""
    text = f"60.{secrets.randbelow(10**9):09}"
    return ["sleep", text], f"sleep {text}"


class Transcript:
    """Takes a process's output as it comes, so that a test can wait for a part of it."""

    def __init__(self, process: RemoteProcess) -> None:
        self.events: list[Output | Exited] = []
        self._failure: SessionExpired | None = None
        self._news = asyncio.Event()
        self._reading = asyncio.ensure_future(self._read(process))

    async def _read(self, process: RemoteProcess) -> None:
        try:
            async for event in process:
                self.events.append(event)
                self._news.set()
        except SessionExpired as error:  # kept, not left in a task that nobody asks: a test may end before
            self._failure = error

    def text(self, *streams: str) -> bytes:
        return b"".join(
            event.data
            for event in self.events
            if isinstance(event, Output) and (not streams or event.stream in streams)
        )

    async def until(self, holds: Callable[[bytes], bool]) -> bytes:
        """The output so far, once this holds for it."""
        while not holds(self.text()):
            self._news.clear()
            reading = asyncio.ensure_future(self._news.wait())
            await asyncio.wait({reading, self._reading}, return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            if self._reading.done():
                self._reading.result()
                if self._failure is not None:
                    raise self._failure
                assert holds(self.text()), self.events
        return self.text()

    async def line(self) -> bytes:
        """The first line, without its end."""
        text = await self.until(lambda text: b"\n" in text)
        return text.splitlines()[0]

    async def end(self) -> list[Output | Exited]:
        await self._reading
        if self._failure is not None:
            raise self._failure
        return self.events


# Running to the end


@over_every_way
async def test_run_collects_output_and_exit_code(client: Client, way: Way) -> None:
    done = await client.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert done == Completed(3, b"out\n", b"err\n")


@over_every_way
async def test_run_without_output_is_empty(client: Client, way: Way) -> None:
    assert await client.run(["true"]) == Completed(0, b"", b"")


@over_every_way
async def test_stdin_is_empty_unless_given(client: Client, way: Way) -> None:
    assert await client.run(["cat"]) == Completed(0, b"", b"")


@over_every_way
async def test_command_that_a_signal_ended_has_128_and_its_number(client: Client, way: Way) -> None:
    codes = [
        (await client.run(["sh", "-c", f"kill -{name} $$"])).exit_code for name in ("TERM", "KILL", "INT")
    ]
    assert codes == [128 + 15, 128 + 9, 128 + 2]


@over_every_way
async def test_streamed_output_is_told_as_it_comes_and_not_collected(client: Client, way: Way) -> None:
    pieces: list[Output] = []
    done = await client.run(["sh", "-c", "echo out; echo err >&2"], on_output=pieces.append)
    assert done == Completed(0, b"", b"")
    assert sorted(pieces, key=lambda output: output.stream) == [
        Output("stderr", b"err\n"),
        Output("stdout", b"out\n"),
    ]


@over_every_way
async def test_streamed_output_is_told_while_the_command_runs(client: Client, way: Way) -> None:
    told = asyncio.Event()
    task = asyncio.ensure_future(
        client.run(["sh", "-c", "echo now; exec sleep 60"], on_output=lambda _: told.set())
    )
    await told.wait()
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@over_every_way
async def test_listener_that_fails_ends_the_command(client: Client, way: Way) -> None:
    pids: list[int] = []

    def fail(output: Output) -> None:
        pids.append(int(output.data))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await client.run(["sh", "-c", "echo $$; exec sleep 60"], on_output=fail)
    await gone(pids)


@over_every_way
async def test_events_end_with_the_exit_after_all_output_of_the_leader(client: Client, way: Way) -> None:
    # Each line waits for its answer, so that each is an event of its own.
    script = "for n in 1 2 3 4 5; do echo line $n; read answer; done; exit 4"
    process = await client.start(["sh", "-c", script], stdin=True)
    seen = []
    async for event in process:
        seen.append(event)
        if isinstance(event, Output):
            assert await process.write(b"\n") == "accepted"
    assert seen == [*(Output("stdout", b"line %d\n" % number) for number in range(1, 6)), Exited(4)]
    assert (process.exit_code, process.closed, process.sandbox_denied) == (4, True, False)


def told(events: list[Output | Exited], way: Way) -> list[Output | Exited]:
    """The events, with the exit where ours has it: the reference may tell it before the output."""
    return events if way.ours else sorted(events, key=lambda event: isinstance(event, Exited))


@over_every_way
async def test_quick_command_has_its_exit_last(client: Client, way: Way) -> None:
    async def seen(number: int) -> list[Output | Exited]:
        process = await client.start(["sh", "-c", f"echo {number}; exit {number}"])
        return told(await events(process), way)

    numbers = range(50)
    assert await asyncio.gather(*map(seen, numbers)) == [
        [Output("stdout", b"%d\n" % number), Exited(number)] for number in numbers
    ]


@over_every_way
async def test_output_of_a_descendant_may_follow_the_exit(client: Client, way: Way) -> None:
    # It prints when the leader has been reaped.
    late = "while kill -0 $0 2>/dev/null; do sleep 0.02; done; echo late"
    process = await client.start(["sh", "-c", f"sh -c '{late}' $$ & exit 6"])
    seen = await events(process)
    assert sorted(seen, key=repr) == [Exited(6), Output("stdout", b"late\n")]
    assert process.exit_code == 6


@over_every_way
async def test_second_iteration_of_an_ended_command_gives_nothing(client: Client, way: Way) -> None:
    process = await client.start(["echo", "once"])
    assert told(await events(process), way) == [Output("stdout", b"once\n"), Exited(0)]
    assert (await events(process), await process.wait()) == ([], 0)


@over_every_way
async def test_large_output_arrives_whole_and_in_order(client: Client, way: Way) -> None:
    done = await client.run(["seq", "1", "600000"])
    assert done == Completed(0, "".join(f"{n}\n" for n in range(1, 600_001)).encode(), b"")


@over_every_way
async def test_large_output_on_both_streams_keeps_each_in_order(client: Client, way: Way) -> None:
    done = await client.run(["sh", "-c", "seq 1 200000 & seq 200000 400000 >&2 & wait"])
    assert done == Completed(
        0,
        "".join(f"{n}\n" for n in range(1, 200_001)).encode(),
        "".join(f"{n}\n" for n in range(200_000, 400_001)).encode(),
    )


@over_every_way
async def test_any_byte_passes(client: Client, way: Way) -> None:
    every = bytes(range(256)) * 300
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)"
    assert await client.run(["python3", "-c", script]) == Completed(0, every, b"")


@over_every_way
async def test_many_commands_at_once_do_not_mix(client: Client, way: Way) -> None:
    # With all of these requests before it, the reference would not answer any more; a Mac has files for 390.
    numbers = range(350)
    done = await asyncio.gather(*(client.run(["sh", "-c", f"echo {n}; exit {n % 256}"]) for n in numbers))
    assert done == [Completed(n % 256, f"{n}\n".encode(), b"") for n in numbers]


@over_every_way
async def test_program_that_does_not_exist_is_refused(client: Client, way: Way) -> None:
    with pytest.raises(RequestFailed) as raised:
        await client.run(["no-such-program-anywhere"])
    refused = raised.value
    assert (refused.code, refused.message) == (-32603, "No such file or directory (os error 2)")
    assert (await client.run(["true"])).exit_code == 0


@over_every_way
async def test_more_output_than_allowed_ends_the_command(client: Client, way: Way) -> None:
    with pytest.raises(OutputTooLarge) as raised:
        await client.run(["sh", "-c", "echo $$; exec yes"], max_output=100_000)
    assert len(raised.value.stdout) == 100_000
    await gone([int(raised.value.stdout.splitlines()[0])])


# Waiting


@over_every_way
async def test_wait_returns_the_exit_code_to_everybody(client: Client, way: Way) -> None:
    process = await client.start(["sh", "-c", "echo unread; exit 9"])
    assert await asyncio.gather(*(process.wait() for _ in range(5))) == [9] * 5


@over_every_way
async def test_wait_takes_over_from_a_reader_that_stopped(client: Client, way: Way) -> None:
    # More than may wait for its reader: somebody has to take it.
    process = await client.start(["sh", "-c", "echo ready; head -c 20000000 /dev/zero; exit 5"])
    async for _ in process:
        break
    assert await process.wait() == 5


@over_every_way
async def test_wait_beside_a_reader_takes_nothing_from_it(client: Client, way: Way) -> None:
    process = await client.start(["seq", "1", "100000"])
    transcript = Transcript(process)
    await transcript.line()
    assert await process.wait() == 0
    await transcript.end()
    assert transcript.text() == "".join(f"{n}\n" for n in range(1, 100_001)).encode()


# Input


@over_every_way
async def test_what_is_written_is_read(client: Client, way: Way) -> None:
    process = await client.start(["cat"], stdin=True)
    transcript = Transcript(process)
    for number in range(100):
        assert await process.write(b"line %d\n" % number) == "accepted"
    expected = b"".join(b"line %d\n" % number for number in range(100))
    assert await transcript.until(lambda text: len(text) >= len(expected)) == expected


@over_every_way
async def test_writes_that_do_not_wait_for_each_other_keep_their_order(client: Client, way: Way) -> None:
    process = await client.start(["cat"], stdin=True)
    transcript = Transcript(process)
    await asyncio.gather(*(process.write(b"line %d\n" % number) for number in range(100)))
    expected = b"".join(b"line %d\n" % number for number in range(100))
    assert await transcript.until(lambda text: len(text) >= len(expected)) == expected


@over_every_way
async def test_large_input_arrives_whole(client: Client, way: Way) -> None:
    data = os.urandom(3 << 20)
    process = await client.start(["head", "-c", str(len(data))], stdin=True)
    transcript = Transcript(process)
    assert await process.write(data) == "accepted"
    await transcript.end()
    assert transcript.text() == data


@over_every_way
async def test_writing_to_a_command_without_input_is_told(client: Client, way: Way) -> None:
    process = await client.start(["sleep", "60"])
    assert await process.write(b"x") == "stdinClosed"


@over_every_way
async def test_input_of_a_pipe_can_be_ended_where_the_server_knows_how(client: Client, way: Way) -> None:
    process = await client.start(["cat"], stdin=True)
    await process.write(b"all of it")
    if not way.ours:
        with pytest.raises(CapabilityMissing) as raised:
            await process.close_stdin()
        text = "this executor cannot end a command's input: it does not offer `processStdinEof`"
        assert str(raised.value) == text
        return
    assert await process.close_stdin() == "accepted"
    assert await events(process) == [Output("stdout", b"all of it"), Exited(0)]


@over_every_way
async def test_run_gives_a_command_its_input_where_the_server_knows_how(client: Client, way: Way) -> None:
    data = os.urandom(2 << 20)
    if not way.ours:
        with pytest.raises(CapabilityMissing):
            await client.run(["cat"], input=data)
        return
    assert await client.run(["cat"], input=data) == Completed(0, data, b"")
    assert await client.run(["cat"], input=b"") == Completed(0, b"", b"")
    # One that does not want it is not held up by it.
    assert await client.run(["true"], input=data) == Completed(0, b"", b"")


@over_every_way
async def test_input_as_text_is_utf8_and_anything_else_is_refused_at_once(client: Client, way: Way) -> None:
    with pytest.raises(TypeError, match="a command's input is bytes or text, not int"):
        await client.run(["cat"], input=7)  # type: ignore[arg-type]
    process = await client.start(["cat"], stdin=True)
    with pytest.raises(TypeError, match="a command's input is bytes or text, not list"):
        await process.write(["x"])  # type: ignore[arg-type]
    assert await process.write("grün") == "accepted"
    assert await anext(aiter(process)) == Output("stdout", "grün".encode())
    await process.terminate()
    if way.ours:
        assert await client.run(["cat"], input="hi, grün") == Completed(0, "hi, grün".encode(), b"")
        assert await client.run(["cat"], input=bytearray(b"hi")) == Completed(0, b"hi", b"")  # type: ignore[arg-type]


@over_every_way
async def test_input_that_cannot_be_given_ends_the_run(client: Client, way: Way) -> None:
    if not way.ours:
        return
    with pytest.raises(UnicodeEncodeError):
        await client.run(["cat"], input="\udc80")
    # Whatever else the feeding dies of: who waits for the command does not wait for ever.
    process = await client.start(["cat"], stdin=True)
    await feed(process, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await process.wait()


# Terminals


@over_every_way
async def test_terminal_echoes_and_ends_with_control_d(client: Client, way: Way) -> None:
    process = await client.start(["cat"], tty=(24, 80))
    transcript = Transcript(process)
    assert await process.write(b"hello\n") == "accepted"
    # The terminal's echo, then what cat prints.
    assert await transcript.until(lambda text: len(text) >= 14) == b"hello\r\nhello\r\n"
    assert await process.close_stdin() == "accepted"
    assert (await transcript.end())[-1] == Exited(0)
    assert {event.stream for event in transcript.events if isinstance(event, Output)} == {"pty"}


@over_every_way
async def test_terminal_has_its_size_where_the_server_knows_how(client: Client, way: Way) -> None:
    process = await client.start(["sh", "-c", "stty size; read x; stty size"], tty=(30, 100))
    transcript = Transcript(process)
    if not way.ours:
        assert await transcript.line() == b"24 80"  # the reference's only size
        with pytest.raises(CapabilityMissing):
            await process.resize(10, 20)
        return
    assert await transcript.line() == b"30 100"
    await process.resize(10, 20)
    await process.write(b"\n")
    await transcript.end()
    assert transcript.text() == b"30 100\r\n\r\n10 20\r\n"


# Ending


@over_every_way
async def test_interrupt_is_sigint(client: Client, way: Way) -> None:
    process = await client.start(["sh", "-c", "trap 'exit 5' INT; echo ready; while :; do sleep 0.05; done"])
    transcript = Transcript(process)
    await transcript.line()
    await process.interrupt()
    assert (await transcript.end())[-1] == Exited(5)


@over_every_way
async def test_terminate_says_whether_it_was_running(client: Client, way: Way) -> None:
    process = await client.start(["sleep", "60"])
    assert await process.terminate() is True
    assert await process.wait() == 137
    assert await process.terminate() is False


@over_every_way
async def test_terminate_ends_what_the_command_started(client: Client, way: Way) -> None:
    # Ours also finds what has left the group.
    apart = "setsid " if way.ours else ""
    process = await client.start(["sh", "-c", f"{apart}sleep 60 & echo $! $$; wait"])
    transcript = Transcript(process)
    pids = [int(word) for word in (await transcript.line()).split()]
    assert await process.terminate() is True
    await gone(pids)


@over_every_way
async def test_grace_lets_a_command_end_by_itself_where_the_server_knows_how(
    client: Client, way: Way
) -> None:
    process = await client.start(["sh", "-c", "trap 'exit 8' TERM; echo ready; while :; do sleep 0.05; done"])
    transcript = Transcript(process)
    await transcript.line()
    assert await process.terminate(grace=10 * SECOND) is True
    assert (await transcript.end())[-1] == Exited(8 if way.ours else 137)


@over_every_way
async def test_timeout_ends_the_command_and_its_tree_and_keeps_its_output(client: Client, way: Way) -> None:
    apart = "setsid " if way.ours else ""
    script = f"{apart}sleep 60 & echo $! $$; echo err >&2; wait"
    with pytest.raises(TimedOut) as raised:
        await client.run(["sh", "-c", script], timeout=0.5 * SECOND)
    timed_out = raised.value
    assert isinstance(timed_out, TimeoutError)
    assert (timed_out.seconds, timed_out.stderr) == (0.5 * SECOND, b"err\n")
    await gone([int(word) for word in timed_out.stdout.split()])


@over_every_way
async def test_cancelled_run_ends_its_command_and_its_tree(client: Client, way: Way) -> None:
    apart = "setsid " if way.ours else ""
    told: list[bytes] = []
    news = asyncio.Event()

    def tell(output: Output) -> None:
        told.append(output.data)
        news.set()

    task = asyncio.ensure_future(
        client.run(["sh", "-c", f"{apart}sleep 60 & echo $! $$; wait"], on_output=tell)
    )
    await news.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone([int(word) for word in b"".join(told).split()])


@over_every_way
async def test_cancelled_start_leaves_nothing_behind(client: Client, way: Way) -> None:
    # Whenever it comes: before the request was sent, while its answer is under way, after.
    argv, text = unique_sleep()
    for ticks in range(8):
        task = asyncio.ensure_future(client.start(argv))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).terminate()
    await client.run(["true"])  # what was asked before is done
    await gone(running(text))
    assert running(text) == []


@pytest.mark.parametrize("ticks", [1, 2, 5])
def test_start_that_is_cancelled_at_the_end_of_the_block_leaves_nothing_behind(way: Way, ticks: int) -> None:
    argv, text = unique_sleep()

    async def scenario() -> None:
        async with way.connect() as client:
            task = asyncio.ensure_future(client.start(argv))
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):  # in memory it may have been quicker
                await task

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))
    wait_gone(running(text))
    assert running(text) == []


def test_end_of_the_block_ends_what_runs(way: Way) -> None:
    apart = "setsid " if way.ours else ""
    pids: list[int] = []

    async def scenario() -> None:
        async with way.connect() as client:
            for settings in ({}, {"stdin": True}, {"tty": (24, 80)}):
                script = f"{apart}sleep 60 & echo $! $$; wait"
                if not way.ours and "tty" in settings:
                    script = "echo $$; exec sleep 60"
                process = await client.start(["sh", "-c", script], **settings)
                pids.extend(map(int, (await Transcript(process).line()).split()))

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))
    wait_gone(pids)


def test_end_of_the_block_fails_who_still_waits(way: Way) -> None:
    async def scenario() -> None:
        async with way.connect() as client:
            process = await client.start(["sleep", "60"])
            waiting = asyncio.ensure_future(process.wait())
            await asyncio.sleep(0)
        # It may have been told of the end of its command, which the end of the block brought about.
        with contextlib.suppress(SessionExpired):
            assert await waiting in (1, 137)
        for call in (client.run(["true"]), process.terminate(), client.status()):
            with pytest.raises(SessionExpired, match=r"^the client is closed$"):
                await call

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


# Place and environment


@over_every_way
async def test_directory_is_the_executors_and_relative_ones_begin_there(client: Client, way: Way) -> None:
    below = way.directory / "tests" if way.name == "memory" else way.home / ".codex"
    assert below.is_dir()
    places = [None, ".", below.name, f"{below.name}/..", str(below), below.as_uri(), "/usr/../usr"]
    said = [(await client.run(["pwd", "-P"], cwd=place)).stdout.decode().rstrip("\n") for place in places]
    here, there = (str(place.resolve()) for place in (way.directory, below))
    assert said == [here, here, there, here, there, there, "/usr"]


@over_every_way
async def test_directory_that_does_not_exist_is_refused(client: Client, way: Way) -> None:
    with pytest.raises(RequestFailed, match="No such file or directory"):
        await client.run(["true"], cwd="no/such/place")


@over_every_way
async def test_environment_is_the_executors_with_ours_on_top(client: Client, way: Way) -> None:
    done = await client.run(["env", "-0"], env={"MINE": "with\nlines", "LANG": "other"})
    seen = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0")[:-1])
    path = seen.pop("PATH")
    given = os.environ["PATH"].split(":")
    if way.ours:
        assert path.split(":") == list(dict.fromkeys(given))  # nothing twice
    else:
        assert path.endswith(":".join(given))  # the reference puts a directory of its own before it
    expected = {
        "HOME": str(way.home),
        "CODEX_HOME": str(way.home / ".codex"),
        "LANG": "other",
        "MINE": "with\nlines",
    }
    if way.ours:
        expected["SHLVL"] = seen.get("SHLVL", "")  # where there was none, so that no bash reads ~/.bashrc
        assert expected["SHLVL"]
    if way.name.endswith("stdio"):  # a program inherits from us; what is given to it goes on top
        seen = {name: value for name, value in seen.items() if name in expected}
    assert seen == expected


@over_every_way
async def test_policy_decides_what_is_inherited(client: Client, way: Way) -> None:
    policy = EnvPolicy("all", True, ("H*",), (("SET", "1"), ("LANG", "set")), ("SET", "H*", "LANG", "MINE"))
    done = await client.run(["/usr/bin/env", "-0"], policy=policy, env={"MINE": "2"})
    assert sorted(unmarked(done.stdout).split(b"\0")[:-1]) == [b"LANG=set", b"MINE=2", b"SET=1"]


@over_every_way
async def test_without_a_policy_the_environment_is_what_is_given(client: Client, way: Way) -> None:
    done = await client.run(["/usr/bin/env", "-0"], policy=None, env={"ONLY": "this"})
    assert (done.exit_code, unmarked(done.stdout), done.stderr) == (0, b"ONLY=this\0", b"")


@over_every_way
async def test_first_argument_may_differ_from_the_program(client: Client, way: Way) -> None:
    process = await client.start(["/bin/sh", "-c", "echo $0"], arg0="another-name")
    assert told(await events(process), way) == [Output("stdout", b"another-name\n"), Exited(0)]


@over_every_way
async def test_environment_is_explained_where_the_server_knows_how(client: Client, way: Way) -> None:
    policy = EnvPolicy("none", True, (), (("SET", "hush"),), ())
    if not way.ours:
        with pytest.raises(CapabilityMissing):
            await client.explain(policy=policy, env={"MINE": "hush"})
        return
    explained = await client.explain(policy=policy, env={"MINE": "hush"})
    kept = [name for name, entry in explained["variables"].items() if "removed" not in entry]
    assert kept == ["MINE", "SET"]
    assert "hush" not in str(explained)


@over_every_way
async def test_server_is_ready(client: Client, way: Way) -> None:
    assert await client.status() == "ready"
    assert (client.state, client.failed) == ("connected", None)


@over_every_way
async def test_processes_are_listed_where_the_server_knows_how(client: Client, way: Way) -> None:
    first = await client.start(["sleep", "60"])
    second = await client.start(["sh", "-c", "exit 7"])
    await second.wait()
    if not way.ours:
        with pytest.raises(CapabilityMissing):
            await client.processes()
        return
    listed = await client.processes()
    assert [(entry.process_id, entry.program, entry.exit_code) for entry in listed] == [
        (first.process_id, "sleep", None),
        (second.process_id, "sh", 7),
    ]
    assert alive(listed[0].pid)


# Attaching


@over_every_way
async def test_process_that_is_held_is_attached_to_as_it_is(client: Client, way: Way) -> None:
    process = await client.start(["sleep", "60"])
    assert await client.attach(process.process_id) is process


@over_every_way
async def test_ended_process_can_be_read_again(client: Client, way: Way) -> None:
    process = await client.start(["sh", "-c", "echo out; exit 3"])
    seen = await events(process)
    again = await client.attach(process.process_id)
    assert again is not process
    assert (await events(again), again.exit_code, again.missed) == (seen, 3, 0)


@pytest.mark.parametrize("after", [1, 2, 3, 4, 100])
def test_ended_process_has_ended_wherever_one_begins(way: Way, after: int) -> None:
    # 1 is the output, 2 the exit, 3 the close: whatever of it is skipped, the end is not waited for.
    async def scenario() -> None:
        async with way.connect() as client:
            process = await client.start(["sh", "-c", "echo out; exit 3"])
            await process.wait()
            again = await client.attach(process.process_id, after=after)
            assert await again.wait() == 3
            assert (again.closed, again.sandbox_denied) == (True, False)

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


@over_every_way
async def test_events_that_are_not_retained_any_more_are_counted(client: Client, way: Way) -> None:
    process = await client.start(["sh", "-c", "head -c 3000000 /dev/zero; echo last >&2"])
    whole = await events(process)
    again = await client.attach(process.process_id)
    rest = await events(again)

    # The exit, which the stock server may tell before the last of the output, is never one of those that were
    # dropped: it is told all the same. Sizes, as a report of these bytes would be of no use.
    def output(heard: list[Output | Exited]) -> list[tuple[str, int]]:
        return [(event.stream, len(event.data)) for event in heard if isinstance(event, Output)]

    assert output(rest) == output(whole)[again.missed :]
    assert again.missed > 10
    assert (again.exit_code, sum(isinstance(event, Exited) for event in rest)) == (0, 1)


@over_every_way
async def test_process_that_does_not_exist_cannot_be_attached_to(client: Client, way: Way) -> None:
    with pytest.raises(RequestFailed, match="unknown process id nobody"):
        await client.attach("nobody")


@over_sockets
async def test_kept_command_outlives_its_client_and_others_do_not(way: Way) -> None:
    async with way.connect() as client:
        kept = await client.start(["cat"], stdin=True)
        kept.keep()
        assert await kept.write(b"from the first\n") == "accepted"
        await Transcript(kept).line()
        other = await client.start(["sh", "-c", "echo $$; exec sleep 60"])
        pid = int(await Transcript(other).line())
        session = client.session_id
    await gone([pid])
    async with way.connect(resume=session) as client:
        assert client.session_id == session
        again = await client.attach(kept.process_id)
        transcript = Transcript(again)
        # Its write ids must not be those that the first client has used.
        assert await again.write(b"from the second\n") == "accepted"
        wanted = b"from the first\nfrom the second\n"
        assert await transcript.until(lambda text: len(text) >= len(wanted)) == wanted
        if way.ours:
            assert [entry.process_id for entry in await client.processes() if not entry.exited] == [
                kept.process_id
            ]
        assert await again.terminate() is True


@over_sockets
async def test_command_is_read_on_from_where_the_last_client_stopped(way: Way) -> None:
    async with way.connect() as client:
        kept = await client.start(["sh", "-c", "echo 1; read x; echo 2; read x; exit 3"], stdin=True)
        kept.keep()
        await Transcript(kept).line()
        session = client.session_id
    async with way.connect(resume=session) as client:
        again = await client.attach(kept.process_id, after=1)
        transcript = Transcript(again)
        await again.write(b"\n")
        await transcript.line()
        await again.write(b"\n")
        assert await transcript.end() == [Output("stdout", b"2\n"), Exited(3)]


@over_sockets
async def test_session_that_does_not_exist_cannot_be_resumed(way: Way) -> None:
    unknown = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(RequestFailed, match=f"unknown session id {unknown}"):
        async with way.connect(resume=unknown):
            pass


# Cost


@over_sockets
async def test_command_costs_one_request_and_no_reads(way: Way) -> None:
    assert way.server is not None
    with tapping(way.server.port) as tap:
        home = way.server.url
        way.server.url = tap.url
        try:
            async with way.connect() as client:
                for _ in range(3):
                    await client.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
                process = await client.start(["sleep", "0"])
                await process.wait()
        finally:
            way.server.url = home
        sent = [heard.method for heard in tap.heard if heard.sender == "client"]
    assert sent == ["initialize", "initialized"] + ["process/start"] * 4


@with_a_peer()
async def test_server_that_omits_whether_its_sandbox_interfered_is_asked_once(peer: Peer) -> None:
    process, ident = await peer.started()
    reading = asyncio.ensure_future(events(process))
    peer.output(ident, 1, b"x")
    peer.say({"method": "process/exited", "params": {"processId": ident, "seq": 2, "exitCode": 1}})
    peer.closed(ident, 3)
    request = await peer.request("process/read")
    assert request["params"] == {"processId": ident, "afterSeq": 3, "maxBytes": None, "waitMs": 0}
    ended = {"exited": True, "exitCode": 1, "closed": True, "failure": None, "sandboxDenied": True}
    peer.answer(request, {"chunks": [], "nextSeq": 4, **ended})
    assert await reading == [Output("stdout", b"x"), Exited(1, None)]
    assert (process.sandbox_denied, await process.wait(), peer.requests) == (True, 1, [])


# Bounds


@contextlib.contextmanager
def limit_of_calls(way: Way) -> Iterator[int]:
    """How many may be pending: 1024, but few with the reference.

    Now and then it stops reading for ever when some hundred requests come at once.
    """
    assert link.MAX_CALLS == 1024
    with pytest.MonkeyPatch.context() as patched:
        if not way.ours:
            patched.setattr(link, "MAX_CALLS", 64)
        yield link.MAX_CALLS


@over_every_way
async def test_calls_above_the_limit_are_refused_and_the_others_answered(client: Client, way: Way) -> None:
    with limit_of_calls(way) as limit:
        calls = (client.call("environment/status", None) for _ in range(limit + 6))
        answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, Overloaded)]
    text = f"this client has reached its limit of {limit} pending requests"
    assert {str(error) for error in refused} == {text}
    assert len(refused) == 6
    assert [answer for answer in answers if answer not in refused] == [{"status": "ready"}] * limit
    assert await client.status() == "ready"


@over_every_way
async def test_command_can_be_ended_while_the_limit_is_reached(client: Client, way: Way) -> None:
    # Cleaning up has a place of its own.
    process = await client.start(["sleep", "60"])
    params = {"processId": process.process_id, "afterSeq": 0, "waitMs": 60_000}
    if not way.ours:
        params["waitMs"] = 0  # its requests wait for each other
    with limit_of_calls(way) as limit:
        reads = [asyncio.ensure_future(client.call("process/read", params)) for _ in range(limit)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await client.status()
        client._session.end(process.process_id)
        assert await process.wait() == 137
        await asyncio.gather(*reads)


@over_every_way
async def test_output_that_nobody_takes_is_held_back_and_then_arrives_whole(client: Client, way: Way) -> None:
    size = 64 << 20
    process = await client.start(["sh", "-c", f"yes | head -c {size}"])
    while client._session.waiting <= 8 << 20:  # what it may hold before it stops reading
        await asyncio.sleep(0.01 * SECOND)
    await asyncio.sleep(0.3 * SECOND)  # an absence has no event
    assert client._session.waiting < 9 << 20
    most = total = 0
    async for event in process:
        if isinstance(event, Output):
            assert event.data in (b"y\n" * (len(event.data) // 2), b"\ny" * (len(event.data) // 2))
            total += len(event.data)
            most = max(most, client._session.waiting)
    assert (total, process.exit_code, client._session.waiting) == (size, 0, 0)
    assert most < 9 << 20


@over_every_way
async def test_output_that_nobody_takes_is_in_nobodys_way(client: Client, way: Way) -> None:
    if not way.ours:  # it cannot hold one command back
        assert not client.offers("processHold")
        return
    size = 16 << 20
    floods = [await client.start(["sh", "-c", f"yes {n} | head -c {size}"]) for n in range(4)]
    while client._session.waiting <= 8 << 20:
        await asyncio.sleep(0.01 * SECOND)
    await asyncio.sleep(0.3 * SECOND)  # what is under way comes
    big = await client.run(["sh", "-c", f"yes | head -c {size}"])
    assert (big.exit_code, len(big.stdout)) == (0, size)
    assert client._session.waiting < 32 << 20
    for number, flood in enumerate(floods):
        parts = [event.data async for event in flood if isinstance(event, Output)]
        assert b"".join(parts) == b"%d\n" % number * (size // 2)
        assert flood.exit_code == 0
    assert client._session.waiting == 0


@over_every_way
async def test_command_beside_output_that_nobody_takes_can_be_ended(client: Client, way: Way) -> None:
    flood = await client.start(["yes"])
    while client._session.waiting <= 8 << 20:
        await asyncio.sleep(0.01 * SECOND)
    assert await flood.terminate() is True
    assert await flood.wait() == 137
    assert await client.run(["echo", "hi"]) == Completed(0, b"hi\n", b"")
