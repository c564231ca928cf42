"""Agents, unchanged, launched by `outfitter agent run`: what a contract says is what the agent has.

The models are scripted and on loopback; everything else is real: the agents, our server, their sessions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.agents.autoskillit import HEADLESS_EXCLUSIVE, SKILL_REQUIRED
from tests.support import claude, model
from tests.support.codex import CONFIG, ENVIRONMENTS, MODEL
from tests.support.model import Script, exec_command
from tests.support.servers import serving
from tests.support.tools import claude_binary, codex_binary

OUTFITTER = [sys.executable, "-m", "outfitter"]
CONTRACT = Path(__file__).resolve().parents[2] / "examples" / "autoskillit.toml"
# It writes down what it was started with, and is the agent.
WITNESS = """#!/bin/sh
env -0 > {records}/$$.env
for word; do printf '%s\\0' "$word"; done > {records}/$$.argv
exec {real} "$@"
"""


class Machine:
    """A home with agents in PATH that leave a record of each launch."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.records = root / "records"
        self.bin = root / "bin"
        for folder in (self.home / "tmp", self.project / ".git", self.records, self.bin):
            folder.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        self.env = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "LANG": "C.UTF-8",
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
        }

    def install(self, name: str, real: Path) -> None:
        path = self.bin / name
        path.write_text(WITNESS.format(records=self.records, real=real))
        path.chmod(0o755)

    def run(self, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*OUTFITTER, "agent", "run", *args],
            cwd=self.project,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )

    def launched(self) -> list[tuple[list[str], dict[str, str]]]:
        """Arguments and environment of each launch, oldest first."""
        found = []
        for path in sorted(self.records.glob("*.argv"), key=lambda one: one.stat().st_mtime_ns):
            env = path.with_suffix(".env").read_text().split("\0")[:-1]
            argv = path.read_text().split("\0")[:-1]
            found.append((argv, dict(one.split("=", 1) for one in env)))
        return found


def codex_home(folder: Path, url: str, server: str | None = None) -> Path:
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG.format(model=MODEL, url=url))
    if server is not None:
        (folder / "environments.toml").write_text(ENVIRONMENTS.format(url=server))
    return folder


