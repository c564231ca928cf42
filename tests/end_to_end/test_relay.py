"""Executors and harnesses of either kind through our service: what works, and what survives."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import outfitter
from outfitter.errors import DialFailed
from tests.support.codex import run_codex
from tests.support.machine import PROC, SECOND, free_port
from tests.support.model import Script, exec_command, modelling
from tests.support.proxy import cutting
from tests.support.relays import Rendezvous, dialling, meeting
from tests.support.servers import environment

KINDS = ["outfitter", "codex"]


@pytest.fixture(scope="module", params=KINDS)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Rendezvous, str]]:
    """An executor of each kind, the service, and a user's token."""
    home = tmp_path_factory.mktemp("relay")
    with meeting(home / "service") as service:
        executor, user = service.token("box", "execute"), service.token("box", "use")
        with dialling(request.param, home / "executor", service.url, "box", executor):
            service.wait_for("box")
            yield request.param, service, user


def reach(service: Rendezvous, token: str, environment_id: str = "box") -> outfitter.client.connect.Opening:
    return outfitter.connect(f"noise+{service.url}/{environment_id}", token=token)


def test_our_client_runs_commands_on_either_executor(place: tuple[str, Rendezvous, str]) -> None:
    _, service, token = place

    async def scenario() -> None:
        async with reach(service, token) as client:
            done = await client.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
            assert (done.exit_code, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
            many = await asyncio.gather(*(client.run(["echo", str(n)]) for n in range(20)))
            assert [one.stdout for one in many] == [b"%d\n" % n for n in range(20)]

    asyncio.run(scenario())


def test_who_leaves_takes_the_session_along_and_who_is_taken_over_stays_away(
    place: tuple[str, Rendezvous, str],
) -> None:
    """The service could not have said either: codes go inside of the encrypted stream."""
    kind, service, token = place
    if kind != "outfitter":
        return  # stock Codex offers neither

    async def scenario() -> None:
        url = f"noise+{service.url}/box"
        async with outfitter.connect(url, token=token) as client:
            await client.run(["true"])
            left = client.session_id
        with pytest.raises(outfitter.OutfitterError, match=f"unknown session id {left}"):
            async with outfitter.connect(url, token=token, resume=left):
                pass
        async with outfitter.connect(url, token=token) as client:
            process = await client.start(["cat"], stdin=True)
            async with outfitter.connect(url, token=token, resume=client.session_id, take_over=True):
                with pytest.raises(outfitter.SessionExpired, match="taken the session over"):
                    await process.wait()

    asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))


def test_large_messages_and_much_output_arrive_whole(
    place: tuple[str, Rendezvous, str], tmp_path: Path
) -> None:
    _, service, token = place
    data = bytes(range(256)) * 8192  # 2 MiB: many records

    async def scenario() -> None:
        async with reach(service, token) as client:
            target = str(tmp_path / "file")
            await client.files.write(target, data)
            assert await client.files.read(target) == data
            done = await client.run(["sh", "-c", "head -c 20000000 /dev/zero"], max_output=1 << 26)
            assert len(done.stdout) == 20_000_000

    asyncio.run(scenario())


def test_the_stock_client_works_through_it(place: tuple[str, Rendezvous, str], tmp_path: Path) -> None:
    _, service, token = place

    def script() -> Script:
        [out] = yield [exec_command("echo through the relay")]
        assert out.text == "through the relay\n"
        return "done"

    with modelling(script) as model:
        run = run_codex(
            tmp_path,
            model=model.url,
            cwd=tmp_path,
            env={
                "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL": service.url,
                "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID": "box",
                "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN": token,
            },
        )
    assert (run.exit_code, run.message) == (0, "done"), run.stderr


def test_who_may_not_learns_nothing(place: tuple[str, Rendezvous, str]) -> None:
    _, service, _ = place
    stranger = service.token("other", "use")

    async def why(token: str, environment_id: str) -> str:
        with pytest.raises(DialFailed) as caught:
            async with reach(service, token, environment_id):
                pass
        return str(caught.value)

    async def scenario() -> None:
        assert await why(stranger, "box") == await why(stranger, "nothing-of-that-name")
        assert "401" in await why("0" * 64, "box")

    asyncio.run(scenario())


