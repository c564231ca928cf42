"""The client: one session on one exec-server, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import itertools
import os
import posixpath
import secrets
from typing import TYPE_CHECKING

from ..core.events import CLOSED, Exited, Output
from ..core.recovery import CONNECTED, FAILED
from ..errors import (
    CapabilityMissing,
    ConnectionLost,
    InvalidParams,
    OutfitterError,
    OutputTooLarge,
    SettingInvalid,
    TimedOut,
)
from ..protocol import uri
from ..protocol.environment import (
    BaseParams,
    ContractParams,
    DiffParams,
    EnvPolicyParams,
    ResolveParams,
    WaitingNotice,
)
from ..protocol.overlay import DropParams, EventParams, ListParams, PutParams
from ..protocol.process import (
    ExitedNotice,
    OutputNotice,
    ProcessSummary,
    StartParams,
    TerminalSize,
    TerminateParams,
)
from ..protocol.session import EnvironmentInfo
from ..protocol.watching import ChangedNotice
from ..record import record
from .files import Files
from .link import Link
from .process import RemoteProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from ..protocol.jsontext import Json
    from .connection import ClientConnection, Notice
    from .link import Dial
    from .watch import Watch

# Output received but not yet taken by the caller. Above this the connection is not read, so a caller
# that does not iterate slows the command down instead of filling memory.
_QUEUED_BYTES = 8 << 20
# While an answer is waited for, which may stand behind such output, all is read up to this.
_QUEUED_BYTES_CALLING = 64 << 20
# What `run` collects unless told otherwise: a log that nobody reads fits, a runaway command does not.
MAX_OUTPUT = 256 << 20
_CLOSE_SECONDS = 2.0  # for ending what still runs when the client is closed
_STATUS_SECONDS = 10.0  # the reference's limit for environment/status

#: Which of the executor's variables a command inherits: inherit ("all", "core", "none"),
#: ignore_default_excludes, exclude patterns, (name, value) pairs to set, include-only patterns.
EnvPolicy = EnvPolicyParams

#: More about a command's environment: who speaks in `env` ("user" or "model"), what to `unset`, what becomes
#: of a shell's `login` flag and `startup` files, the `scope` whose overlay holds, and named `overlays`.
EnvContract = ContractParams

#: Everything the executor has.
INHERIT_ALL = EnvPolicyParams("all", True, (), (), ())


class Contract:
    """The type of CONTRACT."""

    def __repr__(self) -> str:
        return "CONTRACT"


#: What a command inherits when the caller does not say: what the executor's environment contract says. On a
#: server that has none, everything.
CONTRACT = Contract()


@record
class Completed:
    """What `run` returns: the exit code and all output.

    `environment` is the server's summary of the command's environment, and `startup` what a shell's startup
    files did, if the client asked for summaries.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    sandbox_denied: bool = False
    environment: Json = None
    startup: Json = None


