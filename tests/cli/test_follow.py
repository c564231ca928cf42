"""What is typed at a terminal on its way to a command whose server is far away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outfitter.cli import follow
from outfitter.cli.detachkeys import DEFAULT, parse
from outfitter.cli.follow import Follower, LeftRunning


class Far:
    """A command at a terminal, and its client: a write is answered when the test says so."""

    tty = True
    exit_code = 0
    environment = None
    state = "connected"

    def __init__(self) -> None:
        self.typed: asyncio.Queue[bytes] = asyncio.Queue()
        self.written: list[bytes] = []
        self.taken = asyncio.Semaphore(0)
        self.ended = asyncio.Event()

    def offers(self, capability: str) -> bool:
        return False

    async def write(self, data: bytes) -> str:
        self.written.append(data)
        await self.taken.acquire()
        return "accepted"

    async def __aiter__(self) -> AsyncIterator[Any]:
        await self.ended.wait()
        return
        yield

    async def keys(self) -> AsyncIterator[bytes]:
        while True:
            yield await self.typed.get()

    async def type(self, *keys: bytes) -> None:
        """Types them, and returns when each was read by itself."""
        for key in keys:
            self.typed.put_nowait(key)
            await settled()


async def settled() -> None:
    """Everybody has had a turn who can do something."""
    for _ in range(20):
        await asyncio.sleep(0)


def following(far: Far, monkeypatch: pytest.MonkeyPatch) -> asyncio.Task[int]:
    monkeypatch.setattr(follow.terminal, "is_terminal", lambda: True)
    monkeypatch.setattr(follow.terminal, "raw", contextlib.nullcontext)
    monkeypatch.setattr(follow.terminal, "standard_input", far.keys)
    one: Any = far
    follower = Follower(one, one, "cat", pass_input=True, may_leave=True, leave_keys=parse(DEFAULT))
    return asyncio.ensure_future(follower.run())


def test_keys_typed_while_the_server_is_told_of_others_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one, each would take a round trip."""

    async def body() -> None:
        far = Far()
        task = following(far, monkeypatch)
        await settled()
        await far.type(b"a", b"b", b"c", b"\r")
        assert far.written == [b"a"]
        far.taken.release()
        await settled()
        assert far.written == [b"a", b"bc\r"]
        far.ended.set()
        assert await task == 0

    asyncio.run(body())


def test_keys_that_leave_come_after_what_was_typed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_SILENT_SECONDS", 60.0)

    async def body() -> None:
        far = Far()
        task = following(far, monkeypatch)
        await settled()
        await far.type(b"make", b" deploy\r", b"~d")
        assert not task.done()
        far.taken.release()
        await settled()
        assert not task.done()
        far.taken.release()
        with pytest.raises(LeftRunning, match="detached"):
            await task
        assert far.written == [b"make", b" deploy\r"]

    asyncio.run(body())


def test_keys_that_leave_do_not_wait_for_a_server_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_SILENT_SECONDS", 0.0)

    async def body() -> None:
        far = Far()
        task = following(far, monkeypatch)
        await settled()
        await far.type(b"make\r", b"~d")
        with pytest.raises(LeftRunning, match="detached"):
            await task

    asyncio.run(body())


def test_command_that_ends_while_it_is_left_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        far = Far()
        task = following(far, monkeypatch)
        await settled()
        await far.type(b"exit\r", b"~d")
        far.ended.set()
        assert await task == 0

    asyncio.run(body())
