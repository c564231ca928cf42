"""Commands that belong to a kind of launch: its overlays apply, and a contract that is enforced is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commandline import User
from tests.support.servers import serving

CONFIG = """
[overlays.quiet]
kinds = ["skill"]
set = { QUIET = "1" }

[agents]
name = "mine"
enforce = ["skill"]
[agents.kinds.skill]
requires = ["RUN_ID", "QUIET"]
forbids = ["BAD_*"]
"""


@pytest.fixture
def user(user: User) -> User:
    user.config.mkdir(parents=True)
    (user.config / "config.toml").write_text(CONFIG)
    return user


def test_command_of_a_kind_has_its_overlay_and_must_keep_its_contract(user: User) -> None:
    refused = user.run("run", "--kind", "skill", "--env", "BAD_X=1", "--", "printenv", "QUIET")
    assert (refused.returncode, refused.stdout) == (125, b"")
    told = (
        "a command (contract `mine`) cannot be launched as `skill`: RUN_ID: required, and no layer sets it; "
        "BAD_X: BAD_* is forbidden: given by the request"
    )
    assert told in refused.stderr.decode()
    kept = user.run("run", "--kind", "skill", "--env", "RUN_ID=1", "--", "printenv", "QUIET")
    assert (kept.returncode, kept.stdout) == (0, b"1\n")


def test_command_of_no_kind_is_left_alone(user: User) -> None:
    assert user.run("run", "--", "sh", "-c", "echo ${QUIET-none}").stdout == b"none\n"
    other = user.run("run", "--kind", "headless", "--", "sh", "-c", "echo ${QUIET-none}")
    assert (other.returncode, other.stdout) == (0, b"none\n")


def test_kind_is_the_agents_own_where_nobody_names_one(user: User) -> None:
    launched = {"OUTFITTER_LAUNCH_KIND": "skill"}
    assert user.run("run", "--", "true", env=launched).returncode == 125
    assert user.run("run", "--env", "RUN_ID=1", "--", "printenv", "QUIET", env=launched).stdout == b"1\n"
    assert user.run("run", "--kind", "headless", "--", "true", env=launched).returncode == 0


def test_explain_says_what_the_kind_asks_for_and_fails_nobody(user: User) -> None:
    done = user.run("env", "explain", "--kind", "skill", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["launch"] == {
        "kind": "skill",
        "enforcedBy": ["mine"],
        "overlays": ["quiet"],
        "violations": ["RUN_ID: required, and no layer sets it"],
    }
    shown = user.run("env", "--kind", "skill").stdout.decode()
    assert (
        "  launch kind skill, enforced by contract mine\n    RUN_ID: required, and no layer sets it\n"
        in shown
    )
    assert "launch" not in json.loads(user.run("env", "explain", "--json").stdout)


def test_server_refuses_what_breaks_its_contract(user: User, tmp_path: Path) -> None:
    with serving("outfitter", user.home, env=user.env()) as server:
        refused = user.run("run", "--on", server.url, "--kind", "skill", "--", "true")
        assert refused.returncode == 125
        assert b"RUN_ID: required, and no layer sets it" in refused.stderr
        words = ("--kind", "skill", "--env", "RUN_ID=1", "--", "printenv", "QUIET")
        kept = user.run("run", "--on", server.url, *words)
        assert kept.stdout == b"1\n"


def test_server_explains_for_the_agents_own_kind(user: User) -> None:
    launched = {"OUTFITTER_LAUNCH_KIND": "skill"}
    with serving("outfitter", user.home, env=user.env()) as server:
        done = user.run("env", "explain", "--on", server.url, "--json", env=launched)
        shown = user.run("env", "--on", server.url, env=launched)
    assert json.loads(done.stdout)["launch"]["kind"] == "skill"
    assert b"QUIET" in shown.stdout


def test_diff_compares_environments_of_the_kind(user: User) -> None:
    config, run = user.home / "elsewhere", {"RUN_ID": "1"}
    launched = {**run, "OUTFITTER_LAUNCH_KIND": "skill"}
    env = user.env({**run, "XDG_CONFIG_HOME": str(config)})
    with serving("outfitter", user.home, env=env) as server:

        def differs(env: dict[str, str], *words: str) -> bool:
            done = user.run("env", "diff", "--json", server.url, "here", *words, env=env)
            return "QUIET" in {one["name"] for one in json.loads(done.stdout)["differences"]}

        assert not differs(run)
        assert differs(run, "--kind", "skill")
        assert differs(launched)
        assert not differs(launched, "--kind", "headless")
        (config / "outfitter").mkdir(parents=True)
        (config / "outfitter" / "config.toml").write_text(CONFIG)
        assert not differs(launched)


def test_kind_of_the_agent_does_not_keep_a_stock_server_from_running_commands(user: User) -> None:
    with serving("codex", user.home) as server:
        launched = {"OUTFITTER_LAUNCH_KIND": "skill"}
        done = user.run("run", "--on", server.url, "--", "echo", "hello", env=launched)
        assert (done.returncode, done.stdout) == (0, b"hello\n")
