"""outfitter run --on: where it runs, what goes there and comes back, and what may break on the way."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from outfitter.cli.target import TlsFiles, find
from outfitter.errors import SettingInvalid
from tests.support.machine import alive, status, wait_gone, wait_until
from tests.support.proxy import cutting
from tests.support.servers import Server, serving

from .commandline import SECONDS, Popen, Terminal, User, read_line, read_rest, stopped

WHERE = ("sh", "-c", "echo $PLACE")
# Says so, waits for a file, and goes on.
PAUSE = "echo ready; while [ ! -e {go} ]; do sleep 0.01; done; "


def seen(done: subprocess.CompletedProcess[bytes]) -> tuple[int, bytes, bytes]:
    return done.returncode, done.stdout, done.stderr


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


# Where


def test_url_runs_it_on_that_server(any_server: Server, user: User) -> None:
    assert seen(user.run("run", "--on", any_server.url, "--", *WHERE)) == (0, b"there\n", b"")


def test_command_that_used_up_its_memory_is_told_so(user: User, tmp_path: Path) -> None:
    greedy = (sys.executable, "-c", "x = bytearray(512 << 20)")
    with serving("outfitter", tmp_path / "home", "--limits", "memory=128MiB") as server:
        assert server.popen.stdout is not None
        if b"cgroup" not in server.popen.stdout.readline():
            pytest.skip("no control group can be made here")
        on = ("run", "--on", server.url)
        for done in (user.run(*on, "--", *greedy), user.run(*on, "--explain", "--", *greedy)):
            assert done.returncode == 137
            assert done.stderr.startswith(b"outfitter: memory was used up, and the kernel has killed")
        lines = user.run(*on, "--json", "--", *greedy).stdout.splitlines()
    assert {"event": "exited", "exitCode": 137, "reason": "out-of-memory"} in map(json.loads, lines)


def test_name_and_default_are_those_of_the_file(server: Server, user: User) -> None:
    user.declare(
        f"""
        default = "build"

        [[environments]]
        id = "build"
        url = "{server.url}"

        [[environments]]
        id = "tool"
        program = "{sys.executable}"
        args = ["-m", "outfitter", "serve", "--listen", "stdio"]
        env = {{ PLACE = "in a program" }}
        """
    )
    here = {"PLACE": "here"}
    assert seen(user.run("run", "--on", "build", "--", *WHERE)) == (0, b"there\n", b"")
    assert seen(user.run("run", "--on", "tool", "--", *WHERE)) == (0, b"in a program\n", b"")
    assert seen(user.run("run", "--", *WHERE)) == (0, b"there\n", b"")
    assert seen(user.run("run", "--on", "local", "--", *WHERE, env=here)) == (0, b"here\n", b"")
    assert user.records() == []


@pytest.mark.parametrize("given", ["", "LC_CTYPE=C.UTF-8\n"])
def test_a_server_that_we_start_has_no_variable_that_python_made_up(user: User, given: str) -> None:
    # In the C locale, Python sets LC_CTYPE in its own environment (PEP 538).
    user.declare(
        f"""
        [[environments]]
        id = "tool"
        program = "{sys.executable}"
        args = ["-m", "outfitter", "serve", "--listen", "stdio"]
        """
    )
    said = dict([given.strip().split("=")]) if given else {}
    show = ("sh", "-c", "env | grep ^LC_; :")
    for on in ("local", "tool"):
        done = user.run("run", "--on", on, "--", *show, env={"LANG": "", **said})
        assert seen(done) == (0, given.encode(), b"")


def test_codex_home_replaces_our_own_file(server: Server, user: User, tmp_path: Path) -> None:
    user.declare("nonsense")
    codex = tmp_path / "codex"
    user.declare(f'[[environments]]\nid = "build"\nurl = "{server.url}"\n', codex)
    args = ("run", "--codex-home", str(codex))
    assert seen(user.run(*args, "--on", "build", "--", *WHERE)) == (0, b"there\n", b"")
    (codex / "environments.toml").unlink()
    variable = {"CODEX_EXEC_SERVER_URL": server.url}
    assert seen(user.run(*args, "--", *WHERE, env=variable)) == (0, b"there\n", b"")


def test_token_opens_a_server_that_asks_for_one(user: User, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("a-token-that-nobody-guesses\n")
    auth = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving("outfitter", tmp_path / "server", *auth, env={"PLACE": "there"}) as server:
        user.declare(
            f'[[environments]]\nid = "build"\nurl = "{server.url}"\n'
            'auth_bearer_token = "a-token-that-nobody-guesses"\n'
        )
        on = ("run", "--on", server.url)
        assert seen(user.run(*on, "--token-file", str(token), "--", *WHERE)) == (0, b"there\n", b"")
        assert seen(user.run("run", "--on", "build", "--", *WHERE)) == (0, b"there\n", b"")
        refused = user.run(*on, "--", *WHERE)
        assert (refused.returncode, refused.stdout) == (125, b"")
        assert f"outfitter: {server.url} refused the connection: 401".encode() in refused.stderr


def test_place_that_is_none_exits_with_125(user: User) -> None:
    user.declare('default = "none"\n[[environments]]\nid = "build"\nurl = "ws://127.0.0.1:1"\n')
    told = b"outfitter: no environment is named 'nonesuch'; known: local, build\n"
    assert seen(user.run("run", "--on", "nonesuch", "--", "true")) == (125, b"", told)
    told = b"outfitter: no default environment is configured: name one with --on\n"
    assert seen(user.run("run", "--", "true")) == (125, b"", told)
    told = b"outfitter: --detach needs a server at a URL, which keeps the command: name one with --on\n"
    assert seen(user.run("run", "--on", "local", "--detach", "--", "true")) == (125, b"", told)


@pytest.mark.parametrize(
    ("on", "token_file", "text"),
    [
        ("http://127.0.0.1:1", None, "must use ws:// or wss://"),
        ("build", "x", "--token-file needs --on URL"),
        ("ws://127.0.0.1:1", "nonesuch", "cannot read --token-file nonesuch: No such file"),
        ("ws://127.0.0.1:1", "/dev/null", "--token-file /dev/null is empty"),
        ("ws://example.com", __file__, "headers require wss:// or a loopback destination"),
    ],
)
def test_place_and_token_must_go_together(on: str, token_file: str | None, text: str) -> None:
    with pytest.raises(SettingInvalid, match=re.escape(text)):
        find(on, None, token_file)


@pytest.mark.parametrize(
    ("on", "tls", "text"),
    [
        ("ws://127.0.0.1:1", TlsFiles(tls_ca="x"), "--tls-ca needs --on wss://HOST:PORT"),
        ("wss://127.0.0.1:1", TlsFiles(tls_key="x"), "tls_key requires tls_cert"),
        ("build", TlsFiles(tls_cert="x"), "for a named environment, set tls_cert"),
        (None, TlsFiles(tls_ca="x"), "for a named environment, set tls_ca"),
    ],
)
def test_place_and_files_for_tls_must_go_together(on: str | None, tls: TlsFiles, text: str) -> None:
    with pytest.raises(SettingInvalid, match=re.escape(text)):
        find(on, None, None, tls)


def test_server_that_is_not_there_exits_with_125(user: User) -> None:
    url = f"ws://127.0.0.1:{closed_port()}"
    done = user.run("run", "--on", url, "--", "true")
    assert seen(done) == (125, b"", f"outfitter: cannot connect to {url}: Connection refused\n".encode())


def test_every_mistake_of_the_file_is_named_with_its_line(user: User) -> None:
    path = user.declare('default = "x"\n\n[[environments]]\nid = "build"\nurk = "ws://127.0.0.1:1"\n')
    done = user.run("run", "--", "true")
    assert (done.returncode, done.stdout) == (125, b"")
    for place in (1, 3, 5):
        assert f"{path}:{place}: " in done.stderr.decode()


def test_secret_in_a_url_is_not_shown(server: Server, user: User) -> None:
    detached = user.run("run", "--on", f"{server.url}/?key=hush", "--detach", "--", "sleep", "60")
    listed = user.run("ps")
    assert (detached.returncode, listed.stdout.count(b"running")) == (0, 1)
    assert b"hush" not in detached.stdout + detached.stderr + listed.stdout + listed.stderr


# What comes back


@pytest.mark.parametrize("script", ["exit 7", "kill -9 $$"])
def test_status_is_the_commands_and_streams_stay_apart(script: str, any_server: Server, user: User) -> None:
    done = user.run("run", "--on", any_server.url, "--", "sh", "-c", f"echo out; echo err >&2; {script}")
    assert seen(done) == (7 if script == "exit 7" else 137, b"out\n", b"err\n")


def test_output_comes_while_the_command_runs(any_server: Server, user: User, tmp_path: Path) -> None:
    script = PAUSE.format(go=tmp_path / "go") + "echo done"
    popen = user.start("run", "--on", any_server.url, "--", "sh", "-c", script)
    assert read_line(popen) == b"ready\n"
    assert popen.poll() is None
    (tmp_path / "go").touch()
    assert read_rest(popen) == (0, b"done\n", b"")


def test_program_that_is_not_there_exits_with_127(server: Server, user: User) -> None:
    done = user.run("run", "--on", server.url, "--", "nonesuch")
    assert (done.returncode, done.stdout) == (127, b"")
    assert done.stderr.startswith(b"outfitter: cannot start nonesuch: ")
    assert user.records() == []


def test_json_lines_are_the_events(server: Server, user: User) -> None:
    done = user.run("run", "--on", server.url, "--json", "--", "sh", "-c", "printf h; exit 3")
    assert (done.returncode, done.stderr) == (3, b"")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"event": "output", "stream": "stdout", "text": "h"},
        {"event": "exited", "exitCode": 3},
    ]


def test_character_that_comes_in_two_pieces_is_whole_in_json(user: User, tmp_path: Path) -> None:
    script = f"printf 'h\\303'; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; printf '\\251\\303'"
    popen = user.start("run", "--json", "--", "sh", "-c", script)
    assert json.loads(read_line(popen)) == {"event": "output", "stream": "stdout", "text": "h"}
    (tmp_path / "go").touch()
    _, stdout, _ = read_rest(popen)
    assert [json.loads(line) for line in stdout.splitlines()] == [
        {"event": "output", "stream": "stdout", "text": "é"},
        {"event": "exited", "exitCode": 0},
        {"event": "output", "stream": "stdout", "base64": "ww=="},
    ]


def test_reader_that_leaves_ends_the_command(server: Server, user: User) -> None:
    # outfitter run --json -- yes | head -1
    popen = user.start("run", "--on", server.url, "--json", "--", "sh", "-c", "echo $$; exec yes")
    pid = int(json.loads(read_line(popen))["text"].split()[0])
    assert popen.stdout is not None
    popen.stdout.close()
    assert popen.wait(SECONDS) == 141
    wait_gone([pid])
    assert popen.stderr is not None
    assert popen.stderr.read() == b""
    assert user.records() == []


def test_output_that_cannot_be_written_ends_the_command(server: Server, user: User) -> None:
    with open("/dev/full", "wb") as full:
        popen = user.start("run", "--on", server.url, "--", "yes", stdout=full.fileno())
    assert popen.wait(SECONDS) == 125
    assert popen.stderr is not None
    assert popen.stderr.read() == b"outfitter: cannot write the output: No space left on device\n"


# The command's surroundings


def test_policy_and_directory_are_applied_there(user: User, tmp_path: Path) -> None:
    (tmp_path / "server" / "sub").mkdir(parents=True)
    with serving("outfitter", tmp_path / "server", env={"API_KEY": "k", "GONE": "g", "KEPT": "v"}) as server:
        on = ("run", "--on", server.url)
        done = user.run(*on, "--default-excludes", "--exclude", "GO*", "--", "/usr/bin/env")
        names = {entry.partition("=")[0] for entry in done.stdout.decode().splitlines()}
        assert names & {"API_KEY", "GONE", "KEPT", "XDG_STATE_HOME"} == {"KEPT"}
        done = user.run(*on, "--inherit", "none", "--set", "A=1", "--", "/usr/bin/env", "-0")
        assert done.stdout == b"A=1\0"
        sub = tmp_path / "server" / "sub"
        assert user.run(*on, "--cwd", str(sub), "--", "pwd").stdout == f"{sub}\n".encode()
        assert user.run(*on, "--cwd", sub.as_uri(), "--", "pwd").stdout == f"{sub}\n".encode()


def test_on_a_server_of_ours_commands_run_where_we_are(user: User, server: Server) -> None:
    # P4
    here = user.run("run", "--", "pwd").stdout
    assert user.run("run", "--on", server.url, "--", "pwd").stdout == here
    below = user.run("run", "--cwd", "/usr/../usr/bin", "--", "pwd").stdout
    assert user.run("run", "--on", server.url, "--cwd", "/usr/../usr/bin", "--", "pwd").stdout == below


def test_on_a_server_of_ours_what_is_explained_is_what_commands_get(user: User, server: Server) -> None:
    # NO_COLOR is harmless: a project sets it without being allowed.
    (user.home / "outfitter.toml").write_text('[env]\nset = { NO_COLOR = "from the project" }\n')
    (user.home / "hook.env").write_text('SEEN="$NO_COLOR"\n')
    on = ("--on", server.url)
    show = ("--", "sh", "-c", "echo $NO_COLOR; echo ${MINE-unset}")

    done = user.run("run", *on, "--explain", *show)
    assert done.stdout.decode().splitlines() == ["from the project", "unset"]
    assert b"provider=project(applied, 1)" in done.stderr
    assert b"provider=project(applied, 1)" in user.run("env", *on).stdout
    assert b"from L3 project" in user.run("env", "explain", *on, "NO_COLOR").stdout
    assert b"NO_COLOR" not in user.run("env", "diff", "here", server.url).stdout
    assert user.run("env", "overlay", *on, "--scope", "s", "--import", "hook.env").returncode == 0
    scoped = user.run("run", *on, "--scope", "s", "--", "sh", "-c", "echo $SEEN")
    assert scoped.stdout == b"from the project\n"

    user.config.mkdir(parents=True, exist_ok=True)
    (user.config / "config.toml").write_text('[daemon]\nenvironment = "client"\n')
    mine = {"MINE": "mine"}
    assert user.run("run", *on, *show, env=mine).stdout.decode().splitlines() == ["from the project", "mine"]
    assert user.run("env", "explain", *on, "MINE", env=mine).returncode == 0
    assert b"MINE" not in user.run("env", "diff", "here", server.url, env=mine).stdout


def test_explanation_is_the_servers(server: Server, user: User) -> None:
    done = user.run("run", "--on", server.url, "--explain", "--set", "A=hush", "--", "sh", "-c", "exit 4")
    assert (done.returncode, done.stdout) == (4, b"")
    summary, shell, differences = done.stderr.decode().splitlines()
    assert summary == "env: base=daemon, policy=envPolicy, provider=none, setup=none"
    assert shell == "shell: sh, startup files off"
    assert "only there: PLACE;" in differences
    assert b"hush" not in done.stderr


def test_server_that_cannot_explain_says_so_and_the_status_stays(user: User, tmp_path: Path) -> None:
    with serving("codex", tmp_path / "server") as server:
        done = user.run("run", "--on", server.url, "--explain", "--", "sh", "-c", "exit 4")
    text = b"outfitter: this executor cannot explain an environment: it does not offer `environmentExplain`\n"
    assert seen(done) == (4, b"", text)


# Input


def test_input_is_passed_on_with_its_end(server: Server, user: User) -> None:
    text = os.urandom(3_000_000)
    done = user.run("run", "--on", server.url, "--", "cat", input=text)
    assert (done.returncode, done.stdout == text, done.stderr) == (0, True, b"")
    assert seen(user.run("run", "--", "cat", input=b"here too")) == (0, b"here too", b"")
    assert seen(user.run("run", "--on", server.url, "--", "cat")) == (0, b"", b"")


def test_input_comes_as_it_is_written(server: Server, user: User) -> None:
    popen = user.start("run", "--on", server.url, "--", "cat", stdin=subprocess.PIPE)
    assert popen.stdin is not None
    for text in (b"one\n", b"two\n"):
        popen.stdin.write(text)
        assert read_line(popen) == text
    assert popen.poll() is None
    assert read_rest(popen) == (0, b"", b"")


def test_input_that_was_closed_is_empty(server: Server, user: User) -> None:
    # Else the descriptor would be that of our own connection.
    closed = ("sh", "-c", 'exec "$@" <&-', "sh")
    popen = user.start("run", "--on", server.url, "--", "cat", through=closed)
    assert read_rest(popen) == (0, b"", b"")


def test_input_that_cannot_be_passed_on_is_empty_and_told(user: User, tmp_path: Path) -> None:
    told = b"outfitter: this server does not support the end of input: the command gets no input\n"
    with serving("codex", tmp_path / "server") as server:
        args = ("run", "--on", server.url, "--", "cat")
        assert seen(user.run(*args, input=b"lost")) == (0, b"", told)
        assert seen(user.run(*args)) == (0, b"", b"")
        screen = Terminal()
        try:
            assert read_rest(user.start(*args, stdin=screen.theirs)) == (0, b"", b"")
        finally:
            screen.close()


# Ctrl-C and other signals


def start_noting(
    user: User, url: str, *flags: str, trap: str = "trap 'echo interrupted' INT"
) -> tuple[Popen, int]:
    """A run whose command notes interrupts and goes on; and the command's pid."""
    script = f"{trap}; echo $$; while :; do sleep 0.02; done"
    popen = user.start("run", "--on", url, *flags, "--", "sh", "-c", script)
    return popen, int(read_line(popen))


