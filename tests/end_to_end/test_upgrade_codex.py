"""The stock Codex client, unchanged, works through upgrades of the server: its commands go on."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.test_stock_codex import BRIEF, Gate, Stage
from tests.support.model import Output, Script, exec_command, write_stdin
from tests.support.servers import Server, serving
from tests.support.tap import tapping
from tests.support.wire import Wire


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    home = tmp_path / "server"
    home.mkdir()
    with serving("outfitter", home) as server, tapping(server.port) as tap:
        stage = Stage(server, tap, tmp_path)
        with stage.cleanup:
            yield stage


def upgrade(server: Server) -> None:
    """Upgrades the server and waits until the new version answers."""
    with Wire(server.url) as wire:
        wire.handshake()
        count = wire.call("server/upgrades", {})["count"]
        os.kill(server.pid, signal.SIGUSR2)
        closed = wire.ended()
        assert closed.rcvd is not None
        assert closed.rcvd.code == 1012
    with Wire(server.url) as wire:
        wire.handshake()
        assert wire.call("server/upgrades", {"after": count})["outcome"] == "upgraded"


def test_long_command_prints_each_line_once_through_five_upgrades(stage: Stage) -> None:
    gate: Gate = stage.gate()
    command = "n=0; while [ $n -lt 5 ]; do read line < gate; n=$((n + 1)); echo line $n; done; exit 5"

    def script() -> Script:
        [out] = yield [exec_command(command, yield_time_ms=BRIEF)]
        for _ in range(5):
            upgrade(stage.server)
            gate.open()
        while out.session is not None:
            [out] = yield [write_stdin(out.session)]
        return "done"

    stage.play(script)
    assert "".join(out.text for out in stage.outputs) == "".join(f"line {n}\n" for n in range(1, 6))
    assert stage.outputs[-1].exit_code == 5
    sessions = {params["resumeSessionId"] for params in stage.tap.sent("initialize")}
    assert len(sessions) == 2  # none at first, then always the same one


def test_flood_arrives_whole(stage: Stage) -> None:
    """More than the server retains, printed around an upgrade: what cannot be sent waits in the pipe."""
    gate: Gate = stage.gate()

    def script() -> Script:
        [out] = yield [exec_command("read line < gate; seq 400000; exit 6", yield_time_ms=BRIEF)]
        gate.open()
        upgrade(stage.server)
        while out.session is not None:
            [out] = yield [write_stdin(out.session)]
        return "done"

    stage.play(script)
    assert stage.outputs[-1].exit_code == 6
    [process] = stage.processes()
    chunks = {
        params["seq"]: params["chunk"]
        for method, params in stage.tap.notices(process)
        if method == "process/output"
    }
    for answer in stage.tap.answers("process/read"):
        chunks |= {chunk["seq"]: chunk["chunk"] for chunk in answer["result"]["chunks"]}
    text = b"".join(base64.b64decode(chunks[seq]) for seq in sorted(chunks))
    assert text == b"".join(b"%d\n" % number for number in range(1, 400_001))


def test_terminal_takes_what_is_typed_after_an_upgrade(stage: Stage) -> None:
    def script() -> Script:
        command = "test -t 0 && echo ready; read one; echo got $one; read two; echo got $two"
        [out] = yield [exec_command(command, tty=True, yield_time_ms=BRIEF)]
        stage.printed(b"ready")
        for word in ("first", "second"):
            upgrade(stage.server)
            assert out.session is not None
            [out] = yield [write_stdin(out.session, f"{word}\n")]
        outs: Output = out
        while outs.session is not None:
            [outs] = yield [write_stdin(outs.session)]
        return "done"

    stage.play(script)
    whole = "ready\r\nfirst\r\ngot first\r\nsecond\r\ngot second\r\n"
    assert "".join(out.text for out in stage.outputs) == whole
    assert stage.outputs[-1].exit_code == 0


def test_commands_before_between_and_after_upgrades_run_once(stage: Stage) -> None:
    def script() -> Script:
        for number in range(4):
            yield [exec_command(f"echo {number} | tee -a done")]
            upgrade(stage.server)
        return "done"

    stage.play(script)
    assert [(out.exit_code, out.text) for out in stage.outputs] == [(0, f"{n}\n") for n in range(4)]
    assert (stage.cwd / "done").read_text() == "0\n1\n2\n3\n"
