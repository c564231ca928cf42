"""What a thread selects: sticky, inherited by forks, overridden by a turn once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from outfitter.environments.file import Configuration, Declared
from outfitter.environments.manager import EnvironmentManager
from outfitter.environments.roots import SelectedRoot, Selection, resolve
from outfitter.environments.selections import SelectedEnvironment, ThreadSelection, TurnSelection
from outfitter.errors import EnvironmentReplaced, EnvironmentUnknown, SettingInvalid

from .door import Door, in_a_loop

A, B = SelectedEnvironment("a", "/work a"), SelectedEnvironment("b", "file:///srv")
ROOTS = Selection([SelectedRoot("tools", "a", "/opt/tools")])
THREAD = ThreadSelection([A, B], ROOTS)


def refused(call: Any, *args: Any) -> str:
    with pytest.raises(SettingInvalid) as raised:
        call(*args)
    return str(raised.value)


def test_a_directory_is_a_path_or_its_uri() -> None:
    assert SelectedEnvironment("a", "/work a") == SelectedEnvironment("a", "file:///work%20a")
    assert A.cwd.local_path() == "/work a"


def test_what_cannot_be_selected_is_refused() -> None:
    assert refused(SelectedEnvironment, "", "/x") == "a selected environment must have an id"
    assert refused(SelectedEnvironment, "a", "x") == (
        "the directory of environment `a` has an unusable path: invalid URI: relative URL without a base"
    )
    again = SelectedEnvironment("a", "/other")
    assert refused(ThreadSelection, [A, again]) == "environment `a` is selected twice"
    assert refused(THREAD.turn, [B, B]) == "environment `b` is selected twice"


def test_a_selection_holds_until_another_one_is_made() -> None:
    assert THREAD.turn() == THREAD.turn() == TurnSelection((A, B), ROOTS)
    assert (THREAD.turn().primary, THREAD.turn().names) == (A, ("a", "b"))
    later = THREAD.select(B)
    assert (later.turn().names, later.roots, THREAD.turn().names) == (("b",), ROOTS, ("a", "b"))
    assert later.with_roots(Selection()) == ThreadSelection([B])


def test_a_turn_overrides_it_once() -> None:
    elsewhere = SelectedEnvironment("b", "/elsewhere")
    assert THREAD.turn([elsewhere]) == TurnSelection((elsewhere,), ROOTS)
    assert (THREAD.turn([]).primary, THREAD.turn([]).names) == (None, ())
    assert THREAD.turn().primary == A


def test_a_fork_inherits_all_of_it_and_what_it_selects_is_its_own() -> None:
    fork = THREAD.fork()
    assert fork == THREAD
    assert fork.select(B).turn().names == ("b",)
    assert THREAD.turn().names == ("a", "b")


# Records


def test_a_record_is_what_it_was_and_spelled_as_codex_spells_it() -> None:
    stored = json.loads(json.dumps(THREAD.to_json()))
    assert ThreadSelection.from_json(stored) == THREAD
    assert stored["environments"] == [
        {"environmentId": "a", "cwd": "file:///work%20a"},
        {"environmentId": "b", "cwd": "file:///srv"},
    ]
    assert list(stored) == ["environments", "selectedCapabilityRoots"]


@pytest.mark.parametrize(
    "record",
    [{}, {"other": 1}, {"environments": None, "selectedCapabilityRoots": None}, {"environments": []}],
)
def test_a_record_from_before_selections_has_none(record: Any) -> None:
    assert ThreadSelection.from_json(record) == ThreadSelection()


def test_a_record_of_a_part_of_the_history_has_the_selections_too() -> None:
    # A harness that forks a thread with its last turns alone writes this record and those turns.
    history = [{"turn": number} for number in range(9)]
    record = {**THREAD.fork().to_json(), "history": history[-2:]}
    assert ThreadSelection.from_json(json.loads(json.dumps(record))) == THREAD


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([], "the record of a thread must be an object"),
        ({"environments": {}}, "selected environments must be an array"),
        ({"environments": [1]}, "selected environment number 1 must be an object"),
        (
            {"environments": [{"cwd": "file:///"}]},
            "selected environment number 1: `environmentId` must be a string",
        ),
        ({"environments": [{"environmentId": "a"}]}, "selected environment number 1: `cwd` must be a string"),
        (
            {"environments": [{"environmentId": "a", "cwd": "/x"}]},
            "selected environment number 1: `cwd` must be a file: URI",
        ),
        ({"selectedCapabilityRoots": {}}, "selected roots must be an array"),
    ],
)
def test_what_was_not_stored_by_us_is_refused_with_its_place(record: Any, said: str) -> None:
    assert refused(ThreadSelection.from_json, record) == said


# Steps of a turn


URLS = {"a": "ws://127.0.0.1:1", "b": "ws://127.0.0.1:2"}


def managing(door: Door, *more: Declared) -> EnvironmentManager:
    declared = [Declared(name, url=url) for name, url in URLS.items()]
    return EnvironmentManager(Configuration(environments=(*declared, *more)), opener=door)


@in_a_loop
async def test_a_step_captures_what_its_turn_has_selected() -> None:
    door = Door()
    async with managing(door) as manager:
        client = await door.let_in(URLS["b"])
        async with manager.step(THREAD.select(B).turn().names) as step:
            assert [one.id for one in step.all()] == ["b"]
            with pytest.raises(EnvironmentUnknown):
                step.get("a")
            manager.put(Declared("b", url="ws://127.0.0.1:9"))
            assert await step.get("b").client() is client
    assert step.default() is None


@in_a_loop
async def test_a_step_with_an_unknown_environment_does_not_begin() -> None:
    async with managing(Door()) as manager:
        step = manager.step(["a", "zz"])
        with pytest.raises(EnvironmentUnknown, match="`zz` is not configured"):
            await step.__aenter__()
        assert (step.is_open, step.all()) == (False, [])


@in_a_loop
async def test_a_lazy_environment_outside_of_the_step_is_asked_to_start_and_stays_what_it_was() -> None:
    door = Door()
    lazy = Declared("lazy", program="z")
    async with managing(door, lazy) as manager:
        await door.let_in(URLS["a"])
        async with manager.step(["a"]) as step:
            roots = Selection([SelectedRoot("r", "lazy", "/r")])
            resolving = asyncio.ensure_future(resolve(roots, step))
            client = await door.let_in("z")
            [found] = (await resolving).available
            assert found.client is client  # type: ignore[comparison-overlap]
            manager.put(Declared("lazy", program="another"))
            [found] = (await resolve(roots, step)).available
            assert found.client is client  # type: ignore[comparison-overlap]
            assert [one.id for one in step.all()] == ["a", "lazy"]
        # Afterwards it is the new one, and nobody holds the old one.
        with pytest.raises(EnvironmentReplaced):
            await found.environment.client()
        with pytest.raises(EnvironmentUnknown):
            step.include("b")
