"""Real exec-servers for tests: ours and the reference, as child processes on loopback.

Each gets a scratch HOME and only the environment the test names, and is ended by pid.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from .tools import codex_binary

START_SECONDS = 20


class Server:
    """A running exec-server: `url`, `pid`, `home`, and the Popen as `popen`."""

    def __init__(self, kind: str, popen: subprocess.Popen[bytes], url: str, home: Path) -> None:
        self.kind = kind
        self.popen = popen
        self.url = url
        self.home = home

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])


# Runs our command line on a machine that has no bubblewrap.
WITHOUT_BUBBLEWRAP = (
    "from outfitter.host.sandbox import bubblewrap; bubblewrap.PLACES = (); "
    "import sys; from outfitter.cli.main import main; sys.exit(main())"
)


def command(kind: str, *args: str) -> list[str]:
    """The command line of a server of this kind: "outfitter", "outfitter without bubblewrap" or "codex"; or
    of "forward", to one."""
    if kind == "outfitter without bubblewrap":
        return [sys.executable, "-c", WITHOUT_BUBBLEWRAP, "serve", *args]
    if kind == "forward":
        return [sys.executable, "-m", "outfitter", "forward", *args]
    if kind == "codex":
        return [str(codex_binary()), "exec-server", *args]
    return [sys.executable, "-m", "outfitter", "serve", *args]


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a test server's environment is: nothing of ours but PATH, and a scratch HOME."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CODEX_HOME": str(home / ".codex"),
        "LANG": "C.UTF-8",
        **(extra or {}),
    }


@contextlib.contextmanager
def serving(
    kind: str,
    home: Path,
    *args: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    listen: str = "ws://127.0.0.1:0",
    files: int | None = None,
) -> Iterator[Server]:
    """A server of this kind, listening on loopback, ended by pid when the block ends.

    `files` is how many descriptors it may have.
    A traceback of ours in its log is a fault of the server, whatever the test looked at.
    """
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    log = home / f"{kind}.stderr"
    with log.open("ab") as stderr:
        begin = stderr.tell()
        limited = [] if files is None else ["/bin/sh", "-c", 'ulimit -n "$0"; exec "$@"', str(files)]
        popen = subprocess.Popen(
            [*limited, *command(kind, "--listen", listen, *args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(home, env),
            cwd=cwd or home,
        )
    try:
        assert popen.stdout is not None
        line = popen.stdout.readline().decode().strip()
        if not line.startswith(("ws://", "wss://", "unix:")):
            popen.wait(START_SECONDS)
            raise RuntimeError(
                f"{kind} server did not start (exit {popen.returncode}): "
                + log.read_text(errors="replace")[-2000:]
            )
        yield Server(kind, popen, line, home)
    finally:
        end(popen)
    said = log.read_bytes()[begin:].decode(errors="replace")
    assert not kind.startswith("outfitter") or not has_fault(said), f"the server has a fault:\n{said[-4000:]}"


def has_fault(said: str) -> bool:
    """Whether a server's log has a traceback of ours. Python's hashlib has its own, for a hash that could not
    be loaded and that we do not use."""
    return said.count("Traceback") > said.count("code for hash blake2")


def end(popen: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL after five seconds; always reaped, pipes closed."""
    if popen.poll() is None:
        popen.send_signal(signal.SIGTERM)
        try:
            popen.wait(5)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
    for stream in (popen.stdin, popen.stdout, popen.stderr):
        if stream is not None:
            stream.close()
