"""The stock Codex client, unchanged, works with our server as it does with the reference.

Every test runs on both, so what it claims is true of the reference too. A tap between client and server
shows what hides behind a good result: the client silently drops a connection on which it was told
something malformed, resumes, and carries on, so a normal run must have been one connection.

Commands are held at gates (named pipes), never by time; only the client's own shortest wait is waited out.
"""

from __future__ import annotations

import base64
import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.codex import Run, run_codex
from tests.support.model import Output, Script, exec_command, modelling, write_stdin
from tests.support.servers import Server, environment, serving
from tests.support.tap import Heard, Message, Tap, tapping

BRIEF = 250  # milliseconds: the shortest time the client waits for a command

SECONDS = 20.0  # how long a test waits for what must happen

# The server's own environment, beyond what every test server gets; the client's policy excludes one name.
SERVER_ENV = {"SERVER_MARK": "from the server", "CODEX_PLUGIN_METRICS_OUTPUT": "/nowhere"}


class Gate:
    """A named pipe: a command that reads a line from it waits until the gate is opened."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR)  # so that neither end ever waits to be joined

    def open(self) -> None:
        os.write(self._descriptor, b"go\n")

    def close(self) -> None:
        os.close(self._descriptor)


class Stage:
    """A server behind a tap, and a working directory that client and server share."""

    def __init__(self, server: Server, tap: Tap, root: Path) -> None:
        self.server = server
        self.tap = tap
        self.root = root
        self.cwd = root / "work"
        self.cwd.mkdir()
        self.outputs: list[Output] = []
        self.cleanup = contextlib.ExitStack()

    def play(self, script: Callable[[], Script], *, env: dict[str, str] | None = None) -> Run:
        """Runs the client through this script, to its end; the tool outputs are in `outputs`."""
        with modelling(script) as model:
            run = run_codex(self.root / "client", model=model.url, server=self.tap.url, cwd=self.cwd, env=env)
        self.outputs = model.outputs
        assert (run.exit_code, run.message) == (0, "done"), (run, model.outputs)
        return run

    def commands(self, *calls: str) -> Run:
        """Runs the client through these commands, one after another."""

        def script() -> Script:
            for call in calls:
                yield [exec_command(call)]
            return "done"

        return self.play(script)

    def processes(self) -> list[str]:
        """The ids of the processes, in the order of their starts."""
        return [params["processId"] for params in self.tap.sent("process/start")]

    def printed(self, text: bytes) -> None:
        """Waits until the server has sent output with this in it."""
        self.tap.until(lambda heard: text in output_of(heard))

    def gate(self, name: str = "gate") -> Gate:
        """A gate in the working directory."""
        return self.cleanup.enter_context(contextlib.closing(Gate(self.cwd / name)))


@pytest.fixture(params=["codex", "outfitter"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    home = tmp_path / "server"
    home.mkdir()
    with serving(request.param, home, env=SERVER_ENV) as server, tapping(server.port) as tap:
        stage = Stage(server, tap, tmp_path)
        with stage.cleanup:
            yield stage


@contextlib.contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Does this in a thread while the client is busy; what goes wrong in it is raised at the end."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        if errors:
            raise errors[0]


def output_of(heard: Heard) -> bytes:
    if heard.method != "process/output":
        return b""
    return base64.b64decode(heard.message["params"]["chunk"])


def assert_normal(tap: Tap) -> None:
    """One connection, one fresh session, and each process told whole: seq 1 to n, closed at the end."""
    assert tap.connections == 1
    assert [params["resumeSessionId"] for params in tap.sent("initialize")] == [None]
    assert tap.sent("process/read") == []
    for params in tap.sent("process/start"):
        assert_whole(tap.notices(params["processId"]))


def assert_whole(notices: list[tuple[str, Message]]) -> None:
    assert [params["seq"] for _, params in notices] == list(range(1, len(notices) + 1))
    ends = [method for method, _ in notices if method != "process/output"]
    assert ends == ["process/exited", "process/closed"]
    assert notices[-1][0] == "process/closed"


# One command


def test_a_command_reports_its_output_and_exit_code(stage: Stage) -> None:
    run = stage.commands("echo out")
    [out] = stage.outputs
    assert (out.exit_code, out.text) == (0, "out\n")
    [item] = run.items("command_execution")
    assert (item["exit_code"], item["status"], item["aggregated_output"]) == (0, "completed", "out\n")
    assert_normal(stage.tap)


def test_a_failing_command_reports_its_exit_code(stage: Stage) -> None:
    run = stage.commands("echo problem >&2; exit 7")
    [out] = stage.outputs
    assert (out.exit_code, out.text) == (7, "problem\n")
    [item] = run.items("command_execution")
    assert (item["exit_code"], item["status"], item["aggregated_output"]) == (7, "failed", "problem\n")
    assert_normal(stage.tap)


def test_each_finished_process_is_terminated_once_and_was_not_running(stage: Stage) -> None:
    stage.commands("true", "false")
    assert [out.exit_code for out in stage.outputs] == [0, 1]
    assert [params["processId"] for params in stage.tap.sent("process/terminate")] == stage.processes()
    assert [answer["result"] for answer in stage.tap.answers("process/terminate")] == [{"running": False}] * 2
    assert_normal(stage.tap)


def test_a_command_that_cannot_start_is_told_and_the_next_one_runs(stage: Stage) -> None:
    def script() -> Script:
        yield [exec_command("echo never", workdir=str(stage.cwd / "missing"))]
        yield [exec_command("echo next")]
        return "done"

    stage.play(script)
    failed, out = stage.outputs
    assert "No such file or directory" in failed.raw
    assert (out.exit_code, out.text) == (0, "next\n")
    refused, started = stage.tap.answers("process/start")
    assert refused["error"]["code"] == -32603
    assert "result" in started
    assert stage.tap.connections == 1
    assert_whole(stage.tap.notices(stage.processes()[1]))


def test_a_command_is_finished_when_its_output_is_closed_not_when_it_exits(stage: Stage) -> None:
    gate = stage.gate()

    def open_after_exit() -> None:
        stage.tap.until(lambda heard: heard.method == "process/exited")
        gate.open()

    with meanwhile(open_after_exit):
        stage.commands("(read line < gate; echo late) & echo early; exit 4")
    [out] = stage.outputs
    assert (out.exit_code, out.text) == (4, "early\nlate\n")
    [process] = stage.processes()
    methods = [method for method, _ in stage.tap.notices(process)]
    # What was printed before the exit comes before it. The reference does not promise that: there, the early
    # output can come after the exit, and in one piece with the late output.
    whole = ["process/output", "process/exited", "process/output", "process/closed"]
    late = ["process/exited", "process/output", "process/output", "process/closed"]
    joined = ["process/exited", "process/output", "process/closed"]
    assert methods == whole or (stage.server.kind == "codex" and methods in (late, joined))
    assert_normal(stage.tap)


# Where a command runs


def test_a_command_gets_the_servers_environment_under_the_clients_overlay(stage: Stage) -> None:
    def script() -> Script:
        yield [exec_command("env -0 > environment", login=False)]
        return "done"

    run = stage.play(script, env={"CLIENT_MARK": "from the client"})
    entries = (stage.cwd / "environment").read_text().rstrip("\0").split("\0")
    seen = dict(entry.split("=", 1) for entry in entries)
    [start] = stage.tap.sent("process/start")
    overlay = start["env"]
    [thread] = [event["thread_id"] for event in run.events if event["type"] == "thread.started"]
    assert (overlay["CODEX_CI"], overlay["CODEX_THREAD_ID"]) == ("1", thread)
    inherited = environment(stage.server.home, SERVER_ENV)
    kept = {name: value for name, value in inherited.items() if name not in start["envPolicy"]["exclude"]}
    assert "CODEX_PLUGIN_METRICS_OUTPUT" not in kept
    assert seen.pop("PATH").endswith(kept.pop("PATH"))  # the reference puts directories of its own in front
    for name in ("PWD", "OLDPWD", "SHLVL", "_"):  # the shell's own
        seen.pop(name, None)
    assert seen == {**kept, **overlay}
    assert_normal(stage.tap)


def test_a_working_directory_may_have_blanks_and_umlauts(stage: Stage) -> None:
    stage.cwd = stage.root / "ein Ordner für Größen"
    stage.cwd.mkdir()
    stage.commands("pwd; echo Äpfel > 'süße Datei'")
    [out] = stage.outputs
    assert (out.exit_code, out.text) == (0, f"{stage.cwd}\n")
    assert (stage.cwd / "süße Datei").read_text() == "Äpfel\n"
    [start] = stage.tap.sent("process/start")
    assert start["cwd"].endswith("/ein%20Ordner%20f%C3%BCr%20Gr%C3%B6%C3%9Fen")
    assert_normal(stage.tap)


# Commands that run on


def test_a_long_command_is_polled_to_its_end(stage: Stage) -> None:
    gate = stage.gate()

    def script() -> Script:
        [out] = yield [exec_command("echo first; read line < gate; echo $line; exit 5", yield_time_ms=BRIEF)]
        gate.open()
        while out.session is not None:
            [out] = yield [write_stdin(out.session)]
        return "done"

    stage.play(script)
    assert "".join(out.text for out in stage.outputs) == "first\ngo\n"
    assert (stage.outputs[0].exit_code, stage.outputs[-1].exit_code) == (None, 5)
    assert stage.tap.sent("process/write") == []
    assert_normal(stage.tap)


def test_text_typed_on_a_terminal_is_echoed_and_received(stage: Stage) -> None:
    def script() -> Script:
        command = "test -t 0 && echo ready; read line; echo got $line"
        [out] = yield [exec_command(command, tty=True, yield_time_ms=BRIEF)]
        stage.printed(b"ready")
        assert out.session is not None
        yield [write_stdin(out.session, "hällo\n", yield_time_ms=30_000)]
        return "done"

    stage.play(script)
    whole = "ready\r\nhällo\r\ngot hällo\r\n"
    assert "".join(out.text for out in stage.outputs) == whole
    assert stage.outputs[-1].exit_code == 0
    [process] = stage.processes()
    assert stage.tap.output(process) == whole.encode()
    streams = {
        params["stream"] for method, params in stage.tap.notices(process) if method == "process/output"
    }
    assert streams == {"pty"}
    [write] = stage.tap.sent("process/write")
    assert base64.b64decode(write["chunk"]) == "hällo\n".encode()
    assert [answer["result"] for answer in stage.tap.answers("process/write")] == [{"status": "accepted"}]
    assert_normal(stage.tap)


def test_an_interrupt_on_a_terminal_is_a_byte_and_reaches_the_trap(stage: Stage) -> None:
    interrupt(stage, "ready\r\n^Ccaught\r\n", tty=True)
    [write] = stage.tap.sent("process/write")
    assert base64.b64decode(write["chunk"]) == b"\x03"
    assert stage.tap.sent("process/signal") == []


def test_an_interrupt_without_a_terminal_is_a_signal_and_reaches_the_trap(stage: Stage) -> None:
    interrupt(stage, "ready\ncaught\n", tty=False)
    [process] = stage.processes()
    assert stage.tap.sent("process/signal") == [{"processId": process, "signal": "interrupt"}]
    assert stage.tap.sent("process/write") == []


def interrupt(stage: Stage, whole: str, *, tty: bool) -> None:
    """Interrupts a shell that waits for its child, so the child must get the signal too."""

    def script() -> Script:
        command = "trap 'echo caught; exit 3' INT; echo ready; sleep 1000; echo over"
        [out] = yield [exec_command(command, tty=tty, yield_time_ms=BRIEF)]
        stage.printed(b"ready")
        assert out.session is not None
        yield [write_stdin(out.session, "\x03", yield_time_ms=30_000)]
        return "done"

    stage.play(script)
    assert "".join(out.text for out in stage.outputs) == whole
    assert stage.outputs[-1].exit_code == 3
    assert_normal(stage.tap)


def test_a_command_left_running_is_killed_when_the_client_ends(stage: Stage) -> None:
    os.mkfifo(stage.cwd / "held")
    descriptor = os.open(stage.cwd / "held", os.O_RDONLY | os.O_NONBLOCK)
    stage.cleanup.callback(os.close, descriptor)

    def script() -> Script:
        # The shell and its child hold the pipe, so it hangs up when both are gone.
        command = "exec 9> held; echo ready; sleep 1000; echo over"
        [out] = yield [exec_command(command, yield_time_ms=BRIEF)]
        stage.printed(b"ready")
        assert out.session is not None
        return "done"

    stage.play(script)
    poll = select.poll()
    poll.register(descriptor, 0)
    assert poll.poll(SECONDS * 1000) == [(descriptor, select.POLLHUP)]
    terminated = {params["processId"] for params in stage.tap.sent("process/terminate")}
    assert terminated == set(stage.processes())
    assert len(stage.tap.sent("initialize")) == 1


# Many commands, much output


def test_commands_of_one_response_run_at_the_same_time(stage: Stage) -> None:
    for name in ("one", "two", "three"):
        os.mkfifo(stage.cwd / name)

    def script() -> Script:
        # Each needs the next to be running too: they hand a word round and add to it.
        yield [
            exec_command("echo a > one; read word < three; echo $word"),
            exec_command("read word < one; echo ${word}b > two; echo $word"),
            exec_command("read word < two; echo ${word}c > three; echo $word"),
        ]
        return "done"

    stage.play(script)
    assert [(out.exit_code, out.text) for out in stage.outputs] == [(0, "abc\n"), (0, "a\n"), (0, "ab\n")]
    assert len(stage.processes()) == 3
    assert_normal(stage.tap)


def test_two_megabytes_of_output_arrive_whole(stage: Stage) -> None:
    last = 300_000
    stage.commands(f"seq {last}")
    whole = b"".join(b"%d\n" % number for number in range(1, last + 1))
    [process] = stage.processes()
    assert stage.tap.output(process) == whole
    [out] = stage.outputs
    # The client counts all of it, keeps a mebibyte, and shows the model both ends of that.
    assert (out.exit_code, out.original_tokens) == (0, -(-len(whole) // 4))
    assert f"... {len(whole) - 2**20} bytes omitted ..." in out.text
    assert out.text.endswith(f"\n{last - 1}\n{last}\n")
    assert_normal(stage.tap)


# Lost connections


def test_no_line_is_lost_or_doubled_when_the_connection_breaks(stage: Stage) -> None:
    gates = [stage.gate("gate1"), stage.gate("gate2"), stage.gate("gate3")]
    cut_at_line(stage.tap, 50)
    cut_at_line(stage.tap, 150)

    def open_one_by_one() -> None:
        started(stage)
        gates[0].open()
        resumed_on(stage.tap, 1)
        gates[1].open()
        resumed_on(stage.tap, 2)
        gates[2].open()

    # No more lines than this between gates: the client holds 256 notifications that run ahead of its
    # process/read, and gives the command up at the next.
    with meanwhile(open_one_by_one):
        stage.commands(
            "print() { read line < $1; for ((i = $2; i <= $3; i++)); do echo $i; done; }; echo ready\n"
            "print gate1 1 100; print gate2 101 200; print gate3 201 300; exit 6"
        )
    [out] = stage.outputs
    assert out.text.split() == ["ready", *(str(number) for number in range(1, 301))]
    assert out.exit_code == 6
    assert_resumed(stage.tap, times=2)


def test_a_command_that_ends_while_the_connection_is_broken_is_reported(stage: Stage) -> None:
    gate = stage.gate()
    stage.tap.cut_at(lambda heard: heard.method in ("process/exited", "process/closed"))

    def open_when_started() -> None:
        started(stage)
        gate.open()

    with meanwhile(open_when_started):
        stage.commands("echo ready; read line < gate; exit 9")
    [out] = stage.outputs
    assert (out.exit_code, out.text) == (9, "ready\n")
    assert_resumed(stage.tap, times=1)


def started(stage: Stage) -> None:
    """Waits until the client has been told of the start and of the first output, so no cut hits these."""
    stage.printed(b"ready")
    answered(stage.tap, stage.tap.until(lambda heard: heard.method == "process/start"))


def answered(tap: Tap, request: Heard) -> None:
    """Waits for the answer to this request."""
    key = (request.connection, "server", None, request.message["id"])
    tap.until(lambda heard: (heard.connection, heard.sender, heard.method, heard.message.get("id")) == key)


def cut_at_line(tap: Tap, number: int) -> None:
    tap.cut_at(lambda _: b"\n%d\n" % number in b"".join(map(output_of, tap.heard)))


def resumed_on(tap: Tap, connection: int) -> None:
    """Waits until the client has asked on this connection for what it has missed, and been told."""
    answered(tap, tap.until(lambda heard: heard.method == "process/read" and heard.connection == connection))


def assert_resumed(tap: Tap, *, times: int) -> None:
    """The client took up the same session this many times, each on its own connection."""
    session = tap.answers("initialize")[0]["result"]["sessionId"]
    assert [params["resumeSessionId"] for params in tap.sent("initialize")] == [None, *[session] * times]
    assert [answer["result"]["sessionId"] for answer in tap.answers("initialize")] == [session] * (times + 1)
    assert tap.connections == times + 1