async def count(url: str, token: str, gate: Path, lose: Callable[[], object]) -> None:
    """A command waits in the middle of its output, where `lose` is called: all of it comes, once."""
    async with outfitter.connect(f"noise+{url}/box", token=token) as client:
        process = await client.start(["sh", "-c", f"seq 1 1000; read go < {gate}; seq 1001 2000"])
        seen, lost = b"", False
        async for event in process:
            seen += getattr(event, "data", b"")
            if seen.count(b"\n") == 1000 and not lost:
                lost = True
                await asyncio.to_thread(lose)
                await asyncio.to_thread(gate.write_text, "go\n")
        assert seen == b"".join(b"%d\n" % n for n in range(1, 2001))
        assert (await client.run(["echo", "on"])).stdout == b"on\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_that_is_restarted_loses_and_doubles_nothing(kind: str, tmp_path: Path) -> None:
    gate, home, port = tmp_path / "gate", tmp_path / "service", free_port()
    os.mkfifo(gate)
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as running:
        service = running.enter_context(meeting(home, port=port))
        executor, user = service.token("box", "execute"), service.token("box", "use")
        stack.enter_context(dialling(kind, tmp_path / "executor", service.url, "box", executor))
        service.wait_for("box")

        def restart() -> None:
            running.pop_all().close()
            running.enter_context(meeting(home, port=port))

        asyncio.run(asyncio.wait_for(count(service.url, user, gate, restart), 90 * SECOND))


@pytest.mark.parametrize("kind", KINDS)
def test_sockets_that_are_cut_lose_and_double_nothing(kind: str, tmp_path: Path) -> None:
    gate, port = tmp_path / "gate", free_port()
    os.mkfifo(gate)
    with cutting(SimpleNamespace(port=port)) as cutter:
        url = cutter.url.replace("ws", "http", 1)
        with meeting(tmp_path / "service", "--url", url, port=port) as service:
            executor, user = service.token("box", "execute"), service.token("box", "use")
            with dialling(kind, tmp_path / "executor", url, "box", executor):
                service.wait_for("box")
                asyncio.run(asyncio.wait_for(count(url, user, gate, cutter.cut_all), 90 * SECOND))


# A harness that says its session and its command when half of the output is there, and is killed then.
HARNESS = """
import asyncio, sys, outfitter

async def main(url, token, gate):
    async with outfitter.connect(url, token=token) as client:
        process = await client.start(["sh", "-c", f"seq 1 1000; read go < {gate}; seq 1001 2000"])
        seen = b""
        async for event in process:
            seen += getattr(event, "data", b"")
            if seen.count(b"\\n") == 1000:
                print(client.session_id, process.process_id, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_harness_that_is_killed_and_started_anew_loses_and_doubles_nothing(
    place: tuple[str, Rendezvous, str], tmp_path: Path
) -> None:
    _, service, token = place
    gate, url = tmp_path / "gate", f"noise+{service.url}/box"
    os.mkfifo(gate)
    first = subprocess.Popen(
        [sys.executable, "-c", HARNESS, url, token, str(gate)],
        stdout=subprocess.PIPE,
        env=environment(tmp_path),
    )
    try:
        assert first.stdout is not None
        session, process = first.stdout.readline().decode().split()
    finally:
        first.kill()
        first.communicate()

    async def scenario() -> None:
        async with outfitter.connect(url, token=token, resume=session) as client:
            again = await client.attach(process)
            await asyncio.to_thread(gate.write_text, "go\n")
            seen = b"".join([getattr(event, "data", b"") async for event in again])
            assert seen == b"".join(b"%d\n" % n for n in range(1, 2001))
            assert await again.wait() == 0

    asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))


def test_a_small_crowd_is_served_in_turn_with_flat_memory(tmp_path: Path) -> None:
    """Three executors with four streams each, all at once, three times; the service grows no further."""

    async def use(url: str, token: str) -> None:
        async with outfitter.connect(url, token=token) as client:
            for number in range(3):
                done = await client.run(["sh", "-c", f"echo {number}"])
                assert done.stdout == b"%d\n" % number

    async def round_(places: list[tuple[str, str]]) -> None:
        await asyncio.gather(*(use(*place) for place in places for _ in range(4)))

    with meeting(tmp_path / "service") as service, contextlib.ExitStack() as stack:
        places = []
        for name in ("one", "two", "three"):
            executor = service.token(name, "execute")
            stack.enter_context(dialling("outfitter", tmp_path / name, service.url, name, executor))
            places.append((f"noise+{service.url}/{name}", service.token(name, "use")))
        for name in ("one", "two", "three"):
            service.wait_for(name)
        asyncio.run(asyncio.wait_for(round_(places), 60 * SECOND))
        before = resident_kb(service.popen.pid)
        for _ in range(2):
            asyncio.run(asyncio.wait_for(round_(places), 60 * SECOND))
        assert resident_kb(service.popen.pid) - before <= 40 * 12


def resident_kb(pid: int) -> int:
    lines = Path(f"{PROC}/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))
