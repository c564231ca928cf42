"""Tasks of a job file. One whose executor is lost is never told as done, or as failed."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from outfitter.cli.pool import run
from outfitter.cli.pool.jobs import parse
from outfitter.cli.pool.task import perform
from outfitter.errors import LeaseLost
from outfitter.pool.map import Outcome
from outfitter.pool.pool import Pool
from tests.pool.support import with_a_pool
from tests.support.machine import SECOND


@pytest.fixture
def own_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(prefix="op", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("OUTFITTER_POOL_ROOT", folder)
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        yield Path(folder)


def kill_server(pool: Pool) -> None:
    (place,) = pool._places.values()
    assert place.link is not None
    os.kill(place.link.endpoint.pid, signal.SIGKILL)


@with_a_pool()
async def test_a_command_that_a_signal_has_ended_before_its_server(pool: Pool) -> None:
    with pytest.raises(LeaseLost):
        async with pool.lease() as client:
            run = client.run

            async def run_and_kill(*args: Any, **wishes: Any) -> Any:
                done = await run(*args, **wishes)
                kill_server(pool)
                return done

            client.run = run_and_kill  # type: ignore[method-assign]
            await perform(client, parse(b'{"id": "a", "script": "kill -TERM $$"}'), 1000)


@with_a_pool()
async def test_the_server_ends_while_files_are_collected(pool: Pool) -> None:
    with pytest.raises(LeaseLost):
        async with pool.lease() as client:
            walk = client.files.walk

            async def walk_and_kill(path: str) -> Any:
                found = await walk(path)
                kill_server(pool)
                return found

            client.files.walk = walk_and_kill  # type: ignore[method-assign, assignment]
            await perform(client, parse(b'{"id": "a", "script": "echo 1 > a", "collect": ["a"]}'), 1000)


@with_a_pool()
async def test_a_command_that_a_signal_has_ended_alone(pool: Pool) -> None:
    async with pool.lease() as client:
        result = await perform(client, parse(b'{"id": "a", "script": "kill -TERM $$"}'), 1000)
    assert result == {"exit_code": 143, "stdout": "", "stderr": "", "truncated": False}


@with_a_pool()
async def test_output_that_was_cut_is_told_however_the_command_ended(pool: Pool) -> None:
    async with pool.lease() as client:
        for script in ("printf 12345", "printf 12345; exec sleep 600"):
            for most, kept in ((4, "2345"), (5, "12345")):
                job = parse(json.dumps({"id": "a", "script": script, "timeout": 2 * SECOND}).encode())
                result = await perform(client, job, most)
                assert (result["stdout"], result["truncated"]) == (kept, most < 5)


@with_a_pool()
async def test_a_workspace_in_which_not_all_was_looked_at_is_told(pool: Pool) -> None:
    async with pool.lease() as client:
        walk = client.files.walk

        async def walk_a_little(path: str) -> Any:
            return await walk(path, entries=1)

        client.files.walk = walk_a_little  # type: ignore[method-assign, assignment]
        line = b'{"id": "a", "script": "echo 1 > a; echo 2 > b", "collect": ["*"]}'
        result = await perform(client, parse(line), 1000)
    assert (result["exit_code"], len(result["collected"])) == (0, 1)
    assert result["error"].startswith("the workspace has too many files to collect from")


@with_a_pool()
async def test_a_command_that_removes_its_workspace_has_its_result(pool: Pool) -> None:
    async with pool.lease() as client:
        line = b'{"id": "a", "script": "rm -r $PWD; echo gone", "collect": ["*"]}'
        result = await perform(client, parse(line), 1000)
    assert (result["exit_code"], result["stdout"], result["collected"]) == (0, "gone\n", {})


def test_tasks_are_read_ahead_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b'{"id": "%d", "script": "%s"}\n' % (number, b"x" * 100) for number in range(5)]
    monkeypatch.setattr(run, "_AHEAD_BYTES", 2 * len(lines[0]))

    async def scenario() -> None:
        source = io.BytesIO(b"".join(lines))
        work = run._Run({"max_output": 1}, source, {"1"}, 4, io.BytesIO())
        tasks = aiter(work._tasks())
        read = [await anext(tasks), await anext(tasks)]
        third = asyncio.ensure_future(anext(tasks))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not third.done()
        work._write(Outcome(0, read[0], "done", {"exit_code": 0}))
        assert (await third).id == "3"
        work._write(Outcome(1, read[1], "done", {"exit_code": 0}))
        assert (await anext(tasks)).id == "4"

    asyncio.run(scenario())


def test_a_task_that_is_larger_than_what_is_read_ahead_is_read_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "_AHEAD_BYTES", 1)

    async def scenario() -> None:
        source = io.BytesIO(b'{"id": "a", "script": "x"}\n')
        work = run._Run({"max_output": 1}, source, set(), 1, io.BytesIO())
        assert [job.id async for job in work._tasks()] == ["a"]

    asyncio.run(scenario())


def test_a_second_interruption_breaks_nothing_off(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the loop does just then would never end, and whoever waits for it would wait for ever."""
    broken_off = []

    async def interrupted(*_: object) -> Any:
        try:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            broken_off.append(True)
        await asyncio.Event().wait()

    monkeypatch.setattr(run, "perform", interrupted)
    (own_root / "tasks").write_text('{"id": "a", "command": ["true"]}\n')
    assert run.run(flags(own_root)) == run.INTERRUPTED
    assert broken_off == []
    assert '"state":"cancelled"' in (own_root / "results").read_text()


@pytest.mark.parametrize("end", ["", "\n"])
def test_what_is_written_behind_the_tasks_while_they_run_is_not_read(
    own_root: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """It was not checked: the id of another task, or half a line, ended the run."""

    async def append(*_: object) -> Any:
        with (own_root / "tasks").open("a") as file:
            file.write('\n{"id": "a", "command": ["true"]}\n{"id": "half')
        return {"exit_code": 0}

    monkeypatch.setattr(run, "perform", append)
    monkeypatch.setattr(run, "_AHEAD_BYTES", 1)
    (own_root / "tasks").write_text('{"id": "a", "script": ""}\n{"id": "b", "script": ""}' + end)
    assert run.run(flags(own_root)) == 0
    results = [json.loads(line)["id"] for line in (own_root / "results").read_text().splitlines()]
    assert results == ["a", "b"]


def flags(folder: Path) -> dict[str, Any]:
    """Of a run on one executor."""
    given = {"jobs": str(folder / "tasks"), "out": str(folder / "results"), "on": "local", "metrics": None}
    given |= {"resume": False, "rerun": (), "retries": 0, "max_output": 1000, "limits": "none", "size": 1}
    return {**dict.fromkeys(run._WISHES), **given}
