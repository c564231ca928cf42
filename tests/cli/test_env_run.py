"""What `outfitter run` says about a command's environment: its flags, whose environment it is, --explain."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.servers import Server, serving
from tests.support.tap import tapping
from tests.support.tools import program

from .commandline import User
from .project import make, words


def test_variables_are_set_and_taken_away_on_top_of_everything(user: User) -> None:
    make(user)
    args = ("run", "--cwd", "project", "--env", "CI=mine", "--env", "LD_X=1", "--unset", "PLAIN")
    done = user.run(*args, "--", "/usr/bin/env", env={"PLAIN": "hush"})
    lines = done.stdout.decode().splitlines()
    assert "CI=mine" in lines
    assert "LD_X=1" in lines
    assert b"PLAIN" not in done.stdout


def test_model_is_held_to_the_rules_for_scripts(user: User) -> None:
    args = ("run", "--exclude", "AWS_*", "--env", "AWS_PROFILE=1", "--env", "OK=1")
    assert b"AWS_PROFILE=1" in user.run(*args, "--", "/usr/bin/env").stdout
    done = user.run(*args, "--author", "model", "--explain", "--", "/usr/bin/env")
    assert b"AWS_PROFILE" not in done.stdout
    assert b"OK=1" in done.stdout
    assert words(done.stderr)[2].startswith("refused AWS_PROFILE of L7 request: ")


# Shells


@pytest.fixture
def profile(user: User) -> Path:
    path = user.home / ".bash_profile"
    path.write_text("echo started\nexport FROM_PROFILE=hush PATH=/hush:$PATH\n")
    return path


def bash(user: User, *args: str) -> tuple[bytes, list[str]]:
    script = 'echo "${FROM_PROFILE-kept out}"'
    done = user.run("run", "--explain", *args, "--", program("bash"), "-lc", script)
    assert done.returncode == 0, done.stderr
    assert b"hush" not in done.stderr
    lines = words(done.stderr)
    summary = next(at for at, line in enumerate(lines) if line.startswith("env: "))
    return done.stdout, lines[summary + 1 :]  # before it, a server on this machine may have written its log


def test_shell_is_told_to_have_had_no_startup_files(user: User, profile: Path) -> None:
    assert bash(user) == (b"kept out\n", ["shell: bash, login flag stripped, startup files off"])


def test_what_startup_files_changed_is_told_with_file_and_line(user: User, profile: Path) -> None:
    output, lines = bash(user, "--startup", "report")
    assert output == b"started\nhush\n"
    assert lines[:2] == ["shell: bash, login shell, startup files on", "changed by startup files:"]
    assert f"+ FROM_PROFILE {profile}:2" in lines
    # Below the lines of this machine's own /etc/profile, if that changes PATH too.
    assert any(line.startswith("~ PATH ") for line in lines)
    assert f"{profile}:2" in (line.removeprefix("~ PATH ") for line in lines)


def test_what_startup_files_changed_is_put_right(user: User, profile: Path) -> None:
    output, lines = bash(user, "--startup", "repair")
    assert output == b"started\nkept out\n"
    assert lines[0] == "shell: bash, login shell, startup files repaired"
    assert lines[1] == "changed by startup files, corrected:"
    assert f"+ FROM_PROFILE {profile}:2" in lines


def test_login_flag_may_be_refused(user: User) -> None:
    done = user.run("run", "--login", "reject", "--", program("bash"), "-lc", "true")
    assert done.returncode == 125
    assert b"login" in done.stderr
    assert user.run("run", "--login", "strip", "--", program("bash"), "-lc", "exit 3").returncode == 3


# Whose environment


def variables(user: User, *args: str, env: dict[str, str]) -> dict[str, str]:
    done = user.run("run", *args, "--", "/usr/bin/env", "-0", env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    pairs = [entry.partition("=") for entry in done.stdout.decode().split("\0") if entry]
    return {name: value for name, _, value in pairs}


ENV = {"OURS": "1", "PLACE": "here"}


@pytest.mark.parametrize(
    ("rule", "ours", "theirs", "place"),
    [("daemon", False, True, "there"), ("client", True, False, "here"), ("merge", True, True, "here")],
)
def test_commands_start_from_the_environment_that_was_chosen(
    rule: str, ours: bool, theirs: bool, place: str, user: User, tmp_path: Path
) -> None:
    with serving("outfitter", tmp_path / "server", env={"PLACE": "there", "THEIRS": "1"}) as server:
        for args in (("--from", rule), ()):
            user.config.mkdir(parents=True, exist_ok=True)
            (user.config / "config.toml").write_text("" if args else f'[daemon]\nenvironment = "{rule}"\n')
            found = variables(user, "--on", server.url, *args, env=ENV)
            assert ("OURS" in found, "THEIRS" in found, found["PLACE"]) == (ours, theirs, place)


def test_base_and_differences_are_told(user: User, server: Server) -> None:
    args = ("run", "--on", server.url, "--explain")
    done = user.run(*args, "--", "true", env=ENV)
    summary, differences = words(done.stderr)
    assert summary.startswith("env: base=daemon,")
    assert differences.startswith("the server's own environment differs from this shell's; only here: OURS, ")
    assert "PLACE" in differences.partition("different values: ")[2]
    done = user.run(*args, "--from", "merge", "--", "true", env=ENV)
    assert words(done.stderr)[0].startswith("env: base=merge,")


def test_comparing_sends_digests_alone(user: User, server: Server) -> None:
    with tapping(server.port) as tap:
        user.run("run", "--on", tap.url, "--explain", "--", "true", env={"OURS": "hush"})
        heard = json.dumps([one.message for one in tap.heard])
    assert "environment/base" in heard
    assert "hush" not in heard


def test_environment_is_sent_to_no_server_that_is_not_ours(user: User, server: Server) -> None:
    env = {"OURS": "hush"}
    with tapping(server.port) as tap:
        # Not a loopback address by name, though it leads there.
        url = f"ws://{os.uname().nodename}:{server.port}"
        done = user.run("run", "--on", url, "--from", "client", "--", "true", env=env)
        assert done.returncode == 125
        user.declare(f'[[environments]]\nid = "tool"\nprogram = "{user.home}/tool"\n')
        tool = user.home / "tool"
        tool.write_text(f"#!/bin/sh\nexec {sys.executable} -m outfitter serve --listen stdio\n")
        tool.chmod(0o755)
        done = user.run("run", "--on", "tool", "--from", "client", "--", "true", env=env)
        assert done.returncode == 125
        assert b"--from client would send this environment to another user or machine" in done.stderr
        assert "hush" not in json.dumps([one.message for one in tap.heard])


def test_reference_server_gets_no_environment(user: User, tmp_path: Path) -> None:
    with serving("codex", tmp_path / "server") as server, tapping(server.port) as tap:
        done = user.run("run", "--on", tap.url, "--from", "merge", "--", "true", env={"OURS": "hush"})
        assert done.returncode == 125
        assert b"the server does not support the environment contract" in done.stderr
        assert user.run("run", "--on", tap.url, "--", "true", env={"OURS": "hush"}).returncode == 0
        assert "hush" not in json.dumps([one.message for one in tap.heard])


def test_here_the_environment_is_ours_anyway(user: User) -> None:
    assert variables(user, "--from", "client", env=ENV)["PLACE"] == "here"


def test_every_startup_line_that_changed_path_is_named(user: User) -> None:
    profile = user.home / ".bash_profile"
    profile.write_text(
        'export PATH="$HOME/first:$PATH"\nPATH="$PATH:$HOME/last"\nexport PATH\nexport ALONE=1\n'
    )
    done = user.run(
        "run", "--startup", "report", "--explain", "--", "bash", "-lc", "true", env={"SHLVL": "1"}
    )
    lines = done.stderr.decode().splitlines()
    # This machine's own /etc/profile may change PATH before.
    own = [line for line in lines if str(profile) in line]
    assert [line.split()[-1] for line in own] == [f"{profile}:4", f"{profile}:1", f"{profile}:2"]
