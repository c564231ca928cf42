"""The base of `outfitter.sync`: a background thread with an asyncio loop, which other threads call.

Each `with` block has its own thread. A call passes a coroutine to that thread and waits for the result. If
Ctrl-C interrupts the wait, the coroutine is cancelled, with the same effects as in the async client.
"""

from __future__ import annotations

import asyncio
import functools
import math
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload
from weakref import WeakValueDictionary

from .client.arguments import called
from .client.client import ClientState
from .client.process import ProcessState
from .client.running import RunCalls, check_limits, completed, feed
from .client.transcript import LIMIT_BYTES, Transcript
from .core.collecting import Collected
from .core.events import Output
from .errors import Refused, SessionExpired, TimedOut
from .twins import in_plain_calls

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from typing import Literal, Unpack

    from .client.arguments import Command
    from .client.client import Client
    from .client.completed import Completed, CompletedText
    from .client.feed import Events
    from .client.process import RemoteProcess
    from .client.running import RunOptions
    from .core.events import Exited

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")  # of the async client
S = TypeVar("S")  # its twin here
H = TypeVar("H")  # the handle with the method that makes it
W = TypeVar("W", covariant=True)  # of the async client, kept and never replaced

# What one crossing takes of the output that waits. More would only be held twice.
_BATCH_BYTES = 1 << 20
# For the clean-up of a call or a block that was interrupted: closing takes 2 s at most where all is well.
_CLEAN_UP_SECONDS = 5.0
_LIMITS = ("overflow", "max_output")  # of what `run` collects
# A signal that comes just before a wait begins does not end it: how long until Ctrl-C is noticed then.
_LOOK_SECONDS = 1.0
FORKED = "this client is that of the process that this one was forked from: make another one here"


class Block(Generic[S]):
    """A `with` block. A class because Ctrl-C could hit a generator between its `yield` and the block."""

    def __init__(
        self, context: AbstractAsyncContextManager[Client], kind: Callable[[Background, Client], S]
    ) -> None:
        self._background = Background(context)
        self._kind = kind

    def __enter__(self) -> S:
        refuse_in_a_loop()
        try:
            return self._kind(self._background, self._background.open())
        except BaseException:
            self._background.close()
            raise

    def __exit__(self, *error: object) -> None:
        self._background.close()


def opening(
    kind: Callable[[Background, Client], S], reach: Callable[P, AbstractAsyncContextManager[Client]]
) -> Callable[P, AbstractContextManager[S]]:
    """One of the ways to a client, for a `with` block."""

    def begin(*args: P.args, **named: P.kwargs) -> Block[S]:
        return Block(reach(*args, **named), kind)

    return _described(begin, reach)


def opened(
    kind: Callable[[Background, Client], S], reach: Callable[P, Coroutine[Any, Any, Client]]
) -> Callable[P, S]:
    """A way to a client without a block: its `close()` ends it."""

    def begin(*args: P.args, **named: P.kwargs) -> S:
        return Block(_Closing(lambda: reach(*args, **named)), kind).__enter__()

    return _described(begin, reach)


class _Closing:
    """A client that is to be closed, for `async with`."""

    def __init__(self, reach: Callable[[], Coroutine[Any, Any, Client]]) -> None:
        self._reach = reach

    async def __aenter__(self) -> Client:
        self._client = await self._reach()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()


class Blocking(Generic[W]):
    """A blocking handle: it wraps an async handle, which lives on the background thread."""

    def __init__(self, background: Background, wrapped: W) -> None:
        self._background = background
        self._wrapped = wrapped


# What a coroutine yields and is sent is the loop's business, hence Any.


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[A], P], T]:
    """A method that calls the async method on the background thread and waits for the result."""

    def call(self: Blocking[A], /, *args: P.args, **named: P.kwargs) -> T:
        return self._background.call(lambda: method(self._wrapped, *args, **named))

    return _described(call, method)


