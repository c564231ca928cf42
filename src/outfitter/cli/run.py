"""outfitter run -- CMD: a command through the real client path, streamed, its exit code ours."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from ..core.events import Exited, Output
from ..errors import OutfitterError, RequestFailed
from ..local import local
from ..protocol.environment import EnvPolicyParams
from . import explain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ..client.client import Client
    from ..client.process import RemoteProcess

_READ_SIZE = 64 << 10
TIMED_OUT, NOT_STARTED, NOT_EXECUTABLE, NOT_FOUND, READER_GONE = 124, 125, 126, 127, 141


def run(argv: Sequence[str], flags: dict[str, Any]) -> int:
    """Runs the command; returns the exit status of the command line."""
    return asyncio.run(_run(argv, flags))


async def _run(argv: Sequence[str], flags: dict[str, Any]) -> int:
    policy = EnvPolicyParams(
        flags["inherit"],
        not flags["default_excludes"],
        tuple(flags["exclude"]),
        tuple(flags["set"]),
        tuple(flags["include_only"]),
    )
    async with local() as client:
        try:
            process = await client.start(argv, cwd=flags["cwd"], policy=policy, stdin=True)
        except RequestFailed as error:
            return _not_started(argv[0], error)
        feeding = asyncio.create_task(_feed(process))
        try:
            async with asyncio.timeout(flags["timeout"]):
                status = await _stream(process, json=flags["json"])
        except TimeoutError:
            await process.terminate()
            print(f"outfitter: {argv[0]} was ended after {flags['timeout']} s", file=sys.stderr)
            return TIMED_OUT
        finally:
            feeding.cancel()
        if flags["explain"]:
            await _explain(client, policy)
        return status


def _not_started(program: str, error: RequestFailed) -> int:
    data = error.data if isinstance(error.data, dict) else {}
    reason = data.get("reason") or error.message
    print(f"outfitter: cannot start {program}: {reason}", file=sys.stderr)
    if data.get("subject") == "cwd":
        return NOT_STARTED
    match data.get("errno"):
        case "ENOENT":
            return NOT_FOUND
        case "EACCES" | "ENOEXEC":
            return NOT_EXECUTABLE
        case _:
            return NOT_STARTED


async def _stream(process: RemoteProcess, *, json: bool) -> int:
    """Passes output on as it comes. Ctrl-C interrupts the command, a second one ends it."""
    loop = asyncio.get_running_loop()
    presses = 0
    tasks: set[asyncio.Task[object]] = set()

    def pressed() -> None:
        nonlocal presses
        presses += 1
        action = process.interrupt() if presses == 1 else process.terminate()
        tasks.add(asyncio.ensure_future(action))

    loop.add_signal_handler(signal.SIGINT, pressed)
    try:
        async for event in process:
            if json:
                _print_json(event)
            elif isinstance(event, Output) and not _pass_on(event):
                # Our reader has gone (`| head`): end as a filter would that is told so by a signal.
                await process.terminate()
                return READER_GONE
    except OutfitterError as error:
        print(f"outfitter: {error}", file=sys.stderr)
        return NOT_STARTED
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        await asyncio.gather(*tasks, return_exceptions=True)
    assert process.exit_code is not None
    return process.exit_code


async def _feed(process: RemoteProcess) -> None:
    """Passes our standard input on, to its end or the command's."""
    try:
        async for data in _standard_input():
            if await process.write(data) != "accepted":
                return
        await process.close_stdin()
    except OutfitterError:
        pass  # the command is gone, which the stream of its output reports


async def _standard_input() -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(0, ready.set)
        watched = True
    except PermissionError:  # a plain file or /dev/null is always ready
        watched = False
    except OSError:  # no standard input at all
        return
    try:
        while True:
            if watched:
                await ready.wait()
                ready.clear()
            try:
                data = os.read(0, _READ_SIZE)
            except BlockingIOError:
                continue
            except OSError:  # a terminal that we are not in the foreground of
                return
            if not data:
                return
            yield data
    finally:
        if watched:
            loop.remove_reader(0)


def _pass_on(event: Output) -> bool:
    """Writes output to where it belongs; False when nobody reads it any more."""
    target = sys.stderr if event.stream == "stderr" else sys.stdout
    try:
        target.buffer.write(event.data)
        target.buffer.flush()
    except BrokenPipeError:
        # The interpreter flushes once more when it ends, and must find an open descriptor.
        os.dup2(os.open(os.devnull, os.O_WRONLY), target.fileno())
        return False
    return True


def _print_json(event: Output | Exited) -> None:
    from json import dumps

    if isinstance(event, Output):
        line: dict[str, object] = {
            "event": "output",
            "stream": event.stream,
            "text": event.data.decode("utf-8", "replace"),
        }
    else:
        line = {"event": "exited", "exitCode": event.code}
    print(dumps(line), flush=True)


async def _explain(client: Client, policy: EnvPolicyParams) -> None:
    variables = await client.explain(policy=policy)
    print(explain.report(variables, colour=explain.wants_colour(sys.stderr)), file=sys.stderr)
