"""One client for any asyncio loop, or none: it lives on a loop of its own, in a background thread."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from .blocking import FORKED, ThreadAnswer
from .client.files import Files
from .environments.file import LOCAL
from .errors import Refused, SessionExpired
from .opening import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from concurrent.futures import Future
    from typing import Literal, Unpack

    from .client.arguments import Command
    from .client.client import Client
    from .client.completed import Completed, CompletedText
    from .client.connect import Opening
    from .client.running import RunOptions

P = ParamSpec("P")
T = TypeVar("T")


class Pending(Generic[T]):
    """The result of a call that is under way: `await` it in any loop, or ask for `result()` without one.

        client = outfitter.shared()
        pending = client.run(["echo", "hello"], text=True)
        print(pending.result().stdout.strip())  # hello
        client.close()

    An `await` that is cancelled cancels the call.
    """

    def __init__(self, future: Future[T], thread: threading.Thread) -> None:
        self._future = future
        self._thread = thread  # where the call is under way
        self._pid = os.getpid()
        # Not the future's own wait, in which Ctrl-C may block the thread.
        self._over: ThreadAnswer[None] = ThreadAnswer()

    def __await__(self) -> Generator[Any, None, T]:
        self._check_reach()
        # A cancelled wait cancels the call, with the effects that this has there.
        return asyncio.wrap_future(self._future).__await__()

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result in this thread.

            client = outfitter.shared()
            print(client.run(["true"]).result(timeout=60).ok)  # True
            client.close()

        Raises TimeoutError after `timeout` seconds; the call then goes on. Refused in a callback of the
        client and in `do`, where it would wait for itself: await it there.
        """
        self._check_reach()
        if not self._over.done:
            _refuse_on(self._thread)
        self._over.wait(math.inf if timeout is None else timeout)
        if not self._over.done:
            raise TimeoutError
        return self._future.result()

    def cancel(self) -> None:
        """Cancels the call.

            client = outfitter.shared()
            client.run(["sleep", "60"]).cancel()
            client.close()

        A command that it runs is ended.
        """
        self._check_reach()
        self._future.cancel()

    def _check_reach(self) -> None:
        """Raises SessionExpired in a fork, which has no thread that could ever set the result."""
        if os.getpid() != self._pid and not self._over.done:
            raise SessionExpired(FORKED)

    def _end(self, _: object) -> None:
        """On the thread."""
        self._over.set(None)


