"""--json: every command that answers something has it, and prints one JSON value on stdout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.servers import Server

from .commandline import User
from .test_help import PAGES

# They run until they are stopped, or speak with an agent.
WITHOUT = {"serve", "forward", "up", "rendezvous serve", "hook claude", "hook codex"}


def told(user: User, *args: str, status: int = 0) -> Any:
    done = user.run(*args, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_every_command_that_answers_has_it() -> None:
    missing = set()
    for typed, command in PAGES.items():
        options = {option for param in command.params for option in param.opts}
        answers = not getattr(command, "commands", None)
        if answers and "--json" not in options:
            missing.add(typed.removeprefix("outfitter "))
    assert missing == WITHOUT


def test_kill_says_whether_it_still_ran(server: Server, user: User) -> None:
    started = user.run("run", "--on", server.url, "--detach", "--", "sleep", "60").stdout.decode().strip()
    assert told(user, "kill", started) == {"running": True}


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
