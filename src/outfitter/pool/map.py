"""Many tasks, each in a lease of its own; a lost one is tried again behind its fence."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from ..core.leases import DONE, LOST, REFUSED
from ..errors import LeaseLost, LeaseRefused, SettingInvalid
from ..record import record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
    from typing import Protocol, Unpack

    from ..client.client import Client
    from .lease import Lease
    from .settings import LeaseWishes

T = TypeVar("T")
R = TypeVar("R")

if TYPE_CHECKING:
    Task = Callable[[Client, T], Awaitable[R]]
    Lending = Iterable[T] | AsyncIterable[T]

    class Lender(Protocol):
        @property
        def size(self) -> int: ...
        def lease(self, **wishes: Unpack[LeaseWishes]) -> Lease: ...


FAILED = "failed"
# Tasks that wait beyond those that run: the next is there when an executor is, and input is read no faster.
_AHEAD = 16


@record
class Outcome(Generic[T, R]):
    """What came of one item: `state` is "done", "failed" (the task raised `error`), "lost" or "refused".

        async def build(client, name):
            return (await client.run(["make", name])).exit_code

        async for outcome in pool.map(build, ["html"]):
            print(outcome.item, outcome.state, outcome.value)  # html done 0

    `seconds` is the time in the last lease, whose id is `lease`, and `waited` the time before it.
    """

    index: int
    item: T
    state: str
    value: R | None = None
    error: Exception | None = None
    attempts: int = 1
    node: str = ""
    seconds: float = 0.0
    lease: str = ""
    waited: float = 0.0


async def outcomes(
    pool: Lender,
    task: Task[T, R],
    items: Lending[T],
    *,
    at_a_time: int | None,
    retries: int,
    lease: LeaseWishes | Callable[[T], LeaseWishes],
) -> AsyncGenerator[Outcome[T, R], None]:
    """See `Pool.map`. Raises SettingInvalid. What still runs at the end of the loop over it is cancelled."""
    if at_a_time is not None and at_a_time < 1:
        raise SettingInvalid(f"at_a_time: {at_a_time!r} cannot be used: give a number of at least 1")
    window = at_a_time or pool.size + _AHEAD
    running: set[asyncio.Task[Outcome[T, R]]] = set()
    done: deque[asyncio.Task[Outcome[T, R]]] = deque()
    some, room = asyncio.Event(), asyncio.Event()
    source = _numbered(items)

    def ended(one: asyncio.Task[Outcome[T, R]]) -> None:
        running.discard(one)
        done.append(one)
        some.set()

    async def begin() -> None:
        """In a task of its own: an item that takes its time holds no outcome up."""
        async for index, item in source:
            wishes = lease(item) if callable(lease) else lease
            one = asyncio.ensure_future(_outcome(pool, task, index, item, retries, wishes))
            running.add(one)
            one.add_done_callback(ended)
            while len(running) + len(done) >= window:
                room.clear()
                await room.wait()

    beginning = asyncio.ensure_future(begin())
    beginning.add_done_callback(lambda _: some.set())
    try:
        while True:
            while done:
                one = done.popleft()
                room.set()
                yield one.result()
            if beginning.done():
                beginning.result()
                if not running:
                    break
            some.clear()
            await some.wait()
    finally:
        left = [beginning, *running]
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await source.aclose()


async def _outcome(
    pool: Lender, task: Task[T, R], index: int, item: T, retries: int, wishes: LeaseWishes
) -> Outcome[T, R]:
    attempt = 0
    while True:
        attempt += 1
        lease = pool.lease(**wishes)
        began = time.monotonic()
        entered = False
        value: R | None = None
        error: Exception | None = None
        state = DONE
        try:
            async with lease as client:
                entered, began = True, time.monotonic()
                value = await task(client, item)
        except LeaseLost as lost:
            error, state = lost, LOST
        except Exception as failure:
            refused = isinstance(failure, LeaseRefused) and not entered
            error, state = failure, REFUSED if refused else FAILED
        if state == LOST and attempt <= retries:
            await lease.fenced()
            continue
        seconds = time.monotonic() - began if entered else 0.0
        more = (lease.node, seconds, lease.id, lease.waited)
        return Outcome(index, item, state, value, error, attempt, *more)


async def _numbered(items: Lending[T]) -> AsyncGenerator[tuple[int, T], None]:
    index = 0
    if hasattr(items, "__aiter__"):
        async for item in items:
            yield index, item
            index += 1
        return
    for item in items:
        yield index, item
        index += 1
