"""Groups take turns."""

from __future__ import annotations

from outfitter.core.groups import GroupQueue


def queue(*names: str) -> GroupQueue:
    """Each name is in the group of its first letter; they came in this order."""
    made = GroupQueue()
    for since, name in enumerate(names):
        made.add(name, name[0], since)
    return made


def taken(one: GroupQueue) -> list[str]:
    return [one.take() for _ in range(len(one))]


def test_groups_take_turns_and_who_came_first_is_first_within_one() -> None:
    assert taken(queue("a1", "a2", "a3", "b1", "c1", "c2")) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_new_group_is_behind_those_that_wait() -> None:
    one = queue("a1", "a2", "b1")
    assert one.take() == "a1"
    one.add("c1", "c", 9)
    assert taken(one) == ["b1", "a2", "c1"]


def test_one_that_is_removed_is_not_taken() -> None:
    one = queue("a1", "a2", "b1")
    one.remove("a1", "a")
    one.remove("b1", "b")
    assert (len(one), list(one), one.counts()) == (1, ["a2"], {"a": 1})
    assert taken(one) == ["a2"]
    assert len(one) == 0


def test_the_oldest_is_found_in_any_group() -> None:
    one = queue("a1", "b1", "a2")
    one.remove("a1", "a")
    assert one.oldest() == 1
    assert one.take_oldest() == "b1"
    assert one.oldest() == 2
    assert one.take_oldest() == "a2"
    assert one.oldest() == float("inf")
