"""outfitter env list: the named environments, each with its state."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

from tests.support.servers import Server

from .commandline import User


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def test_table_has_every_environment_with_its_state(server: Server, user: User) -> None:
    port = closed_port()
    user.declare(
        f"""
        default = "build"

        [[environments]]
        id = "build"
        url = "{server.url}"

        [[environments]]
        id = "off"
        url = "ws://127.0.0.1:{port}/?key=hush"

        [[environments]]
        id = "tool"
        program = "{user.home}/never-started"
        args = ["two words"]
        """
    )
    done = user.run("env", "list")
    assert (done.returncode, done.stderr) == (0, b"")
    title, *rows = (re.split(r"  +", row) for row in done.stdout.decode().splitlines())
    assert title == ["NAME", "STATE", "WHERE"]
    # A program is not started for a list.
    assert rows[0] == ["local", "ready", "this machine"]
    assert rows[1] == ["build *", "ready", server.url]
    assert rows[2][:3] == ["off", "disconnected", f"ws://127.0.0.1:{port}/?…"]
    assert "Connection refused" in rows[2][3]
    assert rows[3] == ["tool", "pending", f"{user.home}/never-started 'two words'", "not started"]


def test_secret_in_a_url_is_shown_nowhere(user: User) -> None:
    user.declare(f'[[environments]]\nid = "off"\nurl = "ws://127.0.0.1:{closed_port()}/?key=hush"\n')
    done = user.run("env", "list")
    assert b"hush" not in done.stdout + done.stderr


def test_json_says_where_each_was_declared(server: Server, user: User) -> None:
    path = user.declare(f'include_local = false\n[[environments]]\nid = "build"\nurl = "{server.url}"\n')
    done = user.run("env", "list", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == [
        {
            "id": "build",
            "default": False,
            "state": "ready",
            "text": "ready",
            "where": server.url,
            "file": str(path),
            "line": 2,
        }
    ]


def test_without_a_file_there_is_this_machine_alone(user: User) -> None:
    done = user.run("env", "list")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        b"NAME     STATE  WHERE\nlocal *  ready  this machine\n",
        b"",
    )


def test_every_mistake_of_the_file_is_named_with_its_line(user: User) -> None:
    path = user.declare('default = "x"\n\n[[environments]]\nid = "a b"\nurl = "http://h"\nurk = 1\n')
    done = user.run("env", "list")
    assert (done.returncode, done.stdout) == (1, b"")
    places = [line.removeprefix("outfitter: ") for line in done.stderr.decode().splitlines()]
    assert [place.partition(": ")[0] for place in places] == [f"{path}:{n}" for n in (1, 4, 5, 6)]


def test_codex_home_and_its_variable_are_taken_when_asked_for(
    server: Server, user: User, tmp_path: Path
) -> None:
    codex = tmp_path / "codex"
    variable = {"CODEX_EXEC_SERVER_URL": server.url}
    # Without a file in it the variable counts, and with none of either this machine.
    done = user.run("env", "list", "--codex-home", str(codex), env=variable)
    assert done.stdout.decode().splitlines()[1:] == [f"remote *  ready  {server.url}"]
    done = user.run("env", "list", "--codex-home", str(codex), env={"CODEX_EXEC_SERVER_URL": "none"})
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"outfitter: no named environment is configured\n"
    user.declare(f'[[environments]]\nid = "theirs"\nurl = "{server.url}"\n', codex)
    done = user.run("env", "list", "--codex-home", str(codex), env=variable)
    names = [row.split()[0] for row in done.stdout.decode().splitlines()]
    assert names == ["NAME", "local", "theirs"]
    # Ours is not asked for the variable.
    assert b"remote" not in user.run("env", "list", env=variable).stdout
