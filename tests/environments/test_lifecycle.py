"""Where an environment stands: every state is left only by its own events, and errors decide which way."""

from __future__ import annotations

import pytest

from outfitter.environments import lifecycle
from outfitter.environments.lifecycle import Lifecycle, may_pass
from outfitter.errors import DialFailed, Disconnected, RequestFailed, SettingInvalid

PASSING = DialFailed("refused", retryable=True)
FINAL = DialFailed("turned away", retryable=False)


def after(*events: str, reopens: bool = True) -> Lifecycle:
    life = Lifecycle(reopens=reopens)
    for event in events:
        match event:
            case "begin":
                life.begin()
            case "opened":
                life.opened()
            case "passing":
                life.failed(PASSING)
            case "final":
                life.failed(FINAL)
            case "lost":
                life.lost(Disconnected("gone"))
    return life


@pytest.mark.parametrize(
    ("events", "use"),
    [
        ("", "open"),
        ("begin", "join"),
        ("begin opened", "take"),
        ("begin passing", "open"),
        ("begin final", "fail"),
        ("begin opened lost", "open"),
        ("begin opened lost begin", "join"),
        ("begin opened lost begin opened", "take"),
        ("begin passing begin final", "fail"),
        ("begin passing begin opened", "take"),
    ],
)
def test_what_a_use_does(events: str, use: str) -> None:
    assert after(*events.split()).on_use() == use


def test_what_does_not_reopen_stays_lost() -> None:
    life = after("begin", "opened", "lost", reopens=False)
    assert (life.on_use(), str(life.error)) == ("fail", "gone")


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ("begin", "begin"),
        ("", "opened"),
        ("", "passing"),
        ("begin", "lost"),
        ("begin opened", "begin"),
        ("begin opened", "opened"),
        ("begin opened", "final"),
        ("begin final", "begin"),
        ("begin passing", "lost"),
    ],
)
def test_an_event_out_of_order_is_a_bug(events: str, wrong: str) -> None:
    with pytest.raises(AssertionError):
        after(*events.split(), wrong)


def test_every_state_has_a_use() -> None:
    states = {lifecycle.IDLE, lifecycle.OPENING, lifecycle.READY, lifecycle.UNREACHED, lifecycle.LOST}
    assert set(lifecycle.ON_USE) == states | {lifecycle.ENDED}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PASSING, True),
        (FINAL, False),
        (Disconnected("in the handshake"), True),
        (RequestFailed(-32600, "no"), False),
        (SettingInvalid("bad"), False),
        (RuntimeError("a bug"), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_an_answer_that_will_not_change_is_remembered(error: Exception, expected: bool) -> None:
    assert may_pass(error) is expected
