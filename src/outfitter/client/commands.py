"""Running commands: the part of a client that starts them, runs them to their end, and finds them again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..core.events import Output
from ..errors import (
    ConnectionLost,
    InvalidParams,
    OutfitterError,
    OutputTooLarge,
    SettingInvalid,
    TimedOut,
)
from ..protocol.process import DetachedParams, ListResult, StartParams, StartResult, TerminalSize
from ..record import record
from .environment import CONTRACT, wire_env, wire_policy
from .process import ProcessFeed, RemoteProcess, octets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..core.sandbox import Sandbox
    from ..protocol.documents import EnvironmentSummary, StartupReport
    from ..protocol.network import DecisionNotice
    from ..protocol.process import ProcessSummary
    from .environment import ByContract, EnvContract, EnvPolicy
    from .session import Decide, RemoteSession

# What `run` collects unless told otherwise: a log that nobody reads fits, a runaway command does not.
MAX_OUTPUT = 256 << 20


@record
class Completed:
    """The result of `run`: the exit code and all output.

    `environment` is the server's summary of the command's environment, and `startup` what a shell's startup
    files changed, if the client asked for summaries.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    sandbox_denied: bool = False
    environment: EnvironmentSummary | None = None
    startup: StartupReport | None = None


class CommandCalls:
    """The part of `Client` that runs commands."""

    _session: RemoteSession

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        sandbox: Sandbox | None = None,
        tty: tuple[int, int] | None = None,
        stdin: bool = False,
        arg0: str | None = None,
        detach: bool | float = False,
        on_waiting: Callable[[str], object] | None = None,
        decide: Decide | None = None,
        on_network: Callable[[DecisionNotice], object] | None = None,
    ) -> RemoteProcess:
        """Starts a command.

        `cwd` is a path on the executor; a relative path, or None, starts at the executor's working directory.
        `env` is added on top of what `policy` passes; with `policy=None` it is the whole environment.
        `contract` says who wrote `env`, which variables to remove, and what a shell may do. `sandbox` says
        what the command may do on the executor; one that cannot be enforced there is refused. `tty` gives the
        command a terminal with that many rows and columns, and `stdin` a writable input. With `detach`, the
        command outlives this client: to its end, or for at most that many seconds without any client. Raises
        CapabilityMissing if the server cannot do that. `on_waiting` is called from time to time with what the
        server is waiting for before it can start the command (a provider or a setup).

        `decide` is asked whether the command may reach a host that `domains` of its `sandbox` do not name. It
        gets `protocol`, `host` and `port`, and returns a bool or an awaitable of one; the connection waits.
        `on_network` is called with what was decided about each connection of a command with `domains` or
        `decide`.

        If the connection is lost during a start, the call raises Disconnected. The start is not repeated, and
        what it may have started is ended.
        """
        session = self._session
        detached = _detached(session, detach)
        feed = ProcessFeed(session, session.new_process_id(), on_waiting)
        wire, contract = wire_policy(session, policy, contract)
        params = StartParams(
            feed.process_id,
            list(argv),
            session.resolve(cwd),
            wire_env(env),
            tty is not None,
            wire,
            stdin,
            arg0,
            size=TerminalSize(*tty) if tty is not None and session.offers("processResize") else None,
            contract=contract,
            detached=detached,
        )
        told = params.encode()
        feed.decide, feed.on_network = decide, on_network
        if sandbox is not None:
            from .sandbox import start_members

            told = {**told, **start_members(session, sandbox, params.cwd, asks=decide is not None)}
        elif decide is not None:
            raise SettingInvalid("`decide` is about a command in a sandbox: give it one")
        # Registered first: output may overtake the answer.
        process = session.processes[feed.process_id] = RemoteProcess(session, feed, tty=tty is not None)
        try:
            result = await session.call("process/start", told)
        except BaseException as error:
            session.processes.pop(feed.process_id, None)
            # Refused is refused; anything else, and it may have started.
            if not isinstance(error, OutfitterError) or isinstance(error, ConnectionLost):
                session.end(feed.process_id)
            raise
        feed.started = True
        if detached is not None:
            process.keep()
        try:
            answer = StartResult.decode(result)
            feed.environment, feed.warnings = answer.environment, list(answer.warnings)
        except InvalidParams:
            pass  # it runs all the same
        if feed.closed:
            session.processes.pop(feed.process_id, None)
        return process

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        sandbox: Sandbox | None = None,
        input: bytes | str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it also ends the command
        max_output: int = MAX_OUTPUT,
        on_output: Callable[[Output], object] | None = None,
    ) -> Completed:
        """Runs a command to its end and collects its output.

        With `sandbox`, `sandbox_denied` of the result says whether something was probably denied. `input` is
        what the command reads from stdin, text as UTF-8; without it, stdin is empty. `on_output`
        gets each piece of output as it comes, and the output is then not collected. The command and
        everything it started are ended if the call is cancelled, after `timeout` seconds (TimedOut, which is
        a TimeoutError), or if there are more than `max_output` bytes to collect (OutputTooLarge).
        """
        given = None if input is None else octets(input)
        if given is not None:
            self._session.require("processStdinEof", "end a command's input")
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        try:
            # A server that does not answer takes of the same time.
            async with asyncio.timeout_at(deadline):
                process = await self.start(
                    argv,
                    cwd=cwd,
                    env=env,
                    policy=policy,
                    contract=contract,
                    sandbox=sandbox,
                    stdin=given is not None,
                )
        except TimeoutError:
            raise TimedOut(timeout or 0.0) from None
        parts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        feeding = None if given is None else asyncio.create_task(feed(process, given))
        collected = 0
        try:
            async with asyncio.timeout_at(deadline) as time_limit:
                async for event in process:
                    if not isinstance(event, Output):
                        continue
                    if on_output is not None:
                        on_output(event)
                        continue
                    collected += len(event.data)
                    parts[event.stream].append(event.data)
                    if collected > max_output:
                        raise OutputTooLarge(max_output)
        except BaseException as error:
            process._feed.end()
            stdout, stderr = b"".join(parts["stdout"]), b"".join(parts["stderr"])
            if isinstance(error, OutputTooLarge):
                raise OutputTooLarge(max_output, stdout, stderr) from None
            if isinstance(error, TimeoutError) and timeout is not None and time_limit.expired():
                raise TimedOut(timeout, stdout, stderr) from None
            raise
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
        assert process.exit_code is not None
        return Completed(
            process.exit_code,
            b"".join(parts["stdout"]),
            b"".join(parts["stderr"]),
            bool(process.sandbox_denied),
            process.environment,
            process.startup,
        )

    async def processes(self) -> list[ProcessSummary]:
        """The processes of this session, oldest first, including closed ones that the server still keeps.

        Raises CapabilityMissing if the server cannot list them.
        """
        self._session.require("processList", "list its processes")
        return (await self._session.ask(ListResult, "process/list", None, repeat=True)).processes

    async def attach(self, process_id: str, *, after: int = 0) -> RemoteProcess:
        """Attaches to a process of this session by its id.

        Events start after the sequence number `after`, or at the oldest event that the server still has;
        `missed` of the handle is the number of events in between. The process is not ended with this client,
        because this client did not start it. Raises RequestFailed if the process does not exist.
        """
        processes = self._session.processes
        known = processes.get(process_id)
        if isinstance(known, RemoteProcess):
            return known
        feed = ProcessFeed(self._session, process_id)
        feed.kept = True
        process = processes[process_id] = RemoteProcess(self._session, feed)
        try:
            await feed.follow(after)
        except BaseException:
            processes.pop(process_id, None)
            raise
        if feed.over:
            processes.pop(process_id, None)
        return process


def _detached(session: RemoteSession, detach: bool | float) -> DetachedParams | None:
    if detach is False:
        return None
    session.require("processDetach", "keep a command running without its client")
    return DetachedParams(None if detach is True else int(detach * 1000))


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
