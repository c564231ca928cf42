"""Connected, recovering, failed: every cell of the table, and the words at its end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outfitter.core.recovery import (
    ATTEMPT_FAILED,
    CLOSED,
    CONNECTED,
    FAILED,
    LOST,
    LOST_FOR_GOOD,
    RECOVERING,
    REFUSED,
    RESUMED,
    TABLE,
    TIMED_OUT,
    Recovery,
)
from outfitter.errors import DialFailed, Disconnected, RequestFailed

STATES = (CONNECTED, RECOVERING, FAILED)
ATTACHED = RequestFailed(-32010, "session s is already attached to another connection")
UNKNOWN = RequestFailed(-32600, "unknown session id s")

# What makes each event happen. The connection is lost at 100 and may be back until 125.
DO: dict[str, Callable[[Recovery], object]] = {
    LOST: lambda recovery: recovery.lost(recovery.generation, "cut", 100.0),
    LOST_FOR_GOOD: lambda recovery: recovery.lost(recovery.generation, "cut", 100.0, for_good=True),
    CLOSED: Recovery.close,
    RESUMED: Recovery.resumed,
    ATTEMPT_FAILED: lambda recovery: recovery.attempt_failed(ATTACHED),
    REFUSED: lambda recovery: recovery.attempt_failed(UNKNOWN),
    TIMED_OUT: lambda recovery: recovery.next_attempt(125.0),
}
# Asking for these in the wrong state is a mistake of our own; the others can come late from outside.
OURS = (RESUMED, TIMED_OUT)


def made(state: str, *, limit: float = 25.0) -> Recovery:
    recovery = Recovery(limit=limit, resumable=True)
    if state is RECOVERING:
        DO[LOST](recovery)
    elif state is FAILED:
        recovery.close()
    assert recovery.state is state
    return recovery


def test_every_event_has_its_way_to_happen() -> None:
    assert {event for _, event in TABLE} == set(DO)


@pytest.mark.parametrize(("state", "event"), TABLE)
def test_cell_of_the_table_leads_where_it_says(state: str, event: str) -> None:
    recovery = made(state)
    DO[event](recovery)
    assert recovery.state is TABLE[state, event]
    assert (recovery.failure is not None) is (recovery.state is FAILED)


@pytest.mark.parametrize(
    ("state", "event"), [(state, event) for state in STATES for event in DO if (state, event) not in TABLE]
)
def test_cell_outside_of_the_table_changes_nothing(state: str, event: str) -> None:
    recovery = made(state)
    failure = recovery.failure
    if event in OURS:
        with pytest.raises((KeyError, AssertionError)):
            DO[event](recovery)
    else:
        assert not DO[event](recovery)
    assert (recovery.state, recovery.failure) == (state, failure)


def test_failed_is_for_ever() -> None:
    assert [event for state, event in TABLE if state is FAILED] == []


# Generations


def test_connection_that_does_not_count_any_more_is_not_heard() -> None:
    recovery = made(RECOVERING)
    old, new = recovery.generation, recovery.begin_attempt()
    recovery.resumed()
    assert (old, new) == (1, 2)
    assert recovery.lost(old, "late news", 200.0) is False
    assert (recovery.state, recovery.reason) == (CONNECTED, "cut")
    assert recovery.lost(new, "cut again", 200.0) is True
    assert (recovery.state, recovery.reason) == (RECOVERING, "cut again")


def test_each_attempt_is_a_generation_of_its_own() -> None:
    recovery = made(RECOVERING)
    assert [recovery.begin_attempt() for _ in range(3)] == [2, 3, 4]
    recovery.resumed()
    assert [recovery.lost(generation, "cut", 1.0) for generation in (1, 2, 3, 5, 4)] == [
        False,
        False,
        False,
        False,
        True,
    ]


# Time


def test_first_attempt_is_due_at_once_and_the_others_a_step_later() -> None:
    recovery = made(RECOVERING)
    waits = []
    for _ in range(3):
        waits.append(recovery.next_attempt(101.0))
        recovery.begin_attempt()
        recovery.attempt_failed(ATTACHED)
    assert waits == [0.0, 0.1, 0.1]


def test_attempt_may_take_what_is_left_until_the_deadline() -> None:
    recovery = made(RECOVERING)
    assert [recovery.left(now) for now in (100.0, 110.5, 125.0, 130.0)] == [25.0, 14.5, 0.0, 0.0]


def test_last_attempt_is_the_one_that_begins_before_the_deadline() -> None:
    recovery = made(RECOVERING)
    recovery.begin_attempt()
    recovery.attempt_failed(ATTACHED)
    assert recovery.next_attempt(124.8) == 0.1
    assert recovery.state is RECOVERING
    assert recovery.next_attempt(124.95) is None
    assert recovery.state is FAILED


def test_each_loss_has_a_deadline_and_attempts_of_its_own() -> None:
    recovery = made(RECOVERING)
    for _ in range(5):
        recovery.begin_attempt()
        recovery.attempt_failed(ATTACHED)
    recovery.resumed()
    recovery.lost(recovery.generation, "cut again", 1000.0)
    assert (recovery.next_attempt(1000.0), recovery.left(1000.0)) == (0.0, 25.0)


def test_limit_may_be_set_when_the_server_has_said_how_long_it_waits() -> None:
    recovery = Recovery(limit=25.0, resumable=True)
    recovery.limit = 55.0
    recovery.lost(1, "cut", 0.0)
    assert recovery.left(0.0) == 55.0


def test_no_time_at_all_means_no_attempt() -> None:
    recovery = made(RECOVERING, limit=0.0)
    assert recovery.next_attempt(100.0) is None
    assert recovery.state is FAILED


# Which errors end it


@pytest.mark.parametrize(
    "error",
    [ATTACHED, Disconnected("cut again"), DialFailed("refused", retryable=True)],
    ids=["attached", "cut again", "refused"],
)
def test_error_that_may_pass_is_followed_by_another_attempt(error: RequestFailed) -> None:
    recovery = made(RECOVERING)
    assert (recovery.attempt_failed(error), recovery.state, recovery.failure) == (True, RECOVERING, None)


def test_error_that_stays_ends_it_at_once() -> None:
    recovery = made(RECOVERING)
    assert (recovery.attempt_failed(UNKNOWN), recovery.state) == (False, FAILED)


# Words (spec 14.5)


def test_text_of_a_recovery_that_took_too_long_is_the_references() -> None:
    recovery = made(RECOVERING)
    recovery.next_attempt(125.0)
    text = "cut; failed to resume exec-server session: recovery timed out after 25s"
    assert str(recovery.failure) == text


def test_text_of_a_recovery_that_took_too_long_goes_on_with_the_last_error() -> None:
    recovery = made(RECOVERING)
    recovery.attempt_failed(DialFailed("nobody listens", retryable=True))
    recovery.attempt_failed(ATTACHED)
    recovery.next_attempt(125.0)
    assert str(recovery.failure) == (
        "cut; failed to resume exec-server session: recovery timed out after 25s"
        " (last attempt: session s is already attached to another connection (code -32010))"
    )


def test_last_error_is_of_this_loss_not_of_an_earlier_one() -> None:
    recovery = made(RECOVERING)
    recovery.attempt_failed(ATTACHED)
    recovery.resumed()
    recovery.lost(recovery.generation, "cut again", 200.0)
    recovery.next_attempt(225.0)
    text = "cut again; failed to resume exec-server session: recovery timed out after 25s"
    assert str(recovery.failure) == text


def test_limit_is_told_as_it_was_given() -> None:
    recovery = made(RECOVERING, limit=1.5)
    recovery.next_attempt(200.0)
    text = "cut; failed to resume exec-server session: recovery timed out after 1.5s"
    assert str(recovery.failure) == text


def test_text_of_a_refusal_has_the_reason_and_the_refusal() -> None:
    recovery = made(RECOVERING)
    recovery.attempt_failed(UNKNOWN)
    text = "cut; failed to resume exec-server session: unknown session id s (code -32600)"
    assert str(recovery.failure) == text


@pytest.mark.parametrize(("resumable", "for_good"), [(False, False), (True, True), (False, True)])
def test_text_of_a_loss_for_good_is_its_reason(resumable: bool, for_good: bool) -> None:
    recovery = Recovery(limit=25.0, resumable=resumable)
    assert recovery.lost(1, "the program ended", 0.0, for_good=for_good) is True
    assert (recovery.state, str(recovery.failure)) == (FAILED, "the program ended")


def test_text_of_a_client_that_was_closed_says_so_and_stays() -> None:
    recovery = made(CONNECTED)
    recovery.close()
    recovery.close()
    assert (recovery.state, str(recovery.failure)) == (FAILED, "the client is closed")


def test_close_does_not_replace_an_earlier_reason() -> None:
    recovery = Recovery(limit=25.0, resumable=False)
    recovery.lost(1, "the program ended", 0.0)
    recovery.close()
    assert str(recovery.failure) == "the program ended"
