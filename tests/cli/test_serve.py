"""outfitter serve as a launcher sees it: the first line, the flags, the exit status."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from outfitter.cli.commands import cli
from outfitter.cli.flags import SERVE, Flag, read_plain
from tests.support import servers
from tests.support.certificates import authority, server_pair
from tests.support.machine import SECOND, alive, wait_gone, wait_until
from tests.support.pipes import piping
from tests.support.servers import command, end, environment, serving
from tests.support.wire import Wire


def failed(tmp_path: Path, *args: str) -> tuple[int, str, str]:
    """Exit status, output and complaint of a server that does not start."""
    done = subprocess.run(
        command("outfitter", *args),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(tmp_path),
        timeout=10 * SECOND,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def is_ready(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10 * SECOND)
        try:
            client.connect(str(path))
        except OSError:
            return False
        client.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
        return client.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("listen", ["ws://127.0.0.1:0", "stdio"])
@pytest.mark.parametrize("name", ["missing", "file", ""])
def test_ceiling_that_is_no_directory_is_refused(name: str, listen: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = f"{tmp_path}/{name}" if name else ""
    status, said, complaint = failed(tmp_path, "--listen", listen, "--project-ceiling", place)
    assert (status, said) == (1, "")
    assert f"--project-ceiling {place} is not a directory" in complaint


@pytest.mark.parametrize(
    ("more", "env"),
    [
        ((), {}),
        (("--log-level", "debug"), {}),
        (
            (),
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9"},
        ),  # brings logging, without a handler
    ],
)
def test_log_that_nobody_reads_holds_up_nobody(
    more: tuple[str, ...], env: dict[str, str], tmp_path: Path
) -> None:
    place = tmp_path / "folder"
    place.mkdir(mode=0o700)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    popen = subprocess.Popen(
        command("outfitter", "--listen", f"unix:{place}/s", *more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=writing,
        env=environment(tmp_path, env),
    )
    try:
        assert popen.stdout is not None
        assert popen.stdout.readline()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10 * SECOND)
            client.connect(f"{place}/s")
            client.sendall(b"GET / HTTP/1.1\r\norigin: http://a.b\r\n\r\n")  # a line for the log
            assert client.recv(100).startswith(b"HTTP/1.1 403")
        assert is_ready(place / "s")
    finally:
        end(popen)
        os.close(reading)
        os.close(writing)
    assert popen.returncode == 0


# The first line


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_server_whose_output_is_closed_serves(more: tuple[str, ...], tmp_path: Path) -> None:
    place = tmp_path / "folder"
    place.mkdir(mode=0o700)
    popen = subprocess.Popen(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command("outfitter", "--listen", f"unix:{place}/s", *more)],
        stdin=subprocess.DEVNULL,
        env=environment(tmp_path),
    )
    try:
        wait_until(lambda: is_ready(place / "s"), "it serves")
    finally:
        end(popen)


@pytest.mark.parametrize(("output", "said"), [("pipe", b""), ("/dev/full", b"No space left on device")])
def test_first_line_that_cannot_be_written_is_the_end(output: str, said: bytes, tmp_path: Path) -> None:
    place = tmp_path / "folder"
    place.mkdir(mode=0o700)
    if output == "pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(output, os.O_WRONLY)
    done = subprocess.run(
        command("outfitter", "--listen", f"unix:{place}/s"),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        timeout=10 * SECOND,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == (b"outfitter: cannot write the output: %s\n" % said if said else b"")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("listen", ["ws://127.0.0.1:0", "ws://[::1]:0"])
def test_first_line_is_the_url_with_the_real_port(listen: str, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, listen=listen) as server, Wire(server.url) as wire:
        assert server.url.startswith(listen[:-1])
        assert server.port > 0
        wire.handshake()
        os.kill(server.pid, signal.SIGTERM)
        assert server.popen.wait(5 * SECOND) == 0
        assert server.popen.stdout is not None
        assert server.popen.stdout.read() == b""  # and the only one


def test_default_is_a_free_port_on_loopback(tmp_path: Path) -> None:
    popen = subprocess.Popen(
        command("outfitter"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment(tmp_path)
    )
    try:
        assert popen.stdout is not None
        assert popen.stdout.readline().startswith(b"ws://127.0.0.1:")
    finally:
        end(popen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_signal_that_follows_the_first_line_at_once_is_an_orderly_end(
    number: signal.Signals, tmp_path: Path
) -> None:
    # A launcher that changes its mind may be as quick as that.
    with serving("outfitter", tmp_path) as server:
        os.kill(server.pid, number)
        assert server.popen.wait(5 * SECOND) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_signal_ends_the_server_with_0_and_its_commands_with_it(
    number: signal.Signals, tmp_path: Path
) -> None:
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        wire.start("p", ["/bin/sh", "-c", "trap '' TERM INT; while :; do sleep 1; done"])
        [entry] = wire.call("process/list")["processes"]
        os.kill(server.pid, number)
        assert server.popen.wait(5 * SECOND) == 0
        wait_gone([entry["pid"]])
        closed = wire.ended()
        assert closed.rcvd is not None
        assert (closed.rcvd.code, closed.rcvd.reason) == (1001, "server is stopping")  # row 20


# Mistakes


URLS = [
    (
        "http://127.0.0.1:0",
        "unsupported --listen URL `http://127.0.0.1:0`; expected `ws://IP:PORT`, `wss://IP:PORT`, "
        "`unix:PATH` or `stdio`",
    ),
    (
        "tcp",
        "unsupported --listen URL `tcp`; expected `ws://IP:PORT`, `wss://IP:PORT`, `unix:PATH` or `stdio`",
    ),
    ("ws://localhost:0", "invalid websocket --listen URL `ws://localhost:0`; expected `ws://IP:PORT`"),
    ("ws://127.0.0.1", "invalid websocket --listen URL `ws://127.0.0.1`; expected `ws://IP:PORT`"),
    (
        "ws://127.0.0.1:0/path",
        "invalid websocket --listen URL `ws://127.0.0.1:0/path`; expected `ws://IP:PORT`",
    ),
    (
        "ws://127.0.0.1:70000",
        "invalid websocket --listen URL `ws://127.0.0.1:70000`; expected `ws://IP:PORT`",
    ),
    ("ws://1.2.3.256:0", "invalid websocket --listen URL `ws://1.2.3.256:0`; expected `ws://IP:PORT`"),
    ("ws://1.2.3.²:0", "invalid websocket --listen URL `ws://1.2.3.²:0`; expected `ws://IP:PORT`"),
]


@pytest.mark.parametrize(("url", "text"), URLS, ids=[url for url, _ in URLS])
def test_bad_listen_url_exits_with_1_in_the_references_words(url: str, text: str, tmp_path: Path) -> None:
    assert failed(tmp_path, "--listen", url) == (1, "", f"outfitter: {text}\n")


WITHOUT_TLS = ["ws://127.0.0.1:0", "stdio"]


@pytest.mark.parametrize("flag", ["--tls-cert", "--tls-key", "--tls-client-ca"])
@pytest.mark.parametrize("listen", WITHOUT_TLS)
def test_files_for_tls_need_tls(listen: str, flag: str, tmp_path: Path) -> None:
    text = f"outfitter: {flag} needs --listen wss://IP:PORT\n"
    assert failed(tmp_path, "--listen", listen, flag, "x.pem") == (1, "", text)


@pytest.mark.parametrize("flags", [(), ("--tls-cert", "x"), ("--tls-key", "x"), ("--tls-client-ca", "x")])
def test_tls_needs_a_certificate_and_its_key(flags: tuple[str, ...], tmp_path: Path) -> None:
    text = "outfitter: --listen wss://IP:PORT needs --tls-cert FILE and --tls-key FILE\n"
    assert failed(tmp_path, "--listen", "wss://127.0.0.1:0", *flags) == (1, "", text)


def test_a_certificate_that_cannot_be_used_exits_with_1_before_listening(tmp_path: Path) -> None:
    pair = server_pair().copy(tmp_path / "tls")
    pair.key.chmod(0o644)
    status, out, err = failed(tmp_path, "--listen", "wss://127.0.0.1:0", *pair.flags)
    assert (status, out) == (1, "")
    assert err.startswith(
        f"outfitter: --tls-key {pair.key} can be read or changed by other users (mode 644): run "
    )


def test_certificates_of_clients_open_an_address_that_others_reach(tmp_path: Path) -> None:
    flags = server_pair().flags
    status, _, err = failed(tmp_path, "--listen", "wss://0.0.0.0:0", *flags)
    assert status == 1
    assert "other machines can reach wss://0.0.0.0" in err
    with serving(
        "outfitter", tmp_path, *flags, "--tls-client-ca", str(authority().file), listen="wss://0.0.0.0:0"
    ) as server:
        assert server.url.startswith("wss://0.0.0.0:")


def test_port_in_use_exits_with_1_and_the_reason(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f"outfitter: cannot listen on 127.0.0.1:{port}: Address already in use\n"
        assert failed(tmp_path, "--listen", f"ws://127.0.0.1:{port}") == (1, "", text)


@pytest.mark.parametrize("listen", ["ws://0.0.0.0:0", "ws://[::]:0", "ws://10.1.2.3:0"])
def test_address_that_others_reach_is_refused_without_authentication(listen: str, tmp_path: Path) -> None:
    # Row 32, X9.
    status, out, err = failed(tmp_path, "--listen", listen)
    assert (status, out) == (1, "")
    assert "other machines can reach" in err
    assert "--ws-auth capability-token --ws-token-file FILE, or --allow-unauthenticated" in err


def test_address_that_others_reach_is_listened_on_when_that_is_meant(tmp_path: Path) -> None:
    # An address of documentation (RFC 5737), which no machine has: it gets as far as the kernel's refusal,
    # and a test never listens where others could reach it.
    code, out, err = failed(tmp_path, "--listen", "ws://192.0.2.1:0", "--allow-unauthenticated")
    assert (code, out) == (1, "")
    assert err == "outfitter: cannot listen on 192.0.2.1:0: Cannot assign requested address\n"


def test_host_name_is_served_when_it_is_named(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--allow-host", "build.example", "--allow-host", "b") as server:
        for host in ("build.example:80", "B"):
            with Wire(server.url, headers={"Host": host}) as wire:
                assert wire.handshake()["sessionId"]


USAGE = [
    ("--concurrent-requests", "0"),
    ("--concurrent-requests", "-1"),
    ("--concurrent-requests", "many"),
    ("--session-retention", "-1"),
    ("--session-retention", "nan"),
    ("--session-retention", "1e300"),  # no answer could tell it
    ("--process-retention", "soon"),
    ("--max-sessions", "0"),
    ("--max-processes", "1.5"),
    ("--ws-auth", "password"),
    ("--log-level", "loud"),
    ("--fence", "0"),
    ("--listen",),
    ("--nonesuch",),
    ("surplus",),
]


@pytest.mark.parametrize("args", USAGE, ids=" ".join)
def test_usage_error_exits_with_2(args: tuple[str, ...], tmp_path: Path) -> None:
    status, out, err = failed(tmp_path, *args)
    assert (status, out) == (2, "")
    assert err.startswith(("Usage: outfitter serve", "Error: "))


def test_help_names_every_flag(tmp_path: Path) -> None:
    status, out, err = failed(tmp_path, "--help")
    assert (status, err) == (0, "")
    assert [flag.option for flag in SERVE if flag.option not in out] == []


# The quick parser and click


def by_click(args: list[str]) -> dict[str, Any] | None:
    """What click makes of a command line; None when it is a mistake."""
    serve = cli.commands["serve"]
    try:
        with serve.make_context("serve", list(args)) as context:
            return context.params
    except click.ClickException:
        return None


def samples(flag: Flag) -> list[list[str]]:
    texts = {
        "text": ["x", "ws://127.0.0.1:0", "/a b/c", "-", "--", "", "-x", "é"],
        "count": ["1", "08", "4096", "0", "-1", "+1", " 1", "1_000", "1.0", "x", "", "²", "9" * 12],
        "seconds": ["0", "1", "30", "0.5", "1e3", "-0", "-1", "x", "", "²", "9" * 12],
        "list": ["a", "b.example", "", "-x"],
        "flag": [],
    }[flag.kind]
    lines = [[flag.option]]
    for text in [*flag.choices, *texts]:
        lines += ([flag.option, text], [f"{flag.option}={text}"])
    if flag.choices or texts:
        value = flag.choices[0] if flag.choices else texts[0]
        lines.append([flag.option, value, flag.option, flag.choices[-1] if flag.choices else texts[1]])
    else:
        lines += ([flag.option, flag.option], [f"{flag.option}=true"])
    lines.append([flag.option[:-1]])
    return lines


@pytest.mark.parametrize("flag", SERVE, ids=lambda flag: flag.option)
def test_quick_parser_agrees_with_click(flag: Flag) -> None:
    for args in samples(flag):
        quick = read_plain(args)
        if quick is not None:  # else click is asked
            assert quick == by_click(args), args


def test_quick_parser_and_click_have_the_same_defaults() -> None:
    assert read_plain([]) == by_click([])


def test_quick_parser_takes_what_launchers_send() -> None:
    plain = ["--listen", "ws://127.0.0.1:0", "--concurrent-requests", "4", "--session-retention=60"]
    assert read_plain(plain) is not None


# stdio


@pytest.mark.parametrize("listen", ["stdio", "stdio://"])
def test_stdio_round_trip_and_exit_at_the_end_of_input(listen: str, tmp_path: Path) -> None:
    with piping(tmp_path, listen=listen) as pipes:
        pipes.handshake()
        assert pipes.start("p", ["/bin/echo", "hello"]) == {"processId": "p", "sandboxType": "none"}
        events = []
        while not events or events[-1]["method"] != "process/closed":
            events.append(pipes.next_notice())
        assert [event["method"] for event in events] == ["process/output", "process/exited", "process/closed"]
        pipes.start("left", ["/bin/sleep", "60"])
        pid = pipes.call("process/list")["processes"][1]["pid"]
        pipes.end_input()
        assert pipes.exit_code() == 0
        assert not alive(pid)


def test_last_line_needs_no_newline(tmp_path: Path) -> None:
    with piping(tmp_path) as pipes:
        pipes.send(b'\r\n\n{"id":1,"method":"initialize","params":{"clientName":"x"}}\r\n')
        assert "result" in pipes.receive()
        pipes.send(b'{"method":"initialized"}\n{"id":2,"method":"environment/status"}')
        pipes.end_input()
        assert pipes.receive() == {"id": 2, "result": {"status": "ready"}}
        assert pipes.exit_code() == 0


def test_stdio_malformed_line_is_answered_and_fatal_one_ends(tmp_path: Path) -> None:
    with piping(tmp_path) as pipes:
        pipes.handshake()
        pipes.send(b"nonsense\n")
        answer = pipes.receive()
        assert (answer["id"], answer["error"]["code"]) == (-1, -32600)
        pipes.send({"method": "nonesuch"})
        assert pipes.exit_code() == 0


def test_stdio_takes_plain_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(
        b'{"id":1,"method":"initialize","params":{"clientName":"x"}}\n'
        b'{"method":"initialized"}\n{"id":2,"method":"environment/status"}\n'
    )
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        done = subprocess.run(
            command("outfitter", "--listen", "stdio"),
            stdin=source,
            stdout=target,
            env=environment(tmp_path),
            timeout=20 * SECOND,
            check=False,
        )
    assert done.returncode == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert (len(lines), lines[1]) == (2, '{"id":2,"result":{"status":"ready"}}')


def test_signal_ends_a_stdio_server_with_0(tmp_path: Path) -> None:
    with piping(tmp_path) as pipes:
        pipes.handshake()
        pipes.start("p", ["/bin/sleep", "60"])
        [entry] = pipes.call("process/list")["processes"]
        os.kill(pipes.popen.pid, signal.SIGTERM)
        assert pipes.exit_code() == 0
        assert not alive(entry["pid"])


# Diagnostics


def test_log_goes_to_stderr_and_shows_no_values(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, "--log-level", "debug") as server:
        with Wire(server.url) as wire:
            wire.handshake()
            wire.start("p", ["/bin/echo", "argument-in-a-command-line"], env={"NAME": "value-of-a-variable"})
            wire.closed("p")
        os.kill(server.pid, signal.SIGTERM)
        server.popen.wait(5 * SECOND)
    text = (tmp_path / "outfitter.stderr").read_text()
    assert "session opened" in text
    assert "argument-in-a-command-line" not in text
    assert "value-of-a-variable" not in text


def test_sighup_ends_nothing(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server, Wire(server.url) as wire:
        wire.handshake()
        wire.start("p", ["/bin/cat"], pipeStdin=True)
        os.kill(server.pid, signal.SIGHUP)
        assert wire.call("environment/status") == {"status": "ready"}
        assert wire.call("process/terminate", {"processId": "p"}) == {"running": True}


def test_server_ends_with_the_terminal_that_it_was_started_in(tmp_path: Path) -> None:
    pid, terminal = os.forkpty()
    if pid == 0:
        args = command("outfitter")
        os.execve(args[0], args, environment(tmp_path))
    with os.fdopen(terminal, "rb", buffering=0) as lines:
        said = b""
        while not said.endswith(b"\n"):
            said += lines.read(1000)
        os.kill(pid, signal.SIGHUP)  # by hand it ends nothing
        with Wire(said.decode().strip()) as wire:
            wire.handshake()
            assert wire.call("environment/status") == {"status": "ready"}
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_signal_it_was_started_to_ignore_is_ignored(tmp_path: Path) -> None:
    # nohup outfitter serve
    ignoring = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command("outfitter")]
    popen = subprocess.Popen(ignoring, stdout=subprocess.PIPE, env=environment(tmp_path))
    try:
        assert popen.stdout is not None
        url = popen.stdout.readline().decode().strip()
        popen.send_signal(signal.SIGHUP)
        with Wire(url) as wire:
            wire.handshake()
            assert wire.call("environment/status") == {"status": "ready"}
        popen.send_signal(signal.SIGTERM)
        assert popen.wait(10) == 0
    finally:
        end(popen)


def test_traceback_of_a_test_server_fails_its_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys; print('Traceback', file=sys.stderr, flush=True); print('ws://x', flush=True); input()"
    )
    monkeypatch.setattr(servers, "command", lambda *_: [sys.executable, "-c", script])
    wrong = pytest.raises(AssertionError, match="the server has a fault:\nTraceback")
    with wrong, serving("outfitter", tmp_path):
        pass
    with serving("codex", tmp_path):  # the reference's log is its own affair
        pass
