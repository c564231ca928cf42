"""outfitter env export: what a command would get, for something else to read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from outfitter.cli.env.commands import FORMATS
from outfitter.env import export as formats
from tests.support.servers import Server
from tests.support.tools import program

from .commandline import OUTFITTER, Terminal, User
from .project import SECRETS, make


@pytest.fixture
def project(user: User) -> Path:
    return make(user)


def test_formats_are_those_that_there_are() -> None:
    assert FORMATS == formats.FORMATS


def test_shell_takes_over_exactly_what_a_command_would_get(user: User, project: Path) -> None:
    odd = {**SECRETS, "ODD": 'it\'s $HOME\n`x` \\ "q" ', "EMPTY": ""}
    args = ("--cwd", "project", "--env", "GIVEN=1")
    done = user.run("env", "export", "--format", "shell", *args, "--show-secrets", env=odd)
    assert done.returncode == 0
    script = done.stdout.decode() + "exec /usr/bin/env -0"
    shell = subprocess.run([program("sh"), "-c", script], env={}, capture_output=True, check=True)
    real = user.run("run", *args, "--", "/usr/bin/env", "-0", env=odd)

    def pairs(data: bytes) -> set[bytes]:
        return {
            one for one in data.split(b"\0") if one and one.partition(b"=")[0] not in (b"PWD", b"SHLVL", b"_")
        }

    assert pairs(shell.stdout) == pairs(real.stdout)


def test_secrets_are_left_out_and_named(user: User) -> None:
    done = user.run("env", "export", "--format", "json", env=SECRETS)
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["PLAIN"] == "hush-plain"
    assert "API_TOKEN" not in told
    assert done.stderr == b"outfitter: left out secrets: API_TOKEN (--show-secrets prints them)\n"
    done = user.run("env", "export", "--format", "json", "--show-secrets", env=SECRETS)
    assert json.loads(done.stdout)["API_TOKEN"] == "hush-token"


def test_secrets_are_not_printed_on_a_terminal(user: User, screen: Terminal) -> None:
    popen = screen.start(user, "env", "export", "--format", "json", "--show-secrets", env=SECRETS)
    status, shown = screen.rest(popen)
    assert status == 2
    assert b"hush" not in shown


def test_changed_is_what_differs_from_this_process(user: User, project: Path) -> None:
    args = ("env", "export", "--cwd", "project", "--format", "json", "--changed")
    done = user.run(*args, "--set", "PLAIN=hush-plain", env={**SECRETS, "SHLVL": "1", "PATH": "/usr/bin"})
    assert json.loads(done.stdout) == {"AWS_PROFILE": None, "CI": "1", "PATH": f"{project}/bin:/usr/bin"}


def test_only_matching_names_are_told(user: User) -> None:
    args = ("env", "export", "--format", "dotenv", "--only", "pl*", "--only", "AWS_?ROFILE")
    done = user.run(*args, env=SECRETS)
    assert done.stdout == b"AWS_PROFILE=hush-profile\nPLAIN=hush-plain\n"


def test_what_a_format_cannot_say_is_named(user: User) -> None:
    done = user.run("env", "export", "--format", "github", env={"GITHUB_SHA": "1"})
    assert done.returncode == 0
    assert b"GITHUB_SHA" not in done.stdout
    assert b"outfitter: left out: GITHUB_SHA: GitHub does not let a step change it\n" in done.stderr


def test_bytes_that_are_not_utf8_are_exported_as_they_are(user: User) -> None:
    env = {**{name.encode(): value.encode() for name, value in user.env().items()}, b"ODD": b"\xff\xfe"}
    done = subprocess.run(
        [*OUTFITTER, "env", "export", "--format", "shell", "--only", "ODD"],
        capture_output=True,
        env=env,
        cwd=user.home,
        check=True,
    )
    assert done.stdout == b"export ODD='\xff\xfe'\n"


def test_executor_elsewhere_is_asked(user: User, server: Server) -> None:
    args = ("env", "export", "--on", server.url, "--format", "json", "--only", "PLACE")
    assert json.loads(user.run(*args).stdout) == {"PLACE": "there"}


def test_format_must_be_one_of_them(user: User) -> None:
    assert user.run("env", "export").returncode == 2
    assert user.run("env", "export", "--format", "csh").returncode == 2
