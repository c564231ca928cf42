"""The client for scripts: the names of the async one, as plain calls.

Each block has a thread of its own with an asyncio loop. A call hands a coroutine over and waits for it;
one that is interrupted there (Ctrl-C) is cancelled here, with all that cancelling it means. A client and
its processes may be used from several threads at once.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from weakref import WeakValueDictionary

# First: importing the module of that name would put it in the place of the public function.
from . import local as _public  # noqa: F401
from .client.commands import MAX_OUTPUT, Completed
from .client.connect import connect as connect_async
from .client.environment import CONTRACT
from .client.files import BLOCK_BYTES
from .core.events import Output
from .errors import Refused, SessionExpired, TimedOut
from .local import local as local_async

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from ssl import SSLContext

    from .client.client import Client as AsyncClient
    from .client.environment import ByContract, EnvContract, EnvPolicy
    from .client.files import FileInfo, FolderEntry, Found, Walked
    from .client.files import Files as AsyncFiles
    from .client.files import RemoteFile as AsyncFile
    from .client.process import RemoteProcess as AsyncProcess
    from .client.watch import FileChanges
    from .client.watch import Watch as AsyncWatch
    from .core.events import Exited
    from .errors import OutfitterError
    from .protocol.environment import BaseParams
    from .protocol.jsontext import Json
    from .protocol.process import ProcessSummary
    from .protocol.session import EnvironmentInfo
    from .protocol.uri import FileUri

    Events = AsyncGenerator[Output | Exited, None]

    list_of = list  # the name is that of a method below

__all__ = ["Client", "Files", "RemoteFile", "RemoteProcess", "Watch", "connect", "local"]

T = TypeVar("T")

# What one crossing takes of the output that waits. More would only be held twice.
_BATCH_BYTES = 1 << 20
# For the clean-up of a call or a block that was interrupted: closing takes 2 s at most where all is well.
_CLEAN_UP_SECONDS = 5.0
# A signal that comes just before a wait begins does not end it: how long until Ctrl-C is noticed then.
_LOOK_SECONDS = 1.0


def connect(
    url: str,
    *,
    token: str | None = None,
    resume: str | None = None,
    take_over: bool = False,
    connect_timeout: float = 10.0,
    initialize_timeout: float = 10.0,
    recovery_timeout: float | None = None,
    on_state: Callable[[str], None] | None = None,
    tls: SSLContext | None = None,
    summaries: bool = False,
) -> AbstractContextManager[Client]:
    """`outfitter.connect` for a `with` block. `on_state` is called on the background thread."""
    return _Block(
        connect_async(
            url,
            token=token,
            resume=resume,
            take_over=take_over,
            connect_timeout=connect_timeout,
            initialize_timeout=initialize_timeout,
            recovery_timeout=recovery_timeout,
            on_state=on_state,
            tls=tls,
            summaries=summaries,
        )
    )


def local(
    *, environment: Mapping[str, str] | None = None, summaries: bool = False
) -> AbstractContextManager[Client]:
    """`outfitter.local` for a `with` block: the exec-server is on the background thread."""
    return _Block(local_async(environment=environment, summaries=summaries))


class _Block:
    """A `with` block. A class: in a generator, Ctrl-C may come between its `yield` and the block."""

    def __init__(self, context: AbstractAsyncContextManager[AsyncClient]) -> None:
        self._background = _Background(context)

    def __enter__(self) -> Client:
        _refuse_in_a_loop()
        try:
            return Client(self._background, self._background.open())
        except BaseException:
            self._background.close()
            raise

    def __exit__(self, *error: object) -> None:
        self._background.close()


class Client:
    """`outfitter.Client` in plain calls. Made by `connect()` and `local()`.

    After the end of the block every call raises SessionExpired.
    """

    def __init__(self, background: _Background, client: AsyncClient) -> None:
        self._background = background
        self._client = client
        # `attach` gives the handle that there is. Used on the background thread only.
        self._handles: WeakValueDictionary[str, RemoteProcess] = WeakValueDictionary()

    def __repr__(self) -> str:
        return f"<Client of {self.where}>"

    @property
    def where(self) -> str:
        """What this is a client of, for people."""
        return self._client.where

    @property
    def info(self) -> EnvironmentInfo | None:
        """What the server says about itself."""
        return self._client.info

    @property
    def state(self) -> str:
        """ "connected", "recovering" or "failed"."""
        return self._client.state

    @property
    def failed(self) -> OutfitterError | None:
        """Why this client is done for, once it is."""
        return self._client.failed

    @property
    def session_id(self) -> str:
        """Who knows it can take the session up, once this client is gone: see `resume` of `connect`."""
        return self._client.session_id

    # What the server can do

    def offers(self, capability: str) -> bool:
        """Whether the server has this capability flag."""
        return self._client.offers(capability)

    def require(self, capability: str, what: str) -> None:
        """Raises CapabilityMissing without the flag."""
        self._client.require(capability, what)

    def call(self, method: str, params: Json, *, repeat: bool = False, wait: bool = True) -> Json:
        """Any request of the protocol; see `outfitter.Client.call`."""
        return self._background.call(lambda: self._client.call(method, params, repeat=repeat, wait=wait))

    def status(self) -> str:
        """Asks the server how it is; see `outfitter.Client.status`."""
        return self._background.call(self._client.status)

    # Commands

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: tuple[int, int] | None = None,
        stdin: bool = False,
        arg0: str | None = None,
        on_waiting: Callable[[str], object] | None = None,
    ) -> RemoteProcess:
        """Starts a command; see `outfitter.Client.start`. `on_waiting` is called in another thread."""

        async def start() -> RemoteProcess:
            return self._handle(
                await self._client.start(
                    argv,
                    cwd=cwd,
                    env=env,
                    policy=policy,
                    contract=contract,
                    tty=tty,
                    stdin=stdin,
                    arg0=arg0,
                    on_waiting=on_waiting,
                )
            )

        return self._background.call(start, undo=self._end)

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        input: bytes | None = None,
        timeout: float | None = None,
        max_output: int = MAX_OUTPUT,
        on_output: Callable[[Output], object] | None = None,
    ) -> Completed:
        """Runs a command to its end; see `outfitter.Client.run`. `on_output` is called in this thread."""
        if on_output is not None:
            return self._run(argv, cwd, env, policy, contract, input, timeout, on_output)
        return self._background.call(
            lambda: self._client.run(
                argv,
                cwd=cwd,
                env=env,
                policy=policy,
                contract=contract,
                input=input,
                timeout=timeout,
                max_output=max_output,
            )
        )

    def _run(
        self,
        argv: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str] | None,
        policy: EnvPolicy | ByContract | None,
        contract: EnvContract | None,
        input: bytes | None,
        timeout: float | None,
        on_output: Callable[[Output], object],
    ) -> Completed:
        """`run` for output that this thread takes at its own pace."""
        if input is not None:
            self.require("processStdinEof", "end a command's input")
        started: list[RemoteProcess] = []  # filled over there: an interruption here cannot lose it
        feeding = None

        async def start() -> RemoteProcess:
            stdin = input is not None
            started.append(
                self._handle(
                    await self._client.start(
                        argv, cwd=cwd, env=env, policy=policy, contract=contract, stdin=stdin
                    )
                )
            )
            return started[0]

        try:
            process = self._background.call(start)
            if input is not None:
                feeding = self._background.begin(lambda: process._feed(input))
            for event in process._take(timeout):
                if isinstance(event, Output):
                    on_output(event)
        except BaseException:
            self._background.post(lambda: self._end(*started))
            raise
        finally:
            if feeding is not None:
                self._background.post(feeding.drop)
        assert process.exit_code is not None
        handle = process._process
        denied = bool(process.sandbox_denied)
        return Completed(process.exit_code, b"", b"", denied, handle.environment, handle.startup)

    def processes(self) -> list[ProcessSummary]:
        """The processes of this session; see `outfitter.Client.processes`."""
        return self._background.call(self._client.processes)

    def attach(self, process_id: str, *, after: int = 0) -> RemoteProcess:
        """Takes up a process of this session by its id; see `outfitter.Client.attach`."""

        async def attach() -> RemoteProcess:
            return self._handle(await self._client.attach(process_id, after=after))

        return self._background.call(attach)

    @property
    def files(self) -> Files:
        """The executor's files."""
        return Files(self._background, self._client.files)

    def resolve(self, path: str | None) -> FileUri:
        """The URI of a path on the executor; see `outfitter.Client.resolve`."""
        return self._client.resolve(path)

    # Environments

    def environment(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: bool = False,
        show: str = "names",
        digest_key: bytes | None = None,
    ) -> dict[str, Json]:
        """What a command would get; see `outfitter.Client.environment`."""
        return self._background.call(
            lambda: self._client.environment(
                cwd=cwd,
                env=env,
                policy=policy,
                contract=contract,
                tty=tty,
                show=show,
                digest_key=digest_key,
            )
        )

    def explain(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        policy: EnvPolicy | ByContract | None = CONTRACT,
        contract: EnvContract | None = None,
        tty: bool = False,
        show: str = "names",
        programs: Sequence[str] = (),
        login: bool = False,
    ) -> dict[str, Json]:
        """Why each variable would be what it is; see `outfitter.Client.explain`."""
        return self._background.call(
            lambda: self._client.explain(
                cwd=cwd,
                env=env,
                policy=policy,
                contract=contract,
                tty=tty,
                show=show,
                programs=programs,
                login=login,
            )
        )

    def compare(self, cwd: str, other: str) -> list[Json]:
        """What differs between two directories; see `outfitter.Client.compare`."""
        return self._background.call(lambda: self._client.compare(cwd, other))

    def base(self, params: BaseParams) -> dict[str, Json]:
        """Says whose environment commands start from; see `outfitter.Client.base`."""
        return self._background.call(lambda: self._client.base(params))

    def put_overlay(
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
        """What a producer adds to later commands; see `outfitter.Client.put_overlay`."""
        return self._background.call(
            lambda: self._client.put_overlay(
                scope,
                producer,
                set=set,
                unset=unset,
                prepend=prepend,
                append=append,
                remove=remove,
                secrets=secrets,
                strict=strict,
                merge=merge,
                order=order,
            )
        )

    def overlay(self, scope: str) -> dict[str, Json]:
        """Who has said what for a scope; see `outfitter.Client.overlay`."""
        return self._background.call(lambda: self._client.overlay(scope))

    def drop_overlay(self, scope: str, producer: str | None = None, names: Sequence[str] = ()) -> bool:
        """Forgets a producer or a session; see `outfitter.Client.drop_overlay`."""
        return self._background.call(lambda: self._client.drop_overlay(scope, producer, names))

    def overlay_event(
        self,
        scope: str,
        event: str,
        *,
        to: str | None = None,
        unset: Sequence[str] = (),
        hide_secrets: bool = False,
    ) -> dict[str, Json]:
        """Something has happened to a session; see `outfitter.Client.overlay_event`."""
        return self._background.call(
            lambda: self._client.overlay_event(scope, event, to=to, unset=unset, hide_secrets=hide_secrets)
        )

    # On the background thread

    def _handle(self, process: AsyncProcess) -> RemoteProcess:
        known = self._handles.get(process.process_id)
        if known is None or known._process is not process:
            known = self._handles[process.process_id] = RemoteProcess(self._background, process)
        return known

    def _end(self, *processes: RemoteProcess) -> None:
        """Ends commands that nobody wants any more, as a cancelled `run` does."""
        for process in processes:
            process._process._feed.end()


class RemoteProcess:
    """`outfitter.RemoteProcess` in plain calls. Iterate over it for its events, in order, up to its close."""

    def __init__(self, background: _Background, process: AsyncProcess) -> None:
        self._background = background
        self._process = process
        # Taken over the threads, but by no loop yet: what one loop leaves, the next one gets.
        self._taken: deque[Output | Exited] = deque()
        self._reading: set[Events] = set()  # used on the background thread only

    def __repr__(self) -> str:
        return repr(self._process)

    @property
    def process_id(self) -> str:
        """Its name within the session."""
        return self._process.process_id

    @property
    def tty(self) -> bool:
        """Whether it was started with a terminal."""
        return self._process.tty

    @property
    def exit_code(self) -> int | None:
        """Known once the command has ended."""
        return self._process.exit_code

    @property
    def environment(self) -> Json:
        """What the server says of its environment, if the client asked for summaries."""
        return self._process.environment

    @property
    def warnings(self) -> list[str]:
        """What is wrong with its environment, in the server's words."""
        return self._process.warnings

    @property
    def startup(self) -> Json:
        """What a shell's startup files did, after its exit, if the client asked for summaries."""
        return self._process.startup

    @property
    def sandbox_denied(self) -> bool | None:
        """Whether the sandbox interfered, once that is known."""
        return self._process.sandbox_denied

    @property
    def missed(self) -> int:
        """Events that were dropped before it was attached to."""
        return self._process.missed

    @property
    def closed(self) -> bool:
        """Whether every event has come."""
        return self._process.closed

    # Events

    def __iter__(self) -> Iterator[Output | Exited]:
        return self._take()

    def _take(self, limit: float | None = None) -> Iterator[Output | Exited]:
        """The events. Raises TimedOut when they have not all come within `limit` seconds."""
        deadline = None if limit is None else time.monotonic() + limit
        events = aiter(self._process)
        try:
            while True:
                event = self._next()
                if event is not None:
                    yield event
                elif not self._wait_for_more(events, limit, deadline):
                    return
        finally:
            # Not waited for: this may be the garbage collector, in any thread.
            self._background.begin(lambda: self._leave(events))

    def _next(self) -> Output | Exited | None:
        try:
            return self._taken.popleft()
        except IndexError:  # not asked beforehand: another thread may take the last one
            return None

    def _wait_for_more(self, events: Events, limit: float | None, deadline: float | None) -> bool:
        left = None
        # What has come may be taken slowly: only the command's own time is limited.
        if limit is not None and deadline is not None and not self.closed:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(limit)
        try:
            return self._background.call(lambda: self._fetch(events, left))
        except TimeoutError:
            if limit is None:
                raise
            raise TimedOut(limit) from None

    async def _fetch(self, events: Events, seconds: float | None) -> bool:
        """Takes what is there, once something is; False at the end.

        What it takes is never lost with its answer, should the caller be interrupted just then.
        """
        self._reading.add(events)
        size = 0
        async with asyncio.timeout(seconds):
            async for event in events:
                self._taken.append(event)
                size += len(event.data) if isinstance(event, Output) else 0
                if size >= _BATCH_BYTES or not self._process._feed.queue:
                    return True
        return False

    async def _leave(self, events: Events) -> None:
        self._reading.discard(events)
        await events.aclose()

    def wait(self) -> int:
        """Waits for the end; returns the exit code. See `outfitter.RemoteProcess.wait`."""
        return self._background.call(self._wait)

    async def _wait(self) -> int:
        if not self._reading:
            self._taken.clear()
        return await self._process.wait()

    def discard(self) -> None:
        """Drops output that waits or is still to come; see `outfitter.RemoteProcess.discard`."""
        self._background.post(self._process.discard)

    # Control

    def write(self, data: bytes) -> str:
        """Sends input; see `outfitter.RemoteProcess.write`."""
        return self._background.call(lambda: self._process.write(data))

    def close_stdin(self) -> str:
        """Ends the input; see `outfitter.RemoteProcess.close_stdin`."""
        return self._background.call(self._process.close_stdin)

    async def _feed(self, data: bytes) -> None:
        if await self._process.write(data) == "accepted":
            await self._process.close_stdin()

    def interrupt(self) -> None:
        """SIGINT, as Ctrl-C gives it; see `outfitter.RemoteProcess.interrupt`."""
        self._background.call(self._process.interrupt)

    def terminate(self, grace: float = 0.0) -> bool:
        """Ends the command and everything it started; see `outfitter.RemoteProcess.terminate`."""
        return self._background.call(lambda: self._process.terminate(grace))

    def resize(self, rows: int, cols: int) -> None:
        """Tells the command's terminal its new size; see `outfitter.RemoteProcess.resize`."""
        self._background.call(lambda: self._process.resize(rows, cols))

    def keep(self) -> None:
        """Leaves the command running after the block; see `outfitter.RemoteProcess.keep`."""
        self._process.keep()


class Files:
    """`outfitter.Client.files` in plain calls; see there."""

    def __init__(self, background: _Background, files: AsyncFiles) -> None:
        self._background = background
        self._files = files

    def read(self, path: str, *, follow: bool = True) -> bytes:
        """All of a file."""
        return self._background.call(lambda: self._files.read(path, follow=follow))

    def write(self, path: str, data: bytes, *, follow: bool = True) -> None:
        """New content for a file."""
        self._background.call(lambda: self._files.write(path, data, follow=follow))

    def open(self, path: str, mode: str = "read") -> RemoteFile:
        """A file to be read or written in blocks; use it in `with`."""

        async def open_it() -> RemoteFile:
            return RemoteFile(self._background, await self._files.open(path, mode))

        return self._background.call(open_it, undo=lambda file: file._file.abandon())

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        return self._background.call(lambda: self._files.stat(path, follow=follow))

    def exists(self, path: str) -> bool:
        return self._background.call(lambda: self._files.exists(path))

    def canonicalize(self, path: str) -> str:
        return self._background.call(lambda: self._files.canonicalize(path))

    def make_directory(self, path: str, *, recursive: bool = True) -> None:
        self._background.call(lambda: self._files.make_directory(path, recursive=recursive))

    def list(self, path: str) -> list_of[FolderEntry]:
        """What a folder holds."""
        return self._background.call(lambda: self._files.list(path))

    def walk(
        self,
        path: str,
        *,
        depth: int = 64,
        directories: int = 10_000,
        entries: int = 50_000,
        follow: bool = False,
        hidden: bool = True,
    ) -> Walked:
        """A tree, within these bounds."""
        return self._background.call(
            lambda: self._files.walk(
                path, depth=depth, directories=directories, entries=entries, follow=follow, hidden=hidden
            )
        )

    def copy(self, source: str, destination: str, *, recursive: bool = False) -> None:
        self._background.call(lambda: self._files.copy(source, destination, recursive=recursive))

    def remove(self, path: str, *, recursive: bool = False, force: bool = False) -> None:
        self._background.call(lambda: self._files.remove(path, recursive=recursive, force=force))

    def rename(self, source: str, destination: str, *, replace: bool = False) -> None:
        self._background.call(lambda: self._files.rename(source, destination, replace=replace))

    def chmod(self, path: str, mode: int, *, follow: bool = True) -> None:
        self._background.call(lambda: self._files.chmod(path, mode, follow=follow))

    def watch(
        self,
        path: str,
        *,
        recursive: bool = True,
        debounce: float = 0.05,
        ignore: Sequence[str] = (),
    ) -> Watch:
        """Changes as they happen; use it in `with` and iterate."""

        async def begin() -> Watch:
            watch = await self._files.watch(path, recursive=recursive, debounce=debounce, ignore=ignore)
            return Watch(self._background, watch)

        return self._background.call(begin, undo=lambda watch: watch._watch.close())

    def search(
        self,
        path: str,
        pattern: str,
        *,
        regex: bool = True,
        case_sensitive: bool = True,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_matches: int = 1000,
        hidden: bool = False,
        honour_ignore_files: bool = True,
        timeout: float = 30.0,
    ) -> Found:
        """Lines of text files in a tree that fit a pattern."""
        return self._background.call(
            lambda: self._files.search(
                path,
                pattern,
                regex=regex,
                case_sensitive=case_sensitive,
                include=include,
                exclude=exclude,
                max_matches=max_matches,
                hidden=hidden,
                honour_ignore_files=honour_ignore_files,
                timeout=timeout,
            )
        )


class Watch:
    """A watch in plain calls. Iterate over it for changes, in `with`."""

    def __init__(self, background: _Background, watch: AsyncWatch) -> None:
        self._background = background
        self._watch = watch

    @property
    def watch_id(self) -> str:
        return self._watch.watch_id

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[FileChanges]:
        changes = aiter(self._watch)

        async def next_changes() -> FileChanges | None:
            return await anext(changes, None)

        try:
            while (change := self._background.call(next_changes)) is not None:
                yield change
        finally:
            self._background.begin(changes.aclose)

    def close(self) -> None:
        """Ends it."""
        self._background.post(self._watch.close)


class RemoteFile:
    """An open file in plain calls. Iterate over it for its blocks, or read and write at any place."""

    def __init__(self, background: _Background, file: AsyncFile) -> None:
        self._background = background
        self._file = file

    @property
    def uri(self) -> FileUri:
        return self._file.uri

    @property
    def mode(self) -> str:
        return self._file.mode

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def read_at(self, offset: int, length: int = BLOCK_BYTES) -> bytes:
        """Up to `length` bytes; fewer only at the end."""
        return self._background.call(lambda: self._file.read_at(offset, length))

    def __iter__(self) -> Iterator[bytes]:
        return self.blocks()

    def blocks(self, offset: int = 0) -> Iterator[bytes]:
        """Blocks from here to the end, a few of them asked for ahead."""
        blocks = self._file.blocks(offset)

        async def next_block() -> bytes:
            return await anext(blocks, b"")

        try:
            while block := self._background.call(next_block):
                yield block
        finally:
            self._background.begin(blocks.aclose)

    def write_at(self, data: bytes, offset: int) -> None:
        """Writes a block; returns when there is room for the next one."""
        self._background.call(lambda: self._file.write_at(data, offset))

    def close(self) -> None:
        """Ends it; what was written is in its place when this returns."""
        self._background.call(self._file.close)

    def abandon(self) -> None:
        """Lets go without finishing."""
        self._background.post(self._file.abandon)


class _Background:
    """A thread that runs a loop, on which an async client lives and calls are carried out."""

    def __init__(self, context: AbstractAsyncContextManager[AsyncClient]) -> None:
        self._context = context
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: _Answer[AsyncClient] = _Answer()
        self._over: _Answer[None] = _Answer()
        self._stopping = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self.closed = False
        # Orders calls before the close. Reentrant: collecting garbage may post while this thread does.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="outfitter.sync", daemon=True)

    def open(self) -> AsyncClient:
        """The client, once it is connected. Raises what connecting raises."""
        self._thread.start()
        self._opened.wait()
        return self._opened.get()

    def close(self) -> None:
        """Ends the client and the thread. Raises what ending the client raises."""
        try:
            if not self._begin_closing():
                return
            self._over.wait()
            # What is left may be a name that is still being looked up, which nobody can cancel.
            self._thread.join(_CLEAN_UP_SECONDS)
        except BaseException:
            # Ctrl-C again. Closing goes on, for otherwise commands would; but not for ever.
            if self._begin_closing():
                self._over.wait(_CLEAN_UP_SECONDS)
            raise
        if self._over.error is not None and self._over.error is not self._opened.error:
            raise self._over.error

    def _begin_closing(self) -> bool:
        """False when there is nothing to wait for: the thread has not begun, and will not."""
        with self._lock:
            self.closed = True
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._stop)
            return self._loop is not None

    def post(self, callback: Callable[[], object]) -> bool:
        """Has it called on the thread, without waiting; False when that has ended."""
        with self._lock:
            if self.closed or self._loop is None:
                return False
            self._loop.call_soon_threadsafe(callback)
            return True

    # What a coroutine yields and is sent is the loop's business, hence Any.

    def begin(self, work: Callable[[], Coroutine[Any, Any, T]]) -> _Call[T]:
        """Has a coroutine carried out, without waiting."""
        call = _Call(self, work, None)
        self.post(call.begin)
        return call

    def call(
        self, work: Callable[[], Coroutine[Any, Any, T]], *, undo: Callable[[T], object] | None = None
    ) -> T:
        """The result of a coroutine. When the wait for it is interrupted, it is cancelled.

        `undo` gets the result of one that was too fast for that. Raises SessionExpired after the close.
        """
        _refuse_in_a_loop()
        call = _Call(self, work, undo)
        try:
            if not self.post(call.begin):
                raise self.gone()
            call.answer.wait()
            if call.answer.error is None:
                return call.answer.get()
        except BaseException:
            if self.post(call.drop):
                call.answer.wait(_CLEAN_UP_SECONDS)
            raise
        raise call.answer.error

    def gone(self) -> SessionExpired:
        """The error of a call that comes too late."""
        opened = self._opened.done and self._opened.error is None
        failure = self._opened.get().failed if opened else None
        return SessionExpired(str(failure or "the client is closed"))

    # On the thread

    def _run(self) -> None:
        # At its end the runner cancels the calls of other threads that are still waited for.
        with asyncio.Runner() as runner:
            with self._lock:
                if self.closed:
                    return
                self._loop = runner.get_loop()
            try:
                runner.run(self._live())
                self._over.set(None)
            except BaseException as error:
                if not self._opened.done:
                    self._opened.fail(error)
                self._over.fail(error)
            finally:
                with self._lock:
                    self.closed = True

    async def _live(self) -> None:
        """Opens the client and closes it, in one task, as `async with` wants it."""
        self._life = asyncio.current_task()
        if self._stopping.is_set():
            return
        async with self._context as client:
            self._opened.set(client)
            await self._stopping.wait()

    def _stop(self) -> None:
        self._stopping.set()
        if self._life is not None and not self._opened.done:
            self._life.cancel()


