"""The connection to one environment, shared by all who use it: one attempt at a time, its result kept.

What to do is decided in `lifecycle`. A connection is retired when its name goes to another environment, or
to none; steps that hold it keep using it, and the last one to let go closes it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import EnvironmentReplaced
from ..log import note
from ..record import record
from .lifecycle import FAIL, OPEN, READY, TAKE, Lifecycle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ..client.client import Client

# A client takes 2 s at most to end what it started, a program 2 s more to heed SIGTERM.
_CLOSE_SECONDS = 6.0


@record
class Opened:
    """A client, and how to close it with all that was opened for it."""

    client: Client
    close: Callable[[], Awaitable[None]]


class Tasks:
    """Tasks with an owner, who waits for their end."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def ended(self) -> None:
        while self._running:
            await asyncio.wait(self._running)


class _Attempt:
    """One attempt: `task` makes it, `of_steps` and `of_others` are what those who wait for it wait for."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.of_steps: asyncio.Future[Client] = loop.create_future()
        self.of_others: asyncio.Future[Client] = loop.create_future()
        self.task: asyncio.Task[None] | None = None
        for future in (self.of_steps, self.of_others):
            # An eager attempt may have nobody who waits: looked at, a failure is not complained about.
            future.add_done_callback(asyncio.Future.exception)

    def succeed(self, client: Client) -> None:
        for future in (self.of_steps, self.of_others):
            if not future.done():
                future.set_result(client)

    def fail(self, error: Exception) -> None:
        self.fail_others(error)
        if not self.of_steps.done():
            self.of_steps.set_exception(error)

    def fail_others(self, error: Exception) -> None:
        if not self.of_others.done():
            self.of_others.set_exception(error)


class EnvironmentConnection:
    """`open` makes a client; `reopens` says whether it may be asked again after a client was lost."""

    def __init__(
        self, environment_id: str, open: Callable[[], Awaitable[Opened]], tasks: Tasks, *, reopens: bool
    ) -> None:
        self.lifecycle = Lifecycle(reopens=reopens)
        self.retired: str | None = None  # how
        self._id = environment_id
        self._open = open
        self._tasks = tasks
        self._attempt: _Attempt | None = None
        self._opened: Opened | None = None
        self._holds = 0
        self._is_shut = False

    # Using it

    async def client(self, *, held: bool) -> Client:
        """The client, connected if need be; `held` is for a step that holds the connection.

        Raises what kept it from connecting, or EnvironmentReplaced.
        """
        if self.is_gone(held=held):
            assert self.retired is not None
            raise EnvironmentReplaced(self._id, self.retired)
        self.begin()
        if self.lifecycle.on_use() == TAKE:
            assert self._opened is not None
            return self._opened.client
        if self.lifecycle.on_use() == FAIL:
            assert self.lifecycle.error is not None
            # The same error each time, but not with the tracebacks of all the times before.
            raise self.lifecycle.error.with_traceback(None)
        assert self._attempt is not None
        # Whoever gives up waiting leaves the attempt to the others, and its result to the next.
        return await asyncio.shield(self._attempt.of_steps if held else self._attempt.of_others)

    def begin(self) -> None:
        """Starts an attempt if a use would."""
        self.current()
        if self.lifecycle.on_use() == OPEN and not self._is_shut:
            self.lifecycle.begin()
            self._attempt = _Attempt()
            self._attempt.task = self._tasks.start(self._try(self._attempt))

    def current(self) -> Client | None:
        """The client as far as there is a live one; changes nothing but what is known."""
        if self._opened is None:
            return None
        client: Client = self._opened.client
        if self.lifecycle.state == READY and client.failed is not None:
            note("client", "=", "environment %s is lost: %s", self._id, client.failed)
            self.lifecycle.lost(client.failed)
            self._close()
            return None
        return client

    async def _try(self, attempt: _Attempt) -> None:
        try:
            opened = await self._open()
        except asyncio.CancelledError:
            attempt.fail(EnvironmentReplaced(self._id, self.retired or "closed"))
            raise
        except Exception as error:
            self._attempt = None
            note("client", "=", "environment %s could not be reached: %s", self._id, error)
            self.lifecycle.failed(error)
            attempt.fail(error)
            return
        self._attempt = None
        self._opened = opened
        self.lifecycle.opened()
        if self._is_shut:  # it came too late to be cancelled
            self._close()
        attempt.succeed(opened.client)

    # Letting it go

    def is_gone(self, *, held: bool) -> bool:
        return self._is_shut or (self.retired is not None and not held)

    def hold(self) -> None:
        """Keeps it for a step, whatever becomes of its name."""
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if self.retired is not None and not self._holds:
            self._shut()

    def retire(self, how: str, *, from_steps: bool = False) -> None:
        """Ends it for all but the steps that hold it, or for these too."""
        if self.retired is None:
            self.retired = how
            if self._attempt is not None:
                self._attempt.fail_others(EnvironmentReplaced(self._id, how))
        if from_steps or not self._holds:
            self._shut()

    def _shut(self) -> None:
        if self._is_shut:
            return
        self._is_shut = True
        if self._attempt is not None and self._attempt.task is not None:
            assert self.retired is not None
            self._attempt.fail(EnvironmentReplaced(self._id, self.retired))
            self._attempt.task.cancel()
        self._close()

    def _close(self) -> None:
        if self._opened is not None:
            self._tasks.start(_closed(self._id, self._opened))
            self._opened = None


async def _closed(environment_id: str, opened: Opened) -> None:
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await opened.close()
    except Exception as error:
        note("client", "!", "environment %s could not be closed: %r", environment_id, error)
