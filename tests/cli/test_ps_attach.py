"""outfitter ps and attach: commands that were left running, found again, followed to their end."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import outfitter
from outfitter.client.client import Client
from tests.support.machine import alive, wait_gone, wait_until
from tests.support.servers import Server, serving

from .commandline import SECONDS, Terminal, User, read_line, read_rest


def seen(done: subprocess.CompletedProcess[bytes]) -> tuple[int, bytes, bytes]:
    return done.returncode, done.stdout, done.stderr


STOCK = ("--detach-for", "30")  # all that the stock server can do


def detach(user: User, url: str, script: str, *flags: str) -> str:
    """Leaves a shell running; returns its id."""
    done = user.run("run", "--on", url, *flags, "--detach", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def listed(user: User, *args: str) -> list[dict[str, object]]:
    done = user.run("ps", "--json", *args)
    assert (done.returncode, done.stderr) == (0, b"")
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def states(user: User) -> dict[object, object]:
    return {one["id"]: one["state"] for one in listed(user)}


# Leaving


def test_detached_command_goes_on_and_is_listed(server: Server, user: User, tmp_path: Path) -> None:
    script = f"echo $$ >{tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 60"
    done = user.run("run", "--on", server.url, "--detach", "--", "sh", "-c", script)
    ident = done.stdout.decode().strip()
    told = f"outfitter: left running; to its end: outfitter attach {ident}\n"
    assert seen(done) == (0, f"{ident}\n".encode(), told.encode())
    wait_until((tmp_path / "pid").exists, "it runs")
    assert alive(int((tmp_path / "pid").read_text()))
    table = user.run("ps")
    assert (table.returncode, table.stderr) == (0, b"")
    title, row = table.stdout.decode().splitlines()
    assert title.split() == ["ID", "ENVIRONMENT", "PROGRAM", "STATE", "STARTED"]
    assert re.fullmatch(rf"{ident}  {re.escape(server.url)} +sh +running +\d s ago", row)
    [entry] = listed(user)
    assert isinstance(entry.pop("startedAtMs"), int)
    assert isinstance(entry.pop("processId"), str)
    assert entry == {
        "id": ident,
        "environment": server.url,
        "program": "sh",
        "tty": False,
        "state": "running",
    }


def test_detached_command_lives_to_its_end_and_can_be_read_then(user: User, tmp_path: Path) -> None:
    # On a server that keeps nothing else without a client.
    with serving("outfitter", tmp_path / "server", "--session-retention", "0") as server:
        script = f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo done; touch {tmp_path}/end; exit 7"
        ident = detach(user, server.url, script)
        assert states(user) == {ident: "running"}
        (tmp_path / "go").touch()
        wait_until(lambda: states(user) == {ident: "exited"}, "it has ended")
        assert seen(user.run("attach", ident)) == (7, b"done\n", b"")
        assert user.records() == []


def test_server_that_will_not_keep_a_command_says_for_how_long_it_would(user: User, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "server", "--max-detached", "60") as server:
        done = user.run("run", "--on", server.url, "--detach", "--", "touch", str(tmp_path / "started"))
        told = (
            "outfitter: cannot start touch: this server ends a command 60 s after its client has gone: ask "
            "for no more (--detach-for 60), or have it started with a larger --max-detached\n"
        )
        assert seen(done) == (125, b"", told.encode())
        done = user.run("run", "--on", server.url, "--detach-for", "60", "--", "sleep", "60")
        ident = done.stdout.decode().strip()
        told = f"outfitter: left running; for 60 s unless a client attaches to it: outfitter attach {ident}\n"
        assert seen(done) == (0, f"{ident}\n".encode(), told.encode())
        assert states(user) == {ident: "running"}
    assert not (tmp_path / "started").exists()


def test_stock_server_refuses_to_keep_a_command_to_its_end(user: User, tmp_path: Path) -> None:
    with serving("codex", tmp_path / "server") as server:
        done = user.run("run", "--on", server.url, "--detach", "--", "touch", str(tmp_path / "started"))
    told = (
        b"outfitter: this server ends a command 30 s after its client has gone: add --detach-for 30 if that "
        b"is enough, or use an Outfitter server\n"
    )
    assert seen(done) == (125, b"", told)
    assert not (tmp_path / "started").exists()


def test_nothing_was_started_is_an_empty_list(user: User) -> None:
    assert user.run("ps").stdout == b"ID  ENVIRONMENT  PROGRAM  STATE  STARTED\n"
    told = b"outfitter: no commands are running: `outfitter run --on NAME` starts one\n"
    assert seen(user.run("attach")) == (125, b"", told)


def test_time_limit_of_a_detached_command_is_a_usage_error(user: User) -> None:
    done = user.run("run", "--on", "ws://127.0.0.1:1", "--detach", "--timeout", "5", "--", "true")
    assert done.returncode == 2
    assert b"--timeout cannot be used with --detach" in done.stderr


# Finding


def test_id_may_be_begun_or_left_out_when_it_is_clear(server: Server, user: User) -> None:
    first, second = detach(user, server.url, "echo 1; exit 3"), detach(user, server.url, "echo 2; exit 4")
    told = f"outfitter: more than one command matches; choose one of: {first}, {second}\n"
    assert seen(user.run("attach")) == (125, b"", told.encode())
    told = f"outfitter: no command has the ID 'x'; known: {first}, {second}\n"
    assert seen(user.run("attach", "x", "--on", server.url)) == (125, b"", told.encode())
    assert seen(user.run("attach", first[:4])) == (3, b"1\n", b"")
    assert user.run("attach", "--json").stdout.endswith(b'{"event": "exited", "exitCode": 4}\n')
    assert user.records() == []


# Following


def test_command_on_a_unix_socket_is_found_by_a_relative_path(user: User, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "server", listen=f"unix:{user.home}/s") as server:
        ident = detach(user, "unix:s", "sleep 60")
        assert [one["id"] for one in listed(user, "--on", "unix:./s")] == [ident]
        assert [one["id"] for one in listed(user, "--on", server.url)] == [ident]
        assert listed(user, "--on", "unix:t") == []
        done = user.run("kill", "--on", "unix:s", ident)
        assert (done.returncode, done.stderr) == (0, b"")
        detach(user, "unix:s", "exit 3")
        assert user.run("attach", "--on", "unix:s").returncode == 3


def test_attach_shows_what_was_kept_and_what_comes(any_server: Server, user: User, tmp_path: Path) -> None:
    script = f"echo out; echo err >&2; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo more; exit 6"
    detach(user, any_server.url, script, *(STOCK if any_server.kind == "codex" else ()))
    popen = user.start("attach")
    assert read_line(popen) == b"out\n"
    (tmp_path / "go").touch()
    assert read_rest(popen) == (6, b"more\n", b"err\n")
    assert user.records() == []


@pytest.mark.parametrize("kind", ["outfitter", "codex"])
def test_output_that_was_dropped_is_told_and_the_rest_is_shown(kind: str, user: User, tmp_path: Path) -> None:
    with serving(kind, tmp_path / "server") as server:
        # 2 MB, of which one is kept.
        detach(user, server.url, f"seq 300000; touch {tmp_path}/done", *(STOCK if kind == "codex" else ()))
        wait_until((tmp_path / "done").exists, "it has printed all", SECONDS)
        done = user.run("attach")
    assert done.returncode == 0
    assert re.fullmatch(rb"outfitter: the server no longer has \d+ earlier events\n", done.stderr)
    assert done.stdout.endswith(b"299999\n300000\n")
    assert 500_000 < len(done.stdout) <= 1 << 20
    # A torn line at most, then every number up to the last.
    first = int(done.stdout.split(b"\n", 2)[1])
    assert done.stdout.split(b"\n", 1)[1] == b"".join(b"%d\n" % n for n in range(first, 300_001))


def test_attached_command_takes_input(server: Server, user: User) -> None:
    popen = user.start("run", "--on", server.url, "--", "cat", stdin=subprocess.PIPE)
    assert popen.stdin is not None
    popen.stdin.write(b"one\n")
    assert read_line(popen) == b"one\n"
    popen.send_signal(signal.SIGHUP)
    assert popen.wait(SECONDS) == 129
    done = user.run("attach", input=b"two\n")
    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n")


def test_attached_terminal_has_the_size_of_ours(server: Server, user: User) -> None:
    screen = Terminal(31, 97)
    try:
        detach(user, server.url, "echo ready; read x; stty size; exit 3", "--tty")
        popen = screen.start(user, "attach")
        screen.until(b"ready\r\n")
        wait_until(lambda: screen.is_raw, "the terminal is raw")
        screen.type(b"\r")
        assert screen.rest(popen) == (3, b"\r\n31 97\r\n")
        assert not screen.is_raw
    finally:
        screen.close()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_signal_to_attach_leaves_the_command_and_says_how_to_come_back(
    number: signal.Signals, server: Server, user: User
) -> None:
    ident = detach(user, server.url, "echo $$; exec sleep 60")
    popen = user.start("attach")
    pid = int(read_line(popen))
    popen.send_signal(number)
    why = {
        signal.SIGHUP: "the terminal was closed; the command may still run",
        signal.SIGTERM: "detached by a signal; the command goes on",
    }
    status, rest, told = read_rest(popen)
    assert (status, rest) == (128 + number, b"")
    assert told.startswith(f"outfitter: {why[number]}, for at least ".encode())
    assert told.endswith(f": outfitter attach {ident}\n".encode())
    assert alive(pid)
    popen = user.start("attach")
    assert int(read_line(popen)) == pid


def test_signal_to_attach_in_a_session_names_the_session(server: Server, user: User) -> None:
    detach(user, server.url, "echo $$; exec sleep 60")
    [record] = [json.loads(path.read_bytes()) for path in user.records()]
    back = ("attach", "--on", server.url, "--session", record["session_id"], record["process_id"])
    popen = user.start(*back)
    pid = int(read_line(popen))
    popen.send_signal(signal.SIGTERM)
    status, _, told = read_rest(popen)
    assert status == 143
    assert told.endswith(f": outfitter {' '.join(back)}\n".encode())
    assert alive(pid)


def test_sigterm_to_run_ends_the_command(server: Server, user: User) -> None:
    popen = user.start("run", "--on", server.url, "--", "sh", "-c", "echo $$; exec sleep 60")
    pid = int(read_line(popen))
    popen.send_signal(signal.SIGTERM)
    assert popen.wait(SECONDS) == 143
    wait_gone([pid])
    assert user.records() == []


def test_detach_keys_leave_the_command_of_run_and_of_attach(server: Server, user: User) -> None:
    screen = Terminal()
    before = screen.mode
    try:
        popen = screen.start(
            user, "run", "--on", server.url, "--tty", "--", "sh", "-c", "echo ready; exec cat"
        )
        screen.until(b"ready\r\n")
        wait_until(lambda: screen.is_raw, "the terminal is raw")
        screen.type(b"a~d\r")
        screen.until(b"a~d\r\na~d\r\n")  # echoed by the terminal, and by cat
        screen.type(b"~~d\r")
        screen.until(b"~d\r\n~d\r\n")
        screen.type(b"~d")
        status, shown = screen.rest(popen)
        [record] = user.records()
        assert status == 0
        assert shown.startswith(b"outfitter: detached; the command goes on, ")
        assert shown.rstrip().endswith(f": outfitter attach {record.stem}".encode())
        assert screen.mode == before
        assert states(user) == {record.stem: "running"}

        popen = screen.start(user, "attach", "--detach-keys", "ctrl-p,ctrl-q")
        screen.until(b"~d\r\n~d\r\n")
        wait_until(lambda: screen.is_raw, "the terminal is raw")
        screen.type(b"~d\r")
        screen.until(b"~d\r\n~d\r\n")
        screen.type(b"b\x10\x11")
        screen.until(b"outfitter: detached; ")
        assert popen.wait(SECONDS) == 0
        assert states(user) == {record.stem: "running"}
    finally:
        screen.close()


def test_detach_keys_are_none_of_a_pipe_and_none_without_a_server(server: Server, user: User) -> None:
    done = user.run("run", "--on", server.url, "--tty", "--", "head", "-n1", input=b"~d\n")
    assert (done.returncode, done.stdout) == (0, b"~d\r\n~d\r\n")
    done = user.run("run", "--detach-keys", "x-y", "--", "true")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"--detach-keys 'x-y' names no keys: write them as" in done.stderr
    screen = Terminal()
    try:
        popen = screen.start(user, "run", "--tty", "--", "sh", "-c", "echo ready; read x; echo got $x")
        screen.until(b"ready\r\n")
        wait_until(lambda: screen.is_raw, "the terminal is raw")
        screen.type(b"~d\r")  # nothing could be left: the command ends with us
        assert screen.rest(popen) == (0, b"~d\r\ngot ~d\r\n")
    finally:
        screen.close()


# Two who want it


def test_command_that_is_followed_is_refused_unless_taken_over(
    server: Server, user: User, tmp_path: Path
) -> None:
    script = f"echo ready; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo done; exit 7"
    first = user.start("run", "--on", server.url, "--", "sh", "-c", script)
    assert read_line(first) == b"ready\n"
    [record] = user.records()
    held = f"`outfitter` with pid {first.pid} is attached to {record.stem}"
    told = f"outfitter: {held}: add --take-over to take it over\n"
    assert seen(user.run("attach")) == (125, b"", told.encode())
    assert f"attached (pid {first.pid})".encode() in user.run("ps").stdout
    [entry] = listed(user)
    assert (entry["state"], entry["pid"]) == ("attached", first.pid)

    second = user.start("attach", "--take-over")
    assert read_line(second) == b"ready\n"
    told = "outfitter: the server closed the connection: another client has taken the session over\n"
    assert read_rest(first) == (125, b"", told.encode())
    # The record is the new holder's, and the loser has left it alone.
    [entry] = listed(user)
    assert (entry["state"], entry["pid"]) == ("attached", second.pid)
    (tmp_path / "go").touch()
    assert read_rest(second) == (7, b"done\n", b"")
    assert user.records() == []


def test_session_that_somebody_else_holds_is_attached_or_refused(server: Server, user: User) -> None:
    detach(user, server.url, "exec sleep 60")
    session = json.loads(user.records()[0].read_text())["session_id"]

    async def held() -> None:
        async with outfitter.connect(server.url, resume=session):
            done = await asyncio.to_thread(user.run, "attach")
            told = b"outfitter: another client uses this session: add --take-over to take it over\n"
            assert seen(done) == (125, b"", told)
            assert list((await asyncio.to_thread(states, user)).values()) == ["attached"]

    asyncio.run(held())
    assert len(user.records()) == 1


# States


def test_states_are_what_the_servers_say(user: User, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "one") as server:
        running = detach(user, server.url, "exec sleep 60")
        exited = detach(user, server.url, "exit 9")
        wait_until(lambda: states(user)[exited] == "exited", "it has ended")
        assert states(user) == {running: "running", exited: "exited"}
        assert re.search(rb"exited 9 +\d+ s ago\n", user.run("ps").stdout)
    for path in user.records():  # as if the server were on another machine: nobody knows that it has ended
        path.write_text(json.dumps(json.loads(path.read_text()) | {"server": 0}))
    beside = user.start("ps")  # each waits for a server that is not there
    assert states(user) == {running: "unreachable", exited: "unreachable"}
    assert b"unreachable: cannot connect to " in read_rest(beside)[1]
    with serving("outfitter", tmp_path / "one", listen=server.url):
        done = user.run("attach", running)
        assert (done.returncode, done.stdout) == (125, b"")
        assert done.stderr.startswith(b"outfitter: the command is gone: unknown session id")
        assert states(user) == {exited: "gone"}
        assert user.records() == []


def test_states_on_the_stock_server(user: User, tmp_path: Path) -> None:
    with serving("codex", tmp_path / "server") as server:
        running = detach(user, server.url, "exec sleep 60", *STOCK)
        exited = detach(user, server.url, "exit 9", *STOCK)
        wait_until(lambda: states(user) == {running: "running", exited: "exited"}, "it has ended")
    with serving("codex", tmp_path / "server", listen=server.url):
        assert states(user) == {running: "gone", exited: "gone"}


def test_environment_that_is_no_longer_declared_is_unreachable(server: Server, user: User) -> None:
    path = user.declare(f'[[environments]]\nid = "build"\nurl = "{server.url}"\n')
    detach(user, "build", "exit 2")
    path.unlink()
    [entry] = listed(user)
    assert (entry["state"], entry["environment"]) == ("unreachable", "build")
    assert "no environment is named 'build'" in str(entry["reason"])
    assert len(user.records()) == 1


# Sessions of others


def in_session(url: str, then: Callable[[Client], Awaitable[None]]) -> str:
    """What a library client does; the id of the session that it leaves behind."""

    async def main() -> str:
        async with outfitter.connect(url) as client:
            await then(client)
            return client.session_id

    return asyncio.run(main())


def test_session_of_a_library_client_is_listed_and_attached(server: Server, user: User) -> None:
    idents = []

    async def leave(client: Client) -> None:
        for script in ("echo one; exec sleep 60", "exit 2"):
            process = await client.start(["sh", "-c", script], tty=(24, 80) if script == "exit 2" else None)
            process.keep()
            idents.append(process.process_id)
        await process.wait()

    session = in_session(server.url, leave)
    where = ("--on", server.url, "--session", session)
    table = user.run("ps", *where)
    title, *rows = table.stdout.decode().splitlines()
    assert title.split() == ["PROCESS", "PID", "PROGRAM", "STATE", "STARTED"]
    assert [row.split()[0] for row in rows] == idents
    assert [re.search(r"sh +(running|exited \d)", row)[1] for row in rows] == ["running", "exited 2"]  # type: ignore[index]
    entries = listed(user, *where)
    assert [(one["processId"], one["tty"]) for one in entries] == [(idents[0], False), (idents[1], True)]

    popen = user.start("attach", *where, idents[0])
    assert read_line(popen) == b"one\n"
    popen.send_signal(signal.SIGHUP)
    assert popen.wait(SECONDS) == 129
    pid = entries[0]["pid"]
    assert isinstance(pid, int)
    assert alive(pid)  # it is not ours to end
    assert user.run("attach", *where, idents[1]).returncode == 2


def test_session_that_is_unknown_or_lacks_a_process_is_refused(server: Server, user: User) -> None:
    done = user.run("ps", "--on", server.url, "--session", "nonesuch")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"unknown session id nonesuch" in done.stderr
    done = user.run("attach", "--on", server.url, "--session", "nonesuch")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"--session needs the ID of a process" in done.stderr
