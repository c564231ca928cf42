"""Records as plain values, there and back, also between versions."""

from __future__ import annotations

import json

from outfitter.core.shape import Shape
from outfitter.pool.carried import heard, told
from outfitter.pool.engine import Card, Endpoint


def test_records_go_there_and_back_as_json() -> None:
    for value in (
        Card("l1", "ab", 11.0, 1.0, env={"A": "1"}, keep_last=True),
        Endpoint(argv=("ssh", "host"), workspace="/w", pid=7),
        Shape(1.5, 4 << 30, labels={"zone": "a"}),
    ):
        assert heard(type(value), json.loads(json.dumps(told(value)))) == value


def test_what_another_version_says_besides_is_left_out() -> None:
    assert heard(Endpoint, {"url": "ws://h:1", "colour": "red"}) == Endpoint(url="ws://h:1")
