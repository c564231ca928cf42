"""Recorded conversations with the reference server, replayed against it and against ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import differences
from tests.support.replay import Replay, load
from tests.support.servers import serving

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "wire/transcripts").glob("*.jsonl"))

ARGUMENTS = {"18-concurrent-2": ["--concurrent-requests", "2"]}
ENVIRONMENT = {
    "17-env-policy": {
        "FOO": "foo",
        "MY_API_KEY": "k",
        "LANG": "C.UTF-8",
        "NODE_REPL_AUTH_TOKEN": "never seen",
    }
}


def plant(root: Path) -> None:
    """The files that the recorded conversations about files start from."""
    root.mkdir()
    (root / "a.txt").write_text("hello")
    (root / "d/.hid/in").mkdir(parents=True)
    (root / "d/sub").mkdir()
    (root / "d/x").write_text("x")
    (root / "ln").symlink_to("a.txt")
    (root / "dl").symlink_to("d")
    (root / "broken").symlink_to("nowhere")
    os.mkfifo(root / "fifo")


def replayed(path: Path, kind: str, tmp_path: Path) -> Replay:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "h.txt").write_text("x")
    plant(workspace / "fs")
    (workspace / "w/sub").mkdir(parents=True)
    arguments = ARGUMENTS.get(path.stem, [])
    with serving(kind, tmp_path, *arguments, env=ENVIRONMENT.get(path.stem), cwd=workspace) as server:
        replay = Replay(path, kind, server.url, workspace)
        replay.run()
    return replay


@pytest.mark.parametrize("kind", ["codex", "outfitter"])
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_recorded_conversation_is_reproduced(kind: str, path: Path, tmp_path: Path) -> None:
    replayed(path, kind, tmp_path)


@pytest.mark.parametrize("kind", ["codex", "outfitter"])
def test_control_requests_overtake_long_polls(kind: str, tmp_path: Path) -> None:
    [path] = [path for path in TRANSCRIPTS if path.stem == "18-concurrent-2"]
    came = [ident for _, ident in replayed(path, kind, tmp_path).order]
    polls, control = ("0", "1"), ("3", "5")
    assert max(map(came.index, control)) < min(map(came.index, polls))


def test_recorded_differences_name_recorded_messages() -> None:
    recorded = set()
    for path in TRANSCRIPTS:
        for line in load(path):
            message = line.get("msg", {})
            if line.get("dir") != "s2c":
                continue
            if message.get("method", "").startswith("fs/"):
                continue  # notices about files are the same
            if "method" in message:
                kind = message["method"].removeprefix("process/")
                recorded.add((path.stem, f"{kind} {message['params']['processId']}"))
            else:
                recorded.add((path.stem, f"answer {line['conn']} {message['id']}"))
    assert {(entry.transcript, entry.where) for entry in differences.TRANSCRIPTS} <= recorded
