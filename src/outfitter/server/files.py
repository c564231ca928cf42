"""The file work of one connection: which requests run now, its open handles, its large answers.

Nothing here waits. Work goes to threads and comes back as a callback; only what the kernel knows by
heart is done at once.
"""

from __future__ import annotations

from ..core.lanes import Claim, Lanes
from ..errors import Exhausted, FileFailed, Refused
from ..host import files
from ..host.pipes import let_go
from ..log import fault, warn
from ..protocol import base64
from ..protocol.fileresults import FILE_HEAD, FILE_TAIL
from ..protocol.results import Result
from ..stdlib import allocate_lock
from .call import LATER
from .limits import FILE_HANDLES, FILE_WAITING_BYTES, FILE_WIDTH, STREAM_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..core.shares import Shares
    from ..host.descriptors import Descriptors
    from ..host.workers import Workers
    from .call import Call, Channel, Later, Streaming
    from .services import Services

    # What a piece of work returns is known to the one who finishes it.
    Work = Callable[[], Any]
    Finish = Callable[[Any], "Result | None"]
    Done = Callable[[Any, BaseException | None], None]

DESCRIPTORS = 2  # that a handle holds: its file, and the folder of one that is replaced
_WRITES = "writes"  # the reason not to read on, while much waits for a disk


class Handle:
    """An open file of one connection. Raises Exhausted."""

    __slots__ = ("_descriptors", "_held", "_principal", "fd", "lost", "path", "replacement")

    def __init__(self, path: str, descriptors: Descriptors, principal: str) -> None:
        descriptors.take(DESCRIPTORS, principal)
        self._descriptors = descriptors
        self._principal = principal
        self._held = DESCRIPTORS
        self.path = path
        self.fd = -1
        self.lost = False  # a read of it failed, and the peer is told that there is no such handle
        self.replacement: files.Replacement | files.Update | None = None  # when it is for writing

    def close(self) -> None:
        """Lets go; a replacement that was not committed leaves the old content."""
        held, self._held = self._held, 0
        self._descriptors.give_back(held, self._principal)
        fd, self.fd = self.fd, -1
        if self.replacement is not None:
            self.replacement.discard()
        elif fd >= 0:
            let_go(fd)


