"""The client for scripts: the names of the async client, as plain calls.

Several threads may use a client and its processes at once. `outfitter.blocking` says how it works.
This file is written by scripts/sync-client: change the async client, then run the script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# First: importing the module of that name would put it in the place of the public function.
from . import local as _public  # noqa: F401
from .blocking import Block, BlockingClient, BlockingProcess
from .client.commands import MAX_OUTPUT
from .client.connect import connect as connect_async
from .client.environment import CONTRACT
from .client.files import BLOCK_BYTES
from .local import local as local_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from ssl import SSLContext

    from .blocking import Background
    from .client.commands import Completed
    from .client.environment import ByContract, EnvContract, EnvPolicy
    from .client.files import FileInfo, FolderEntry, Found, Walked
    from .client.files import Files as AsyncFiles
    from .client.files import RemoteFile as AsyncRemoteFile
    from .client.watch import FileChanges
    from .client.watch import Watch as AsyncWatch
    from .core.events import Output
    from .errors import OutfitterError
    from .protocol.documents import (
        BaseAnswer,
        Change,
        EventAnswer,
        Explanation,
        OverlayAnswer,
        PutAnswer,
        ResolutionDocument,
    )
    from .protocol.environment import BaseParams
    from .protocol.jsontext import Json
    from .protocol.process import ProcessSummary
    from .protocol.session import EnvironmentInfo
    from .protocol.uri import FileUri

__all__ = ["Client", "Files", "RemoteFile", "RemoteProcess", "Watch", "connect", "local"]


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
    return Block(
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
        ),
        Client,
    )


def local(
    *, environment: Mapping[str, str] | None = None, summaries: bool = False
) -> AbstractContextManager[Client]:
    """`outfitter.local` for a `with` block. The exec-server is on the background thread."""
    return Block(local_async(environment=environment, summaries=summaries), Client)


class Client(BlockingClient):
    """`outfitter.Client` in plain calls; see there. After its block calls raise SessionExpired."""

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
        """The error that ended this client, if any."""
        return self._client.failed

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._client.session_id

    @property
    def files(self) -> Files:
        """The executor's files."""
        return Files(self._background, self._client.files)

    def offers(self, capability: str) -> bool:
        """Whether the server has this capability."""
        return self._client.offers(capability)

    def require(self, capability: str, what: str) -> None:
        """Raises CapabilityMissing if the server does not have the capability."""
        self._client.require(capability, what)

    def call(self, method: str, params: Json, *, repeat: bool = False, wait: bool = True) -> Json:
        """Sends any request of the protocol and returns its result."""
        return self._background.call(lambda: self._client.call(method, params, repeat=repeat, wait=wait))

    def status(self) -> str:
        """Asks the server for its status now ("ready"). Never waits for a recovery."""
        return self._background.call(self._client.status)

    def resolve(self, path: str | None) -> FileUri:
        """The URI of a path on the executor. Relative paths and None start at its working directory."""
        return self._client.resolve(path)

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
        """Starts a command. `on_waiting` is called on the background thread."""
        return self._background.make(
            RemoteProcess,
            lambda: self._client.start(
                argv,
                cwd=cwd,
                env=env,
                policy=policy,
                contract=contract,
                tty=tty,
                stdin=stdin,
                arg0=arg0,
                on_waiting=on_waiting,
            ),
            undo=lambda made: made._process._feed.end(),
        )

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
        """Runs a command to its end and collects its output. `on_output` is called in this thread."""
        if on_output is not None:
            stdin = input is not None
            return self._run(
                lambda: self._client.start(
                    argv, cwd=cwd, env=env, policy=policy, contract=contract, stdin=stdin
                ),
                on_output,
                input,
                timeout,
            )
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
                on_output=on_output,
            )
        )

    def processes(self) -> list[ProcessSummary]:
        """The processes of this session, oldest first, including closed ones that the server still keeps."""
        return self._background.call(self._client.processes)

    def attach(self, process_id: str, *, after: int = 0) -> RemoteProcess:
        """Attaches to a process of this session by its id."""
        return self._background.make(RemoteProcess, lambda: self._client.attach(process_id, after=after))

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
    ) -> ResolutionDocument:
        """The environment that a command would get: its variables, fingerprints and base."""
        return self._background.call(
            lambda: self._client.environment(
                cwd=cwd, env=env, policy=policy, contract=contract, tty=tty, show=show, digest_key=digest_key
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
    ) -> Explanation:
        """Explains where each variable of a command would come from, and why others are missing."""
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

    def compare(self, cwd: str, other: str) -> list[Change]:
        """The differences between the environments of two directories, without values."""
        return self._background.call(lambda: self._client.compare(cwd, other))

    def base(self, params: BaseParams) -> BaseAnswer:
        """Sets whose environment commands start from; returns that base and the names that differ."""
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
    ) -> PutAnswer:
        """Sets what `producer` adds to commands with `EnvContract(scope=scope)`."""
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

    def overlay(self, scope: str) -> OverlayAnswer:
        """The `contributions` to the overlay of a scope, with names and without values."""
        return self._background.call(lambda: self._client.overlay(scope))

    def drop_overlay(self, scope: str, producer: str | None = None, names: Sequence[str] = ()) -> bool:
        """Removes a producer's contribution, or some of its variables; returns whether it had any."""
        return self._background.call(lambda: self._client.drop_overlay(scope, producer, names))

    def overlay_event(
        self,
        scope: str,
        event: str,
        *,
        to: str | None = None,
        unset: Sequence[str] = (),
        hide_secrets: bool = False,
    ) -> EventAnswer:
        """Reports an event of an agent session to the server."""
        return self._background.call(
            lambda: self._client.overlay_event(scope, event, to=to, unset=unset, hide_secrets=hide_secrets)
        )


