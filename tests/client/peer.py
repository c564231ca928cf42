"""The far end of a client, written out message by message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from outfitter.client.client import Client
from outfitter.client.process import RemoteProcess
from outfitter.client.session import RemoteSession
from outfitter.core.events import Exited, Output
from outfitter.errors import DialFailed
from outfitter.record import replace
from outfitter.transport.memory import MemoryTransport, pair
from tests.support.machine import SECOND
from tests.support.wire import Message, b64

INFO = {"shell": {"name": "sh", "path": "/bin/sh"}, "cwd": "file:///work"}
ALL = ("processList", "processResize", "processStdinEof", "processTerminateGrace", "environmentExplain")

Scenario = Callable[["Peer"], Coroutine[Any, Any, None]]


class Peer:
    """The far end: notes requests, and says what it is told to. The client can dial it again and again."""

    def __init__(self, *, resumable: bool = False, recovery_timeout: float = 25.0) -> None:
        self.requests: list[Message] = []
        self.reasons: list[str] = []
        self.states: list[str] = []
        self.dials = 0
        self.unreachable = False
        self.refusing = False
        self.broken = False
        self._news = asyncio.Event()
        self.session = RemoteSession(
            self._dial,
            where="a peer",
            resumable=resumable,
            recovery_timeout=recovery_timeout,
            on_state=self._changed,
        )
        self.client = Client(self.session)

    def _changed(self, state: str) -> None:
        self.states.append(state)
        self._news.set()

    async def _dial(self) -> MemoryTransport:
        self.dials += 1
        self._news.set()
        if self.refusing:
            raise DialFailed("the test is over", retryable=False)
        if self.broken:
            raise RuntimeError("a fault")
        if self.unreachable:
            raise DialFailed("nobody is there", retryable=True)
        self.near, self.far = pair(asyncio.get_running_loop())
        self.far.receiver = self
        return self.near

    def message(self, data: str | bytes) -> None:
        self.requests.append(json.loads(data))
        self._news.set()

    def drained(self) -> None: ...

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)
        self._news.set()

    def offer(self, capability: str) -> None:
        """Has the client believe that this end can do more."""
        info = self.client.info
        assert info is not None
        self.session.info = replace(info, capabilities=info.capabilities | {capability})

    async def request(self, method: str) -> Message:
        """Waits for the next request or notice, which must be this one."""
        while not self.requests:
            self._news.clear()
            await self._news.wait()
        message = self.requests.pop(0)
        assert message["method"] == method
        return message

    def say(self, message: Message | bytes) -> None:
        self.far.send(message if isinstance(message, bytes) else json.dumps(message).encode())

    def answer(self, request: Message, result: Any) -> None:
        self.say({"id": request["id"], "result": result})

    def refuse(self, request: Message, code: int, text: str = "no", data: Any = None) -> None:
        self.say({"id": request["id"], "error": {"code": code, "message": text, "data": data}})

    def cut(self, code: int = 1006) -> None:
        self.far.close(code, "the cable was pulled")

    def hang_up(self) -> None:
        """Answers nothing more, ever."""
        self.unreachable = True
        self.cut()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until something that this peer notices makes it so."""
        while not holds():
            self._news.clear()
            await self._news.wait()

    async def greet(self, capabilities: Iterable[str] = ALL, **more: Any) -> None:
        """The handshake of a connection: the next request must be initialize."""
        request = await self.request("initialize")
        info = {**INFO, "capabilities": dict.fromkeys(capabilities, True)}
        session = request["params"]["resumeSessionId"] or "s"
        self.answer(request, {"sessionId": session, "environmentInfo": info, **more})
        assert await self.request("initialized") == {"method": "initialized", "params": {}}

    async def opened(self, capabilities: Iterable[str] = ALL) -> None:
        opening = asyncio.ensure_future(self.session.open())
        await self.greet(capabilities)
        await opening

    async def started(self) -> tuple[RemoteProcess, str]:
        """A process of the client, and the id it has chosen."""
        starting = asyncio.ensure_future(self.client.start(["x"], cwd="/"))
        request = await self.request("process/start")
        self.answer(request, {"processId": request["params"]["processId"], "sandboxType": "none"})
        return await starting, request["params"]["processId"]

    def notice(self, method: str, **params: Any) -> bytes:
        return json.dumps({"method": method, "params": params}).encode()

    def output(self, process: str, seq: int, data: bytes) -> None:
        params = {"processId": process, "seq": seq, "stream": "stdout", "chunk": b64(data)}
        self.say({"method": "process/output", "params": params})

    def exited(self, process: str, seq: int, code: int = 0) -> None:
        params = {"processId": process, "seq": seq, "exitCode": code, "sandboxDenied": False}
        self.say({"method": "process/exited", "params": params})

    def closed(self, process: str, seq: int) -> None:
        self.say({"method": "process/closed", "params": {"processId": process, "seq": seq}})


def with_a_peer(*, opened: bool = True, **settings: Any) -> Callable[[Scenario], Callable[[], None]]:
    """Runs an async test on a loop of its own, within its time; `settings` are those of Peer."""

    def decorate(scenario: Scenario) -> Callable[[], None]:
        async def run() -> None:
            peer = Peer(**settings)
            if opened:
                await peer.opened()
            try:
                await asyncio.wait_for(scenario(peer), 20 * SECOND)
            finally:
                peer.refusing = True
                peer.cut()
                await peer.client.aclose()

        def test() -> None:
            asyncio.run(run())

        test.__name__ = scenario.__name__
        return test

    return decorate


async def events(process: RemoteProcess) -> list[Output | Exited]:
    return [event async for event in process]
