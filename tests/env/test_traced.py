"""The trace context of a command as a layer."""

from __future__ import annotations

import pytest

from outfitter.env.layer import RUNTIME_LEVEL
from outfitter.env.traced import NONE, traced

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_context_becomes_variables() -> None:
    layer = traced({"traceparent": PARENT, "tracestate": "a=1,b=2"})
    assert (layer.level, layer.id) == (RUNTIME_LEVEL, "trace")
    assert (layer.values, layer.unset) == ({"TRACEPARENT": PARENT, "TRACESTATE": "a=1,b=2"}, ())


@pytest.mark.parametrize("state", ["", "a=1\nB=2", "a=\x1b[m", "ä=1"])
def test_state_that_is_none_is_taken_away(state: str) -> None:
    layer = traced({"traceparent": PARENT, "tracestate": state})
    assert (layer.values, layer.unset) == ({"TRACEPARENT": PARENT}, ("TRACESTATE",))


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "x",
        PARENT[:-1],
        PARENT + "-00",
        PARENT.replace("0af", "0AF"),
        PARENT.replace("0af", "0ag"),
        PARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        f"{PARENT}\n",
        f" {PARENT}",
    ],
)
def test_what_is_no_context_sets_nothing(parent: str) -> None:
    assert traced({"traceparent": parent, "tracestate": "a=1"}) is NONE
    assert traced(None) is NONE
