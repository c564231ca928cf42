"""What the stock Codex client does not do with a remote server, whichever it is: our documentation says so.

A person's keys in the terminal interface become the requests of `codex app-server` that are made here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.appserver import thread
from tests.support.model import Script, exec_command, modelling
from tests.support.servers import serving
from tests.support.tap import Tap, tapping

BRIEF = 250  # milliseconds: the shortest time the client waits for a command


class Stage:
    """A server behind a tap."""

    def __init__(self, tap: Tap, root: Path) -> None:
        self.tap = tap
        self.root = root
        self.cwd = root / "work"
        self.cwd.mkdir()


@pytest.fixture(params=["codex", "outfitter"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    home = tmp_path / "server"
    home.mkdir()
    with serving(request.param, home) as server, tapping(server.port) as tap:
        yield Stage(tap, tmp_path)


def test_a_turn_that_is_interrupted_leaves_a_command_in_the_background_running(stage: Stage) -> None:
    for name in ("gate", "never"):
        os.mkfifo(stage.cwd / name)

    def script() -> Script:
        # The client waits for the first one as briefly as it can, and is interrupted in the second one.
        yield [exec_command("read x <gate; echo over >done", yield_time_ms=BRIEF)]
        yield [exec_command("echo ready; read x <never", yield_time_ms=30_000)]
        return "done"

    with (
        modelling(script) as model,
        thread(stage.root / "client", model=model.url, server=stage.tap.url, cwd=stage.cwd) as (client, id),
    ):
        turn = client.begin(id)
        stage.tap.until(lambda heard: heard.method == "process/output")
        client.ask("turn/interrupt", {"threadId": id, "turnId": turn})
        client.until("turn/completed")
        first = stage.tap.sent("process/start")[0]["processId"]
        (stage.cwd / "gate").write_text("go\n")  # it still reads
        stage.tap.until(
            lambda heard: heard.method == "process/closed" and heard.message["params"]["processId"] == first
        )
    assert (stage.cwd / "done").read_text() == "over\n"


def test_a_command_of_the_person_is_not_available(stage: Stage) -> None:
    def script() -> Script:
        yield [exec_command("true")]
        return "done"

    with (
        modelling(script) as model,
        thread(stage.root / "client", model=model.url, server=stage.tap.url, cwd=stage.cwd) as (client, id),
    ):
        answer = client.answer("thread/shellCommand", {"threadId": id, "command": "touch made"})
        assert "error" in answer, answer
    assert stage.tap.sent("process/start") == []
    assert not (stage.cwd / "made").exists()
