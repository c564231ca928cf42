"""Writes to a process: each id once, bytes in order, bounded."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.core.stdin import QUEUED_BYTES, QUEUED_WRITES, REMEMBERED, StdinQueue, WriteIds

# Write ids


def test_an_accepted_id_is_known() -> None:
    ids = WriteIds()
    ids.add("a")
    assert ["a" in ids, "b" in ids, "" in ids] == [True, False, False]


def test_the_4097th_id_makes_the_first_unknown() -> None:
    assert REMEMBERED == 4096
    ids = WriteIds()
    for number in range(4096):
        ids.add(str(number))
    assert "0" in ids
    ids.add("4096")
    assert ["0" in ids, "1" in ids, "4096" in ids] == [False, True, True]


def test_adding_an_id_again_does_not_make_it_younger() -> None:
    ids = WriteIds()
    for number in [*range(4096), 0, 4096]:
        ids.add(str(number))
    assert ["0" in ids, "1" in ids] == [False, True]


# The queue


def drain(queue: StdinQueue, step: int) -> bytes:
    out = b""
    while queue:
        taken = min(step, len(queue.head()))
        out += bytes(queue.head()[:taken])
        queue.advance(taken)
    return out


@settings(deadline=None, max_examples=80)
@given(st.lists(st.binary(max_size=20), max_size=10), st.integers(1, 25))
def test_bytes_come_out_in_order_however_they_are_taken(writes: list[bytes], step: int) -> None:
    queue = StdinQueue()
    for data in writes:
        queue.push(data)
    assert queue.size == sum(map(len, writes))
    assert drain(queue, step) == b"".join(writes)
    assert (queue.size, bool(queue)) == (0, False)


def test_an_empty_write_takes_no_place() -> None:
    queue = StdinQueue()
    queue.push(b"")
    assert (bool(queue), queue.size, queue.has_room()) == (False, 0, True)


def test_the_head_shrinks_as_it_is_taken() -> None:
    queue = StdinQueue()
    queue.push(b"abc")
    queue.push(memoryview(b"de"))
    sizes = []
    for taken in (1, 2, 1, 1):
        queue.advance(taken)
        sizes.append((queue.size, bytes(queue.head()) if queue else None))
    assert sizes == [(4, b"bc"), (2, b"de"), (1, b"e"), (0, None)]


def test_128_writes_fill_the_queue() -> None:
    assert QUEUED_WRITES == 128
    queue = StdinQueue()
    for _ in range(127):
        queue.push(b"x")
    room = [queue.has_room()]
    queue.push(b"x")
    room.append(queue.has_room())
    queue.advance(1)
    room.append(queue.has_room())
    assert room == [True, False, True]


def test_a_single_write_of_any_size_fits_and_fills_an_empty_queue() -> None:
    queue = StdinQueue()
    large = memoryview(bytes(QUEUED_BYTES + 1))
    assert queue.has_room()
    queue.push(large)
    room = [queue.has_room()]
    queue.advance(1)
    room.append(queue.has_room())
    queue.advance(1)
    room.append(queue.has_room())
    assert room == [False, False, True]


def test_a_cleared_queue_is_empty() -> None:
    queue = StdinQueue()
    queue.push(b"abc")
    queue.clear()
    assert (bool(queue), queue.size, queue.has_room(), queue.eof) == (False, 0, True, False)
