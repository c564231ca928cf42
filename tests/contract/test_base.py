"""Whose environment commands start from."""

from __future__ import annotations

import os
import pwd
import time

import pytest

from outfitter.contract.base import Base, base_of
from outfitter.contract.contract import Asked, Contract


def test_a_base_says_whose_it_is() -> None:
    # P1
    before = int(time.time() * 1000)
    base = base_of("launcher", {"A": "hush", "B": "hush"})
    assert before <= base.started_ms <= int(time.time() * 1000)
    assert base.describe() == {
        "kind": "launcher",
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "startedAtMs": base.started_ms,
        "variables": 2,
    }
    assert base_of("client", {}, 4711).describe()["pid"] == 4711


def test_neither_description_nor_repr_has_a_value() -> None:
    base = base_of("daemon", {"A": "hush"})
    assert "hush" not in repr(base)
    assert "hush" not in repr(base.describe())


@pytest.mark.parametrize(
    ("kind", "origin", "detail"),
    [
        ("daemon", "executor", "from the server's own environment"),
        ("launcher", "launcher", "from the environment that Outfitter was started with"),
        ("client", "client", "from the client's environment"),
        ("merge", "client", "from the client's environment over the server's"),
        ("remote:box", "executor", "from the environment of remote:box"),
    ],
)
def test_origins_of_its_variables_name_it(kind: str, origin: str, detail: str) -> None:
    base = Base(kind, {"A": "1"}, pid=1, host="h", user="u", started_ms=0)
    outcome = Contract(base, None, "/bin/sh").resolve(Asked("/", {}))
    first = outcome.history()[0]["A"][0]
    assert first.origin is not None
    assert (first.origin.kind, first.origin.detail) == (origin, detail)
    assert outcome.layers[0].producer == kind
