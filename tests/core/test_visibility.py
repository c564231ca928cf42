"""What is to be seen at a path, for every kind of rule above, at and below it."""

from __future__ import annotations

import pytest

from outfitter.core.permissions import DENY, READ, WRITE, Rule
from outfitter.core.visibility import CLOSED, HIDDEN, LEADS, MASKED, PASSES, Visibility, parent


def seen(rules: dict[str, str], *ways: str) -> Visibility:
    return Visibility([Rule(path, access) for path, access in rules.items()], ways)


@pytest.mark.parametrize(
    ("path", "look"),
    [
        ("/", READ),
        ("/else/where", READ),
        ("/w", WRITE),
        ("/w/x/y", WRITE),
        ("/wx", READ),
        ("/w/kept", READ),
        ("/w/kept/below", READ),
        ("/w/secret", MASKED),
        ("/w/secret/below", CLOSED),
        ("/w/way", PASSES),
        ("/w/way/other", HIDDEN),
        ("/w/way/in", LEADS),
        ("/w/way/in/other", HIDDEN),
        ("/w/way/in/open", WRITE),
        ("/w/way/in/open/x", WRITE),
        ("/deep", READ),
        ("/deep/er", READ),
        ("/deep/er/other", READ),
        ("/deep/er/open", WRITE),
    ],
)
def test_the_deepest_rule_counts_and_masks_let_through_what_is_written_below(path: str, look: str) -> None:
    rules = {
        "/w/way/in/open": WRITE,
        "/w/way": DENY,
        "/": READ,
        "/w/secret": DENY,
        "/w/kept": READ,
        "/w": WRITE,
        "/deep/er/open": WRITE,
    }
    assert seen(rules).look(path) == look
    assert seen(rules).look_at_file(path) == look


@pytest.mark.parametrize(
    ("path", "look"),
    [
        ("/", LEADS),
        ("/a", LEADS),
        ("/a/b", READ),
        ("/a/b/c", READ),
        ("/a/x", HIDDEN),
        ("/x", HIDDEN),
        ("/x/y", HIDDEN),
        ("/denied", HIDDEN),
        ("/denied/x", HIDDEN),
        ("/l", LEADS),
        ("/l/link", LEADS),
        ("/l/x", HIDDEN),
    ],
)
def test_without_a_root_only_the_ways_to_what_is_allowed_are_there(path: str, look: str) -> None:
    assert seen({"/a/b": READ, "/denied": DENY}, "/l/link").look(path) == look


def test_there_is_always_a_root() -> None:
    assert (seen({}).look("/"), seen({"/": DENY}).look("/"), seen({}).look("/x")) == (LEADS, LEADS, HIDDEN)


def test_patterns_mask_files_that_could_be_seen_and_nothing_else() -> None:
    rules = [Rule("/w", WRITE), Rule("/w/no", DENY)]
    view = Visibility(rules, (), lambda path: path.endswith(".env"))
    assert view.has_globs
    assert not seen({"/": READ}).has_globs
    assert [view.look_at_file(path) for path in ("/w/.env", "/w/x", "/x/.env", "/w/no/.env")] == [
        MASKED,
        WRITE,
        HIDDEN,
        CLOSED,
    ]
    assert view.look("/w/.env") == WRITE  # a folder may be called so


def test_places_are_where_something_begins() -> None:
    view = seen({"/": READ, "/w": WRITE, "/w/.git": READ, "/w/.gitx": DENY})
    assert view.places == ("/w", "/w/.git", "/w/.gitx")
    assert view.within("/w") == ["/w/.git", "/w/.gitx"]
    assert view.within("/w/.git") == []
    assert view.within("/") == ["/w", "/w/.git", "/w/.gitx"]
    assert (view.is_place("/w/.git"), view.is_place("/w/.git/x")) == (True, False)


def test_what_is_above_a_path() -> None:
    assert [parent(path) for path in ("/", "/a", "/a/b")] == ["/", "/", "/a"]
