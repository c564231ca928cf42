"""--json: every command has it, and prints JSON on stdout. Those that run on are in test_announce.py."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from outfitter.cli.flags import JSON
from outfitter.cli.options import option
from tests.support.servers import Server

from .commandline import User
from .test_help import PAGES, pages


def told(user: User, *args: str, status: int = 0) -> Any:
    done = user.run(*args, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def without(pages: dict[str, click.Command]) -> list[str]:
    """The commands that do something and have no --json. Nobody is exempt."""
    found = []
    for typed, command in pages.items():
        options = {option for param in command.params for option in param.opts}
        does = not isinstance(command, click.Group) or command.invoke_without_command
        if does and "--json" not in options:
            found.append(typed)
    return found


def test_every_command_has_it() -> None:
    assert without(PAGES) == []
    # Groups were looked into, and those that answer by themselves.
    assert {"outfitter serve", "outfitter env", "outfitter env lock", "outfitter pool run"} <= set(PAGES)
    assert len(PAGES) > 50


def test_a_new_command_without_it_is_found() -> None:
    plain, answering = click.Command("plain"), click.Group("answering", invoke_without_command=True)
    inner = click.Group("inner", commands=[plain, click.Command("json", params=[option(JSON)])])
    made = click.Group("made", commands=[inner, answering])
    assert without(dict(pages(made, "made"))) == ["made inner plain", "made answering"]


def test_kill_says_whether_it_still_ran(server: Server, user: User) -> None:
    started = user.run("run", "--on", server.url, "--detach", "--", "sleep", "60").stdout.decode().strip()
    assert told(user, "kill", started) == {"running": True}


def test_a_detached_command_s_id_is_an_event(server: Server, user: User) -> None:
    done = user.run("run", "--on", server.url, "--detach", "--json", "--", "sleep", "60")
    event = json.loads(done.stdout)
    [listed] = told(user, "ps")
    assert event == {"event": "detached", "id": listed["id"]}
    assert told(user, "kill", event["id"]) == {"running": True}


def test_copy_says_what_was_copied(user: User) -> None:
    (user.home / "tree").mkdir()
    (user.home / "tree" / "a").write_bytes(b"12345")
    (user.home / "tree" / "pipe").symlink_to("nowhere")
    copied = told(user, "cp", "-r", "tree", "other", status=1)
    assert (copied["files"], copied["bytes"], copied["resumedBytes"]) == (1, 5, 0)
    assert len(copied["skipped"]) == 1 and "a broken symbolic link" in copied["skipped"][0]


def test_variables_say_what_was_done_with_each(user: User) -> None:
    kept = told(user, "env", "set", "A=1", "API_KEY=k", status=1)
    assert (kept["where"], kept["set"]) == (str(user.home), ["A"])
    assert [(one["name"], set(one)) for one in kept["rejected"]] == [("API_KEY", {"name", "reason", "why"})]
    assert told(user, "env", "unset", "B") == {"where": str(user.home), "unset": ["B"], "rejected": []}
    forgotten = {"where": str(user.home), "forgotten": ["A"], "unknown": ["C"]}
    assert told(user, "env", "unset", "--forget", "A", "C", status=1) == forgotten


@pytest.mark.parametrize(
    "args", [("set", "API_KEY=k"), ("unset", "A=B"), ("unset", "--forget", "C")], ids=str
)
def test_what_was_refused_is_on_stderr_too(user: User, args: tuple[str, ...]) -> None:
    plain = user.run("env", *args)
    also = user.run("env", *args, "--json")
    assert (also.returncode, also.stderr) == (1, plain.stderr)
    assert plain.stderr != b""


def test_revoked_grants_are_told(user: User) -> None:
    (user.home / "outfitter.toml").write_text('[env]\nset = { A = "1" }\n')
    told(user, "trust", "--yes")
    grants = told(user, "trust", "--list")["grants"]
    assert [one["provider"] for one in grants] == ["project"]
    assert told(user, "trust", "--revoke") == {"revoked": grants}
    assert told(user, "trust", "--revoke") == {"revoked": []}


def test_an_overlay_says_what_there_is_after_a_change(user: User) -> None:
    file = user.home / "hook.env"
    file.write_text("A=1\nB=$(id)\n")

    def producers(*args: str, status: int = 0) -> list[str]:
        listed = told(user, "env", "overlay", *args, status=status)
        return [one["producer"] for one in listed["contributions"]]

    assert producers("--import", str(file), "--strict", status=1) == []
    assert producers("--import", str(file), status=1) == [f"file:{file}"]
    assert producers("--drop", "user", status=1) == [f"file:{file}"]
    assert producers("--drop", f"file:{file}") == []


def test_codex_settings_are_told_by_their_names(user: User) -> None:
    file = user.home / "config.toml"
    file.write_text('[shell_environment_policy]\ninherit = "core"\nset = { A = "1" }\n')
    policy = {"inherit": "core", "set": {"A": "1"}}
    expected = {"file": str(file), "shell_environment_policy": policy}
    assert told(user, "config", "import-codex", str(file)) == expected
    file.write_text("allow_login_shell = false\n")
    assert told(user, "config", "import-codex", str(file)) == {"file": str(file), "allow_login_shell": False}


def test_what_is_json_already_takes_the_flag_too(user: User) -> None:
    assert told(user, "config", "schema")["$schema"]
    assert told(user, "env", "export", "--env", "A=1", "--only", "A") == {"A": "1"}
    for args in (("env", "export"), ("env", "export", "--json", "--format", "shell")):
        done = user.run(*args)
        assert (done.returncode, b"name one format" in done.stderr) == (2, True)


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_hook_answers_the_same_with_it(user: User, agent: str) -> None:
    said = json.dumps({"hook_event_name": "SessionStart", "cwd": str(user.home), "session_id": "x"}).encode()
    env = {"CLAUDE_ENV_FILE": str(user.home / "variables")}
    plain, flagged = (user.run("hook", agent, *more, input=said, env=env) for more in ((), ("--json",)))
    assert (flagged.returncode, flagged.stdout) == (0, plain.stdout)
    assert json.loads(flagged.stdout)["hookSpecificOutput"]["hookEventName"] == "SessionStart"


def test_what_a_hook_prints_for_files_is_json_with_it(user: User) -> None:
    assert "hooks" in told(user, "hook", "claude", "--print-settings")
    for flag, file in (("--print-config", "config.toml"), ("--print-environments", "environments.toml")):
        text = user.run("hook", "codex", flag).stdout.decode()
        assert told(user, "hook", "codex", flag) == {"file": file, "text": text}


def test_first_contract_is_an_object(user: User) -> None:
    found = told(user, "contract", "init", "--kind", "turn", "--name", "x")
    assert (found["name"], list(found["kinds"])) == ("x", ["turn"])
    assert set(found["kinds"]["turn"]) == {"requires", "forbids", "set"}


def test_key_and_revocation(user: User) -> None:
    pytest.importorskip("cryptography")
    key = told(user, "rendezvous", "key")
    assert key == {"key": user.run("rendezvous", "key").stdout.decode().strip()}
    assert user.run("rendezvous", "revoke", "nobody", "--json").returncode == 1


def test_help_is_told_to_programs(user: User) -> None:
    top = told(user, "help")
    assert top["command"] == "outfitter"
    assert {"run", "env", "help"} <= set(top["commands"])
    lock = told(user, "help", "env", "lock")
    assert (lock["command"], lock["commands"]) == ("outfitter env lock", [])
    assert lock["usage"].startswith("outfitter env lock ")
    assert lock["help"] and "\b" not in lock["help"]
    options = {name: one for one in lock["options"] for name in one["names"]}
    assert (options["--json"]["value"], options["--json"]["help"]) == (None, "Print a JSON object.")
    assert options["--cwd"]["value"] == "DIR"
    assert user.run("help", "nosuch", "--json").returncode == 2


def test_completion_is_the_same_script(user: User) -> None:
    script = user.run("completion", "bash").stdout.decode()
    assert told(user, "completion", "bash") == {"shell": "bash", "script": script}
