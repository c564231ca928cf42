"""The records between a pool and an engine."""

from __future__ import annotations

import copy
import pickle

import pytest

from outfitter.core.shape import Shape
from outfitter.errors import LeaseLost
from outfitter.pool.engine import Capacity, Node

NODE = Node("n1", cpus=4, memory=8 << 30, gpus=1, labels={"zone": "a"})


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        (Shape(4, 8 << 30, 1, {"zone": "a"}), True),
        (Shape(4.5), False),
        (Shape(1, (8 << 30) + 1), False),
        (Shape(1, 0, 2), False),
        (Shape(1, labels={"zone": "b"}), False),
        (Shape(1, labels={"disk": "ssd"}), False),
    ],
)
def test_a_shape_that_no_node_holds_is_impossible(shape: Shape, fits: bool) -> None:
    assert Capacity((NODE,)).ever(shape) is fits


def test_nothing_is_impossible_where_nodes_are_added() -> None:
    assert not Capacity(()).ever(Shape(1))
    assert Capacity((), grows=True).ever(Shape(1000))


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))]
)
def test_a_loss_can_be_copied(copied: object) -> None:
    lost = LeaseLost("silent", "n1", "nothing was heard for 4 s", fenced_after=11.0)
    again = copied(lost)  # type: ignore[operator]
    assert (again.reason, again.node, again.detail, again.fenced_after) == ("silent", "n1", lost.detail, 11.0)
    assert str(again) == str(lost)
    assert "n1" in str(lost) and "11 s" in str(lost)