def making(
    kind: Callable[[Background, A], S],
    method: Callable[Concatenate[H, P], Coroutine[Any, Any, A]],
    undo: Callable[[S], object] | None = None,
) -> Callable[Concatenate[Blocking[H], P], S]:
    """The same for an async method that returns a handle: returns its blocking handle. `undo`: see `call`."""

    def call(self: Blocking[H], /, *args: P.args, **named: P.kwargs) -> S:
        return self._background.make(kind, lambda: method(self._wrapped, *args, **named), undo=undo)

    return _described(call, method)


def _described(function: T, original: Callable[..., object]) -> T:
    """The function, with the name, the signature and the docstring of the async one."""
    functools.update_wrapper(cast("Any", function), original)
    if original.__doc__ is not None:
        function.__doc__ = in_plain_calls(original.__doc__)
    return function


class BlockingClient(ClientState, Blocking["Client"]):
    """The hand-written part of the blocking client: `run`, whose caller reads output at its own pace."""

    def __init__(self, background: Background, client: Client) -> None:
        super().__init__(background, client)
        self._session = client._session

    @overload
    def run(
        self, argv: Command, *, text: Literal[False] = ..., **options: Unpack[RunOptions]
    ) -> Completed: ...

    @overload
    def run(self, argv: Command, *, text: Literal[True], **options: Unpack[RunOptions]) -> CompletedText: ...

    def run(
        self, argv: Command, *, text: bool = False, **options: Unpack[RunOptions]
    ) -> Completed | CompletedText:
        on_output = options.pop("on_output", None)
        if on_output is not None:
            done = self._run_telling(argv, on_output, options)
        else:
            done = self._background.call(lambda: self._wrapped.run(argv, **options))
        return done.as_text() if text else done

    @overload
    def shell(
        self, command: str, *, login: bool = ..., text: Literal[False] = ..., **options: Unpack[RunOptions]
    ) -> Completed: ...

    @overload
    def shell(
        self, command: str, *, login: bool = ..., text: Literal[True], **options: Unpack[RunOptions]
    ) -> CompletedText: ...

    def shell(
        self, command: str, *, login: bool = False, text: bool = False, **options: Unpack[RunOptions]
    ) -> Completed | CompletedText:
        argv = self._wrapped.shell_argv(command, login=login)
        options = {**options, "shell": False}
        return self.run(argv, text=True, **options) if text else self.run(argv, **options)

    def close(self) -> None:
        """Ends every command that this client started, except kept ones, and closes the connection.

            client = outfitter.sync.open_local()
            client.close()

        At the end of a `with` block nothing is left to do.
        """
        self._background.close()

    def _run_telling(
        self, argv: Command, on_output: Callable[[Output], object], options: RunOptions
    ) -> Completed:
        """Runs a command whose output this thread gets, at its own pace."""
        wanted: dict[str, Any] = dict(options)
        check_limits(**{name: wanted.pop(name) for name in _LIMITS if name in wanted})
        check, linger, timeout = (wanted.pop(name, None) for name in ("check", "linger", "timeout"))
        check_limits(linger=linger, timeout=timeout)
        called("on_output", on_output)
        client, room = self._wrapped, self._session.room
        given = client._input(wanted.pop("input", None))
        wanted.pop("merge", None)  # it gets all of it as it comes
        launch = client._launch(argv, stdin=given is not None, **wanted)
        started: list[RemoteProcess] = []  # filled over there: an interruption here cannot lose it
        entered: list[asyncio.Semaphore] = []
        feeding = None

        async def begin() -> tuple[RemoteProcess, float]:
            if room is not None:
                await room.acquire()
                entered.append(room)
            began = time.monotonic()
            # A server that does not answer takes of the same time.
            async with asyncio.timeout(timeout):
                started.append(await client._begin(launch))
            if linger is not None:
                started[0]._feed.linger(linger)
            return started[0], began

        def end() -> None:
            for one in started:
                one.end()

        def leave() -> None:
            for one in entered:
                one.release()

        try:
            try:
                process, began = self._background.call(begin)
            except TimeoutError:
                if timeout is None:
                    raise
                raise TimedOut(timeout) from None
            if given is not None:
                feeding = self._background.begin(lambda: feed(process, given))
            for event in BlockingProcess(self._background, process)._take(timeout, began):
                if isinstance(event, Output):
                    on_output(event)
        except BaseException:
            self._background.post(end)
            raise
        finally:
            if feeding is not None:
                self._background.post(feeding.drop)
            self._background.post(leave)
        done = completed(process, launch.argv, Collected(0), time.monotonic() - began)
        return done.check() if check else done


