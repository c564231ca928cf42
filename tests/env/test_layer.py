"""A layer is data: where its values come from, and nothing of them in its repr."""

from __future__ import annotations

from outfitter.env.layer import PROVIDER, Layer
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
