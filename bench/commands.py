"""Many harnesses that run real commands on many executors, through one service and all at once."""

from __future__ import annotations

import os
import select
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from bench.arms import ROOT, ExecArm
from bench.crowd import Turns, turns_of
from bench.errors import BenchError
from bench.harness import RawHarness

__all__ = ["Commands", "executors"]

PROCESSES: Final = 10  # that share the executors: fewer events at a time than a process asks the kernel for
PATIENCE: Final = 120.0  # seconds without any answer


@contextmanager
def executors(arm: ExecArm, url: str, named: Sequence[tuple[str, str]]) -> Iterator[list[int]]:
    """Executors with these names and tokens; the processes that they are in."""
    with ExitStack() as stack:
        servers = []
        for number in range(PROCESSES):
            path = os.path.join(arm.environment["HOME"], f"executors-{number}")
            with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.writelines(f"{name} {token}\n" for name, token in named[number::PROCESSES])
            program = [sys.executable, "-m", "bench.executors", url, path]
            servers.append(
                stack.enter_context(arm.beside(f"executors-{number}", program, {"PYTHONPATH": ROOT}))[0]
            )
        for server in servers:
            server.announced()
        yield [server.pid for server in servers]


class Commands:
    """Streams, each of which runs a command, and the next one when it has ended."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._harnesses: dict[int, tuple[RawHarness, str]] = {}  # each with its executor

    def join(self, url: str, name: str, token: str, count: int) -> None:
        for _ in range(count):
            one = self._stack.enter_context(RawHarness(url, name, token))
            self._harnesses[one.fileno()] = one, name

    def take_turns(self, each: int, *argv: str) -> Turns:
        """So many commands for each stream on average: whoever is quicker runs more of them."""
        poll = select.epoll()
        begun: dict[int, float] = {}
        answers = dict.fromkeys(self._harnesses, 0)
        times: list[float] = []
        begin = time.perf_counter()
        try:
            for fd, (one, _) in self._harnesses.items():
                poll.register(fd, select.EPOLLIN)
                begun[fd] = time.perf_counter()
                one.begin(*argv)
            while len(times) < each * len(self._harnesses):
                ready = poll.poll(PATIENCE)
                if not ready:
                    raise BenchError("no stream is served any more")
                for fd, _ in ready:
                    if self._harnesses[fd][0].has_ended():
                        now = time.perf_counter()
                        times.append(now - begun[fd])
                        answers[fd] += 1
                        begun[fd] = now
                        self._harnesses[fd][0].begin(*argv)
        finally:
            poll.close()
        of_executors: Counter[str] = Counter()
        for fd, (_, name) in self._harnesses.items():
            of_executors[name] += answers[fd]
        return turns_of(times, time.perf_counter() - begin, of_executors.values(), answers.values())
