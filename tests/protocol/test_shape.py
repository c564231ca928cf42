"""Shapes: members declared once, read in order, and written as they were."""

from __future__ import annotations

from typing import Any

import pytest

from outfitter.errors import InvalidParams
from outfitter.protocol.fields import Fields
from outfitter.protocol.shape import Shape, choice, member, rows, said, shape
from outfitter.protocol.uri import FileUri
from outfitter.record import KW_ONLY


@shape("TheInner")
class Inner(Shape):
    size: int


@shape()
class Needed(Shape):
    some_text: str
    flag: bool
    number: int
    data: bytes
    path: FileUri
    paths: list[FileUri]
    texts: list[str]
    pair: tuple[str, ...]
    env: dict[str, str]
    inner: Inner
    inners: list[Inner]
    other: str | None


NEEDED: dict[str, Any] = {
    "someText": "a",
    "flag": False,
    "number": 7,
    "data": "QUI=",
    "path": "file:///a",
    "paths": ["file:///b"],
    "texts": ["c"],
    "pair": ["d", "e"],
    "env": {"A": "b"},
    "inner": {"size": 1},
    "inners": [{"size": 2}, {"size": 3}],
    "other": None,
}


def refusal(kind: type[Shape], value: object) -> str:
    with pytest.raises(InvalidParams) as caught:
        kind.decode(value)
    return str(caught.value)


def test_the_annotation_says_how_a_member_is_read_and_written() -> None:
    value = Needed.decode(NEEDED)
    assert value == Needed(
        "a",
        False,
        7,
        b"AB",
        FileUri("", "/a"),
        [FileUri("", "/b")],
        ["c"],
        ("d", "e"),
        {"A": "b"},
        Inner(1),
        [Inner(2), Inner(3)],
        None,
    )
    assert list(value.encode().items()) == list(NEEDED.items())


@pytest.mark.parametrize("name", [name for name in NEEDED if name != "other"])
def test_a_member_without_a_default_must_be_there(name: str) -> None:
    without = {key: value for key, value in NEEDED.items() if key != name}
    assert refusal(Needed, without) == f"missing field `{name}`"
    assert refusal(Needed, {**NEEDED, name: None}).startswith("invalid type: null, expected ")


def test_a_field_that_may_be_none_may_be_absent_or_null() -> None:
    without = {key: value for key, value in NEEDED.items() if key != "other"}
    assert Needed.decode(without) == Needed.decode(NEEDED)
    assert refusal(Needed, {**NEEDED, "other": 1}) == "invalid type: number, expected a string"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("someText", 1, "invalid type: number, expected a string"),
        ("flag", 1, "invalid type: number, expected a boolean"),
        ("number", -1, "invalid number"),
        ("number", True, "invalid type: boolean `true`, expected u64"),
        ("pair", ["d", 1], "invalid type: number, expected a string"),
        ("inner", [], "invalid type: sequence, expected struct TheInner"),
        ("inners", [{}], "missing field `size`"),
        ("inners", {}, "invalid type: map, expected a sequence"),
    ],
)
def test_a_member_of_another_type_is_refused(name: str, value: object, told: str) -> None:
    assert refusal(Needed, {**NEEDED, name: value}) == told


def test_a_refusal_names_the_class_or_what_it_is_called() -> None:
    assert refusal(Needed, []) == "invalid type: sequence, expected struct Needed"
    assert refusal(Inner, []) == "invalid type: sequence, expected struct TheInner"


def test_members_of_an_object_that_was_looked_at_are_read_from_it() -> None:
    assert Inner.decode(Fields({"size": 4}, "Inner")) == Inner(4)


@shape()
class Optional(Shape):
    plain: bool = True
    nullable: int = member(default=5, null=True)
    strict: bytes | None = member(default=None, null=False)
    omitted: tuple[str, ...] = member(default=(), omit=True)
    renamed: str | None = member(name="other", default=None, omit=True)
    way: str = member(choice("in", "out"), default="in", required=True)
    said: bool = member(said, default=False)


