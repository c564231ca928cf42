"""Programs that speak on stdin and stdout: messages, stderr, and that they end with all they started."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from outfitter.client.connect import open_program
from outfitter.errors import DialFailed, RequestFailed
from outfitter.transport.program import ProgramTransport, launch
from tests.support.machine import SECOND, alive, own_children, own_descriptors, wait_gone

Scenario = Callable[[], Coroutine[Any, Any, None]]


def in_a_loop(scenario: Scenario) -> Callable[[], None]:
    """Runs an async test on a loop of its own, within its time."""

    def test() -> None:
        asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))

    test.__name__ = scenario.__name__
    return test


class Program:
    """A launched program and everything it says."""

    def __init__(self, transport: ProgramTransport) -> None:
        self.transport = transport
        self.messages: list[str | bytes] = []
        self.reasons: list[str] = []
        self._news = asyncio.Event()
        transport.receiver = self
        transport.begin()

    def message(self, data: str | bytes) -> None:
        self.messages.append(data)
        self._news.set()

    def drained(self) -> None:
        self._news.set()

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._news.clear()
            await self._news.wait()

    async def said(self, count: int) -> list[str | bytes]:
        await self.until(lambda: len(self.messages) >= count)
        return self.messages

    async def pids(self, count: int) -> list[int]:
        """The pids it prints, one a line."""
        return [int(line) for line in await self.said(count)]

    async def ended(self) -> str:
        """Why it was lost, once it is gone."""
        await self.until(lambda: bool(self.reasons))
        await self.transport.wait_ended()
        [reason] = self.reasons
        return reason

    async def close(self) -> None:
        self.transport.close(1000, "")
        await self.transport.wait_ended()


async def script(text: str, **settings: Any) -> Program:
    return Program(await launch(["sh", "-c", text], **settings))


# Messages


@in_a_loop
async def test_lines_are_messages_both_ways() -> None:
    program = Program(await launch(["cat"]))
    large = b"x" * (3 << 20)
    program.transport.send(b"one", b"two")
    program.transport.send_parts((b"th", b"ree"))
    program.transport.send(large)
    assert await program.said(4) == [b"one", b"two", b"three", large]
    await program.close()
    assert program.reasons == [""]


@in_a_loop
async def test_environment_and_directory_are_the_ones_given() -> None:
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}
    program = await script("pwd; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= | sort", env=env, cwd="/usr")
    said = await program.said(3)
    assert said == [b"/usr", b"ONLY=this", f"PATH={os.environ['PATH']}".encode()]
    await program.ended()


@in_a_loop
async def test_environment_is_ours_unless_told() -> None:
    program = await script("echo $PATH")
    assert await program.said(1) == [os.environ["PATH"].encode()]
    await program.ended()


@in_a_loop
async def test_program_is_a_session_of_its_own() -> None:
    # Ctrl-C in our terminal is not meant for it.
    program = await script("echo $$; cat")
    [pid] = await program.pids(1)
    assert (os.getpgid(pid), os.getsid(pid)) == (pid, pid)
    await program.close()


@pytest.mark.parametrize(
    ("argv", "cwd", "why"),
    [
        (["/no/such/program"], None, "No such file or directory"),
        (["no-such-program-anywhere"], None, "No such file or directory"),
        (["/"], None, "Permission denied"),
        (["sh"], "/no/such/directory", "No such file or directory"),
        (["sh", "nul\0byte"], None, "embedded null byte"),
    ],
)
def test_program_that_cannot_be_started_says_why(argv: list[str], cwd: str | None, why: str) -> None:
    async def scenario() -> None:
        with pytest.raises(DialFailed) as raised:
            await launch(argv, cwd=cwd)
        assert (str(raised.value), raised.value.retryable) == (f"cannot start {argv[0]}: {why}", False)

    asyncio.run(scenario())


# Standard error


def test_stderr_goes_to_the_log_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        program = await script("echo one >&2; printf 'two\\nth' >&2; echo ree >&2; echo said; cat")
        await program.said(1)
        await program.close()

    with caplog.at_level(logging.DEBUG, "outfitter.client"):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records if record.name == "outfitter.client"] == [
        "! sh: one",
        "! sh: two",
        "! sh: three",
    ]


def test_stderr_is_read_while_the_program_runs(caplog: pytest.LogCaptureFixture) -> None:
    # More than a pipe holds: who did not read it would never hear the last line.
    async def scenario() -> None:
        program = await script("head -c 300000 /dev/zero | tr '\\0' 'x' >&2; echo said; cat")
        assert await program.said(1) == [b"said"]
        await program.close()

    with caplog.at_level(logging.DEBUG, "outfitter.client"):
        asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))


@in_a_loop
async def test_last_words_are_told_when_it_ends() -> None:
    program = await script("for n in 1 2 3 4 5 6 7; do echo line $n >&2; done; exit 3")
    words = "its last output: line 3 | line 4 | line 5 | line 6 | line 7"
    assert await program.ended() == f"standard output of sh ended; {words}"


@in_a_loop
async def test_last_words_need_no_line_break() -> None:
    program = await script("echo first >&2; printf 'and last' >&2")
    assert await program.ended() == "standard output of sh ended; its last output: first | and last"


@in_a_loop
async def test_last_words_are_the_last_however_many_there_were() -> None:
    program = await script("seq 1 10000 >&2")
    words = "its last output: 9996 | 9997 | 9998 | 9999 | 10000"
    assert await program.ended() == f"standard output of sh ended; {words}"


@in_a_loop
async def test_program_that_says_nothing_has_no_last_words() -> None:
    program = await script("exit 0")
    assert await program.ended() == "standard output of sh ended"


# The end


@in_a_loop
async def test_messages_before_the_end_are_delivered() -> None:
    program = await script("echo one; printf two")
    await program.ended()
    assert program.messages == [b"one", b"two"]


@in_a_loop
async def test_input_that_it_does_not_want_is_not_an_error() -> None:
    program = await script("exec 0<&-; echo ready; sleep 60")
    await program.said(1)
    program.transport.send(b"unwanted")
    reason = await program.ended()
    assert reason == "standard input of sh failed: Broken pipe"


# Says in a file that it was asked to end.
POLITE = """
import signal, sys, time
def end(*_):
    open(sys.argv[1], "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True: time.sleep(60)
"""


def test_program_is_asked_to_end_first(tmp_path: Path) -> None:
    asked = tmp_path / "asked"

    async def scenario() -> float:
        program = Program(await launch([sys.executable, "-c", POLITE, str(asked)]))
        await program.said(1)
        began = time.monotonic()
        await program.close()
        return time.monotonic() - began

    took = asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))
    assert asked.exists()
    assert took < 2.0  # it did not have to be killed


@in_a_loop
async def test_program_that_ignores_sigterm_is_killed_after_two_seconds() -> None:
    # Spec 15.4.
    program = await script("trap '' TERM; echo $$; while :; do sleep 0.1; done")
    [pid] = await program.pids(1)
    began = time.monotonic()
    await program.close()
    took = time.monotonic() - began
    assert not alive(pid)
    assert 2.0 <= took < 2.0 + 2 * SECOND


@in_a_loop
async def test_what_it_started_ends_with_it() -> None:
    program = await script("sleep 60 & echo $!; sleep 60 & echo $!; echo $$; wait")
    pids = await program.pids(3)
    await program.close()
    await asyncio.to_thread(wait_gone, pids)


@in_a_loop
async def test_what_it_started_ends_though_it_ignores_sigterm() -> None:
    program = await script("(trap '' TERM; while :; do sleep 0.1; done) & echo $!; echo $$; wait")
    pids = await program.pids(2)
    await program.close()
    await asyncio.to_thread(wait_gone, pids)


@in_a_loop
async def test_what_a_killed_program_leaves_behind_is_ended() -> None:
    program = await script("sleep 60 >/dev/null 2>&1 & echo $!; echo $$; wait")
    pids = await program.pids(2)
    os.kill(pids[1], signal.SIGKILL)
    assert await program.ended() == "standard output of sh ended"
    await asyncio.to_thread(wait_gone, pids)


@in_a_loop
async def test_no_zombie_and_no_descriptor_is_left() -> None:
    before = len(own_descriptors()), own_children()
    for _ in range(3):
        program = await script("echo ready; cat")
        await program.said(1)
        await program.close()
    assert (len(own_descriptors()), own_children()) == before


# A client that cannot use it


STUBBORN = "trap '' TERM"
FOR_EVER = "while :; do sleep 0.1; done"
SILENT = {"polite": "cat >/dev/null", "stubborn": f"{STUBBORN}; {FOR_EVER}"}
HANDSHAKES = {
    **SILENT,
    "nonsense": "read line; echo nonsense; cat",
    "stubborn nonsense": f"{STUBBORN}; read line; echo nonsense; {FOR_EVER}",
    "refuses": 'read line; echo \'{"id":1,"error":{"code":-32600,"message":"no"}}\'; exec sleep 60',
}


@pytest.mark.parametrize("text", HANDSHAKES.values(), ids=HANDSHAKES.keys())
def test_program_of_a_handshake_that_failed_is_gone(text: str, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    argv = ["sh", "-c", f"echo $$ >{pid_file}; {text}"]

    async def scenario() -> None:
        with pytest.raises((DialFailed, RequestFailed)):
            await open_program(argv, initialize_timeout=0.5 * SECOND)
        # Not a moment later: its caller may be about to exit.
        assert not alive(int(pid_file.read_text()))

    asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT.keys())
def test_program_of_a_handshake_that_was_cancelled_is_gone(text: str, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    argv = ["sh", "-c", f"echo $$ >{pid_file}; {text}"]

    async def scenario() -> None:
        opening = asyncio.ensure_future(open_program(argv))
        while not pid_file.exists() or not pid_file.read_text():
            await asyncio.sleep(0.01 * SECOND)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not alive(int(pid_file.read_text()))

    asyncio.run(asyncio.wait_for(scenario(), 20 * SECOND))
