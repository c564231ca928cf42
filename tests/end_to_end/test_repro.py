"""Ways in which command environments go wrong elsewhere, and what comes out of them here.

Each scenario is first played on what everybody has, a plain shell, where it must go wrong: else the claim
about ours would be empty. Then through `outfitter run` and through a server.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine import SECOND
from tests.support.servers import Server, serving
from tests.support.tools import program
from tests.support.wire import Wire

OUTFITTER = [sys.executable, "-m", "outfitter"]
INHERIT = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}


def output(argv: list[str], env: dict[str, str], cwd: Path, stdin: int = subprocess.DEVNULL) -> str:
    done = subprocess.run(
        argv, stdin=stdin, capture_output=True, env=env, cwd=cwd, timeout=30 * SECOND, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def run(env: dict[str, str], cwd: Path, *words: str, stdin: int = subprocess.DEVNULL) -> str:
    """What `outfitter run` prints in this environment."""
    return output([*OUTFITTER, "run", *words], env, cwd, stdin)


def ask(server: Server, *argv: str, **params: object) -> str:
    """What a client that knows nothing of the contract gets from a server for this command."""
    with contextlib.closing(Wire(server.url)) as wire:
        wire.handshake()
        wire.start("p", list(argv), cwd="file:///", env={}, envPolicy=INHERIT, **params)
        wire.closed("p")
        return wire.output("p").decode()


# A login shell replaces the environment that the launcher has set up

PROBE = 'echo "$(python) $ACTIVE_ENV ${DEMO_TOKEN-<unset>} ${PATH%%:*}"'


class Project:
    """A launcher with a project's environment, in an account whose profile activates another one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("project", "base"):
            folder = root / name / "bin"
            folder.mkdir(parents=True)
            (folder / "python").write_text(f"#!/bin/sh\necho {name}-python\n")
            (folder / "python").chmod(0o755)
        self.home = root / "home"
        self.home.mkdir()
        (self.home / ".bash_profile").write_text(
            f"export PATH='{root}/base/bin':$PATH ACTIVE_ENV=base DEMO_TOKEN=reintroduced\n"
        )
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{root}/project/bin:/usr/bin:/bin",
            "ACTIVE_ENV": "project",
            "LANG": "C.UTF-8",
        }
        self.right = f"project-python project <unset> {root}/project/bin\n"
        self.wrong = f"base-python base reintroduced {root}/base/bin\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_plain_login_shell_replaces_the_launchers_environment(project: Project) -> None:
    bash = program("bash")
    quiet = [bash, "--noprofile", "--norc", "-c", PROBE]
    assert output(quiet, project.env, project.root) == project.right
    assert output([bash, "-lc", PROBE], project.env, project.root) == project.wrong


@pytest.mark.parametrize("words", [["bash", "-lc"], ["bash", "--login", "-c"], ["bash", "-c"]], ids=" ".join)
def test_outfitter_run_keeps_the_launchers_environment(project: Project, words: list[str]) -> None:
    assert run(project.env, project.root, "--", *words, PROBE) == project.right


def test_what_a_policy_has_left_out_does_not_come_back(project: Project) -> None:
    env = {**project.env, "DEMO_TOKEN": "the launcher's"}
    said = ["--exclude", "DEMO_*", "--", "bash", "-lc", PROBE]
    assert run(env, project.root, *said) == project.right


def test_a_server_keeps_the_environment_that_it_was_started_in(project: Project) -> None:
    with serving("outfitter", project.home, env=project.env) as server:
        assert ask(server, "bash", "-lc", PROBE) == project.right
        elsewhere = {**project.env, "PATH": "/usr/bin:/bin", "ACTIVE_ENV": "elsewhere"}
        said = ["--on", server.url, "--", "bash", "-lc", PROBE]
        assert run(elsewhere, project.root, *said) == project.right


# `bash -c` is no promise that no startup file is read

TOKEN = 'echo "${DEMO_TOKEN-<unset>}"'
FROM_BASHRC = "from .bashrc\n"
FROM_BASH_ENV = "from BASH_ENV\n"
UNSET = "<unset>\n"


@pytest.fixture
def account(tmp_path: Path) -> dict[str, str]:
    """An environment without SHLVL, as a runtime has that clears it, and two files that leak."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("export DEMO_TOKEN='from .bashrc'\n")
    (home / "bash_env").write_text("export DEMO_TOKEN='from BASH_ENV'\n")
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.fixture
def connected() -> Iterator[socket.socket]:
    """A socket for somebody's standard input."""
    near, far = socket.socketpair()
    far.shutdown(socket.SHUT_WR)
    with near, far:
        yield near


SSH = {"SSH_CLIENT": "192.0.2.1 1 22", "SSH2_CLIENT": "192.0.2.1 1 22"}


