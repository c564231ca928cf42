"""A plain `outfitter run --on URL`: without asyncio, and handed over where it is not plain any more."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.cli import quickon
from outfitter.cli.flags import read_with_words
from outfitter.cli.runflags import RUN, is_plain_elsewhere
from outfitter.loop import EpollLoop
from outfitter.protocol import websocket as ws
from outfitter.protocol.session import LEFT, RESTARTING, RESTARTING_REASON, TAKEN_OVER
from outfitter.protocol.upgrade import accept_key
from outfitter.transport.address import Address
from tests.support.machine import SECOND
from tests.support.proxy import Cutter, cutting
from tests.support.servers import Server, serving
from tests.support.wire import Message, b64

from .commandline import SECONDS, User, read_line, read_rest
from .test_quickrun import HEAVY, imported

ON = "ws://127.0.0.1:1"
# A busy machine is no slow server.
PATIENT = "import outfitter.cli.quickon as on; on._PROMPT_SECONDS = 20;"


def flags_of(*args: str) -> tuple[dict[str, Any], list[str]]:
    read = read_with_words([*args, "--", "x"], RUN, command=True)
    assert read is not None
    return read


# Which command lines


@pytest.mark.parametrize("args", [(), ("--token-file", "t"), ("--cwd", "/"), ("--timeout", "3")])
def test_what_is_plain(args: tuple[str, ...]) -> None:
    flags, argv = flags_of("--on", ON, *args)
    assert is_plain_elsewhere(argv, flags)
    assert not is_plain_elsewhere([], flags)


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--on", "build"),
        ("--on", ON, "--tty"),
        ("--on", ON, "--codex-home", "x"),
        ("--on", ON, "--tls-ca", "x"),
        ("--on", ON, "--sandbox", "read-only"),
    ],
)
def test_what_is_not_plain(args: tuple[str, ...]) -> None:
    flags, argv = flags_of(*args)
    assert not is_plain_elsewhere(argv, flags)


@pytest.mark.parametrize("on", ["ws://example.com:1", "wss://127.0.0.1:1", "ws://127.0.0.1:1/path"])
def test_server_somewhere_else_is_not_dialled(on: str) -> None:
    flags, argv = flags_of("--on", on)
    assert quickon.run(argv, flags) is None


@pytest.mark.parametrize("listen", ["ws", "unix"])
def test_plain_run_imports_no_heavy_module(listen: str, user: User, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(0o700)
    where = {"listen": f"unix:{tmp_path}/run/s"} if listen == "unix" else {}
    with serving("outfitter", tmp_path / "server", **where) as server:
        found = imported(user, "run", "--on", server.url, "--env", "A=1", "--", "true", first=PATIENT)
    assert found & HEAVY == set()
    assert "outfitter.cli.quickon" in found
    assert user.records() == []


def test_many_short_commands_find_room_one_after_the_other(user: User, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "server", "--max-sessions", "2") as server:
        for _ in range(5):
            assert user.run("run", "--on", server.url, "--", "true").returncode == 0


def test_machine_out_of_breath_is_no_news_for_who_runs_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server says that it could serve nobody for a while; here nobody is served."""
    loops: list[EpollLoop] = []

    def made() -> EpollLoop:
        loops.append(EpollLoop())
        return loops[-1]

    monkeypatch.setattr(quickon, "EpollLoop", made)
    flags, argv = flags_of("--on", ON)  # where nobody listens
    assert quickon.run(argv, flags) is None
    assert [loop.stall_seconds for loop in loops] == [float("inf")]


# Handed over


@pytest.fixture
def cutter(server: Server) -> Iterator[Cutter]:
    with cutting(server) as one:
        yield one


@pytest.mark.parametrize("budget", [90_000, 1_000_000])
def test_cut_connection_loses_nothing_of_either_stream(budget: int, cutter: Cutter, user: User) -> None:
    cutter.budget = budget
    data = os.urandom(1_000_000)
    script = "echo ready; exec cat"
    popen = user.start("run", "--on", cutter.url, "--", "sh", "-c", script, stdin=subprocess.PIPE)
    assert read_line(popen) == b"ready\n"
    cutter.budget = None
    stdout, stderr = popen.communicate(data, timeout=SECONDS)
    assert (popen.returncode, stdout == data) == (0, True)
    told = rf"outfitter: the connection to {cutter.url} was lost and recovered after \d+\.\d s\n"
    assert re.fullmatch(told, stderr.decode())
    assert user.records() == []


