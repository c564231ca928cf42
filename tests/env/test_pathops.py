"""Lists told as operations: applied to the old value they give the new one, and they say what was meant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.env.layer import Operation
from outfitter.env.lists import ListValue
from outfitter.env.origin import Origin
from outfitter.env.pathops import operations

quick = settings(deadline=None, max_examples=400)
ENTRIES = st.lists(st.sampled_from(["/a", "/b", "/c", "/d", "/a/", "/", "", ".", "rel"]), max_size=6)
CLEAN = st.lists(st.sampled_from(["/a", "/b", "/c", "/d", "/e", "/f"]), min_size=1, max_size=6, unique=True)


def told(base: str | None, new: str, variable: str = "PATH") -> list[tuple[str, tuple[str, ...]]]:
    found = operations(base, new, variable)
    assert {one.variable for one in found} <= {variable}
    return [(one.op, one.values) for one in found]


def applied(base: str | None, several: list[Operation], variable: str = "PATH") -> ListValue:
    value = ListValue(variable)
    if base is not None:
        value.set(base, 0, "base")
    for one in several:
        value.operate(one.op, one.values, 3, "provider", None)
    return value


def tidy(value: ListValue) -> str:
    value.tidy()
    return value.text()


@quick
@given(CLEAN, CLEAN)
def test_applied_to_the_old_list_they_give_the_new_one(base: list[str], new: list[str]) -> None:
    old, wanted = ":".join(base), ":".join(new)
    assert applied(old, operations(old, wanted)).text() == wanted


@quick
@given(ENTRIES, ENTRIES, st.sampled_from(["PATH", "MANPATH"]))
def test_so_they_do_for_odd_lists_but_for_what_never_stays(
    base: list[str], new: list[str], variable: str
) -> None:
    old, wanted = ":".join(base), ":".join(new)
    ours = applied(old, operations(old, wanted, variable), variable)
    assert tidy(ours) == tidy(applied(wanted or None, [], variable))


@quick
@given(CLEAN, CLEAN)
def test_a_replacement_is_told_only_where_nothing_else_will_do(base: list[str], new: list[str]) -> None:
    kept = [entry for entry in new if entry in base]
    found = told(":".join(base), ":".join(new))
    in_order = kept == [entry for entry in base if entry in new]
    start = new.index(kept[0]) if kept else 0
    together = new[start : start + len(kept)] == kept
    assert (found[:1] == [("replace", tuple(new))]) == (not (kept and in_order and together))


@pytest.mark.parametrize(
    ("base", "new", "wanted"),
    [
        ("/a:/b", "/a:/b", []),
        ("/a:/b", "/p/bin:/a:/b", [("prepend", ("/p/bin",))]),
        ("/a:/b", "/p:/q:/a:/b", [("prepend", ("/p", "/q"))]),
        ("/a:/b", "/a:/b:/z", [("append", ("/z",))]),
        ("/a:/b:/c", "/p:/a:/c:/z", [("remove", ("/b",)), ("prepend", ("/p",)), ("append", ("/z",))]),
        ("/a:/b:/c", "/b", [("remove", ("/a", "/c"))]),
        ("/a:/b", "/b:/a", [("replace", ("/b", "/a"))]),
        ("/a:/b", "/a:/new:/b", [("replace", ("/a", "/new", "/b"))]),
        ("/a:/b", "/x:/y", [("replace", ("/x", "/y"))]),
        (None, "/x:/y", [("prepend", ("/x", "/y"))]),
        ("", "/x", [("prepend", ("/x",))]),
        ("/a:/b", "", [("replace", ())]),
        # An entry that was there, put in front of all: that is what was meant, although it is listed twice.
        ("/a:/b", "/b:/a:/b", [("prepend", ("/b",))]),
        # What does not stay is told, too: it is dropped where everybody can see it.
        ("/a:/b", "/a:/b:", [("append", ("",))]),
        ("/a:/b", "/x:$PATH:/b", [("replace", ("/x", "$PATH", "/b"))]),
        ("/a::/b", "/a::/b", []),
        ("/a::/b", "/x:/a:/b", [("prepend", ("/x",))]),
    ],
)
def test_what_was_done_is_told(base: str | None, new: str, wanted: list[tuple[str, tuple[str, ...]]]) -> None:
    assert told(base, new) == wanted


def test_an_empty_entry_of_manpath_is_kept_where_it_is() -> None:
    # There it stands for the system's own list.
    assert told("/man", "/p/man:", "MANPATH") == [("replace", ("/p/man", ""))]
    assert told("/man:", "/p/man:/man:", "MANPATH") == [("prepend", ("/p/man",))]


def test_an_empty_value_leaves_no_empty_entry_behind() -> None:
    # In PYTHONPATH it would be the current directory.
    several = operations("", "/p", "PYTHONPATH")
    assert [(one.op, one.values) for one in several] == [("remove", ("",)), ("prepend", ("/p",))]
    assert applied("", several, "PYTHONPATH").text() == "/p"
    assert applied(None, several, "PYTHONPATH").text() == "/p"


def test_each_operation_says_where_it_comes_from() -> None:
    origin = Origin("provider", "direnv")
    assert operations("/a", "/p:/a", "PATH", origin) == [Operation("PATH", "prepend", ("/p",), origin)]
