"""process/start with a sandbox, over the wire: what a client sees, and what is left behind."""

from __future__ import annotations

import base64
import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import unix_connect

from outfitter.host.sandbox.bubblewrap import Finder
from tests.support.machine import SECOND, running, wait_gone, wait_until
from tests.support.sandbox import (
    READ_ONLY,
    WORKSPACE,
    Ran,
    finish,
    managed,
    need_sandbox,
    path,
    run,
    sandbox,
    special,
    start,
)
from tests.support.servers import Server, serving
from tests.support.wire import Wire, b64, start_params

PROTECTED = {".git", ".agents", ".codex", ".aws"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Server]:
    need_sandbox()
    (home / ".profile").write_text("export FROM_PROFILE=1\n")
    (home / ".bashrc").write_text("export FROM_BASHRC=1\n")
    with serving("outfitter", home, env={"SERVER_SECRET": "hush"}) as server:
        yield server


def shell(wire: Wire, text: str, ws: Path, profile: Any = WORKSPACE, **more: Any) -> Ran:
    return run(wire, ["/bin/sh", "-c", text], cwd=ws, sandbox=sandbox(profile, ws), **more)


def placeholders(ws: Path) -> set[str]:
    return PROTECTED & set(os.listdir(ws))


# What a client is told


@pytest.mark.parametrize(
    ("profile", "touches"),
    [
        (READ_ONLY, False),
        (WORKSPACE, True),
        ({"type": "disabled"}, True),
        ({"type": "external", "network": "enabled"}, True),
        ({"type": "external", "network": "restricted"}, True),
        ({"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"}, True),
        (managed(special("root", "write")), True),
        (managed(special("root", "write"), network="enabled"), True),
        (managed(special("root", "write"), path("/usr", "read")), True),
        (managed(special("root", "read"), network="enabled"), False),
    ],
)
def test_every_request_with_a_sandbox_has_its_type(wire: Wire, ws: Path, profile: Any, touches: bool) -> None:
    ran = shell(wire, "touch new", ws, profile)
    assert (ran.kind, ran.code == 0, (ws / "new").exists()) == ("linuxSeccomp", touches, touches)


def test_a_request_without_one_has_none(wire: Wire, ws: Path) -> None:
    assert run(wire, ["true"], cwd=ws).kind == "none"


@pytest.mark.parametrize(
    ("text", "code", "denied"),
    [
        ("exit 0", 0, False),
        ("touch /etc/outfitter-test", 1, True),
        ("echo 'Permission denied' >&2; exit 2", 2, True),
        ("echo 'Permission denied'; exit 0", 0, False),
        ("exit 2", 2, False),
        ("exit 7", 7, False),
        ("kill -TERM $$", 143, False),
        ("kill -SYS $$", 159, True),
        ("exec /no/such/program", 127, False),
    ],
)
def test_how_a_command_ended(wire: Wire, ws: Path, text: str, code: int, denied: bool) -> None:
    process, started = start(wire, ["/bin/sh", "-c", text], cwd=ws, sandbox=sandbox(WORKSPACE, ws))
    ran = finish(wire, process, started)
    assert (ran.code, ran.denied) == (code, denied), ran
    read = wire.call("process/read", {"processId": process, "afterSeq": 0, "maxBytes": None, "waitMs": 0})
    assert (read["exitCode"], read["sandboxDenied"]) == (code, denied)


def test_a_program_that_is_missing_fails_inside(wire: Wire, ws: Path) -> None:
    ran = run(wire, ["no-such-program"], cwd=ws, sandbox=sandbox(READ_ONLY))
    assert ran.code == 1
    assert ran.stderr == "bwrap: execvp no-such-program: No such file or directory\n"


def test_a_directory_that_is_missing_is_an_error(wire: Wire, ws: Path) -> None:
    asked = start_params("no-cwd", ["true"], cwd=f"file://{ws}/no", sandbox=sandbox(READ_ONLY))
    assert wire.error("process/start", asked)["message"] == "No such file or directory (os error 2)"


