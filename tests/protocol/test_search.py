"""fs/search: defaults, bounds, and a result read back."""

from __future__ import annotations

import pytest

from outfitter.errors import InvalidParams
from outfitter.protocol.search import MatchResult, SearchParams, SearchResult
from outfitter.protocol.uri import parse

HERE = parse("file:///w")


def test_a_path_and_a_pattern_are_enough() -> None:
    decoded = SearchParams.decode({"path": "file:///w", "pattern": "x"})
    assert decoded == SearchParams(HERE, "x")
    assert decoded.encode() == {
        "path": "file:///w",
        "pattern": "x",
        "regex": True,
        "caseSensitive": True,
        "include": [],
        "exclude": [],
        "maxMatches": 1000,
        "maxFileBytes": 4 << 20,
        "hidden": False,
        "honourIgnoreFiles": True,
        "timeoutMs": 30_000,
    }
    nothing = dict.fromkeys(decoded.encode())
    assert SearchParams.decode({**nothing, "path": "file:///w", "pattern": "x"}) == decoded


def test_everything_can_be_said() -> None:
    params = SearchParams(
        HERE,
        "x",
        regex=False,
        case_sensitive=False,
        include=("a",),
        exclude=("b", "c"),
        max_matches=10_000,
        max_file_bytes=64 << 20,
        hidden=True,
        honour_ignore_files=False,
        timeout_ms=1,
    )
    assert SearchParams.decode(params.encode()) == params


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"pattern": 1}, "invalid type: number, expected a string"),
        ({"pattern": "x" * 4097}, "`pattern` takes 4096 characters at most"),
        ({"maxMatches": 0}, "`maxMatches` must be between 1 and 10000"),
        ({"maxMatches": 10_001}, "`maxMatches` must be between 1 and 10000"),
        ({"maxFileBytes": (64 << 20) + 1}, "`maxFileBytes` must be between 1 and 67108864"),
        ({"timeoutMs": 0}, "`timeoutMs` must be between 1 and 30000"),
        ({"exclude": ["x"] * 65}, "`exclude` takes 64 patterns of 512 characters at most"),
        ({"hidden": "yes"}, 'invalid type: string "yes", expected a boolean'),
    ],
)
def test_bad_params_are_refused(params: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        SearchParams.decode({"path": "file:///w", "pattern": "x", **params})
    assert str(caught.value) == text


RESULT = {
    "matches": [{"path": "file:///w/f", "line": 1, "column": 2, "text": "ax", "start": 1, "end": 2}],
    "filesSearched": 3,
    "filesSkipped": 1,
    "truncated": True,
    "errors": [{"path": "file:///w/g", "message": "no"}],
}


def test_a_result_is_read() -> None:
    assert SearchResult.decode(RESULT) == SearchResult(
        [MatchResult("file:///w/f", 1, 2, "ax", 1, 2)], 3, 1, True, [("file:///w/g", "no")]
    )


@pytest.mark.parametrize("member", RESULT)
def test_half_a_result_is_refused(member: str) -> None:
    with pytest.raises(InvalidParams):
        SearchResult.decode({name: value for name, value in RESULT.items() if name != member})
    with pytest.raises(InvalidParams):
        SearchResult.decode({**RESULT, member: "nonsense"})