class FileWork:
    """All of it for one connection."""

    def __init__(self, channel: Channel, services: Services) -> None:
        self.cached = services.cached
        self._channel = channel
        self._workers: Workers = services.workers
        self._services = services
        self._descriptors = services.sessions.descriptors
        session = channel.session
        assert session is not None, "the handshake guarantees a session"
        if session.lanes is None:
            session.lanes = Lanes(FILE_WIDTH)
        # Those of the session: what was begun for its last connection may still change files.
        self._lanes = session.lanes
        self._gone = False
        self._waiting_bytes = 0
        self.handles: dict[str, Handle] = {}
        self._opening: list[tuple[str, str]] = []
        self._reserving = allocate_lock()
        self._streams: list[_Stream] = []

    # Work

    def free(self, *looks: str) -> bool:
        """Whether something that only looks at these paths may be answered at once."""
        return self._lanes.free(looks)

    def run(
        self,
        call: Call,
        work: Work,
        *,
        looks: tuple[str, ...] = (),
        changes: tuple[str, ...] = (),
        makes: tuple[str, ...] = (),
        finish: Finish | None = None,
        failed: Callable[[], None] | None = None,
        brings: int = 0,
        turns: Shares | None = None,
        of_handle: bool = False,
    ) -> Later:
        """Does `work` in a thread when its turn has come, and answers with its result, written there too.

        With `finish`, with what that makes of it on the loop; None when it has answered itself. `brings` is
        how many bytes it came with: when too many wait for a disk, the connection is not read on. Work with
        `turns` may take long: it begins when these allow it, and takes no thread from other file work.
        What has not begun when the connection is lost is not done, but for the work `of_handle`: a file
        that was written and closed is there.
        """
        call.later()
        self._brought(brings)

        def written() -> Any:
            if self._gone and not of_handle:
                # Its client may have come back, asked again, and done something else there since.
                raise Refused("the connection of this request is gone")
            result = work()
            return result.wire() if isinstance(result, Result) and finish is None else result

        def done(result: Any, failure: BaseException | None) -> None:
            self._brought(-brings)
            if failure is not None:
                if failed is not None:
                    failed()
                self.refuse(call, failure)
            elif finish is None:
                call.send(result)
            else:
                try:
                    answer = finish(result)
                except Exception as error:
                    self.refuse(call, error)
                else:
                    if answer is not None:
                        call.answer(answer)

        self._in_turn(written, done, looks, changes, makes, turns)
        return LATER

    def refuse(self, call: Call, failure: BaseException) -> None:
        """Answers with what the operating system said, or with a fault."""
        call.refuse(files.failed(failure) if isinstance(failure, OSError) else failure)

    def _brought(self, change: int) -> None:
        if change:
            self._waiting_bytes += change
            if not self._gone:
                self._channel.hold(_WRITES, self._waiting_bytes > FILE_WAITING_BYTES)

    def _in_turn(
        self,
        work: Work,
        done: Done,
        looks: tuple[str, ...],
        changes: tuple[str, ...],
        makes: tuple[str, ...] = (),
        turns: Shares | None = None,
    ) -> None:
        def begin() -> None:
            workers = self._workers if turns is None else self._services.slow
            shares = turns or self._services.file_turns
            if shares is None:
                workers.run(work, finished)
                return
            owner = (self._channel.principal, self)

            def ended(result: Any, failure: BaseException | None) -> None:
                shares.done(owner)
                finished(result, failure)

            shares.add(owner, lambda: workers.run(work, ended))

        def finished(result: Any, failure: BaseException | None) -> None:
            # First what comes of it: who waited for it may ask.
            try:
                done(result, failure)
            finally:
                claim.begin = _begun  # it holds on to us and to the request, which may be large
                for ready in self._lanes.done(claim):
                    ready.begin()

        claim = Claim(looks, changes, begin, makes)
        if self._lanes.add(claim):
            begin()

    # Handles

    # A handle is looked for when the turn of its request has come, not when the request does: a close and an
    # open of the same name may be under way before it.

    def will_open(self, handle_id: str, path: str) -> None:
        """Notes a path that a handle will have, for a close that comes before it is open."""
        self._opening.append((handle_id, path))

    def open(self, handle_id: str, path: str, opener: Callable[[Handle], None]) -> None:
        """Opens a handle, in a thread. Raises Refused, and what `opener` raises."""
        with self._reserving:
            old = self.handles.get(handle_id)
            if old is not None and not old.lost:
                raise Refused(f"file handle `{handle_id}` already exists")
            if old is None and len(self.handles) >= FILE_HANDLES:
                raise Refused(f"at most {FILE_HANDLES} file handles may be open per connection")
            handle = self.handles[handle_id] = Handle(path, self._descriptors, self._channel.principal)
        try:
            if old is not None:
                old.close()
            opener(handle)
        except BaseException:
            del self.handles[handle_id]
            handle.close()
            raise

    def opened(self, handle_id: str, path: str) -> None:
        """Must follow `open` on the loop, however it went."""
        self._opening.remove((handle_id, path))
        handle = self.handles.get(handle_id)
        if self._gone and handle is not None:
            self.forget(handle_id, handle)

    def paths_of(self, handle_id: str) -> set[str]:
        """What a handle may be of when the requests before are done."""
        handle = self.handles.get(handle_id)
        known = {path for ident, path in self._opening if ident == handle_id}
        return known if handle is None else known | {handle.path}

    def handle(self, handle_id: str) -> Handle:
        """An open handle. Raises FileFailed."""
        handle = self.handles.get(handle_id)
        if handle is None or handle.lost:
            raise FileFailed(f"unknown file handle `{handle_id}`", "ENOENT")
        return handle

    def forget(self, handle_id: str, handle: Handle) -> None:
        """Closes a handle without a word, after whoever still uses it."""

        def close() -> None:
            if self.handles.get(handle_id) is handle:
                del self.handles[handle_id]
                handle.close()

        self._in_turn(close, _nothing, (), (handle_claim(handle_id),))

    # Large files

    def stream(self, call: Call, fd: int, size: int) -> None:
        """Answers fs/readFile block by block: memory stays flat, however large the file is."""
        if self._gone:
            self._workers.run(lambda: let_go(fd), _nothing)
            return
        try:
            self._descriptors.take(1, call.principal)  # it may have to wait for those before it
        except Exhausted as error:
            self._workers.run(lambda: let_go(fd), _nothing)
            call.refuse(error)
            return
        self._streams.append(_Stream(self, self._workers, call, fd, size, self._descriptors))
        if len(self._streams) == 1:
            self._streams[0].begin()

    def streamed(self, stream: _Stream) -> None:
        """The stream is over; the next one may begin."""
        self._streams.remove(stream)
        if self._streams and not self._gone:
            self._streams[0].begin()

    def drained(self) -> None:
        if self._streams:
            self._streams[0].go_on()

    def lost(self) -> None:
        """The connection is gone: handles are closed, half-written files never were."""
        self._gone = True
        for handle_id, handle in self.handles.copy().items():  # threads open some still
            self.forget(handle_id, handle)
        for stream in self._streams:
            stream.abandon()
        self._streams.clear()
        for ready in self._lanes.abandon():
            ready.begin()


