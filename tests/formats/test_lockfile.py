"""The lock's file: every mistake with its line, and nothing lost between writing and reading."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import FileInvalid
from outfitter.formats.lockfile import decode, encode
from tests.env.test_lock import environment, lock_of

GOOD = encode(lock_of(environment({"A": "1", "PATH": "/a"}, {"B_KEY": "2"}), tools={"uv": "1"}))


def mistakes(text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(FileInvalid) as caught:
        decode(text)
    assert {one.file for one in caught.value.mistakes} == {"outfitter.lock"}
    return [(one.line, one.text) for one in caught.value.mistakes]


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ('"version": 1', '"version": "1"', 2, "`version` is missing or unknown"),
        ('"version": 1', '"version": 0', 2, "`version` is missing or unknown"),
        ('"version": 1,', "", None, "`version` is missing or unknown"),
        ('"salt": "0001', '"salt": "zz', 3, "`salt` must be at least 16 bytes in hexadecimal"),
        ('"covers": ["L0"', '"covers": ["L9"', 4, "`covers` is not a layer, L0 to L8"),
        ('"covers": [', '"more": 1, "covers": [', 4, "the file has an unknown member `more`"),
        ('"covers": [', '"only": [1], "covers": [', 4, "`only` must have patterns of names"),
        ('"uv": "1"', '"uv": 1', 11, "the tool `uv` must be a string"),
        ('"uv": "1"', '"uv": "1", "uv": "2"', 11, "`uv` is in `tools` twice"),
        (
            '"state": "applied"}\n',
            '"state": "on"}\n',
            8,
            "the layer `project` has a member that is missing or not a string",
        ),
        (
            '"state": "applied"}\n',
            '"x": 1, "state": "applied"}\n',
            8,
            "the layer `project` has an unknown member `x`",
        ),
        (
            '"secret": true',
            '"secret": false',
            15,
            "the variable `B_KEY` must have exactly one of `secret`, `digest` and `segments`",
        ),
        ('"secret": true', '"value": "x"', 15, "the variable `B_KEY` has an unknown member `value`"),
        (
            '"segments": ["/a"]',
            '"segments": [1]',
            16,
            "the variable `PATH` must have exactly one of `secret`, `digest` and `segments`",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, line: int | None, text: str) -> None:
    assert GOOD.count(old) >= 1
    assert (line, text) in mistakes(GOOD.replace(old, new, 1))


def test_only_what_is_there_more_than_once_is_told_and_once() -> None:
    often = GOOD.replace('"uv": "1"', '"uv": "1", "pip": "1", "uv": "2", "uv": "3"')
    assert mistakes(often) == [(11, "`uv` is in `tools` twice")]


def test_every_mistake_is_told() -> None:
    found = mistakes('{"version": 1, "layers": [7], "variables": {"A": 1}}')
    assert sorted(text for _, text in found) == [
        "`covers` is missing or not an array",
        "`salt` must be at least 16 bytes in hexadecimal",
        "`tools` is missing or not an object",
        "an entry of `layers` is not an object",
        "the variable `A` is not an object",
    ]


def test_a_conflict_of_a_merge_is_told_with_its_line() -> None:
    rows = GOOD.split("\n")
    rows.insert(12, "<<<<<<< HEAD")
    assert mistakes("\n".join(rows))[0][0] == 13


def test_a_later_format_asks_for_a_later_outfitter() -> None:
    with pytest.raises(FileInvalid, match=r"later version of Outfitter .*; update Outfitter"):
        decode(GOOD.replace('"version": 1', '"version": 2'))


@pytest.mark.parametrize("text", ["", "[]", "null", "1" * 5000, "[" * 100_000, '{"a": "\\ud800"}'])
def test_what_is_no_lock_is_refused(text: str) -> None:
    assert mistakes(text)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.sampled_from(["L3", "applied", "00" * 16]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["layer", "id", "state", "digest", "secret", "segments"]) | st.text(max_size=2),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(list(json.loads(GOOD))), json_values, max_size=3))
def test_any_json_is_a_lock_or_a_list_of_mistakes(changed: dict[str, Any]) -> None:
    text = json.dumps({**json.loads(GOOD), **changed})
    try:
        lock = decode(text)
    except FileInvalid as error:
        assert error.mistakes
    else:
        assert decode(encode(lock)) == lock


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, len(GOOD)), st.integers(0, 20), st.sampled_from(["", "{", '"', ",", "\n", "\\", "null"])
)
def test_any_damage_is_told_or_harmless(at: int, size: int, instead: str) -> None:
    damaged = GOOD[:at] + instead + GOOD[at + size :]
    try:
        lock = decode(damaged)
    except FileInvalid as error:
        assert str(error).startswith("outfitter.lock")
    else:
        assert decode(encode(lock)) == lock
        assert {*lock.variables} == {*json.loads(damaged)["variables"]}
