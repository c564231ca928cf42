"""Many tasks over a pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from outfitter.client.client import Client
from outfitter.errors import LeaseRefused, SettingInvalid
from outfitter.pool.pool import Pool
from tests.pool.support import until, with_a_pool


async def double(client: Client, number: int) -> int:
    done = await client.run(["sh", "-c", f"echo $(({number} * 2))"], text=True, check=True)
    return int(done.stdout)


@with_a_pool(size=2)
async def test_every_item_has_its_outcome(pool: Pool) -> None:
    async def task(client: Client, number: int) -> int:
        if number == 2:
            raise ValueError("of the task")
        return await double(client, number)

    found = {outcome.index: outcome async for outcome in pool.map(task, [1, 2, 3])}
    assert [(found[index].item, found[index].state, found[index].value) for index in range(3)] == [
        (1, "done", 2),
        (2, "failed", None),
        (3, "done", 6),
    ]
    assert isinstance(found[1].error, ValueError)
    assert {outcome.attempts for outcome in found.values()} == {1}


@with_a_pool()
async def test_a_task_that_is_refused_says_so(pool: Pool) -> None:
    (outcome,) = [outcome async for outcome in pool.map(double, [1], lease={"setup": ["false"]})]
    assert outcome.state == "refused"
    assert isinstance(outcome.error, LeaseRefused)


@with_a_pool()
async def test_input_is_read_as_room_appears(pool: Pool) -> None:
    read = 0

    def numbers() -> Iterator[int]:
        nonlocal read
        for number in range(1000):
            read += 1
            yield number

    outcomes = pool.map(double, numbers(), at_a_time=3)
    async for outcome in outcomes:
        assert outcome.value == 0
        break
    assert read <= 6
    await outcomes.aclose()  # type: ignore[attr-defined]
    await until(lambda: not pool.status()["waiting"] and not pool.status()["leased"], "nothing is left")


@with_a_pool()
async def test_items_may_come_from_an_async_iterator(pool: Pool) -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in (1, 2):
            await asyncio.sleep(0)
            yield number

    assert sorted([outcome.value async for outcome in pool.map(double, numbers())]) == [2, 4]


@with_a_pool(size=2)
async def test_an_outcome_does_not_wait_for_the_next_item(pool: Pool) -> None:
    """As of a program that has its next task only when it knows what came of the one before."""
    known = asyncio.Event()

    async def numbers() -> AsyncIterator[int]:
        yield 1
        await known.wait()
        yield 2

    found = []
    async for outcome in pool.map(double, numbers()):
        found.append(outcome.value)
        known.set()
    assert found == [2, 4]


@with_a_pool()
async def test_items_that_fail_end_the_loop_and_what_runs(pool: Pool) -> None:
    async def sleep(client: Client, number: int) -> None:
        await client.run(["sleep", "600"])

    async def numbers() -> AsyncIterator[int]:
        yield 1
        await until(lambda: pool.status()["leased"] == 1, "the first task runs")
        raise ValueError("of the items")

    with pytest.raises(ValueError, match="of the items"):
        await anext(pool.map(sleep, numbers()))
    await until(lambda: not pool.status()["waiting"] and not pool.status()["leased"], "nothing is left")


@with_a_pool()
async def test_at_least_one_at_a_time(pool: Pool) -> None:
    with pytest.raises(SettingInvalid, match="at_a_time"):
        await anext(pool.map(double, [1], at_a_time=0))