def test_a_managed_network_is_refused(wire: Wire, ws: Path) -> None:
    asked = start_params("net", ["true"], sandbox=sandbox(READ_ONLY), enforceManagedNetwork=True)
    error = wire.error("process/start", asked)
    assert (error["code"], error["data"]["error"]) == (-32602, "sandbox-unavailable")
    assert error["message"].startswith("sandbox intent cannot be enforced on this executor: ")


def test_landlock_alone_is_refused_as_by_the_reference(wire: Wire, ws: Path) -> None:
    ran = run(wire, ["touch", "new"], cwd=ws, sandbox=sandbox(WORKSPACE, ws, useLegacyLandlock=True))
    assert (ran.code, ran.denied, (ws / "new").exists()) == (101, True, False)
    assert "requires bubblewrap" in ran.stderr


def test_a_policy_that_cannot_be_expressed_ends_the_command(wire: Wire, ws: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (ws / ".git").symlink_to(tmp_path / "real")
    ran = shell(wire, "echo ran", ws)
    assert (ran.code, ran.stdout) == (1, "")
    assert "because it crosses writable symlink" in ran.stderr
    assert not placeholders(ws) - {".git"}


# Files


def test_hidden_files_are_empty_and_cannot_be_opened(wire: Wire, ws: Path) -> None:
    (ws / "secret").write_text("hush")
    (ws / "folder").mkdir()
    (ws / "folder" / "inner").write_text("hush")
    profile = managed(
        special("root", "read"),
        special("project_roots", "write"),
        path(ws / "secret", "deny"),
        path(ws / "folder", "deny"),
    )
    ran = shell(wire, "cat secret; ls folder; stat -c '%a %s' secret folder; rm -f secret", ws, profile)
    assert ran.stdout.splitlines() == ["0 0", "0 40"]
    assert ran.stderr.count("Permission denied") == 2 and ran.denied
    assert (ws / "secret").read_text() == "hush"


def test_a_hidden_file_that_is_missing_cannot_be_made(wire: Wire, ws: Path) -> None:
    profile = managed(special("root", "read"), special("project_roots", "write"), path(ws / "no", "deny"))
    ran = shell(wire, "echo x > no", ws, profile)
    assert ran.code != 0 and ran.denied
    wait_until(lambda: not (ws / "no").exists(), "its placeholder is gone")


def test_patterns_hide_what_matches_at_the_start(wire: Wire, ws: Path) -> None:
    (ws / "deep" / "er").mkdir(parents=True)
    for name in ("a.env", "deep/b.env", "deep/er/c.env", "deep/er/plain"):
        (ws / name).write_text("hush")
    hides = {"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "deny"}
    profile = managed(special("root", "read"), special("project_roots", "write"), hides)
    ran = shell(wire, "cat a.env deep/b.env deep/er/*; echo x > late.env; cat late.env", ws, profile)
    assert ran.stdout == "hushx\n" and ran.stderr.count("Permission denied") == 3, ran
    ran = shell(wire, "cat late.env", ws, profile)  # the next command looks again
    assert (ran.stdout, ran.denied) == ("", True)


def test_a_pattern_for_everything_is_refused(wire: Wire, ws: Path) -> None:
    hides = {"path": {"type": "glob_pattern", "pattern": "/**/*.env"}, "access": "deny"}
    ran = shell(wire, "echo ran", ws, managed(special("root", "read"), hides))
    assert (ran.code, ran.stdout) == (1, "") and "cannot be safely expanded" in ran.stderr


def test_minimal_reads_show_nothing_else(wire: Wire, ws: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("hush")
    profile = managed(special("minimal", "read"), path(ws, "write"))
    ran = shell(wire, f"pwd; touch new; cat {tmp_path}/other; touch /here /usr/here; ls /", ws, profile)
    assert "hush" not in ran.stdout and (ws / "new").exists()
    assert ran.stdout.splitlines()[0] == str(ws)
    assert ran.stderr.count("No such file") == 1 and ran.stderr.count("Read-only file system") == 2
    assert {"root", "home", "var"}.isdisjoint(ran.stdout.split())


def test_a_directory_that_is_not_visible_inside_becomes_the_root(wire: Wire, tmp_path: Path) -> None:
    ran = run(wire, ["/bin/pwd"], cwd=tmp_path, sandbox=sandbox(managed(special("minimal", "read"))))
    assert ran.stdout == "/\n"


def test_a_directory_in_shared_memory_is_not_there_unless_it_may_be_written(wire: Wire) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for profile, seen in ((READ_ONLY, "/"), (WORKSPACE, folder)):
            assert shell(wire, "pwd", Path(folder), profile).stdout == f"{seen}\n"


def test_a_file_can_be_writable_by_itself(wire: Wire, ws: Path) -> None:
    (ws / "one").write_text("")
    (ws / "two").write_text("")
    profile = managed(special("root", "read"), path(ws / "one", "write"))
    ran = shell(wire, "echo x > one; echo x > two", ws, profile)
    assert ((ws / "one").read_text(), (ws / "two").read_text(), ran.code != 0) == ("x\n", "", True)


def test_an_explicit_rule_lifts_the_protection(wire: Wire, ws: Path) -> None:
    (ws / ".git").mkdir()
    profile = managed(special("root", "read"), special("project_roots", "write"), path(ws / ".git", "write"))
    assert shell(wire, "touch .git/new", ws, profile).code == 0
    assert (ws / ".git" / "new").exists()


@pytest.mark.skipif(not os.path.exists("/dev/console"), reason="needs a device that no sandbox has")
def test_a_device_can_be_hidden(wire: Wire, ws: Path) -> None:
    profile = managed(special("root", "read"), path("/dev/console", "deny"))
    ran = shell(wire, "cat /dev/console; touch /dev/new; echo", ws, profile)
    assert "/dev/console: Permission denied" in ran.stderr and "Read-only file system" in ran.stderr, ran


def test_shared_memory_has_a_size(wire: Wire, ws: Path) -> None:
    ran = shell(wire, "df -k --output=size /dev/shm | tail -1; touch /dev/new", ws, READ_ONLY)
    assert int(ran.stdout) == 256 << 10 and "Read-only" in ran.stderr


def test_more_variables_than_fit_on_a_command_line(wire: Wire, ws: Path) -> None:
    env = {f"NAME_{number}": "x" * 1000 for number in range(1000)}
    assert shell(wire, "echo ${#NAME_999}", ws, env=env).stdout == "1000\n"


def test_a_zero_byte_adds_no_words(wire: Wire, ws: Path) -> None:
    words = "x\0--bind\0/\0/"
    for more in ({"env": {"PATH": "/usr/bin:/bin", "X": words}}, {"argv": ["echo", words]}):
        asked = start_params("zero", ["true"], sandbox=sandbox(READ_ONLY))
        message = wire.error("process/start", {**asked, **more})["message"]
        assert "nul byte" in message or "NUL" in message


def test_nothing_of_the_request_acts_outside(wire: Wire, ws: Path, tmp_path: Path) -> None:
    source = tmp_path / "evil.c"
    source.write_text(
        "#include <fcntl.h>\n__attribute__((constructor)) void run(void) {"
        f' open("{tmp_path}/escaped", O_CREAT | O_WRONLY, 0600);'
        f' open("{ws}/inside", O_CREAT | O_WRONLY, 0600); }}'
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", ws / "evil.so", source], check=True)
    fake = ws / "bwrap"
    fake.write_text("#!/bin/sh\ntouch ../escaped\n")
    fake.chmod(0o755)
    env = {"LD_PRELOAD": f"{ws}/evil.so", "PATH": f"{ws}:/usr/bin:/bin", "LD_LIBRARY_PATH": str(ws)}
    shell(wire, "true", ws, env=env)
    assert ((ws / "inside").exists(), (tmp_path / "escaped").exists()) == (True, False)


def test_startup_files_are_masked_for_every_descendant(wire: Wire, ws: Path, home: Path) -> None:
    bash = f"env -i HOME={home} bash"
    text = f"{bash} -lc 'echo [$FROM_PROFILE]'; {bash} -ic 'echo [$FROM_BASHRC]'"
    ran = shell(wire, text, ws, READ_ONLY, env={"HOME": str(home)})
    assert ran.stdout == "[]\n[]\n", ran


# Placeholders


def test_placeholders_are_gone_after_the_last_command(wire: Wire, ws: Path) -> None:
    one, first = start(wire, ["cat"], cwd=ws, sandbox=sandbox(WORKSPACE, ws), pipeStdin=True)
    two, second = start(wire, ["cat"], cwd=ws, sandbox=sandbox(WORKSPACE, ws), pipeStdin=True)
    assert placeholders(ws) == PROTECTED
    wire.call("process/write", {"processId": one, "chunk": "", "writeId": "w", "eof": True})
    finish(wire, one, first)
    # The other still needs them: it cannot make one of its own.
    ran = shell(wire, "mkdir .git 2>/dev/null; echo x > .git/config", ws)
    assert ran.denied and placeholders(ws) == PROTECTED
    wire.call("process/terminate", {"processId": two})
    finish(wire, two, second)
    wait_until(lambda: not placeholders(ws), "placeholders are gone")


def test_open_files_are_limited_as_without_a_sandbox(wire: Wire, ws: Path) -> None:
    asked = ["/bin/sh", "-c", "ulimit -Sn; ulimit -Hn"]
    inside = run(wire, asked, cwd=ws, sandbox=sandbox(READ_ONLY))
    outside = run(wire, asked, cwd=ws)
    assert inside.stdout == outside.stdout != ""


def test_what_is_written_in_the_place_of_a_missing_name_never_leaves_the_sandbox(
    wire: Wire, ws: Path
) -> None:
    ran = shell(
        wire, "chmod 700 .codex && echo x > .codex/config.toml; head -c 9000 /dev/zero > .codex/b", ws
    )
    assert ran.code != 0 and "No space left" in ran.stderr  # a page of its own, and no more
    wait_until(lambda: not placeholders(ws), "placeholders are gone")
    assert os.listdir(ws) == []


def test_what_somebody_made_meanwhile_stays(wire: Wire, ws: Path) -> None:
    one, first = start(wire, ["cat"], cwd=ws, sandbox=sandbox(WORKSPACE, ws), pipeStdin=True)
    (ws / ".git" / "HEAD").write_text("ref")
    (ws / ".codex").rmdir()
    (ws / ".codex").write_text("a file")
    wire.call("process/terminate", {"processId": one})
    finish(wire, one, first)
    wait_until(lambda: placeholders(ws) == {".git", ".codex"}, "placeholders are gone")


def test_a_folder_that_was_empty_before_stays(wire: Wire, ws: Path) -> None:
    (ws / ".git").mkdir()
    assert shell(wire, "touch .git/x", ws).denied
    wait_until(lambda: placeholders(ws) == {".git"}, "placeholders are gone")


def test_two_servers_share_a_placeholder(wire: Wire, ws: Path, home: Path) -> None:
    with serving("outfitter", home) as other, Wire(other.url) as second:
        second.handshake()
        process, started = start(second, ["cat"], cwd=ws, sandbox=sandbox(WORKSPACE, ws), pipeStdin=True)
        shell(wire, "true", ws)
        assert shell(wire, "echo x > .git/config", ws).denied
        assert placeholders(ws) == PROTECTED
        second.call("process/terminate", {"processId": process})
        finish(second, process, started)
        wait_until(lambda: not placeholders(ws), "placeholders are gone")


def test_a_killed_server_leaves_nothing_for_long(ws: Path, tmp_path: Path) -> None:
    need_sandbox()
    home = tmp_path / "home"
    home.mkdir()
    mark = f"60.{os.getpid()}"
    with serving("outfitter", home) as server, Wire(server.url) as wire:
        wire.handshake()
        start(wire, ["sh", "-c", f"echo up; sleep {mark}"], cwd=ws, sandbox=sandbox(WORKSPACE, ws))
        wire.until(lambda one: one["method"] == "process/output")
        inside = running(mark)
        assert inside
        os.kill(server.pid, signal.SIGKILL)
        wait_gone(inside)
    assert placeholders(ws) == PROTECTED
    with serving("outfitter", home):
        wait_until(lambda: not placeholders(ws), "the next server has tidied up")


def test_a_server_that_ends_leaves_nothing(ws: Path, tmp_path: Path) -> None:
    need_sandbox()
    with serving("outfitter", tmp_path / "home") as server, Wire(server.url) as wire:
        wire.handshake()
        start(wire, ["sleep", "60"], cwd=ws, sandbox=sandbox(WORKSPACE, ws))
        assert placeholders(ws) == PROTECTED
    assert not placeholders(ws)


# Which bubblewrap


def logging_bubblewrap(tmp_path: Path) -> tuple[Path, Path]:
    """One that writes down what it is asked, and where it does."""
    program, log = tmp_path / "bwrap", tmp_path / "log"
    program.write_text(f'#!/bin/sh\necho "$1" >> {log}\nexec {Finder().find().path} "$@"\n')
    program.chmod(0o755)
    return program, log


def test_bubblewrap_is_probed_at_the_start_where_sandboxes_were_used(tmp_path: Path, ws: Path) -> None:
    need_sandbox()
    program, log = logging_bubblewrap(tmp_path)
    home = tmp_path / "home"
    (home / ".local/state/outfitter/sandbox").mkdir(parents=True)
    with serving("outfitter", home, "--sandbox-program", str(program)) as server, Wire(server.url) as wire:
        wait_until(lambda: log.exists() and "--args" in log.read_text(), "it was probed")
        wire.handshake()
        for _ in range(2):
            assert run(wire, ["true"], cwd=ws, sandbox=sandbox(READ_ONLY, ws)).code == 0
        assert log.read_text().count("--help") == 1


def test_a_command_cannot_write_where_bubblewrap_is(tmp_path: Path, ws: Path) -> None:
    need_sandbox()
    program, _ = logging_bubblewrap(ws)
    with (
        serving("outfitter", tmp_path / "home", "--sandbox-program", str(program)) as server,
        Wire(server.url) as wire,
    ):
        wire.handshake()
        asked = start_params("p", ["true"], cwd=f"file://{ws}", env={}, sandbox=sandbox(WORKSPACE, ws))
        assert f"could replace {program}" in wire.error("process/start", asked)["message"]
        assert run(wire, ["true"], cwd=ws, sandbox=sandbox(READ_ONLY, ws)).code == 0


# Signals and terminals

# Without programs in the loop: an interrupt while bash 5.2 begins to wait for one makes bash send the
# interrupt to itself for ever (its handler is set, and the one before it not noted yet), in a sandbox or not.
TRAP = "trap 'echo trapped; exit 7' INT; echo up; while :; do read -t 0.05 x; done"


def test_an_interrupt_reaches_the_command(wire: Wire, ws: Path) -> None:
    process, started = start(wire, ["/bin/bash", "-c", TRAP], cwd=ws, sandbox=sandbox(WORKSPACE, ws))
    wire.until(lambda one: one["method"] == "process/output")
    wire.call("process/signal", {"processId": process, "signal": "interrupt"})
    ran = finish(wire, process, started)
    assert (ran.code, ran.stdout) == (7, "up\ntrapped\n")


def test_an_interrupt_right_after_the_start_is_not_lost(wire: Wire, ws: Path) -> None:
    for _ in range(5):
        process, started = start(wire, ["sleep", "60"], cwd=ws, sandbox=sandbox(WORKSPACE, ws))
        wire.call("process/signal", {"processId": process, "signal": "interrupt"})
        assert finish(wire, process, started).code == 130


def test_a_graceful_end_lets_the_command_clean_up(wire: Wire, ws: Path) -> None:
    text = "trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done"
    process, started = start(wire, ["/bin/bash", "-c", text], cwd=ws, sandbox=sandbox(WORKSPACE, ws))
    wire.until(lambda one: one["method"] == "process/output")
    wire.call("process/terminate", {"processId": process, "graceMs": 20_000})
    ran = finish(wire, process, started)
    assert (ran.code, ran.stdout) == (4, "up\nbye\n")


def test_terminate_takes_those_who_hide(wire: Wire, ws: Path) -> None:
    mark = f"61.{os.getpid()}"
    text = f"setsid sh -c 'setsid sleep {mark} & echo up; wait' & wait"
    process, started = start(wire, ["/bin/sh", "-c", text], cwd=ws, sandbox=sandbox(WORKSPACE, ws))
    wire.until(lambda one: one["method"] == "process/output")
    wait_until(lambda: bool(running(mark)), "it runs")
    inside = running(mark)
    wire.call("process/terminate", {"processId": process})
    finish(wire, process, started)
    wait_gone(inside)


def terminal(wire: Wire, ws: Path, text: str) -> tuple[str, dict[str, Any]]:
    argv = ["/bin/bash", "--norc", "-c", text]
    return start(wire, argv, cwd=ws, sandbox=sandbox(WORKSPACE, ws), tty=True, env={"TERM": "xterm"})


def test_a_terminal_controls_its_command(wire: Wire, ws: Path) -> None:
    text = "tty; echo via /dev/tty > /dev/tty; set -m; sleep 60 & jobs; kill %1; ps -o tty= -p $$; stty size"
    ran = finish(wire, *terminal(wire, ws, text))
    assert "via /dev/tty" in ran.terminal and "sleep 60" in ran.terminal and "24 80" in ran.terminal, ran
    assert ran.code == 0 and "no job control" not in ran.terminal


def wait_for_output(wire: Wire, process: str) -> None:
    wire.until(lambda one: one["method"] == "process/output" and one["params"]["processId"] == process)


def test_control_c_interrupts(wire: Wire, ws: Path) -> None:
    for how in ("typed", "asked"):
        process, started = terminal(wire, ws, TRAP)
        wait_for_output(wire, process)
        if how == "typed":
            wire.call("process/write", {"processId": process, "chunk": b64(b"\x03"), "writeId": "c"})
        else:
            wire.call("process/signal", {"processId": process, "signal": "interrupt"})
        ran = finish(wire, process, started)
        assert (ran.code, "trapped" in ran.terminal) == (7, True)


@pytest.mark.parametrize("command", [0x5412, 0x5412 | 1 << 32, 0x541C])
def test_words_cannot_be_typed_into_the_terminal(wire: Wire, ws: Path, command: int) -> None:
    code = (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
        f"print(libc.ioctl(0, ctypes.c_ulong({command}), b'x'), ctypes.get_errno())"
    )
    argv = [sys.executable, "-I", "-S", "-c", code]
    ran = run(wire, argv, cwd=ws, sandbox=sandbox(READ_ONLY), tty=True)
    assert ran.terminal.strip() == "-1 1"


@pytest.mark.parametrize("tty", [False, True])
def test_a_program_can_have_another_name(wire: Wire, ws: Path, tty: bool) -> None:
    argv = ["/bin/sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline"]
    ran = run(wire, argv, arg0="other", cwd=ws, sandbox=sandbox(READ_ONLY), tty=tty)
    assert (ran.stdout or ran.terminal).startswith("other -c tr "), ran


# An upgrade in place


def test_an_upgrade_keeps_commands_in_their_sandboxes(ws: Path, tmp_path: Path) -> None:
    need_sandbox()
    with serving("outfitter", tmp_path / "home") as server:
        with Wire(server.url) as wire:
            session = wire.handshake()["sessionId"]
            process, _started = start(
                wire, ["/bin/bash", "-c", TRAP], cwd=ws, sandbox=sandbox(WORKSPACE, ws), pipeStdin=True
            )
            wire.until(lambda one: one["method"] == "process/output")
            os.kill(server.pid, signal.SIGUSR2)
            wire.ended()
        with Wire(server.url) as wire:
            wire.handshake(session)
            assert placeholders(ws) == PROTECTED
            assert shell(wire, "echo x > .git/config", ws).denied
            assert placeholders(ws) == PROTECTED
            wire.call("process/signal", {"processId": process, "signal": "interrupt"})
            params = {"processId": process, "afterSeq": 0, "maxBytes": None, "waitMs": 0}
            wait_until(lambda: wire.call("process/read", params)["closed"], "it has closed", 20 * SECOND)
            read = wire.call("process/read", params)
            said = b"".join(base64.b64decode(one["chunk"]) for one in read["chunks"])
            assert (read["exitCode"], said) == (7, b"up\ntrapped\n")
            wait_until(lambda: not placeholders(ws), "placeholders are gone")


# The server itself

CONNECT = """
import socket, sys
kind, address = sys.argv[1:]
one = socket.socket(socket.AF_UNIX) if kind == "unix" else socket.socket()
one.settimeout(20)
try:
    one.connect(address if kind == "unix" else ("127.0.0.1", int(address)))
    one.sendall(
        b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
        b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n"
    )
    print(one.recv(4096).decode().split("\\r\\n")[0])
except OSError as error:
    print("refused")
"""
ON_THE_NETWORK = managed(special("root", "read"), network="enabled")


def calling(wire: Wire, ws: Path, kind: str, address: str) -> str:
    argv = [sys.executable, "-I", "-S", "-c", CONNECT, kind, address]
    return run(wire, argv, cwd=ws, sandbox=sandbox(ON_THE_NETWORK)).stdout.strip()


def test_a_command_on_the_network_is_no_client_of_its_server(wire: Wire, ws: Path, server: Server) -> None:
    assert calling(wire, ws, "tcp", str(server.port)) == "HTTP/1.1 403 Forbidden"


def test_others_can_connect_meanwhile(wire: Wire, ws: Path, server: Server) -> None:
    process, started = start(wire, ["cat"], cwd=ws, sandbox=sandbox(ON_THE_NETWORK), pipeStdin=True)
    with Wire(server.url) as other:
        other.handshake()
    wire.call("process/terminate", {"processId": process})
    finish(wire, process, started)


class UnixWire(Wire):
    """A client of a server that listens on a unix socket."""

    def __init__(self, path: str) -> None:
        self._context = unix_connect(path, compression=None, ping_interval=None, max_size=None)
        self.socket = self._context.__enter__()
        self.notices = []
        self._answers = {}
        self._ids = itertools.count(1)


def test_the_servers_unix_socket_cannot_be_reached(ws: Path, tmp_path: Path) -> None:
    need_sandbox()
    path = tmp_path / "socket"
    with serving("outfitter", tmp_path / "home", listen=f"unix:{path}"), UnixWire(str(path)) as wire:
        wire.handshake()
        assert calling(wire, ws, "unix", str(path)) == "refused"


# What stays in its place


def test_nothing_else_can_be_put_where_a_name_is_protected(wire: Wire, ws: Path) -> None:
    project = ws / "a" / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".git" / "HEAD").touch()
    profile = managed(special("root", "read"), special("project_roots", "write"))
    text = "mv a b; mkdir -p a/project/.git/hooks; touch a/project/.git/hooks/pre-commit; touch a/new new"
    ran = run(wire, ["/bin/sh", "-c", text], cwd=ws, sandbox=sandbox(profile, ws, project))
    assert (ran.code, sorted(os.listdir(ws / "a"))) == (0, ["new", "project"]), ran
    assert os.listdir(project / ".git") == ["HEAD"]


def test_a_folder_that_is_replaced_while_a_command_starts_leads_nowhere(tmp_path: Path) -> None:
    need_sandbox()
    outer, outside, mark = tmp_path / "base" / "outer", tmp_path / "outside", tmp_path / "mark"
    for folder in (outer, outside):
        for name in PROTECTED:
            (folder / "ws" / name / "kept").mkdir(parents=True)
    # Who may write `base` has the time that bubblewrap takes to start.
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nif rm {mark} 2>/dev/null; then mv {outer} {outer}.old; ln -s ../outside {outer}; fi\n"
        f'exec {Finder().find().path} "$@"\n'
    )
    program.chmod(0o755)
    profile = managed(special("root", "read"), path(outer.parent, "write"), special("project_roots", "write"))
    text = f"touch {outer}/planted {outside}/planted"
    with (
        serving("outfitter", tmp_path / "home", "--sandbox-program", str(program)) as server,
        Wire(server.url) as wire,
    ):
        wire.handshake()
        assert run(wire, ["/bin/true"], sandbox=sandbox(profile, outer / "ws")).code == 0
        mark.touch()
        run(wire, ["/bin/sh", "-c", text], sandbox=sandbox(profile, outer / "ws"))
    assert not mark.exists() and outer.is_symlink()
    assert os.listdir(outside) == ["ws"]


def test_what_is_hidden_cannot_be_moved_into_sight(wire: Wire, ws: Path) -> None:
    secret = ws / "config" / "deep" / "secret"
    secret.parent.mkdir(parents=True)
    secret.write_text("hush")
    profile = managed(special("root", "read"), special("project_roots", "write"), path(secret, "deny"))
    ran = shell(wire, "mv config/deep config/other; mv config other; ls", ws, profile)
    assert "config\n" in ran.stdout and secret.read_text() == "hush", ran
    assert "hush" not in shell(wire, "cat */*/secret */secret", ws, profile).stdout


def test_the_servers_own_files_cannot_be_moved_into_sight(wire: Wire, home: Path) -> None:
    shell(wire, "true", home)  # there is something of the server's now
    ran = shell(wire, "mv .local moved; echo $?", home)
    assert ran.stdout == "1\n" and not (home / "moved").exists(), ran


# Names that an operator protects, too


def test_names_that_an_operator_protects_stay_as_they_are(tmp_path: Path) -> None:
    need_sandbox()
    ws = tmp_path / "ws"
    (ws / "sub/.git/hooks").mkdir(parents=True)
    (ws / ".vscode").mkdir()
    before = set(os.listdir(ws))
    names = (".vscode/a", ".bashrc", ".mcp.json", ".claude/agents/a", "sub/.git/hooks/a", "sub/.git/config")
    script = """
        for name; do mkdir -p "$(dirname "$name")" 2>/dev/null; echo x > "$name" && echo "$name"; done
        mv sub/.git sub/x && echo moved; mv sub x && echo moved; echo ok > free; echo ok > sub/.git/HEAD
    """
    flags = ("--sandbox-protect", "usual")
    with serving("outfitter", tmp_path / "home", *flags) as server, Wire(server.url) as wire:
        wire.handshake()
        ran = run(wire, ["/bin/sh", "-c", script, "sh", *names], cwd=ws, sandbox=sandbox(WORKSPACE, ws))
        assert ran.stdout == ""
        wait_until(lambda: set(os.listdir(ws)) == {*before, "free"}, "placeholders are gone")
    assert (ws / "sub/.git/HEAD").read_text() == "ok\n"
    assert os.listdir(ws / "sub/.git/hooks") == os.listdir(ws / ".vscode") == []
