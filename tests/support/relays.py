"""A rendezvous of ours, and executors of either kind that dial out to it, as child processes on loopback."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from outfitter.loop import EpollLoop
from outfitter.protocol.registry import PROFILE, ConnectParams, KeyObject, RegisterParams
from outfitter.relay.authority import Authority
from outfitter.relay.keys import Keys
from outfitter.relay.service import Service
from outfitter.relay.store import SqliteStore, open_store
from outfitter.transport.sockets import TcpPlace

from .machine import SECOND, wait_until
from .servers import command, end, environment

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection as Connection

_PUBLIC = Keys().public
KEY = KeyObject(_PUBLIC.x25519, _PUBLIC.mlkem)


class Rendezvous:
    """A running service: `url` of its registry, and the Popen as `popen`."""

    def __init__(self, popen: subprocess.Popen[bytes], url: str, store: str) -> None:
        self.popen = popen
        self.url = url
        self._store = store

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def token(self, environment_id: str, role: str, name: str = "somebody") -> str:
        """Makes a principal with a right, as an operator and a user together would."""
        import time

        store = open_store(self._store)
        try:
            authority = Authority(store, time.time, "ws://unused")
            return authority.enrol(authority.code(name, environment_id, role)).token
        finally:
            store.close()

    def is_online(self, environment_id: str) -> bool:
        store = open_store(self._store)
        try:
            return bool(store.rows("SELECT 1 FROM attachments WHERE environment = ?", environment_id))
        finally:
            store.close()

    def wait_for(self, environment_id: str, online: bool = True) -> None:
        what = f"{environment_id} is {'' if online else 'not '}connected"
        wait_until(lambda: self.is_online(environment_id) is online, what, 30 * SECOND)


@contextlib.contextmanager
def meeting(
    home: Path, *args: str, port: int = 0, store: str = "", scheme: str = "ws"
) -> Iterator[Rendezvous]:
    """A service with a store in `home`, which a later one there takes over, or elsewhere."""
    home.mkdir(parents=True, exist_ok=True)
    store = store or str(home / "store.sqlite")
    with (home / "rendezvous.stderr").open("ab") as stderr:
        popen = subprocess.Popen(
            [
                *(sys.executable, "-m", "outfitter", "rendezvous", "serve", "--log-level", "info"),
                *("--store", store, "--listen", f"{scheme}://127.0.0.1:{port}", *args),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(home),
        )
    try:
        assert popen.stdout is not None
        url = popen.stdout.readline().decode().strip()
        assert url, (home / "rendezvous.stderr").read_text()
        yield Rendezvous(popen, url, store)
    finally:
        end(popen)
    said = (home / "rendezvous.stderr").read_text()
    assert "Traceback" not in said, said


@contextlib.contextmanager
def dialling(
    kind: str,
    home: Path,
    url: str,
    environment_id: str,
    token: str,
    *args: str,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """An executor of this kind ("outfitter" or "codex") that dials out."""
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    with (home / f"{kind}.stderr").open("ab") as stderr:
        popen = subprocess.Popen(
            command(kind, "--remote", url, "--environment-id", environment_id, *args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment(home, {"CODEX_API_KEY": token, **(env or {})}),
        )
    try:
        yield popen
    finally:
        end(popen)
    said = (home / f"{kind}.stderr").read_text()
    assert "Traceback" not in said, said


class Hosted:
    """A service in a thread of this process: quick, and its clock and store are at hand."""

    def __init__(self, store: SqliteStore, loop: EpollLoop, service: Service, authority: Authority) -> None:
        self.store, self.loop, self.service, self.authority = store, loop, service, authority

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    url = ""

    def token(self, environment_id: str, role: str) -> str:
        return self.authority.enrol(self.authority.code("somebody", environment_id, role)).token

    def knows(self, environment_id: str) -> bool:
        """Whether the store knows that an executor is connected."""
        return bool(self.store.rows("SELECT 1 FROM attachments WHERE environment = ?", environment_id))

    def executor(self, token: str, environment_id: str = "box") -> Connection:
        """The socket of an executor that registers first."""
        params = RegisterParams(PROFILE, KEY)
        socket = open_socket(self.authority.register(token, environment_id, params).url)
        wait_until(lambda: self.knows(environment_id), "the executor is known")
        return socket

    def harness(self, token: str, environment_id: str = "box") -> Connection:
        return open_socket(self.authority.connect(token, environment_id, ConnectParams(KEY)).url)


def open_socket(url: str) -> Connection:
    from websockets.sync.client import connect

    return connect(url, max_size=None, compression=None, ping_interval=None, close_timeout=1)


@contextlib.contextmanager
def hosting(path: Path) -> Iterator[Hosted]:
    import threading
    import time

    store = SqliteStore(str(path))
    sock = TcpPlace("127.0.0.1", 0).listen()
    url = f"127.0.0.1:{sock.getsockname()[1]}"
    loop = EpollLoop()
    authority = Authority(store, time.time, f"ws://{url}")
    service = Service(loop, sock, authority)
    hosted = Hosted(store, loop, service, authority)
    hosted.url = f"http://{url}"
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield hosted
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        service.stop()
        service.leave("over")
        service.drain(loop)
        service.settle()
        store.close()
