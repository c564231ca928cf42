"""Frozen values made from annotations."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys

import pytest

from outfitter.record import EMPTY, KW_ONLY, fields, fill, quick_record, record, replace


@record
class Point:
    x: int
    y: int = 0
    _: KW_ONLY
    tags: tuple[str, ...] = ()
    notes: dict[str, str] = EMPTY  # type: ignore[assignment]


@record
class Same:
    x: int
    y: int = 0


@record
class Checked:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")
        fill(self, high=self.high + 1)

    def __repr__(self) -> str:
        return "hidden"


@record
class Nothing:
    pass


@quick_record
class Quick:
    x: int
    y: int = 0
    _: KW_ONLY
    tags: tuple[str, ...] = ()


@record
class Secretive:
    name: str
    values: dict[str, str]
    text: str
    hidden = ("values", "text")


def test_fields_are_given_by_place_or_by_name() -> None:
    assert Point(1, 2) == Point(x=1, y=2) == Point(y=2, x=1)
    assert fields(Point) == fields(Point(1)) == ("x", "y", "tags", "notes")


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, ()), {}), ((1,), {"z": 1}), ((1,), {"x": 1})])
def test_wrong_arguments_are_refused(args: tuple[int, ...], kwargs: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(*args, **kwargs)  # type: ignore[arg-type]


def test_a_value_cannot_be_changed() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="Point is frozen: x cannot be changed"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    with pytest.raises(AttributeError):
        point.other = 1  # type: ignore[attr-defined]
    assert point == Point(1)


def test_a_quick_record_differs_in_its_guard_alone() -> None:
    for _ in range(30):  # its `__init__` is written meanwhile
        quick = Quick(1, tags=["a"])  # type: ignore[arg-type]
        assert repr(quick) == "Quick(x=1, y=0, tags=('a',))"
        assert replace(quick, y=2) == Quick(1, 2, tags=("a",)) != quick
        assert hash(quick) == hash(Quick(1, tags=("a",)))
    quick.x = 2  # type: ignore[misc]
    assert quick == Quick(2, tags=("a",))
    with pytest.raises(AttributeError):
        quick.other = 1  # type: ignore[attr-defined]


def test_values_are_equal_by_type_and_fields() -> None:
    assert Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != Same(1, 2)
    assert hash(Same(1, 2)) == hash(Same(1, 2)) != hash(Same(2, 1))
    assert repr(Same(1, 2)) == "Same(x=1, y=2)"
    assert Nothing() == Nothing()
    assert repr(Nothing()) == "Nothing()"
    assert repr(Secretive("a", {"B": "s3cret"}, "s3cret")) == "Secretive(name='a', values=['B'], text=...)"


def test_a_sequence_is_kept_as_a_tuple() -> None:
    assert Point(1, tags=["a", "b"]).tags == ("a", "b")  # type: ignore[arg-type]


def test_each_value_has_a_mapping_of_its_own() -> None:
    one, other = Point(1), Point(1)
    one.notes["a"] = "b"
    assert (other.notes, EMPTY) == ({}, {})


def test_replace_changes_a_copy() -> None:
    point = Point(1, tags=("a",))
    assert replace(point, y=5) == Point(1, 5, tags=("a",))
    assert point == Point(1, tags=("a",))
    with pytest.raises(TypeError, match="Point has no field z"):
        replace(point, z=1)


def test_a_class_may_check_its_fields_and_show_itself() -> None:
    assert Checked(1, 2).high == 3
    assert repr(Checked(1, 2)) == "hidden"
    with pytest.raises(ValueError, match="low is above high"):
        Checked(2, 1)


def test_values_match_patterns() -> None:
    match Same(1, 2):
        case Same(x, y):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("the pattern does not match")


def test_the_thousandth_value_is_made_as_the_first() -> None:
    for number in range(300):
        point = Point(number, tags=["a"], notes={"b": "c"})  # type: ignore[arg-type]
        assert (point.x, point.y, point.tags, point.notes) == (number, 0, ("a",), {"b": "c"})
        assert Checked(number, number).high == number + 1
        for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})):
            with pytest.raises(TypeError, match="Same"):
                Same(*args, **kwargs)


def test_help_knows_the_arguments_before_and_after_the_first_values() -> None:
    @record
    class Seldom:
        name: str
        _: KW_ONLY
        marks: tuple[str, ...] = ()

    before = str(inspect.signature(Seldom))
    for number in range(100):
        Seldom(str(number))
    assert (before, str(inspect.signature(Seldom))) == ("(name, *, marks=())", "(name, *, marks=())")
    assert Seldom.__init__.__module__ == __name__
    assert "class Seldom" in pydoc.plain(pydoc.render_doc(Seldom))


def test_help_shows_an_init_of_its_own_as_it_is() -> None:
    class Derived(Point):
        def __init__(self, both: int) -> None:
            super().__init__(both, both)

    assert list(inspect.signature(Derived).parameters) == ["both"]


def test_all_can_be_written_ahead() -> None:
    # In a process of its own: others are to find their records as they were.
    program = (
        "from outfitter.record import record, write_all\n"
        "import outfitter.env.origin\n"
        "@record\n"
        "class Point:\n"
        "    x: int\n"
        "    tags: tuple[str, ...] = ()\n"
        "class Below(Point):\n"
        "    pass\n"
        "write_all()\n"
        "print(Point.__init__.__qualname__, outfitter.env.origin.Origin.__init__.__qualname__)\n"
        "print(Point(1, ['a']), Below(2), Point(1) == Point(x=1))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    told = ["Point.__init__ Origin.__init__", "Point(x=1, tags=('a',)) Below(x=2, tags=()) True"]
    assert (done.stdout.splitlines(), done.stderr) == (told, "")
