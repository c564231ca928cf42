"""Running commands to their end: the part of a client that collects what they print."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, overload

from ..core.collecting import OVERFLOWS, Collected
from ..core.events import Output
from ..core.lines import Lines
from ..errors import CommandFailed, InvalidParams, OutfitterError, OutputTooLarge, TimedOut
from .arguments import called, count, octets, seconds
from .commands import CommandCalls
from .completed import Completed, CompletedText, signal_of
from .environment import CONTRACT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from typing import Literal, TypedDict, Unpack

    from ..core.sandbox import Sandbox
    from .arguments import Command, Place
    from .environment import ByContract, EnvContract, EnvPolicy
    from .process import RemoteProcess

    class RunOptions(TypedDict, total=False):
        """The arguments of `run` but `text`."""

        shell: bool
        cwd: Place | None
        env: Mapping[str, str] | None
        policy: EnvPolicy | ByContract | None
        contract: EnvContract | None
        sandbox: Sandbox | None
        input: bytes | str | None
        timeout: float | None
        check: bool
        merge: bool
        linger: float | None
        max_output: int
        overflow: str
        on_output: Callable[[Output], object] | None


# What `run` collects of each stream unless told otherwise: a log that nobody reads fits, a runaway command
# does not.
MAX_OUTPUT = 256 << 20

_NO_LIMIT = contextlib.nullcontext()  # of commands at once


class RunCalls(CommandCalls):
    """The part of `Client` that runs commands to their end."""

    @overload
    async def run(
        self, argv: Command, *, text: Literal[False] = ..., **options: Unpack[RunOptions]
    ) -> Completed: ...

    @overload
    async def run(
        self, argv: Command, *, text: Literal[True], **options: Unpack[RunOptions]
    ) -> CompletedText: ...

    async def run(
        self,
        argv: Command,
        *,
        shell: bool = False,
        cwd: Place | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        sandbox: Sandbox | None = None,
        input: bytes | str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it also ends the command
        check: bool = False,
        text: bool = False,
        merge: bool = False,
        linger: float | None = None,
        max_output: int = MAX_OUTPUT,
        overflow: str = "raise",
        on_output: Callable[[Output], object] | None = None,
    ) -> Completed | CompletedText:
        """Runs a command to its end and collects its output.

            done = await client.run(["pytest", "-q"], cwd=Path("app"), timeout=600)
            print(done.exit_code, done.text)

        With `shell`, `argv` is one text, which the executor's shell runs. `input` is what the command reads
        from stdin, text as UTF-8; without it, stdin is empty. With `check`, an exit code other than 0 raises
        CommandFailed. With `text`, `stdout` and `stderr` of the result are text. With `merge`, `stdout` has
        both as they came. With `sandbox`, `sandbox_denied` of the result says whether something was probably
        denied. For `cwd`, `env`, `policy` and `contract` see `start`.

        `run` waits until nobody holds the command's output any more. With `linger` it returns so many seconds
        after the exit, and leaves alone what the command has put into the background.

        At most `max_output` bytes are kept of each stream. If there are more, `overflow` says what happens:
        "raise" ends the command and raises OutputTooLarge; "head", "tail" and "ends" keep the first bytes,
        the last ones or half of each, and the command goes on. `on_output` gets each piece of output as it
        comes, and the output is then not collected.

        The command and everything it started are ended if the call is cancelled, and after `timeout` seconds
        (TimedOut, which is a TimeoutError).
        """
        check_limits(overflow, max_output, linger, timeout)
        called("on_output", on_output)
        given = self._input(input)
        launch = self._launch(
            argv,
            shell=shell,
            cwd=cwd,
            env=env,
            policy=policy,
            contract=contract,
            sandbox=sandbox,
            stdin=given is not None,
        )
        kept = Collected(max_output, overflow, merged=merge)

        def take(event: Output) -> None:
            if on_output is not None:
                on_output(event)
                return
            kept.add(event.stream, event.data)
            if kept.dropped and overflow == "raise":
                raise OutputTooLarge(max_output, kept.stdout, kept.stderr)

        async with self._session.room or _NO_LIMIT:
            began = asyncio.get_running_loop().time()
            deadline = None if timeout is None else began + timeout
            try:
                # A server that does not answer takes of the same time.
                async with asyncio.timeout_at(deadline) as time_limit:
                    process = await self._begin(launch)
                    if linger is not None:
                        process._feed.linger(linger)
                    await _follow(process, given, take)
            except TimeoutError:
                if timeout is not None and time_limit.expired():
                    raise TimedOut(timeout, kept.stdout, kept.stderr) from None
                raise
            took = asyncio.get_running_loop().time() - began
        done = completed(process, launch.argv, kept, took)
        if check:
            done.check()
        return done.as_text() if text else done

    def _input(self, input: bytes | str | None) -> bytes | None:
        """What a command is given to read. Raises TypeError or CapabilityMissing."""
        if input is None:
            return None
        given = octets(input)
        self._session.require("processStdinEof", "end a command's input")
        return given

    @overload
    async def shell(
        self, command: str, *, login: bool = ..., text: Literal[False] = ..., **options: Unpack[RunOptions]
    ) -> Completed: ...

    @overload
    async def shell(
        self, command: str, *, login: bool = ..., text: Literal[True], **options: Unpack[RunOptions]
    ) -> CompletedText: ...

    async def shell(
        self, command: str, *, login: bool = False, text: bool = False, **options: Unpack[RunOptions]
    ) -> Completed | CompletedText:
        """Runs a text in the executor's shell; with `login`, in a login shell. The rest is as for `run`.

            done = await client.shell("make test 2>&1 | tail -5", check=True)

        Raises what `run` raises.
        """
        argv = self.shell_argv(command, login=login)
        options = {**options, "shell": False}
        if text:
            return await self.run(argv, text=True, **options)
        return await self.run(argv, **options)

    async def lines(
        self,
        argv: Command,
        *,
        shell: bool = False,
        cwd: Place | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        sandbox: Sandbox | None = None,
        check: bool = True,
    ) -> AsyncGenerator[str, None]:
        """The lines that a command prints on stdout and stderr, as they come, without their ends.

            async for line in client.lines(["pytest", "-q"]):
                print(line)

        An exit code other than 0 raises CommandFailed after the last line, unless `check=False`. The command
        is ended if the loop is left. For the other arguments see `run`. A line of more than 1 MiB comes in
        pieces.
        """
        launch = self._launch(
            argv, shell=shell, cwd=cwd, env=env, policy=policy, contract=contract, sandbox=sandbox
        )
        streams = {"stdout": Lines(), "stderr": Lines()}
        async with self._session.room or _NO_LIMIT, await self._begin(launch) as process:
            async for event in process:
                if isinstance(event, Output):
                    for line in streams[event.stream].add(event.data):
                        yield line.decode(errors="replace")
            for stream in streams.values():
                for line in stream.rest():
                    yield line.decode(errors="replace")
        if check and process.exit_code:
            raise CommandFailed(tuple(launch.argv), process.exit_code, b"", b"")


def check_limits(
    overflow: str = "raise", max_output: int = 0, linger: float | None = None, timeout: float | None = None
) -> None:
    """Raises TypeError or InvalidParams for what `run` cannot do."""
    if overflow not in OVERFLOWS:
        raise InvalidParams(f"overflow is one of {', '.join(OVERFLOWS)}, not {overflow!r}")
    count("max_output", max_output)
    seconds("linger", linger)
    seconds("timeout", timeout)


def completed(process: RemoteProcess, argv: list[str], kept: Collected, duration: float) -> Completed:
    """The result of a command that has ended."""
    assert process.exit_code is not None
    feed = process._feed
    return Completed(
        process.exit_code,
        kept.stdout,
        kept.stderr,
        bool(process.sandbox_denied),
        process.environment,
        process.startup,
        tuple(argv),
        duration,
        kept.dropped,
        signal_of(process.exit_code, feed.signal, tells=process._session.offers("processExitSignal")),
        feed.reason,
    )


async def _follow(process: RemoteProcess, given: bytes | None, take: Callable[[Output], None]) -> None:
    """Gives a command its input and takes its output, to the end. Whatever goes wrong ends the command."""
    feeding = None if given is None else asyncio.create_task(feed(process, given))
    try:
        async for event in process:
            if isinstance(event, Output):
                take(event)
    except BaseException:
        process.end()
        raise
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def feed(process: RemoteProcess, data: bytes) -> None:
    """Gives a command its input; one that does not want it is not an error.

    Another failure fails the process: it would wait for ever for the rest.
    """
    try:
        if await process.write(data) == "accepted":
            await process.close_stdin()
    except OutfitterError:
        pass  # the stream of its output tells
    except Exception as error:
        process._feed.fail(error)