def test_ctrl_c_interrupts_the_command(any_server: Server, user: User) -> None:
    popen, _ = start_noting(user, any_server.url, trap="trap 'echo interrupted; exit 7' INT")
    popen.send_signal(signal.SIGINT)
    assert read_rest(popen) == (7, b"interrupted\n", b"")


def test_second_ctrl_c_ends_the_command(server: Server, user: User) -> None:
    popen, pid = start_noting(user, server.url)
    popen.send_signal(signal.SIGINT)
    assert read_line(popen) == b"interrupted\n"
    assert popen.poll() is None
    popen.send_signal(signal.SIGINT)
    assert read_rest(popen) == (137, b"", b"")
    wait_gone([pid])
    assert user.records() == []


def test_third_ctrl_c_stops_waiting_for_a_server_that_does_not_answer(server: Server, user: User) -> None:
    popen, _ = start_noting(user, server.url)
    with stopped(server):
        for _ in range(3):
            popen.send_signal(signal.SIGINT)
            wait_until(lambda: not pending(popen.pid, signal.SIGINT), "the signal was taken")
        code, stdout, stderr = read_rest(popen)
        [record] = user.records()
        assert (code, stdout) == (130, b"")
        assert stderr.decode() == (
            "outfitter: gave up waiting for the server; the command may still run, for at least 30 s unless "
            f"a client attaches to it: outfitter attach {record.stem}\n"
        )


