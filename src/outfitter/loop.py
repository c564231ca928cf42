"""What schedules callbacks: the interface everything with effects is written against, and our own loop.

`Loop` is the part of `asyncio.AbstractEventLoop` that the server uses, so the server runs unchanged
inside an application's asyncio loop. `EpollLoop` offers the same calls without importing asyncio, which
takes five times as long as starting the interpreter's own modules; `outfitter serve` runs on it.
"""

from __future__ import annotations

import time

from .log import fault, warn
from .stdlib import heapify, heappop, heappush
from .system import LINUX

if LINUX:
    import os
    from select import epoll as poller

    class Wakeup:
        """What a thread wakes the loop with: `fd` can be read then. Raises OSError; ValueError if closed."""

        def __init__(self) -> None:
            self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

        def wake(self) -> None:
            os.eventfd_write(self.fd, 1)

        def woken(self) -> None:
            os.eventfd_read(self.fd)

        def close(self) -> None:
            fd, self.fd = self.fd, -1
            if fd >= 0:
                os.close(fd)

else:
    from .anypoll import SelectorPoller as poller  # type: ignore[assignment]
    from .anypoll import Wakeup  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    # Callback arguments are whatever the callback takes, as in asyncio.
    class Timer(Protocol):
        def cancel(self) -> None: ...

    class Loop(Protocol):
        def time(self) -> float: ...
        def call_soon(self, callback: Callable[..., object], *args: Any) -> Timer: ...
        def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...
        def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer: ...
        def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> object: ...
        def remove_reader(self, fd: int) -> bool: ...
        def add_writer(self, fd: int, callback: Callable[..., object], *args: Any) -> object: ...
        def remove_writer(self, fd: int) -> bool: ...


# Linux's numbers, spelled out so that the module can be imported elsewhere. A fault (hang-up, error) wakes
# both sides: a reader sees end of file, a writer sees EPIPE.
_FAULT = 0x010 | 0x008
_READ = 0x001 | 0x002
_READ_OR_FAULT = _READ | _FAULT
_WRITE = 0x004
_WRITE_OR_FAULT = _WRITE | _FAULT
# A turn that takes longer is worth a line: nobody was served meanwhile. Ten times what anything should take.
STALL_SECONDS = 0.25
_NAMED = 3  # of what was done in such a turn
# The kernel has no memory, or the user has no watches left: it is asked again. Everything else is a mistake.
_ENOMEM, _ENOSPC, _ENOENT, _EBADF, _EINVAL = 12, 28, 2, 9, 22
_MEND_SECONDS = 0.05  # until then; memory that is short comes back in such times, or not soon
_WAKES = 3  # attempts to wake a loop that sleeps: nothing else would tell it
_LONGEST_POLL = 86_400.0  # the kernel counts milliseconds in 31 bits; a timer further away polls again


