"""How one finds a pool of this user and talks to it: a record and a socket for each, in the state folder.

One line is sent ("status", "drain" or "stop") and one line of JSON is answered. Both files are readable by
their owner alone, and gone with the pool; what a killed pool leaves is removed by whoever looks next.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from ..errors import EngineFailed, SettingInvalid
from ..host import facts
from ..host.installkey import state_folder
from ..log import note
from ..openers import private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from .tally import PoolStatus

    class Controlled(Protocol):
        id: str

        def status(self) -> PoolStatus: ...
        async def drain(self) -> None: ...
        async def aclose(self) -> None: ...


STATUS, DRAIN, STOP = "status", "drain", "stop"
_LONGEST_PATH = 100  # of a socket: the kernel takes 107 bytes
_LINE_BYTES = 64  # of a question
_ANSWER_BYTES = 16 << 20  # 4,096 slots on as many nodes
_ANSWER_SECONDS = 10.0


def folder(environ: Mapping[str, str]) -> str:
    return os.path.join(state_folder(environ, facts.home(environ)), "pools")


class Control:
    """The socket of one pool."""

    def __init__(self, pool: Controlled, name: str, engine: str) -> None:
        self._pool = pool
        self._name = name
        self._engine = engine
        self._base = os.path.join(folder(os.environ), pool.id)
        self._server: asyncio.Server | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """A pool that cannot be found runs all the same: where nothing can be written, nothing is."""
        path = f"{self._base}.sock"
        if len(os.fsencode(path)) > _LONGEST_PATH:
            note("pool", "!", "this pool has no socket for `outfitter pool`: the path is too long: %s", path)
            return
        try:
            private_folder(os.path.dirname(path))
            self._server = await asyncio.start_unix_server(
                self._asked, sock=_bound(path), limit=_LINE_BYTES, start_serving=False
            )
            await self._server.start_serving()
            self._write_record()
        except OSError as error:
            note("pool", "!", "this pool has no socket for `outfitter pool`: %s", error)

    def _write_record(self) -> None:
        record = {"id": self._pool.id, "name": self._name, "engine": self._engine, "pid": os.getpid()}
        fd = os.open(f"{self._base}.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump({**record, "started": time.time()}, file)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for suffix in (".sock", ".json"):
            with contextlib.suppress(OSError):
                os.unlink(self._base + suffix)

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                question = (await reader.readline()).decode("ascii", "replace").strip()
                answer: object = self._answer(question)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (TimeoutError, ValueError, OSError):
            pass  # whoever asked is gone, or asked too much
        finally:
            writer.close()

    def _answer(self, question: str) -> object:
        loop = asyncio.get_running_loop()
        if question == DRAIN:
            self._stopping = loop.create_task(self._pool.drain())
        elif question == STOP:
            self._stopping = loop.create_task(self._pool.aclose())
        elif question != STATUS:
            return {"error": f"unknown question: ask for {STATUS}, {DRAIN} or {STOP}"}
        return {**self._pool.status(), "name": self._name, "pid": os.getpid()}


def _bound(path: str) -> socket.socket:
    """A socket that only its owner reaches when it listens. Without a umask: that would be the whole
    process's, and somebody else's files would get it. Raises OSError."""
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(path)
        os.chmod(path, 0o600)
    except BaseException:
        bound.close()
        raise
    return bound


# From outside


def known(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """The records of the pools that run, the oldest first. Those of pools that were killed are removed."""
    place = folder(environ)
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(os.listdir(place)):
            if entry.endswith(".json"):
                record = _record(os.path.join(place, entry))
                if record is not None:
                    found.append(record)
    return sorted(found, key=lambda record: float(record["started"]))


def _record(path: str) -> dict[str, Any] | None:
    base = path.removesuffix(".json")
    try:
        with open(path, encoding="utf-8") as file:
            record: dict[str, Any] = json.load(file)
        with contextlib.suppress(BlockingIOError):  # it takes nobody now, as `ask` will tell
            _dial(f"{base}.sock").close()
        return {**record, "socket": f"{base}.sock"}
    except ConnectionRefusedError:  # nobody is left behind it
        for suffix in (".sock", ".json"):
            with contextlib.suppress(OSError):
                os.unlink(base + suffix)
        return None
    except (OSError, ValueError):
        return None


def named(environ: Mapping[str, str], name: str) -> dict[str, Any]:
    """The record of one pool, by its name or by how its id begins. Raises SettingInvalid."""
    pools = known(environ)
    found = [one for one in pools if one["name"] == name] or [
        one for one in pools if str(one["id"]).startswith(name)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(str(one["id"]) for one in found)
        raise SettingInvalid(f"{len(found)} pools are meant by {name!r}: name one of {ids}")
    running = ", ".join(str(one["name"] or one["id"]) for one in pools) or "none"
    raise SettingInvalid(f"no pool {name!r} runs here; running: {running}")


def ask(record: dict[str, Any], question: str) -> dict[str, Any]:
    """What a pool answers. Raises EngineFailed."""
    try:
        with _dial(record["socket"]) as line:
            line.sendall(f"{question}\n".encode())
            with line.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline(_ANSWER_BYTES))
                return answer
    except (OSError, ValueError) as error:
        raise EngineFailed(f"pool {record['id']} does not answer: {error}", retryable=True) from None


def _dial(path: str) -> socket.socket:
    """Raises OSError; BlockingIOError where a pool that is frozen has as many callers as may wait."""
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(_ANSWER_SECONDS)
    try:
        line.connect(path)
    except BaseException:
        line.close()
        raise
    return line