_described(BlockingClient.run, RunCalls.run)
_described(BlockingClient.shell, RunCalls.shell)


class BlockingProcess(ProcessState, Blocking["RemoteProcess"]):
    """The hand-written part of the blocking process: its events, and the wait for its end."""

    def __init__(self, background: Background, process: RemoteProcess) -> None:
        super().__init__(background, process)
        self._feed = process._feed
        # Taken over the threads, but by no loop yet: what one loop leaves, the next one gets.
        self._taken: deque[Output | Exited] = deque()
        self._reading: set[Events] = set()  # used on the background thread only

    def __iter__(self) -> Iterator[Output | Exited]:
        return self._take()

    def _take(self, limit: float | None = None, began: float = 0.0) -> Iterator[Output | Exited]:
        """The events. Raises TimedOut if the last event has not arrived within `limit` seconds."""
        deadline = None if limit is None else began + limit
        events = aiter(self._wrapped)
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
        if limit is not None and deadline is not None and not self._wrapped.closed:
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
        """Waits for an event and takes all that have arrived; returns False at the end.

        The events are kept even if the caller is interrupted before it gets the result.
        """
        self._reading.add(events)
        size = 0
        async with asyncio.timeout(seconds):
            async for event in events:
                self._taken.append(event)
                size += len(event.data) if isinstance(event, Output) else 0
                if size >= _BATCH_BYTES or not self._wrapped._feed.queue:
                    return True
        return False

    async def _leave(self, events: Events) -> None:
        self._reading.discard(events)
        await events.aclose()

    def wait(self) -> int:
        """Waits for the end of the process and returns the exit code.

            process = client.start(["make", "nightly"])
            print(process.wait())  # 0

        See `outfitter.RemoteProcess.wait`.
        """
        return self._background.call(self._wait)

    async def _wait(self) -> int:
        if not self._reading:
            self._taken.clear()
        return await self._wrapped.wait()


class BlockingTranscript(Blocking["Transcript"]):
    """The hand-written part of the blocking transcript: made of a process, and read on its thread."""

    def __init__(self, process: BlockingProcess, limit: int = LIMIT_BYTES) -> None:
        async def begin() -> Transcript:
            return Transcript(process._wrapped, limit)

        background = process._background
        super().__init__(background, background.call(begin, undo=lambda made: made.close()))

    def text(self) -> str:
        """All that is kept.

            transcript = outfitter.sync.Transcript(client.start(["echo", "done"]))
            print(transcript.text())

        It stays; `take` gives each piece once.
        """
        return self._read(self._wrapped.text)

    def take(self) -> str:
        """What has come since it was last taken.

            transcript = outfitter.sync.Transcript(client.start(["echo", "done"]))
            print(transcript.take())

        `text` goes on to have it.
        """
        return self._read(self._wrapped.take)

    def _read(self, read: Callable[[], str]) -> str:
        async def there() -> str:
            return read()

        try:
            return self._background.call(there)
        except SessionExpired:
            return read()  # nothing more comes, and nobody else reads