class _Call(Generic[T]):
    """A coroutine on the background thread; `answer` is what somebody elsewhere waits for."""

    def __init__(
        self,
        background: _Background,
        work: Callable[[], Coroutine[Any, Any, T]],
        undo: Callable[[T], object] | None,
    ) -> None:
        self.answer: _Answer[T] = _Answer()
        self._background = background
        self._work = work
        self._undo = undo
        self._task: asyncio.Task[T] | None = None
        self._unwanted = False

    # On the thread

    def begin(self) -> None:
        if self._unwanted:
            return
        if self._background.closed:
            self.answer.fail(self._background.gone())
            return
        self._task = asyncio.get_running_loop().create_task(self._work())
        self._task.add_done_callback(self._end)

    def drop(self) -> None:
        """Nobody waits for it any more."""
        self._unwanted = True
        if self._task is not None:
            self._task.cancel()
        elif not self.answer.done:  # it has not begun
            self.answer.fail(self._background.gone())
        elif self._undo is not None and self.answer.error is None:
            self._undo(self.answer.get())

    def _end(self, task: asyncio.Task[T]) -> None:
        # Forgotten here: in the caller's thread its weak references would swallow an interruption.
        self._task = None
        if task.cancelled():
            # By its caller, who does not look; or by the end of the block.
            self.answer.fail(self._background.gone())
        elif (error := task.exception()) is not None:
            self.answer.fail(error)
        else:
            if self._unwanted and self._undo is not None:
                self._undo(task.result())
            self.answer.set(task.result())


class _Answer(Generic[T]):
    """What one thread waits for and the background thread gives.

    Not a Future: Ctrl-C in the midst of its Condition may leave that locked, and stop who answers.
    """

    def __init__(self) -> None:
        self.done = False
        self.error: BaseException | None = None
        self._result: T | None = None
        self._pending = threading.Lock()
        self._pending.acquire()

    def set(self, result: T) -> None:
        self._result = result
        self.done = True
        self._pending.release()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done = True
        self._pending.release()

    def wait(self, seconds: float = math.inf) -> None:
        """Returns when it is there, or when the time is up."""
        deadline = time.monotonic() + seconds
        while not self.done and (left := deadline - time.monotonic()) > 0:
            self._pending.acquire(timeout=min(left, _LOOK_SECONDS))

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        return cast("T", self._result)


def _refuse_in_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Refused(
        "outfitter.sync would block the asyncio loop of this thread: use outfitter.local() or "
        "outfitter.connect() with `async with`, and await their calls"
    )
