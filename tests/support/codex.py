"""The stock Codex client, run once against an exec-server and a scripted model, offline."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .tools import codex_binary

SECONDS = 60.0  # a run that takes longer has hung
MODEL = "gpt-5.5"  # a name the client knows, or it offers other tools

CONFIG = """\
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}"
wire_api = "responses"
env_key = "SCRIPTED_MODEL_KEY"
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0

# Each of these would go to the network at start, or send what the model cannot read.
[features]
enable_request_compression = false
plugins = false
remote_plugin = false
apps = false

[analytics]
enabled = false
"""

ENVIRONMENTS = """\
default = "remote"
include_local = false

[[environments]]
id = "remote"
url = "{url}"
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run: the JSON events of stdout, and how it ended."""

    exit_code: int
    events: list[dict[str, Any]]
    stderr: str

    @property
    def message(self) -> str | None:
        """The final message of the agent."""
        texts = [item["text"] for item in self.items("agent_message")]
        return texts[-1] if texts else None

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The completed items of one kind, such as command_execution."""
        completed = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in completed if item["type"] == kind]


def run_codex(
    home: Path,
    *,
    model: str,
    server: str | None = None,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    config: str = "",
    tables: str = "",
    environments: str | None = None,
    args: Sequence[str] = (),
    sandbox: str | None = "danger-full-access",
    seconds: float = SECONDS,
) -> Run:
    """Runs `codex exec` with a scratch home, the model and the exec-server at these URLs.

    `config` is more of its config.toml: lines in front of all tables; `tables` come behind them.
    `sandbox` is its own mode; None leaves that to the configuration.
    `environments` is its environments.toml instead of one with `server`; without both, it has none.
    """
    codex_home = home / ".codex"
    codex_home.mkdir(parents=True, exist_ok=True)
    (codex_home / "config.toml").write_text(config + CONFIG.format(model=MODEL, url=model) + tables)
    if server is not None:
        environments = ENVIRONMENTS.format(url=server)
    if environments is not None:
        (codex_home / "environments.toml").write_text(environments)
    popen = subprocess.Popen(
        [
            str(codex_binary()),
            *("exec", "--json", "--skip-git-repo-check", "-C", str(cwd)),
            *(() if sandbox is None else ("-s", sandbox)),
            *args,
            "follow the script",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CODEX_HOME": str(codex_home),
            "LANG": "C.UTF-8",
            "SCRIPTED_MODEL_KEY": "none",
            **(env or {}),
        },
        cwd=home,
    )
    try:
        stdout, stderr = popen.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as expired:
        popen.kill()
        stdout, stderr = popen.communicate()
        raise AssertionError(
            f"codex did not end in {seconds} s\n{stdout.decode()[-4000:]}\n{stderr.decode()[-4000:]}"
        ) from expired
    events = [json.loads(line) for line in stdout.decode().splitlines()]
    return Run(popen.returncode, events, stderr.decode())
