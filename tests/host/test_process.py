"""Process: output, exit, stdin, signals and the end, told to an owner, on either loop."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.core.launch import Launch
from outfitter.core.marks import Marks
from outfitter.core.output import Budget, Chunk
from outfitter.errors import LaunchFailed
from outfitter.host.process import READ_SIZE, WIDE_CHUNK, WIDE_READ_SIZE, Process
from outfitter.host.tree import Trees, new_nonce
from outfitter.host.unix import Spawner
from outfitter.loop import EpollLoop
from tests.support.handloop import HandLoop
from tests.support.machine import SECOND, alive, own_descriptors, wait_gone, wait_until


class Recorder:
    """An owner that writes everything down, and takes output as long as it is told to."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.events: list[tuple[Any, ...]] = []
        self.taking = True
        self.hunger = READ_SIZE
        self.bulk: list[int] = []
        self.moved = 0

    def appetite(self, process: Process) -> int:
        return self.hunger

    def much(self, fd: int) -> None:
        self.bulk.append(fd)

    def output(self, process: Process, chunks: list[Chunk]) -> bool:
        self.events += [(chunk.seq, chunk.stream.decode(), chunk.data) for chunk in chunks]
        self._host.news()
        return self.taking

    def ended(self, process: Process, exited_seq: int | None, closed_seq: int | None) -> None:
        if exited_seq is not None:
            self.events.append((exited_seq, "exited", process.log.exit_code))
        if closed_seq is not None:
            self.events.append((closed_seq, "closed"))
        self._host.news()

    def stdin_moved(self, process: Process) -> None:
        self.moved += 1
        self._host.news()

    def text(self, stream: str = "stdout") -> bytes:
        return b"".join(event[2] for event in self.events if event[1] == stream)


class WatchedTrees(Trees):
    """Trees that note which leaders they kill by number."""

    def __init__(self, loop: Any, marks: Marks) -> None:
        super().__init__(loop, marks)
        self.unreaped: list[int] = []

    def kill(self, leader: int, mark: int | None, *, reaped: bool) -> None:
        if not reaped:
            self.unreaped.append(leader)
        super().kill(leader, mark, reaped=reaped)


class Host:
    """A loop with processes on it. `until` runs it until something holds."""

    def __init__(self, kind: str) -> None:
        self._asyncio = asyncio.new_event_loop() if kind == "asyncio" else None
        self.loop: Any = self._asyncio or EpollLoop()
        self._wanted: Callable[[], bool] | None = None
        self.marks = Marks(new_nonce())
        self.trees = WatchedTrees(self.loop, self.marks)
        self._spawner = Spawner()
        self.processes: list[Process] = []

    def start(self, script: str, **options: Any) -> tuple[Process, Recorder]:
        recorder = Recorder(self)
        launch = Launch("/bin/sh", ["sh", "-c", script], "/", {"PATH": "/usr/bin:/bin"}, **options)
        process = Process(
            "p",
            launch,
            self.marks.new(0),
            loop=self.loop,
            spawner=self._spawner,
            trees=self.trees,
            owner=recorder,
            budget=Budget(1 << 30),
            started_ms=0,
        )
        self.processes.append(process)
        return process, recorder

    def news(self) -> None:
        if self._wanted is not None and self._wanted():
            self._wanted = None
            self.loop.stop()

    def until(self, wanted: Callable[[], bool]) -> None:
        if wanted():
            return
        self._wanted = wanted
        self.run(20 * SECOND)
        assert wanted()

    def run(self, seconds: float) -> None:
        """Runs until `news` stops it, at most so long."""
        timer = self.loop.call_later(seconds, self.loop.stop)
        if self._asyncio is not None:
            self._asyncio.run_forever()
        else:
            # `stop` is for the end of a server; a test goes on afterwards.
            self.loop._stopping = False
            self.loop.run()
        timer.cancel()

    def close(self) -> None:
        for process in self.processes:
            if not process.closed:
                process.terminate()
        self.trees.kill_all()
        for process in self.processes:
            process.discard(SECOND)
        self.loop.close()


