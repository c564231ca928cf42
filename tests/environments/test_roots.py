"""Selected roots: a value that lasts, and what of it each step has."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.environments.file import Configuration, Declared
from outfitter.environments.manager import EnvironmentManager
from outfitter.environments.roots import (
    AvailableRoot,
    OmittedRoot,
    ResolvedRoots,
    SelectedRoot,
    Selection,
    resolve,
)
from outfitter.errors import DialFailed, Disconnected, SettingInvalid
from tests.support.machine import SECOND

from .door import Door, in_a_loop, settle

A = Declared("a", url="ws://127.0.0.1:1")
B = Declared("b", url="ws://127.0.0.1:2")
TOOLS = SelectedRoot("tools", "a", "/opt/tools")
DOCS = SelectedRoot("docs", "b", "file:///srv/docs")
MORE = SelectedRoot("more", "a", "file:///C:/more")
LOST = SelectedRoot("lost", "zz", "/x")


def refused(call: Any, *args: Any) -> str:
    with pytest.raises(SettingInvalid) as raised:
        call(*args)
    return str(raised.value)


# The selection


def test_a_path_and_its_uri_are_the_same_root() -> None:
    assert SelectedRoot("x", "a", "/a b") == SelectedRoot("x", "a", "file:///a%20b")
    assert SelectedRoot("x", "a", "/a/../b").path.text == "file:///b"


@pytest.mark.parametrize(
    ("root", "said"),
    [
        (("", "a", "/x"), "a selected root must have an id"),
        (("x", "a", "/\0"), "selected root `x` has an unusable path: 'file:///%00' is invalid on 'linux'"),
        (("x", "", "/x"), "selected root `x` must name an environment"),
        (("x", "a", ""), "selected root `x` has an unusable path: invalid URI: relative URL without a base"),
        (
            ("x", "a", "y/z"),
            "selected root `x` has an unusable path: invalid URI: relative URL without a base",
        ),
        (
            ("x", "a", "http://y"),
            "selected root `x` has an unusable path: unsupported path URI scheme `http`",
        ),
    ],
)
def test_a_root_that_cannot_be_used_is_refused(root: tuple[str, str, str], said: str) -> None:
    assert refused(SelectedRoot, *root) == said


def test_adding_and_removing_give_new_selections_in_order() -> None:
    empty = Selection()
    both = empty.add(TOOLS).add(DOCS)
    assert (empty.roots, both.roots) == ((), (TOOLS, DOCS))
    assert both.remove("tools") == Selection([DOCS])
    assert both == Selection([TOOLS, DOCS]) != Selection([DOCS, TOOLS])


def test_an_id_is_there_once() -> None:
    other = SelectedRoot("tools", "b", "/elsewhere")
    assert refused(Selection([TOOLS]).add, other) == "selected root `tools` is listed twice"
    assert refused(Selection([TOOLS]).remove, "x") == "no selected root is named `x`; known: `tools`"


def test_the_spelling_is_that_of_codex() -> None:
    expected = {"type": "environment", "environmentId": "a", "path": "file:///opt/tools"}
    assert Selection([TOOLS]).to_json() == [{"id": "tools", "location": expected}]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)


@given(st.lists(st.builds(SelectedRoot, TEXTS, TEXTS, TEXTS.map(lambda text: f"/{text}")), max_size=6))
def test_a_selection_survives_being_stored(roots: list[SelectedRoot]) -> None:
    selection = Selection({root.id: root for root in roots}.values())
    stored = json.dumps(selection.to_json())
    assert Selection.from_json(json.loads(stored)) == selection


def entry(**changes: Any) -> list[Any]:
    location = {"type": "environment", "environmentId": "a", "path": "file:///x"}
    whole: dict[str, Any] = {"id": "x", "location": location}
    for key, value in changes.items():
        (whole if key in whole else location)[key] = value
    return [whole]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "selected roots must be an array"),
        (None, "selected roots must be an array"),
        ([1], "selected root number 1 must be an object"),
        ([*entry(), {"id": "y"}], "selected root number 2: `location` must be an object"),
        (entry(id=1), "selected root number 1: `id` must be a string"),
        (entry(type="cloud"), "selected root number 1, location: `type` must be `environment`"),
        (entry(environmentId=None), "selected root number 1, location: `environmentId` must be a string"),
        (entry(path=["/x"]), "selected root number 1, location: `path` must be a string"),
        (entry(path="/x"), "selected root number 1, location: `path` must be a file: URI"),
        (entry(path="x"), "selected root `x` has an unusable path: invalid URI: relative URL without a base"),
        (entry() + entry(), "selected root `x` is listed twice"),
    ],
)
def test_what_was_not_stored_by_us_is_refused_with_its_place(value: Any, said: str) -> None:
    assert refused(Selection.from_json, value) == said


# Resolving


def managing(door: Door) -> EnvironmentManager:
    return EnvironmentManager(Configuration(environments=(A, B)), opener=door)


@in_a_loop
async def test_roots_come_with_what_the_step_holds() -> None:
    door = Door()
    async with managing(door) as manager:
        a, b = await door.let_in("ws://127.0.0.1:1"), await door.let_in("ws://127.0.0.1:2")
        async with manager.step() as step:
            manager.put(Declared("a", url="ws://127.0.0.1:9"))
            manager.drop("b")
            found = await resolve(Selection([TOOLS, DOCS, MORE]), step)
            assert found == ResolvedRoots(
                (
                    AvailableRoot(TOOLS, step.get("a"), a),  # type: ignore[arg-type]
                    AvailableRoot(DOCS, step.get("b"), b),  # type: ignore[arg-type]
                    AvailableRoot(MORE, step.get("a"), a),  # type: ignore[arg-type]
                ),
                (),
            )
            assert (a.probes, b.probes) == (1, 1)  # once for all roots of one environment


@in_a_loop
async def test_what_is_not_available_is_left_out_with_its_reason_and_is_back_later() -> None:
    door = Door()
    async with managing(door) as manager:
        a = await door.let_in("ws://127.0.0.1:1")
        await door.turn_away("ws://127.0.0.1:2", DialFailed("refused", retryable=True))
        selection = Selection([LOST, DOCS, TOOLS])

        async def recovering() -> str:
            raise Disconnected("exec-server environment is recovering")

        answer, a.answer = a.answer, recovering
        async with manager.step() as step:
            resolving = asyncio.ensure_future(resolve(selection, step))
            await door.turn_away("ws://127.0.0.1:2", DialFailed("still refused", retryable=True))
            unknown = "environment `zz` is not configured; known: `local`, `a`, `b`"
            assert await resolving == ResolvedRoots(
                (),
                (
                    OmittedRoot(LOST, "unknown", unknown),
                    OmittedRoot(DOCS, "unavailable", "still refused"),
                    OmittedRoot(TOOLS, "unavailable", "exec-server environment is recovering"),
                ),
            )
        a.answer = answer
        manager.put(Declared("zz", program="z"))
        async with manager.step() as step:
            resolving = asyncio.ensure_future(resolve(selection, step))
            await door.let_in("ws://127.0.0.1:2")
            await door.let_in("z")
            found = await resolving
            assert [one.root.id for one in found.available] == ["lost", "docs", "tools"]
            assert found.omitted == ()


@in_a_loop
async def test_a_hanging_environment_holds_the_step_up_for_the_limit_only_and_is_there_for_the_next() -> None:
    door = Door()
    async with managing(door) as manager:
        await door.let_in("ws://127.0.0.1:1")
        await settle()
        limit = 0.05 * SECOND
        async with manager.step() as step:
            found = await resolve(Selection([TOOLS, DOCS]), step, within=limit)
            assert [one.root for one in found.available] == [TOOLS]
            reason = f"environment `b` gave no answer within {limit:g} s"
            assert found.omitted == (OmittedRoot(DOCS, "unavailable", reason),)
        await door.let_in("ws://127.0.0.1:2")  # the same attempt, which went on
        async with manager.step() as step:
            found = await resolve(Selection([TOOLS, DOCS]), step, within=limit)
            assert [one.root for one in found.available] == [TOOLS, DOCS]
        assert len(door.knocks) == 2


@in_a_loop
async def test_environments_are_asked_at_the_same_time() -> None:
    door = Door()
    async with managing(door) as manager:
        a, b = await door.let_in("ws://127.0.0.1:1"), await door.let_in("ws://127.0.0.1:2")
        both = asyncio.Barrier(2)

        async def together() -> str:
            await both.wait()  # each answers only while the other is being asked
            return "ready"

        a.answer = b.answer = together
        async with manager.step() as step:
            found = await resolve(Selection([TOOLS, DOCS]), step)
            assert len(found.available) == 2


@in_a_loop
async def test_an_empty_selection_asks_nobody() -> None:
    async with managing(Door()) as manager, manager.step() as step:
        assert await resolve(Selection(), step) == ResolvedRoots((), ())


@in_a_loop
async def test_a_fault_is_not_taken_for_an_unavailable_environment() -> None:
    door = Door()
    async with managing(door) as manager:
        a = await door.let_in("ws://127.0.0.1:1")

        async def broken() -> str:
            raise ZeroDivisionError

        a.answer = broken
        async with manager.step() as step:
            with pytest.raises(ZeroDivisionError):
                await resolve(Selection([TOOLS]), step)


@in_a_loop
async def test_real_environments_are_reached_and_can_be_used() -> None:
    program = Declared("p", program=sys.executable, args=("-m", "outfitter", "serve", "--listen", "stdio"))
    gone = Declared("gone", program="/no/such/program")
    roots = [SelectedRoot(id, id, "/usr") for id in ("p", "gone", "local")]
    async with (
        EnvironmentManager(Configuration(environments=(program, gone))) as manager,
        manager.step() as step,
    ):
        found = await resolve(Selection(roots), step, within=20 * SECOND)
        assert [one.root.id for one in found.available] == ["p", "local"]
        assert [one.root.id for one in found.omitted] == ["gone"]
        assert "/no/such/program" in found.omitted[0].reason
        for one in found.available:
            done = await one.client.run(["pwd"], cwd=one.root.path.text)
            assert done.stdout == b"/usr\n"
