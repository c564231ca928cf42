"""The client for scripts: the names of the async client, as plain calls.

Several threads may use a client and its processes at once. `on_state`, `on_waiting`, `on_network` and
`decide` are called on the background thread, which also has the exec-server of `local`; `on_output` is called
in the caller's thread.

    with outfitter.sync.local() as client:
        done = client.run(["python", "--version"])
"""

# This file is written by scripts/sync-client: change the async client, then run the script.
# `outfitter.blocking` says how it works.

from __future__ import annotations

from typing import TYPE_CHECKING

# First: importing the module of that name would put it in the place of the public function.
from . import local as _public  # noqa: F401
from .blocking import (
    Blocking,
    BlockingClient,
    BlockingProcess,
    BlockingTranscript,
    blocking,
    making,
    opened,
    opening,
)
from .client.client import Client as AsyncClient
from .client.environment import CONTRACT
from .client.files import Files as AsyncFiles
from .client.http import Http as AsyncHttp
from .client.http import HttpStream as AsyncHttpStream
from .client.openfile import RemoteFile as AsyncRemoteFile
from .client.process import RemoteProcess as AsyncRemoteProcess
from .client.reader import OutputReader as AsyncOutputReader
from .client.transcript import Transcript as AsyncTranscript
from .client.watch import Watch as AsyncWatch
from .local import local as local_async
from .opening import connect as connect_async
from .opening import open as open_async
from .opening import open_local as open_local_async
from .sharing import shared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .client.arguments import Command, Place
    from .client.environment import ByContract, EnvContract, EnvPolicy
    from .client.watch import FileChanges
    from .core.sandbox import Sandbox
    from .errors import SessionExpired
    from .protocol.uri import FileUri

__all__ = [
    "Client",
    "Files",
    "Http",
    "HttpStream",
    "OutputReader",
    "Pool",
    "RemoteFile",
    "RemoteProcess",
    "Transcript",
    "Watch",
    "connect",
    "local",
    "open",
    "open_local",
    "shared",
]


def __dir__() -> list[str]:
    return __all__


class Watch(Blocking[AsyncWatch]):
    """Iterate over it for changes, in `with`; it ends with the block.

        with client.files.watch("src") as watch:
            client.files.write("src/new.py", "x = 1")
            print((next(iter(watch))).overflow)  # False

    A server ends a watch with its connection. After a recovery the watch is set up again, and what happened
    in between is reported as an overflow.
    """

    @property
    def watch_id(self) -> str:
        """Its name within the connection."""
        return self._wrapped.watch_id

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[FileChanges]:
        return self._background.iterate(self._wrapped.__aiter__())

    def close(self) -> None:
        """Ends the watch.

            watch = client.files.watch("src")
            watch.close()

        A loop over its changes ends.
        """
        self._background.post(self._wrapped.close)


class RemoteFile(Blocking[AsyncRemoteFile]):
    """An open file. Iterate over it for its blocks, or read and write at any place.

        with client.files.open("build.log") as file:
            print(file.read_at(0, 5))  # b'built'

    `files.open` makes one.
    """

    @property
    def uri(self) -> FileUri:
        """Where the file is."""
        return self._wrapped.uri

    @property
    def mode(self) -> str:
        """ "read", "replace" or "update"."""
        return self._wrapped.mode

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    read_at = blocking(AsyncRemoteFile.read_at)
    """Up to `length` bytes (at most one block); fewer only at the end of the file."""

    def __iter__(self) -> Iterator[bytes]:
        return self._background.iterate(self._wrapped.__aiter__())

    def blocks(self, offset: int = 0) -> Iterator[bytes]:
        """The blocks from this position to the end; a few are requested ahead.

            with client.files.open("build.log") as file:
                for block in file.blocks(6):
                    print(block)  # b'in 2 seconds'

        Raises as `read_at`.
        """
        return self._background.iterate(self._wrapped.blocks(offset))

    write_at = blocking(AsyncRemoteFile.write_at)
    """Writes a block (at most 1 MiB). Returns when there is room for the next one."""

    close = blocking(AsyncRemoteFile.close)
    """Closes the file. The new content replaces the file when this returns, and not before."""

    def abandon(self) -> None:
        """Closes the file without keeping what was written.

            file = client.files.open("build.log", "replace")
            file.write_at(b"half of", 0)
            file.abandon()

        The file stays as it was, unless it was opened with "update".
        """
        self._background.post(self._wrapped.abandon)


