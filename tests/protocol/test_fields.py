"""Members of a params object: right, absent, null, or refused in the words of the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outfitter.errors import InvalidParams
from outfitter.protocol.fields import Fields, kind, unsigned
from outfitter.protocol.uri import FileUri

MISSING = object()


def fields(value: object) -> Fields:
    return Fields({} if value is MISSING else {"a": value, "unknown": object()}, "Struct")


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(InvalidParams) as caught:
        read()
    return str(caught.value)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        (None, "null"),
        ([], "sequence"),
        ("x", 'string "x"'),
        (1, "number"),
        (1.5, "number"),
        (True, "boolean `true`"),
    ],
)
def test_params_are_an_object(params: object, name: str) -> None:
    assert (
        refusal(lambda: Fields(params, "StartParams")) == f"invalid type: {name}, expected struct StartParams"
    )


GOOD = [
    (Fields.raw, None),
    (Fields.raw, [1]),
    (Fields.text, ""),
    (Fields.text, "x"),
    (Fields.flag, True),
    (Fields.flag, False),
    (Fields.texts, []),
    (Fields.texts, ["a", ""]),
    (Fields.text_map, {}),
    (Fields.text_map, {"": "", "b": "c"}),
    (Fields.text_or_none, "x"),
    (Fields.unsigned_or_none, 0),
    (Fields.unsigned_or_none, 2**64 - 1),
]


@pytest.mark.parametrize(("read", "value"), GOOD)
def test_a_member_of_the_right_type_is_itself(read: Callable[[Fields, str], object], value: object) -> None:
    assert read(fields(value), "a") == value


def test_members_with_a_form_of_their_own_are_decoded() -> None:
    assert fields("QUI=").base64("a") == b"AB"
    assert fields("file:/tmp").uri("a") == FileUri("", "/tmp")
    inner = fields({"b": "c"}).object_or_none("a", "Inner")
    assert inner is not None and inner.text("b") == "c"


REQUIRED = [Fields.raw, Fields.text, Fields.flag, Fields.texts, Fields.text_map, Fields.base64, Fields.uri]


@pytest.mark.parametrize("read", REQUIRED)
def test_a_missing_member_is_named(read: Callable[[Fields, str], object]) -> None:
    assert refusal(lambda: read(fields(MISSING), "a")) == "missing field `a`"


def test_a_missing_choice_is_named() -> None:
    assert refusal(lambda: fields(MISSING).choice("a", ("x",))) == "missing field `a`"


def test_what_may_be_absent_may_be_null() -> None:
    for value in (MISSING, None):
        given = fields(value)
        assert [
            given.raw_or_none("a"),
            given.text_or_none("a"),
            given.unsigned_or_none("a"),
            given.object_or_none("a", "Inner"),
        ] == [None] * 4


def test_a_flag_with_a_default_may_be_absent_but_not_null() -> None:
    assert [fields(MISSING).flag_or("a", True), fields(MISSING).flag_or("a", False)] == [True, False]
    assert [fields(False).flag_or("a", True), fields(True).flag_or("a", False)] == [False, True]
    assert refusal(lambda: fields(None).flag_or("a", False)) == "invalid type: null, expected a boolean"


WRONG: list[tuple[Callable[[Fields, str], object], object, str]] = [
    (Fields.text, None, "null, expected a string"),
    (Fields.text, 1, "number, expected a string"),
    (Fields.text_or_none, [], "sequence, expected a string"),
    (Fields.flag, None, "null, expected a boolean"),
    (Fields.flag, 0, "number, expected a boolean"),
    (Fields.flag, "true", 'string "true", expected a boolean'),
    (Fields.texts, None, "null, expected a sequence"),
    (Fields.texts, "ab", 'string "ab", expected a sequence'),
    (Fields.texts, {}, "map, expected a sequence"),
    (Fields.texts, ["a", None], "null, expected a string"),
    (Fields.text_map, None, "null, expected a map"),
    (Fields.text_map, [], "sequence, expected a map"),
    (Fields.text_map, {"a": 1}, "number, expected a string"),
    (Fields.text_map, {"a": None}, "null, expected a string"),
    (Fields.base64, None, "null, expected a string"),
    (Fields.uri, 7, "number, expected a string"),
    (Fields.unsigned_or_none, "5", 'string "5", expected u64'),
    (Fields.unsigned_or_none, True, "boolean `true`, expected u64"),
    (Fields.unsigned_or_none, [], "sequence, expected u64"),
]


@pytest.mark.parametrize(("read", "value", "text"), WRONG)
def test_a_member_of_another_type_is_refused(
    read: Callable[[Fields, str], object], value: object, text: str
) -> None:
    assert refusal(lambda: read(fields(value), "a")) == f"invalid type: {text}"


def test_an_inner_object_of_another_type_is_refused() -> None:
    assert refusal(lambda: fields([]).object_or_none("a", "Inner")) == (
        "invalid type: sequence, expected struct Inner"
    )


@pytest.mark.parametrize("value", [-1, 1.0, 1e2, 2**64, -(2**63), float("inf")])
def test_unsigned_integers_are_plain_and_fit_64_bits(value: float) -> None:
    assert refusal(lambda: unsigned(value)) == "invalid number"


def test_a_choice_is_a_name_or_an_object_with_a_null_payload() -> None:
    assert fields("x").choice("a", ("x", "y")) == "x"
    assert fields({"y": None}).choice("a", ("x", "y")) == "y"


@pytest.mark.parametrize(
    ("value", "allowed", "text"),
    [
        ("kill", ("interrupt",), "unknown variant `kill`, expected `interrupt`"),
        ("Core", ("core", "all"), "unknown variant `Core`, expected `core` or `all`"),
        ({"z": None}, ("x",), "unknown variant `z`, expected `x`"),
        ({"x": 1}, ("x",), "invalid type: map, expected a variant"),
        ({}, ("x",), "invalid type: map, expected a variant"),
        ({"x": None, "y": None}, ("x",), "invalid type: map, expected a variant"),
        (None, ("x",), "invalid type: null, expected a variant"),
        (["x"], ("x",), "invalid type: sequence, expected a variant"),
    ],
)
def test_any_other_choice_is_refused(value: object, allowed: tuple[str, ...], text: str) -> None:
    assert refusal(lambda: fields(value).choice("a", allowed)) == text


def test_a_refusal_never_repeats_a_long_string() -> None:
    assert [kind("x" * 64), kind("x" * 65)] == [f'string "{"x" * 64}"', "string"]
