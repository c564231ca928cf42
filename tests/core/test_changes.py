"""Changes merged per path: the table row by row, against a tree that forgets nothing, and the bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.changes import CREATED, MERGED, MODIFIED, REMOVED, Changes, Names

CHANGES = [CREATED, MODIFIED, REMOVED]


def merged(*kinds: str, folder: bool = False) -> list[str]:
    """What is told after these happened to one path."""
    changes = Changes(10)
    for kind in kinds:
        changes.add("p", kind, folder=folder)
    told, overflow = changes.take()
    assert not overflow
    assert {path for path, _ in told} <= {"p"}
    return [kind for _, kind in told]


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([CREATED], [CREATED]),
        ([MODIFIED], [MODIFIED]),
        ([REMOVED], [REMOVED]),
        ([CREATED, MODIFIED], [CREATED]),
        ([CREATED, REMOVED], []),
        ([CREATED, CREATED], [CREATED]),
        ([MODIFIED, MODIFIED], [MODIFIED]),
        ([MODIFIED, REMOVED], [REMOVED]),
        ([MODIFIED, CREATED], [MODIFIED]),
        ([REMOVED, CREATED], [MODIFIED]),
        ([REMOVED, MODIFIED], [MODIFIED]),
        ([REMOVED, REMOVED], [REMOVED]),
        ([CREATED, REMOVED, CREATED], [CREATED]),
        ([REMOVED, CREATED, REMOVED], [REMOVED]),
        ([REMOVED, CREATED, MODIFIED], [MODIFIED]),
    ],
)
def test_what_happened_to_a_file_is_told_in_one_word(kinds: list[str], told: list[str]) -> None:
    assert merged(*kinds) == told


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([REMOVED, CREATED], [REMOVED, CREATED]),
        ([REMOVED, CREATED, MODIFIED], [REMOVED, CREATED]),
        ([REMOVED, CREATED, CREATED], [REMOVED, CREATED]),
        ([REMOVED, CREATED, REMOVED], [REMOVED]),
        ([CREATED, REMOVED], []),
        ([MODIFIED, REMOVED, CREATED], [REMOVED, CREATED]),
    ],
)
def test_a_folder_in_the_place_of_another_is_told_as_both(kinds: list[str], told: list[str]) -> None:
    assert merged(*kinds, folder=True) == told


def test_every_row_leads_to_a_row() -> None:
    known = {known for known, _ in MERGED} | {kind for kind in MERGED.values() if kind is not None}
    assert set(MERGED) == {(one, kind) for one in known for kind in CHANGES}


def test_changes_are_told_once_and_in_their_order() -> None:
    changes = Changes(10)
    assert not changes
    changes.add("b", CREATED)
    changes.add("a", MODIFIED)
    changes.add("b", MODIFIED)
    assert changes
    assert changes.take() == ([("b", CREATED), ("a", MODIFIED)], False)
    assert not changes
    assert changes.take() == ([], False)


def test_a_removed_folder_stands_for_all_below_it() -> None:
    changes = Changes(10)
    for path in ("d/x", "d/in/y", "dd", "e"):
        changes.add(path, MODIFIED)
    changes.add("d", REMOVED, folder=True)
    assert changes.take() == ([("dd", MODIFIED), ("e", MODIFIED), ("d", REMOVED)], False)


def test_a_folder_that_came_and_went_leaves_nothing() -> None:
    changes = Changes(10)
    changes.add("d", CREATED, folder=True)
    changes.add("d/x", CREATED)
    changes.add("d", REMOVED, folder=True)
    assert changes.take() == ([], False)


def test_too_many_are_told_as_none_until_taken() -> None:
    changes = Changes(2)
    changes.add("a", CREATED)
    changes.add("b", CREATED)
    changes.add("a", MODIFIED)
    changes.add("c", CREATED)
    changes.add("a", REMOVED)
    assert changes.take() == ([], True)
    changes.add("d", CREATED)
    assert changes.take() == ([("d", CREATED)], False)


def test_overflow_by_itself_is_news() -> None:
    changes = Changes(2)
    changes.overflow()
    assert changes
    assert changes.take() == ([], True)


# Against a world of files that exist or not.

paths = st.sampled_from("abc")


@given(st.sets(paths), st.lists(st.tuples(paths, st.sampled_from(CHANGES)), max_size=20))
def test_who_applies_what_is_told_knows_what_is_there(
    before: set[str], events: list[tuple[str, str]]
) -> None:
    there, changes = set(before), Changes(100)
    for path, kind in events:
        if (kind == CREATED) == (path in there):
            continue  # it cannot happen
        changes.add(path, kind)
        there = there | {path} if kind == CREATED else there - {path} if kind == REMOVED else there
    told, _ = changes.take()
    known = set(before)
    for path, kind in told:
        assert (path in known) is (kind != CREATED)
        known = known - {path} if kind == REMOVED else known | {path}
    assert known == there


@given(st.lists(st.tuples(st.booleans(), st.text(max_size=3))), st.sets(st.text(max_size=3)))
def test_names_are_a_set(steps: list[tuple[bool, str]], before: set[str]) -> None:
    names = Names(before)
    expected = set(before)
    for add, name in steps:
        (names.add if add else names.discard)(name)
        (expected.add if add else expected.discard)(name)
        assert (name in names) is add
    assert all(name in names for name in expected)
    assert "none of them" not in names
