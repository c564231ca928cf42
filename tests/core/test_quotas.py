"""How much of a server one principal may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.quotas import Quota, Sharing, allows


def filled(limit: int, *principals: str, several: bool = True) -> Quota:
    """What is held when each of them, in turn, takes one as long as it may."""
    quota = Quota(limit, Sharing(several))
    while any(quota.allows(one) for one in principals):
        for one in principals:
            if quota.allows(one):
                quota.take(one)
    return quota


def test_the_only_principal_of_a_server_may_hold_everything() -> None:
    quota = filled(256, "alice", several=False)
    assert (quota.of("alice"), quota.held, quota.allows("alice")) == (256, 256, False)


@pytest.mark.parametrize(("limit", "count", "each"), [(256, 1, 128), (300, 2, 100), (1024, 3, 256)])
def test_with_several_a_share_as_large_as_anybody_s_stays_free(limit: int, count: int, each: int) -> None:
    principals = [f"p{number}" for number in range(count)]
    quota = filled(limit, *principals)
    assert [quota.of(one) for one in principals] == [each] * count
    assert limit - quota.held == each
    assert quota.allows("newcomer")


def test_who_has_nothing_gets_the_last_one() -> None:
    quota = Quota(3, Sharing(True))
    quota.take("alice", 2)
    assert (quota.allows("alice"), quota.allows("bob")) == (False, True)
    quota.take("bob")
    assert not quota.allows("carol")


def test_what_is_given_back_is_free_again_and_nobody_is_remembered_for_nothing() -> None:
    quota = Quota(10, Sharing(True))
    quota.take("alice", 5)
    assert not quota.allows("alice")
    quota.give("alice", 2)
    assert (quota.of("alice"), quota.held, quota.allows("alice")) == (3, 3, True)
    quota.give("alice", 3)
    assert (quota.of("alice"), quota.held, quota._mine) == (0, 0, {})


def test_a_second_principal_shows_that_there_are_several() -> None:
    begun: list[bool] = []
    sharing = Sharing()
    sharing.when_several(lambda: begun.append(True))
    for principal in ("alice", "alice"):
        sharing.seen(principal)
    assert (sharing.several, begun) == (False, [])
    for principal in ("bob", "alice", "carol"):
        sharing.seen(principal)
    assert (sharing.several, begun) == (True, [True])
    sharing.when_several(lambda: begun.append(False))  # at once: there are
    assert begun == [True, False]


def test_a_server_that_is_told_so_has_several_from_the_start() -> None:
    begun: list[bool] = []
    sharing = Sharing(True)
    sharing.when_several(lambda: begun.append(True))
    sharing.seen("alice")
    sharing.seen("bob")
    assert (sharing.several, begun) == (True, [True])


def test_a_server_may_be_told_later() -> None:
    begun: list[bool] = []
    sharing = Sharing()
    sharing.when_several(lambda: begun.append(True))
    sharing.seen("alice")
    sharing.begin()
    sharing.begin()
    sharing.seen("bob")
    assert (sharing.several, begun) == (True, [True])


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.booleans())
def test_nothing_is_given_that_is_not_there(
    limit: int, others: int, mine: int, amount: int, several: bool
) -> None:
    if allows(limit, others + mine, mine, amount, several=several):
        assert others + mine + amount <= limit
        # With several, what stays free before it is taken is at least what the principal then has.
        assert not several or mine + amount <= limit - others - mine
