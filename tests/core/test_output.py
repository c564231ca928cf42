"""The output log against a naive model: numbers, retention, paging, and the order of exit and close."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outfitter.core.output import (
    CROWDED_BYTES,
    RETAINED_BYTES,
    RETAINED_CHUNKS,
    Budget,
    Chunk,
    OutputLog,
    Page,
    Share,
)

OUT, ERR = b"stdout", b"stderr"


def log(retained: int = RETAINED_BYTES, streams: int = 2, limit: int = 1 << 30) -> OutputLog:
    return OutputLog(streams, Budget(limit), retained)


def filled(*sizes: int, retained: int = RETAINED_BYTES) -> OutputLog:
    out = log(retained)
    for size in sizes:
        out.append(OUT, bytes(size))
    return out


def chunk(seq: int, size: int) -> Chunk:
    return Chunk(seq, OUT, bytes(size))


# Numbers


def test_output_exit_and_close_share_dense_numbers() -> None:
    out = log(streams=1)
    numbers = [out.append(OUT, b"a").seq, out.exit(3), out.append(ERR, b"b").seq]
    out.end_stream()
    assert [*numbers, out.close(), out.next_seq] == [1, 2, 3, 4, 5]


def test_closed_comes_once_and_after_exit_and_every_stream() -> None:
    out = log(streams=2)
    seen = [out.close()]
    out.end_stream()
    seen.append(out.close())
    out.exit(0)
    seen.append(out.close())
    out.end_stream()
    seen += [out.close(), out.close()]
    assert seen == [None, None, None, 2, None]


def test_a_process_without_streams_closes_when_it_exits() -> None:
    out = log(streams=0)
    assert [out.close(), out.exit(0), out.close()] == [None, 1, 2]


def test_what_cannot_happen_is_asserted() -> None:
    out = log(streams=1)
    out.exit(0)
    with pytest.raises(AssertionError, match="exited twice"):
        out.exit(0)
    out.end_stream()
    with pytest.raises(AssertionError, match="a stream ended twice"):
        out.end_stream()
    out.close()
    with pytest.raises(AssertionError, match="output after closed"):
        out.append(OUT, b"x")


# Reading


def test_an_empty_log_reads_as_an_empty_page() -> None:
    assert log().read(0, None) == Page([], 1, False, None, False, 0)


def test_a_read_without_limit_gives_everything_after_the_cursor() -> None:
    out = filled(1, 2, 3)
    assert [out.read(after, None) for after in (0, 2, 3, 99)] == [
        Page([chunk(1, 1), chunk(2, 2), chunk(3, 3)], 4, False, None, False, 0),
        Page([chunk(3, 3)], 4, False, None, False, 0),
        Page([], 4, False, None, False, 0),
        Page([], 4, False, None, False, 0),
    ]


@pytest.mark.parametrize(
    ("max_bytes", "count"),
    [(0, 1), (1, 1), (9, 1), (10, 1), (11, 1), (29, 1), (30, 2), (31, 2), (59, 2), (60, 3), (61, 3)],
)
def test_a_budget_takes_whole_chunks_and_always_the_first(max_bytes: int, count: int) -> None:
    chunks = [chunk(1, 10), chunk(2, 20), chunk(3, 30)]
    assert filled(10, 20, 30).read(0, max_bytes) == Page(chunks[:count], count + 1, False, None, False, 0)


def test_a_budget_that_is_reached_ends_the_page_before_an_empty_chunk() -> None:
    assert filled(10, 0).read(0, 10) == Page([chunk(1, 10)], 2, False, None, False, 0)


def test_nothing_within_a_budget_gives_the_next_number() -> None:
    assert filled(10).read(1, 5) == Page([], 2, False, None, False, 0)


def test_exit_and_close_are_told_whatever_the_cursor() -> None:
    out = filled(10, 10)
    out.exit(7)
    out.end_stream()
    out.end_stream()
    out.close()
    assert out.read(0, 10) == Page([chunk(1, 10)], 2, True, 7, True, 0)
    assert out.read(0, None).next_seq == 5


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_reads_do_not_consume(after: int) -> None:
    out = filled(1, 2, 3)
    assert out.read(after, 4) == out.read(after, 4)


# Waiting


def test_a_read_is_ready_for_output_after_its_cursor() -> None:
    assert [filled(1, 1).ready(after) for after in (0, 1, 2, 3)] == [True, True, False, False]


def test_a_read_is_ready_for_an_exit_after_its_cursor() -> None:
    out = log()
    out.exit(0)
    assert [out.ready(after) for after in (0, 1, 2)] == [True, False, False]


def test_every_read_of_a_closed_log_is_ready() -> None:
    out = log(streams=0)
    out.exit(0)
    out.close()
    assert [out.ready(after) for after in (0, 1, 2, 99)] == [True] * 4


# Retention


def test_the_limits_are_those_of_the_reference() -> None:
    assert (RETAINED_BYTES, RETAINED_CHUNKS) == (1_048_576, 50_000)


def test_the_oldest_whole_chunks_go_first() -> None:
    # As the reference did: 3,000,000 bytes in chunks of 8192 leave 128 chunks, the first of them 240.
    out = filled(*[8192] * 366, 3_000_000 - 366 * 8192)
    page = out.read(0, None)
    assert (len(page.chunks), page.chunks[0].seq, sum(len(item.data) for item in page.chunks)) == (
        128,
        240,
        1_042_112,
    )
    assert page.dropped_bytes == 3_000_000 - 1_042_112


def test_exactly_the_limit_is_kept() -> None:
    assert filled(600, 400, retained=1000).first_seq() == 1
    assert filled(600, 401, retained=1000).first_seq() == 2


def test_a_chunk_larger_than_the_limit_is_not_kept() -> None:
    out = filled(10, 1001, retained=1000)
    assert (out.first_seq(), out.read(0, None)) == (3, Page([], 3, False, None, False, 1011))


def test_no_more_than_the_limit_of_chunks_is_kept() -> None:
    out = log()
    for _ in range(RETAINED_CHUNKS):
        out.append(OUT, b"x")
    assert out.first_seq() == 1
    out.append(OUT, b"x")
    assert (out.first_seq(), out.dropped_bytes, len(out.after(0))) == (2, 1, RETAINED_CHUNKS)


def test_loss_is_told_only_to_a_reader_behind_the_gap() -> None:
    out = filled(400, 400, 400, 400, retained=1000)  # 1 and 2 are gone
    assert [out.read(after, None).dropped_bytes for after in (0, 1, 2, 3, 4)] == [800, 800, 0, 0, 0]


def test_an_exit_is_no_loss() -> None:
    out = log(retained=1000)
    out.append(OUT, bytes(600))
    out.exit(0)
    out.append(OUT, bytes(600))  # 1 is gone; 3 is kept
    assert out.read(1, None) == Page([chunk(3, 600)], 4, True, 0, False, 0)


# Budget


def test_a_crowded_server_keeps_a_small_window_of_each() -> None:
    budget = Budget(200_000)
    first, second = OutputLog(1, budget), OutputLog(1, budget)
    for _ in range(3):
        first.append(OUT, bytes(60_000))
    second.append(OUT, bytes(60_000))  # above the limit now
    second.append(OUT, bytes(5_000))
    assert CROWDED_BYTES == 65_536
    assert (first.first_seq(), second.first_seq(), budget.used) == (1, 1, 245_000)
    second.append(OUT, bytes(5_000))
    assert (first.first_seq(), second.first_seq(), budget.used) == (1, 2, 190_000)


def test_a_view_keeps_nothing_else_alive_on_a_crowded_server() -> None:
    read = bytearray(256_000)
    for limit, kind in ((1 << 30, memoryview), (10_000, bytes)):
        out = OutputLog(1, Budget(limit))
        kept = out.append(OUT, memoryview(read)[:50_000])
        assert (type(kept.data), len(kept.data), out.crowded) == (kind, 50_000, kind is bytes)


def test_a_released_log_gives_its_bytes_back() -> None:
    budget = Budget(1 << 30)
    out = OutputLog(0, budget)
    out.append(OUT, bytes(100))
    out.release()
    out.release()
    assert (budget.used, out.read(0, None)) == (0, Page([], 2, False, None, False, 0))


# Against the model


class Model:
    """A list of everything that ever happened; each answer is worked out from the beginning."""

    def __init__(self, streams: int, retained: int) -> None:
        self.streams = streams
        self.retained = retained
        self.events: list[tuple[str, bytes, bytes]] = []
        self.kept: list[Chunk] = []
        self.exit_code: int | None = None
        self.closed = False

    def add(self, kind: str, stream: bytes = b"", data: bytes = b"") -> int:
        self.events.append((kind, stream, data))
        return len(self.events)

    def size(self) -> int:
        return sum(len(item.data) for item in self.kept)

    def read(self, after: int, max_bytes: int | None) -> tuple[list[Chunk], int]:
        chunks = [item for item in self.kept if item.seq > after]
        if max_bytes is not None and chunks:
            taken = chunks[:1]
            for item in chunks[1:]:
                size = sum(len(each.data) for each in taken)
                if size >= max_bytes or size + len(item.data) > max_bytes:
                    break
                taken.append(item)
            return taken, taken[-1].seq + 1
        return chunks, len(self.events) + 1


class LogsAgainstModels(RuleBasedStateMachine):
    """Two logs on one budget, so that each feels the other."""

    @initialize(
        limit=st.sampled_from([0, 100_000, 1 << 30]),
        retained=st.sampled_from([0, 1000, 100_000]),
        streams=st.integers(0, 2),
    )
    def begin(self, limit: int, retained: int, streams: int) -> None:
        self.budget = Budget(limit)
        self.logs = [OutputLog(streams, self.budget, retained) for _ in range(2)]
        self.models = [Model(streams, retained) for _ in range(2)]

    which = st.sampled_from([0, 1])
    sizes = st.sampled_from([0, 1, 300, 700, 1000, 1001, 30_000, 66_000, 100_001])

    @rule(which=which, stream=st.sampled_from([OUT, ERR]), size=sizes)
    def append(self, which: int, stream: bytes, size: int) -> None:
        model = self.models[which]
        if model.closed:
            return
        data = bytes(size)
        seq = model.add("output", stream, data)
        model.kept.append(Chunk(seq, stream, data))
        # Crowded is judged with the new bytes counted, and before anything is dropped.
        crowded = sum(each.size() for each in self.models) > self.budget.limit
        limit = min(model.retained, 64 << 10) if crowded else model.retained
        while model.size() > limit:
            model.kept.pop(0)
        assert self.logs[which].append(stream, data) == Chunk(seq, stream, data)

    @rule(which=which, code=st.integers(0, 255))
    def leave(self, which: int, code: int) -> None:
        model = self.models[which]
        if model.exit_code is None:
            model.exit_code = code
            assert self.logs[which].exit(code) == model.add("exited")

    @rule(which=which)
    def end_stream(self, which: int) -> None:
        if self.models[which].streams:
            self.models[which].streams -= 1
            self.logs[which].end_stream()

    @rule(which=which)
    def close(self, which: int) -> None:
        model = self.models[which]
        due = model.exit_code is not None and not model.streams and not model.closed
        model.closed = model.closed or due
        assert self.logs[which].close() == (model.add("closed") if due else None)

    @rule(which=which, after=st.integers(0, 12), max_bytes=st.none() | st.integers(0, 2000))
    def read(self, which: int, after: int, max_bytes: int | None) -> None:
        model = self.models[which]
        chunks, next_seq = model.read(after, max_bytes)
        page = self.logs[which].read(after, max_bytes)
        expected = Page(
            chunks, next_seq, model.exit_code is not None, model.exit_code, model.closed, page.dropped_bytes
        )
        assert page == expected

    @rule(which=which, after=st.integers(0, 12))
    def ready(self, which: int, after: int) -> None:
        model = self.models[which]
        news = any(item.seq > after for item in model.kept)
        left = model.exit_code is not None and after < len(model.events)
        assert self.logs[which].ready(after) is (news or model.closed or left)

    @precondition(lambda self: any(model.closed for model in self.models))
    @rule(which=which)
    def release(self, which: int) -> None:
        if self.models[which].closed:
            self.models[which].kept.clear()
            self.logs[which].release()

    @invariant()
    def agree(self) -> None:
        for out, model in zip(self.logs, self.models, strict=True):
            assert out.after(0) == model.kept
            assert out.next_seq == len(model.events) + 1
            assert out.first_seq() == (model.kept[0].seq if model.kept else out.next_seq)
            assert (out.exited, out.closed) == (model.exit_code is not None, model.closed)
            if model.closed:
                assert out.closed_seq == len(model.events)  # nothing comes after
        assert self.budget.used == sum(model.size() for model in self.models)


TestLogsAgainstModels = LogsAgainstModels.TestCase
TestLogsAgainstModels.settings = settings(deadline=None, max_examples=30, stateful_step_count=30)


def test_a_principal_above_its_share_keeps_a_small_window_and_others_do_not() -> None:
    whole = Budget(1_000_000)
    alice, bob = Share(whole), Share(whole)
    loud, quiet = OutputLog(1, alice), OutputLog(1, bob)
    loud.append(b"stdout", b"x" * 400_000)
    assert (alice.used, alice.limit, whole.used, loud.crowded) == (400_000, 600_000, 400_000, False)
    loud.append(b"stdout", b"x" * 200_000)  # more than is free then
    assert (loud.dropped_bytes, alice.used, whole.used) == (600_000, 0, 0)
    loud.append(b"stdout", b"x" * 450_000)
    quiet.append(b"stdout", b"x" * 200_000)
    assert (bob.used, whole.used, quiet.dropped_bytes) == (200_000, 650_000, 0)
    loud.release()
    assert (alice.used, whole.used) == (0, 200_000)
