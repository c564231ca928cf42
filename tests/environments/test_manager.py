"""The manager: names, shared attempts, replacement and steps; then the same on real servers and programs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.client.client import Client
from outfitter.environments import connection
from outfitter.environments.file import Configuration, Declared
from outfitter.environments.manager import Environment, EnvironmentManager, Status, Step
from outfitter.errors import (
    DialFailed,
    Disconnected,
    EnvironmentReplaced,
    EnvironmentUnknown,
    OutfitterError,
    RequestFailed,
    SessionExpired,
    SettingInvalid,
)
from tests.support.machine import SECOND, alive, children, wait_gone
from tests.support.servers import serving

from .door import Door, Guest, in_a_loop, settle

A = Declared("a", url="ws://127.0.0.1:1")
B = Declared("b", url="ws://127.0.0.1:2")
C = Declared("c", program="prog", args=("x y",), env={"SECRET": "s3cr3t"})
NEW_A = Declared("a", url="ws://127.0.0.1:9")
BUSY = DialFailed("busy", retryable=True)
NEVER = DialFailed("never", retryable=False)


def managing(door: Door, *environments: Declared, default: str | None = "local") -> EnvironmentManager:
    return EnvironmentManager(Configuration(environments=environments, default=default), opener=door)


def ids(environments: list[Environment]) -> list[str]:
    return [one.id for one in environments]


async def outcome(task: asyncio.Task[Any]) -> Exception:
    """What a task failed with."""
    with pytest.raises(Exception) as raised:
        await task
    return raised.value


def using(environment: Environment) -> asyncio.Task[Client]:
    return asyncio.ensure_future(environment.client())


# Names


@in_a_loop
async def test_environments_come_in_the_order_they_were_declared() -> None:
    async with managing(Door(), B, C, A) as manager:
        assert ids(manager.all()) == ["local", "b", "c", "a"]
        assert manager.get("c").declared is C
        assert manager.local() is manager.get("local")


@in_a_loop
async def test_the_default_is_offered_first() -> None:
    async with managing(Door(), B, C, A, default="c") as manager:
        assert manager.default() is manager.get("c")
        assert ids(manager.offered()) == ["c", "local", "b", "a"]


@in_a_loop
async def test_without_a_default_nothing_is_offered_and_nothing_is_hidden() -> None:
    async with managing(Door(), A, default=None) as manager:
        assert (manager.default(), manager.offered()) == (None, [])
        assert manager.get("a").id == "a"


@in_a_loop
async def test_this_machine_is_there_only_if_included() -> None:
    async with EnvironmentManager(
        Configuration(default="a", include_local=False, environments=(A,)), opener=Door()
    ) as manager:
        assert manager.local() is None
        with pytest.raises(EnvironmentUnknown) as raised:
            manager.get("local")
    assert str(raised.value) == "environment `local` is not configured; known: `a`"


@in_a_loop
async def test_replacing_keeps_place_and_default() -> None:
    async with managing(Door(), A, B, default="a") as manager:
        old = manager.get("a")
        new = manager.put(NEW_A)
        assert ids(manager.all()) == ["local", "a", "b"]
        assert manager.default() is manager.get("a") is new is not old
        manager.put(C)
        assert manager.default() is new
        assert ids(manager.offered()) == ["a", "local", "b", "c"]


@in_a_loop
async def test_a_dropped_default_is_replaced_by_nothing() -> None:
    async with managing(Door(), A, B, default="a") as manager:
        manager.drop("a")
        assert (manager.default(), manager.offered(), ids(manager.all())) == (None, [], ["local", "b"])
        with pytest.raises(EnvironmentUnknown):
            manager.drop("a")
        manager.put(NEW_A)
        assert manager.default() is manager.get("a")


@in_a_loop
async def test_what_breaks_a_rule_is_not_added_and_replaces_nothing() -> None:
    with pytest.raises(SettingInvalid, match="must set exactly one"):
        managing(Door(), Declared("a"))
    async with managing(Door(), A) as manager:
        with pytest.raises(SettingInvalid, match="must use ws://"):
            manager.put(Declared("a", url="http://x"))
        with pytest.raises(SettingInvalid, match="reserved"):
            manager.put(Declared("local", program="x"))
        assert manager.get("a").declared is A


@in_a_loop
async def test_where_is_told_without_secrets() -> None:
    far = Declared("far", url="wss://h:1/?key=s3cr3t", token="s3cr3t")
    async with managing(Door(), far, C) as manager:
        assert [one.where for one in manager.all()] == ["this machine", "wss://h:1/?…", "prog 'x y'"]
        assert "s3cr3t" not in repr(manager.all())


# Attempts


@in_a_loop
async def test_servers_are_dialled_at_once_and_programs_at_first_use() -> None:
    door = Door()
    async with managing(door, A, C, B) as manager:
        await settle()
        assert door.knocks == [A.url, B.url]
        program = using(manager.get("c"))
        guest = await door.let_in("prog")
        assert await program is guest
        here = using(manager.get("local"))
        assert await door.let_in("local") is await here
        assert door.knocks == [A.url, B.url, "prog", "local"]


@in_a_loop
async def test_a_server_that_is_added_is_dialled_at_once() -> None:
    door = Door()
    async with managing(door) as manager:
        manager.put(A)
        guest = await door.let_in("ws://127.0.0.1:1")
        assert await manager.get("a").client() is guest


@in_a_loop
async def test_first_users_share_one_attempt_and_its_client() -> None:
    door = Door()
    async with managing(door, C) as manager:
        users = [using(manager.get("c")) for _ in range(5)]
        guest = await door.let_in("prog")
        assert [await user for user in users] == [guest] * 5
        assert await manager.get("c").client() is guest
        assert door.knocks == ["prog"]


@in_a_loop
async def test_a_failure_that_may_pass_is_shared_and_tried_again_by_the_next_use_only() -> None:
    door = Door()
    async with managing(door, A) as manager:
        users = [using(manager.get("a")) for _ in range(3)]
        await door.turn_away("ws://127.0.0.1:1", BUSY)
        assert [await outcome(user) for user in users] == [BUSY] * 3
        await settle()
        assert len(door.knocks) == 1  # not in the background
        users = [using(manager.get("a")) for _ in range(3)]
        guest = await door.let_in("ws://127.0.0.1:1")
        assert [await user for user in users] == [guest] * 3
        assert len(door.knocks) == 2


@in_a_loop
async def test_an_eager_failure_is_found_by_the_next_use_not_told_to_it() -> None:
    door = Door()
    async with managing(door, A) as manager:
        await door.turn_away("ws://127.0.0.1:1", BUSY)
        user = using(manager.get("a"))
        assert await door.let_in("ws://127.0.0.1:1") is await user


@pytest.mark.parametrize("error", [NEVER, RequestFailed(-32600, "no"), SettingInvalid("bad")], ids=repr)
def test_a_failure_that_will_not_pass_is_remembered(error: Exception) -> None:
    @in_a_loop
    async def scenario() -> None:
        door = Door()
        async with managing(door, A) as manager:
            await door.turn_away("ws://127.0.0.1:1", error)
            for _ in range(3):
                assert await outcome(using(manager.get("a"))) is error
            depth, trace = 0, error.__traceback__
            while trace is not None:
                depth, trace = depth + 1, trace.tb_next
            assert depth < 8  # it does not grow with every use
            assert len(door.knocks) == 1
            manager.put(NEW_A)
            assert await door.let_in("ws://127.0.0.1:9") is await manager.get("a").client()

    scenario()


@in_a_loop
async def test_a_fault_of_the_opener_is_told_and_not_remembered() -> None:
    door = Door()
    async with managing(door, A) as manager:
        user = using(manager.get("a"))
        await door.turn_away("ws://127.0.0.1:1", ZeroDivisionError())
        assert isinstance(await outcome(user), ZeroDivisionError)
        user = using(manager.get("a"))
        assert await door.let_in("ws://127.0.0.1:1") is await user


@in_a_loop
async def test_who_gives_up_leaves_the_attempt_to_the_others() -> None:
    door = Door()
    async with managing(door, C) as manager:
        first, second = using(manager.get("c")), using(manager.get("c"))
        await settle()
        first.cancel()
        await settle()
        guest = await door.let_in("prog")
        assert (first.cancelled(), await second) == (True, guest)


@in_a_loop
async def test_the_result_of_an_attempt_that_all_gave_up_is_kept() -> None:
    door = Door()
    async with managing(door, C) as manager:
        user = using(manager.get("c"))
        await settle()
        user.cancel()
        guest = await door.let_in("prog")
        assert await manager.get("c").client() is guest
        assert door.knocks == ["prog"]


@in_a_loop
async def test_after_a_lost_server_the_next_users_share_a_new_connection() -> None:
    door = Door()
    async with managing(door, A) as manager:
        old = await door.let_in("ws://127.0.0.1:1")
        assert await manager.get("a").client() is old
        old.failed = SessionExpired("recovery timed out")
        await settle()
        assert len(door.knocks) == 1  # until somebody wants it
        users = [using(manager.get("a")) for _ in range(3)]
        new = await door.let_in("ws://127.0.0.1:1")
        assert [await user for user in users] == [new] * 3
        assert (len(door.knocks), old.closed) == (2, 1)


@in_a_loop
async def test_a_program_that_is_gone_is_not_started_again_until_replaced() -> None:
    door = Door()
    async with managing(door, C) as manager:
        user = using(manager.get("c"))
        guest = await door.let_in("prog")
        await user
        guest.failed = SessionExpired("the program ended")
        for _ in range(3):
            assert await outcome(using(manager.get("c"))) is guest.failed
        assert (door.knocks, guest.closed) == (["prog"], 1)
        manager.put(C)
        user = using(manager.get("c"))
        assert await door.let_in("prog") is await user


# Status


@in_a_loop
async def test_status_is_pending_until_an_attempt_has_finished_and_starts_none() -> None:
    door = Door()
    async with managing(door, A, C) as manager:
        await settle()
        assert await manager.get("a").status() == Status("pending", "connecting")
        assert await manager.get("c").status() == Status("pending", "not started")
        await settle()
        assert door.knocks == [A.url]


@in_a_loop
async def test_status_of_this_machine_is_always_ready() -> None:
    door = Door()
    async with managing(door) as manager:
        assert await manager.get("local").status() == Status("ready", "this machine")
        assert door.knocks == []


@in_a_loop
async def test_status_asks_a_live_client_each_time() -> None:
    door = Door()
    async with managing(door, A) as manager:
        guest = await door.let_in("ws://127.0.0.1:1")
        assert await manager.get("a").status() == Status("ready", "ready")

        async def recovering() -> str:
            raise Disconnected("exec-server environment is recovering")

        guest.answer = recovering
        expected = Status("disconnected", "exec-server environment is recovering")
        assert await manager.get("a").status() == expected

        async def silent() -> str:
            return await asyncio.get_running_loop().create_future()

        guest.answer = silent
        status = await manager.get("a").status(within=0.01)
        assert status == Status("disconnected", "no answer within 0.01 s")
        assert guest.probes == 3
        assert await manager.get("a").client() is guest  # nothing was repaired


@in_a_loop
async def test_status_tells_why_there_is_no_connection_and_makes_none() -> None:
    door = Door()
    async with managing(door, A) as manager:
        await door.turn_away("ws://127.0.0.1:1", BUSY)
        assert await manager.get("a").status() == Status("disconnected", "busy")
        user = using(manager.get("a"))
        await settle()
        assert await manager.get("a").status() == Status("disconnected", "busy")  # one has finished
        guest = await door.let_in("ws://127.0.0.1:1")
        await user
        guest.failed = SessionExpired("gone")
        assert await manager.get("a").status() == Status("disconnected", "gone")
        await settle()
        assert len(door.knocks) == 2


# Replacing and dropping


@pytest.mark.parametrize("how", ["replaced", "dropped"])
def test_who_waits_for_an_environment_is_told_that_it_is_gone(how: str) -> None:
    @in_a_loop
    async def scenario() -> None:
        door = Door()
        async with managing(door, A) as manager:
            old = manager.get("a")
            users = [using(old) for _ in range(3)]
            await settle()
            if how == "replaced":
                manager.put(NEW_A)
            else:
                manager.drop("a")
            for user in users:
                error = await outcome(user)
                assert isinstance(error, EnvironmentReplaced)
                assert (error.environment_id, error.how) == ("a", how)
                assert str(error) == f"environment `a` was {how}"
            await settle()
            assert door.cancelled == [A.url]
            assert isinstance(await outcome(using(old)), EnvironmentReplaced)
            assert await old.status() == Status("disconnected", f"environment `a` was {how}")

    scenario()


@in_a_loop
async def test_a_replaced_client_that_no_step_holds_is_closed() -> None:
    door = Door()
    async with managing(door, A) as manager:
        guest = await door.let_in("ws://127.0.0.1:1")
        manager.put(NEW_A)
        await settle()
        assert guest.closed == 1
        new = await door.let_in("ws://127.0.0.1:9")
        assert await manager.get("a").client() is new
    assert (guest.closed, new.closed) == (1, 1)


@in_a_loop
async def test_a_step_keeps_what_it_captured_until_the_last_one_lets_go() -> None:
    door = Door()
    async with managing(door, A, B) as manager:
        guest = await door.let_in("ws://127.0.0.1:1")
        async with manager.step() as outer:
            async with manager.step() as inner:
                manager.put(NEW_A)
                manager.drop("b")
                manager.put(C)
                new = await door.let_in("ws://127.0.0.1:9")
                assert await inner.get("a").client() is guest
                assert await inner.get("a").status() == Status("ready", "ready")
                assert await manager.get("a").client() is new
                assert (ids(inner.all()), ids(manager.all())) == (["local", "a", "b"], ["local", "a", "c"])
                with pytest.raises(EnvironmentUnknown) as raised:
                    inner.get("c")
                assert raised.value.known == ("local", "a", "b")
            await settle()
            assert guest.closed == 0
            assert isinstance(await outcome(using(inner.get("a"))), EnvironmentReplaced)
            assert await outer.get("a").client() is guest
        await settle()
        assert guest.closed == 1


@in_a_loop
async def test_a_step_that_is_over_leaves_a_living_environment_as_it_is() -> None:
    door = Door()
    async with managing(door, A) as manager:
        guest = await door.let_in("ws://127.0.0.1:1")
        async with manager.step() as step:
            pass
        assert await step.get("a").client() is guest
        assert await manager.get("a").client() is guest


@in_a_loop
async def test_an_attempt_goes_on_for_the_step_that_waits_for_it() -> None:
    door = Door()
    async with managing(door, A) as manager:
        other = using(manager.get("a"))
        async with manager.step() as step:
            mine = using(step.get("a"))
            await settle()
            manager.drop("a")
            assert isinstance(await outcome(other), EnvironmentReplaced)
            guest = await door.let_in("ws://127.0.0.1:1")
            assert await mine is guest
            guest.failed = SessionExpired("gone")
            mine = using(step.get("a"))
            await settle()
        assert isinstance(await outcome(mine), EnvironmentReplaced)  # the step went without waiting
        await settle()
        assert (guest.closed, door.cancelled) == (1, [A.url])


@in_a_loop
async def test_a_step_has_the_default_of_its_time() -> None:
    door = Door()
    async with managing(door, A, default="a") as manager, manager.step() as step:
        manager.drop("a")
        default = step.default()
        assert default is not None
        assert (default.id, ids(step.offered()), manager.default()) == ("a", ["a", "local"], None)


# The end


@in_a_loop
async def test_the_end_of_the_manager_ends_everything() -> None:
    door, before = Door(), asyncio.all_tasks()
    async with managing(door, A, B, C) as manager:
        first = await door.let_in("ws://127.0.0.1:1")
        waiting = using(manager.get("b"))
        step = await manager.step().__aenter__()
        manager.put(NEW_A)
        held = using(step.get("c"))
        second = await door.let_in("ws://127.0.0.1:9")
        assert await step.get("a").client() is first
    for user in (waiting, held, using(step.get("a")), using(manager.get("a"))):
        error = await outcome(user)
        assert isinstance(error, EnvironmentReplaced)
    assert (first.closed, second.closed, sorted(door.cancelled)) == (1, 1, ["prog", B.url])
    with pytest.raises(EnvironmentReplaced, match="was closed"):
        manager.put(C)
    await step.__aexit__(None, None, None)
    assert asyncio.all_tasks() == before


@in_a_loop
async def test_a_client_that_comes_too_late_is_closed() -> None:
    door = Door()
    door.stubborn = True
    async with managing(door, A) as manager:
        await settle()
        manager.drop("a")
        guest = await door.let_in("ws://127.0.0.1:1")
        assert guest.closed == 1


@in_a_loop
async def test_an_attempt_that_heeds_no_cancelling_keeps_nobody_waiting() -> None:
    door = Door()
    door.stubborn = True
    async with managing(door, A) as manager:
        other = using(manager.get("a"))
        async with manager.step() as step:
            mine = using(step.get("a"))
            await settle()
            manager.drop("a")
        for user in (other, mine):
            assert isinstance(await outcome(user), EnvironmentReplaced)
        guest = await door.let_in("ws://127.0.0.1:1")
        assert guest.closed == 1


def test_a_client_that_does_not_close_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_CLOSE_SECONDS", 0.01 * SECOND)

    @in_a_loop
    async def scenario() -> None:
        door = Door()
        async with managing(door, A):
            guest = await door.let_in("ws://127.0.0.1:1")
            guest.stays = True
        assert guest.closed == 1

    scenario()


@in_a_loop
async def test_what_goes_wrong_in_the_block_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        async with managing(Door(), A):
            raise ZeroDivisionError


# Any order of events

MOVES = ("use", "hold", "let go", "put", "drop", "let in", "turn away", "lose", "cancel", "status")


@given(st.lists(st.sampled_from(MOVES), max_size=40), st.builds(Random, st.integers(0, 2**32)))
@settings(deadline=None)
def test_whatever_happens_clients_are_closed_once_and_not_under_a_step(
    moves: list[str], dice: Random
) -> None:
    @in_a_loop
    async def scenario() -> None:
        before = asyncio.all_tasks()
        door = Door()
        steps: list[Step] = []
        users: list[tuple[Step | None, asyncio.Task[Client]]] = []
        guests: list[Guest] = []
        async with managing(door, A, C) as manager:
            for move in moves:
                name = dice.choice(["a", "c"])
                step = dice.choice([*steps, None])
                match move:
                    case "use":
                        known = manager if step is None else step
                        if name in ids(known.all()):
                            users.append((step, using(known.get(name))))
                    case "hold":
                        steps.append(await manager.step().__aenter__())
                    case "let go" if step is not None:
                        steps.remove(step)
                        await step.__aexit__(None, None, None)
                    case "put":
                        manager.put(A if name == "a" else C)
                    case "drop" if name in ids(manager.all()):
                        manager.drop(name)
                    case "let in" if door.waiting:
                        guests.append(await door.let_in(dice.choice(door.waiting)))
                    case "turn away" if door.waiting:
                        await door.turn_away(dice.choice(door.waiting), dice.choice([BUSY, NEVER]))
                    case "lose" if guests:
                        guest = dice.choice(guests)
                        guest.failed = guest.failed or SessionExpired("gone")
                    case "cancel" if users:
                        dice.choice(users)[1].cancel()
                    case "status":
                        for one in [*manager.all(), *(one for each in steps for one in each.all())]:
                            await one.status()
                if dice.random() < 0.5:
                    await settle()
                for holder, user in users:
                    if holder in steps and user.done() and not user.cancelled() and not user.exception():
                        client = cast(Guest, user.result())
                        assert client.closed == 0 or client.failed is not None
        for _, user in users:
            await asyncio.wait([user])
            assert (
                user.cancelled() or user.exception() is None or isinstance(user.exception(), OutfitterError)
            )
        assert [guest.closed for guest in guests] == [1] * len(guests)
        assert asyncio.all_tasks() == before

    scenario()


# Real executors


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def until_lost(client: Client) -> None:
    while client.failed is None:
        await asyncio.sleep(0.01 * SECOND)


async def until(environment: Environment, state: str) -> Status:
    while (status := await environment.status()).state != state:
        await asyncio.sleep(0.01 * SECOND)
    return status


async def echo(client: Client, *words: str) -> bytes:
    return (await client.run(["echo", *words], cwd="/")).stdout


def stdio(id: str = "p", **more: Any) -> Declared:
    return Declared(
        id, program=sys.executable, args=("-m", "outfitter", "serve", "--listen", "stdio"), **more
    )


def test_a_real_server_is_connected_before_it_is_used(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path) as server:

        @in_a_loop
        async def scenario() -> None:
            declared = Declared("s", url=server.url)
            async with EnvironmentManager(Configuration(environments=(declared,))) as manager:
                assert await until(manager.get("s"), "ready") == Status("ready", "ready")
                client = await manager.get("s").client()
                assert await echo(client, "hello") == b"hello\n"
                assert await manager.get("s").client() is client

        scenario()


def test_a_real_server_that_came_back_gives_a_new_session(tmp_path: Path) -> None:
    port = free_port()
    listen = f"ws://127.0.0.1:{port}"

    @in_a_loop
    async def scenario() -> None:
        async with EnvironmentManager(Configuration(environments=(Declared("s", url=listen),))) as manager:
            environment = manager.get("s")
            # Nobody listens yet: told, and not tried again until the next use.
            assert "cannot connect" in (await until(environment, "disconnected")).text
            with pytest.raises(DialFailed) as raised:
                await environment.client()
            assert raised.value.retryable
            with serving("outfitter", tmp_path, listen=listen) as server:
                old = await environment.client()
                assert await echo(old, "one") == b"one\n"
                os.kill(server.pid, signal.SIGKILL)
            with serving("outfitter", tmp_path, listen=listen):
                await until_lost(old)  # it dials again by itself, and its session is unknown now
                assert (await environment.status()).state == "disconnected"
                new, same = await asyncio.gather(environment.client(), environment.client())
                assert new is same is not old
                assert new.session_id != old.session_id
                assert await echo(new, "two") == b"two\n"

    scenario()


def test_a_real_server_that_refuses_the_token_is_not_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = tmp_path / "token"
    secret.touch(0o600)
    secret.write_text("the right one of all\n")
    options = ("--ws-auth", "capability-token", "--ws-token-file", str(secret))
    with serving("outfitter", tmp_path, *options) as server:

        @in_a_loop
        async def scenario() -> None:
            declared = Declared("s", url=server.url, token="s3cr3t-but-wrong")
            async with EnvironmentManager(Configuration(environments=(declared,))) as manager:
                status = await until(manager.get("s"), "disconnected")
                assert "401" in status.text
                first = await outcome(using(manager.get("s")))
                assert isinstance(first, DialFailed)
                assert not first.retryable
                assert await outcome(using(manager.get("s"))) is first
                manager.put(Declared("s", url=server.url, token="the right one of all"))
                assert await echo(await manager.get("s").client(), "in") == b"in\n"
                assert "s3cr3t" not in caplog.text + repr(first) + str(first) + status.text

        scenario()


@in_a_loop
async def test_a_real_program_starts_with_its_first_use_and_ends_with_the_manager() -> None:
    before = set(children(os.getpid()))
    declared = stdio(env={"MARK": "seen"}, cwd="/usr")
    async with EnvironmentManager(Configuration(environments=(declared,))) as manager:
        assert await manager.get("p").status() == Status("pending", "not started")
        assert set(children(os.getpid())) == before
        one, two = await asyncio.gather(manager.get("p").client(), manager.get("p").client())
        assert one is two
        [pid] = set(children(os.getpid())) - before
        assert (await one.run(["sh", "-c", "echo $MARK; pwd"])).stdout == b"seen\n/usr\n"
        assert await manager.get("p").status() == Status("ready", "ready")
    assert not alive(pid)


@in_a_loop
async def test_a_real_program_that_was_killed_stays_gone_until_replaced() -> None:
    before = set(children(os.getpid()))
    async with EnvironmentManager(Configuration(environments=(stdio(),))) as manager:
        client = await manager.get("p").client()
        [pid] = set(children(os.getpid())) - before
        os.kill(pid, signal.SIGKILL)
        await until_lost(client)
        first = await outcome(using(manager.get("p")))
        assert await outcome(using(manager.get("p"))) is first
        assert await manager.get("p").status() == Status("disconnected", str(first))
        assert set(children(os.getpid())) <= before
        manager.put(stdio())
        assert await echo(await manager.get("p").client(), "again") == b"again\n"


@in_a_loop
async def test_a_program_that_is_not_there_is_a_failure_to_remember() -> None:
    declared = Declared("p", program="/no/such/program")
    async with EnvironmentManager(Configuration(environments=(declared,))) as manager:
        first = await outcome(using(manager.get("p")))
        assert isinstance(first, DialFailed)
        assert await outcome(using(manager.get("p"))) is first


@in_a_loop
async def test_a_real_step_finishes_its_work_on_a_replaced_program() -> None:
    before = set(children(os.getpid()))
    async with EnvironmentManager(Configuration(environments=(stdio(),))) as manager:
        async with manager.step() as step:
            client = await step.get("p").client()
            [pid] = set(children(os.getpid())) - before
            process = await client.start(["cat"], cwd="/", stdin=True)
            manager.drop("p")
            await process.write(b"still here")
            await process.close_stdin()
            assert await process.wait() == 0
            assert await echo(await step.get("p").client(), "yes") == b"yes\n"
        await asyncio.to_thread(wait_gone, [pid])


@in_a_loop
async def test_this_machine_runs_commands_and_ends_them() -> None:
    environ = {"PATH": os.environ["PATH"], "ONLY": "this"}
    async with EnvironmentManager(Configuration(), environ=environ) as manager:
        default = manager.default()
        assert default is not None
        client = await default.client()
        assert (await client.run(["sh", "-c", "echo $ONLY"])).stdout == b"this\n"
        process = await client.start(["sh", "-c", "echo $$; exec sleep 1000"])
        async for event in process:
            pid = int(event.data)  # type: ignore[union-attr]
            break
        assert alive(pid)
    await asyncio.to_thread(wait_gone, [pid])
