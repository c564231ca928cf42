"""Pools in plain calls."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter import sync
from outfitter.errors import LeaseRefused, SessionExpired, SettingInvalid
from tests.support.machine import SECOND


def test_leases_and_tasks_in_plain_calls(own_root: Path) -> None:
    threads = set()

    def task(client: sync.Client, number: int) -> str:
        threads.add(threading.get_ident())
        if number == 1:
            raise ValueError("of the task")
        return client.run(["echo", str(number)], text=True, check=True).stdout

    with sync.Pool("local", size=2, limits="none") as pool:
        lease = pool.lease(name="one")
        with lease as client:
            assert client.run(["pwd"], text=True).stdout.strip() == lease.workspace
            assert lease.state == "leased"
            client.close()  # of this lease alone
        with pytest.raises(SessionExpired):
            client.run(["true"])
        with pytest.raises(LeaseRefused, match="exited with 1"), pool.lease(setup=["false"]):
            pytest.fail("the block must not run")
        found = sorted((outcome.index, outcome.state, outcome.value) for outcome in pool.map(task, range(3)))
        assert found == [(0, "done", "0\n"), (1, "failed", None), (2, "done", "2\n")]
        assert threading.get_ident() not in threads
        assert pool.refresh()["served"] == 5  # the lease that was refused had an executor
        pool.drain()
        with pytest.raises(LeaseRefused, match="draining"), pool.lease():
            pytest.fail("the block must not run")


@pytest.mark.parametrize("when", ["it is given", "it is given back"])
def test_lease_is_given_back_if_ctrl_c_comes_when(
    when: str, own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with sync.Pool("local", size=1, limits="none") as pool:
        lease = pool.lease()
        with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
            if when == "it is given":
                patch.setattr(lease, "_kind", interrupted)
            with lease:
                patch.setattr(pool._background, "call", interrupted)
        with pool.lease(queue_timeout=30 * SECOND) as client:
            assert client.run(["true"]).ok
        assert lease.state == "done"


def test_items_are_read_in_a_thread_of_their_own(own_root: Path) -> None:
    readers = []

    def items() -> Iterator[int]:
        readers.append(threading.current_thread().name)
        yield 1

    with sync.Pool("local", size=1, limits="none") as pool:
        (outcome,) = pool.map(lambda client, number: number, items())
    assert outcome.value == 1
    assert readers[0].startswith("outfitter.pool.items")


@pytest.mark.parametrize("number", [0, -1])
def test_at_least_one_at_a_time(number: int, own_root: Path) -> None:
    with sync.Pool("local", size=1) as pool, pytest.raises(SettingInvalid, match=f"at_a_time: {number} "):
        next(pool.map(lambda client, number: number, [1], at_a_time=number))


def test_importing_outfitter_or_its_plain_client_loads_no_pool() -> None:
    code = (
        "import sys, outfitter, outfitter.sync\n"
        "print([name for name in sys.modules if name.startswith('outfitter.pool')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
