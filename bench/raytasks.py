"""What people would write on Ray without a pool: tasks and actors that run commands.

As a program (`python -m bench.raytasks ADDRESS COUNT AT_A_TIME`) it runs plain tasks on a cluster that has
not run any yet, prints how many it did per second, and stays until its input ends: its workers can be looked
at.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

__all__ = ["RayActor", "RayTasks"]


def command() -> int:
    return subprocess.run(["true"], capture_output=True, check=False).returncode


class Commander:
    """An actor; `wait` never returns, and fails when the actor is gone."""

    def command(self) -> int:
        return command()

    async def wait(self) -> None:
        await asyncio.Event().wait()


class RayTasks:
    def __init__(self, cpus: float) -> None:
        import ray

        self._ray = ray
        self._task = ray.remote(num_cpus=cpus)(command)

    def rate(self, count: int, at_a_time: int) -> float:
        begin = time.perf_counter()
        waiting = [self._task.remote() for _ in range(min(at_a_time, count))]
        left = count - len(waiting)
        while waiting:
            done, waiting = self._ray.wait(waiting)
            self._ray.get(done)
            if left:
                waiting.append(self._task.remote())
                left -= 1
        return count / (time.perf_counter() - begin)

    def once(self) -> float:
        begin = time.perf_counter()
        self._ray.get(self._task.remote())
        return time.perf_counter() - begin


class RayActor:
    """`options` are those of Ray's actors."""

    def __init__(self, **options: Any) -> None:
        import ray

        self._ray = ray
        self._actor = ray.remote(Commander).options(**options).remote()

    def once(self) -> float:
        begin = time.perf_counter()
        self._ray.get(self._actor.command.remote())
        return time.perf_counter() - begin

    async def gone(self) -> float:
        """Returns when Ray is certain that the actor is: "unavailable" may pass, says Ray."""
        from ray.exceptions import ActorUnavailableError, RayError

        while True:
            try:
                await self._actor.wait.remote()
            except ActorUnavailableError:
                await asyncio.sleep(0.1)
            except RayError:
                return time.perf_counter()

    def end(self) -> None:
        self._ray.kill(self._actor)


def main(address: str, count: str, at_a_time: str) -> None:
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    print(RayTasks(1.0).rate(int(count), int(at_a_time)), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
