"""Which failures are worth another attempt, and how long it waits."""

from __future__ import annotations

import pytest

from outfitter.core import retry
from outfitter.errors import (
    CapabilityMissing,
    DialFailed,
    Disconnected,
    InvalidParams,
    LocalProtocolError,
    OutfitterError,
    OutputLost,
    Overloaded,
    RequestFailed,
    SessionExpired,
    SettingInvalid,
)

ERRORS: list[tuple[OutfitterError, bool]] = [
    (DialFailed("nobody listens", retryable=True), True),
    (DialFailed("401", retryable=False), False),
    (Disconnected("cut again"), True),
    (RequestFailed(-32010, "session s is already attached to another connection"), True),
    (RequestFailed(-32600, "unknown session id s"), False),
    (RequestFailed(-32601, "no such method"), False),
    (RequestFailed(-32603, "internal error"), False),
    (SessionExpired("over"), False),
    (OutputLost("gone"), False),
    (SettingInvalid("a token in the clear"), False),
    (InvalidParams("unusable"), False),
    (LocalProtocolError("too long"), False),
    (CapabilityMissing("x", "do x"), False),
    (Overloaded("full"), False),
]


@pytest.mark.parametrize(("error", "again"), ERRORS, ids=[f"{error!r}" for error, _ in ERRORS])
def test_only_what_may_pass_is_tried_again(error: OutfitterError, again: bool) -> None:
    assert retry.retryable(error) is again


def test_first_attempt_is_made_at_once_and_the_next_ones_every_tenth_of_a_second() -> None:
    # Spec 14.5.
    assert [retry.delay(attempts) for attempts in range(251)] == [0.0] + [0.1] * 250


def test_who_waits_longer_than_the_reference_waits_in_longer_steps() -> None:
    delays = [retry.delay(250 + more) for more in range(1, 9)]
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_step_never_grows_past_its_bound() -> None:
    assert [retry.delay(attempts) for attempts in (10**3, 10**6, 10**9)] == [retry.LONGEST_SECONDS] * 3


def test_attempts_of_the_reference_fit_into_its_deadline() -> None:
    assert sum(map(retry.delay, range(retry.STEPS + 1))) == pytest.approx(25.0)