class _Stream:
    """One large file on its way out, as fragments of one message."""

    def __init__(
        self, owner: FileWork, workers: Workers, call: Call, fd: int, size: int, descriptors: Descriptors
    ) -> None:
        self._owner = owner
        self._descriptors = descriptors
        self._workers = workers
        self._call = call
        self._transport: Streaming | None = None
        self._fd = fd
        self._offset = 0
        self._left = size  # a file that grows meanwhile is sent as it was: the end must come
        self._reading = False
        self._ready: bytes | None = None  # read, and waiting for room
        self._ended = False

    def begin(self) -> None:
        self._transport = self._call.stream(FILE_HEAD, self.go_on)
        self._read()

    def _read(self) -> None:
        self._reading = True
        fd, offset, length = self._fd, self._offset, min(STREAM_BYTES, self._left)
        self._workers.run(lambda: base64.encode(files.read_block(fd, offset, length)), self._got)

    def _got(self, block: bytes, failure: BaseException | None) -> None:
        self._reading = False
        if self._ended:
            self._close()
            return
        if failure is not None:
            # Half an answer is on its way; nothing but an end can follow it.
            if isinstance(failure, OSError):
                warn("server", "a file could not be read to its end: %s", failure.strerror)
            else:
                fault("server", "a file could not be read to its end", failure)
            self.abandon()
            assert self._transport is not None
            self._transport.close(1011, "a file could not be read to its end")
            return
        self._ready = block
        self.go_on()

    def go_on(self) -> None:
        """Sends what is ready if there is room, and reads on."""
        transport = self._transport
        if self._ready is None or transport is None or not transport.has_room:
            return
        block, self._ready = self._ready, None
        self._offset += STREAM_BYTES
        self._left -= STREAM_BYTES
        if len(block) == STREAM_BYTES // 3 * 4 and self._left > 0:
            transport.send_fragment(block)
            self._read()
            return
        transport.end_message(block, FILE_TAIL, b"}")
        self._close()
        self._owner.streamed(self)

    def abandon(self) -> None:
        self._ended = True
        if not self._reading:
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._descriptors.give_back(1, self._call.principal)
            self._workers.run(lambda: let_go(fd), _nothing)


def handle_claim(handle_id: str) -> str:
    """The name of a handle among the things that requests touch; no path begins so."""
    return f"\0{handle_id}"


def _begun() -> None:
    """In place of the beginning of work that is done."""


def _nothing(_: object, __: BaseException | None) -> None:
    """For work whose result nobody waits for."""