def pending(pid: int, number: int) -> bool:
    """Whether a signal has been sent but not taken: those of one kind are not counted, they merge."""
    return bool(int(status(pid).get("ShdPnd", "0"), 16) >> (number - 1) & 1)


def test_sigterm_ends_the_command(any_server: Server, user: User) -> None:
    popen, pid = start_noting(user, any_server.url)
    popen.send_signal(signal.SIGTERM)
    code, _, stderr = read_rest(popen)
    assert (code, stderr) == (143, b"")
    wait_gone([pid])
    assert user.records() == []


def test_sigterm_does_not_wait_for_ever_for_a_server_that_does_not_answer(server: Server, user: User) -> None:
    popen, _ = start_noting(user, server.url)
    with stopped(server):
        popen.send_signal(signal.SIGTERM)
        code, _, stderr = read_rest(popen)
    assert code == 143
    assert stderr.startswith(b"outfitter: the server does not answer; the command may still run, ")
    assert len(user.records()) == 1


def test_sigterm_ends_the_command_though_nobody_reads_its_output(server: Server, user: User) -> None:
    popen = user.start("run", "--on", server.url, "--", "sh", "-c", "echo $$; exec yes")
    pid = int(read_line(popen))
    wait_until(lambda: is_full(popen) and status(popen.pid)["State"][0] == "S", "it waits for a reader")
    popen.send_signal(signal.SIGTERM)
    assert popen.wait(SECONDS) == 143
    wait_gone([pid])