def test_time_goes_on_after_a_cut(cutter: Cutter, user: User) -> None:
    popen = user.start("run", "--on", cutter.url, "--timeout", "1", "--", "sh", "-c", "echo ready; sleep 60")
    assert read_line(popen) == b"ready\n"
    cutter.cut_all()
    code, stdout, stderr = read_rest(popen)
    assert (code, stdout) == (124, b"")
    assert stderr.endswith(b"sh was ended after 1 s\n")


def test_message_that_is_lost_is_read(cutter: Cutter, user: User) -> None:
    lost: list[bytes] = []

    def loses(message: bytes) -> bool:
        is_first = b'"process/output"' in message and not lost
        lost.extend([message] if is_first else [])
        return is_first

    cutter.loses = loses
    done = user.run("run", "--on", cutter.url, "--", "sh", "-c", "echo one; sleep 0.1; echo two >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr, len(lost)) == (3, b"one\n", b"two\n", 1)


# Message by message

ALL = ("environmentContract", "environmentOverlay", "processStdinEof", "sessionLeave")
Script = Callable[["Far"], None]


class Far:
    """A server that says what a test has it say."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._frames = ws.FrameReader(masked=True, limit=1 << 20)
        self._inbox: list[tuple[int, Any]] = []
        self.goodbye: int | None = None

    def upgrade(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._peer.recv(65536)
        key = re.search(rb"Sec-WebSocket-Key: (\S+)", head)
        assert key is not None
        answer = (
            f"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {accept_key(key[1].decode())}\r\n"
        )
        self._peer.sendall(f"{answer}Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n".encode())

    def _next(self) -> tuple[int, Any]:
        while not self._inbox:
            data = self._peer.recv(65536)
            self._inbox += self._frames.feed(data) if data else [(ws.CLOSE, b"")]
        return self._inbox.pop(0)

    def hear(self, method: str | None) -> Message:
        message = self.message()
        assert message.get("method") == method
        return message

    def message(self) -> Message:
        opcode, payload = self._next()
        assert opcode == ws.TEXT
        message: Message = json.loads(payload)
        return message

    def say(self, **message: Any) -> None:
        self._peer.sendall(ws.framed(json.dumps(message).encode()))

    def greet(self, *capabilities: str, **info: Any) -> None:
        told = {"shell": {"name": "sh", "path": "/bin/sh"}, "cwd": "file:///srv", **info}
        told["capabilities"] = dict.fromkeys(capabilities, True)
        request = self.hear("initialize")
        self.say(id=request["id"], result={"sessionId": "s", "environmentInfo": told})
        self.hear("initialized")

    def start(self) -> tuple[str, Message]:
        request = self.hear("process/start")
        self.say(id=request["id"], result={"processId": request["params"]["processId"]})
        return request["params"]["processId"], request["params"]

    def notice(self, what: str, process: str, seq: int, **more: Any) -> None:
        self.say(method=f"process/{what}", params={"processId": process, "seq": seq, **more})

    def part(self) -> None:
        """Takes what comes to the end, and says goodbye."""
        while (found := self._next())[0] != ws.CLOSE:
            pass
        self.goodbye = int.from_bytes(found[1][:2]) if found[1] else None
        with contextlib.suppress(OSError):
            self._peer.sendall(ws.header(0, ws.CLOSE))


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., tuple[Any, Far]]]:
    """Runs a command line against a script; returns what `quickon.run` does, and the far end."""
    monkeypatch.setenv("OUTFITTER_HOME", str(tmp_path))
    monkeypatch.setattr(quickon, "_PROMPT_SECONDS", 20.0 * SECOND)
    before = {number: signal.getsignal(number) for number in (1, 2, 15)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it

    def run(script: Script, *args: str) -> tuple[Any, Far]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            flags, argv = flags_of("--on", f"ws://127.0.0.1:{listening.getsockname()[1]}", *args)
            failures: list[BaseException] = []
            ends: list[Far] = []

            def serve() -> None:
                peer, _ = listening.accept()
                peer.settimeout(20 * SECOND)
                with peer:
                    ends.append(Far(peer))
                    try:
                        ends[0].upgrade()
                        script(ends[0])
                        ends[0].part()
                    except BaseException as error:
                        failures.append(error)

            thread = threading.Thread(target=serve)
            thread.start()
            try:
                done = quickon.run(argv, flags)
            finally:
                thread.join()
            if failures:
                raise failures[0]
            return done, ends[0]

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def test_command_from_its_start_to_its_end(
    running: Callable[..., tuple[Any, Far]], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said: list[Message] = []

    def script(far: Far) -> None:
        far.greet(*ALL)
        process, params = far.start()
        said.append(params)
        far.say(id=7, method="no/such", params={})
        # The end of its input and a question from us: whichever it notices first.
        heard = {message.get("method"): message for message in (far.message(), far.message())}
        assert heard["process/write"]["params"]["eof"]
        assert heard[None]["error"]["code"] == -32601
        [record] = (tmp_path / "state" / "commands").iterdir()
        written = json.loads(record.read_text())
        assert (written["process_id"], written["tty"], written["session_id"]) == (process, False, "s")
        # In another order than it was, as the reference may push it; then the server is asked as well.
        far.notice("output", process, 2, stream="stderr", chunk=b64(b"two"))
        far.notice("output", process, 1, stream="stdout", chunk=b64(b"one"))
        far.notice("exited", process, 3, exitCode=5, sandboxDenied=True)
        far.notice("closed", process, 4)

    done, far = running(script, "--cwd", "a/../b")
    assert (done, far.goodbye) == (5, LEFT)
    out, err = capfd.readouterr()
    assert (out, err[:3]) == ("one", "two")
    assert "the sandbox of the configuration denied something" in err
    assert (said[0]["argv"], said[0]["cwd"], said[0]["pipeStdin"]) == (["x"], "file:///srv/b", True)
    assert said[0]["contract"]["author"] == "user" and said[0]["envPolicy"] is None
    assert list((tmp_path / "state" / "commands").iterdir()) == []


def test_server_without_a_contract_gets_a_policy_and_no_input(
    running: Callable[..., tuple[Any, Far]], capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[Message] = []

    def script(far: Far) -> None:
        far.greet()
        process, params = far.start()
        said.append(params)
        far.notice("exited", process, 1, exitCode=1)  # older servers do not say whether a sandbox denied it
        far.notice("closed", process, 2)
        read = far.hear("process/read")
        assert read["params"]["afterSeq"] == 2
        state = {"chunks": [], "nextSeq": 3, "exited": True, "exitCode": 1, "closed": True, "failure": None}
        far.say(id=read["id"], result={**state, "sandboxDenied": True})

    done, far = running(script)
    assert (done, far.goodbye) == (1, 1000)
    assert "denied something" in capfd.readouterr().err
    assert (said[0]["cwd"], said[0]["pipeStdin"], "contract" in said[0]) == ("file:///srv", False, False)
    assert said[0]["envPolicy"]["inherit"] == "all"


def refuses(far: Far) -> None:
    far.say(id=far.hear("initialize")["id"], error={"code": -32600, "message": "no"})


def says_nonsense(far: Far) -> None:
    far.hear("initialize")
    far._peer.sendall(ws.framed(b"{"))


def breaks_off(far: Far) -> None:
    far.hear("initialize")
    far._peer.shutdown(socket.SHUT_RDWR)


def has_other_paths(far: Far) -> None:
    far.greet(cwd="file:///C:/srv")


@pytest.mark.parametrize("script", [refuses, says_nonsense, breaks_off, has_other_paths])
def test_server_that_does_not_answer_as_usual_is_left_to_the_full_client(
    script: Script, running: Callable[..., tuple[Any, Far]]
) -> None:
    assert running(script, "--cwd", "a")[0] is None


def test_server_that_says_nothing_for_a_while_is_left_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OUTFITTER_HOME", str(tmp_path))
    monkeypatch.setattr(quickon, "_PROMPT_SECONDS", 0.01)
    flags, argv = flags_of("--on", ON)
    near, far = socket.socketpair()
    with far:
        near.setblocking(False)
        loop = EpollLoop()
        one = quickon.RunOn(loop, argv, flags, Address(ON, "127.0.0.1", 1, "/", secure=False))
        one.begin(near, b"")
        loop.run()
        loop.close()
    assert (one.status, one.handed_over) == (None, False)


@pytest.mark.parametrize("args", [("--scope", "s"), ("--unset", "A")])
def test_contract_needs_a_server_that_has_one(
    args: tuple[str, ...], running: Callable[..., tuple[Any, Far]]
) -> None:
    assert running(lambda far: far.greet("processStdinEof"), *args)[0] is None


def test_ctrl_c_before_the_command_runs_ends_it(running: Callable[..., tuple[Any, Far]]) -> None:
    def script(far: Far) -> None:
        far.greet(*ALL)
        far.hear("process/start")
        os.kill(os.getpid(), signal.SIGINT)
        request = far.hear("process/terminate")
        far.say(id=request["id"], result={"running": True})

    done, far = running(script)
    assert (done, far.goodbye) == (130, LEFT)


def test_ctrl_c_before_the_server_has_answered_ends_us_at_once(
    running: Callable[..., tuple[Any, Far]],
) -> None:
    def script(far: Far) -> None:
        far.hear("initialize")
        os.kill(os.getpid(), signal.SIGINT)

    assert running(script)[0] == 130


def test_session_that_was_taken_over_is_not_taken_up(
    running: Callable[..., tuple[Any, Far]], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def script(far: Far) -> None:
        far.greet(*ALL)
        far.start()
        far.hear("process/write")
        body = ws.close_payload(TAKEN_OVER, "another client has it")
        far._peer.sendall(ws.header(len(body), ws.CLOSE) + body)

    assert running(script)[0] == 125
    assert "the server closed the connection: another client has it" in capfd.readouterr().err
    assert len(list((tmp_path / "state" / "commands").iterdir())) == 1  # it still runs


def restart(far: Far) -> None:
    body = ws.close_payload(RESTARTING, RESTARTING_REASON)
    far._peer.sendall(ws.header(len(body), ws.CLOSE) + body)


def test_start_that_a_restarting_server_has_not_answered_is_left_to_the_full_client(
    running: Callable[..., tuple[Any, Far]],
) -> None:
    def script(far: Far) -> None:
        far.greet(*ALL)
        far.hear("process/start")
        restart(far)

    assert running(script)[0] is None


def test_start_that_is_not_wanted_any_more_is_not_made_again(
    running: Callable[..., tuple[Any, Far]],
) -> None:
    def script(far: Far) -> None:
        far.greet(*ALL)
        far.hear("process/start")
        os.kill(os.getpid(), signal.SIGINT)
        far.hear("process/terminate")
        restart(far)

    one, _ = running(script)
    assert isinstance(one, quickon.RunOn) and not one.runs


def test_what_was_lost_for_good_is_handed_over(running: Callable[..., tuple[Any, Far]]) -> None:
    def script(far: Far) -> None:
        far.greet(*ALL)
        process, _ = far.start()
        far.hear("process/write")
        far.notice("output", process, 3, stream="stdout", chunk="")
        read = far.hear("process/read")
        far.say(id=read["id"], error={"code": -32600, "message": "gone"})

    one, _ = running(script)
    assert isinstance(one, quickon.RunOn)
    assert (one.runs, one.order.last, one.reason, one.in_flight) == (True, 0, None, b"")


def test_message_that_cannot_be_read_is_handed_over(running: Callable[..., tuple[Any, Far]]) -> None:
    def script(far: Far) -> None:
        far.greet(*ALL)
        far.start()
        far._peer.sendall(ws.framed(b"{"))

    one, _ = running(script)
    assert isinstance(one, quickon.RunOn) and one.reason is not None
    assert one.reason.startswith("unreadable message: ")