class Client:
    """Runs commands on one exec-server. Made by `outfitter.connect()` and `outfitter.local()`."""

    def __init__(
        self,
        dial: Dial,
        *,
        where: str,
        resumable: bool,
        initialize_timeout: float = 10.0,
        recovery_timeout: float | None = None,
        on_state: Callable[[str], None] | None = None,
        same_machine: bool = False,
        summaries: bool = False,
    ) -> None:
        self.where = where  # for people
        self.info: EnvironmentInfo | None = None
        self._on_state = on_state
        self._same_machine = same_machine
        self._link = Link(
            dial,
            resumable=resumable,
            initialize_timeout=initialize_timeout,
            recovery_timeout=recovery_timeout,
            noticed=self._noticed,
            catch_up=self._catch_up,
            changed=self._changed,
            summaries=summaries,
        )
        self._processes: dict[str, RemoteProcess] = {}
        self._cleaning: set[asyncio.Task[None]] = set()
        # Unguessable, so that ids stay apart when another client takes the session up.
        self._prefix = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._names = itertools.count(1)
        self._files: Files | None = None
        self._watches: dict[str, Watch] = {}
        self._queued = 0
        self._held = False
        self._calls = 0

    # Life

    async def open(self, resume: str | None = None, *, take_over: bool = False) -> None:
        """Connects and shakes hands. Raises DialFailed, RequestFailed, SettingInvalid."""
        result = await self._link.open(resume, take_over=take_over)
        self.info = result.info
        if self.info is None:
            self.info = await self._ask_info()

    async def _ask_info(self) -> EnvironmentInfo | None:
        """Older servers say who they are only when asked, and some not even then."""
        try:
            return EnvironmentInfo.decode(await self.call("environment/info", None))
        except (OutfitterError, InvalidParams):
            return None

    @property
    def state(self) -> str:
        """ "connected", "recovering" or "failed"."""
        return self._link.state

    @property
    def failed(self) -> OutfitterError | None:
        """Why this client is done for, once it is."""
        return self._link.failure

    @property
    def session_id(self) -> str:
        """Who knows it can take the session up, once this client is gone: see `resume` of `connect`."""
        return self._link.session_id

    async def aclose(self) -> None:
        """Ends what this client started and still runs, but for kept processes, and the connection."""
        running = [one for one in self._processes.values() if not one.kept and not one.over]
        for process in running:
            process.abandon()  # output that nobody takes must not hold up the answers
        if (running or self._cleaning) and self.failed is None:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await asyncio.gather(*map(self._end, running), *self._cleaning)
            except TimeoutError:
                pass  # the server ends them when it has waited long enough for us
        self._on_state = None  # a caller who closes it need not be told
        await self._link.close()
        for task in self._cleaning:
            task.cancel()
        await asyncio.gather(*self._cleaning, return_exceptions=True)

    async def _end(self, process: RemoteProcess) -> None:
        await self._link.clean_up("process/terminate", TerminateParams(process.process_id).encode())

    # What the server can do

    def offers(self, capability: str) -> bool:
        """Whether the server has this capability flag."""
        return self.info is not None and capability in self.info.capabilities

    def require(self, capability: str, what: str) -> None:
        """Raises CapabilityMissing without the flag."""
        if not self.offers(capability):
            raise CapabilityMissing(capability, what)

    async def call(self, method: str, params: Json, *, repeat: bool = False, wait: bool = True) -> Json:
        """Any request of the protocol.

        While the connection is being recovered a call waits (`wait=False`: fails at once). One that was
        under way when it broke raises Disconnected; `repeat` sends it again instead.
        Raises RequestFailed, Disconnected, SessionExpired, Overloaded.
        """
        # An answer may stand behind output that nobody takes: while one is waited for, more is read.
        self._calls += 1
        self.queued(0)
        try:
            return await self._link.call(method, params, repeat=repeat, wait=wait)
        finally:
            self._calls -= 1
            self.queued(0)

    async def status(self) -> str:
        """Asks the server how it is, now ("ready"). Never waits for a recovery.

        Raises Disconnected, SessionExpired, RequestFailed, TimedOut.
        """
        try:
            async with asyncio.timeout(_STATUS_SECONDS):
                result = await self.call("environment/status", None, wait=False)
        except TimeoutError:
            raise TimedOut(_STATUS_SECONDS) from None
        return str(result.get("status", "")) if isinstance(result, dict) else ""

    # Commands

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | Contract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: tuple[int, int] | None = None,
        stdin: bool = False,
        arg0: str | None = None,
        on_waiting: Callable[[str], object] | None = None,
    ) -> RemoteProcess:
        """Starts a command.

        `cwd` is a path on the executor; without one, or relative, it begins where the executor says it is.
        `env` goes on top of what `policy` lets through; with `policy=None` it is the whole environment.
        `contract` says more about who speaks in `env`, what to take away, and what a shell may do.
        `tty` gives it a terminal of that many rows and columns, `stdin` a writable input. `on_waiting` is
        told, now and then, what the server waits for before it can start the command (a provider, a setup).

        A start that was under way when the connection broke raises Disconnected: it is not repeated, and
        what it may have started is ended.
        """
        process = RemoteProcess(self, f"{self._prefix}-{next(self._names)}", tty=tty is not None)
        process.on_waiting = on_waiting
        wire_policy, contract = self._wire_policy(policy, contract)
        params = StartParams(
            process.process_id,
            list(argv),
            self.resolve(cwd),
            dict(env or {}),
            tty is not None,
            wire_policy,
            stdin,
            arg0,
            size=TerminalSize(*tty) if tty is not None and self.offers("processResize") else None,
            contract=contract,
        )
        # Registered first: output may overtake the answer.
        self._processes[process.process_id] = process
        try:
            result = await self.call("process/start", params.encode())
        except BaseException as error:
            self._processes.pop(process.process_id, None)
            # Refused is refused; anything else, and it may have started.
            if not isinstance(error, OutfitterError) or isinstance(error, ConnectionLost):
                self.clean_up(process)
            raise
        process.started = True
        if isinstance(result, dict):
            process.environment = result.get("environment")
            warnings = result.get("warnings")
            process.warnings = [str(one) for one in warnings] if isinstance(warnings, list) else []
        if process.closed:
            self._processes.pop(process.process_id, None)
        return process

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | Contract | None = CONTRACT,
        contract: EnvContract | None = None,
        input: bytes | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it also ends the command
        max_output: int = MAX_OUTPUT,
        on_output: Callable[[Output], object] | None = None,
    ) -> Completed:
        """Runs a command to its end and collects its output.

        `input` is what it reads from stdin; without it, stdin is empty. `on_output` gets each piece of
        output as it comes, which is then not collected. A command that is not wanted any more is ended
        with all it started: cancelled, `timeout` (TimedOut, a TimeoutError), more than `max_output` bytes
        to collect (OutputTooLarge).
        """
        if input is not None:
            self.require("processStdinEof", "end a command's input")
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        try:
            # A server that does not answer takes of the same time.
            async with asyncio.timeout_at(deadline):
                process = await self.start(
                    argv, cwd=cwd, env=env, policy=policy, contract=contract, stdin=input is not None
                )
        except TimeoutError:
            raise TimedOut(timeout or 0.0) from None
        parts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        feeding = None if input is None else asyncio.create_task(_feed(process, input))
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
            process.abandon()
            self.clean_up(process)
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
        """The processes of this session, oldest first, finished ones for as long as the server keeps them.

        Raises CapabilityMissing on servers that cannot list them.
        """
        self.require("processList", "list its processes")
        result = await self.call("process/list", None, repeat=True)
        return [ProcessSummary.decode(entry) for entry in result["processes"]]

    async def attach(self, process_id: str, *, after: int = 0) -> RemoteProcess:
        """Takes up a process of this session by its id.

        Its events come from the one after `after` on, or from the oldest that is left: `missed` of the
        handle is how many are not. Who attaches to a process did not start it, so it is not ended with this
        client. Raises RequestFailed when there is no such process.
        """
        process = self._processes.get(process_id)
        if process is not None:
            return process
        process = RemoteProcess(self, process_id)
        process.keep()
        self._processes[process_id] = process
        try:
            await process.follow(after)
        except BaseException:
            self._processes.pop(process_id, None)
            raise
        if process.over:
            self._processes.pop(process_id, None)
        return process

    # Environments

    def _wire_policy(
        self, policy: EnvPolicy | Contract | None, contract: ContractParams | None
    ) -> tuple[EnvPolicyParams | None, ContractParams | None]:
        """What a request says: the contract where the server has one, but for an exact environment."""
        if policy is None:
            if contract is not None:
                raise InvalidParams(
                    "an exact environment (policy=None) has no contract: leave one of them out"
                )
            return None, None
        if contract is not None and not self.offers("environmentContract"):
            raise CapabilityMissing("environmentContract", "keep an environment contract")
        if contract is not None and (contract.scope is not None or contract.overlays):
            self.require("environmentOverlay", "keep overlays")
        given = policy if isinstance(policy, EnvPolicyParams) else None
        if not self.offers("environmentContract"):
            return given or INHERIT_ALL, None
        return given, contract or ContractParams()

    def _question(
        self,
        env: Mapping[str, str] | None,
        policy: EnvPolicy | Contract | None,
        contract: ContractParams | None,
        cwd: str | None,
        *,
        tty: bool = False,
        show: str = "names",
        programs: Sequence[str] = (),
        login: bool = False,
        digest_key: bytes | None = None,
    ) -> ResolveParams:
        wire_policy, contract = self._wire_policy(policy, contract)
        return ResolveParams(
            dict(env or {}),
            wire_policy,
            tty,
            contract,
            self.resolve(cwd),
            show,
            tuple(programs),
            login,
            digest_key,
        )

    async def environment(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | Contract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: bool = False,
        show: str = "names",
        digest_key: bytes | None = None,
    ) -> dict[str, Json]:
        """What a command would get: its variables, fingerprints, and whose environment it is.

        `show` is "names", "values" (all but secrets) or "secrets". Raises CapabilityMissing.
        """
        self.require("environmentExplain", "tell what a command would get")
        params = self._question(env, policy, contract, cwd, tty=tty, show=show, digest_key=digest_key)
        result: dict[str, Json] = await self.call("environment/resolve", params.encode(), repeat=True)
        return result

    async def explain(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | Contract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: bool = False,
        show: str = "names",
        programs: Sequence[str] = (),
        login: bool = False,
    ) -> dict[str, Json]:
        """Why each variable of a command would be what it is, and where those that it lost went.

        `programs` are looked up in its PATH; `login` also asks what a login shell would make of it. Values
        are not in it unless `show` asks for them. Raises CapabilityMissing on servers that cannot tell.
        """
        self.require("environmentExplain", "explain an environment")
        params = self._question(
            env, policy, contract, cwd, tty=tty, show=show, programs=programs, login=login
        )
        result: dict[str, Json] = await self.call("environment/explain", params.encode(), repeat=True)
        return result

    async def compare(self, cwd: str, other: str) -> list[Json]:
        """The differences between what commands would get in two directories; never a value."""
        self.require("environmentExplain", "compare environments")
        params = DiffParams(
            self._question(None, CONTRACT, None, cwd), self._question(None, CONTRACT, None, other)
        )
        result = await self.call("environment/diff", params.encode(), repeat=True)
        differences: list[Json] = result["differences"]
        return differences

    async def base(self, params: BaseParams) -> dict[str, Json]:
        """Says whose environment commands start from; returns that base, and what differs by name.

        Only for a server of the same user on the same machine: it may send this process's environment.
        """
        self.require("environmentContract", "start commands from another environment than its own")
        result: dict[str, Json] = await self.call("environment/base", params.encode(), repeat=True)
        return result

    async def put_overlay(
        self,
        scope: str,
        producer: str,
        *,
        set: Mapping[str, str | None] | None = None,
        unset: Sequence[str] = (),
        prepend: Mapping[str, Sequence[str]] | None = None,
        append: Mapping[str, Sequence[str]] | None = None,
        remove: Mapping[str, Sequence[str]] | None = None,
        secrets: Sequence[str] = (),
        strict: bool = False,
        merge: bool = False,
        order: Sequence[str] = (),
    ) -> dict[str, Json]:
        """What `producer` adds to commands with `EnvContract(scope=scope)`, in place of its former words.

        `producer` is "user", or "hook:NAME", "plugin:NAME", "file:PATH", "editor:NAME"; the session is
        called `scope`, as the caller likes. In `set`, None takes a variable away. `strict` takes all or
        nothing; `merge` keeps what the producer has said of other variables; `order` is the one in which
        producers are configured. Returns the `names` that were taken and what was `rejected`, each with the
        reason. Raises RequestFailed, CapabilityMissing.
        """
        self.require("environmentOverlay", "keep overlays")
        told: dict[str, Json] = {"set": dict(set or {}), "unset": list(unset), "secrets": list(secrets)}
        for op, entries in (("prepend", prepend), ("append", append), ("remove", remove)):
            told[op] = {name: list(values) for name, values in (entries or {}).items()}
        params = PutParams(
            scope,
            producer,
            {name: value for name, value in told.items() if value},
            strict=strict,
            merge=merge,
            order=tuple(order),
        )
        result: dict[str, Json] = await self.call("environment/overlay/put", params.encode(), repeat=True)
        return result

    async def overlay(self, scope: str) -> dict[str, Json]:
        """Who has said what for a scope: `contributions` with names, never with values. CapabilityMissing."""
        self.require("environmentOverlay", "keep overlays")
        params = ListParams(scope).encode()
        result: dict[str, Json] = await self.call("environment/overlay/list", params, repeat=True)
        return result

    async def drop_overlay(self, scope: str, producer: str | None = None, names: Sequence[str] = ()) -> bool:
        """Forgets a producer, or what it has said of some variables; whether there was anything.

        Without a producer the session has ended: all of it is forgotten, what a fork took away included.
        """
        self.require("environmentOverlay", "keep overlays")
        params = DropParams(scope, producer, tuple(names)).encode()
        result = await self.call("environment/overlay/drop", params, repeat=True)
        return result["dropped"] is True

    async def overlay_event(
        self,
        scope: str,
        event: str,
        *,
        to: str | None = None,
        unset: Sequence[str] = (),
        hide_secrets: bool = False,
    ) -> dict[str, Json]:
        """Something has happened to a session: "new", "resume", "clear", "compact", "fork", "cwd", "root".

        A "fork" copies the overlay to the scope `to`; for a subagent without the variables `unset`, and
        without secrets. Returns the `contributions` that there are now, whose hooks must be `rerun` with
        which `reason`, and what is `lost`. Raises RequestFailed, CapabilityMissing.
        """
        self.require("environmentOverlay", "keep overlays")
        params = EventParams(scope, event, to, tuple(unset), hide_secrets).encode()
        result: dict[str, Json] = await self.call("environment/overlay/event", params)
        return result

    def resolve(self, path: str | None) -> uri.FileUri:
        """The URI of a path on the executor; relative ones, and None, start in its working directory.

        Nothing is taken from this machine unless it is the same one. Raises SettingInvalid when a
        relative one starts nowhere.
        """
        if path is not None and path.startswith("file:"):
            return uri.parse(path)
        base = None if self._same_machine or self.info is None else self.info.cwd
        if base is None:
            try:
                here = os.path.abspath(path or ".")
            except FileNotFoundError:
                raise SettingInvalid(
                    "the current directory does not exist any more: change to another one"
                ) from None
            return uri.parse(uri.from_path(here))
        if path is None:
            return base
        try:
            here = base.local_path()
        except ValueError:
            # Another path convention: only its own URIs can name places there.
            raise InvalidParams(f"{path!r} cannot be joined to {base.text}: give a file: URI") from None
        return uri.parse(uri.from_path(posixpath.normpath(posixpath.join(here, path))))

    @property
    def files(self) -> Files:
        """The executor's files."""
        if self._files is None:
            self._files = Files(self)
        return self._files

    @property
    def generation(self) -> int:
        """The number of the connection in use: what belonged to an earlier one is gone."""
        return self._link.generation

    def remember_watch(self, watch: Watch) -> None:
        self._watches[watch.watch_id] = watch

    def forget_watch(self, watch: Watch) -> None:
        self._watches.pop(watch.watch_id, None)

    # Cleaning up

    def later(self, method: str, params: Json) -> None:
        """A call whose answer nobody waits for, and that may be lost with the connection."""

        async def quietly() -> None:
            try:
                await self._link.call(method, params)
            except OutfitterError:
                pass

        self._in_background(quietly())

    def clean_up(self, process: RemoteProcess) -> None:
        """Ends what may run and nobody wants, in the background, after a recovery if need be."""
        if self.failed is not None:
            return
        self._in_background(self._end(process))

    def _in_background(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    # From the link

    def _noticed(self, notice: Notice) -> None:
        if isinstance(notice, ChangedNotice):
            watch = self._watches.get(notice.watch_id)
            if watch is not None:
                watch.receive(notice)
            return
        process = self._processes.get(notice.process_id)
        if process is None:
            return
        if isinstance(notice, WaitingNotice):
            if process.on_waiting is not None:
                process.on_waiting(notice.what)
            return
        if isinstance(notice, OutputNotice):
            process.receive(notice.seq, Output(notice.stream, notice.data))
        elif isinstance(notice, ExitedNotice):
            if notice.environment is not None:
                process.startup = notice.environment
            process.receive(notice.seq, Exited(notice.exit_code, notice.sandbox_denied))
        else:
            process.receive(notice.seq, CLOSED)
        if process.over and process.started:
            self._processes.pop(process.process_id, None)

    async def _catch_up(self, connection: ClientConnection) -> None:
        live = [one for one in self._processes.values() if one.started and not one.over]
        await asyncio.gather(*(process.catch_up(connection) for process in live))
        for process in live:
            if process.over:
                self._processes.pop(process.process_id, None)

    def _changed(self, state: str) -> None:
        if state is FAILED:
            assert self.failed is not None
            for process in self._processes.values():
                process.fail(self.failed)
            self._processes.clear()
            for watch in self._watches.values():
                watch.fail(self.failed)
        else:
            if state is CONNECTED:
                for watch in self._watches.values():
                    self._in_background(watch.renew())
            self._held = False  # a new connection reads from the start
            self.queued(0)
        if self._on_state is not None:
            self._on_state(state)

    def queued(self, change: int) -> None:
        """Keeps count of output that waits for its reader; holds the connection back above the bound."""
        self._queued += change
        connection = self._link.connection
        if connection is None:
            return
        bound = _QUEUED_BYTES_CALLING if self._calls else _QUEUED_BYTES
        if self._held and self._queued <= bound // 2:
            self._held = False
            connection.transport.resume_reading()
        elif not self._held and self._queued > bound:
            self._held = True
            connection.transport.pause_reading()


async def _feed(process: RemoteProcess, data: bytes) -> None:
    """Gives a command its input; one that does not want it is not an error."""
    try:
        if await process.write(data) == "accepted":
            await process.close_stdin()
    except OutfitterError:
        pass  # the stream of its output tells
