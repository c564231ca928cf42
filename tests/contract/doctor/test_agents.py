"""Sessions of agents that keep what a hook wrote, and the hook is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.agents.hooks import BEGIN
from outfitter.contract.doctor.agents import MARK, ClaudeHooks, claude, claude_hooks
from outfitter.contract.doctor.machine import Machine
from tests.support.machine import terminal

from .build import seen


def test_the_mark_is_that_of_the_hooks() -> None:
    assert MARK.decode() == BEGIN


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (ClaudeHooks("/f", (), False), "ok"),
        (ClaudeHooks("/f", ("a",), True), "ok"),
        (ClaudeHooks("/f", ("a",), False), "warning"),
        (ClaudeHooks("/f", ("a", "b"), False), "warning"),
    ],
)
def test_old_variables_are_told_where_no_hook_is_set(found: ClaudeHooks, status: str) -> None:
    assert seen(claude_hooks(found))[0] == status


@pytest.mark.parametrize("named", [False, True])
def test_sessions_and_settings_are_found(tmp_path: Path, named: bool) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    config = tmp_path / "config" if named else home / ".claude"
    (project / ".claude").mkdir(parents=True)
    environ = {"HOME": str(home), **({"CLAUDE_CONFIG_DIR": str(config)} if named else {})}
    home.mkdir()

    def now() -> ClaudeHooks:
        return claude(Machine(environ, str(project), login=False))

    folder = config / "session-env"
    assert now() == ClaudeHooks(str(folder), (), False)
    for session, text in (("ours", f"{BEGIN}\nexport A=1\n"), ("theirs", "export B=1\n")):
        (folder / session).mkdir(parents=True)
        (folder / session / "sessionstart-hook-0.sh").write_text(text)
    assert now() == ClaudeHooks(str(folder), ("ours",), False)
    for place in (config, project / ".claude"):
        settings = place / "settings.local.json"
        settings.write_text('{"hooks": {"command": "outfitter hook claude"}}')
        assert now().configured
        settings.unlink()
    assert not now().configured


def test_a_device_in_the_place_of_settings_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    with terminal() as name:
        (tmp_path / ".claude" / "settings.json").symlink_to(name)
        assert not claude(Machine({"HOME": str(tmp_path)}, str(tmp_path), login=False)).configured
