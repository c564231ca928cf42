"""The arms: what is compared, where it is found, and how its server is started and ended.

Each server gets a scratch home and a minimal environment, listens on loopback, and is ended by pid together
with the processes it kept for itself. A missing arm raises BenchError; the run goes on without it.
"""

from __future__ import annotations

import glob
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from bench import procfs
from bench.client import Address, http_status
from bench.errors import BenchError

__all__ = ["ARMS", "Arm", "BareArm", "ExecArm", "Server", "SwerexArm", "Workshop", "make_arm"]

ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SWEREX: Final = "swe-rex==1.4.0"
SWEREX_CLIENT: Final = "aiohttp"  # its client needs it, and its package does not say so
STARTUP: Final = 30.0  # seconds; the slowest arm needs about one
GRACE: Final = 5.0  # seconds between asking a server to end and killing it


class Workshop:
    """The scratch folder of one run, and all servers that are up in it."""

    def __init__(self) -> None:
        # Not in the system's temporary folder: the reference refuses to set up its helpers there.
        cache = os.path.join(ROOT, ".cache")
        os.makedirs(cache, exist_ok=True)
        self.cache = cache
        self._scratch = tempfile.mkdtemp(prefix="bench-", dir=cache)
        self._servers: list[Server] = []

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        for server in list(self._servers):
            self.stop(server)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def home(self, name: str) -> str:
        path = os.path.join(self._scratch, name)
        os.makedirs(path, exist_ok=True)
        return path

    def environment(self, name: str) -> dict[str, str]:
        home = self.home(name)
        # Children find node and python where this run does, but inherit nothing else of it.
        path = os.environ.get("PATH", "/usr/bin:/bin")
        return {"PATH": path, "HOME": home, "CODEX_HOME": home, "LANG": "C.UTF-8"}

    def seconds(self, name: str, *argv: str, cwd: str = "", env: Mapping[str, str] | None = None) -> float:
        """Seconds for a program, in this home if nothing else is said, from spawn to exit; its output goes
        nowhere."""
        cwd, env = cwd or self.home(name), env or self.environment(name)
        null = subprocess.DEVNULL
        begin = time.perf_counter()
        done = subprocess.run(
            argv, stdin=null, stdout=null, stderr=null, env=env, cwd=cwd, start_new_session=True
        )
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise BenchError(f"{argv[0]} failed with {done.returncode}")
        return seconds

    def start(
        self, name: str, argv: Sequence[str], *, announces: bool = True, env: Mapping[str, str] | None = None
    ) -> Server:
        log = os.path.join(self._scratch, f"{name}.log")
        environment = {**self.environment(name), **(env or {})}
        server = Server(name, argv, environment, log, announces=announces)
        self._servers.append(server)
        return server

    def stop(self, server: Server) -> None:
        self._servers.remove(server)
        server.stop()