def test_a_plain_bash_reads_files_on_a_socket_below_ssh_and_with_bash_env(
    account: dict[str, str], connected: socket.socket, tmp_path: Path
) -> None:
    bash = program("bash")
    bash_env = f"{account['HOME']}/bash_env"
    assert output([bash, "-c", TOKEN], account, tmp_path) == UNSET
    assert output([bash, "-c", TOKEN], account, tmp_path, connected.fileno()) == FROM_BASHRC
    assert output([bash, "-c", TOKEN], {**account, "BASH_ENV": bash_env}, tmp_path) == FROM_BASH_ENV
    # Only some distributions build it so, but those are most.
    assert output([bash, "-c", TOKEN], {**account, **SSH}, tmp_path) in (FROM_BASHRC, UNSET)


@pytest.mark.parametrize("startup", ["enforce", "repair"])
def test_nothing_of_them_gets_through_outfitter_run(
    account: dict[str, str], connected: socket.socket, tmp_path: Path, startup: str
) -> None:
    account |= {**SSH, "BASH_ENV": f"{account['HOME']}/bash_env"}
    said = ["--startup", startup, "--", "bash", "-c", TOKEN]
    assert run(account, tmp_path, *said) == UNSET
    assert run(account, tmp_path, *said, stdin=connected.fileno()) == UNSET


@pytest.mark.parametrize("more", [{}, {"pipeStdin": True}, {"tty": True}], ids=["null", "pipe", "tty"])
def test_nothing_of_them_gets_through_a_server(
    account: dict[str, str], tmp_path: Path, more: dict[str, object]
) -> None:
    extra = {**account, **SSH, "BASH_ENV": f"{account['HOME']}/bash_env"}
    with serving("outfitter", Path(account["HOME"]), env=extra) as server:
        for flag in ("-c", "-lc"):
            assert ask(server, "bash", flag, TOKEN, **more).replace("\r\n", "\n") == UNSET


def test_a_bash_that_the_command_starts_on_a_socket_reads_nothing_either(
    account: dict[str, str], tmp_path: Path
) -> None:
    # SHLVL is what keeps it from taking itself for the first shell behind a network connection.
    text = (
        "import socket, subprocess, sys; near, far = socket.socketpair(); "
        "subprocess.run(['bash', '-c', sys.argv[1]], stdin=near)"
    )
    argv = [sys.executable, "-c", text, TOKEN]
    assert output(argv, account, tmp_path) == FROM_BASHRC
    assert run(account, tmp_path, "--", *argv) == UNSET


# A daemon that was there before supplies its own, older environment

MARKS = 'echo "${MARK-<unset>} ${DAEMONS-<unset>} ${CLIENTS-<unset>}"'


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Server]:
    """A server that was started from another terminal."""
    env = {"PATH": "/usr/bin:/bin", "MARK": "old-daemon", "DAEMONS": "1"}
    with serving("outfitter", tmp_path / "home", env=env) as server:
        yield server


@pytest.fixture
def terminal(tmp_path: Path) -> dict[str, str]:
    """The environment that a person sees."""
    return {
        "HOME": str(tmp_path / "home"),
        "CODEX_HOME": str(tmp_path / "home" / ".codex"),
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "MARK": "new-terminal",
        "CLIENTS": "1",
    }


RULES = {
    "client": "new-terminal <unset> 1\n",
    "daemon": "old-daemon 1 <unset>\n",
    "merge": "new-terminal 1 1\n",
}


@pytest.mark.parametrize("rule", RULES)
def test_whose_environment_it_is_can_be_said_and_is_told(
    daemon: Server, terminal: dict[str, str], tmp_path: Path, rule: str
) -> None:
    done = subprocess.run(
        [*OUTFITTER, "run", "--on", daemon.url, "--from", rule, "--explain", "--", "sh", "-c", MARKS],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=terminal,
        cwd=tmp_path,
        timeout=30 * SECOND,
        check=False,
    )
    told = done.stderr.decode()
    assert (done.returncode, done.stdout.decode()) == (0, RULES[rule]), told
    assert f"base={rule}" in told
    assert (
        "differs from this shell's; only here: CLIENTS; only there: DAEMONS; different values: MARK\n" in told
    )
    assert not any(value in told for value in ("old-daemon", "new-terminal"))


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_may_be_configured_once(
    daemon: Server, terminal: dict[str, str], tmp_path: Path, rule: str
) -> None:
    folder = tmp_path / "home" / ".config" / "outfitter"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[daemon]\nenvironment = "{rule}"\n')
    assert run(terminal, tmp_path, "--on", daemon.url, "--", "sh", "-c", MARKS) == RULES[rule]


def test_without_a_rule_the_environment_is_the_daemons(
    daemon: Server, terminal: dict[str, str], tmp_path: Path
) -> None:
    assert run(terminal, tmp_path, "--on", daemon.url, "--", "sh", "-c", MARKS) == RULES["daemon"]


def test_a_daemon_of_the_same_environment_differs_in_nothing(
    terminal: dict[str, str], tmp_path: Path
) -> None:
    with serving("outfitter", tmp_path / "home", env=terminal) as server:
        done = subprocess.run(
            [*OUTFITTER, "run", "--on", server.url, "--explain", "--", "sh", "-c", MARKS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=terminal,
            cwd=tmp_path,
            timeout=30 * SECOND,
            check=False,
        )
    assert done.stdout.decode() == RULES["client"]
    assert b"base=daemon" in done.stderr
    assert b"differs" not in done.stderr