@pytest.fixture(params=["epoll", "asyncio"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    before = len(own_descriptors())
    host = Host(request.param)
    yield host
    host.close()
    assert len(own_descriptors()) == before


def test_events_are_numbered_output_exit_close(host: Host) -> None:
    process, recorder = host.start("echo out; exit 3")
    host.until(lambda: process.closed)
    assert recorder.events == [(1, "stdout", b"out\n"), (2, "exited", 3), (3, "closed")]
    assert (process.exited, process.log.exit_code) == (True, 3)


def test_streams_keep_apart(host: Host) -> None:
    process, recorder = host.start("echo out; echo err >&2")
    host.until(lambda: process.closed)
    assert (recorder.text("stdout"), recorder.text("stderr")) == (b"out\n", b"err\n")


def test_signal_exits_with_128_more(host: Host) -> None:
    process, _ = host.start("kill -15 $$")
    host.until(lambda: process.closed)
    assert process.log.exit_code == 143


def test_background_child_holds_the_close_not_the_exit(host: Host) -> None:
    # X5
    process, recorder = host.start("sleep 60 & exit 0")
    host.until(lambda: process.exited)
    assert not process.closed
    assert process.terminate() is False  # row 5: it ends whoever holds the pipes
    host.until(lambda: process.closed)
    assert recorder.events == [(1, "exited", 0), (2, "closed")]


def test_input_is_written_in_order_and_ended(host: Host) -> None:
    process, recorder = host.start("exec cat", pipe_stdin=True)
    data = [bytes([65 + number % 26]) * 5000 for number in range(100)]
    for part in data[:-1]:
        assert process.write(part)
    assert process.write(data[-1], eof=True)
    assert not process.stdin_open
    host.until(lambda: process.closed)
    assert recorder.text() == b"".join(data)


def test_input_that_is_not_read_fills_the_queue_and_no_more(host: Host) -> None:
    process, recorder = host.start("exec sleep 60", pipe_stdin=True)
    process.write(bytes(1 << 16))
    while process.stdin_has_room():
        process.write(bytes(1 << 20))
    assert recorder.moved > 0
    assert process.stdin_open


def test_command_that_closes_its_input_is_found_out(host: Host) -> None:
    process, recorder = host.start("exec <&-; echo closed; exec sleep 60", pipe_stdin=True)
    host.until(lambda: recorder.text() == b"closed\n")
    assert process.write(b"x") is False
    assert not process.stdin_open


def test_owner_that_takes_no_more_stops_the_reading(host: Host) -> None:
    process, recorder = host.start("head -c 3000000 /dev/zero; echo end >&2")
    recorder.taking = False
    host.until(lambda: bool(recorder.events))
    host.run(0.2 * SECOND)  # an absence has no event
    assert len(recorder.text()) < 1 << 20
    recorder.taking = True
    process.resume()
    host.until(lambda: process.closed)
    assert (len(recorder.text()), recorder.text("stderr")) == (3_000_000, b"end\n")


def test_output_that_is_held_to_the_end_comes_after_the_exit(host: Host) -> None:
    process, recorder = host.start("read line; echo out", pipe_stdin=True)
    process.hold()
    process.write(b"go\n")
    host.until(lambda: process.exited)
    assert recorder.events == [(1, "exited", 0)]
    process.resume()
    host.until(lambda: process.closed)
    assert recorder.events[1:] == [(2, "stdout", b"out\n"), (3, "closed")]


def test_output_that_is_held_for_a_while_comes_before_the_exit(host: Host) -> None:
    process, recorder = host.start("read line; echo out", pipe_stdin=True)
    process.hold(to_the_end=False)
    process.write(b"go\n")
    host.until(lambda: process.closed)
    assert recorder.events == [(1, "stdout", b"out\n"), (2, "exited", 0), (3, "closed")]


def test_user_who_has_pipes_enough_keeps_the_usual_one(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    sizes: list[int] = []
    read = os.read

    def refuse(fd: int, command: int, size: int) -> int:
        asked.append(size)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def reading(fd: int, size: int) -> bytes:
        sizes.append(size)
        return read(fd, size)

    _, recorder = host.start("exec yes")
    recorder.hunger = WIDE_READ_SIZE
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "fcntl", refuse)
        patched.setattr(os, "read", reading)
        host.until(lambda: len(recorder.text()) > 40 * READ_SIZE)
    assert (asked, set(sizes)) == ([WIDE_READ_SIZE], {READ_SIZE})


def test_a_stream_that_is_alone_is_read_in_large_pieces_and_nothing_of_it_is_lost(host: Host) -> None:
    process, recorder = host.start("seq 3000000; echo end >&2")
    recorder.hunger = WIDE_READ_SIZE
    host.until(lambda: process.closed)
    expected = b"".join(b"%d\n" % number for number in range(1, 3_000_001))
    assert recorder.text() == expected
    sizes = [len(event[2]) for event in recorder.events if event[1] == "stdout"]
    assert max(sizes) <= WIDE_CHUNK
    # What is retained is the end, and most of what may be.
    kept = b"".join(chunk.data for chunk in process.log.after(0) if chunk.stream == b"stdout")
    assert expected.endswith(kept)
    assert (1 << 20) - WIDE_CHUNK < len(kept) <= 1 << 20


def test_terminate_closes_even_when_the_owner_takes_nothing(host: Host) -> None:
    # Row 42.
    process, recorder = host.start("exec yes")
    recorder.taking = False
    host.until(lambda: bool(recorder.events))
    assert process.terminate() is True
    host.until(lambda: process.closed)
    assert process.log.exit_code == 137
    assert process.terminate() is False


def test_terminate_ends_the_tree(host: Host) -> None:
    process, recorder = host.start("setsid sleep 60 & echo $!; exec sleep 60")
    host.until(lambda: recorder.text().endswith(b"\n"))
    process.terminate()
    host.until(lambda: process.closed)
    wait_gone([process.pid, int(recorder.text())])


def test_grace_is_a_sigterm_first(host: Host) -> None:
    # Row 4.
    process, recorder = host.start("trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done")
    host.until(lambda: recorder.text() == b"ready\n")
    assert process.terminate(10 * SECOND) is True
    host.until(lambda: process.closed)
    assert process.log.exit_code == 5


def test_interrupt_reaches_the_group(host: Host) -> None:
    process, recorder = host.start("trap 'exit 6' INT; echo ready; while :; do sleep 0.02; done")
    host.until(lambda: recorder.text() == b"ready\n")
    process.interrupt()
    host.until(lambda: process.closed)
    assert process.log.exit_code == 6
    process.interrupt()  # of an ended one: nothing


def test_terminal_has_one_stream_size_and_input(host: Host) -> None:
    process, recorder = host.start("stty size; read line; echo got $line >&2", rows=20, cols=60)
    host.until(lambda: recorder.text("pty") == b"20 60\r\n")
    assert process.resize(21, 61) is True
    process.write(b"typed\n")
    host.until(lambda: process.closed)
    assert recorder.text("pty") == b"20 60\r\ntyped\r\ngot typed\r\n"
    assert process.resize(1, 1) is False


def test_terminal_that_is_closed_by_its_command_closes_the_process(host: Host) -> None:
    process, recorder = host.start("echo hi; exit 2", rows=24, cols=80)
    host.until(lambda: process.closed)
    assert recorder.events == [(1, "pty", b"hi\r\n"), (2, "exited", 2), (3, "closed")]


def test_terminal_that_was_held_when_its_command_ended_is_read_and_closed(host: Host) -> None:
    process, recorder = host.start("read line; echo out", rows=24, cols=80)
    process.hold()
    process.write(b"go\n")
    host.until(lambda: process.exited)
    assert recorder.events == [(1, "exited", 0)]
    process.resume()
    host.until(lambda: process.closed)
    assert (recorder.text("pty"), recorder.events[-1][1]) == (b"go\r\nout\r\n", "closed")


def test_terminal_that_could_not_be_read_at_the_exit_is_read_later(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "go")
    process, recorder = host.start(
        f"exec <{tmp_path}/go >/dev/null 2>&1; read line; exit 3", rows=24, cols=80
    )
    ours = process._fds[0]
    writing = os.open(tmp_path / "go", os.O_RDWR)
    said: list[str] = []

    def read(fd: int, size: int, plain: Callable[[int, int], bytes] = os.read) -> bytes:
        if fd != ours or said[-1:] != ["left"]:
            try:
                return plain(fd, size)
            except OSError:
                if fd == ours and not said:
                    said.append("left")
                    host.news()
                raise
        said.append("later")
        raise BlockingIOError

    monkeypatch.setattr(os, "read", read)
    host.until(lambda: said == ["left"])
    # Now nobody reads the terminal for a moment; the command ends in it.
    os.write(writing, b"\n")
    os.close(writing)
    host.until(lambda: process.closed)
    assert recorder.events == [(1, "exited", 3), (2, "closed")]
    assert said == ["left", "later"]


def test_terminal_that_everybody_closed_can_be_opened_again(host: Host, tmp_path: Path) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    script = f"exec </dev/null >/dev/null 2>&1; read line <{fifo}; echo again >/dev/tty"
    process, recorder = host.start(script, rows=24, cols=80)
    host.run(0.15 * SECOND)  # it is found closed, and found so again
    fifo.write_text("go\n")
    host.until(lambda: process.closed)
    assert recorder.events == [(1, "pty", b"again\r\n"), (2, "exited", 0), (3, "closed")]


def test_terminal_that_everybody_closed_is_looked_at_by_one_timer(host: Host) -> None:
    loop = HandLoop()
    script = "exec <&- >&- 2>&-; exec sleep 60"
    process = Process(
        "p",
        Launch("/bin/sh", ["sh", "-c", script], "/", {"PATH": "/usr/bin:/bin"}, rows=24, cols=80),
        host.marks.new(0),
        loop=loop,
        spawner=Spawner(),
        trees=Trees(loop, host.marks),
        owner=Recorder(host),
        budget=Budget(1 << 30),
        started_ms=0,
    )

    def looked() -> bool:
        loop.tick()
        return loop.waiting > 0

    wait_until(looked, "it is found closed")
    for _ in range(5):  # as when a client comes back
        process.hold()
        process.resume()
        loop.tick()
    assert loop.waiting == 1
    loop.advance(1.0)
    loop.tick()
    assert loop.waiting == 1
    process.terminate()
    process.discard(5 * SECOND)


def test_input_ends_with_the_leader_for_whoever_still_reads_it(host: Host) -> None:
    process, recorder = host.start("exec 3<&0; { cat <&3; echo end; } & exit 0", pipe_stdin=True)
    host.until(lambda: process.closed)
    assert recorder.text() == b"end\n"


def test_failed_start_leaves_nothing_behind(host: Host) -> None:
    before = len(own_descriptors())
    for options in ({}, {"pipe_stdin": True}, {"rows": 24, "cols": 80}):
        with pytest.raises(LaunchFailed):
            Process(
                "p",
                Launch("/nonesuch", ["x"], "/", {}, **options),  # type: ignore[arg-type]
                None,
                loop=host.loop,
                spawner=Spawner(),
                trees=host.trees,
                owner=Recorder(host),
                budget=Budget(1 << 30),
                started_ms=0,
            )
    assert len(own_descriptors()) == before


def test_discarded_process_is_reaped_and_touches_nobody_later(host: Host) -> None:
    # A number that was reaped may belong to somebody else; a grace that runs out must not use it.
    process, recorder = host.start("trap '' TERM; echo ready; while :; do sleep 0.02; done")
    host.until(lambda: recorder.text() == b"ready\n")
    process.terminate(0.1 * SECOND)
    host.trees.kill_all()
    process.discard(SECOND)
    assert not alive(process.pid)
    host.trees.unreaped.clear()
    host.run(0.3 * SECOND)
    assert host.trees.unreaped == []
