"""What a server leaves to the next version of itself: one object, bytes beside it, and descriptors.

`FORMAT` numbers the contents. A version that does not know a number is never given it: it is asked first, and
says so (`server.upgrading`). Whoever changes what stands in it, or what it means, takes the next number; not
for an addition that an older version can do without and a newer one does not expect.

The layout: a magic line, the size of the object as eight bytes, the object as JSON, the bytes. Where the
object speaks of bytes, it has the pair of their place and their size.
"""

from __future__ import annotations

from struct import iter_unpack, pack

from ..protocol.jsontext import dumps
from ..stdlib import OrderedDict, deque, json_scanner
from .output import Chunk, OutputLog
from .stdin import StdinQueue, WriteIds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .output import Budget

    # A JSON value: its readers here know what they have written.
    Told = Any
    Piece = bytes | memoryview

FORMAT = 2
_MAGIC = b"outfitter handover\n"
_SIZE = 8
_STREAMS = (b"stdout", b"stderr", b"pty")
# Of each chunk: its number, its size, its stream.
_CHUNK = "<QIB"
# Not as strict as with messages: it was written by us, and may be much larger than any of them.
_scan = json_scanner(dict, int, float)


class Parcel:
    """What is given, while it is collected. Nothing that it was told of is changed or copied."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self._pieces: list[Piece] = []
        self._size = 0

    def put(self, *pieces: Piece) -> Told:
        """Takes bytes; returns what stands for them in the object."""
        place = self._size
        self._pieces += pieces
        self._size += sum(map(len, pieces))
        return [place, self._size - place]

    def keep(self, fd: int) -> int:
        """Takes a descriptor, if it is one; its number stays the same."""
        if fd >= 0 and fd not in self.descriptors:
            self.descriptors.append(fd)
        return fd

    def pieces(self, told: Told) -> list[Piece]:
        """All of it, to be written one after the other."""
        text = dumps({"format": FORMAT, "descriptors": self.descriptors, **told}).encode()
        return [_MAGIC + len(text).to_bytes(_SIZE, "big"), text, *self._pieces]


class Received:
    """What was given: `told` is the object. Raises ValueError for anything else."""

    def __init__(self, data: memoryview) -> None:
        start = len(_MAGIC) + _SIZE
        if bytes(data[: len(_MAGIC)]) != _MAGIC:
            raise ValueError("no server has left this")
        size = int.from_bytes(data[len(_MAGIC) : start], "big")
        self.told: Told = _scan(str(data[start : start + size], "ascii"), 0)[0]
        if self.told["format"] != FORMAT:
            raise ValueError(f"this version reads format {FORMAT} and was given {self.told['format']}")
        self._bytes = data[start + size :]

    def bytes(self, place: Told) -> bytes:
        at, size = place
        return bytes(self._bytes[at : at + size])


# What a process has printed


def log_told(log: OutputLog, parcel: Parcel) -> Told:
    chunks = log._chunks or ()
    index = b"".join(
        [pack(_CHUNK, chunk.seq, len(chunk.data), _STREAMS.index(chunk.stream)) for chunk in chunks]
    )
    return {
        "index": parcel.put(index),
        "data": parcel.put(*(chunk.data for chunk in chunks)),
        "open": log._streams_open,
        "next": log.next_seq,
        "exited": log.exited_seq,
        "code": log.exit_code,
        "denied": log.denied,
        "reason": log.reason,
        "closed": log.closed_seq,
        "dropped": log.dropped_bytes,
        "droppedThrough": log._dropped_through,
    }


def log_of(told: Told, received: Received, budget: Budget) -> OutputLog:
    log = OutputLog(told["open"], budget)
    log.next_seq = told["next"]
    log.exited_seq = told["exited"]
    log.exit_code = told["code"]
    log.denied = told["denied"]
    log.reason = told.get("reason")  # an older version does not know
    log.closed_seq = told["closed"]
    log.dropped_bytes = told["dropped"]
    log._dropped_through = told["droppedThrough"]
    at = told["data"][0]
    chunks: deque[Chunk] = deque()
    for seq, size, stream in iter_unpack(_CHUNK, received.bytes(told["index"])):
        chunks.append(Chunk(seq, _STREAMS[stream], received.bytes((at, size))))
        at += size
    if chunks:
        log._chunks = chunks
        log._size = told["data"][1]
        budget.used += log._size
    return log


# What was written to it


def queue_told(queue: StdinQueue | None, parcel: Parcel) -> Told:
    if queue is None:
        return None
    sizes = [len(chunk) for chunk in queue._chunks]
    return {"sizes": sizes, "data": parcel.put(*queue._chunks), "eof": queue.eof}


def queue_of(told: Told, received: Received) -> StdinQueue | None:
    if told is None:
        return None
    queue = StdinQueue()
    at = told["data"][0]
    for size in told["sizes"]:
        queue.push(received.bytes((at, size)))
        at += size
    queue.eof = told["eof"]
    return queue


def ids_told(ids: WriteIds | None) -> Told:
    return None if ids is None else list(ids._ids)


def ids_of(told: Told) -> WriteIds | None:
    if told is None:
        return None
    ids = WriteIds()
    ids._ids = OrderedDict.fromkeys(told)
    return ids
