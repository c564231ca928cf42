"""JSON text is read as strictly as the reference reads it, and costs no more than its length."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outfitter.protocol.jsontext import MAX_DEPTH, MAX_VALUES, JsonError, dumps, loads, quote

quick = settings(deadline=None, max_examples=50)

TOO_MANY = "JSON-RPC message exceeds the limit of 262144 JSON values"

# Text that UTF-8 can carry, which is all that JSON may hold.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=10,
)


def refusal(text: str) -> str:
    with pytest.raises(JsonError) as caught:
        loads(text)
    return str(caught.value)


# Values


@quick
@given(values)
def test_what_the_standard_library_writes_is_read_back(value: object) -> None:
    assert loads(json.dumps(value)) == value


@quick
@given(values)
def test_unescaped_text_is_read_back(value: object) -> None:
    assert loads(json.dumps(value, ensure_ascii=False, indent=2)) == value


@quick
@given(values)
def test_compact_text_agrees_with_the_standard_library(value: object) -> None:
    assert dumps(value) == json.dumps(value, separators=(",", ":"))


@quick
@given(st.text(max_size=20))
def test_a_quoted_text_is_the_standard_library_literal(text: str) -> None:
    assert quote(text) == json.dumps(text)


@quick
@given(st.text(alphabet='[]{}",:\\ \n019.eE+-tfn\u00e9ud8', max_size=30))
def test_nothing_is_accepted_that_the_standard_library_refuses(text: str) -> None:
    try:
        value = loads(text)
    except JsonError:
        return
    assert json.loads(text) == value


@pytest.mark.parametrize("space", [" ", "\t", "\n", "\r", " \t\r\n"])
def test_white_space_around_a_text_is_ignored(space: str) -> None:
    assert loads(f'{space}{{"a":{space}1}}{space}') == {"a": 1}


@pytest.mark.parametrize("text", ["\u00a01", "1\u2028", "\ufeff{}", "\x0b1", "1\x00"])
def test_only_the_four_spaces_of_json_are_white(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}])
def test_what_has_no_json_form_is_not_written(value: object) -> None:
    with pytest.raises(TypeError, match=f"{type(value).__name__} has no JSON form"):
        dumps(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_nan_and_infinity_are_not_written(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps(value)


# Refusals


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a":NaN}', "[1,Infinity]"])
def test_nan_and_infinity_are_refused(text: str) -> None:
    assert refusal(text).startswith("expected value, found ")


@pytest.mark.parametrize(
    ("text", "column"), [("{}x", 3), ("1,", 2), ("[1]]", 4), ('{"a":1}x', 8), ("01", 2), ("1e", 2)]
)
def test_trailing_characters_are_refused_where_they_stand(text: str, column: int) -> None:
    assert refusal(text) == f"trailing characters at column {column}"


def test_an_empty_text_ends_too_early() -> None:
    assert [refusal(text) for text in ("", " \n")] == ["EOF while parsing a value at column 0"] * 2


@pytest.mark.parametrize(
    "text",
    ["[", "{", '"', "[1", "[1,", '{"a"', '{"a":', '{"a":1,', "[1,]", '{"a":1,}', "{1:2}", "'a'", "+1", ".5",
     "1.", "-", "tru", "[1 2]", '{"a" 1}', '"\\x"', '"\\u12"', '"\n"', '"\x00"', "--1", "0x1", "nul"],
)  # fmt: skip
def test_broken_texts_are_refused(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize("rest", [" 2]", ",", ",}", ',"'])
def test_broken_texts_with_a_long_number_are_refused(rest: str) -> None:
    refusal("[" + "1" * 5000 + rest)


@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"id":2}',
        '{"id":1,"\\u0069d":2}',
        '{"\\u0069\\u0064":1,"id":1}',
        '{"x":[{"id":1,"id":1}]}',
        '{"id":{"a":1},"b":{"id":1,"c":2,"id":3}}',
    ],
)
def test_duplicate_keys_are_refused_however_they_are_spelled(text: str) -> None:
    assert refusal(text) == "duplicate JSON object key `id`"


def test_the_key_that_is_there_twice_is_named() -> None:
    assert refusal('{"a":1,"b":2,"c":3,"b":4,"c":5}') == "duplicate JSON object key `b`"


def test_equal_keys_of_different_objects_are_no_duplicates() -> None:
    assert loads('[{"a":{"a":1}},{"a":2}]') == [{"a": {"a": 1}}, {"a": 2}]


def test_a_refusal_quotes_little_of_a_long_key() -> None:
    key = "k" * 10_000
    assert refusal(f'{{"{key}":1,"{key}":2}}') == f"duplicate JSON object key `{'k' * 80}`"


@pytest.mark.parametrize(
    "text",
    ['"\\ud800"', '"\\uDC00"', '"\\ud83dx"', '"\\ude00\\ud83d"', '"\\ud83d\\ud83d\\ude00"', '{"\\uD800":1}',
     '[[{"a":["\\udfff"]}]]', '{"a":{"\\udbff":null}}'],
)  # fmt: skip
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    assert refusal(text) == "unexpected end of hex escape: lone surrogate"


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert loads('{"\\ud83d\\ude00":"\\uD83D\\uDE00","\\\\ud800":"\\\\udfff"}') == {
        "\U0001f600": "\U0001f600",
        "\\ud800": "\\udfff",
    }


# Limits


def test_as_many_values_as_the_limit_are_read() -> None:
    assert loads("[" + ",".join(["1"] * (MAX_VALUES - 1)) + "]") == [1] * (MAX_VALUES - 1)


def test_one_value_above_the_limit_is_refused() -> None:
    assert refusal("[" + ",".join(["1"] * MAX_VALUES) + "]") == TOO_MANY


def test_keys_do_not_count_as_values() -> None:
    # One object, and for each pair one value: exactly the limit.
    pairs = ",".join(f'"{number}":0' for number in range(MAX_VALUES - 1))
    assert len(loads("{" + pairs + "}")) == MAX_VALUES - 1
    assert refusal("{" + pairs + ',"one more":0}') == TOO_MANY


@pytest.mark.parametrize("item", ["[]", "{ \n}"])
def test_empty_containers_count_as_one_value_each(item: str) -> None:
    assert len(loads("[" + ",".join([item] * (MAX_VALUES - 1)) + "]")) == MAX_VALUES - 1
    assert refusal("[" + ",".join([item] * MAX_VALUES) + "]") == TOO_MANY


def test_containers_count_beside_what_they_hold() -> None:
    # The list, and per item a list, an object and a number: 1 + 3 * 87381 is exactly the limit.
    items = ['[{"k":1}]'] * 87381
    assert 1 + 3 * len(items) == MAX_VALUES
    assert len(loads("[" + ",".join(items) + "]")) == 87381
    assert refusal("[" + ",".join([*items, "0"]) + "]") == TOO_MANY


@pytest.mark.parametrize("piece", ["[{,:}]", '\\"[', "\\\\,", '\\\\\\",', "[] {},\\n", "\\u005b,["], ids=repr)
def test_structure_inside_strings_counts_for_nothing(piece: str) -> None:
    body = piece * (MAX_VALUES // piece.count(",") + 1 if "," in piece else MAX_VALUES + 1)
    text = '{"' + piece + '":["' + body + '"]}'
    assert loads(text) == json.loads(text)


def test_structure_inside_strings_hides_nothing() -> None:
    values = ",".join(['"\\"[,"'] * MAX_VALUES)
    assert refusal(f"[{values}]") == TOO_MANY


def nested(depth: int, opening: str, closing: str) -> str:
    return opening * depth + closing * depth


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("[ ", " ]")])
def test_as_many_levels_as_the_limit_are_read(opening: str, closing: str) -> None:
    assert MAX_DEPTH == 127
    assert loads(nested(127, opening, closing)) == json.loads(nested(127, "[", "]"))
    assert refusal(nested(128, opening, closing)) == "recursion limit exceeded"


def test_objects_are_levels_too() -> None:
    assert loads('{"a":' * 126 + "{}" + "}" * 126) == json.loads('{"a":' * 126 + "{}" + "}" * 126)
    assert refusal('{"a":' * 127 + "{}" + "}" * 127) == "recursion limit exceeded"


def test_mixed_levels_count_together() -> None:
    assert loads('[{"a":' * 63 + "[]" + "}]" * 63) == json.loads('[{"a":' * 63 + "[]" + "}]" * 63)
    assert refusal('[{"a":' * 64 + "1" + "}]" * 64) == "recursion limit exceeded"


def test_levels_beside_each_other_do_not_add_up() -> None:
    text = "[" + ",".join([nested(126, "[", "]")] * 20) + "]"
    assert loads(text) == json.loads(text)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":', '["]]]]",'])
def test_a_text_of_nothing_but_openings_is_refused(opening: str) -> None:
    refusal(opening * 100_000)


@given(
    st.integers(0, 200),
    st.lists(st.sampled_from(["[]", "{}", '"[[["', '"\\\\"', '"\\"]"', "1"]), min_size=1, max_size=4),
)
@example(127, ["1"])
@example(126, ["[]"])
@quick
def test_depth_is_judged_by_structure_alone(levels: int, items: list[str]) -> None:
    text = "[" * levels + ",".join(items if levels else items[:1]) + "]" * levels
    inner = any(item in ("[]", "{}") for item in (items if levels else items[:1]))
    if levels + inner > 127:
        assert refusal(text) == "recursion limit exceeded"
    else:
        assert loads(text) == json.loads(text)


# Cost. The message is hostile, and so is its sender: the price of a refusal is part of the contract.


def cost(text: str) -> tuple[float, int]:
    """Seconds of processor time, and the most memory held while reading."""
    tracemalloc.start()
    began = time.process_time()
    try:
        loads(text)
    except JsonError:
        pass
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak


def test_a_string_that_never_ends_is_refused_in_linear_time() -> None:
    seconds, _ = cost("[" * 128 + '"' + '\\"' * 4_000)
    assert seconds < 0.1  # linear: under a millisecond


def test_a_string_of_escapes_costs_memory_in_proportion() -> None:
    text = "[" + "[]," * 128 + '"' + "\\n" * 200_000 + '"]'
    _, peak = cost(text)
    assert peak < 16 * len(text)


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("[" + ",".join(["[]"] * 199) + "]", 200),
        ('{"a":' * 8 + "1" + "}" * 8, 8),
        ("{" + ",".join(f'"k{n}":":::[[["' for n in range(8)) + "}", 8),
        ('["\\":", "\\\\", {"c":"\\\\\\":::::", "d":1, "e":1, "f":1, "g":1}]', 5),
    ],
)
def test_objects_lists_and_members_are_counted_by_structure_alone(text: str, counted: int) -> None:
    padded = text + " " * MAX_DEPTH  # short texts are not counted
    assert loads(padded, counted) == json.loads(text)
    with pytest.raises(JsonError, match=rf"exceeds the limit of {counted - 1} objects, lists and members"):
        loads(padded, counted - 1)


def test_strings_are_counted_too() -> None:
    text = "[" + ",".join(['"\\""'] * 30) + "]" + " " * MAX_DEPTH
    assert len(loads(text, 10)) == 30
    with pytest.raises(JsonError, match="exceeds the limit of 27 strings"):
        loads(text, 9)


@pytest.mark.parametrize("digits", [64, 399, 400, 5000])
def test_integers_of_any_length_are_read_as_floats(digits: int) -> None:
    huge = "9" * digits
    # Python converts so many digits only where it is told to, so the scanner is asked for more.
    text = f"[{huge},-{huge},{'1' * 4400}]"
    assert loads(text) == [float(huge), -float(huge), float("inf")]