class Files(Blocking[AsyncFiles]):
    """`outfitter.Client.files` in plain calls; see there.

        client.files.write("notes/today.md", "# Today", parents=True)
        print(client.files.read_text("notes/today.md"))  # # Today

    A relative path starts at the executor's working directory.
    """

    def within(self, sandbox: Sandbox, cwd: Place | None = None) -> Files:
        """The same files, as a command in this sandbox may read and write them.

            confined = client.files.within(outfitter.Sandbox.read_only(deny_read=["secrets"]))
            print(confined.read_text("notes.md"))  # remember the milk

        `cwd` is the directory that such a command would run in: the workspace, and where relative patterns
        start. Raises SettingInvalid.
        """
        return Files(self._background, self._wrapped.within(sandbox, cwd))

    read = blocking(AsyncFiles.read)
    """The whole content of a file; with `limit`, at most its first so many bytes."""

    read_text = blocking(AsyncFiles.read_text)
    """The whole content of a file as text."""

    read_lines = blocking(AsyncFiles.read_lines)
    """`count` lines of a text file from the line `start`, which counts from 0, without their ends."""

    write = blocking(AsyncFiles.write)
    """Replaces the content of a file, or creates the file. Text is written as UTF-8."""

    open = making(RemoteFile, AsyncFiles.open, lambda made: made._wrapped.abandon())
    """Opens a file to read or write it in blocks; close it, or use it in `with`."""

    stat = blocking(AsyncFiles.stat)
    """What a path is: its kind, size, times and mode. Without `follow`, of a symbolic link itself."""

    exists = blocking(AsyncFiles.exists)
    """Whether the path exists; a broken symbolic link does not."""

    canonicalize = blocking(AsyncFiles.canonicalize)
    """The path without symbolic links and dots. It must exist."""

    make_directory = blocking(AsyncFiles.make_directory)
    """Creates a directory. With `recursive`, also its parents, and an existing directory is accepted."""

    list = blocking(AsyncFiles.list)
    """The entries of a directory, each with its kind, size, time and, for a symbolic link, its target."""

    walk = blocking(AsyncFiles.walk)
    """Everything below a directory, within these limits."""

    copy = blocking(AsyncFiles.copy)
    """Copies within the executor: a file, a symbolic link, or with `recursive` a directory."""

    remove = blocking(AsyncFiles.remove)
    """Removes a file, a symbolic link or an empty directory; with `recursive`, a full directory."""

    rename = blocking(AsyncFiles.rename)
    """Renames a path."""

    chmod = blocking(AsyncFiles.chmod)
    """Sets the permissions of a path."""

    watch = making(Watch, AsyncFiles.watch, lambda made: made._wrapped.close())
    """Reports changes of a file or directory as they happen: `with files.watch(...)`."""

    search = blocking(AsyncFiles.search)
    """Finds the lines that match a pattern in the text files of a directory, like `grep -r`."""

    upload = blocking(AsyncFiles.upload)
    """Copies a file or a tree of this machine to the path `remote`, with modes where the server can."""

    download = blocking(AsyncFiles.download)
    """Copies a file or a tree of the executor to the path `local` of this machine."""


