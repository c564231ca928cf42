"""A program that is run to its end for what it prints, on a machine that has nothing left."""

from __future__ import annotations

import pytest

from outfitter.core.marks import Marks
from outfitter.host.tools.tool import run_tool
from outfitter.host.tree import new_nonce
from tests.support.machine import SECOND, no_descriptors, own_descriptors

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize("mark", [None, Marks(new_nonce()).new(0)], ids=["our own", "a server's"])
def test_without_descriptors_it_is_not_started_and_says_why(mark: int | None) -> None:
    before = own_descriptors()
    with no_descriptors():
        ran = run_tool(["echo", "hello"], "/", ENV, timeout=20 * SECOND, mark=mark)
    assert (ran.outcome, ran.failure) == (
        "not-started",
        "Too many open files; this process may have too many files open",
    )
    assert own_descriptors() == before
    assert run_tool(["echo", "hello"], "/", ENV, timeout=20 * SECOND, mark=mark).stdout == b"hello\n"
