"""Numbered events in, ordered events out: each once, none missing, or an error."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outfitter.core.events import CLOSED, EARLY_BYTES, EARLY_EVENTS, Event, EventOrder, Exited, Missed, Output
from outfitter.core.events import missed as missed_in
from outfitter.core.output import Budget, OutputLog, Page
from outfitter.errors import OutputLost
from outfitter.protocol.process import ReadResult

A, B, C, D = (Output("stdout", letter) for letter in (b"a", b"b", b"c", b"d"))


def missed(
    chunks: list[tuple[int, Output]],
    next_seq: int,
    code: int | None = None,
    *,
    closed: bool = False,
    denied: bool = False,
) -> Missed:
    """What a catch-up read gives; with a code the leader has exited."""
    return Missed(chunks, next_seq, code is not None, code, closed, denied)


def after(*events: Event) -> EventOrder:
    """An order that has handed these out."""
    order = EventOrder()
    for seq, event in enumerate(events, 1):
        assert order.receive(seq, event) == [event]
    return order


# Pushed


def test_events_in_order_are_handed_out_at_once() -> None:
    order = EventOrder()
    pushed: list[Event] = [A, Exited(3), B, CLOSED]
    assert [order.receive(seq, event) for seq, event in enumerate(pushed, 1)] == [[one] for one in pushed]
    assert (order.last, order.exit_known) == (4, True)


def test_early_event_waits_for_the_ones_before_it() -> None:
    order = EventOrder()
    assert [order.receive(4, D), order.receive(2, B), order.receive(1, A), order.receive(3, C)] == [
        [],
        [],
        [A, B],
        [C, D],
    ]


def test_second_copy_of_an_event_is_dropped_early_or_late() -> None:
    order = after(A)
    assert [order.receive(1, A), order.receive(3, C), order.receive(3, C), order.receive(2, B)] == [
        [],
        [],
        [],
        [B, C],
    ]
    assert order.receive(3, C) == []


def test_early_exit_is_known_before_it_is_handed_out() -> None:
    order = EventOrder()
    assert (order.receive(2, Exited(0)), order.exit_known, order.last) == ([], True, 0)


def test_event_that_never_comes_is_lost_when_too_many_wait_for_it() -> None:
    order = after(A)
    for seq in range(3, 3 + EARLY_EVENTS):
        assert order.receive(seq, B) == []
    text = f"event 2 did not come, though {EARLY_EVENTS + 1} later ones did: it is lost"
    with pytest.raises(OutputLost) as raised:
        order.receive(3 + EARLY_EVENTS, B)
    assert str(raised.value) == text


def test_event_that_never_comes_is_lost_when_too_many_bytes_wait_for_it() -> None:
    order = EventOrder()
    assert order.receive(2, Output("stdout", bytes(EARLY_BYTES))) == []
    with pytest.raises(OutputLost, match=r"^event 1 did not come, though 2 later ones did: it is lost$"):
        order.receive(3, A)


def test_bytes_that_were_handed_out_do_not_count_any_more() -> None:
    big = Output("stdout", bytes(EARLY_BYTES))
    order = EventOrder()
    for seq in range(1, 9, 2):
        assert order.receive(seq + 1, big) == []
        assert order.receive(seq, A) == [A, big]


def test_copies_of_what_was_handed_out_do_not_wait_for_anything() -> None:
    order = after(A)
    for _ in range(EARLY_EVENTS + 1):
        assert order.receive(1, Output("stdout", bytes(EARLY_BYTES))) == []
    assert [order.receive(3, C), order.receive(2, B)] == [[], [B, C]]


# Read after a break


def test_read_gives_what_was_missed() -> None:
    order = after(A)
    assert order.merge(missed([(2, B), (3, C)], 4)) == [B, C]
    assert order.receive(4, D) == [D]


def test_read_that_overlaps_what_is_there_doubles_nothing() -> None:
    order = after(A, B)
    order.receive(4, D)
    assert order.merge(missed([(1, A), (2, B), (3, C), (4, D)], 5)) == [C, D]


@pytest.mark.parametrize("known", [1, 2])
def test_read_that_overlaps_what_was_handed_out_keeps_none_of_it(known: int) -> None:
    big = Output("stdout", bytes(EARLY_BYTES))
    order = after(*[A, B][:known])
    assert order.merge(missed([(known, big)], known + 1)) == []
    assert order.receive(known + 2, big) == []  # alone it is not too much


def test_read_that_overlaps_what_waits_keeps_it_once() -> None:
    big = Output("stdout", bytes(EARLY_BYTES))
    order = after(A)
    assert order.receive(3, big) == []
    assert order.merge(missed([(2, B), (3, big)], 4)) == [B, big]
    assert order.receive(5, big) == []


def test_limits_are_sixteen_times_the_references() -> None:
    assert (EARLY_EVENTS, EARLY_BYTES) == (16 * 256, 16 << 20)


def test_read_with_nothing_new_gives_nothing() -> None:
    assert after(A, B).merge(missed([], 3)) == []


def test_event_pushed_after_the_read_was_answered_waits_for_nothing() -> None:
    order = after(A)
    assert order.receive(3, C) == []
    assert order.merge(missed([(2, B)], 3)) == [B, C]


@pytest.mark.parametrize("place", [2, 3, 4])
def test_one_hole_is_the_exit(place: int) -> None:
    chunks = [(seq, B) for seq in (2, 3, 4) if seq != place]
    expected: list[Event] = [Exited(7) if seq == place else B for seq in (2, 3, 4)]
    assert after(A).merge(missed(chunks, 5, 7)) == expected


def test_exit_from_a_read_says_whether_the_sandbox_interfered() -> None:
    assert EventOrder().merge(missed([], 2, 1, denied=True)) == [Exited(1, True)]


def test_exit_from_a_read_has_its_signal() -> None:
    told = ReadResult([(1, "stdout", b"a")], 3, True, 137, False, sandbox_denied=True, signal=9)
    found = missed_in(told)
    assert found == Missed([(1, Output("stdout", b"a"))], 3, True, 137, False, True, 9)
    assert EventOrder().merge(found) == [Output("stdout", b"a"), Exited(137, True, 9)]


def test_close_is_the_last_number() -> None:
    assert after(A).merge(missed([(2, B)], 5, 0, closed=True)) == [B, Exited(0), CLOSED]


def test_exit_that_was_pushed_early_fills_its_own_place() -> None:
    order = after(A)
    order.receive(3, Exited(9))
    assert order.merge(missed([(2, B)], 5, 9, closed=True)) == [B, Exited(9), CLOSED]


def test_close_that_was_pushed_early_is_handed_out_once() -> None:
    order = after(A)
    order.receive(4, CLOSED)
    assert order.merge(missed([(2, B)], 5, 9, closed=True)) == [B, Exited(9), CLOSED]


def gone(through: int) -> str:
    return f"process events are no longer retained while recovering through sequence {through}"


LOSSES: dict[str, tuple[EventOrder, Missed, int]] = {
    "one piece": (after(A), missed([(3, C)], 4), 3),
    "one piece, and the exit": (after(A), missed([(3, C)], 5, 0), 4),
    "one piece, the exit was seen": (after(A, Exited(0)), missed([(4, D)], 5, 0), 4),
    "everything": (after(A), missed([], 1_000_000_000), 999_999_999),
    "everything but the end": (after(A), missed([(9, B)], 12, 0, closed=True), 11),
    "an exit without its code": (after(A), Missed([(2, B)], 4, True, None, False), 3),
}


@pytest.mark.parametrize(("order", "read", "through"), LOSSES.values(), ids=LOSSES.keys())
def test_any_other_hole_is_a_loss_in_the_words_of_the_reference(
    order: EventOrder, read: Missed, through: int
) -> None:
    # Spec 14.5.
    with pytest.raises(OutputLost) as raised:
        order.merge(read)
    assert str(raised.value) == gone(through)


# Beginning in the middle


def test_events_before_the_beginning_are_not_wanted() -> None:
    order = EventOrder()
    order.receive(2, B)
    order.receive(4, D)
    order.skip_to(4)
    assert order.receive(2, B) == []
    assert order.merge(missed([], 4)) == [D]


def test_beginning_never_goes_back() -> None:
    order = after(A, B)
    order.skip_to(1)
    assert order.receive(2, B) == []
    assert order.last == 2


def test_bytes_before_the_beginning_do_not_count_any_more() -> None:
    order = EventOrder()
    order.receive(2, Output("stdout", bytes(EARLY_BYTES)))
    order.skip_to(3)
    assert order.receive(4, A) == []


# Any history over any link


class Story(RuleBasedStateMachine):
    """A process, a server that retains little of it, a link that breaks, and the client's order.

    The server is the real output log. What it pushes goes over a wire that may double a message, or let
    one overtake a few others; a cut loses what is on the wire. The client reads once per connection what
    it missed, and goes on from there.
    """

    OVERTAKEN = 3  # how many others a message may overtake

    @initialize(retained=st.integers(1, 40), streams=st.integers(0, 2))
    def begin(self, retained: int, streams: int) -> None:
        self.log = OutputLog(streams, Budget(1 << 30), retained)
        self.streams = streams
        self.history: dict[int, Event] = {}
        self.order = EventOrder()
        self.delivered: list[Event] = []
        self.known: set[int] = set()  # what has reached the client, handed out or not
        self.wire: list[int | Page] = []
        self.connected = True
        self.asked: int | None = None  # the cursor of a read that the server has not answered yet
        self.over = False

    # The process

    def happened(self, seq: int, event: Event) -> None:
        self.history[seq] = event
        if self.connected:
            self.wire.append(seq)

    @precondition(lambda self: self.streams > 0)
    @rule(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4))
    def print(self, sizes: list[int]) -> None:
        for size in sizes:
            data = bytes([self.log.next_seq % 256]) * size  # so that no two are alike
            chunk = self.log.append(b"stdout", data)
            self.happened(chunk.seq, Output("stdout", data))

    @precondition(lambda self: not self.log.exited)
    @rule(code=st.integers(0, 255))
    def exit(self, code: int) -> None:
        self.happened(self.log.exit(code), Exited(code))
        self.maybe_close()

    @precondition(lambda self: self.streams > 0)
    @rule()
    def end_stream(self) -> None:
        self.streams -= 1
        self.log.end_stream()
        self.maybe_close()

    def maybe_close(self) -> None:
        seq = self.log.close()
        if seq is not None:
            self.happened(seq, CLOSED)

    # The link

    @precondition(lambda self: self.connected)
    @rule()
    def cut(self) -> None:
        self.connected = False
        self.wire.clear()
        self.asked = None

    @precondition(lambda self: not self.connected)
    @rule()
    def come_back(self) -> None:
        self.connected = True
        self.asked = self.order.last

    @precondition(lambda self: self.asked is not None)
    @rule()
    def answer(self) -> None:
        assert self.asked is not None
        self.wire.append(self.log.read(self.asked, None))
        self.asked = None

    @precondition(lambda self: self.wire)
    @rule(place=st.integers(0, OVERTAKEN), doubled=st.booleans())
    def arrive(self, place: int, doubled: bool) -> None:
        item = self.wire[min(place, len(self.wire) - 1)]
        if not doubled or isinstance(item, Page):
            self.wire.remove(item)
        self.take(item)

    # The client

    def take(self, item: int | Page) -> None:
        if self.over:
            return
        if isinstance(item, int):
            self.known.add(item)
            self.delivered += self.order.receive(item, self.history[item])
            return
        chunks = [(chunk.seq, Output(chunk.stream.decode(), chunk.data)) for chunk in item.chunks]
        read = Missed(chunks, item.next_seq, item.exited, item.exit_code, item.closed)
        self.known |= {chunk.seq for chunk in item.chunks}
        evicted = {
            seq
            for seq in range(1, item.next_seq)
            if seq not in self.known and isinstance(self.history[seq], Output)
        }
        if evicted:
            with pytest.raises(OutputLost, match=gone(item.next_seq - 1)):
                self.order.merge(read)
            self.over = True
            return
        self.known |= set(range(1, item.next_seq))
        self.delivered += self.order.merge(read)
        assert self.order.last >= item.next_seq - 1

    # What must hold

    @invariant()
    def what_was_handed_out_is_the_history(self) -> None:
        if hasattr(self, "order"):
            assert self.delivered == [self.history[seq] for seq in range(1, self.order.last + 1)]

    @invariant()
    def nothing_that_is_due_is_held_back(self) -> None:
        if hasattr(self, "order") and not self.over:
            assert self.order.last + 1 not in self.known

    def teardown(self) -> None:
        """A link that holds at last brings everything, unless some of it is gone."""
        if not hasattr(self, "order"):
            return
        if not self.connected:
            self.come_back()
        if self.asked is not None:
            self.answer()
        while self.wire:
            self.take(self.wire.pop(0))
        if not self.over:
            assert self.delivered == [self.history[seq] for seq in sorted(self.history)]


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
