"""What a relay costs: a command and its output, beside a direct connection; many who wait; many at once.

Both executors are reached through the same service with the same harness: `bench.harness` for commands, our
client for output.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, contextmanager
from statistics import median
from typing import Final

import outfitter
from bench import procfs
from bench.arms import ROOT, ExecArm
from bench.client import ExecClient, Launch
from bench.commands import Commands, executors
from bench.crowd import SETTLE, crowd
from bench.errors import BenchError
from bench.harness import RawHarness
from bench.measure import Effort, Metric, Values, Workload
from outfitter.protocol.registry import EXECUTE, USE
from outfitter.relay.authority import Authority
from outfitter.relay.store import SqliteStore

__all__ = ["COMMANDERS", "CROWD", "WORKLOAD"]

OUTPUT: Final = 256 << 20
IDLE: Final = 2_000
EXECUTORS: Final = 200
STREAMS: Final = 10  # of each
COMMANDS: Final = 8  # of each stream, on average
_NAME: Final = "box"
# Commands in turn through the relay and directly: series, as in all other rows of one command. One of each in
# turn would measure processes that have slept for two milliseconds, with caches full of the other's.
_SERIES: Final = 50
_TRUE: Final = Launch("true")
_ENV: Final = {"PATH": "/usr/bin:/bin"}


class _Service:
    """A service of its own, with its store."""

    def __init__(self, port: int, pid: int, store: str) -> None:
        self.port, self.pid, self.store = port, pid, store
        self.url = f"http://127.0.0.1:{port}"

    def token(self, role: str, name: str = _NAME) -> str:
        store = SqliteStore(self.store)
        try:
            authority = Authority(store, time.time, "ws://unused")
            return authority.enrol(authority.code("bench", name, role)).token
        finally:
            store.close()


@contextmanager
def _service(arm: ExecArm) -> Iterator[_Service]:
    program = os.path.join(ROOT, ".venv", "bin", "outfitter")
    with arm.beside("rendezvous", [program, "rendezvous", "serve"]) as (server, home):
        _, port = server.announced()
        yield _Service(port, server.pid, os.path.join(home, ".local/state/outfitter/relay/rendezvous.sqlite"))


def _relay(arm: ExecArm, effort: Effort) -> Values:
    """In turns, so that a neighbour of this machine slows down both."""
    with _service(arm) as service:
        executor, user = service.token(EXECUTE), service.token(USE)
        with arm.dialling(service.url, _NAME, executor):
            rate = asyncio.run(_output(f"noise+{service.url}/{_NAME}", user))
            with (
                RawHarness(service.url, _NAME, user) as harness,
                ExecClient(arm.address, quickack=True) as client,
            ):
                relayed, direct = [], []
                for _ in range(1 + effort.samples // _SERIES):
                    relayed += [harness.one_shot("true") for _ in range(_SERIES)]
                    direct += [client.one_shot(_TRUE) for _ in range(_SERIES)]
    through = median(relayed[_SERIES:])  # the first series warms up
    return {
        "relay.true": through * 1e3,
        "relay.more": (through - median(direct[_SERIES:])) * 1e3,
        "relay.output": rate / 1e6,
    }


async def _output(url: str, token: str) -> float:
    """Bytes per second to our client, which decrypts and decodes them."""
    async with aclosing(await _reach(url, token)) as client:
        begin = time.perf_counter()
        process = await client.start(["head", "-c", str(OUTPUT), "/dev/zero"], env=_ENV, policy=None)
        size = 0
        async for event in process:
            size += len(getattr(event, "data", b""))
        seconds = time.perf_counter() - begin
    if size != OUTPUT:
        raise BenchError(f"{size} bytes of output instead of {OUTPUT}")
    return OUTPUT / seconds


async def _reach(url: str, token: str) -> outfitter.Client:
    """A client as soon as the executor is there."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return await outfitter.connect(url, token=token)
        except outfitter.OutfitterError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