class HttpStream(Blocking[AsyncHttpStream]):
    """Iterate over it for the body, in `with`; it ends with the block.

        with client.http.stream("GET", "http://localhost:8080/health") as answer:
            for piece in answer:
                print(answer.status, len(piece))

    A caller that does not iterate holds the other server back.
    """

    @property
    def status(self) -> int:
        """The status code."""
        return self._wrapped.status

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names in lower case, repeats kept."""
        return self._wrapped.headers

    def __enter__(self) -> HttpStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        return self._background.iterate(self._wrapped.__aiter__())

    def close(self) -> None:
        """Ends the request, if it is not over.

            answer = client.http.stream("GET", "http://localhost:8080/health")
            answer.close()

        The block of `with` does it, too.
        """
        self._background.post(self._wrapped.close)


class Http(Blocking[AsyncHttp]):
    """`outfitter.Client.http` in plain calls; see there.

        answer = client.http.request("GET", "http://localhost:8080/health", timeout=30)
        print(answer.status)  # 200

    A header is (name, value), or (name, value, variable): the value of that variable of the executor is
    appended there, and never leaves it. `timeout` is for all of a request, in seconds.
    """

    request = blocking(AsyncHttp.request)
    """Sends a request and returns its answer, whatever the status."""

    stream = making(HttpStream, AsyncHttp.stream, lambda made: made._wrapped.close())
    """Sends a request and returns when its headers are there: `with http.stream(...)`."""


class OutputReader(Blocking[AsyncOutputReader]):
    """One stream of a command's output. Iterate over it for its lines.

        with client.start(["sh", "-c", "echo ready; sleep 60"]) as process:
            print((process.stdout.readline()).decode().strip())  # ready

    It takes its bytes from the events of the process: read either the readers or the events. What the other
    stream prints meanwhile waits for its reader, and slows the command down when 8 MiB wait.
    """

    read = blocking(AsyncOutputReader.read)
    """At most `limit` bytes, as soon as there are some, or all to the end; b"" at the end."""

    readline = blocking(AsyncOutputReader.readline)
    """The next line with its end; without one if the output ends with it; b"" at the end."""

    def __iter__(self) -> Iterator[bytes]:
        return self._background.iterate(self._wrapped.__aiter__())


class RemoteProcess(BlockingProcess):
    """`outfitter.RemoteProcess` in plain calls; see there. Iterate over it for its events.

        with client.start(["make"]) as process:  # ended with the block, if it still runs then
            for event in process:
                if isinstance(event, outfitter.Output):
                    print(event.stream, event.data)

    An `anext` on `aiter(process)` that is cancelled, as by `asyncio.timeout`, loses nothing.
    """

    @property
    def tty(self) -> bool:
        """Whether it has a terminal: known of a command that this client started."""
        return self._wrapped.tty

    @property
    def stdout(self) -> OutputReader:
        """What it prints, to be read by lines; with a terminal, all of it."""
        return OutputReader(self._background, self._wrapped.stdout)

    @property
    def stderr(self) -> OutputReader:
        """The same for its standard error."""
        return OutputReader(self._background, self._wrapped.stderr)

    def __enter__(self) -> RemoteProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._feed.kept:
            return
        if self.closed:
            if kind is not None:
                self.discard()  # whoever keeps the error keeps us, and what waits would hold the others up
            return
        if kind is not None:
            self.end()
            return
        try:
            self.terminate()
        except BaseException:
            self.end()  # given up while it waits for an answer, or a connection: nobody else would end it
            raise
        self.discard()

    def discard(self) -> None:
        """Drops output that waits or is still to come, so that it does not slow the command down.

            with client.start(["make", "nightly"]) as process:
                process.discard()
                print(process.wait())  # 0

        Iterating then gives the exit and no more output.
        """
        self._background.post(self._wrapped.discard)

    write = blocking(AsyncRemoteProcess.write)
    """Sends input; returns the server's status ("accepted", "stdinClosed", "unknownProcess", ...)."""

    close_stdin = blocking(AsyncRemoteProcess.close_stdin)
    """Closes stdin; on a terminal, types Ctrl-D."""

    interrupt = blocking(AsyncRemoteProcess.interrupt)
    """Sends SIGINT, like Ctrl-C."""

    signal = blocking(AsyncRemoteProcess.signal)
    """Sends a signal to the command's process group, or to the job in the foreground of its terminal."""

    terminate = blocking(AsyncRemoteProcess.terminate)
    """Ends the command and everything it started; returns True if it was still running."""

    resize = blocking(AsyncRemoteProcess.resize)
    """Sets the size of the command's terminal."""

    def end(self) -> None:
        """Ends the command and everything it started, in the background, and discards its output.

            process = client.start(["sleep", "60"])
            process.end()

        Without a connection, it is ended after the recovery.
        """
        self._background.post(self._wrapped.end)

    def keep(self) -> None:
        """Leaves the command running when the client closes, for as long as the server keeps the session.

            process = client.start(["make", "nightly"])
            process.keep()

        `resume` of `connect` finds it again. `start(..., detach=True)` keeps a command to its end.
        """
        self._background.post(self._wrapped.keep)


class Transcript(BlockingTranscript):
    """`outfitter.Transcript` of a process of this client, in plain calls; see there.

        process = client.start(["sh", "-c", "echo password:; sleep 60"])
        transcript = outfitter.sync.Transcript(process)
        print(transcript.find(["$ ", "password:"], seconds=30))  # password:
        print(transcript.take().split())  # ['password:']
        process.terminate()

    It takes the events of the process from now on; nobody else should iterate over it. Text is UTF-8, and a
    character that is not whole yet is left for the next time.
    """

    @property
    def closed(self) -> bool:
        """Whether no more comes: all output is there, an error has ended it, or `close` was called."""
        return self._wrapped.closed

    wait = blocking(AsyncTranscript.wait)
    """Waits for the end of the output, for so many seconds at most; returns whether it has come."""

    find = blocking(AsyncTranscript.find)
    """Waits until the text that is not taken yet contains one of these; returns which."""

    def close(self) -> None:
        """Takes no more events; the process goes on.

            transcript = outfitter.sync.Transcript(client.start(["echo", "done"]))
            transcript.close()

        What it has kept stays.
        """
        self._background.post(self._wrapped.close)


