"""When an executor tries again."""

from __future__ import annotations

import pytest

from outfitter.core.redialling import DIAL, GIVE_UP, REGISTER, Redialling


def test_waits_double_up_to_half_a_minute() -> None:
    one = Redialling()
    assert [one.lost(0.0, 1.0)[1] for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_chance_shortens_a_wait_by_half_at_most() -> None:
    assert Redialling().lost(0.0, 0.0) == (DIAL, 0.5)
    assert Redialling().lost(0.0, 0.5) == (DIAL, 0.75)


@pytest.mark.parametrize(("lasted", "wait"), [(3.0, 8.0), (59.9, 8.0), (60.0, 1.0)])
def test_only_a_connection_that_held_begins_the_waits_anew(lasted: float, wait: float) -> None:
    one = Redialling()
    for _ in range(3):
        one.lost(0.0, 1.0)
    assert one.lost(lasted, 1.0) == (DIAL, wait)


@pytest.mark.parametrize(
    ("status", "next_step"),
    [
        (None, (DIAL, 1.0)),
        (503, (DIAL, 1.0)),
        (400, (REGISTER, 0.0)),
        (401, (REGISTER, 0.0)),
        (499, (REGISTER, 0.0)),
    ],
)
def test_a_url_that_is_refused_has_the_executor_register_anew(
    status: int | None, next_step: tuple[str, float]
) -> None:
    assert Redialling().unreachable(status, 1.0) == next_step


def test_a_new_url_after_a_refusal_is_not_tried_at_once() -> None:
    assert Redialling().registered(False, 1.0) == (DIAL, 0.0)
    assert Redialling().registered(True, 1.0) == (DIAL, 1.0)


@pytest.mark.parametrize(
    ("status", "next_step"),
    [(None, (REGISTER, 1.0)), (500, (REGISTER, 1.0)), (429, (REGISTER, 1.0)), (408, (REGISTER, 1.0))]
    + [(status, (GIVE_UP, 0.0)) for status in (200, 301, 400, 401, 403, 404, 409)],
)
def test_a_registry_that_says_no_is_not_asked_for_ever(
    status: int | None, next_step: tuple[str, float]
) -> None:
    assert Redialling().unregistered(status, 1.0) == next_step


@pytest.mark.parametrize(
    ("status", "next_step"),
    [(None, (DIAL, 0.5)), (503, (DIAL, 0.5)), (429, (DIAL, 0.5))]
    + [(status, (GIVE_UP, 0.0)) for status in (400, 401, 403, 404)],
)
def test_without_a_relay_who_is_refused_gives_up(status: int | None, next_step: tuple[str, float]) -> None:
    one = Redialling(first=0.5, registers=False)
    assert one.unreachable(status, 1.0) == next_step


def test_without_a_relay_the_waits_begin_with_half_a_second() -> None:
    one = Redialling(first=0.5, registers=False)
    assert [one.lost(0.0, 1.0)[1] for _ in range(3)] == [0.5, 1, 2]
    assert one.lost(60.0, 1.0) == (DIAL, 0.5)