def _shared(
    method: Callable[Concatenate[Files, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SharedFiles, P], Pending[T]]:
    def call(self: SharedFiles, /, *args: P.args, **named: P.kwargs) -> Pending[T]:
        return self._client.do(lambda client: method(client.files, *args, **named))

    call.__doc__ = method.__doc__
    call.__name__ = method.__name__
    return call


class SharedFiles:
    """The executor's files: the calls of `Client.files`, each of which gives a `Pending`.

        client = outfitter.shared()
        print(client.files.exists("no-such-file").result())  # False
        client.close()

    For what is missing here, use `do` of the client.
    """

    def __init__(self, client: SharedClient) -> None:
        self._client = client

    read = _shared(Files.read)
    read_text = _shared(Files.read_text)
    read_lines = _shared(Files.read_lines)
    write = _shared(Files.write)
    stat = _shared(Files.stat)
    exists = _shared(Files.exists)
    list = _shared(Files.list)
    make_directory = _shared(Files.make_directory)
    walk = _shared(Files.walk)
    copy = _shared(Files.copy)
    remove = _shared(Files.remove)
    rename = _shared(Files.rename)
    upload = _shared(Files.upload)
    download = _shared(Files.download)


class SharedClient:
    """A client for any loop or none. Made by `outfitter.shared()`.

        client = outfitter.shared()
        print(client.run(["true"]).result().ok)  # True
        client.close()

    Any thread and any loop may call it.
    """

    def __init__(self, opening: Callable[[], Opening]) -> None:
        self._opening = opening
        self._client: Client | None = None
        self._closed = False
        self._ending = False  # on the thread
        self._opens = asyncio.Lock()
        self._pid = os.getpid()  # a fork has a copy of all this, and no thread
        # A call and the close do not meet. Reentrant: a handler of a signal may call in the middle of a call.
        self._lock = threading.RLock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="outfitter.shared", daemon=True)
        self._thread.start()
        self.files = SharedFiles(self)

    def do(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> Pending[T]:
        """Calls `work` with the client, on its own loop: whatever the client can do.

            async def talk(client):
                async with client.start(["cat"], stdin=True) as process:
                    return await process.write("hello")

            client = outfitter.shared()
            print(await client.do(talk))  # accepted
            client.close()

        Raises SessionExpired after the close.
        """
        if os.getpid() != self._pid:
            raise SessionExpired(FORKED)
        with self._lock:
            if self._closed:
                raise self._gone()
            return self._begin(work)

    def _gone(self) -> SessionExpired:
        return SessionExpired("the client is closed")

    @overload
    def run(
        self, argv: Command, *, text: Literal[False] = ..., **options: Unpack[RunOptions]
    ) -> Pending[Completed]: ...

    @overload
    def run(
        self, argv: Command, *, text: Literal[True], **options: Unpack[RunOptions]
    ) -> Pending[CompletedText]: ...

    def run(
        self, argv: Command, *, text: bool = False, **options: Unpack[RunOptions]
    ) -> Pending[Completed] | Pending[CompletedText]:
        """`Client.run`: await it, or ask for its `result()`.

            client = outfitter.shared()
            done = await client.run(["echo", "hello"], text=True)
            client.close()

        Raises SessionExpired after the close.
        """
        if text:
            return self.do(lambda client: client.run(argv, text=True, **options))
        return self.do(lambda client: client.run(argv, **options))

    def shell(
        self, command: str, *, login: bool = False, **options: Unpack[RunOptions]
    ) -> Pending[Completed]:
        """`Client.shell`: await it, or ask for its `result()`.

            client = outfitter.shared()
            print(client.shell("echo hello | wc -l").result().text.strip())  # 1
            client.close()

        Raises SessionExpired after the close.
        """
        return self.do(lambda client: client.shell(command, login=login, **options))

    def close(self) -> None:
        """Ends every command of this client, its connection and its thread. Waits for that.

            client = outfitter.shared()
            client.close()

        A call that is under way raises SessionExpired. Refused in a callback of the client and in `do`.
        """
        if os.getpid() != self._pid:
            return  # there is nothing of it in a fork
        _refuse_on(self._thread)
        with self._lock:
            if self._closed:
                return
            self._closed = True
            ending = self._begin(None)
            stop = self._loop.stop
            self._loop.call_soon_threadsafe(ending._future.add_done_callback, lambda _: stop())
        ending.result()  # after Ctrl-C the thread goes on: others may wait for their calls
        self._thread.join()

    async def aclose(self) -> None:
        """The same, awaited.

            client = outfitter.shared()
            await client.aclose()

        The loop goes on meanwhile.
        """
        _refuse_on(self._thread)
        await asyncio.to_thread(self.close)

    def _begin(self, work: Callable[[Client], Coroutine[Any, Any, T]] | None) -> Pending[Any]:
        told = self._end() if work is None else self._do(work)
        try:
            future = asyncio.run_coroutine_threadsafe(told, self._loop)
            pending = Pending(future, self._thread)
            self._loop.call_soon_threadsafe(future.add_done_callback, pending._end)
            return pending
        except RuntimeError:  # the handler of a signal has closed the client just now
            told.close()
            raise self._gone() from None

    # On the thread

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    async def _do(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        try:
            async with self._opens:
                if self._client is None:
                    self._client = await self._opening()
            return await work(self._client)
        except asyncio.CancelledError:
            if self._ending:
                raise self._gone() from None
            raise

    async def _end(self) -> None:
        """Ends what is under way, then the client."""
        self._ending = True
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        client = self._client
        if client is not None:
            await client.aclose()  # who waits for a call gets SessionExpired
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_default_executor()


def _refuse_on(thread: threading.Thread) -> None:
    if threading.current_thread() is thread:
        raise Refused(
            "this is the client's own thread, which would wait for itself: await calls here, and close "
            "the client elsewhere"
        )


def shared(
    target: str = LOCAL, *, summaries: bool = False, max_concurrency: int | None = None
) -> SharedClient:
    """One client for any asyncio loop or none, for programs that begin a new loop for each call.

        client = outfitter.shared("build")
        print((await client.run(["true"])).ok)  # True
        print(client.run(["true"]).result().ok)  # True
        client.close()

    Await a call in any loop, or ask for its `result()` without one.
    `target` is a URL, the name of an environment, or `local` for this machine. The connection is made with
    the first call, which raises what `connect` raises; the next call tries again then.
    """
    return SharedClient(lambda: connect(target, summaries=summaries, max_concurrency=max_concurrency))
