"""outfitter ps --server, sessions, kill and drain, as somebody types them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.machine import alive, wait_gone, wait_until
from tests.support.servers import Server, serving

from .commandline import SECONDS, User, read_line


def seen(done: subprocess.CompletedProcess[bytes]) -> tuple[int, str, str]:
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def detach(user: User, url: str, script: str) -> str:
    """Leaves a shell running; returns its id."""
    done = user.run("run", "--on", url, "--detach", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def pids(user: User, url: str) -> dict[int, dict[str, object]]:
    done = user.run("ps", "--server", url, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    return {one["pid"]: one for one in json.loads(done.stdout)}


# Looking


def test_ps_of_a_server_lists_every_command(server: Server, user: User) -> None:
    assert seen(user.run("ps", "--server", server.url)) == (
        0,
        "PID  PROGRAM  STATE  STARTED  PROCESS  SESSION  PRINCIPAL\n",
        "",
    )
    detach(user, server.url, "exec sleep 60")
    popen = user.start("run", "--on", server.url, "--", "sh", "-c", "echo $$; exec sleep 61")
    followed = int(read_line(popen))
    found = pids(user, server.url)
    assert len(found) == 2
    one = found[followed]
    assert (one["program"], one["exited"], one["principal"]) == ("sh", False, f"uid:{os.getuid()}")
    assert one["client"] == "outfitter"
    done = user.run("ps", "--server", server.url)
    rows = done.stdout.decode().splitlines()[1:]
    assert len(rows) == 2
    assert re.fullmatch(rf"{followed} +sh +running +\d+ s ago +\S+ +{one['sessionId']} +uid:\d+", rows[1])


def test_sessions_of_a_named_server_are_listed(server: Server, user: User) -> None:
    user.declare(f'default = "build"\n[[environments]]\nid = "build"\nurl = "{server.url}"\n')
    detach(user, "build", "exec sleep 60")
    popen = user.start("run", "--on", "build", "--", "sh", "-c", "echo; exec sleep 60")
    read_line(popen)
    for args in (("sessions", "build"), ("sessions", "--on", "build"), ("sessions",)):
        status, shown, told = seen(user.run(*args))
        assert (status, told) == (0, "")
        title, *rows = shown.splitlines()
        assert title.split() == ["SESSION", "PRINCIPAL", "CLIENT", "FROM", "RUNNING", "OPENED"]
        assert re.fullmatch(r"[-0-9a-f]{36}  uid:\d+ +outfitter +no client for \d+ s +1 +\d+ s ago", rows[0])
        assert re.fullmatch(r"[-0-9a-f]{36}  uid:\d+ +outfitter +127\.0\.0\.1:\d+ +1 +\d+ s ago", rows[1])
    told_json = json.loads(user.run("sessions", "--json").stdout)
    assert (told_json["operator"], len(told_json["sessions"])) == (True, 2)


def test_server_that_cannot_say_is_told_by_its_flag(user: User, tmp_path: Path) -> None:
    with serving("codex", tmp_path / "server") as server:
        for args in (("ps", "--server", server.url), ("sessions", server.url)):
            status, shown, told = seen(user.run(*args))
            assert (status, shown) == (1, "")
            assert told.endswith("it does not offer `serverSessions`\n")
    status, _, told = seen(user.run("sessions", "local"))
    assert status == 1
    assert told == "outfitter: local is no server that others can reach: give the URL or name of one\n"
    assert seen(user.run("sessions", "nowhere"))[0] == 1
    for command in (("ps",), ("kill", "1")):
        done = user.run(*command, "--server", "x", "--on", "y")
        assert (done.returncode, b"--server cannot be used with --on or --session" in done.stderr) == (
            2,
            True,
        )


# Ending


def test_command_of_ps_is_killed_by_its_id_with_all_it_started(
    server: Server, user: User, tmp_path: Path
) -> None:
    script = f"setsid sleep 60 & echo $! $$ >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/pids; wait"
    ident = detach(user, server.url, script)
    wait_until((tmp_path / "pids").exists, "it runs")
    both = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert seen(user.run("kill", ident[:5])) == (0, "", "")
    wait_gone(both)
    assert user.records() == []
    status, _, told = seen(user.run("kill", ident))
    assert (status, told) == (1, "outfitter: no commands are running: `outfitter run --on NAME` starts one\n")


def test_command_that_somebody_follows_is_killed_and_its_follower_told(server: Server, user: User) -> None:
    popen = user.start("run", "--on", server.url, "--", "sh", "-c", "echo $$; exec sleep 60")
    pid = int(read_line(popen))
    assert seen(user.run("kill", "--server", server.url, str(pid))) == (0, "", "")
    assert popen.wait(SECONDS) == 137
    status, _, told = seen(user.run("kill", "--server", server.url, str(pid)))
    assert status == 1
    assert f"no running command of yours has the pid {pid}" in told
    status, _, told = seen(user.run("kill", "--server", server.url, "x1"))
    assert (status, "ID is a PID of `outfitter ps --server`, not 'x1'" in told) == (1, True)


def test_signal_and_grace_leave_the_end_to_the_command(server: Server, user: User, tmp_path: Path) -> None:
    traps = f"trap 'touch {tmp_path}/usr1' USR1; trap 'exit 5' TERM"
    script = f"{traps}; touch {tmp_path}/on; while :; do sleep 0.01; done"
    ident = detach(user, server.url, script)
    wait_until((tmp_path / "on").exists, "it runs")
    assert seen(user.run("kill", ident, "--signal", "USR1"))[0] == 0
    wait_until((tmp_path / "usr1").exists, "it got the signal")
    assert len(user.records()) == 1
    assert seen(user.run("kill", ident, "--grace", "20"))[0] == 0
    wait_until(lambda: b"exited 5" in user.run("ps").stdout, "it has ended by itself")
    assert user.run("kill", ident, "--grace", "1", "--signal", "HUP").returncode == 2
    assert user.run("kill", ident, "--signal", "SEGV").returncode == 2


def test_time_that_no_request_can_say_is_a_usage_error(user: User) -> None:
    done = user.run("kill", "--grace", "1e306", "x")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.endswith(b"Invalid value for '--grace': '1e306' is too many seconds\n")


def test_process_of_a_session_is_killed(server: Server, user: User) -> None:
    detach(user, server.url, "exec sleep 60")
    [(pid, one)] = pids(user, server.url).items()
    args = ("kill", "--on", server.url, "--session", str(one["sessionId"]))
    assert seen(user.run(*args, "nonesuch"))[0] == 1
    assert alive(pid)
    assert seen(user.run(*args, str(one["processId"]))) == (0, "", "")
    wait_gone([pid])


def test_command_on_the_stock_server_is_killed_too(user: User, tmp_path: Path) -> None:
    with serving("codex", tmp_path / "server") as server:
        user.run("run", "--on", server.url, "--detach", "--detach-for", "30", "--", "sleep", "60")
        [record] = user.records()
        assert seen(user.run("kill", record.stem, "--signal", "HUP"))[0] == 1
        assert b"running" in user.run("ps").stdout
        assert seen(user.run("kill", record.stem)) == (0, "", "")
        assert user.records() == []


def test_command_of_a_server_that_has_ended_is_gone_at_once(user: User, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "server") as server:
        ident = detach(user, server.url, "exec sleep 60")
        popen = user.start("run", "--on", server.url, "--", "sh", "-c", "echo; exec sleep 60")
        read_line(popen)
        popen.send_signal(signal.SIGKILL)
        popen.wait()
    done = json.loads(user.run("ps", "--json").stdout)
    assert [(one["state"], one["reason"]) for one in done] == [("gone", "its server has ended")] * 2
    assert done[0]["id"] == ident
    assert user.records() == []
    assert user.run("ps").stdout == b"ID  ENVIRONMENT  PROGRAM  STATE  STARTED\n"


# The end of the server


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("drain",), "name the server: NAME|URL"),
        (("upgrade",), "name the server: PID|NAME|URL"),
        (("sessions", "a", "--on", "b"), "name the server once"),
    ],
)
def test_one_server_is_named(user: User, args: tuple[str, ...], why: str) -> None:
    status, _, told = seen(user.run(*args))
    assert (status, why in told) == (2, True)


def test_drained_server_refuses_new_commands_and_ends_with_the_last(server: Server, user: User) -> None:
    popen = user.start("run", "--on", server.url, "--", "cat", stdin=subprocess.PIPE)
    assert popen.stdin is not None
    popen.stdin.write(b"one\n")
    assert read_line(popen) == b"one\n"
    expected = "the server takes no new sessions and ends when none is in use; 1 session in use now\n"
    assert seen(user.run("drain", server.url)) == (0, expected, "")
    status, told, _ = seen(user.run("drain", "--json", "--on", server.url))
    assert (status, json.loads(told)) == (0, {"draining": True, "sessions": 1})
    status, _, told = seen(user.run("run", "--on", server.url, "--", "true"))
    assert status == 125
    assert re.search(r"has been draining since \S+Z and takes no new sessions: use another one", told)
    status, _, told = seen(user.run("sessions", server.url))
    assert status == 0
    assert re.fullmatch(r"outfitter: the server began to drain \d+ s ago and takes no new sessions\n", told)
    popen.stdin.write(b"two\n")
    assert read_line(popen) == b"two\n"
    popen.stdin.close()
    assert popen.wait(SECONDS) == 0
    assert server.popen.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--audit-commands", "full"), "--audit-commands needs --audit FILE"),
        (("--audit", "/nowhere/at/all"), "cannot open --audit /nowhere/at/all: No such file or directory"),
    ],
)
def test_audit_flags_that_cannot_work_are_told_at_the_start(
    flags: tuple[str, ...], reason: str, user: User
) -> None:
    assert seen(user.run("serve", *flags)) == (1, "", f"outfitter: {reason}\n")


def test_audit_on_standard_error_and_trust_that_was_granted(user: User, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "outfitter.toml").write_text('[setup]\nscript = "setup.sh"\n')
    (project / "setup.sh").write_text("export FROM_SETUP=1\n")
    home = tmp_path / "server"
    home.mkdir()
    owner = User(home)
    state = {"XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}
    with serving("outfitter", home, "--audit", "-", "--audit-commands", "full", env=state) as server:
        run = ("run", "--on", server.url, "--cwd", str(project), "--", "sh", "-c", "echo $FROM_SETUP")
        assert user.run(*run).stdout == b"\n"
        assert owner.run("trust", "--yes", str(project)).returncode == 0
        for _ in range(2):
            assert user.run(*run).stdout == b"1\n"
    lines = (home / "outfitter.stderr").read_text().splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    granted = [one for one in told if one["event"] == "trust-granted"]
    assert [(one["provider"], one["root"]) for one in granted] == [("setup", str(project))]
    assert granted[0]["digest"].startswith("sha256:")
    started = [one for one in told if one["event"] == "command-started"]
    assert started[0]["argv"] == ["sh", "-c", "echo $FROM_SETUP"]
    assert started[0]["cwd"] == str(project)
