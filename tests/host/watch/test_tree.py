"""A watched tree: what its listings come to. Real ones are watched in tests/server/test_watching.py."""

from __future__ import annotations

import errno
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.host.watch.tree import TreeWatch
from outfitter.host.watch.watching import Watching
from tests.support.handloop import HandLoop
from tests.support.machine import exchange

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


class Watched:
    """A tree whose watch is moved by hand."""

    def __init__(self, root: Path) -> None:
        self.loop, self.threads = HandLoop(), Threads()
        self.all = Watching(self.loop, 10 * MANY)
        options: dict[str, Any] = {"recursive": True, "ignore": None}
        self.watch = TreeWatch(
            self.loop,
            self.threads,  # type: ignore[arg-type]
            self.all,
            str(root),
            folders=10 * MANY,
            changes=10 * MANY,
            told=lambda: None,
            **options,
        )

    def begin(self) -> None:
        self.watch.begin(self.watch.arm())

    def work(self) -> None:
        """Does what waits for a thread."""
        while self.threads.waiting:
            work, done = self.threads.waiting.popleft()
            try:
                result, failure = work(), None
            except Exception as error:
                result, failure = None, error
            done(result, failure)

    def go_on(self) -> None:
        """Hears of what happened, and does what comes of it."""
        for _ in range(3):
            self.loop.advance(1.0)
            self.loop.tick()
            self.work()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    (tmp_path / "root").mkdir()
    watched = Watched(tmp_path / "root")
    yield watched
    watched.watch.close()
    watched.work()
    assert len(watched.all) == 0
    watched.all.close()


def test_what_went_during_a_listing_is_not_looked_through_for_each_that_came(
    watched: Watched, tmp_path: Path
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    folders(root / "goes")
    folders(outside)
    watched.begin()
    os.rename(outside, root / "came")
    watched.loop.tick()
    list_it, listed = watched.threads.waiting.popleft()
    listing = list_it()
    for number in range(MANY):
        (root / f"goes/{number}").rmdir()
    (root / "came/7").rmdir()
    gone: set[str] = set()
    changes = watched.watch.changes
    while len(gone) < MANY:
        watched.loop.advance(1.0)
        watched.loop.tick()
        gone |= {path for path, kind in changes.take()[0] if kind == "removed"}
    assert calls_of(lambda: listed(listing, None)) < 30 * MANY
    created = {path for path, _ in changes.take()[0]}
    assert created == {f"came/{number}" for number in range(MANY) if number != 7}


def test_names_that_change_places_all_the_time_are_looked_at_in_turn(
    watched: Watched, tmp_path: Path
) -> None:
    one, other = tmp_path / "root/one", tmp_path / "root/other"
    one.touch()
    other.touch()
    watched.begin()
    for _ in range(MANY):
        exchange(one, other)
    for _ in range(10):
        watched.loop.advance(1.0)
        watched.loop.tick()
    assert 1 <= len(watched.threads.waiting) <= 2
    watched.work()
    assert dict(watched.watch.changes.take()[0]) == {"one": "modified", "other": "modified"}
    one.write_text("x")
    other.write_text("x")
    watched.go_on()
    assert dict(watched.watch.changes.take()[0]) == {"one": "modified", "other": "modified"}


# A machine that has nothing left


class Spent:
    """Has the listing of a folder fail, so many times, after others have been listed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int, times: int = 1) -> None:
        self._scandir = os.scandir
        self._after, self._times = after, times
        monkeypatch.setattr(os, "scandir", self)

    def __call__(self, folder: int) -> Any:
        self._after -= 1
        if self._after < 0 < self._times:
            self._times -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._scandir(folder)


def test_a_watch_that_would_miss_a_folder_is_refused(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root/in").mkdir()
    Spent(monkeypatch, after=1)
    with pytest.raises(OSError, match="Too many open files"):
        watched.watch.arm()


def test_a_folder_that_came_and_cannot_be_watched_is_told_as_such(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.begin()
    Spent(monkeypatch, after=0)
    (tmp_path / "root/in").mkdir()
    watched.go_on()
    assert watched.watch.incomplete
    assert watched.watch.changes.take() == ([], True)


def test_a_tree_that_cannot_be_listed_again_now_is_listed_later(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.begin()
    Spent(monkeypatch, after=0, times=2)
    watched.watch.overflowed()
    watched.work()
    assert watched.watch.changes.take() == ([], True)
    watched.go_on()
    watched.go_on()
    watched.watch.changes.take()
    (tmp_path / "root/new").touch()
    watched.go_on()
    assert watched.watch.changes.take() == ([("new", "created")], False)


def test_what_no_thread_could_look_at_is_looked_at_later(watched: Watched, tmp_path: Path) -> None:
    watched.begin()
    (tmp_path / "root/in").mkdir()
    watched.loop.tick()
    for _ in range(2):  # for the new folder, and then for the whole tree
        _, done = watched.threads.waiting.popleft()
        done(None, OSError(errno.EAGAIN, "no thread"))
    assert watched.watch.changes.take() == ([], True)
    watched.go_on()
    watched.watch.changes.take()
    (tmp_path / "root/in/new").touch()
    watched.go_on()
    assert watched.watch.changes.take() == ([("in/new", "created")], False)
