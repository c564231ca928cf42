"""The agents' own files, and what in them is in the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.contract.doctor.agentfiles import (
    CHECKS,
    AgentFiles,
    Fault,
    claude_faults,
    claude_settings,
    codex_faults,
    codex_settings,
    finding,
)
from outfitter.contract.doctor.machine import Machine

from .build import seen

Faults = Callable[[dict[str, Any], str, Callable[[str], bool]], Iterator[Fault]]


def hook(command: str) -> dict[str, Any]:
    return {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}}


def told(faults: Faults, values: dict[str, Any], *programs: str) -> list[str]:
    found = list(faults(values, "/f", programs.__contains__))
    assert all(fault.remedy.endswith(".") and "/f" in fault.remedy for fault in found)
    return [fault.text.removeprefix("/f: ") for fault in found]


@pytest.mark.parametrize(("faults", "agent"), [(codex_faults, "codex"), (claude_faults, "claude")])
def test_hook_whose_program_is_gone_is_told_once(faults: Faults, agent: str) -> None:
    values = hook(f"'/opt/my tools/outfitter' hook {agent}")
    values["hooks"]["Other"] = values["hooks"]["SessionStart"]
    assert told(faults, values, "/opt/my tools/outfitter") == []
    assert told(faults, values) == [
        "a hook runs /opt/my tools/outfitter, which is not there or cannot be run"
    ]
    flag = {"codex": "--print-config", "claude": "--print-settings"}[agent]
    [fault] = faults(values, "/f", lambda _: False)
    assert f"`outfitter hook {agent} {flag}` prints it" in fault.remedy
    assert told(faults, hook("/gone/linter --fix")) == []  # somebody else's
    assert told(faults, hook(f"'open hook {agent}")) == []
    for odd in (None, "x", 7, [["x"]], {"command": 1}):
        assert told(faults, {"hooks": odd}) == []
    deep: Any = hook(f"/gone hook {agent}")["hooks"]
    for _ in range(20):
        deep = [deep]
    assert told(faults, {"hooks": deep}) == []


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"sandbox_mode": "danger-full-access"}, "danger-full-access"),
        ({"shell_environment_policy": {"inherit": "none"}}, "no command has a PATH"),
    ],
)
def test_what_is_wrong_with_codex(values: dict[str, Any], part: str) -> None:
    [text] = told(codex_faults, values)
    assert part in text


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"sandbox_mode": "workspace-write"},
        {"shell_environment_policy": {"inherit": "core"}},
        {"shell_environment_policy": {"inherit": "none", "set": {"PATH": "/bin"}}},
        {"shell_environment_policy": 3},
    ],
)
def test_what_is_right_with_codex(values: dict[str, Any]) -> None:
    assert told(codex_faults, values) == []


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"disableAllHooks": True}, "disableAllHooks"),
        ({"env": {"PATH": "/x"}}, "env sets PATH"),
        ({"sandbox": {"enabled": True, "excludedCommands": ["git", "/bin/bash -c"]}}, "excludes shells"),
        ({"sandbox": {"enabled": True, "excludedCommands": ["zsh:*"]}}, "excludes shells"),
    ],
)
def test_what_is_wrong_with_claude(values: dict[str, Any], part: str) -> None:
    [text] = told(claude_faults, values)
    assert part in text


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"disableAllHooks": False, "env": {"A": "1"}},
        {"env": 1, "sandbox": True},
        {"sandbox": {"enabled": True, "excludedCommands": ["docker", 7]}},
        {"sandbox": {"enabled": False, "excludedCommands": ["bash"]}},
    ],
)
def test_what_is_right_with_claude(values: dict[str, Any]) -> None:
    assert told(claude_faults, values) == []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr("outfitter.contract.doctor.agents._MANAGED", str(tmp_path / "managed.json"))
    for name in ("home/.codex", "home/.claude", "project/.claude"):
        (tmp_path / name).mkdir(parents=True)
    environ = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    return Machine(environ, str(tmp_path / "project"), login=False)


def test_files_are_found(machine: Machine, tmp_path: Path) -> None:
    assert (codex_settings(machine), claude_settings(machine)) == (AgentFiles((), ()), AgentFiles((), ()))
    config = tmp_path / "home/.codex/config.toml"
    config.write_text('sandbox_mode = "danger-full-access"\n')
    assert [len(one) for one in (codex_settings(machine).files, codex_settings(machine).faults)] == [1, 1]
    config.write_text("sandbox_mode =")
    assert codex_settings(machine) == AgentFiles((str(config),), ())  # which another check tells
    places = ["home/.claude/settings.json", "project/.claude/settings.local.json", "managed.json"]
    for place in places:
        (tmp_path / place).write_text(json.dumps({"disableAllHooks": True, **hook("sh hook claude")}))
    found = claude_settings(machine)
    assert found.files == tuple(str(tmp_path / place) for place in places)
    assert [fault.text.partition(":")[0] for fault in found.faults] == list(found.files)
    (tmp_path / places[0]).write_text('{\n"hooks": ')
    (tmp_path / places[1]).write_text("[" * 100_000)
    (tmp_path / places[2]).write_text("[]")
    texts = [fault.text for fault in claude_settings(machine).faults]
    assert texts == [
        f"{tmp_path / places[0]}:2: this is not JSON",
        f"{tmp_path / places[1]}: this is not JSON",
    ]


def test_report_has_every_fault_and_the_first_remedy() -> None:
    assert seen(finding("Codex", AgentFiles((), ()))) == ("ok", ())
    assert seen(finding("Codex", AgentFiles(("/f",), ()))) == ("ok", ("/f",))
    faults = (Fault("a", "Do a."), Fault("b", "Do b."))
    told = finding("Codex", AgentFiles(("/f",), faults))
    assert (seen(told), told.summary, told.remedy) == (
        ("warning", ("a", "b")),
        "2 problems in the settings of Codex",
        "Do a.",
    )
    assert finding("Codex", AgentFiles(("/f",), faults[:1])).summary.startswith("1 problem in ")
    assert [check.decide(AgentFiles((), ())).summary for check in CHECKS] == [
        "no settings of Codex",
        "no settings of Claude Code",
    ]