def is_full(popen: Popen) -> bool:
    """Whether its standard output, a pipe that nobody reads, takes no more than a page or two."""
    assert popen.stdout is not None
    (size,) = struct.unpack("i", fcntl.ioctl(popen.stdout, termios.FIONREAD, bytes(4)))
    return bool(size > fcntl.fcntl(popen.stdout, fcntl.F_GETPIPE_SZ) - 2 * 4096)


def test_closed_terminal_leaves_the_command_running(any_server: Server, user: User, tmp_path: Path) -> None:
    script = f"echo $$; {PAUSE.format(go=tmp_path / 'go')} echo done; exit 9"
    popen = user.start("run", "--on", any_server.url, "--", "sh", "-c", script)
    pid = int(read_line(popen))
    assert read_line(popen) == b"ready\n"
    popen.send_signal(signal.SIGHUP)
    code, _, stderr = read_rest(popen)
    [record] = user.records()
    kept = "for at least 30 s unless a client attaches to it"
    if any_server.kind == "codex":
        kept = "for as long as its server keeps the session"
    assert (code, stderr.decode()) == (
        129,
        f"outfitter: the terminal was closed; the command may still run, {kept}: "
        f"outfitter attach {record.stem}\n",
    )
    assert alive(pid)
    [entry] = json.loads(user.run("ps", "--json").stdout)
    assert (entry["id"], entry["program"], entry["state"]) == (record.stem, "sh", "running")
    (tmp_path / "go").touch()
    assert seen(user.run("attach")) == (9, f"{pid}\nready\ndone\n".encode(), b"")
    assert user.records() == []


