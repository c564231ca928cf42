"""outfitter.sync: the async client's names as plain calls; an interrupted one leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import outfitter
from outfitter import Completed, Exited, Output, OutputTooLarge, RequestFailed, SessionExpired, TimedOut, sync
from outfitter.client.files import Files as AsyncFiles
from outfitter.client.files import RemoteFile as AsyncFile
from outfitter.errors import Refused
from tests.support.machine import SECOND, alive, stop, wait_gone, wait_until
from tests.support.servers import serving

CARRIERS = ("local", "server")


@pytest.fixture(params=CARRIERS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a server; empty for local()."""
    if request.param == "local":
        yield ""
        return
    with serving("outfitter", tmp_path) as server:
        yield server.url


def block(where: str) -> contextlib.AbstractContextManager[sync.Client]:
    return sync.connect(where) if where else sync.local()


@pytest.fixture
def client(where: str) -> Iterator[sync.Client]:
    with block(where) as client:
        yield client


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "outfitter.sync"]


def pids(client: sync.Client, *, running: bool = True) -> list[int]:
    """The server's own view of the session's processes."""
    return [entry["pid"] for entry in listed(client) if not (running and entry["exited"])]


def listed(client: sync.Client) -> list[Any]:
    processes: list[Any] = client.call("process/list", None)["processes"]
    return processes


def nothing_runs(client: sync.Client) -> None:
    wait_until(lambda: pids(client) == [], "every command has ended")


def all_come(process: sync.RemoteProcess) -> None:
    wait_until(lambda: process.closed, "every event has come")


# The same names


# How the async client is opened and closed, and what it and its handles say to each other.
ASYNC_ONLY = {
    "open",
    "aclose",
    "queued",
    "clean_up",
    "generation",
    "later",
    "remember_watch",
    "forget_watch",
}
FILE_INTERNAL = {"begin"}
INTERNAL = {"receive", "fail", "abandon", "catch_up", "follow", "started", "kept", "over", "on_waiting"}


