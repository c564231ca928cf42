"""A watched tree: what its listings come to. Real ones are watched in tests/server/test_watching.py."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outfitter.host.treewatch import TreeWatch
from outfitter.host.watching import Watching
from tests.support.handloop import HandLoop

MANY = 300


class Threads:
    """Work that is done when a test says so."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[], Any], Callable[..., None]]] = deque()

    def run(self, work: Callable[[], Any], done: Callable[..., None]) -> None:
        self.waiting.append((work, done))


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of Python are called by it."""
    count = 0

    def called(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def folders(place: Path) -> None:
    for number in range(MANY):
        (place / f"{number}").mkdir(parents=True)


def test_what_went_during_a_listing_is_not_looked_through_for_each_that_came(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    folders(root / "goes")
    folders(outside)
    loop, threads = HandLoop(), Threads()
    watching = Watching(loop, 10 * MANY)
    options: dict[str, Any] = {"recursive": True, "ignore": None, "folders": 10 * MANY, "changes": 10 * MANY}
    watch = TreeWatch(loop, threads, watching, str(root), told=lambda: None, **options)  # type: ignore[arg-type]
    watch.begin(watch.arm())
    os.rename(outside, root / "came")
    loop.tick()
    list_it, listed = threads.waiting.popleft()
    listing = list_it()
    for number in range(MANY):
        (root / f"goes/{number}").rmdir()
    (root / "came/7").rmdir()
    gone: set[str] = set()
    while len(gone) < MANY:
        loop.advance(1.0)
        loop.tick()
        gone |= {path for path, kind in watch.changes.take()[0] if kind == "removed"}
    assert calls_of(lambda: listed(listing, None)) < 30 * MANY
    created = {path for path, _ in watch.changes.take()[0]}
    assert created == {f"came/{number}" for number in range(MANY) if number != 7}
    watch.close()
    watching.close()