class RemoteProcess(BlockingProcess):
    """`outfitter.RemoteProcess` in plain calls; see there. Iterate over it for its events."""

    @property
    def tty(self) -> bool:
        """Whether it has a terminal: known of a command that this client started."""
        return self._process.tty

    @property
    def process_id(self) -> str:
        """Its name within the session."""
        return self._process.process_id

    @property
    def exit_code(self) -> int | None:
        """Known once the command has ended."""
        return self._process.exit_code

    @property
    def sandbox_denied(self) -> bool | None:
        """Whether the sandbox interfered, once that is known."""
        return self._process.sandbox_denied

    @property
    def environment(self) -> Json:
        """The server's summary of its environment, if the client asked for summaries."""
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
    def missed(self) -> int:
        """How many events the server had dropped before this client attached to the process."""
        return self._process.missed

    @property
    def closed(self) -> bool:
        """Whether every event has been delivered."""
        return self._process.closed

    def discard(self) -> None:
        """Drops output that waits or is still to come, so that it does not slow the command down."""
        self._background.post(self._process.discard)

    def write(self, data: bytes) -> str:
        """Sends input; returns the server's status ("accepted", "stdinClosed", "unknownProcess", ...)."""
        return self._background.call(lambda: self._process.write(data))

    def close_stdin(self) -> str:
        """Closes stdin; on a terminal, types Ctrl-D. Raises CapabilityMissing if the server cannot do it."""
        return self._background.call(self._process.close_stdin)

    def interrupt(self) -> None:
        """Sends SIGINT, like Ctrl-C. Raises Disconnected if it may not have arrived."""
        self._background.call(self._process.interrupt)

    def terminate(self, grace: float = 0.0) -> bool:
        """Ends the command and everything it started; returns True if it was still running."""
        return self._background.call(lambda: self._process.terminate(grace))

    def resize(self, rows: int, cols: int) -> None:
        """Sets the size of the command's terminal. Raises CapabilityMissing if the server cannot do it."""
        self._background.call(lambda: self._process.resize(rows, cols))

    def keep(self) -> None:
        """Leaves the command running when the client closes, for as long as the server keeps the session."""
        self._background.post(self._process.keep)


