"""outfitter env: what a command would get, names by layer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.servers import Server

from .commandline import Terminal, User
from .project import SECRETS, make, words


@pytest.fixture
def project(user: User) -> Path:
    return make(user)


def test_names_are_told_by_layer_and_no_value(user: User, project: Path) -> None:
    done = user.run("env", "--cwd", "project", "--env", "GIVEN=hush", env=SECRETS)
    assert (done.returncode, done.stderr) == (0, b"")
    assert words(done.stdout) == [
        "env: base=launcher, policy=project:shell_environment_policy, provider=project(applied, 3), "
        "setup=none, request=request(applied, 1), 1 refused",
        f"11 variables for a command in {project}; values are not shown",
        "L0 base (launcher): 7",
        "API_TOKEN CODEX_HOME HOME LANG PLAIN XDG_CONFIG_HOME XDG_STATE_HOME",
        "L3 project: 2",
        "CI PATH",
        "L7 request: 1",
        "GIVEN",
        "L8 runtime: 1",
        "SHLVL",
        "1 variable removed",
        f"L2 project:shell_environment_policy.exclude AWS_* ({project}/outfitter.toml:6)",
        "AWS_PROFILE",
        "1 entry refused",
        "LD_PRELOAD of L3 project: this variable can make later commands run other code; see "
        "allow_code_loading (code-loading)",
    ]


def test_values_are_shown_when_asked_for_but_secrets_are_not(user: User) -> None:
    done = user.run("env", "--values", env=SECRETS)
    lines = words(done.stdout)
    assert "PLAIN=hush-plain" in lines
    assert "API_TOKEN=[secret]" in lines
    assert b"hush-token" not in done.stdout


def test_secrets_need_both_words(user: User, screen: Terminal) -> None:
    popen = screen.start(user, "env", "--show-secrets", env=SECRETS)
    status, shown = screen.rest(popen)
    assert status == 2
    assert b"hush" not in shown
    assert b"add --values to confirm" in shown
    done = user.run("env", "--values", "--show-secrets", env=SECRETS)
    assert "API_TOKEN=hush-token" in words(done.stdout)


@pytest.mark.parametrize(
    ("args", "plain", "secret"),
    [
        ((), {"secret": False}, {"secret": True}),
        (("--values",), {"secret": False, "value": "hush-plain"}, {"secret": True}),
        (
            ("--values", "--show-secrets"),
            {"secret": False, "value": "hush-plain"},
            {"secret": True, "value": "hush-token"},
        ),
    ],
    ids=["names", "values", "secrets"],
)
def test_object_has_as_much_as_was_asked_for(
    args: tuple[str, ...], plain: dict[str, object], secret: dict[str, object], user: User
) -> None:
    done = user.run("env", "--json", *args, env=SECRETS)
    told = json.loads(done.stdout)
    assert set(told) == {"base", "env_fp", "contract_fp", "summary", "layers", "variables"}
    assert (told["variables"]["PLAIN"], told["variables"]["API_TOKEN"]) == (plain, secret)


def test_fingerprint_is_that_of_the_environment(user: User) -> None:
    def fingerprint(env: dict[str, str]) -> str:
        return str(json.loads(user.run("env", "--json", env=env).stdout)["env_fp"])

    assert fingerprint(SECRETS) == fingerprint(SECRETS)
    assert fingerprint(SECRETS) != fingerprint({**SECRETS, "PLAIN": "other"})


def test_executor_elsewhere_is_asked(user: User, server: Server) -> None:
    done = user.run("env", "--on", server.url)
    assert words(done.stdout)[0] == "env: base=daemon, policy=none, provider=none, setup=none"
    assert b"PLACE" in done.stdout
    told = json.loads(user.run("env", "--on", server.url, "--values", "--json").stdout)
    assert told["variables"]["PLACE"] == {"secret": False, "value": "there"}


def test_server_that_cannot_tell_is_named_as_such(user: User) -> None:
    user.declare('[[environments]]\nid = "off"\nurl = "ws://127.0.0.1:1"\n')
    done = user.run("env", "--on", "off")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Connection refused" in done.stderr
    done = user.run("env", "--on", "nonesuch")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no environment is named 'nonesuch'; known: local, off" in done.stderr


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)], ids=str)
def test_colour_is_for_terminals_that_want_it(
    env: dict[str, str], coloured: bool, user: User, screen: Terminal
) -> None:
    status, shown = screen.rest(screen.start(user, "env", env=env))
    assert status == 0
    assert (b"\x1b[" in shown) is coloured


def test_directory_that_is_missing_on_the_server_has_no_environment(user: User, server: Server) -> None:
    (user.home / "file").write_text("")
    for name in ("missing", "file"):
        for command in (("env",), ("env", "explain"), ("env", "export", "--json")):
            done = user.run(*command, "--on", server.url, "--cwd", name)
            assert (done.returncode, done.stdout) == (1, b"")
            assert f"{user.home}/{name} is not a directory on {server.url}" in done.stderr.decode()
    assert user.run("env", "diff", "here", server.url, "--cwd", "missing").returncode == 2
