"""How many there may be in a minute, and at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.rates import Rate, Rates

RATE = Rate(minute=60, burst=3)


def test_a_burst_is_granted_and_then_one_in_each_second() -> None:
    rates = Rates(RATE)
    assert [rates.take("a", 10.0) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert rates.take("a", 10.25) == pytest.approx(0.75)
    assert rates.take("a", 11.0) == 0.0
    assert rates.take("a", 11.0) == pytest.approx(1.0)


def test_who_is_refused_waits_no_longer_for_asking_again() -> None:
    rates = Rates(RATE)
    for _ in range(100):
        rates.take("a", 0.0)
    assert rates.take("a", 1.0) == 0.0


def test_silence_gives_a_burst_back_and_no_more() -> None:
    rates = Rates(RATE)
    for _ in range(3):
        rates.take("a", 0.0)
    assert [rates.take("a", 1000.0) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]


def test_names_do_not_share() -> None:
    rates = Rates(Rate(minute=60, burst=1))
    assert [rates.take(name, 0.0) for name in "abab"] == [0.0, 0.0, 1.0, 1.0]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    rates = Rates(Rate(minute=60, burst=1))
    assert [rates.take("a", now) for now in (100.0, 0.0, 0.5)] == [0.0, 1.0, 0.5]


def test_only_so_many_names_are_remembered_and_the_most_silent_goes_first() -> None:
    rates = Rates(Rate(minute=60, burst=1), names=2)
    assert [rates.take(name, 0.0) for name in "abac"] == [0.0, 0.0, 1.0, 0.0]
    assert len(rates) == 2
    assert rates.take("a", 0.0) == 1.0
    assert rates.take("b", 0.0) == 0.0


@given(st.lists(st.floats(0, 5), min_size=1, max_size=60))
def test_never_more_than_the_burst_and_the_rate(steps: list[float]) -> None:
    rates, now, granted = Rates(RATE), 0.0, 0
    for step in steps:
        now += step
        granted += rates.take("a", now) == 0.0
    assert granted <= 3 + now * 1.0 + 1e-6
