"""Recorded conversations with the reference server, replayed against it and against ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import differences
from tests.support.rawhttp import CLOSE, GATE, raw_origin
from tests.support.replay import Replay, is_news, load
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


def plant_capabilities(root: Path) -> None:
    skill, plugin = root / ".agents/skills/s1", root / "plug"
    (skill / "agents").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: s1\ndescription: d\n---\nbody\n")
    (skill / "agents/openai.yaml").write_text("interface:\n  display_name: S1\n")
    (plugin / ".codex-plugin").mkdir(parents=True)
    manifest = '{"name":"plug","version":"1.0.0","mcpServers":"./m.json"}'
    (plugin / ".codex-plugin/plugin.json").write_text(manifest)
    (plugin / "m.json").write_text("{}")


HEAD = b"HTTP/1.1 200 OK\r\nserver: <server>\r\ndate: <date>\r\n"
ANSWERS = {
    "/ok": [HEAD + b"x-a: 1\r\nx-a: 2\r\ncontent-length: 5\r\n\r\nhello"],
    "/redirect": [HEAD.replace(b"200", b"302") + b"location: /ok\r\ncontent-length: 0\r\n\r\n"],
    "/stream": [
        HEAD + b"transfer-encoding: chunked\r\n\r\n",
        GATE,
        *[b"5\r\npart%d\r\n" % number for number in range(3)],
        b"0\r\n\r\n",
    ],
    "/truncated": [HEAD + b"content-length: 100\r\n\r\nabc", CLOSE],
}


def replayed(path: Path, kind: str, tmp_path: Path) -> Replay:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "h.txt").write_text("x")
    plant(workspace / "fs")
    (workspace / "w/sub").mkdir(parents=True)
    plant_capabilities(workspace / "cap")
    if path.stem == "20-environment-config":
        (tmp_path / ".codex").mkdir()
        (tmp_path / ".codex/config.toml").write_text('[mcp_servers.a]\nurl = "http://x"\n')
    arguments = ARGUMENTS.get(path.stem, [])
    env = ENVIRONMENT.get(path.stem)
    with raw_origin() as origin, serving(kind, tmp_path, *arguments, env=env, cwd=workspace) as server:
        origin.answers.update(ANSWERS)
        replay = Replay(path, kind, server.url, workspace, origin)
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
            if is_news(message):
                continue  # it is the same
            if "method" in message:
                kind = message["method"].removeprefix("process/")
                recorded.add((path.stem, f"{kind} {message['params']['processId']}"))
            else:
                recorded.add((path.stem, f"answer {line['conn']} {message['id']}"))
    assert {(entry.transcript, entry.where) for entry in differences.TRANSCRIPTS} <= recorded
