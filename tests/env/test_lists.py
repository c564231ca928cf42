"""List variables: their segments, joined, are exactly the value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.env.lists import LIST_NAMES, OPERATIONS, ListValue, Segment, leads_somewhere, path_mistake

from . import model
from .strategies import entries, list_values, operations

quick = settings(deadline=None, max_examples=100)


def test_the_lists_are_those_of_the_rules() -> None:
    assert frozenset(model.LISTS) == LIST_NAMES
    assert OPERATIONS == ("prepend", "append", "remove", "replace")


@quick
@given(st.lists(list_values | st.text(alphabet="/a:", max_size=6), max_size=4))
def test_setting_gives_exactly_the_value_and_loses_no_entry(values: list[str]) -> None:
    path = ListValue("PATH")
    for number, value in enumerate(values):
        before = list(path.segments)
        dropped = len(path.dropped)
        path.set(value, number, f"layer{number}")
        assert path.text() == value
        # What was there is still there with its origin, or is told to be gone.
        gone = path.dropped[dropped:]
        kept = [one for one in path.segments if one.level < number]
        told = [one.value for one in kept] + [one.value for one in gone]
        assert sorted(told) == sorted(one.value for one in before)
        assert [one for one in kept if one not in before] == []


@quick
@given(list_values, st.lists(operations, max_size=4), st.sampled_from(["PATH", "MANPATH"]))
def test_operations_do_what_the_rules_say(
    value: str, several: list[tuple[str, str, list[str]]], name: str
) -> None:
    ours = ListValue(name)
    ours.set(value, 0, "base")
    expected, front = value.split(":"), list[str]()
    for _, op, given_entries in several:
        ours.operate(op, given_entries, 3, "project", None)
        expected, front = model.operate(op, expected, model.split(given_entries), front)
        assert [one.value for one in ours.segments] == expected


@quick
@given(list_values, st.sampled_from(["PATH", "MANPATH"]))
def test_tidying_twice_is_tidying_once(value: str, name: str) -> None:
    path = ListValue(name)
    path.set(value, 0, "base")
    path.tidy()
    once, dropped = list(path.segments), list(path.dropped)
    path.tidy()
    assert (path.segments, path.dropped) == (once, dropped)
    assert len(once) + len(dropped) == len(value.split(":"))


def test_a_copy_goes_its_own_way() -> None:
    path = ListValue("PATH")
    path.set("/a", 0, "base")
    twin = path.copy()
    twin.operate("prepend", ["/b"], 3, "project", None)
    assert (path.text(), path.touched, twin.text(), twin.touched) == ("/a", False, "/b:/a", True)


def test_a_replaced_list_keeps_the_origin_of_what_was_there() -> None:
    path = ListValue("PATH")
    path.set("/a:/b", 0, "base")
    path.operate("replace", ["/c", "/b", "/a"], 1, "login-shell", None)
    assert path.segments == [
        Segment("/c", 1, "login-shell", "replace"),
        Segment("/b", 0, "base", "set"),
        Segment("/a", 0, "base", "set"),
    ]
    assert path.dropped == []


@quick
@given(st.lists(entries, max_size=4).map(":".join))
def test_a_path_leads_somewhere_when_tidying_leaves_something(value: str) -> None:
    path = ListValue("PATH")
    path.set(value, 0, "base")
    path.tidy()
    assert leads_somewhere(value) is bool(path.segments)


def test_a_root_may_be_the_root() -> None:
    path = ListValue("PATH")
    path.operate("append", ["a/./b//c", "../../x", ".."], 3, "project", "/")
    assert [one.value for one in path.segments] == ["/a/b/c", "/x", "/"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/x:$PATH", "`$PATH` is not expanded here"),
        ("/x:/usr/bin:${HOME}/bin", "`${HOME}/bin` is not expanded here"),
        ("/usr/bin:", "empty entry"),
        (":/usr/bin", "empty entry"),
        ("bin:/usr/bin", "`bin` is relative"),
        ("~/bin:/usr/bin", "`~/bin` is relative"),
        ("/x:/y", "neither /usr/bin nor /bin"),
        ("/usr/local/games", "neither /usr/bin nor /bin"),
        ("/x:/usr/bin/", ""),
        ("/bin", ""),
        ("/nix/store/abc-coreutils/bin", ""),
        ("/run/current-system/sw/bin:/x", ""),
    ],
)
def test_a_value_of_path_that_is_probably_a_mistake_is_told(path: str, says: str) -> None:
    why = path_mistake(path)
    assert (says in why) if says else not why
