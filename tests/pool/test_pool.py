"""Leases on this machine: real servers, real losses."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from outfitter.client.client import Client
from outfitter.core.leases import BEAT, DEAD, FENCE, READY_BEAT, READY_DEAD, Transition
from outfitter.errors import (
    CommandFailed,
    EngineFailed,
    LeaseLost,
    LeaseRefused,
    RequestFailed,
    SessionExpired,
    SettingInvalid,
)
from outfitter.pool.engine import NODE_LOST, Card, Endpoint, Loss, Order, Stopped
from outfitter.pool.link import SlotLink
from outfitter.pool.local import LocalSlot
from outfitter.pool.pool import Pool
from outfitter.transport.dial import DialledTransport
from tests.pool.support import MovedEngine, until, with_a_pool
from tests.support.machine import PROC, SECOND, alive


def server_of(pool: Pool) -> int:
    """The pid of the only server that the pool has."""
    (place,) = pool._places.values()
    assert place.link is not None
    return place.link.endpoint.pid


# Leases


@with_a_pool()
async def test_each_lease_has_a_workspace_of_its_own_that_goes_with_it(pool: Pool) -> None:
    found = []
    for _ in range(2):
        lease = pool.lease(name="task")
        async with lease as client:
            done = await client.run(["sh", "-c", "pwd; echo $HOME; echo $TMPDIR; touch mark; ls"], text=True)
            cwd, home, scratch, *listed = done.stdout.split()
            assert (cwd, listed) == (lease.workspace, ["mark"])
            assert Path(home).parent == Path(scratch).parent == Path(cwd).parent
            assert (lease.state, lease.node) == ("leased", os.uname().nodename)
            found.append(cwd)
        assert lease.state == "done"
    assert found[0] != found[1]
    await until(lambda: not any(map(os.path.exists, found)), "workspaces are removed")


@with_a_pool()
async def test_the_token_of_a_server_is_in_nobody_elses_sight(pool: Pool) -> None:
    async with pool.lease():
        pid = server_of(pool)
        (place,) = pool._places.values()
        assert place.link is not None
        words = Path(f"{PROC}/{pid}/cmdline").read_bytes() + Path(f"{PROC}/{pid}/environ").read_bytes()
        async with asyncio.timeout(10 * SECOND):
            with pytest.raises(OSError):
                await _stranger(place.link.endpoint.url)
    assert b"--ws-token-sha256" in words


async def _stranger(url: str) -> None:
    from outfitter.client.connect import connect

    async with connect(url, token="guessed"):
        pass


@with_a_pool()
async def test_a_lease_that_ends_takes_its_commands_along(pool: Pool) -> None:
    async with pool.lease() as client:
        process = await client.start(["sh", "-c", "echo $$; sleep 600"])
        async for event in process:
            pid = int(event.data)  # type: ignore[union-attr]
            break
    await until(lambda: not alive(pid), "the command has ended")
    with pytest.raises(SessionExpired, match="the lease has ended"):
        await client.run(["true"])


@with_a_pool(env={"COLOUR": "green"}, setup=["sh", "-c", "echo $COLOUR > made"])
async def test_setups_run_before_the_block(pool: Pool) -> None:
    async with pool.lease(setup=["cp", "made", "copied"]) as client:
        assert await client.files.read_text("copied") == "green\n"


@with_a_pool()
async def test_a_lease_whose_setup_fails_is_refused_with_its_last_words(pool: Pool) -> None:
    with pytest.raises(LeaseRefused, match="no such rule") as caught:
        async with pool.lease(setup=["sh", "-c", "echo no such rule >&2; exit 2"]):
            pytest.fail("the block must not run")
    assert caught.value.reason == "setup-failed"
    async with pool.lease() as client:
        assert (await client.run(["true"])).exit_code == 0


@with_a_pool(setup=["sh", "-c", "until [ -e go ]; do sleep 0.02; done"])
async def test_a_setup_is_no_slow_start(pool: Pool) -> None:
    async def hold() -> None:
        async with pool.lease():
            pass

    holding = asyncio.ensure_future(hold())
    await until(lambda: any(slot.setting_up for slot in pool._book.slots.values()), "the setup runs")
    for work in Path(os.environ["OUTFITTER_POOL_ROOT"]).rglob("work"):
        (work / "go").touch()
    await holding


@with_a_pool(setup=["false"])
async def test_a_pool_whose_setup_fails_refuses_everybody_at_last(pool: Pool) -> None:
    for _ in range(2):
        with pytest.raises(LeaseRefused) as caught:
            async with pool.lease():
                pytest.fail("the block must not run")
        assert caught.value.reason == "setup-failed"


@with_a_pool()
async def test_a_lease_that_nobody_gets_in_time_is_refused(pool: Pool) -> None:
    async with pool.lease():
        with pytest.raises(LeaseRefused, match="1 executors were busy") as caught:
            async with pool.lease(queue_timeout=0.1):
                pytest.fail("the block must not run")
    assert caught.value.reason == "timed-out"


@with_a_pool()
async def test_what_no_node_has_is_impossible(pool: Pool) -> None:
    with pytest.raises(LeaseRefused, match="1e\\+06 cpus") as caught:
        async with pool.lease(cpus=1e6):
            pytest.fail("the block must not run")
    assert caught.value.reason == "impossible"


@with_a_pool()
async def test_a_lease_is_for_one_block(pool: Pool) -> None:
    lease = pool.lease()
    assert (lease.state, lease.waited) == ("new", 0)
    async with lease:
        assert lease.waited > 0
    with pytest.raises(SettingInvalid, match="enter its block"):
        await pool.lease().lost
    with pytest.raises(SettingInvalid, match="one block"):
        async with lease:
            pytest.fail("the block must not run twice")


@with_a_pool()
async def test_cancelling_a_lease_that_waits_leaves_nothing_behind(pool: Pool) -> None:
    async with pool.lease():
        waiting = asyncio.ensure_future(pool.lease().__aenter__())
        await until(lambda: pool.status()["waiting"] == 1, "it waits")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert pool.status()["waiting"] == 0
    async with pool.lease() as client:
        assert (await client.run(["true"])).exit_code == 0


@with_a_pool()
async def test_a_workspace_can_be_kept(pool: Pool) -> None:
    async with pool.lease(keep_workspace=True) as client:
        await client.files.write("report", b"all is well")
    await until(lambda: bool(pool.status()["kept"]), "the workspace is kept")
    (kept,) = pool.status()["kept"]
    assert (kept["lease"], kept["node"], kept["bytes"]) == ("l1", os.uname().nodename, 11)
    assert Path(kept["path"], "work", "report").read_bytes() == b"all is well"


@with_a_pool(size=2)
async def test_draining_waits_for_those_there_are_and_refuses_others(pool: Pool) -> None:
    async with pool.lease():
        draining = asyncio.ensure_future(pool.drain())
        await until(lambda: pool.status()["draining"], "it drains")
        with pytest.raises(LeaseRefused) as caught:
            async with pool.lease():
                pytest.fail("the block must not run")
        assert not draining.done()
    await draining
    assert caught.value.reason == "draining"
    await until(lambda: pool.status()["slots"] == {}, "the slots are stopped")


def test_a_pool_is_for_one_block(own_root: Path) -> None:
    """A second one would look after executors that it cannot have, and never end."""

    async def main() -> None:
        pool = Pool("local", size=1)
        async with pool:
            with pytest.raises(SettingInvalid, match="a pool is for one block"):
                await pool.__aenter__()
        with pytest.raises(SettingInvalid, match="a pool is for one block"):
            await pool.__aenter__()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_closing_a_pool_loses_what_is_held(own_root: Path) -> None:
    async def scenario() -> None:
        async with Pool("local", size=1) as pool:
            lease = pool.lease()
            client = await lease.__aenter__()
            running = asyncio.ensure_future(client.run(["sleep", "600"]))
            await asyncio.sleep(0)
        with pytest.raises(LeaseLost, match="the pool is closed"):
            await running
        with pytest.raises(LeaseRefused, match="not open"):
            await pool.lease().__aenter__()

    asyncio.run(scenario())
    left = [path for path in own_root.rglob("work") if ".gone" not in str(path)]
    assert left == []


def test_closing_a_pool_closes_clients_that_nobody_has_yet(
    own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        there = asyncio.Event()
        clients: list[Client] = []

        async def compared(self: Pool, place: object, link: SlotLink) -> None:
            clients.append(link.client)
            there.set()
            await asyncio.Event().wait()

        async def stopped(self: LocalSlot, *, keep: bool = False) -> Stopped:
            """Has the client come when the slot has been let go of."""
            held.set()
            await there.wait()
            return await stop(self, keep=keep)

        async def opened(self: SlotLink) -> Client:
            starting.set()
            await held.wait()
            return await open_link(self)

        stop, open_link = LocalSlot.stop, SlotLink.open
        starting, held = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(Pool, "_compare", compared)
        monkeypatch.setattr(LocalSlot, "stop", stopped)
        monkeypatch.setattr(SlotLink, "open", opened)
        async with Pool("local", size=1, warm=1):
            await starting.wait()
        assert [client.failed is not None for client in clients] == [True]

    asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))


# Losing


@with_a_pool()
async def test_a_killed_server_loses_its_lease_and_the_next_one_gets_another(pool: Pool) -> None:
    lease = pool.lease()
    with pytest.raises(LeaseLost) as caught:
        async with lease as client:
            running = asyncio.ensure_future(client.run(["sh", "-c", "echo $$ > pid; sleep 600"]))
            await until(lambda: Path(lease.workspace, "pid").is_file(), "it runs")
            os.kill(server_of(pool), signal.SIGKILL)
            lost = await lease.lost
            await until(lambda: len(pool._places) == 0, "the slot is stopped")
            with pytest.raises(LeaseLost) as later:
                await client.run(["true"])
            assert later.value is lost
            await running
    assert caught.value is lost
    assert (lost.reason, lost.node) == ("executor-ended", lease.node)
    assert lease.state == "lost"
    async with pool.lease() as client:
        assert (await client.run(["true"])).exit_code == 0
    assert pool.status()["lost"] == {"executor-ended": 1}


@with_a_pool(memory="64MiB", limits="wanted")
async def test_an_executor_that_the_kernel_kills_for_its_memory_is_lost_to_that(pool: Pool) -> None:
    """A server that has nothing but a request larger than its group may have."""
    with pytest.raises(LeaseLost) as caught:
        async with pool.lease() as client:
            if set(pool.status()["limits"]) <= {"rlimit"}:
                pytest.skip("no control group can be made here")
            try:
                await client.call("no/such/method", {"padding": "x" * (60 << 20)})
            except RequestFailed:
                pytest.skip("this machine swaps instead")
    assert caught.value.reason == "out-of-memory"
    assert pool.status()["lost"] == {"out-of-memory": 1}


@with_a_pool(memory="128MiB", limits="wanted")
async def test_a_command_that_the_kernel_kills_for_its_memory_says_so_and_the_lease_goes_on(
    pool: Pool,
) -> None:
    greedy = [sys.executable, "-c", "x = bytearray(512 << 20)"]
    async with pool.lease() as client:
        if set(pool.status()["limits"]) <= {"rlimit"}:
            pytest.skip("no control group can be made here")
        done = await client.run(greedy)
        if done.ok:
            pytest.skip("this machine swaps instead")
        assert (done.exit_code, done.signal, done.reason) == (137, "KILL", "out-of-memory")
        of_a_shell = await client.run(["sh", "-c", '"$@"; exit $?', "sh", *greedy], text=True)
        assert (of_a_shell.exit_code, of_a_shell.signal, of_a_shell.reason) == (137, None, "out-of-memory")
        assert (await client.run(["sh", "-c", "kill -9 $$"])).reason is None
        ended = await client.start(["sleep", "600"])
        await ended.terminate()
        assert (await ended.wait(), ended.reason) == (137, None)
        assert (await client.run(["true"])).ok


@with_a_pool()
async def test_a_lease_survives_a_connection_that_breaks(pool: Pool) -> None:
    async with pool.lease() as client:
        process = await client.start(["cat"], stdin=True)
        connection = client._session.link.connection
        assert connection is not None
        connection.abandon("the network is cut")
        await process.write(b"still here")
        await process.close_stdin()
        assert await process.wait() == 0
    assert pool.status()["lost"] == {}


@with_a_pool()
async def test_a_start_under_way_is_told_the_loss_and_not_the_broken_connection(pool: Pool) -> None:
    with pytest.raises(LeaseLost):
        async with pool.lease() as client:
            os.kill(server_of(pool), signal.SIGKILL)
            await asyncio.gather(*(client.start(["sleep", "600"]) for _ in range(20)))


@with_a_pool(size=2)
async def test_a_command_that_is_killed_before_its_server_is_the_loss_of_both(pool: Pool) -> None:
    """As where a node is shut down: everything there gets the signal, and commands are quicker to end."""
    outcomes = [one async for one in pool.map(killed_at_first(pool, server=True), ["first"], retries=1)]
    assert [(one.state, one.attempts, one.value) for one in outcomes] == [("done", 2, "second try")]
    assert pool.status()["lost"] == {"executor-ended": 1}


@with_a_pool()
async def test_a_command_that_is_killed_alone_is_a_failure(pool: Pool) -> None:
    outcomes = [one async for one in pool.map(killed_at_first(pool, server=False), ["first"], retries=1)]
    assert [(one.state, one.attempts) for one in outcomes] == [("failed", 1)]
    assert isinstance(outcomes[0].error, CommandFailed)
    assert pool.status()["lost"] == {}


def killed_at_first(pool: Pool, *, server: bool) -> Callable[[Client, str], Awaitable[str]]:
    """A task whose command is killed the first time, and then its server."""
    tries: list[str] = []

    async def task(client: Client, item: str) -> str:
        tries.append(item)
        if len(tries) > 1:
            return "second try"
        done = await client.run(["sh", "-c", "kill -TERM $$"])
        if server:
            os.kill(server_of(pool), signal.SIGKILL)
        done.check()
        return "first try"

    return task


@with_a_pool()
async def test_a_caller_that_is_cancelled_while_it_asks_for_the_verdict_returns_its_lease(pool: Pool) -> None:
    asking = asyncio.Event()

    async def failing() -> None:
        async with pool.lease() as client:
            done = await client.run(["sh", "-c", "kill -TERM $$"])
            os.kill(server_of(pool), signal.SIGSTOP)  # it does not answer
            asking.set()
            done.check()

    task = asyncio.ensure_future(failing())
    await asking.wait()
    server = server_of(pool)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    os.kill(server, signal.SIGCONT)
    assert not pool._leases


@with_a_pool(size=2)
async def test_a_silent_executor_is_lost_and_a_retry_waits_until_its_commands_have_ended(pool: Pool) -> None:
    """The server is frozen; its command goes on, as on a node that is cut off."""
    root = Path(os.environ["OUTFITTER_POOL_ROOT"])
    journal, begun = root / "journal", []

    async def task(client: Client, _: int) -> str:
        begun.append(asyncio.get_running_loop().time())
        if len(begun) == 2:
            return journal.read_text().split()[-1]
        script = f"echo $$ > {root}/pid; while echo first >> {journal}; do sleep 0.1; done"
        running = asyncio.ensure_future(client.run(["sh", "-c", script]))
        await until(journal.is_file, "it runs")
        os.kill(server_of(pool), signal.SIGSTOP)
        await running
        raise AssertionError("it cannot have ended")

    (outcome,) = [outcome async for outcome in pool.map(task, [0], retries=1)]
    assert (outcome.state, outcome.attempts, outcome.value) == ("done", 2, "first")
    assert begun[1] - begun[0] >= FENCE
    assert not alive(int((root / "pid").read_text()))
    assert pool.status()["lost"] == {"silent": 1}


@with_a_pool()
async def test_commands_and_signs_of_life_are_counted(pool: Pool) -> None:
    async with pool.lease() as client:
        for _ in range(2):
            await client.run(["true"])
        assert "outfitter_pool_commands_total 2\n" in pool.metrics()
        await until(lambda: "outfitter_pool_heartbeat_seconds_count" in pool.metrics(), "a ping is answered")
    await until(lambda: pool.status()["slots"] == {"ready": 1}, "it is renewed")
    told = pool.metrics()
    assert "outfitter_pool_commands_total 2\n" in told
    assert "outfitter_pool_renew_seconds_count 1\n" in told
    assert pool.status()["renewals"] == 1


@with_a_pool(warm=1)
async def test_an_executor_that_nobody_has_is_asked_less_often(pool: Pool) -> None:
    await until(lambda: pool.status()["slots"] == {"ready": 1}, "one is ready")
    (place,) = pool._places.values()
    assert place.link is not None
    link = place.link.client._session.link

    def pace() -> tuple[float, float] | None:
        transport = None if link.connection is None else link.connection.transport
        return (transport._ping, transport._dead) if isinstance(transport, DialledTransport) else None

    assert pace() == (READY_BEAT, READY_DEAD - READY_BEAT)
    first = link.connection
    assert first is not None
    first.abandon("the network is cut")
    await until(lambda: link.connection not in (None, first), "there is another connection")
    await until(lambda: pace() == (READY_BEAT, READY_DEAD - READY_BEAT), "it has the pace of the first one")
    async with pool.lease():
        assert pace() == (BEAT, DEAD - BEAT)


# Standing by


@with_a_pool(standby=True, setup=["touch", "made"])
async def test_the_next_server_stands_by_while_a_lease_runs(pool: Pool) -> None:
    first, second = pool.lease(), pool.lease()
    async with first:
        (place,) = pool._places.values()
        await until(lambda: place.next is not None, "the next one stands by")
        assert place.next is not None
        coming = place.next[0].endpoint
        assert os.path.exists(f"{coming.workspace}/made") and coming.workspace != first.workspace
    async with second as client:
        assert (second.workspace, server_of(pool)) == (coming.workspace, coming.pid)
        assert (await client.run(["ls"], text=True)).stdout == "made\n"
        assert not os.path.exists(first.workspace)
        await until(lambda: place.next is not None, "the one after it stands by")
        os.kill(place.next[0].endpoint.pid, signal.SIGKILL)
        await until(lambda: place.next is None, "its loss is noticed")
        assert (await client.run(["true"])).ok  # which disturbs nobody
    async with pool.lease() as client:
        assert (await client.run(["true"])).ok
    assert pool.status()["lost"] == {}


@with_a_pool(standby=True)
async def test_a_lost_executor_takes_the_server_that_stands_by_along(pool: Pool) -> None:
    with pytest.raises(LeaseLost):
        async with pool.lease() as client:
            (place,) = pool._places.values()
            await until(lambda: place.next is not None, "the next one stands by")
            assert place.next is not None
            coming = place.next[0].endpoint
            os.kill(server_of(pool), signal.SIGKILL)
            await client.run(["sleep", "600"])
    await until(lambda: not os.path.exists(f"/proc/{coming.pid}"), "it ends")
    await until(lambda: not os.path.exists(coming.workspace), "its workspace is removed")


# The engine


def with_engine(scenario: object, **wishes: float) -> None:
    async def run() -> None:
        moved = MovedEngine()
        async with asyncio.timeout(60 * SECOND), Pool(moved, **{"size": 1, **wishes}) as pool:  # type: ignore[arg-type]
            await scenario(pool, moved)  # type: ignore[operator]

    asyncio.run(run())


def test_a_slot_that_the_engine_has_lost_serves_its_lease_to_the_end(own_root: Path) -> None:
    async def scenario(pool: Pool, moved: MovedEngine) -> None:
        async with pool.lease() as client:
            moved.slots[0].went.set_result(Loss(NODE_LOST, "the agent of the node is dead"))
            await until(lambda: "draining" in pool.status()["slots"], "the slot drains")
            assert (await client.run(["true"])).exit_code == 0
        async with pool.lease() as client:
            assert (await client.run(["true"])).exit_code == 0
        assert len(moved.slots) == 2
        assert pool.status()["lost"] == {}

    with_engine(scenario)


def test_an_engine_that_cannot_start_anything_fails_the_pool_with_its_words(own_root: Path) -> None:
    async def broken(order: Order) -> None:
        raise EngineFailed("no such image")

    async def scenario(pool: Pool, moved: MovedEngine) -> None:
        moved.failing = broken
        with pytest.raises(LeaseRefused, match="no such image"):
            async with pool.lease():
                pytest.fail("the block must not run")
        assert len(moved.orders) == 5

    with_engine(scenario)


def test_an_engine_with_a_fault_of_its_own_fails_the_pool_too(own_root: Path) -> None:
    async def faulty(order: Order) -> None:
        raise ValueError("of the engine")

    async def scenario(pool: Pool, moved: MovedEngine) -> None:
        moved.failing = faulty
        with pytest.raises(LeaseRefused, match="ValueError: of the engine"):
            async with pool.lease():
                pytest.fail("the block must not run")
        await pool.drain()  # what was refused is not waited for
        assert pool.failed is not None

    with_engine(scenario)


def test_an_engine_that_comes_back_goes_on(own_root: Path) -> None:
    async def away(order: Order) -> None:
        raise EngineFailed("connection refused", retryable=True)

    async def scenario(pool: Pool, moved: MovedEngine) -> None:
        moved.failing = away
        waiting = asyncio.ensure_future(pool.lease().__aenter__())
        await until(lambda: pool.status()["engine_lost"] != "", "the engine is away")
        moved.failing = None
        client = await waiting
        assert (await client.run(["true"])).exit_code == 0

    with_engine(scenario)


def test_a_node_with_another_version_gets_no_lease(own_root: Path) -> None:
    async def old(card: Card) -> Endpoint:
        return Endpoint(url="ws://127.0.0.1:1", node="n1", version="9.1.0")

    class OldEngine(MovedEngine):
        async def start(self, order: Order) -> LocalSlot:
            slot = await super().start(order)
            slot.serve = old  # type: ignore[method-assign]
            return slot

    async def run() -> None:
        async with asyncio.timeout(60 * SECOND), Pool(OldEngine(), size=1) as pool:
            with pytest.raises(
                LeaseRefused, match=r"n1 has Outfitter 9\.1\.0, and here is .*: install the same"
            ):
                async with pool.lease():
                    pytest.fail("the block must not run")

    asyncio.run(run())


def test_an_end_that_nobody_has_seen_is_counted(own_root: Path) -> None:
    async def scenario(pool: Pool, moved: MovedEngine) -> None:
        async with pool.lease():
            stop = moved.slots[0].stop

            async def unseen(*, keep: bool = False) -> Stopped:
                await stop(keep=keep)
                return Stopped(False, "nobody has looked")

            moved.slots[0].stop = unseen  # type: ignore[method-assign]
        await pool.drain()
        await until(lambda: pool.status()["unconfirmed"] == 1, "it is counted")

    with_engine(scenario)


def test_a_node_with_another_environment_is_named(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Transition] = []

    async def scenario() -> None:
        async with Pool("local", size=2, env={"BOTH": "same"}, on_event=told.append) as pool, pool.lease():
            assert pool.status()["mismatched"] == {}
            monkeypatch.setenv("PLANTED", "s3cret")
            async with pool.lease():
                assert pool.status()["mismatched"] == {os.uname().nodename: ["PLANTED"]}

    asyncio.run(scenario())
    assert [event.reason for event in told if event.reason.startswith("env")] == [
        "environment differs: PLANTED"
    ]
    assert "s3cret" not in str(told)


def test_events_are_told_and_one_that_fails_disturbs_nothing(own_root: Path) -> None:
    told: list[Transition] = []

    def on_event(event: Transition) -> None:
        told.append(event)
        raise ValueError("of the listener")

    async def run() -> None:
        async with Pool("local", size=1, on_event=on_event) as pool, pool.lease() as client:
            await client.run(["true"])

    asyncio.run(run())
    assert [event.after for event in told if event.what == "lease"] == ["queued", "leased", "done"]
    assert [event.after for event in told if event.what == "slot"][:3] == ["starting", "ready", "leased"]