class Background:
    """A thread with an asyncio loop, which runs an async client and the calls of other threads."""

    def __init__(self, context: AbstractAsyncContextManager[Client]) -> None:
        self._context = context
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: ThreadAnswer[Client] = ThreadAnswer()
        self._over: ThreadAnswer[None] = ThreadAnswer()
        self._stopping = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self.closed = False
        self._pid = os.getpid()  # a fork has a copy of all this, and no thread
        # Orders calls before the close. Reentrant: collecting garbage may post while this thread does.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="outfitter.sync", daemon=True)
        # One handle for each of the async client's, by the id() of what it keeps alive. Used on the thread.
        self._twins: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def open(self) -> Client:
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
        """Returns False if the thread has not started and will not, so that no wait is needed."""
        if self._forked:
            return False
        with self._lock:
            self.closed = True
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._stop)
            return self._loop is not None

    def post(self, callback: Callable[[], object]) -> bool:
        """Calls `callback` on the thread, without waiting. Returns False if the thread has ended."""
        if self._forked:
            return False
        with self._lock:
            if self.closed or self._loop is None:
                return False
            self._loop.call_soon_threadsafe(callback)
            return True

    def begin(self, work: Callable[[], Coroutine[Any, Any, T]]) -> _Call[T]:
        """Runs a coroutine on the thread, without waiting."""
        call = _Call(self, work, None)
        self.post(call.begin)
        return call

    def call(
        self, work: Callable[[], Coroutine[Any, Any, T]], *, undo: Callable[[T], object] | None = None
    ) -> T:
        """Runs a coroutine on the thread and returns its result. If the wait is interrupted, cancels it.

        `undo` gets the result if the coroutine has ended before it could be cancelled. Raises SessionExpired
        after the close.
        """
        refuse_in_a_loop()
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

    def make(
        self,
        kind: Callable[[Background, A], S],
        work: Callable[[], Coroutine[Any, Any, A]],
        *,
        undo: Callable[[S], object] | None = None,
    ) -> S:
        """The blocking handle for the async handle that a coroutine returns; the same one each time."""

        async def made() -> S:
            original = await work()
            twin: S | None = self._twins.get(id(original))
            if twin is None:
                twin = self._twins[id(original)] = kind(self, original)
            return twin

        return self.call(made, undo=undo)

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """The items of an async generator, with one call to the thread for each."""

        async def following() -> tuple[T, ...]:
            async for item in items:
                return (item,)
            return ()

        try:
            while item := self.call(following):
                yield item[0]
        finally:
            self.begin(items.aclose)  # not waited for: this may be the garbage collector, in any thread

    @property
    def _forked(self) -> bool:
        """Whether this is another process. Nothing is locked there, by a thread that it does not have."""
        return os.getpid() != self._pid

    def gone(self) -> SessionExpired:
        """The error of a call that comes too late."""
        if self._forked:
            return SessionExpired(FORKED)
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
        """Opens the client and closes it, in one task, as `async with` requires."""
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
    """A coroutine on the background thread; another thread waits for its `answer`."""

    def __init__(
        self,
        background: Background,
        work: Callable[[], Coroutine[Any, Any, T]],
        undo: Callable[[T], object] | None,
    ) -> None:
        self.answer: ThreadAnswer[T] = ThreadAnswer()
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
        try:
            work = self._work()
        except Exception as error:  # it cannot be called so: an argument is missing, or has another name
            self.answer.fail(error)
            return
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._end)

    def drop(self) -> None:
        """Cancels the coroutine, whose caller no longer waits."""
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


class ThreadAnswer(Generic[T]):
    """The result of a call: other threads wait for it, and the background thread sets it.

    This is not a Future: Ctrl-C inside the Condition of a Future may leave it locked and block the background
    thread.
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
        """Returns when the result is set, or when the time is up."""
        deadline = time.monotonic() + seconds
        while not self.done and (left := deadline - time.monotonic()) > 0:
            if self._pending.acquire(timeout=min(left, _LOOK_SECONDS)):
                self._pending.release()  # the next one may wait, too

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        return cast("T", self._result)


def refuse_in_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Refused(
        "outfitter.sync would block the asyncio loop of this thread: use outfitter.local() or "
        "outfitter.connect() with `async with`, and await their calls"
    )
