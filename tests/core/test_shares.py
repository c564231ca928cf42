"""Who may begin: bounded in all and for each owner, and owners take turns."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.quotas import Sharing
from outfitter.core.shares import Shares


class Work:
    """What has begun, in order, and how much of it runs."""

    def __init__(self, total: int, each: int) -> None:
        self.shares = Shares(total, each)
        self.begun: list[str] = []
        self.running: Counter[str] = Counter()

    def add(self, owner: str, name: str) -> None:
        def begin() -> None:
            self.begun.append(name)
            self.running[owner] += 1

        self.shares.add(owner, begin)

    def end(self, owner: str) -> None:
        self.running[owner] -= 1
        self.shares.done(owner)


def test_one_owner_has_its_share_and_no_more() -> None:
    work = Work(total=4, each=2)
    for number in range(4):
        work.add("a", f"a{number}")
    assert work.begun == ["a0", "a1"] and work.shares.waiting("a") == 2
    work.add("b", "b0")
    assert work.begun == ["a0", "a1", "b0"]
    work.end("a")
    assert work.begun == ["a0", "a1", "b0", "a2"]


def test_owners_take_turns_when_all_places_are_taken() -> None:
    work = Work(total=2, each=2)
    for owner in ("a", "a", "a", "a", "b", "b", "c"):
        work.add(owner, f"{owner}{work.shares.waiting(owner)}")
    begun = len(work.begun)
    for _ in range(5):
        work.end(next(owner for owner, count in work.running.items() if count))
    assert [name[0] for name in work.begun[begun:]] == ["a", "b", "c", "a", "b"]


def test_an_owner_with_nothing_left_is_forgotten() -> None:
    work = Work(total=1, each=1)
    work.add("a", "a0")
    work.end("a")
    assert (work.shares.running, work.shares._running, work.shares._waiting) == (0, {}, {})


@pytest.mark.parametrize(("several", "alone"), [(True, 4), (False, 8)])
def test_a_principal_with_many_owners_has_its_share_and_no_more(several: bool, alone: int) -> None:
    shares = Shares(8, 2, Sharing(several))
    begun: list[tuple[str, int]] = []
    for owner in [("alice", number % 5) for number in range(20)] + [("bob", 0)]:
        shares.add(owner, partial(begun.append, owner))
    assert [name for name, _ in begun] == ["alice"] * alone + ["bob"] * several
    for owner in begun:  # which grows
        shares.done(owner)
    assert (len(begun), shares.running) == (21, 0)


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["add", "add", "end"]), st.sampled_from("abc")), max_size=60),
)
def test_bounds_hold_nothing_is_lost_and_no_place_stays_empty(
    total: int, each: int, steps: list[tuple[str, str]]
) -> None:
    work = Work(total, each)
    added: Counter[str] = Counter()
    for step, owner in steps:
        if step == "add":
            added[owner] += 1
            work.add(owner, owner)
        elif work.running[owner]:
            work.end(owner)
        assert sum(work.running.values()) == work.shares.running <= total
        assert all(count <= each for count in work.running.values())
        could = [one for one in "abc" if work.shares.waiting(one) and work.running[one] < each]
        assert work.shares.running == total or not could
    while any(work.running.values()):
        work.end(next(owner for owner, count in work.running.items() if count))
    assert Counter(work.begun) == added
