"""What a Python program pays for a client library: Outfitter's, beside loops that do only what they must.

*Raw* is the hand-written client of the other workloads: a blocking socket, nothing decoded; no library can
be cheaper. *Loop* is what one writes in a few lines on the websockets package: JSON parsed, base64 decoded,
output joined, no recovery.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Final

from websockets.asyncio.client import ClientConnection, connect

import outfitter
import outfitter.sync
from bench.client import Address, ExecClient, Launch
from bench.errors import BenchError

__all__ = ["COLLECTED_SIZE", "loop", "ours", "ours_sync", "raw", "swerex"]

ENV: Final = {"PATH": "/usr/bin:/bin"}
COLLECTED_SIZE: Final = 64 << 20
COLLECTED: Final = ("head", "-c", str(COLLECTED_SIZE), "/dev/zero")
WARM_UP: Final = 2

Times = tuple[list[float], list[float]]  # seconds of one-shots, and of collecting COLLECTED_SIZE bytes


def ours(address: Address, samples: int, seconds: float, streams: int) -> Times:
    async def main() -> Times:
        async with outfitter.connect(_url(address)) as client:

            async def run(*argv: str) -> int:
                done = await client.run(argv, cwd="/tmp", env=ENV, policy=None)
                if done.exit_code:
                    raise BenchError(f"{argv[0]} failed")
                return len(done.stdout)

            return await _measure(run, samples, seconds, streams)

    return asyncio.run(main())


def ours_sync(address: Address, samples: int, seconds: float) -> list[float]:
    times: list[float] = []
    with outfitter.sync.connect(_url(address)) as client:
        deadline = time.perf_counter() + seconds
        while len(times) < samples + WARM_UP and time.perf_counter() < deadline:
            begin = time.perf_counter()
            client.run(["true"], cwd="/tmp", env=ENV, policy=None)
            times.append(time.perf_counter() - begin)
    return times[WARM_UP:]


def raw(address: Address, samples: int, seconds: float, streams: int) -> Times:
    with ExecClient(address, quickack=True) as client:
        one_shot, collected = Launch("true"), Launch(*COLLECTED)
        deadline = time.perf_counter() + seconds
        shots: list[float] = []
        while len(shots) < samples + WARM_UP and time.perf_counter() < deadline:
            shots.append(client.one_shot(one_shot))
        return shots[WARM_UP:], [client.stream(collected)[0] for _ in range(streams)]


def loop(address: Address, samples: int, seconds: float, streams: int) -> Times:
    async def main() -> Times:
        async with connect(_url(address), compression=None, max_size=None, ping_interval=None) as socket:
            await _initialize(socket)
            numbers = iter(range(1, 1 << 30))

            async def run(*argv: str) -> int:
                return len(await _run(socket, next(numbers), argv))

            return await _measure(run, samples, seconds, streams)

    return asyncio.run(main())


async def _initialize(socket: ClientConnection) -> None:
    params = {"clientName": "loop", "resumeSessionId": None}
    await socket.send(json.dumps({"id": 0, "method": "initialize", "params": params}))
    await socket.recv()
    await socket.send(json.dumps({"method": "initialized", "params": {}}))


async def _run(socket: ClientConnection, number: int, argv: tuple[str, ...]) -> bytes:
    params = {
        "processId": f"loop-{number}",
        "argv": argv,
        "cwd": "file:///tmp",
        "env": ENV,
        "tty": False,
        "envPolicy": None,
        "pipeStdin": False,
        "arg0": None,
    }
    await socket.send(json.dumps({"id": number, "method": "process/start", "params": params}))
    parts = []
    while True:
        message = json.loads(await socket.recv())
        match message.get("method"):
            case "process/output":
                parts.append(b64decode(message["params"]["chunk"]))
            case "process/closed":
                return b"".join(parts)
            case _ if "error" in message:
                raise BenchError(str(message["error"]))


async def _measure(run: Callable[..., Awaitable[int]], samples: int, seconds: float, streams: int) -> Times:
    shots: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(shots) < samples + WARM_UP and time.perf_counter() < deadline:
        begin = time.perf_counter()
        await run("true")
        shots.append(time.perf_counter() - begin)
    collected: list[float] = []
    for _ in range(streams):
        begin = time.perf_counter()
        size = await run(*COLLECTED)
        collected.append(time.perf_counter() - begin)
        if size != COLLECTED_SIZE:
            raise BenchError(f"{size} bytes of output instead of {COLLECTED_SIZE}")
    return shots[WARM_UP:], collected


def swerex(python: str, address: Address, token: str, samples: int, seconds: float, streams: int) -> Times:
    """SWE-ReX's own client on its own server, in its own interpreter."""
    numbers = [str(address[1]), token, str(samples), str(seconds), str(streams), str(COLLECTED_SIZE)]
    done = subprocess.run([python, "-c", _SWEREX, *numbers], capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise BenchError(f"swerex: {lines[-1] if lines else 'no output'}")
    shots, collected = json.loads(done.stdout.splitlines()[-1])
    return shots, collected


_SWEREX: Final = """
import asyncio, json, sys, time
from swerex.runtime.abstract import Command
from swerex.runtime.remote import RemoteRuntime

port, token, samples, seconds, streams, size = sys.argv[1:]

async def main():
    runtime = RemoteRuntime(host="http://127.0.0.1", port=int(port), auth_token=token, timeout=30)
    async def run(*argv):
        begin = time.perf_counter()
        done = await runtime.execute(Command(command=list(argv), env={"PATH": "/usr/bin:/bin"}, cwd="/tmp"))
        assert done.exit_code == 0, done
        return time.perf_counter() - begin
    shots = []
    deadline = time.perf_counter() + float(seconds)
    while len(shots) < int(samples) + 2 and time.perf_counter() < deadline:
        shots.append(await run("true"))
    # Zeros would become six bytes each in its JSON; letters do not.
    script = f"head -c {size} /dev/zero | tr '\\\\0' x"
    print(json.dumps([shots[2:], [await run("sh", "-c", script) for _ in range(int(streams))]]))

asyncio.run(main())
"""


def _url(address: Address) -> str:
    return f"ws://{address[0]}:{address[1]}"
