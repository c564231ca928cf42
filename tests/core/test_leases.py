"""The book of a pool: each rule, every pair of state and event, and random orders of events."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from outfitter.core import leases
from outfitter.core.leases import (
    CANCELLED,
    DEAD,
    DONE,
    DRAINED,
    DRAINING,
    FENCE,
    LEASE_TABLE,
    LEASED,
    LOSE,
    LOST,
    OFFER,
    OFFERED,
    QUEUED,
    READY,
    REFUSE,
    REFUSED,
    RENEW,
    RENEWED,
    RETENTION,
    RETURNED,
    RETURNING,
    SLOT_TABLE,
    START,
    STARTING,
    STOP,
    STOPPED,
    LeaseFence,
    Leases,
    PoolBounds,
    Transition,
)
from outfitter.core.shape import Shape
from outfitter.errors import LeaseRefused

PLAIN, BIG = Shape(1), Shape(8)


def book(size: int = 2, told: list[Transition] | None = None, **bounds: float) -> Leases:
    made = PoolBounds(size, PLAIN, **bounds)  # type: ignore[arg-type]
    return Leases(made, None if told is None else told.append)


def done(one: Leases) -> list[tuple[str, str, str]]:
    """What is to be done, in short."""
    return [(act.do, act.slot_id, act.lease_id) for act in one.take()]


def serving(size: int = 2, **bounds: float) -> Leases:
    """One slot, s1, leased to a."""
    one = book(size, **bounds)
    one.request("a", PLAIN, 0)
    one.ready("s1", "n1", 1)
    assert done(one)[-1] == (OFFER, "s1", "a")
    return one


# Giving


def test_a_request_starts_a_slot_and_is_given_it() -> None:
    one = serving()
    assert one.leases["a"].state is LEASED
    assert one.slots["s1"].lease_id == "a"


def test_no_more_slots_than_are_needed_or_allowed() -> None:
    one = book(3)
    for name in "abcde":
        one.request(name, PLAIN, 0)
    assert done(one) == [(START, f"s{number}", "") for number in (1, 2, 3)]
    assert (one.alive, one.waiting) == (3, 5)


def test_no_more_starts_at_a_time_than_the_engine_takes() -> None:
    one = book(10, max_starting=2)
    for name in "abc":
        one.request(name, PLAIN, 0)
    assert done(one) == [(START, "s1", ""), (START, "s2", "")]
    one.ready("s1", "n1", 1)
    assert done(one) == [(OFFER, "s1", "a"), (START, "s3", "")]


def test_a_returned_slot_is_renewed_and_never_given_before_it_is_ready() -> None:
    one = serving()
    one.returned("a", 2)
    assert done(one) == [(RENEW, "s1", "")]
    one.request("b", PLAIN, 3)
    assert done(one) == []  # the slot that is renewed will serve it
    one.renewing("s1", 4)
    assert one.slots["s1"].state is STARTING
    one.ready("s1", "n1", 5)
    assert done(one) == [(OFFER, "s1", "b")]


def test_the_slot_that_was_used_last_is_given_first() -> None:
    one = book(2, warm=2)
    one.tick(0)
    one.ready("s1", "n1", 1)
    one.ready("s2", "n2", 2)
    one.take()
    one.request("a", PLAIN, 3)
    assert done(one)[0] == (OFFER, "s2", "a")


def test_groups_take_turns() -> None:
    one = serving(1)
    for name in ("b1", "b2", "c1"):
        one.request(name, PLAIN, 1, group=name[0])
    order = []
    held = "a"
    for now in range(3):
        one.returned(held, now + 2)
        one.renewing("s1", now + 2)
        one.ready("s1", "n1", now + 2)
        held = next(act.lease_id for act in one.take() if act.do == OFFER)
        order.append(held)
    assert order == ["b1", "c1", "b2"]


def test_warm_slots_are_started_though_nobody_waits() -> None:
    one = book(3, warm=2)
    one.tick(0)
    assert done(one) == [(START, "s1", ""), (START, "s2", "")]
    one.request("a", PLAIN, 1)
    assert done(one) == [(START, "s3", "")]


# Refusing


def test_a_full_queue_refuses() -> None:
    one = book(1, max_waiting=1)
    one.request("a", PLAIN, 0)
    with pytest.raises(LeaseRefused) as caught:
        one.request("b", PLAIN, 0)
    assert caught.value.reason == "queue-full"
    assert "b" not in one.leases


def test_a_lease_that_waits_too_long_is_refused_and_others_are_not() -> None:
    one = book(1)
    one.request("a", PLAIN, 0, timeout=5)
    one.request("b", PLAIN, 0, timeout=6)
    one.take()
    one.tick(4.9)
    assert done(one) == []
    one.tick(5)
    refused = one.take()
    assert [(act.do, act.lease_id, act.reason) for act in refused] == [(REFUSE, "a", "timed-out")]
    assert list(one.leases) == ["b"]


def test_a_given_lease_has_no_deadline_any_more() -> None:
    one = book(1)
    one.request("a", PLAIN, 0, timeout=5)
    one.ready("s1", "n1", 1)
    one.take()
    one.tick(100)
    assert one.leases["a"].state is LEASED
    assert done(one) == []


def test_a_cancelled_lease_is_given_to_nobody() -> None:
    one = book(1)
    one.request("a", PLAIN, 0, timeout=5)
    one.request("b", PLAIN, 0)
    one.cancel("a", 1)
    one.ready("s1", "n1", 2)
    assert done(one) == [(START, "s1", ""), (OFFER, "s1", "b")]
    one.cancel("b", 3)  # has it already
    assert one.leases["b"].state is LEASED


def test_a_start_that_takes_too_long_is_repeated_once_then_the_oldest_is_refused() -> None:
    one = book(1, start_timeout=10)
    one.request("new", PLAIN, 1, group="b")
    one.request("old", PLAIN, 0, group="a")
    one.take()
    one.tick(11)
    assert done(one) == [(STOP, "s1", ""), (START, "s2", "")]
    one.tick(21)
    assert done(one) == [(REFUSE, "", "old"), (STOP, "s2", ""), (START, "s3", "")]


def test_a_setup_has_its_own_time() -> None:
    one = book(1, start_timeout=10)
    one.nodes = 2
    one.request("a", PLAIN, 0)
    one.setting_up("s1")
    one.tick(500)
    assert done(one) == [(START, "s1", "")]
    one.ready("s1", "n1", 501)
    one.returned("a", 502)
    one.renewing("s1", 502)
    one.take()
    one.tick(512)  # the next server does not come
    assert (STOP, "s1", "") in done(one)
    one.setting_up("s1")  # nothing, as it is gone


def test_a_start_that_works_forgives_the_late_one_before_it() -> None:
    one = book(1, start_timeout=10)
    one.request("a", PLAIN, 0)
    one.request("b", PLAIN, 0)
    one.tick(10)
    one.ready("s2", "n1", 11)
    one.lost("s2", "silent", "", 12)
    one.take()
    one.tick(22)
    assert done(one) == [(STOP, "s3", ""), (START, "s4", "")]
    one.tick(32)
    assert done(one) == [(REFUSE, "", "b"), (STOP, "s4", "")]


def test_who_waited_for_a_late_start_is_told_the_last_word_of_the_engine() -> None:
    one = book(1, start_timeout=10)
    one.request("a", PLAIN, 0)
    one.tick(10)
    one.tick(20)
    (refused,) = [act for act in one.take() if act.do == REFUSE]
    assert (refused.reason, refused.detail) == ("timed-out", "no executor was ready within 10 s")
    one.request("b", PLAIN, 21)
    one.start_failed("s3", "n1", "no room", 21)
    one.tick(31)
    one.tick(41)
    (refused,) = [act for act in one.take() if act.do == REFUSE]
    assert refused.detail == "no executor was ready within 10 s: no room"


def test_starts_that_were_asked_for_together_are_late_together_and_each_is_repeated() -> None:
    one = book(3, start_timeout=10)
    for name in "abc":
        one.request(name, PLAIN, 0)
    one.take()
    one.tick(10)
    assert [act.do for act in one.take()] == [STOP, STOP, STOP, START, START, START]
    one.tick(20)
    assert [act.lease_id for act in one.take() if act.do == REFUSE] == ["a", "b", "c"]


def test_nobody_is_refused_for_slow_starts_while_others_serve() -> None:
    """The engine has room for one, and the pool may have two."""
    one = serving(2, start_timeout=10)
    one.request("b", PLAIN, 1)
    for now in (11, 21, 31):
        one.tick(now)
        assert REFUSE not in {act.do for act in one.take()}
    one.returned("a", 40)
    one.renewing("s1", 40)
    one.ready("s1", "n1", 41)
    assert (OFFER, "s1", "b") in done(one)


def test_five_failures_in_a_row_fail_the_pool_with_the_last_error() -> None:
    one = book(1)
    one.request("a", PLAIN, 0)
    for number in range(1, 6):
        one.tick(number)
        assert (START, f"s{number}", "") in done(one)
        one.start_failed(f"s{number}", "n1", f"broken {number}", number)
    assert done(one) == [(STOP, "s5", ""), (REFUSE, "", "a")]
    assert "broken 5" in one.failed
    assert one.leases == {}
    with pytest.raises(LeaseRefused, match="broken 5"):
        one.request("b", PLAIN, 9)


def test_failures_on_one_of_several_nodes_make_it_suspect_and_fail_nobody() -> None:
    one = book(1)
    one.nodes = 4
    one.request("a", PLAIN, 0)
    for number in range(1, 9):
        one.start_failed(f"s{number}", "n1", "broken", 10 * number)
        one.tick(10 * number + 9)
    assert not one.failed
    assert one.take()[-1].avoid == ("n1",)


def test_failures_whose_node_nobody_knows_fail_the_pool_too() -> None:
    one = book(1)
    one.nodes = 16
    one.request("a", PLAIN, 0)
    for number in range(1, 6):
        assert not one.failed
        one.start_failed(f"s{number}", "", "broken", 10 * number)
        one.tick(10 * number + 9)
    assert one.failed


def test_a_node_that_takes_many_starts_along_fails_nobody() -> None:
    """None of them says where it was. Rounds of starts count, and the third is one too many of 3 nodes."""
    one = book(8)
    one.nodes = 3
    for number in range(8):
        one.request(f"l{number}", PLAIN, 0)
    for now in (10, 20, 30):
        assert not one.failed
        for slot in [slot for slot in one.slots.values() if slot.since < now]:
            one.start_failed(slot.slot_id, "", "its node has died", now)
        one.tick(now + 9)
    assert one.failed


def test_a_start_is_not_repeated_at_once_for_ever() -> None:
    one = book(1)
    one.nodes = 16
    one.request("a", PLAIN, 0)
    waits = []
    now = 0.0
    for number in range(1, 12):
        one.take()
        one.start_failed(f"s{number}", "n1", "broken", now)
        failed = now
        while not [act for act in one.acts if act.do == START]:
            now += 0.25
            one.tick(now)
        waits.append(now - failed)
    assert waits == [0, 0, 0.25, 0.5, 1, 2, 4, 5, 5, 5, 5]


def test_an_executor_that_is_lost_before_it_is_ready_is_a_start_that_failed() -> None:
    one = book(1)
    one.request("a", PLAIN, 0)
    for number in range(1, 6):
        one.lost(f"s{number}", "executor-ended", "the actor died", 10 * number)
        one.tick(10 * number + 9)
    assert "executor-ended: the actor died" in one.failed


def test_a_start_that_works_forgets_failures() -> None:
    one = book(1)
    for lease, first in (("a", 1), ("b", 6)):
        one.request(lease, PLAIN, 0)
        for number in range(first, first + 4):
            one.start_failed(f"s{number}", "n1", "broken", 10 * number)
            one.tick(10 * number + 9)
        one.ready(f"s{first + 4}", "n1", 200)
        one.lost(f"s{first + 4}", "executor-ended", "", 201)
    assert not one.failed


def test_a_failed_setup_is_told_to_whoever_is_next() -> None:
    one = book(1)
    one.request("a", PLAIN, 0)
    one.request("b", PLAIN, 0)
    one.take()
    one.start_failed("s1", "n1", "make: no rule", 1, setup=True)
    assert [(act.do, act.lease_id, act.reason) for act in one.take()] == [
        (REFUSE, "a", "setup-failed"),
        (STOP, "", "start-failed"),
        (START, "", ""),
    ]


# Losing


def test_a_lost_slot_loses_its_lease_and_is_replaced_for_others() -> None:
    one = serving(1)
    one.request("b", PLAIN, 2)
    one.lost("s1", "silent", "nothing was heard for 4 s", 3)
    assert done(one) == [(LOSE, "s1", "a"), (STOP, "s1", ""), (START, "s2", "")]
    assert "a" not in one.leases
    one.returned("a", 4)  # its block ends later
    assert done(one) == []


def test_losing_a_slot_that_nobody_holds_disturbs_no_lease() -> None:
    one = book(1)
    one.request("a", PLAIN, 0)
    one.lost("s1", "node-lost", "", 1)
    assert done(one) == [(START, "s1", ""), (STOP, "s1", ""), (START, "s2", "")]
    assert one.leases["a"].state is QUEUED


def test_suspects_are_avoided_for_a_while_and_at_most_half_of_the_nodes() -> None:
    one = book(4)
    one.nodes = 4
    for number, name in enumerate("abc", 1):
        one.request(name, PLAIN, 0)
        one.ready(f"s{number}", f"n{number}", number)
    for number in (1, 2, 3):
        one.lost(f"s{number}", "silent", "", 10 + number)
    one.take()
    one.request("d", PLAIN, 20)
    assert one.take()[0].avoid == ("n3", "n2")
    one.tick(10 + 2 + 60)
    assert list(one.suspects) == ["n3"]


def test_an_executor_that_ended_by_itself_says_nothing_about_its_node() -> None:
    one = serving()
    one.lost("s1", "executor-ended", "", 2)
    assert one.suspects == {}


def test_a_slot_that_the_engine_has_lost_serves_its_lease_to_the_end() -> None:
    one = serving(1)
    one.request("b", PLAIN, 2)
    one.drained("s1", "engine-lost", 3)
    assert done(one) == [(START, "s2", "")]  # at once; and no lease is lost
    one.returned("a", 4)
    assert done(one) == [(STOP, "s1", "")]
    one.stopped("s1", 5)
    assert "s1" not in one.slots


# Stopping


def test_an_idle_slot_above_warm_is_stopped() -> None:
    one = serving(2, warm=1, idle=300)
    one.ready("s2", "n1", 1)
    one.returned("a", 2)
    one.renewing("s1", 2)
    one.ready("s1", "n1", 3)
    one.take()
    one.tick(300)
    assert done(one) == []
    one.tick(301)
    assert done(one) == [(STOP, "s2", "")]
    one.tick(1000)
    assert done(one) == []  # the last one is kept warm


def test_a_slot_is_replaced_after_a_hundred_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_LEASES", 2)
    one = serving(1)
    one.request("b", PLAIN, 1)
    one.returned("a", 2)
    one.renewing("s1", 2)
    one.ready("s1", "n1", 3)
    one.request("c", PLAIN, 4)
    one.take()
    one.returned("b", 5)
    assert done(one) == [(STOP, "s1", ""), (START, "s2", "")]


def test_a_slot_is_replaced_after_a_day() -> None:
    one = serving(1)
    one.returned("a", 24 * 3600)
    assert done(one) == [(STOP, "s1", "")]


def test_draining_refuses_new_leases_and_serves_those_there_are() -> None:
    one = serving(1)
    one.request("b", PLAIN, 2)
    one.drain(3)
    with pytest.raises(LeaseRefused, match="draining"):
        one.request("c", PLAIN, 3)
    one.returned("a", 4)
    assert done(one) == [(RENEW, "s1", "")]
    one.renewing("s1", 4)
    one.ready("s1", "n1", 5)
    one.returned("b", 6)
    assert done(one) == [(OFFER, "s1", "b"), (STOP, "s1", "")]
    assert one.leases == {}


def test_a_drained_pool_stops_what_is_ready() -> None:
    one = book(1, warm=1)
    one.tick(0)
    one.ready("s1", "n1", 1)
    one.take()
    one.drain(2)
    assert done(one) == [(STOP, "s1", "")]


def test_closing_refuses_those_who_wait_loses_what_is_held_and_stops_the_rest() -> None:
    one = serving(3, warm=1)
    one.ready("s2", "n1", 2)
    one.request("b", BIG, 2)
    one.take()
    one.drained("s2", "engine-lost", 2)  # it is being stopped already
    one.take()
    one.close("the pool is closed", 3)
    found = [(act.do, act.slot_id, act.lease_id, act.detail) for act in one.take() if act.do != STOP]
    closed = "the pool is closed"
    assert found == [(REFUSE, "", "b", closed), (LOSE, "s1", "a", closed)]
    assert {slot.state for slot in one.slots.values()} == {DRAINING}
    with pytest.raises(LeaseRefused, match="the pool is closed"):
        one.request("c", PLAIN, 4)


# Shapes


def test_an_idle_slot_of_another_shape_makes_room() -> None:
    one = book(1, warm=1)
    one.tick(0)
    one.ready("s1", "n1", 1)
    one.take()
    one.request("a", BIG, 2)
    assert done(one) == [(STOP, "s1", ""), (START, "s2", "")]
    assert one.slots["s2"].shape == BIG


def test_a_shape_that_always_has_work_leaves_a_share_to_another() -> None:
    one = book(2)
    for name in "abcdef":
        one.request(name, PLAIN, 0)
    one.ready("s1", "n1", 1)
    one.ready("s2", "n1", 1)
    one.request("big", BIG, 2)
    one.take()
    one.returned("a", 3)
    assert done(one) == [(STOP, "s1", ""), (START, "s3", "")]
    assert one.slots["s3"].shape == BIG
    one.returned("b", 4)  # the other half stays theirs
    assert done(one) == [(RENEW, "s2", "")]


def test_with_more_shapes_than_slots_who_came_first_is_first() -> None:
    one = book(1)
    one.request("a", PLAIN, 0)
    one.ready("s1", "n1", 1)
    one.request("big", BIG, 2)
    one.request("b", PLAIN, 3)
    one.take()
    one.returned("a", 4)
    assert done(one) == [(STOP, "s1", ""), (START, "s2", "")]
    one.ready("s2", "n1", 5)
    one.returned("big", 6)
    assert done(one) == [(OFFER, "s2", "big"), (STOP, "s2", ""), (START, "s3", "")]


# The engine


def test_without_its_engine_a_pool_starts_nothing_and_fails_after_a_minute() -> None:
    one = serving(2)
    one.engine_failed("connection refused", 2)
    one.request("b", PLAIN, 3)
    assert done(one) == []
    one.tick(61)
    assert done(one) == []
    one.tick(62)
    assert done(one) == [(REFUSE, "", "b")]
    assert one.leases["a"].state is LEASED


def test_an_engine_that_is_back_goes_on() -> None:
    one = book()
    one.engine_failed("connection refused", 0)
    one.request("a", PLAIN, 1)
    one.engine_back(2)
    assert done(one) == [(START, "s1", "")]
    one.tick(100)
    assert not one.failed


def test_a_slow_start_is_asked_for_once_more_and_the_first_stays() -> None:
    one = book(2)
    one.nodes = 2
    one.request("a", PLAIN, 0)
    one.ready("s1", "n1", 2)
    one.request("b", PLAIN, 2)
    one.take()
    one.tick(7)
    assert done(one) == []
    one.tick(8)  # three times the median of 2 s
    assert done(one) == [(START, "s3", "")]
    one.tick(9)
    assert done(one) == []  # once
    one.ready("s3", "n2", 10)
    assert done(one) == [(STOP, "s2", ""), (OFFER, "s3", "b")]
    one.ready("s2", "n1", 11)
    assert one.slots["s2"].state is DRAINING


def test_a_renewal_that_hangs_is_asked_for_elsewhere() -> None:
    one = serving(1)
    one.nodes = 4
    one.request("b", PLAIN, 1)
    one.returned("a", 2)
    one.renewing("s1", 2)
    one.take()
    one.tick(7)
    (start,) = one.take()
    assert (start.do, start.avoid) == (START, ("n1",))
    one.ready(start.slot_id, "n2", 8)
    assert done(one) == [(STOP, "s1", ""), (OFFER, start.slot_id, "b")]


def test_a_node_whose_executors_end_together_is_suspect() -> None:
    """What was asked for between the first and the second may have been placed there: once more elsewhere."""
    one = book(3)
    one.nodes = 4
    for name in "abcd":
        one.request(name, PLAIN, 0)
    for number in (1, 2, 3):
        one.ready(f"s{number}", "n1" if number < 3 else "n2", 1)
    one.take()
    one.lost("s1", "executor-ended", "refused", 2)
    first = [act for act in one.take() if act.do == START]
    one.lost("s3", "executor-ended", "refused", 2.1)  # of another node
    assert not one.suspects
    one.request("e", PLAIN, 2.2)
    one.take()
    one.lost("s2", "executor-ended", "refused", 2.9)
    starts = [act for act in one.take() if act.do == START]
    assert [act.avoid for act in first] == [()]
    assert starts and {act.avoid for act in starts} == {("n1",)}
    assert one.slots[first[0].slot_id].twin in [act.slot_id for act in starts]


def test_executors_of_a_node_that_end_one_after_the_other_say_nothing_about_it() -> None:
    one = book(2)
    one.nodes = 4
    for name in "ab":
        one.request(name, PLAIN, 0)
    for number in (1, 2):
        one.ready(f"s{number}", "n1", 1)
    one.lost("s1", "executor-ended", "refused", 2)
    one.lost("s2", "executor-ended", "refused", 3.1)
    assert not one.suspects


def test_executors_that_are_lost_together_for_reasons_of_their_own_say_nothing_about_their_node() -> None:
    one = book(2)
    one.nodes = 4
    for name in "ab":
        one.request(name, PLAIN, 0)
    for number in (1, 2):
        one.ready(f"s{number}", "n1", 1)
    one.lost("s1", "out-of-memory", "", 2)
    one.lost("s2", "out-of-memory", "", 2)
    assert not one.suspects


def test_a_start_is_slow_by_the_median_of_the_others() -> None:
    one = book(8)
    one.nodes = 2
    for number, took in enumerate((2, 3, 4, 10, 10), 1):
        one.request(f"a{number}", PLAIN, 0)
        one.ready(f"s{number}", "n1", took)
    one.request("b", PLAIN, 20)
    one.take()
    one.tick(31.9)
    assert done(one) == []
    one.tick(32)  # three times 4 s
    assert done(one) == [(START, "s7", "")]


# The fence

# The fence


def test_a_fence_is_longer_than_an_executor_can_run_without_us() -> None:
    assert FENCE > DEAD + RETENTION
    fence = LeaseFence(100.0)
    assert fence.left(100.0) == FENCE
    assert fence.left(100.0 + FENCE / 2) == FENCE / 2
    assert fence.left(200.0) == 0


def test_what_a_keeper_has_seen_to_end_needs_no_fence() -> None:
    fence = LeaseFence(100.0)
    fence.confirm(103.0)
    assert fence.left(103.0) == 0
    fence.confirm(500.0)  # never later
    assert fence.left(103.0) == 0


# Tables

ALL = {QUEUED, LEASED, DONE, CANCELLED, REFUSED, STARTING, READY, RETURNING, DRAINING, LOST, STOPPED}


def test_the_tables_have_every_state_and_no_way_back_from_an_end() -> None:
    ends = {DONE, CANCELLED, REFUSED, LOST, STOPPED}
    for table in (LEASE_TABLE, SLOT_TABLE):
        assert not {state for state, _ in table} & ends
        assert {*table.values(), *(state for state, _ in table)} <= ALL
        # From every state that is no end, an end can be reached.
        reached = set(ends)
        for _ in table:
            reached |= {state for (state, _), after in table.items() if after in reached}
        assert {state for state, _ in table} <= reached


def test_only_a_ready_slot_is_given_out_and_only_a_lease_that_waits() -> None:
    assert [state for state, event in SLOT_TABLE if event == OFFERED] == [READY]
    assert [state for state, event in LEASE_TABLE if event == OFFERED] == [QUEUED]
    assert [state for (state, event), after in SLOT_TABLE.items() if after == READY] == [STARTING]
    assert {event for _, event in SLOT_TABLE} == {READY, OFFERED, RETURNED, RENEWED, DRAINED, LOST, STOPPED}


# Any order


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events(seed: int) -> None:
    """No lease has two holders, none is forgotten, each ends once, and the counts are those of the tables."""
    random = Random(seed)
    told: list[Transition] = []
    one = book(random.randint(1, 5), told, warm=random.randint(0, 2), idle=20, start_timeout=30)
    one.nodes = random.randint(1, 3)
    now, asked, offered = 0.0, 0, Counter[str]()
    ended: Counter[str] = Counter()
    holders: dict[str, str] = {}  # slot: lease, as the pool was told to give them

    def act() -> None:
        for each in one.take():
            if each.do == OFFER:
                assert each.slot_id not in holders
                holders[each.slot_id] = each.lease_id
                offered[each.lease_id] += 1
            elif each.do in (LOSE, REFUSE):
                ended[each.lease_id] += 1
                holders.pop(each.slot_id, None)
            elif each.do == STOP:
                assert each.slot_id not in holders
                if random.random() < 0.8:
                    one.stopped(each.slot_id, now)

    def step() -> None:
        nonlocal asked
        slot = random.choice([*one.slots, "s0"])
        match random.randint(0, 11):
            case 0 | 1 | 2:
                asked += 1
                try:
                    wait = random.choice([None, 15.0])
                    shape = random.choice([PLAIN, PLAIN, BIG])
                    one.request(f"l{asked}", shape, now, group=random.choice("xyz"), timeout=wait)
                except LeaseRefused:
                    ended[f"l{asked}"] += 1
            case 3 | 4 | 5:
                one.renewing(slot, now)
                one.ready(slot, random.choice(["n1", "n2"]), now)
            case 6 | 7 if holders:
                returned, lease = random.choice(list(holders.items()))
                if lease in one.leases:
                    del holders[returned]
                    ended[lease] += 1
                    one.returned(lease, now)
            case 8:
                one.lost(slot, random.choice(["silent", "node-lost", "executor-ended"]), "", now)
            case 9:
                one.start_failed(slot, "n1", "broken", now)
            case 10:
                one.drained(slot, "engine-lost", now)
            case 11:
                waits = [lease for lease, entry in one.leases.items() if entry.state is QUEUED]
                if waits:
                    one.cancel(waits[0], now)
                    ended[waits[0]] += 1
        act()

    for _ in range(200):
        now += random.random() * 3
        step()
        one.tick(now)
        act()
        check(one, holders)
    # Everything ends: who holds something returns it, and starts work from now on.
    one.drain(now)
    while one.leases or one.slots:
        now += 1
        assert now < 10_000
        for returned, lease in list(holders.items()):
            del holders[returned]
            ended[lease] += 1
            one.returned(lease, now)
        act()
        for slot in list(one.slots):
            one.renewing(slot, now)
            one.ready(slot, "n1", now)
            one.stopped(slot, now)
        act()
        check(one, holders)
    assert one.leases == {} and one.slots == {}
    assert ended == Counter({f"l{number}": 1 for number in range(1, asked + 1)})
    assert set(offered.values()) <= {1}
    follows(told)


def check(one: Leases, holders: dict[str, str]) -> None:
    assert one.alive <= one.bounds.size + sum(bool(slot.twin) for slot in one.slots.values())
    states = Counter(slot.state for slot in one.slots.values())
    assert one.alive == sum(states.values()) - states[DRAINING]
    assert {slot.slot_id: slot.lease_id for slot in one.slots.values() if slot.lease_id} == holders
    kinds = one._kinds.values()
    assert sum(kind.coming for kind in kinds) == states[STARTING] + states[RETURNING]
    assert sum(len(kind.ready) for kind in kinds) == states[READY]
    waiting = {lease for lease, entry in one.leases.items() if entry.state is QUEUED}
    assert {name for kind in kinds for name in kind.queue} == waiting
    assert not any(kind.ready and kind.queue for kind in kinds)  # nobody waits beside what is ready


def follows(told: list[Transition]) -> None:
    """What was told is a way through the tables, for each slot and each lease."""
    states: dict[str, str] = {}
    for each in told:
        name = each.slot_id if each.what == "slot" else each.lease_id
        assert states.get(name, "") == each.before
        table = SLOT_TABLE if each.what == "slot" else LEASE_TABLE
        first = STARTING if each.what == "slot" else QUEUED
        ways = {after for (state, _), after in table.items() if state == each.before}
        assert each.after in (ways if each.before else {first})
        states[name] = each.after