def _crowd(arm: ExecArm, effort: Effort) -> Values:
    with _service(arm) as service, crowd(service.port, service.pid, service.store) as many:
        before = many.memory()
        many.attach(IDLE)
        idle = many.memory()
    with _service(arm) as service, crowd(service.port, service.pid, service.store) as many:
        many.attach(EXECUTORS)
        few = many.memory()
        many.join(STREAMS)
        turns = many.take_turns(effort.seconds * 2)
        busy = many.memory()
    return {
        "relay.idle.rss": idle / 1e3,
        "relay.idle.each": (idle - before) / IDLE,
        "relay.stream.each": (busy - few) / (EXECUTORS * STREAMS),
        "relay.turns": turns.answers / turns.seconds,
        "relay.turns.p99": turns.p99 * 1e3,
        "relay.turns.executors": turns.executors,
        "relay.turns.streams": turns.streams,
    }


def _commands(arm: ExecArm, effort: Effort) -> Values:
    """Real commands on all streams at once: memory and turns with everything between them."""
    names = [f"box{number}" for number in range(EXECUTORS)]
    with _service(arm) as service, ExitStack() as stack:
        named = [(name, service.token(EXECUTE, name)) for name in names]
        pids = stack.enter_context(executors(arm, service.url, named))
        before = _rest([service.pid]), _rest(pids)
        commands = Commands(stack)
        for name in names:
            commands.join(service.url, name, service.token(USE, name), STREAMS)
        turns = commands.take_turns(COMMANDS, "true")
        after = _rest([service.pid]), _rest(pids)
    streams = EXECUTORS * STREAMS
    return {
        "relay.commands": turns.answers / turns.seconds,
        "relay.commands.p50": turns.p50 * 1e3,
        "relay.commands.p99": turns.p99 * 1e3,
        "relay.commands.executors": turns.executors,
        "relay.commands.streams": turns.streams,
        "relay.commands.service": (after[0] - before[0]) / streams,
        "relay.commands.executor": (after[1] - before[1]) / streams,
    }


def _rest(pids: list[int]) -> int:
    """Kilobytes of processes that have come to rest."""
    time.sleep(SETTLE)
    return procfs.rss_kb(pids)


WORKLOAD: Final = Workload(
    "relay",
    ("P24",),
    (
        Metric("relay.true", "one-shot `true` through a relay, p50", "ms"),
        Metric("relay.more", "the same, more than over a direct connection", "ms"),
        Metric("relay.output", "256 MiB of output through a relay", "MB/s", "higher"),
    ),
    _relay,
)
CROWD: Final = Workload(
    "relaycrowd",
    ("P25",),
    (
        Metric("relay.idle.rss", "RSS of a rendezvous with 2,000 idle executors", "MB"),
        Metric("relay.idle.each", "for each of them", "kB"),
        Metric("relay.stream.each", "RSS for each of 2,000 streams of 200 executors, all busy", "kB"),
        Metric("relay.turns", "requests and answers of all of them", "1/s", "higher"),
        Metric("relay.turns.p99", "the same, p99 of one", "ms"),
        Metric("relay.turns.executors", "answers of the executor that got most, over the least", "x"),
        Metric("relay.turns.streams", "answers of the stream that got most, over the least", "x"),
    ),
    _crowd,
    servers=("ours",),
    max_rounds=3,
    needs_server=False,
)
COMMANDERS: Final = Workload(
    "relaycommands",
    ("P25",),
    (
        Metric("relay.commands", "`true` on 2,000 streams of 200 executors at once", "1/s", "higher"),
        Metric("relay.commands.p50", "the same, p50 of one", "ms"),
        Metric("relay.commands.p99", "the same, p99 of one", "ms"),
        Metric("relay.commands.executors", "commands of the executor that ran most, over the least", "x"),
        Metric("relay.commands.streams", "commands of the stream that ran most, over the least", "x"),
        Metric("relay.commands.service", "RSS of the service for each of these streams", "kB"),
        Metric("relay.commands.executor", "RSS of their executor, with its session", "kB"),
    ),
    _commands,
    servers=("ours",),
    max_rounds=1,  # it begins 200 executors and 2,000 streams, which takes half a minute
    needs_server=False,
)
