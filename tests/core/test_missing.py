"""Which folders are watched for which names: chains from the root, up to what is absent or in the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.missing import ABSENT, FOLDER, LINK, OTHER, UNKNOWN, Plan

# A machine: what each path is. What is not named is absent.
World = dict[str, str]


def watched(plan: Plan, world: World) -> dict[str, set[str]]:
    """Folder → names that are watched in it, when this is what is there."""
    found: dict[str, set[str]] = {}
    while (folder := plan.next()) is not None:
        found[folder.path] = set(folder.names)
        for name in sorted(folder.names):
            folder.saw(name, world.get(f"{folder.path.rstrip('/')}/{name}", ABSENT))
    return found


WORLD: World = {"/w": FOLDER, "/w/sub": FOLDER, "/w/file": OTHER, "/w/link": LINK, "/w/odd": UNKNOWN}


def test_every_folder_on_the_way_is_watched_for_the_next_name() -> None:
    plan = Plan(["/w/sub/x", "/w/sub/y", "/w/z", "/v/deep/er"])
    assert watched(plan, WORLD) == {"/": {"w", "v"}, "/w": {"sub", "z"}, "/w/sub": {"x", "y"}}
    assert plan.possible


def test_what_lies_below_a_missing_folder_is_not_watched_yet() -> None:
    plan = Plan(["/w/deep/er/file"])
    assert watched(plan, WORLD) == {"/": {"w"}, "/w": {"deep"}}
    assert plan.possible


def test_a_missing_path_may_be_missing_twice_and_above_another() -> None:
    plan = Plan(["/w/a", "/w/a", "/w/a/b"])
    assert watched(plan, WORLD) == {"/": {"w"}, "/w": {"a"}}
    assert plan.possible


@pytest.mark.parametrize(
    ("missing", "present"),
    [
        (["/"], None),
        (["/w"], None),
        (["/w/sub"], None),
        (["/w/link"], None),  # it exists, wherever it leads
        (["/w/link/x"], None),
        (["/w/file/x"], None),
        (["/w/odd"], None),
        (["/w/odd/x"], None),
        (["/w/a", "/w/sub"], None),
        (["/w/a"], "/w/none"),
        (["/w/a"], "/none/x"),
        (["/w/a"], "/w/link"),
        (["/w/a"], "/w/link/x"),
        (["/w/a"], "/w/a"),
        (["/w/a"], "/w/a/b"),
    ],
)
def test_what_cannot_be_watched_is_known(missing: list[str], present: str | None) -> None:
    plan = Plan(missing, present)
    watched(plan, WORLD)
    assert not plan.possible
    assert plan.next() is None


@pytest.mark.parametrize("present", ["/", "/w", "/w/sub", "/w/file"])
def test_what_must_be_there_is_watched_by_its_name(present: str) -> None:
    plan = Plan(["/w/a"], present)
    assert watched(plan, WORLD).keys() == {"/", "/w"}
    assert plan.possible


def test_only_the_folder_of_what_is_present_hears_of_writes() -> None:
    plan = Plan(["/w/a", "/w/sub/b"], "/w/sub/c")
    hears = {}
    while (folder := plan.next()) is not None:
        hears[folder.path] = folder.has_present
        for name in folder.names:
            folder.saw(name, {"w": FOLDER, "sub": FOLDER, "c": OTHER}.get(name, ABSENT))
    assert hears == {"/": False, "/w": False, "/w/sub": True}


def test_a_very_deep_path_is_no_trouble() -> None:
    plan = Plan(["/x" * 2000], "/x" * 1999)
    assert watched(plan, {}) == {"/": {"x"}}
    assert not plan.possible


names = st.sampled_from(["a", "b", "c"])
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
worlds = st.dictionaries(paths, st.sampled_from([FOLDER, OTHER, LINK, UNKNOWN]))


@given(st.lists(paths, min_size=1, max_size=4), worlds)
def test_a_path_is_absent_and_its_nearest_folder_watched_or_the_plan_is_not_possible(
    missing: list[str], world: World
) -> None:
    plan = Plan(missing)
    found = watched(plan, world)
    for path in missing if plan.possible else []:
        parts = path.split("/")[1:]
        here = ""
        for name in parts:
            assert name in found[here or "/"]
            here = f"{here}/{name}"
            if world.get(here, ABSENT) == ABSENT:
                break
            assert world[here] == FOLDER and here != path
