"""Whose turn it is: time is an argument, so nothing here waits."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.turns import TURN_SECONDS, Turns


def served(turns: Turns, costs: dict[str, float], times: int) -> list[str]:
    """Who is served when everybody always wants something, each turn of theirs costing the same."""
    order = []
    for _ in range(times):
        chosen = turns.next(costs)
        turns.took(chosen, costs[chosen], 1)
        order.append(chosen)
    return order


def test_two_that_cost_the_same_take_turns() -> None:
    order = served(Turns(), {"alice": 1.0, "bob": 1.0}, 10)
    assert Counter(order) == {"alice": 5, "bob": 5}
    assert all(one != other for one, other in pairwise(order))


def test_the_time_is_shared_not_the_number_of_turns() -> None:
    order = Counter(served(Turns(), {"alice": 4.0, "bob": 1.0}, 100))
    assert order == {"alice": 20, "bob": 80}


def test_who_was_idle_is_served_next_and_has_saved_nothing_up() -> None:
    turns = Turns()
    served(turns, {"alice": 1.0}, 1000)
    order = served(turns, {"alice": 1.0, "bob": 1.0}, 10)
    assert order[:2].count("bob") == 1
    assert Counter(order) == {"alice": 5, "bob": 5}


def test_what_takes_long_is_done_one_at_a_time() -> None:
    turns = Turns()
    assert turns.size("alice") == 64  # nobody knows yet
    turns.took(turns.next(["alice"]), 10 * TURN_SECONDS, 1)
    assert turns.size("alice") == 1
    turns.took(turns.next(["bob"]), TURN_SECONDS, 10)
    assert 9 <= turns.size("bob") <= 10
    # It is judged by what it does now.
    for _ in range(50):
        turns.took(turns.next(["alice"]), TURN_SECONDS / 1000, 1)
    assert turns.size("alice") == 64


def test_principals_that_come_and_go_are_not_remembered_for_ever() -> None:
    turns = Turns()
    for number in range(5000):
        turns.took(turns.next([f"p{number}"]), 0.0, 1)
    assert len(turns._ends) <= 65
    assert len(turns._takes) <= 65


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.001, 10.0), min_size=2))
def test_nobody_waits_longer_than_one_turn_of_each_other(costs: dict[str, float]) -> None:
    turns = Turns()
    had = dict.fromkeys(costs, 0.0)
    for chosen in served(turns, costs, 200):
        had[chosen] += costs[chosen]
        assert max(had.values()) - min(had.values()) <= 2 * max(costs.values()) + 1e-9
