"""A keeper at the other end of a program does what every engine's does: here of a shell on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from outfitter.core.shape import Shape
from outfitter.errors import EngineFailed
from outfitter.pool.engine import EXECUTOR_ENDED, NODE_LOST, OUT_OF_MEMORY, Capacity, Node, Order
from outfitter.pool.keep import address_towards, without_engines
from outfitter.pool.remote import NODE_COMMAND, RemoteSlot, keep_command, reason
from tests.pool.engines import GONE_SECONDS, Given, WatchedServerTests, kill_keeper

# A node's startup files print something, too.
GREETING = 'echo "Welcome!"; echo "{not ours"; echo "{}"; exec "$@"'


class ShellEngine:
    """The least that an engine of programs is."""

    name = "shell"

    def __init__(self, script: str = GREETING) -> None:
        self._script = script
        self._slots: set[RemoteSlot] = set()

    async def open(self) -> None: ...

    async def start(self, order: Order) -> RemoteSlot:
        environ = {NODE_COMMAND: f"{sys.executable} -m outfitter"}
        keep = keep_command(order, "n1", "unix:", environ)
        slot = RemoteSlot(["/bin/sh", "-c", self._script, "sh", *keep], order.shape, self._slots.discard)
        self._slots.add(slot)
        await slot.begin()
        return slot

    async def capacity(self) -> Capacity:
        return Capacity((Node("n1", 8.0, 1 << 40),), detail="a shell")

    async def aclose(self) -> None:
        await asyncio.gather(*(slot.stop() for slot in list(self._slots)))


class TestShell(WatchedServerTests):
    kill = staticmethod(kill_keeper)

    @pytest.fixture
    def opened(self, own_root: Path) -> Callable[[], Awaitable[ShellEngine]]:
        async def make() -> ShellEngine:
            return ShellEngine()

        return make


@pytest.mark.parametrize("killed", [False, True])
def test_a_program_is_over_although_what_it_started_holds_its_pipes(own_root: Path, *, killed: bool) -> None:
    """As a connection to a jump host does that ssh shares: the slot's place would be taken for as long."""

    async def scenario() -> None:
        engine = ShellEngine(f'sleep 600 & echo $! > {own_root}/pid; exec "$@"')
        slot = await engine.start(Order("s1", "pool", Shape(), "0"))
        endpoint = await slot.serve(Given().card)
        gone = asyncio.ensure_future(slot.gone())
        if killed:
            kill_keeper(endpoint)
            await asyncio.wait_for(gone, GONE_SECONDS)
        assert (await slot.stop()).confirmed != killed
        assert engine._slots == set()
        await gone

    try:
        asyncio.run(scenario())
    finally:
        os.kill(int((own_root / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no such host' >&2; exit 255", "ended with exit status 255: no such host"),
        ("""echo '{"failed": "the disk is full"}'; read x""", "the disk is full"),
        ("exec seq 3000000", "prints much that no keeper says"),
        ("head -c 3000000 /dev/zero | tr '\\0' x; read x", "a line that is too long"),
    ],
)
def test_a_program_that_is_no_keeper_says_why(script: str, said: str) -> None:
    async def scenario() -> tuple[str, bool]:
        slot = await ShellEngine(script).start(Order("s1", "pool", Shape(), "0"))
        try:
            await slot.serve(Given().card)
        except EngineFailed as error:
            return str(error), (await slot.stop()).confirmed
        raise AssertionError("it is no keeper")

    told, confirmed = asyncio.run(scenario())
    assert said in told and not confirmed


def test_a_program_that_is_not_there_is_told_at_once() -> None:
    async def scenario() -> None:
        with pytest.raises(EngineFailed, match="cannot start /nonexistent/srun"):
            await RemoteSlot(["/nonexistent/srun"], Shape(), lambda slot: None).begin()

    asyncio.run(scenario())


def test_why_a_slot_is_gone() -> None:
    assert reason("srun: error: Node failure on n1") == NODE_LOST
    assert reason("slurmstepd: error: Detected 1 oom_kill event in StepId=5.0") == OUT_OF_MEMORY
    assert reason("ssh ended with exit status 255: Connection closed") == EXECUTOR_ENDED


def test_nothing_of_an_engine_is_left_in_the_environment() -> None:
    environ = {
        "PATH": "/bin",
        "SLURM_JOB_ID": "5",
        "SRUN_DEBUG": "3",
        "SSH_CONNECTION": "x",
        "PMIX_RANK": "0",
    }
    environ |= {"CUDA_VISIBLE_DEVICES": "0", "TMPDIR": "/job/tmp"}
    assert without_engines(environ) == {"PATH": "/bin"}
    assert without_engines(environ, gpus=True) == {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0"}


def test_a_node_listens_where_its_pool_is_and_nowhere_else() -> None:
    assert address_towards("127.0.0.1") == "127.0.0.1"
    with pytest.raises(EngineFailed, match="no way leads from this node to nonexistent"):
        address_towards("nonexistent.invalid")


def test_how_a_keeper_is_called_on_a_node() -> None:
    order = Order("s1", "pool1234", Shape(gpus=0.5), "0.1.0")
    assert keep_command(order, "n1", "unix:", {}) == [
        "outfitter",
        "keep-slot",
        "pool1234",
        "n1",
        "unix:",
        "0.5",
    ]
    assert keep_command(order, "", "", {NODE_COMMAND: "/opt/my\\ env/outfitter"})[:2] == [
        "/opt/my env/outfitter",
        "keep-slot",
    ]


def test_an_answer_that_nobody_waited_for_is_passed_over(own_root: Path) -> None:
    async def scenario() -> None:
        engine = ShellEngine()
        slot = await engine.start(Order("s1", "pool", Shape(), "0"))
        left = asyncio.ensure_future(slot.serve(Given().card))
        while slot._asked == 0:
            await asyncio.sleep(0.01)
        left.cancel()
        given = Given()
        endpoint = await slot.serve(given.card)
        assert endpoint.workspace.split("/")[-2] == given.card.lease_id
        assert (await slot.stop()).confirmed

    asyncio.run(scenario())