def test_signal_that_we_were_told_to_ignore_stays_ignored(server: Server, user: User, tmp_path: Path) -> None:
    script = PAUSE.format(go=tmp_path / "go") + "exit 3"
    nohup = ("sh", "-c", 'trap "" HUP INT; exec "$@"', "sh")
    popen = user.start("run", "--on", server.url, "--", "sh", "-c", script, through=nohup)
    assert read_line(popen) == b"ready\n"
    popen.send_signal(signal.SIGHUP)
    popen.send_signal(signal.SIGINT)
    (tmp_path / "go").touch()
    assert read_rest(popen) == (3, b"", b"")


def test_time_that_is_up_ends_the_command_there(server: Server, user: User) -> None:
    popen, pid = start_noting(user, server.url, "--timeout", "0.3")
    assert read_rest(popen) == (124, b"", b"outfitter: sh was ended after 0.3 s\n")
    wait_gone([pid])
    assert user.records() == []


# Records


def test_record_is_the_owners_alone_and_holds_no_secret(user: User, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("hush-token-of-all\n")
    auth = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving("outfitter", tmp_path / "server", *auth) as server:
        flags = ("--token-file", str(token), "--set", "A=hush-variable")
        popen, _ = start_noting(user, server.url, *flags, trap=": hush-argument")
        [record] = user.records()
        assert stat.S_IMODE(record.stat().st_mode) == 0o600
        assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
        assert "hush" not in record.read_text()
        popen.send_signal(signal.SIGINT)
        assert popen.wait(SECONDS) == 130
        assert user.records() == []


def test_state_that_cannot_be_written_is_told_and_the_command_runs(server: Server, user: User) -> None:
    (user.home / "state").write_text("a file")
    told = (
        rf"outfitter: `outfitter attach` will not find this command: cannot write {user.commands}/\w+\.json: "
    )
    done = user.run("run", "--on", server.url, "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, b"out\n")
    assert re.fullmatch(told + r"Not a directory\n", done.stderr.decode())
    # Left behind it would be nobody's.
    done = user.run("run", "--on", server.url, "--detach", "--", "sh", "-c", "echo $$; exec sleep 60")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"outfitter: the command was ended, because nobody could find it again\n" in done.stderr


# Broken connections


def test_connection_that_breaks_is_one_line_and_no_failure(
    any_server: Server, user: User, tmp_path: Path
) -> None:
    script = PAUSE.format(go=tmp_path / "go") + "seq 100000; exit 3"
    with cutting(any_server) as cutter:
        user.declare(f'[[environments]]\nid = "build"\nurl = "{cutter.url}"\n')
        cutter.budget = 200_000  # in the middle of its output, which takes 785 kB
        popen = user.start("run", "--on", "build", "--", "sh", "-c", script)
        assert read_line(popen) == b"ready\n"
        cutter.budget = None
        (tmp_path / "go").touch()
        code, stdout, stderr = read_rest(popen)
    assert code == 3
    assert stdout == b"".join(b"%d\n" % number for number in range(1, 100_001))
    told = r"outfitter: the connection to build was lost and recovered after \d+\.\d s\n"
    assert re.fullmatch(told, stderr.decode())


def test_server_that_dies_exits_with_125(user: User, tmp_path: Path) -> None:
    # A server that keeps sessions for 6 s is waited for 5.
    with serving("outfitter", tmp_path / "server", "--session-retention", "6") as server:
        popen, pid = start_noting(user, server.url)
        server.popen.kill()
        code, stdout, stderr = read_rest(popen)
    assert (code, stdout) == (125, b"")
    assert re.fullmatch(r"outfitter: .*failed to resume exec-server session: .*\n", stderr.decode())
    wait_gone([pid])