def test_a_member_with_a_default_may_be_absent() -> None:
    assert Optional.decode({"way": "out"}) == Optional(way="out")
    assert Optional() == Optional(True, 5, None, (), None, "in", False)


def test_null_counts_as_absent_only_where_it_is_said() -> None:
    assert Optional.decode({"way": "in", "nullable": None, "other": None}) == Optional()
    assert refusal(Optional, {"way": "in", "plain": None}) == "invalid type: null, expected a boolean"
    assert refusal(Optional, {"way": "in", "strict": None}) == "invalid type: null, expected a string"
    assert refusal(Optional, {"way": "in", "omitted": None}) == "invalid type: null, expected a sequence"


def test_a_required_member_is_not_replaced_by_the_default_of_its_field() -> None:
    assert refusal(Optional, {}) == "missing field `way`"


def test_a_choice_is_one_of_its_variants() -> None:
    assert Optional.decode({"way": {"out": None}}).way == "out"
    assert refusal(Optional, {"way": "up"}) == "unknown variant `up`, expected `in` or `out`"


def test_what_is_not_true_was_not_said() -> None:
    assert [Optional.decode({"way": "in", "said": told}).said for told in (True, False, None, 1, "x")] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_a_default_is_written_unless_it_is_omitted() -> None:
    assert Optional().encode() == {
        "plain": True,
        "nullable": 5,
        "strict": None,
        "way": "in",
        "said": False,
    }
    told = Optional(strict=b"AB", omitted=("a",), renamed="b").encode()
    assert (told["strict"], told["omitted"], told["other"]) == ("QUI=", ["a"], "b")


def _order(fields: Fields) -> None:
    fields.text("second")


def _limit(fields: Fields) -> None:
    if fields.unsigned("first") > 9:
        raise InvalidParams("too much")


@shape(before=_order, check=_limit)
class Checked(Shape):
    first: int
    second: str
    third: bool = False


def test_checks_come_before_all_members_and_before_those_with_a_default() -> None:
    assert refusal(Checked, {"first": "x", "second": 1}) == "invalid type: number, expected a string"
    assert refusal(Checked, {"first": "x", "second": ""}) == 'invalid type: string "x", expected u64'
    assert refusal(Checked, {"first": 10, "second": "", "third": 0}) == "too much"
    assert refusal(Checked, {"first": 9, "second": "", "third": 0}).endswith("expected a boolean")


@shape()
class Named(Shape):
    first: str
    _: KW_ONLY
    third: str = ""
    second: str


def test_fields_that_are_given_by_name_are_read_as_well() -> None:
    value = Named.decode({"first": "a", "second": "b", "third": "c"})
    assert value == Named("a", second="b", third="c")
    assert value.encode() == {"first": "a", "third": "c", "second": "b"}


@shape()
class Table(Shape):
    lost: list[tuple[str, str]] = member(*rows("Lost", "producer", "name"))


def test_rows_are_objects_of_texts() -> None:
    told = {"lost": [{"producer": "p", "name": "n"}]}
    assert Table.decode(told) == Table([("p", "n")])
    assert Table([("p", "n")]).encode() == told
    assert refusal(Table, {"lost": [1]}) == "invalid type: number, expected struct Lost"
    assert refusal(Table, {"lost": [{"producer": "p"}]}) == "missing field `name`"


@shape()
class Own(Shape):
    text: str

    @classmethod
    def decode(cls, value: object) -> Own:
        return cls("own")

    def encode(self) -> str:
        return self.text


def test_what_a_class_defines_itself_stays() -> None:
    assert Own.decode(1).encode() == "own"


@shape()
class Unknown(Shape):
    number: complex


def test_a_type_that_nobody_knows_is_refused_when_it_is_first_read() -> None:
    with pytest.raises(KeyError, match="complex"):
        Unknown.decode({"number": 1})
