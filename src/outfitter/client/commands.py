"""Starting commands: the part of a client that starts them, and finds them again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ..errors import ConnectionLost, InvalidParams, OutfitterError, RequestFailed, SettingInvalid
from ..protocol.listing import ListResult
from ..protocol.process import DetachedParams, StartParams, StartResult, TerminalSize
from ..record import record
from .answers import ProcessInfo, process_info
from .arguments import called, count, encodable, made, milliseconds, terminal_size, words
from .environment import CONTRACT, wire_env, wire_policy
from .feed import ProcessFeed
from .naming import launch_failure
from .process import RemoteProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import TracebackType

    from ..core.sandbox import Sandbox
    from ..protocol.jsontext import Json
    from .answers import NetworkDecision
    from .arguments import Command, Place
    from .environment import ByContract, EnvContract, EnvPolicy
    from .session import Decide, RemoteSession


@record
class Prepared:
    """A command that is to be started: checked, and in the words of the wire."""

    argv: list[str]
    cwd: str
    feed: ProcessFeed
    told: Json
    tty: bool = False
    detached: bool = False


class Starting(Coroutine[Any, Any, RemoteProcess]):
    """A command that starts when this is awaited; in `async with`, one that ends with the block.

        async with client.start(["make"]) as process:
            print(await process.wait())  # 0

    It is a coroutine, so `asyncio.create_task` takes it.
    """

    def __init__(self, work: Coroutine[Any, Any, RemoteProcess]) -> None:
        self._work = work
        self._process: RemoteProcess | None = None

    def __await__(self) -> Generator[Any, Any, RemoteProcess]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        """As of any coroutine: for the loop that runs it."""
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        """As of any coroutine: for the loop that runs it."""
        return self._work.throw(*error)

    def close(self) -> None:
        """Gives it up before it was awaited: nothing is started."""
        self._work.close()

    async def __aenter__(self) -> RemoteProcess:
        self._process = await self._work
        return self._process

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            await self._process.__aexit__(kind, error, trace)


class CommandCalls:
    """The part of `Client` that runs commands."""

    _session: RemoteSession

    def start(
        self,
        argv: Command,
        *,
        shell: bool = False,
        cwd: Place | None = None,
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
        on_network: Callable[[NetworkDecision], object] | None = None,
    ) -> Starting:
        """Starts a command: `await` it, or use it in `async with`, which ends the command with the block.

            async with client.start(["sh", "-c", "echo ready; sleep 60"]) as process:
                print((await process.stdout.readline()).decode().strip())  # ready

        `argv` is the program and its arguments; with `shell`, one text that the executor's shell runs.
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
        what it may have started is ended. Raises ProgramNotFound and other RequestFailed.
        """
        launch = self._launch(
            argv,
            shell=shell,
            cwd=cwd,
            env=env,
            policy=policy,
            contract=contract,
            sandbox=sandbox,
            tty=tty,
            stdin=stdin,
            arg0=arg0,
            detach=detach,
            on_waiting=on_waiting,
            decide=decide,
        )
        launch.feed.on_network = on_network
        return Starting(self._begin(launch))

    def _launch(
        self,
        argv: Command,
        *,
        shell: bool = False,
        cwd: Place | None = None,
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
    ) -> Prepared:
        """Checks what is asked for, before anything is sent. Raises TypeError, InvalidParams and so on."""
        session = self._session
        called("on_waiting", on_waiting)
        called("decide", decide)
        command = self.shell_argv(argv) if shell else words(argv)
        detached = _detached(session, detach)
        feed = ProcessFeed(session, session.new_process_id(), on_waiting)
        wire, kept = wire_policy(session, policy, contract)
        size = None if tty is None else _size(tty)
        params = StartParams(
            feed.process_id,
            command,
            session.resolve(cwd),
            wire_env(env),
            tty is not None,
            wire,
            stdin,
            arg0 if arg0 is None else encodable("arg0", arg0),
            size=size if session.offers("processResize") else None,
            contract=kept,
            detached=detached,
        )
        told = params.encode()
        feed.decide = decide
        if sandbox is not None:
            from ..core.sandbox import Sandbox
            from .sandbox import start_members

            made("sandbox", sandbox, Sandbox, "outfitter.Sandbox")
            told = {**told, **start_members(session, sandbox, params.cwd, asks=decide is not None)}
        elif decide is not None:
            raise SettingInvalid("`decide` is about a command in a sandbox: give it one")
        return Prepared(command, params.cwd.text, feed, told, tty is not None, detached is not None)

    async def _begin(self, launch: Prepared) -> RemoteProcess:
        session, feed = self._session, launch.feed
        # Registered first: output may overtake the answer.
        process = session.processes[feed.process_id] = RemoteProcess(session, feed, tty=launch.tty)
        try:
            result = await session.call("process/start", launch.told)
        except BaseException as error:
            session.processes.pop(feed.process_id, None)
            feed.abandon()  # output that has overtaken the answer
            # Refused is refused; anything else, and it may have started.
            if not isinstance(error, OutfitterError) or isinstance(error, ConnectionLost):
                session.end(feed.process_id)
            if isinstance(error, RequestFailed):
                raise launch_failure(error, launch.argv[0], launch.cwd) from None
            raise
        feed.started = True
        if launch.detached:
            process.keep()
        try:
            answer = StartResult.decode(result)
            feed.environment, feed.warnings = answer.environment, list(answer.warnings)
            feed.pid = answer.pid
        except InvalidParams:
            pass  # it runs all the same
        if feed.closed:
            session.processes.pop(feed.process_id, None)
        return process

    def shell_argv(self, command: Command, *, login: bool = False) -> list[str]:
        """The program and the arguments with which the executor's shell runs a text.

            print(client.shell_argv("make test")[1:])  # ['-c', 'make test']

        Raises TypeError for anything but text.
        """
        info = self._session.info
        argv = words(command, shell=True, shell_path=None if info is None else info.shell_path)
        return [argv[0], "-lc", *argv[2:]] if login else argv

    async def processes(self) -> list[ProcessInfo]:
        """The processes of this session, oldest first, including closed ones that the server still keeps.

            for one in await client.processes():
                print(one.process_id, one.program, one.exited)

        Raises CapabilityMissing if the server cannot list them.
        """
        self._session.require("processList", "list its processes")
        listed = await self._session.ask(ListResult, "process/list", None, repeat=True)
        return [process_info(one) for one in listed.processes]

    async def attach(self, process_id: str, *, after: int = 0) -> RemoteProcess:
        """Attaches to a process of this session by its id.

            started = await client.start(["make", "nightly"])
            process = await client.attach(started.process_id)
            print(await process.wait())  # 0

        Events start after the sequence number `after`, or at the oldest event that the server still has;
        `missed` of the handle is the number of events in between. The process is not ended with this client,
        because this client did not start it. Raises RequestFailed if the process does not exist.
        """
        if not isinstance(process_id, str):
            raise TypeError(f"a process's id is text, not {process_id!r}")
        count("after", after)
        # One at a time: whoever comes second gets the handle of the first, which knows then what it follows.
        async with self._session.attaching.setdefault(process_id, asyncio.Lock()):
            return await self._attach(process_id, after)

    async def _attach(self, process_id: str, after: int) -> RemoteProcess:
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
            feed.abandon()  # what came meanwhile waits for nobody, though the error be kept
            raise
        if feed.over:
            processes.pop(process_id, None)
        return process


def _size(tty: tuple[int, int]) -> TerminalSize:
    if not isinstance(tty, tuple | list) or len(tty) != 2:
        raise TypeError(f"tty is a terminal's (rows, columns), not {tty!r}")
    return TerminalSize(*terminal_size(*tty))


def _detached(session: RemoteSession, detach: bool | float) -> DetachedParams | None:
    if detach is False:
        return None
    kept_ms = None if detach is True else milliseconds("detach", detach)
    session.require("processDetach", "keep a command running without its client")
    return DetachedParams(kept_ms)
