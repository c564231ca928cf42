"""Pools that others find by their record and their socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.errors import EngineFailed, LeaseRefused, SettingInvalid
from outfitter.pool import control
from outfitter.pool.pool import Pool
from outfitter.system import LINUX
from tests.support.machine import wait_gone


def test_a_pool_is_found_asked_and_stopped(own_root: Path) -> None:
    async def scenario() -> None:
        async with Pool("local", size=1, name="mine") as pool, pool.lease() as client:
            (record,) = control.known(os.environ)
            assert (record["id"], record["name"], record["pid"]) == (pool.id, "mine", os.getpid())
            for path in (own_root / "state/outfitter/pools").iterdir():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert control.named(os.environ, "mine") == control.named(os.environ, pool.id[:6]) == record
            answer = await asyncio.to_thread(control.ask, record, control.STATUS)
            assert (answer["leased"], answer["draining"]) == (1, False)
            assert "error" in await asyncio.to_thread(control.ask, record, "what")
            await asyncio.to_thread(control.ask, record, control.DRAIN)
            with pytest.raises(LeaseRefused, match="draining"):
                await pool.lease().__aenter__()
            assert (await client.run(["true"])).exit_code == 0
            await asyncio.to_thread(control.ask, record, control.STOP)

    asyncio.run(scenario())
    assert control.known(os.environ) == []
    with pytest.raises(SettingInvalid, match="no pool 'mine' runs here; running: none"):
        control.named(os.environ, "mine")


def test_the_record_of_a_killed_pool_is_removed(own_root: Path) -> None:
    """With its servers: they hold a pipe of its process."""
    code = (
        "import asyncio, json, os, signal\n"
        "from outfitter.pool.pool import Pool\n"
        "async def main():\n"
        "    async with Pool('local', size=1) as pool, pool.lease() as client:\n"
        "        (place,) = pool._places.values()\n"
        "        print(json.dumps(place.link.endpoint.pid), flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    pid = json.loads(done.stdout)
    wait_gone([pid])
    folder = own_root / "state/outfitter/pools"
    assert len(list(folder.iterdir())) == 2
    assert control.known(os.environ) == []
    assert list(folder.iterdir()) == []


def test_one_of_two_pools_must_be_named(own_root: Path) -> None:
    async def scenario() -> None:
        async with Pool("local", size=1, name="twin"), Pool("local", size=1, name="twin"):
            with pytest.raises(SettingInvalid, match="2 pools are meant by 'twin'"):
                control.named(os.environ, "twin")

    asyncio.run(scenario())


@pytest.mark.skipif(not LINUX, reason="others refuse who finds the queue full")
def test_a_frozen_pool_keeps_nobody_waiting(own_root: Path) -> None:
    """Who asks it again and again fills the queue of its socket, and the next one must not wait for ever."""
    folder = own_root / "state/outfitter/pools"
    folder.mkdir(parents=True)
    (folder / "f.json").write_text(json.dumps({"id": "f", "name": "", "started": 1.0}))
    with socket.socket(socket.AF_UNIX) as frozen:  # which accepts nobody
        frozen.bind(str(folder / "f.sock"))
        frozen.listen(1)
        for _ in range(4):
            (record,) = control.known(os.environ)
            assert record["id"] == "f"
        with pytest.raises(EngineFailed, match="pool f does not answer"):
            control.ask(record, control.STATUS)


def test_pools_that_open_at_once_leave_the_umask_alone(own_root: Path) -> None:
    async def opened() -> None:
        async with Pool("local", size=1):
            pass

    async def scenario() -> None:
        await asyncio.gather(opened(), opened(), opened())

    before = os.umask(0o022)
    try:
        asyncio.run(scenario())
    finally:
        after = os.umask(before)
    assert after == 0o022


def test_a_pool_that_is_cancelled_while_it_opens_leaves_nothing_behind(own_root: Path) -> None:
    async def scenario() -> None:
        steps = 0
        while True:
            opening = asyncio.ensure_future(Pool("local", size=1, warm=1).__aenter__())
            for _ in range(steps):
                await asyncio.sleep(0)
            if opening.done():
                await opening.result().aclose()
                break
            opening.cancel()
            await asyncio.wait([opening])
            assert opening.cancelled()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert control.known(os.environ) == []
            steps += 1
        assert steps > 1  # it was cancelled on its way, and not only before it began

    asyncio.run(scenario())
    assert list((own_root / "state/outfitter/pools").iterdir()) == []