class _Handle:
    """A callback waiting for its time. Cancelled ones stay in the heap until they surface."""

    __slots__ = ("args", "callback", "order", "when")

    def __init__(
        self, when: float, order: int, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self.when = when
        self.order = order
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def __lt__(self, other: _Handle) -> bool:
        return (self.when, self.order) < (other.when, other.order)


class _Watch:
    """The callbacks of one descriptor."""

    __slots__ = ("principal", "read", "read_args", "write", "write_args")

    principal: str  # whose it is; known when somebody has asked

    def __init__(self) -> None:
        self.read: Callable[..., object] | None = None
        self.read_args: tuple[Any, ...] = ()
        self.write: Callable[..., object] | None = None
        self.write_args: tuple[Any, ...] = ()

    def mask(self) -> int:
        return (_READ if self.read is not None else 0) | (_WRITE if self.write is not None else 0)


class EpollLoop:
    """A single-threaded loop with asyncio's names, on epoll or on what speaks its words here."""

    def __init__(self) -> None:
        self.epoll = self._epoll = poller()
        # What waits for events: `pace.EpollPace` puts its own in its place.
        self.poll: Callable[[float], list[tuple[int, int]]] = self._epoll.poll
        # What runs the callbacks that are due: `server.fairness` puts its own in its place.
        self.run_ready: Callable[[], None] = self._run_ready
        self.takes_turns = False  # whether it does, principal by principal
        self.can_wait: set[int] = set()  # descriptors whose input nobody waits for piece by piece
        self.turn: list[str] = []  # what was done in this turn, in words, for the log
        self.on_stall: Callable[[float], object] | None = None  # gets the seconds of every such turn
        self.stall_seconds = STALL_SECONDS
        self._watches: dict[int, _Watch] = {}
        self._amiss: set[int] = set()  # descriptors of which the kernel does not know what is wanted
        self._timers: list[_Handle] = []
        self._cancelled_hint = 0
        self._ready: list[_Handle] = []
        self._order = 0
        self._stopping = False
        self._from_threads: list[_Handle] = []
        self._wakeup = Wakeup()
        self.add_reader(self._wakeup.fd, self._woken)

    # Time and callbacks

    time = staticmethod(time.monotonic)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> _Handle:
        handle = _Handle(0.0, 0, callback, args)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        """As `call_soon`, from any thread."""
        # Appending is atomic; the write makes the poll return.
        self._from_threads.append(_Handle(0.0, 0, callback, args))
        for _ in range(_WAKES):
            try:
                self._wakeup.wake()
                return
            except (OSError, ValueError):
                continue  # the loop is closed: nobody is left to call

    def _woken(self) -> None:
        try:
            self._wakeup.woken()
        except OSError:
            pass  # nothing to read, or still to be read: then we are called again
        # One by one from the same list: another thread may be about to append to it.
        for _ in range(len(self._from_threads)):
            run_handle(self._from_threads.pop(0))

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> _Handle:
        self._order += 1
        handle = _Handle(time.monotonic() + delay, self._order, callback, args)
        heappush(self._timers, handle)
        if len(self._timers) > 1024 and len(self._timers) > 4 * self._cancelled_hint:
            self._drop_cancelled()
        return handle

    def _drop_cancelled(self) -> None:
        # Thousands of one-shots each leave a cancelled timer behind; without this they would
        # stay until their (possibly hours away) time. The hint keeps this amortised.
        self._timers = [handle for handle in self._timers if handle.callback is not None]
        heapify(self._timers)
        self._cancelled_hint = len(self._timers)

    # Descriptors

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        watch = self._watches.get(fd)
        if watch is None:
            try:
                self._epoll.register(fd, _READ)  # first: a plain file is refused here
            except OSError as error:
                self._register_later(fd, _READ, error)
            watch = self._watches[fd] = _Watch()
        elif watch.read is None:
            self._modify(fd, _READ | _WRITE)
        watch.read = callback
        watch.read_args = args

    def remove_reader(self, fd: int) -> bool:
        watch = self._watches.get(fd)
        if watch is None or watch.read is None:
            return False
        watch.read = None
        watch.read_args = ()
        self._narrow(fd, watch)
        return True

    def add_writer(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        watch = self._watches.get(fd)
        if watch is None:
            self._register(fd, _WRITE)
            watch = self._watches[fd] = _Watch()
        elif watch.write is None:
            self._modify(fd, _READ | _WRITE)
        watch.write = callback
        watch.write_args = args

    def remove_writer(self, fd: int) -> bool:
        watch = self._watches.get(fd)
        if watch is None or watch.write is None:
            return False
        watch.write = None
        watch.write_args = ()
        self._narrow(fd, watch)
        return True

    def _narrow(self, fd: int, watch: _Watch) -> None:
        mask = watch.mask()
        if mask:
            self._modify(fd, mask)
        else:
            self.can_wait.discard(fd)
            del self._watches[fd]
            try:
                self._epoll.unregister(fd)
            except OSError:
                self._mend_later(fd)  # or it was closed, which ends a watch as well

    def _register(self, fd: int, mask: int) -> None:
        try:
            self._epoll.register(fd, mask)
        except OSError as error:
            self._register_later(fd, mask, error)

    def _register_later(self, fd: int, mask: int, error: OSError) -> None:
        if isinstance(error, FileExistsError):
            self._modify(fd, mask)  # its last watch could not be ended yet
        elif error.errno in (_ENOMEM, _ENOSPC):
            self._mend_later(fd)
        else:
            raise error

    def _modify(self, fd: int, mask: int) -> None:
        try:
            self._epoll.modify(fd, mask)
        except OSError as error:
            if error.errno not in (_ENOMEM, _ENOSPC, _ENOENT):
                raise
            self._mend_later(fd)

    # Who watches a descriptor cannot do more about a kernel without memory than to try again; so it is done
    # here, for everybody.

    def _mend_later(self, fd: int) -> None:
        if not self._amiss:
            self.call_later(_MEND_SECONDS, self._mend)
        self._amiss.add(fd)

    def _mend(self) -> None:
        amiss, self._amiss = self._amiss, set()
        for fd in amiss:
            try:
                self._epoll.unregister(fd)
            except OSError:
                pass  # closed meanwhile, or the kernel did not know it
            watch = self._watches.get(fd)
            if watch is not None:
                try:
                    self._register(fd, watch.mask())
                except OSError as error:
                    fault("server", "a descriptor cannot be watched", error)

    # What can wait

    def set_back(self, fd: int) -> None:
        """What this descriptor brings can wait, until its reader is removed."""
        if fd in self._watches:
            self.can_wait.add(fd)

    def listen(self, fds: Iterable[int], on: bool) -> None:
        """Has descriptors bring nothing for a while, or again what their readers want."""
        for fd in fds:
            mask = self._watches[fd].mask()
            self._modify(fd, mask if on else mask & ~_READ)

    # Whose turn it is

    def by_principal(self, events: list[tuple[int, int]]) -> dict[str, list[tuple[int, int]]]:
        """Events by whose they are: the object says so whose method is called. "" is nobody's."""
        found: dict[str, list[tuple[int, int]]] = {}
        watches = self._watches
        for event in events:
            watch = watches.get(event[0])
            if watch is None:
                continue
            try:
                principal = watch.principal
            except AttributeError:
                principal = watch.principal = principal_of(watch.read or watch.write)
            if principal in found:
                found[principal].append(event)
            else:
                found[principal] = [event]
        return found

    def take_ready(self) -> list[_Handle]:
        """The callbacks that are due, for somebody who runs them instead."""
        ready, self._ready = self._ready, []
        return ready

    def put_first(self, handles: list[_Handle]) -> None:
        """Has callbacks run in this turn, before all others."""
        self._ready[:0] = handles

    # Running

    def stop(self) -> None:
        """Ends `run` after the callbacks that are due now."""
        self._stopping = True

    def run(self) -> None:
        """Serves callbacks until `stop`. A callback that fails is logged, and the others go on.

        The descriptor of one that fails is not watched any more: it would fail again at once, for ever.
        """
        now = time.monotonic
        watches = self._watches
        turn = self.turn
        stall = self.stall_seconds
        began = now()
        while not self._stopping:
            # Written out rather than called: this runs twice for every round trip.
            over = now()
            if over - began > stall:
                self._stalled(over - began)
            if self._ready:
                timeout = 0.0
            elif self._timers:
                timeout = min(max(0.0, self._timers[0].when - over), _LONGEST_POLL)
            else:
                timeout = -1.0
            try:
                events = self.poll(timeout)
            except (OSError, MemoryError) as error:
                if isinstance(error, OSError) and error.errno in (_EBADF, _EINVAL):
                    raise  # a mistake of ours, which would last for ever
                warn("server", "cannot wait for events now: %s", type(error).__name__)
                time.sleep(_MEND_SECONDS)  # it would fail again at once
                events = []
            began = now()
            turn.clear()
            for fd, event in events:
                # A callback earlier in this batch may have removed the watch; if the number was
                # reused meanwhile, the new owner gets one idle call, which it must tolerate.
                watch = watches.get(fd)
                if watch is None:
                    continue
                try:
                    if event & _READ_OR_FAULT and watch.read is not None:
                        watch.read(*watch.read_args)
                    if event & _WRITE_OR_FAULT and watch.write is not None:
                        watch.write(*watch.write_args)
                except Exception as error:
                    fault("server", "a callback failed", error)
                    self._unwatch(fd)
            if self._timers and self._timers[0].when <= now():
                self._run_due()
            if self._ready:
                self.run_ready()
        self._stopping = False  # so that it can be run again

    def _unwatch(self, fd: int) -> None:
        try:
            self.remove_reader(fd)
            self.remove_writer(fd)
        except Exception as error:
            fault("server", "a callback failed, and its descriptor is watched still", error)

    def _stalled(self, seconds: float) -> None:
        """Says that nobody was served for so long, and who had asked for what."""
        done = list(dict.fromkeys(self.turn))
        named = ", ".join(done[-_NAMED:]) or "no request"
        more = f" and {len(done) - _NAMED} more" if len(done) > _NAMED else ""
        warn("server", "nothing else was served for %d ms: %s%s", seconds * 1000, named, more)
        if self.on_stall is not None:
            self.on_stall(seconds)

    def _run_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0].when <= now:
            run_handle(heappop(self._timers))

    def _run_ready(self) -> None:
        # Only what is queued now: callbacks that queue callbacks must not starve descriptors.
        for handle in self.take_ready():
            run_handle(handle)

    def close(self) -> None:
        self._wakeup.close()
        self._epoll.close()


def principal_of(callback: Callable[..., object] | None) -> str:
    """Whose a callback is; "" where the object whose method it is does not say so."""
    principal: str = getattr(getattr(callback, "__self__", None), "principal", "")
    return principal


def run_handle(handle: _Handle) -> None:
    if handle.callback is None:
        return
    try:
        handle.callback(*handle.args)
    except Exception as error:
        fault("server", "a callback failed", error)
