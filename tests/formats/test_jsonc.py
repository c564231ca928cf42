"""JSON with comments: read as JSON is, with the line of everything, in time proportional to its length."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import FileInvalid
from outfitter.formats import jsonc

quick = settings(deadline=None, max_examples=60)

EVERYTHING = """\
// settings of an editor
{
  "a": 1, // behind a value
  /* over
     lines */ "b": {
    "http://x": "// no comment",
    "c": [ "/* none */", 2,
      {"d": null,}, // a comma, and a comment
      /* and one more */
    ],
  }, "e\\u0041": "\\"", "f"
    : true,
}
// the end"""


def mistake(text: str) -> str:
    with pytest.raises(FileInvalid) as raised:
        jsonc.parse(text, "f.json")
    return str(raised.value)


def test_everything_is_read_and_has_its_line() -> None:
    document = jsonc.parse(EVERYTHING, "f.json")
    inner = {"http://x": "// no comment", "c": ["/* none */", 2, {"d": None}]}
    assert document.value == {"a": 1, "b": inner, "eA": '"', "f": True}
    paths: list[tuple[str | int, ...]] = [
        ("a",),
        ("b",),
        ("b", "http://x"),
        ("b", "c"),
        ("b", "c", 1),
        ("b", "c", 2, "d"),
        ("eA",),
        ("f",),
        ("nowhere",),
        ("b", "c", 9),
    ]
    assert [document.line(*path) for path in paths] == [3, 5, 6, 7, 7, 8, 11, 11, 1, 7]


def test_comments_become_blanks_and_lines_stay() -> None:
    assert jsonc.plain("[1, // x\n2,/*\n*/]") == "[1,     \n2   \n  ]"
    assert jsonc.plain(EVERYTHING).count("\n") == EVERYTHING.count("\n")
    assert len(jsonc.plain(EVERYTHING)) == len(EVERYTHING)


def test_of_a_key_that_is_there_twice_the_last_counts() -> None:
    document = jsonc.parse('{"a": 1,\n"a": 2}', "f.json")
    assert (document.value, document.line("a")) == ({"a": 2}, 2)


def test_a_mark_at_the_beginning_of_the_file_is_no_content() -> None:
    assert jsonc.parse("\ufeff{}", "f.json").value == {}


@pytest.mark.parametrize(
    "text", ["[,]", "{,}", "[1,,]", "[/* */,]", '{"a":,}', "[1,/**/,]", "1,", ",", "", "//"]
)
def test_a_comma_is_allowed_behind_an_entry_only(text: str) -> None:
    assert mistake(text).startswith("f.json:1: not valid JSON: ")


def test_mistakes_have_their_line() -> None:
    assert mistake('{\n  "a": x\n}') == (
        "f.json:2: not valid JSON: expecting value at column 8; "
        "write it as JSON; comments and a comma after the last entry are allowed"
    )
    assert mistake("{}\n\n/* x") == "f.json:3: not valid JSON: a comment does not end; close it with */"
    assert mistake("\n" + "[" * 101) == "f.json:2: not valid JSON: nested too deeply; use fewer levels"
    assert mistake("[NaN]") == "f.json: not valid JSON: `NaN` is not a JSON number; write another number"
    assert "too many digits" in mistake("1" * 5000)
    assert mistake('["a\nb"]').startswith("f.json:1: not valid JSON: ")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from('ab"\\/*,:{}[]\n\u20ac'), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
between = st.lists(
    st.sampled_from(
        ["", " ", "\n", "\t", "// x\n", "/* y */", "/*\n*/", '// "\n', "/*,*/", "//]\n", "/***/"]
    ),
    max_size=2,
).map("".join)


def written(draw: Any, value: Any) -> str:
    """The value as somebody may write it, with comments between all its parts."""

    def gap() -> str:
        return str(draw(between))

    if isinstance(value, list):
        parts = [written(draw, one) for one in value]
        opening, closing = "[", "]"
    elif isinstance(value, dict):
        parts = [f"{json.dumps(key)}{gap()}:{gap()}{written(draw, one)}" for key, one in value.items()]
        opening, closing = "{", "}"
    else:
        return json.dumps(value)
    inside = ",".join([f"{gap()}{part}{gap()}" for part in parts])
    last = f",{gap()}" if parts and draw(st.booleans()) else ""
    return f"{opening}{inside}{last}{gap()}{closing}"


@quick
@given(values, st.data())
def test_it_reads_what_was_meant(value: Any, data: st.DataObject) -> None:
    text = data.draw(between) + written(data.draw, value) + data.draw(between)
    assert jsonc.parse(text, "f").value == value
    assert json.loads(jsonc.plain(text)) == value


@quick
@given(values)
def test_plain_json_is_left_alone(value: Any) -> None:
    text = json.dumps(value, indent=1)
    assert jsonc.plain(text) == text


@quick
@given(st.text(st.sampled_from('{}[],:"/*\\ \n1ae'), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        document = jsonc.parse(text, "f")
    except FileInvalid:
        return
    assert document.value == json.loads(jsonc.plain(text))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "/" * 500_000,
        "/**/" * 100_000,
        "[" + "1,/*x*/" * 60_000 + "]",
        '"\\' * 200_000,
        "," * 300_000,
        "\n" * 500_000,
        "[" + "//\n" * 150_000 + "]",
        "{" + '"a":1,\n' * 60_000 + "}",
    ],
    ids=lambda text: text[:8],
)
def test_long_texts_take_no_longer_than_their_length(text: str) -> None:
    # Were it quadratic, this would run into the time limit; and what is read is what stands there.
    try:
        document = jsonc.parse(text, "f")
    except FileInvalid as error:
        [mistake] = error.mistakes
        assert mistake.line is None or 1 <= mistake.line <= text.count("\n") + 1
    else:
        assert text[0] in "[{" and document.line(len(document.value) - 1, "a") <= text.count("\n") + 1