class Server:
    """A server process, from its spawn on."""

    def __init__(
        self, name: str, argv: Sequence[str], env: dict[str, str], log: str, *, announces: bool
    ) -> None:
        self.name = name
        self._log = log
        with open(log, "wb") as errors:
            self.spawned = time.perf_counter()
            try:
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    # Nobody reads the pipe after the first line; a server that logs there would stand still.
                    stdout=subprocess.PIPE if announces else subprocess.DEVNULL,
                    stderr=errors,
                    env=env,
                    cwd=env["HOME"],
                    start_new_session=True,  # a Ctrl-C is ours to handle
                )
            except OSError as error:
                raise BenchError(f"cannot start {argv[0]}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    def announced(self) -> Address:
        """The address on the first line of its stdout."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], STARTUP)[0]:
            raise BenchError(f"{self.name} did not start within {STARTUP:.0f} s: {self._last_words()}")
        line = self._process.stdout.readline().decode(errors="replace").strip()
        host, colon, port = line.partition("://")[2].rpartition(":")
        if not colon or not port.isdigit():
            raise BenchError(f"{self.name} did not start: {self._last_words() or line or 'no output'}")
        return host, int(port)

    def wait_ready(self, address: Address, path: str, *, headers: str = "") -> None:
        deadline = time.perf_counter() + STARTUP
        while http_status(address, path, headers=headers) != 200:
            if self._process.poll() is not None or time.perf_counter() > deadline:
                raise BenchError(f"{self.name} is not ready: {self._last_words() or 'no answer'}")
            time.sleep(0.0005)

    def stop(self) -> None:
        # A launcher may leave its server behind, and a server its commands: note them first.
        others = {pid: procfs.start_time(pid) for pid in procfs.family(self.pid) if pid != self.pid}
        self._process.terminate()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        deadline = time.perf_counter() + GRACE
        for pid, started in others.items():
            while started is not None and procfs.start_time(pid) == started:
                try:
                    os.kill(pid, signal.SIGKILL if time.perf_counter() > deadline else signal.SIGTERM)
                except ProcessLookupError:
                    break
                time.sleep(0.005)

    def _last_words(self) -> str:
        try:
            with open(self._log, errors="replace") as file:
                lines = [line.strip() for line in file if line.strip()]
        except OSError:
            return ""
        return lines[-1][:200] if lines else ""


class ExecArm:
    """An exec-server, reached over a websocket."""

    def __init__(self, workshop: Workshop, name: str, argv: Sequence[str]) -> None:
        self.name = name
        self._workshop = workshop
        self._argv = argv
        self._up: tuple[Server, Address] | None = None

    def server(self) -> tuple[Server, Address]:
        """The server that stays up for the whole run."""
        if self._up is None:
            server = self._workshop.start(self.name, self._argv)
            self._up = server, server.announced()
        return self._up

    @property
    def address(self) -> Address:
        return self.server()[1]

    @property
    def program(self) -> str:
        return self._argv[0]

    @property
    def environment(self) -> dict[str, str]:
        return self._workshop.environment(self.name)

    def seconds(self, *argv: str, cwd: str = "", env: Mapping[str, str] | None = None) -> float:
        """Seconds for a program in this arm's home, from spawn to exit; its output goes nowhere."""
        return self._workshop.seconds(self.name, *argv, cwd=cwd, env=env)

    @contextmanager
    def fresh(self, *flags: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
        """A server of its own, not waited for."""
        server = self._workshop.start(self.name, [*self._argv, *flags], env=env)
        try:
            yield server
        finally:
            self._workshop.stop(server)

    @contextmanager
    def dialling(self, url: str, environment_id: str, token: str) -> Iterator[Server]:
        """A server that dials out to a registry instead of listening."""
        argv = [
            *self._argv[: self._argv.index("--listen")],
            "--remote",
            url,
            "--environment-id",
            environment_id,
        ]
        key = {"CODEX_API_KEY": token}
        server = self._workshop.start(f"{self.name}-remote", argv, announces=False, env=key)
        try:
            yield server
        finally:
            self._workshop.stop(server)

    @contextmanager
    def beside(
        self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None
    ) -> Iterator[tuple[Server, str]]:
        """Another program, with a home of its own that is empty."""
        name = f"{self.name}-{name}"
        server = self._workshop.start(name, argv, env=env)
        try:
            yield server, self._workshop.home(name)
        finally:
            self._workshop.stop(server)
            shutil.rmtree(self._workshop.home(name), ignore_errors=True)


class SwerexArm:
    """SWE-ReX's server, reached over HTTP."""

    def __init__(self, workshop: Workshop, program: str) -> None:
        self.name = "swerex"
        # Its clients always send a token; without the header every request is refused.
        self.token = secrets.token_hex(8)
        self._workshop = workshop
        self._program = program
        self.python = os.path.join(os.path.dirname(program), "python")
        self._address: Address | None = None

    @property
    def address(self) -> Address:
        if self._address is None:
            server, address = self._start()
            server.wait_ready(address, "/is_alive", headers=f"X-API-Key: {self.token}\r\n")
            self._address = address
        return self._address

    def _start(self) -> tuple[Server, Address]:
        # It cannot choose a port and say which, so take one that was free a moment ago.
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        argv = [self._program, "--host", "127.0.0.1", "--port", str(port), "--auth-token", self.token]
        return self._workshop.start(self.name, argv, announces=False), ("127.0.0.1", port)


class BareArm:
    """The C program, and for cold start the bare interpreter."""

    def __init__(self, workshop: Workshop, program: str) -> None:
        self.name = "bare"
        self._workshop = workshop
        self._program = program
        self._address: Address | None = None

    @property
    def address(self) -> Address:
        if self._address is None:
            self._address = self._workshop.start(self.name, [self._program, "rpc"]).announced()
        return self._address

    def report(self, *arguments: str) -> float:
        """The number that `bare ARGUMENTS` prints."""
        done = subprocess.run([self._program, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise BenchError(done.stderr.strip())
        return float(done.stdout)

    def interpreter_start(self) -> float:
        """Seconds for `python -c pass`, from spawn to exit."""
        return self._workshop.seconds(self.name, sys.executable, "-c", "pass")


Arm = ExecArm | SwerexArm | BareArm


def make_arm(name: str, workshop: Workshop, say: Callable[[str], None]) -> Arm:
    """Finds or builds what the arm needs; raises BenchError with the reason when it cannot."""
    return ARMS[name](workshop, say)


def _ours(workshop: Workshop, say: Callable[[str], None]) -> Arm:
    program = os.path.join(ROOT, ".venv", "bin", "outfitter")
    if not os.access(program, os.X_OK):
        raise BenchError("not installed: run `make setup`")
    return ExecArm(workshop, "ours", [program, "serve", "--listen", "ws://127.0.0.1:0"])


def _portable(workshop: Workshop, say: Callable[[str], None]) -> Arm:
    """Ours without what only Linux has, as on a Mac."""
    program = os.path.join(ROOT, ".venv", "bin", "outfitter")
    if not os.access(program, os.X_OK):
        raise BenchError("not installed: run `make setup`")
    forbidding = [sys.executable, os.path.join(ROOT, "scripts", "portable")]
    return ExecArm(workshop, "portable", [*forbidding, program, "serve", "--listen", "ws://127.0.0.1:0"])


def _codex(workshop: Workshop, say: Callable[[str], None]) -> Arm:
    return ExecArm(workshop, "codex", [_native(), "exec-server", "--listen", "ws://127.0.0.1:0"])


def _codex32(workshop: Workshop, say: Callable[[str], None]) -> Arm:
    argv = [_native(), "exec-server", "--listen", "ws://127.0.0.1:0", "--concurrent-requests", "32"]
    return ExecArm(workshop, "codex32", argv)


def _npm(workshop: Workshop, say: Callable[[str], None]) -> Arm:
    launcher = os.path.join(ROOT, ".tools", "node_modules", ".bin", "codex")
    if not os.path.exists(launcher):
        raise BenchError("the npm launcher is not installed: run `make tools`")
    if shutil.which("node") is None:
        raise BenchError("the npm launcher needs node")
    return ExecArm(workshop, "npm", [launcher, "exec-server", "--listen", "ws://127.0.0.1:0"])


def _native() -> str:
    pattern = os.path.join(ROOT, ".tools/node_modules/@openai/codex-*/vendor/*/bin/codex")
    for program in sorted(glob.glob(pattern)):
        if os.access(program, os.X_OK):
            return program
    raise BenchError("the reference is not installed: run `make tools`")


def _swerex(workshop: Workshop, say: Callable[[str], None]) -> Arm:
    folder = os.path.join(ROOT, ".tools", "swerex")
    program = os.path.join(folder, "bin", "swerex-remote")
    client = glob.glob(os.path.join(folder, "lib", "*", "site-packages", SWEREX_CLIENT))
    if not os.access(program, os.X_OK) or not client:
        say(f"installing {SWEREX}")
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
            pip = [
                os.path.join(folder, "bin", "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                SWEREX,
                SWEREX_CLIENT,
            ]
            subprocess.run(pip, check=True, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            raise BenchError(f"cannot install {SWEREX}: pip took too long") from None
        except subprocess.CalledProcessError as error:
            lines = str(error.stderr or error).strip().splitlines()
            raise BenchError(f"cannot install {SWEREX}: {lines[-1] if lines else 'pip failed'}") from None
    return SwerexArm(workshop, program)


def _bare(workshop: Workshop, say: Callable[[str], None]) -> Arm:
    source = os.path.join(ROOT, "bench", "bare.c")
    program = os.path.join(workshop.cache, "bare")
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchError("no C compiler (cc)")
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
        done = subprocess.run([compiler, "-O2", "-o", program, source], capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"bare.c does not compile: {done.stderr.strip().splitlines()[0]}")
    return BareArm(workshop, program)


ARMS: Final[dict[str, Callable[[Workshop, Callable[[str], None]], Arm]]] = {
    "ours": _ours,
    "portable": _portable,
    "codex": _codex,
    "codex32": _codex32,
    "npm": _npm,
    "swerex": _swerex,
    "bare": _bare,
}