class Client(BlockingClient):
    """`outfitter.Client` in plain calls; see there. After its block calls raise SessionExpired.

        with outfitter.sync.local() as client:
            done = client.run(["echo", "hello"], text=True)
            print(done.stdout.strip())  # hello

    One client may run any number of commands at once.
    """

    def fail(self, error: SessionExpired) -> None:
        """Gives the executor up: the connection ends at once, without a word to the server.

            client.fail(outfitter.SessionExpired("its machine is gone"))
            try:
                client.run(["true"])
            except outfitter.SessionExpired as error:
                print(error)  # its machine is gone

        Every call in progress and every later one raises this error. For those who know by other means that
        the executor is gone; its commands end when it notices, or with its session.
        """
        self._background.post(lambda: self._wrapped.fail(error))

    @property
    def files(self) -> Files:
        """The executor's files."""
        return Files(self._background, self._wrapped.files)

    @property
    def http(self) -> Http:
        """HTTP requests that the executor sends."""
        return Http(self._background, self._wrapped.http)

    upload = blocking(AsyncClient.upload)
    """Copies a file or a tree of this machine to the executor: see `files.upload`."""

    download = blocking(AsyncClient.download)
    """Copies a file or a tree of the executor to this machine: see `files.download`."""

    call = blocking(AsyncClient.call)
    """Sends any request of the protocol and returns its result."""

    status = blocking(AsyncClient.status)
    """Asks the server for its status now ("ready"). Never waits for a recovery."""

    def lines(
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
    ) -> Iterator[str]:
        """The lines that a command prints on stdout and stderr, as they come, without their ends.

            for line in client.lines(["pytest", "-q"]):
                print(line)

        An exit code other than 0 raises CommandFailed after the last line, unless `check=False`. The command
        is ended if the loop is left. For the other arguments see `run`. A line of more than 1 MiB comes in
        pieces.
        """
        return self._background.iterate(
            self._wrapped.lines(
                argv,
                shell=shell,
                cwd=cwd,
                env=env,
                policy=policy,
                contract=contract,
                sandbox=sandbox,
                check=check,
            )
        )

    start = making(RemoteProcess, AsyncClient.start, lambda made: made._wrapped._feed.end())
    """Starts a command: `await` it, or use it in `with`, which ends the command with the block."""

    def shell_argv(self, command: Command, *, login: bool = False) -> list[str]:
        """The program and the arguments with which the executor's shell runs a text.

            print(client.shell_argv("make test")[1:])  # ['-c', 'make test']

        Raises TypeError for anything but text.
        """
        return self._wrapped.shell_argv(command, login=login)

    processes = blocking(AsyncClient.processes)
    """The processes of this session, oldest first, including closed ones that the server still keeps."""

    attach = making(RemoteProcess, AsyncClient.attach)
    """Attaches to a process of this session by its id."""

    environment = blocking(AsyncClient.environment)
    """The environment that a command would get: its variables, fingerprints and base."""

    explain = blocking(AsyncClient.explain)
    """Explains where each variable of a command would come from, and why others are missing."""

    compare = blocking(AsyncClient.compare)
    """The differences between the environments of two directories, without values."""

    base = blocking(AsyncClient.base)
    """Sets whose environment commands start from; returns that base and the names that differ."""

    put_overlay = blocking(AsyncClient.put_overlay)
    """Sets what `producer` adds to commands with `EnvContract(scope=scope)`."""

    overlay = blocking(AsyncClient.overlay)
    """The `contributions` to the overlay of a scope, with names and without values."""

    drop_overlay = blocking(AsyncClient.drop_overlay)
    """Removes a producer's contribution, or some of its variables; returns whether it had any."""

    overlay_event = blocking(AsyncClient.overlay_event)
    """Reports an event of an agent session to the server."""


connect = opening(Client, connect_async)
"""`outfitter.connect` for a `with` block."""

local = opening(Client, local_async)
"""`outfitter.local` for a `with` block."""

open = opened(Client, open_async)
"""`outfitter.open` in a plain call: `close()` of the client ends it."""

open_local = opened(Client, open_local_async)
"""`outfitter.open_local` in a plain call: `close()` of the client ends it."""


if TYPE_CHECKING:
    from .pool.plain import PlainPool

    class Pool(PlainPool[Client]):
        """`outfitter.Pool` in plain calls; see there."""

else:

    def __getattr__(name):
        """`Pool`, whose modules are imported when somebody wants one."""
        if name != "Pool":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .pool.plain import PlainPool, close_leased

        kind = type("Client", (Client,), {"__module__": __name__, "close": close_leased})
        own = {"__doc__": PlainPool.__doc__, "__module__": __name__, "_made": kind}
        made = globals()["Pool"] = type("Pool", (PlainPool,), own)
        return made
