"""fs/watch, fs/unwatch and the notices of watches: defaults, bounds, and both ways over the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.errors import InvalidParams, Refused
from outfitter.protocol.uri import parse
from outfitter.protocol.watching import (
    ChangedNotice,
    MissingChangedNotice,
    UnwatchParams,
    WatchParams,
)

HERE = parse("file:///w")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, WatchParams("i", HERE)),
        ({"recursive": None, "debounceMs": None, "ignore": None}, WatchParams("i", HERE)),
        (
            {"recursive": False, "debounceMs": 0, "ignore": ["*.o"], "unknown": 1},
            WatchParams("i", HERE, False, 0, ("*.o",)),
        ),
        ({"debounceMs": 10_000}, WatchParams("i", HERE, debounce_ms=10_000)),
        ({"watchId": "é" * 32}, WatchParams("é" * 32, HERE)),
    ],
)
def test_a_name_and_a_path_are_enough(params: dict[str, object], expected: WatchParams) -> None:
    decoded = WatchParams.decode({"watchId": "i", "path": "file:///w", **params})
    assert decoded == expected
    assert WatchParams.decode(decoded.encode()) == decoded


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"watchId": 1}, "invalid type: number, expected a string"),
        ({"path": "x"}, "invalid URI: relative URL without a base"),
        ({"recursive": 1}, "invalid type: number, expected a boolean"),
        ({"debounceMs": 10_001}, "`debounceMs` must be between 0 and 10000"),
        ({"debounceMs": -1}, "invalid number"),
        ({"ignore": "x"}, 'invalid type: string "x", expected a sequence'),
        ({"ignore": [1]}, "invalid type: number, expected a string"),
        ({"ignore": ["x"] * 65}, "`ignore` takes 64 patterns of 512 characters at most"),
        ({"ignore": ["x" * 513]}, "`ignore` takes 64 patterns of 512 characters at most"),
    ],
)
def test_bad_params_are_refused(params: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        WatchParams.decode({"watchId": "i", "path": "file:///w", **params})
    assert str(caught.value) == text


def test_too_long_a_name_and_a_sandbox_are_refused() -> None:
    for params in ({"watchId": "é" * 33}, {"sandbox": {"permissions": {"type": "managed"}}}):
        with pytest.raises(Refused):
            WatchParams.decode({"watchId": "i", "path": "file:///w", **params})


def test_unwatch_is_a_name() -> None:
    assert UnwatchParams.decode({"watchId": "i"}) == UnwatchParams("i")
    assert UnwatchParams("i").encode() == {"watchId": "i"}


@given(st.integers(0, 2**64 - 1))
def test_news_of_missing_paths_goes_both_ways(number: int) -> None:
    notice = MissingChangedNotice(number)
    message = json.loads(notice.message())
    assert message["method"] == "fs/missingChanged"
    assert MissingChangedNotice.decode(message["params"]) == notice


texts = st.text(st.characters(codec="utf-8"), max_size=5)
kinds = st.sampled_from(["created", "modified", "removed"])


@given(texts, st.lists(st.tuples(texts, kinds)), st.booleans())
def test_news_of_changes_goes_both_ways(
    watch_id: str, changes: list[tuple[str, str]], overflow: bool
) -> None:
    notice = ChangedNotice(watch_id, changes, overflow)
    message = json.loads(notice.message())
    assert message["method"] == "fs/changed"
    assert ChangedNotice.decode(message["params"]) == notice


@pytest.mark.parametrize("changes", [None, {}, [1], [{"path": "p"}]])
def test_news_that_makes_no_sense_is_refused(changes: object) -> None:
    with pytest.raises(InvalidParams):
        ChangedNotice.decode({"watchId": "i", "changes": changes, "overflow": False})