def names(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def parameters(thing: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(thing).parameters.values())


def test_client_and_process_have_the_names_of_the_async_ones() -> None:
    with sync.local() as client:
        process = client.start(["true"])
        assert names(client) - {"close"} == names(client._wrapped) - ASYNC_ONLY
        assert names(process) == names(process._wrapped) - INTERNAL
        assert (hasattr(process, "__iter__"), hasattr(process, "__aiter__")) == (True, False)
        assert names(client.files) == names(client._wrapped.files)
        with client.files.open(__file__) as file:
            assert names(file) == names(file._wrapped) - FILE_INTERNAL


@pytest.mark.parametrize(
    "mine, other",
    [
        (getattr(mine, name), getattr(other, name))
        for mine, other in (
            (sync.Client, outfitter.Client),
            (sync.RemoteProcess, outfitter.RemoteProcess),
            (sync.Files, AsyncFiles),
            (sync.RemoteFile, AsyncFile),
        )
        for name in sorted(names(mine) & names(other))
        if callable(getattr(other, name))
    ]
    + [(sync.local, outfitter.local), (sync.connect, outfitter.connect)],
    ids=lambda method: method.__qualname__,
)
def test_signature_is_that_of_the_async_one(mine: Any, other: Any) -> None:
    assert parameters(mine) == parameters(other)


def test_what_it_imports_takes_no_public_name_away() -> None:
    code = (
        "import sys, outfitter\n"
        "assert 'asyncio' not in sys.modules\n"
        "assert outfitter.sync.local is not outfitter.local\n"
        "print(type(outfitter.local).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "function\n"


# Files


def test_files_are_read_written_and_walked(tmp_path: Path) -> None:
    data = os.urandom(9_000_000)
    with sync.local() as client:
        files = client.files
        files.make_directory(f"{tmp_path}/a/b")
        files.write(f"{tmp_path}/a/small", b"x")
        files.write(f"{tmp_path}/a/large", data)
        assert (files.read(f"{tmp_path}/a/small"), files.read(f"{tmp_path}/a/large")) == (b"x", data)
        with files.open(f"{tmp_path}/a/large") as file:
            assert b"".join(file) == data
            assert file.read_at(5, 3) == data[5:8]
        with files.open(f"{tmp_path}/a/new", "replace") as file:
            file.write_at(b"abc", 0)
        files.rename(f"{tmp_path}/a/new", f"{tmp_path}/a/b/renamed")
        assert [kind for _, kind in files.walk(str(tmp_path)).entries] == [
            "directory",
            "directory",
            "file",
            "file",
            "file",
        ]
        files.remove(f"{tmp_path}/a", recursive=True)
        assert not files.exists(f"{tmp_path}/a")


def test_file_that_is_not_finished_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with sync.local() as client:
        with pytest.raises(ZeroDivisionError), client.files.open(f"{tmp_path}/a", "replace") as file:
            file.write_at(b"new", 0)
            raise ZeroDivisionError
        assert client.files.read(f"{tmp_path}/a") == b"old"


def test_breaking_off_a_read_leaves_the_file_usable(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(9_000_000))
    with sync.local() as client, client.files.open(f"{tmp_path}/a") as file:
        for block in file:
            assert len(block) == 1 << 20
            break
        assert len(b"".join(file)) == 9_000_000


# Commands


def test_run_collects_output_and_exit_code(client: sync.Client) -> None:
    assert client.run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == Completed(3, b"out\n", b"err\n")
    assert client.run(["cat"], input=b"given") == Completed(0, b"given", b"")
    assert client.run(["cat"], input="grün") == Completed(0, "grün".encode(), b"")
    with pytest.raises(TypeError, match="a command's input is bytes or text, not int"):
        client.run(["cat"], input=7, on_output=print)  # type: ignore[arg-type]
    assert client.run(["pwd"], cwd="/usr") == Completed(0, b"/usr\n", b"")


def test_large_output_arrives_whole_and_in_order(client: sync.Client) -> None:
    text = "".join(f"{n}\n" for n in range(1, 400_001)).encode()
    assert client.run(["seq", "1", "400000"]) == Completed(0, text, b"")
    pieces = [event.data for event in client.start(["seq", "1", "400000"]) if isinstance(event, Output)]
    assert b"".join(pieces) == text


def test_end_ends_a_command_and_waits_for_nothing(client: sync.Client) -> None:
    process = client.start(["sleep", "1000"])
    process.end()
    assert process.wait() == 137


def test_events_come_in_order_and_end(client: sync.Client) -> None:
    process = client.start(["cat"], stdin=True)
    seen: list[Output | Exited] = []
    assert process.write(b"one") == "accepted"
    for event in process:
        seen.append(event)
        if len(seen) == 1:
            process.write(b"two")
        elif len(seen) == 2:
            assert process.close_stdin() == "accepted"
    assert seen == [Output("stdout", b"one"), Output("stdout", b"two"), Exited(0)]
    assert (process.exit_code, process.closed, process.sandbox_denied) == (0, True, False)
    assert process.write(b"late") == "stdinClosed"


def test_terminal_is_sized_resized_and_interrupted(client: sync.Client) -> None:
    script = "stty size; read x; stty size; trap 'exit 5' INT; echo ready; while :; do sleep 0.05; done"
    process = client.start(["sh", "-c", script], tty=(30, 100))
    text = b""
    for event in process:
        if not isinstance(event, Output):
            continue
        assert event.stream == "pty"
        text += event.data
        if text == b"30 100\r\n":
            process.resize(10, 20)
            process.write(b"\n")
        elif text.endswith(b"ready\r\n"):
            process.interrupt()
    assert (text, process.exit_code, process.tty) == (b"30 100\r\n\r\n10 20\r\nready\r\n", 5, True)


def test_terminate_ends_a_command_and_all_it_started(client: sync.Client) -> None:
    process = client.start(["sh", "-c", "setsid sleep 60 & echo $!; exec sleep 60"])
    first = next(iter(process))
    assert isinstance(first, Output)
    assert process.terminate() is True
    assert process.wait() == 137
    wait_gone([int(first.data), *pids(client, running=False)])


def test_timeout_ends_the_command_and_keeps_what_it_printed(client: sync.Client) -> None:
    with pytest.raises(TimedOut) as raised:
        client.run(["sh", "-c", "echo partial; exec sleep 60"], timeout=1 * SECOND)
    assert (raised.value.seconds, raised.value.stdout) == (1 * SECOND, b"partial\n")
    nothing_runs(client)


def test_too_much_output_ends_the_command(client: sync.Client) -> None:
    with pytest.raises(OutputTooLarge):
        client.run(["yes"], max_output=100_000)
    nothing_runs(client)


def test_command_that_cannot_start_says_why(client: sync.Client) -> None:
    with pytest.raises(RequestFailed) as raised:
        client.run(["nonesuch"])
    assert isinstance(raised.value.data, dict)
    assert raised.value.data["reason"] == "`nonesuch` was not found in the command's PATH"


def test_requests_are_answered(client: sync.Client) -> None:
    process = client.start(["sleep", "60"])
    assert client.status() == "ready"
    assert [entry.process_id for entry in client.processes()] == [process.process_id]
    assert client.explain(env={"X": "1"})["variables"]["X"]["layer"] == "L7"
    assert "X" in client.environment(env={"X": "1"})["variables"]
    assert client.compare("/", "/usr") == []
    assert client.offers("processList") and not client.offers("no such thing")
    with pytest.raises(outfitter.CapabilityMissing):
        client.require("no such thing", "do so")
    assert (client.state, client.failed) == ("connected", None)
    assert client.info is not None and client.session_id


def test_arguments_that_a_call_does_not_have_are_refused(client: sync.Client) -> None:
    """As by any function; the call waited for ever."""
    anything: Any = client
    for wrong in (
        lambda: anything.files.read(),
        lambda: anything.status(1),
        lambda: anything.run(["true"], bogus=1),
        lambda: anything.files.open(),
    ):
        with pytest.raises(TypeError, match="argument"):
            wrong()
    assert client.run(["true"]).ok


def test_local_takes_an_environment() -> None:
    with sync.local(environment={"GIVEN": "1", "PATH": "/bin", "SHLVL": "2"}) as client:
        assert client.where == "this machine"
        done = client.run(["/usr/bin/env", "-0"], cwd="/")
        assert done == Completed(0, b"GIVEN=1\0PATH=/bin\0SHLVL=2\0", b"")


def test_attach_gives_the_handle_there_is(client: sync.Client) -> None:
    process = client.start(["sleep", "60"])
    assert client.attach(process.process_id) is process


def test_kept_process_is_taken_up_by_the_next_client(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server:
        with sync.connect(server.url) as client:
            process = client.start(["sh", "-c", "echo first; read x; echo $x"], stdin=True)
            process.keep()
            session_id = client.session_id
        with sync.connect(server.url, resume=session_id) as client:
            again = client.attach(process.process_id)
            again.write(b"second\n")
            output = b"".join(event.data for event in again if isinstance(event, Output))
            assert (output, again.missed, again.exit_code) == (b"first\nsecond\n", 0, 0)


# Output that is followed


def test_on_output_is_called_in_the_callers_thread_and_may_call(client: sync.Client) -> None:
    seen: list[tuple[str, bytes, bool, str]] = []

    def on_output(event: Output) -> None:
        here = threading.current_thread() is threading.main_thread()
        seen.append((event.stream, event.data, here, client.status()))

    script = "echo one; read x; echo $x >&2; exit 4"
    done = client.run(["sh", "-c", script], input=b"two\n", on_output=on_output, timeout=60)
    assert done == Completed(4, b"", b"")
    assert seen == [("stdout", b"one\n", True, "ready"), ("stderr", b"two\n", True, "ready")]


def test_flood_is_followed_until_its_time_is_up(client: sync.Client) -> None:
    with pytest.raises(TimedOut) as raised:
        client.run(["yes"], on_output=lambda event: None, timeout=0.3 * SECOND)
    assert raised.value.seconds == 0.3 * SECOND
    nothing_runs(client)


def test_time_is_up_also_while_the_server_does_not_answer(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server, sync.connect(server.url) as client:
        client.run(["true"])
        stop(server.pid)
        try:
            for on_output in (None, lambda event: None):
                with pytest.raises(TimedOut):
                    client.run(["true"], on_output=on_output, timeout=0.3 * SECOND)
        finally:
            os.kill(server.pid, signal.SIGCONT)


def test_on_output_that_fails_ends_the_command(client: sync.Client) -> None:
    def on_output(event: Output) -> None:
        raise LookupError(event.data)

    with pytest.raises(LookupError, match="seen"):
        client.run(["sh", "-c", "echo seen; exec sleep 60"], on_output=on_output)
    nothing_runs(client)


def test_floods_that_are_given_up_do_not_stop_the_client(client: sync.Client) -> None:
    def on_output(event: Output) -> None:
        raise LookupError

    for _ in range(30):
        with pytest.raises(LookupError):
            client.run(["yes"], on_output=on_output)
    assert client.run(["echo", "hi"]) == Completed(0, b"hi\n", b"")


def test_loop_that_is_left_is_taken_up_by_the_next(client: sync.Client) -> None:
    process = client.start(["sh", "-c", "echo one; echo two >&2; exit 6"])
    all_come(process)
    seen = []
    for event in process:
        seen.append(event)
        break
    for event in process:
        seen.append(event)
        break
    seen += process
    assert sorted(map(repr, seen)) == sorted(
        map(repr, [Output("stdout", b"one\n"), Output("stderr", b"two\n"), Exited(6)])
    )
    assert list(process) == []


def test_wait_discards_what_nobody_reads(client: sync.Client) -> None:
    process = client.start(["sh", "-c", "echo one; echo two >&2; exit 6"])
    all_come(process)
    for _ in process:
        break
    assert process.wait() == 6
    assert list(process) == []


def test_wait_takes_nothing_from_who_reads(client: sync.Client) -> None:
    process = client.start(["sh", "-c", "echo one; echo two >&2; exit 6"])
    all_come(process)
    events = iter(process)
    seen = [next(events)]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(process.wait).result() == 6
    assert len(seen + list(events)) == 3


def test_loop_may_be_left_open_at_the_end_of_the_block(where: str) -> None:
    with block(where) as client:
        events = iter(client.start(["sh", "-c", "echo one; exec sleep 60"]))
        assert next(events) == Output("stdout", b"one\n")
    with pytest.raises(SessionExpired):
        next(events)
    with block(where) as client:
        events = iter(client.start(["sh", "-c", "echo one; exec sleep 60"]))
        next(events)
    del events
    gc.collect()  # a warning would fail the test


# Threads


def test_many_threads_share_a_client(client: sync.Client) -> None:
    def run(number: int) -> Completed:
        return client.run(["sh", "-c", f"echo {number}; exit {number}"])

    with ThreadPoolExecutor(12) as pool:
        done = list(pool.map(run, range(60)))
    assert done == [Completed(number, f"{number}\n".encode(), b"") for number in range(60)]


def test_one_thread_writes_while_another_reads(client: sync.Client) -> None:
    process = client.start(["cat"], stdin=True)
    piece = bytes(range(256)) * 512

    def write() -> None:
        for _ in range(100):
            assert process.write(piece) == "accepted"
        process.close_stdin()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        data = b"".join(event.data for event in process if isinstance(event, Output))
        writing.result()
    assert data == piece * 100


def test_threads_that_iterate_together_get_each_event_once(client: sync.Client) -> None:
    process = client.start(["seq", "1", "200000"])

    def size() -> int:
        return sum(len(event.data) for event in process if isinstance(event, Output))

    with ThreadPoolExecutor(3) as pool:
        sizes = [pool.submit(size) for _ in range(3)]
    assert sum(one.result() for one in sizes) == len("".join(f"{n}\n" for n in range(1, 200_001)))


def test_state_is_told_on_the_background_thread(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []

    def on_state(state: str) -> None:
        told.append((state, threading.current_thread().name))

    with (
        serving("outfitter", tmp_path) as server,
        sync.connect(server.url, on_state=on_state, recovery_timeout=0.2 * SECOND) as client,
    ):
        server.popen.terminate()
        wait_until(lambda: client.failed is not None, "the client has given up")
        with pytest.raises(SessionExpired):
            client.run(["true"])
    assert told[:2] == [("recovering", "outfitter.sync"), ("failed", "outfitter.sync")]


# The end


def test_end_of_the_block_ends_commands_and_the_thread(where: str) -> None:
    assert threads() == []
    with block(where) as client:
        client.start(["sh", "-c", "setsid sleep 60 & exec sleep 60"])
        client.start(["cat"], stdin=True)
        client.start(["sh"], tty=(24, 80))
        running = pids(client)
        assert len(running) == 3 and threads() == ["outfitter.sync"]
    assert threads() == []
    wait_gone(running)


def test_every_call_after_the_block_says_so(where: str) -> None:
    with block(where) as client:
        process = client.start(["sleep", "60"])
    calls: list[Callable[[], object]] = [
        lambda: client.run(["true"]),
        lambda: client.run(["true"], on_output=print),
        lambda: client.start(["true"]),
        lambda: client.attach("x"),
        client.processes,
        client.explain,
        client.status,
        lambda: client.call("environment/status", None),
        lambda: list(process),
        lambda: process.write(b""),
        process.close_stdin,
        lambda: process.resize(1, 1),
        process.interrupt,
        process.terminate,
        process.wait,
    ]
    for call in calls:
        with pytest.raises(SessionExpired, match="the client is closed"):
            call()
    assert (client.state, str(client.failed)) == ("failed", "the client is closed")


def test_end_of_the_block_wakes_who_waits_in_another_thread(where: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        with block(where) as client:
            process = client.start(["sleep", "60"])
            waiting: list[Future[Any]] = [
                pool.submit(client.run, ["sleep", "60"]),
                pool.submit(process.wait),
                pool.submit(list, process),
            ]
            wait_until(lambda: len(pids(client)) == 2, "both commands run")
        for one in waiting:  # told the command's end, or its own
            assert isinstance(one.exception(), SessionExpired | None)


def test_no_server_is_an_error_and_leaves_no_thread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(outfitter.DialFailed), sync.connect(f"ws://127.0.0.1:{port}"):
        pass
    with pytest.raises(outfitter.SettingInvalid), sync.connect("http://nowhere"):
        pass
    assert threads() == []


def test_a_thread_that_runs_a_loop_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(Refused, match="async with"), sync.local():
            pass
        with pytest.raises(Refused, match="await"):
            client.run(["true"])
        with pytest.raises(Refused):
            next(iter(process))
        assert (await asyncio.to_thread(client.run, ["echo", "hi"])).stdout == b"hi\n"

    with sync.local() as client:
        process = client.start(["true"])
        asyncio.run(main())
        assert process.wait() == 0


# Interruptions


class Interrupted(Exception):
    pass


@contextlib.contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raises Interrupted in this thread, wherever it is then, as Ctrl-C would."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, 3 * SECOND)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# One that comes while Python finalises something is told as a warning, and comes again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_run_interrupted_at_any_time_leaves_nothing_running(client: sync.Client) -> None:
    for step in range(1, 41):
        with pytest.raises(Interrupted), interrupted_after(step * 0.0002 * SECOND):
            client.run(["sleep", "60"], on_output=print if step % 2 else None)
    assert client.run(["echo", "hi"]) == Completed(0, b"hi\n", b"")
    nothing_runs(client)


def test_interrupted_loop_loses_no_event(client: sync.Client) -> None:
    process = client.start(["sh", "-c", "echo one; read x; echo two"], stdin=True)
    seen: list[Output | Exited] = []
    with pytest.raises(Interrupted), interrupted_after(0.3 * SECOND):
        for event in process:
            seen.append(event)
    process.write(b"\n")
    assert [*seen, *process] == [Output("stdout", b"one\n"), Output("stdout", b"two\n"), Exited(0)]


# A command that says when it runs, and as what.
SLEEPER = """["sh", "-c", 'echo $$ >"$1.new"; mv "$1.new" "$1"; exec sleep 60', "sh", sys.argv[2]]"""
SCRIPT = """
import signal, sys
import outfitter

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
where = sys.argv[1]
with outfitter.sync.connect(where) if where else outfitter.sync.local() as client:
    %s
"""
WAITS = {
    "run": f"client.run({SLEEPER})",
    "run with on_output": f"client.run({SLEEPER}, on_output=print)",
    "wait": f"client.start({SLEEPER}).wait()",
    "iteration": f"list(client.start({SLEEPER}))",
}


@contextlib.contextmanager
def script(text: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", text, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as popen:
        try:
            yield popen
        finally:
            popen.kill()


def pid_in(file: Path) -> int:
    wait_until(file.exists, "the command runs", 20 * SECOND)
    return int(file.read_text())


@pytest.mark.parametrize("waits", WAITS)
def test_ctrl_c_ends_the_script_and_its_command(waits: str, where: str, tmp_path: Path) -> None:
    with script(SCRIPT % WAITS[waits], where, tmp_path / "pid") as popen:
        pid = pid_in(tmp_path / "pid")
        popen.send_signal(signal.SIGINT)
        _, stderr = popen.communicate(timeout=20 * SECOND)
        assert popen.returncode == -signal.SIGINT
        assert stderr.rstrip().endswith("\nKeyboardInterrupt") and stderr.count("Traceback") == 1
        wait_gone([pid])


@pytest.mark.parametrize("waits", ["run", "run with on_output"])
def test_ctrl_c_may_be_caught_and_the_client_goes_on(waits: str, where: str, tmp_path: Path) -> None:
    lines = (
        f"try: {WAITS[waits]}",
        "except KeyboardInterrupt: print('interrupted', flush=True)",
        "sys.stdin.readline()",
        "print(client.run(['echo', 'still here']).stdout)",
    )
    with script(SCRIPT % "\n    ".join(lines), where, tmp_path / "pid") as popen:
        pid = pid_in(tmp_path / "pid")
        assert alive(pid)
        popen.send_signal(signal.SIGINT)
        assert popen.stdout is not None and popen.stdout.readline() == "interrupted\n"
        wait_gone([pid])  # with the block still open
        assert popen.communicate("\n", timeout=20 * SECOND) == ("b'still here\\n'\n", "")
        assert popen.returncode == 0


def test_ctrl_c_while_it_connects_ends_the_script() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20 * SECOND)
        with script(SCRIPT % "pass", f"ws://127.0.0.1:{silent.getsockname()[1]}") as popen:
            accepted, _ = silent.accept()
            with accepted:  # and never answered
                accepted.recv(1)
                popen.send_signal(signal.SIGINT)
                _, stderr = popen.communicate(timeout=5 * SECOND)
            assert popen.returncode == -signal.SIGINT
            assert stderr.rstrip().endswith("\nKeyboardInterrupt") and stderr.count("Traceback") == 1


# Forks

FORKING = """
import asyncio, os, sys, outfitter
from outfitter import sync

def forked(work):
    pid = os.fork()
    if pid == 0:
        work()
        sys.stdout.flush()
        sys.exit(0)  # through the block of the client
    assert os.waitpid(pid, 0)[1] == 0

def use(call):
    try:
        call()
    except outfitter.SessionExpired as error:
        print(str(error).partition(":")[2].strip(), flush=True)

async def for_ever(_):
    await asyncio.Event().wait()

shared = outfitter.shared()
shared.run(["true"]).result()
with sync.local() as client:
    client.run(["true"])
    forked(lambda: use(lambda: client.run(["true"])))
    forked(lambda: use(lambda: shared.run(["true"])))
    pending = shared.do(for_ever)
    forked(lambda: use(pending.result))
    forked(lambda: use(pending.cancel))
    pending.cancel()
    forked(client.close)
    forked(shared.close)
    print(client.run(["echo", "still here"]).text, end="")
    print(shared.run(["echo", "still here"]).result().text, end="")
shared.close()
"""


def test_client_of_a_process_is_none_in_its_forks_and_does_not_wait_there() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60 * SECOND, check=True
    )
    assert done.stdout.splitlines() == ["make another one here"] * 4 + ["still here"] * 2
