"""A layer is data: where its values come from, and nothing of them in its repr."""

from __future__ import annotations

import pytest

from outfitter.env.layer import PROVIDER, Layer, complains
from outfitter.env.origin import Origin

WHOLE = Origin("provider", "[env]", "/p/outfitter.toml")
LINE = Origin("provider", "[env] set", "/p/outfitter.toml", 7)


def test_a_value_comes_from_its_line_or_else_from_the_layer() -> None:
    layer = Layer(PROVIDER, "project", WHOLE, {"A": "1", "B": "2"}, origins={"A": LINE})
    assert [layer.origin_of(name) for name in ("A", "B", "C")] == [LINE, WHOLE, WHOLE]


def test_a_layer_is_its_own_producer_unless_it_names_one() -> None:
    assert Layer(PROVIDER, "project", WHOLE).producer == "project"
    assert Layer(PROVIDER, "direnv:/p/.envrc", WHOLE, producer="direnv 2.32.1").producer == "direnv 2.32.1"


def test_a_repr_has_the_names_only() -> None:
    layer = Layer(PROVIDER, "project", WHOLE, {"A": "hunter22"}, unset=["B"])
    assert repr(layer) == "Layer(L3 project applied: A, B)"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", False),
        ("welcome to the project", False),
        ("using node 20: fine", False),
        ("ratio 1:2", False),
        ("./.envrc:2: nosuch: command not found", True),
        ("hi\nbash: line 3: x: unbound variable", True),
        ("cat: x: No such file or directory", True),
        ("direnv: error exit status 3", True),
    ],
)
def test_errors_are_told_from_what_else_tools_print(said: str, expected: bool) -> None:
    assert complains(said) is expected