class Files:
    """`outfitter.Client.files` in plain calls; see there."""

    def __init__(self, background: Background, files: AsyncFiles) -> None:
        self._background = background
        self._files = files

    def read(self, path: str, *, follow: bool = True) -> bytes:
        """The whole content of a file. Raises RequestFailed (`not_found` is the most frequent reason)."""
        return self._background.call(lambda: self._files.read(path, follow=follow))

    def write(self, path: str, data: bytes, *, follow: bool = True) -> None:
        """Replaces the content of a file, or creates the file; its directory must exist."""
        self._background.call(lambda: self._files.write(path, data, follow=follow))

    def open(self, path: str, mode: str = "read") -> RemoteFile:
        """Opens a file to read or write it in blocks; close it, or use it in `with`."""
        return self._background.make(
            RemoteFile, lambda: self._files.open(path, mode), undo=lambda made: made._file.abandon()
        )

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        return self._background.call(lambda: self._files.stat(path, follow=follow))

    def exists(self, path: str) -> bool:
        """Whether the path exists; a broken symbolic link does not."""
        return self._background.call(lambda: self._files.exists(path))

    def canonicalize(self, path: str) -> str:
        """The path without symbolic links and dots. It must exist."""
        return self._background.call(lambda: self._files.canonicalize(path))

    def make_directory(self, path: str, *, recursive: bool = True) -> None:
        """Creates a directory. With `recursive`, also its parents, and an existing directory is accepted."""
        self._background.call(lambda: self._files.make_directory(path, recursive=recursive))

    def list(self, path: str) -> list[FolderEntry]:
        """The entries of a directory; symbolic links are described by their targets."""
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
        """Everything below a directory, within these limits."""
        return self._background.call(
            lambda: self._files.walk(
                path, depth=depth, directories=directories, entries=entries, follow=follow, hidden=hidden
            )
        )

    def copy(self, source: str, destination: str, *, recursive: bool = False) -> None:
        """Copies within the executor: a file, a symbolic link, or with `recursive` a directory."""
        self._background.call(lambda: self._files.copy(source, destination, recursive=recursive))

    def remove(self, path: str, *, recursive: bool = False, force: bool = False) -> None:
        """Removes a file, a symbolic link or an empty directory; with `recursive`, a full directory."""
        self._background.call(lambda: self._files.remove(path, recursive=recursive, force=force))

    def rename(self, source: str, destination: str, *, replace: bool = False) -> None:
        """Renames a path."""
        self._background.call(lambda: self._files.rename(source, destination, replace=replace))

    def chmod(self, path: str, mode: int, *, follow: bool = True) -> None:
        """Sets the permissions of a path. Raises RequestFailed or CapabilityMissing."""
        self._background.call(lambda: self._files.chmod(path, mode, follow=follow))

    def watch(
        self, path: str, *, recursive: bool = True, debounce: float = 0.05, ignore: Sequence[str] = ()
    ) -> Watch:
        """Reports changes of a file or directory as they happen: `with files.watch(...)`."""
        return self._background.make(
            Watch,
            lambda: self._files.watch(path, recursive=recursive, debounce=debounce, ignore=ignore),
            undo=lambda made: made._watch.close(),
        )

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
        """Finds the lines that match a pattern in the text files of a directory, like `grep -r`."""
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


class RemoteFile:
    """An open file. Iterate over it for its blocks, or read and write at any place."""

    def __init__(self, background: Background, file: AsyncRemoteFile) -> None:
        self._background = background
        self._file = file

    @property
    def uri(self) -> FileUri:
        """Where the file is."""
        return self._file.uri

    @property
    def mode(self) -> str:
        """ "read", "replace" or "update"."""
        return self._file.mode

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def read_at(self, offset: int, length: int = BLOCK_BYTES) -> bytes:
        """Up to `length` bytes (at most one block); fewer only at the end of the file."""
        return self._background.call(lambda: self._file.read_at(offset, length))

    def __iter__(self) -> Iterator[bytes]:
        return self._background.iterate(self._file.__aiter__())

    def blocks(self, offset: int = 0) -> Iterator[bytes]:
        """The blocks from this position to the end; a few are requested ahead."""
        return self._background.iterate(self._file.blocks(offset))

    def write_at(self, data: bytes, offset: int) -> None:
        """Writes a block (at most 1 MiB). Returns when there is room for the next one."""
        self._background.call(lambda: self._file.write_at(data, offset))

    def close(self) -> None:
        """Closes the file. The new content replaces the file when this returns, and not before."""
        self._background.call(self._file.close)

    def abandon(self) -> None:
        """Closes the file without keeping what was written."""
        self._background.post(self._file.abandon)


class Watch:
    """Iterate over it for changes, in `with`; it ends with the block."""

    def __init__(self, background: Background, watch: AsyncWatch) -> None:
        self._background = background
        self._watch = watch

    @property
    def watch_id(self) -> str:
        """Its name within the connection."""
        return self._watch.watch_id

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[FileChanges]:
        return self._background.iterate(self._watch.__aiter__())

    def close(self) -> None:
        """Ends the watch."""
        self._background.post(self._watch.close)