def test_codex_is_launched_and_resumed_under_its_contract(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.install("codex", codex_binary())
    written = machine.project / "written"

    def script() -> Script:
        yield [exec_command(f"echo by-the-executor > {written}")]
        return "done"

    def again() -> Script:
        yield [exec_command(f"echo again >> {written}")]
        return "done again"

    leaks = {"CLAUDE_CODE_LEAK": "1", "AUTOSKILLIT_HEADLESS": "parent", "MAX_MCP_OUTPUT_TOKENS": "9"}
    common = ("--contract", str(CONTRACT), "--env", "SCRIPTED_MODEL_KEY=none")
    with serving("outfitter", machine.home) as server, model.modelling(script) as first:
        home = codex_home(tmp_path / "codex", first.url, server.url)
        words = (*common, "--home", str(home), "--sandbox", "danger-full-access", "--kind", "skill")
        done = machine.run("codex", *words, "--", "follow", "the script", env=leaks)
        assert done.returncode == 0, done.stderr
        assert written.read_text() == "by-the-executor\n"
        assert first.outputs[0].exit_code == 0
        with model.modelling(again) as second:
            (home / "config.toml").write_text(CONFIG.format(model=MODEL, url=second.url))
            resumed = machine.run("codex", *common, "--home", str(home), "--kind", "resume", "--", "go on")
            assert resumed.returncode == 0, resumed.stderr
            assert written.read_text() == "by-the-executor\nagain\n"
    session = next(
        event["thread_id"]
        for event in map(json.loads, done.stdout.splitlines())
        if event["type"] == "thread.started"
    )
    (first_argv, first_env), (again_argv, again_env) = machine.launched()
    assert first_argv == ["exec", "--json", "--sandbox", "danger-full-access", "--", "follow the script"]
    # The session's sandbox is kept, although nobody has said it again.
    assert again_argv == [
        *("exec", "--json", "--sandbox", "danger-full-access", "resume", "--", session, "go on"),
    ]
    assert {name: first_env[name] for name in SKILL_REQUIRED} == {
        "AUTOSKILLIT_HEADLESS": "1",
        "AUTOSKILLIT_SESSION_TYPE": "skill",
        "MAX_MCP_OUTPUT_TOKENS": "50000",
        "MCP_CONNECTION_NONBLOCKING": "1",
        "AUTOSKILLIT_AGENT_BACKEND": "codex",
    }
    assert "CLAUDE_CODE_LEAK" not in first_env
    assert [name for name in HEADLESS_EXCLUSIVE if name in again_env] == ["MAX_MCP_OUTPUT_TOKENS"]
    other = machine.run(
        "codex", *common, "--kind", "resume", "--sandbox", "read-only", "--dry-run", "--", "x"
    )
    assert other.returncode == 125
    assert (
        "the launch that goes on had sandbox=danger-full-access; this one has sandbox=read-only"
        in other.stderr
    )


@pytest.mark.parametrize("which", ["claude", "claude-next"])
def test_claude_is_launched_and_resumed_under_its_contract(which: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.install("claude", claude_binary(which))
    home = tmp_path / "claude"
    quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1")
    sets = [word for one in quiet for word in ("--env", one)]
    common = ["--contract", str(CONTRACT), "--home", str(home), *sets, "--env", "ANTHROPIC_API_KEY=none"]
    common += ["--arg=--allowedTools", "--arg=Bash"]
    written = machine.project / "written"
    leaks = {"OPENAI_API_KEY": "leak", "CODEX_LEAK": "1", "AUTOSKILLIT_HEADLESS": "parent"}
    with claude.modelling([claude.bash(f"printenv AUTOSKILLIT_SESSION_TYPE > {written}")]) as first:
        words = [*common, "--env", f"ANTHROPIC_BASE_URL={first.url}", "--kind", "skill"]
        done = machine.run("claude", *words, "--", "follow the script", env=leaks)
        assert done.returncode == 0, done.stderr + done.stdout
    assert written.read_text() == "skill\n"
    with claude.modelling([]) as second:
        words = [*common, "--env", f"ANTHROPIC_BASE_URL={second.url}", "--kind", "resume"]
        resumed = machine.run("claude", *words, "--", "go on")
        assert resumed.returncode == 0, resumed.stderr + resumed.stdout
        assert "follow the script" in second.told  # it is the same conversation
    (first_argv, first_env), (again_argv, again_env) = machine.launched()
    session = again_argv[again_argv.index("--resume") + 1]
    assert f'"session_id":"{session}"' in done.stdout
    assert first_argv[:2] == again_argv[:2] == ["--permission-mode", "acceptEdits"]
    assert first_env["AUTOSKILLIT_AGENT_BACKEND"] == "claude"
    assert not {"OPENAI_API_KEY", "CODEX_LEAK"} & set(first_env)
    assert [name for name in HEADLESS_EXCLUSIVE if name in again_env] == ["MAX_MCP_OUTPUT_TOKENS"]


def test_worker_of_an_orchestrator_has_no_headless_variable_of_its_parent(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.install("codex", codex_binary())

    def worker() -> Script:
        yield from ()
        return "worked"

    with model.modelling(worker) as inner:
        inner_home = codex_home(tmp_path / "inner", inner.url)
        words = [*OUTFITTER, "agent", "run", "codex", "--contract", str(CONTRACT), "--kind", "food_truck"]
        words += [
            "--home",
            str(inner_home),
            "--sandbox",
            "danger-full-access",
            "--env",
            "SCRIPTED_MODEL_KEY=none",
        ]
        words += ["--", "work"]

        def orchestrator() -> Script:
            outputs = yield [exec_command(" ".join(words), yield_time_ms=30_000, login=False)]
            return outputs[0].text

        with model.modelling(orchestrator) as outer:
            home = codex_home(tmp_path / "outer", outer.url)
            args = (
                "--home",
                str(home),
                "--sandbox",
                "danger-full-access",
                "--env",
                "SCRIPTED_MODEL_KEY=none",
            )
            marked = ("--env", "AUTOSKILLIT_PRIVATE_MARK=parent", "--kind", "orchestrator")
            done = machine.run("codex", "--contract", str(CONTRACT), *args, *marked, "--", "dispatch")
            assert done.returncode == 0, done.stderr
            assert inner.finished, outer.outputs
    (_, parent), (_, child) = machine.launched()
    assert parent["AUTOSKILLIT_SESSION_TYPE"] == "orchestrator"
    assert parent["AUTOSKILLIT_PRIVATE_MARK"] == "parent"
    assert child["AUTOSKILLIT_SESSION_TYPE"] == "food_truck"
    assert "AUTOSKILLIT_PRIVATE_MARK" not in child
