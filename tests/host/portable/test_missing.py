"""Paths that are missing are waited for by looking: what a look sees, and who is told when."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outfitter.host.portable.missing import MissingWatch, look
from outfitter.host.workers import Workers
from outfitter.loop import EpollLoop
from tests.support.machine import SECOND

# What is done to a folder with `d/` and `p` in it, while `d/x` and `y/z` are missing and `p` is present.
SEEN: dict[str, Callable[[Path], object]] = {
    "a path appears": lambda folder: (folder / "d/x").touch(),
    "its folder appears": lambda folder: (folder / "y").mkdir(),
    "a link appears": lambda folder: (folder / "y").symlink_to("nowhere"),
    "its folder goes": lambda folder: (folder / "d").rmdir(),
    "its folder is another": lambda folder: ((folder / "e").mkdir(), (folder / "e").rename(folder / "d")),
    "its folder has another mode": lambda folder: (folder / "d").chmod(0o700),
    "what is present is written": lambda folder: (folder / "p").write_text("more"),
    "what is present is touched": lambda folder: os.utime(folder / "p", (1, 1)),
    "what is present goes": lambda folder: (folder / "p").unlink(),
}
UNSEEN: dict[str, Callable[[Path], object]] = {
    "nothing": lambda folder: None,
    "a neighbour": lambda folder: (folder / "d/other").touch(),
    "another name for what is present": lambda folder: os.link(folder / "p", folder / "q"),
    "what is present is read": lambda folder: (folder / "p").read_text(),
    "it came and went": lambda folder: ((folder / "d/x").touch(), (folder / "d/x").unlink()),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir(mode=0o755)
    (tmp_path / "p").write_text("p")
    return tmp_path


def looked(folder: Path) -> object:
    return look([f"{folder}/d/x", f"{folder}/y/z"], f"{folder}/p")


@pytest.mark.parametrize("case", SEEN)
def test_what_is_waited_for_makes_another_look(case: str, folder: Path) -> None:
    before = looked(folder)
    assert before is not None
    SEEN[case](folder)
    assert looked(folder) != before


@pytest.mark.parametrize("case", UNSEEN)
def test_what_is_not_waited_for_makes_none(case: str, folder: Path) -> None:
    before = looked(folder)
    assert before is not None
    UNSEEN[case](folder)
    assert looked(folder) == before


@pytest.mark.parametrize("missing", ["p", "p/below", "d", "l/x", "n" * 256, "\0"])
def test_what_cannot_be_waited_for_is_nothing_to_see(missing: str, folder: Path) -> None:
    (folder / "l").symlink_to("d")
    assert look([f"{folder}/{missing}"], None) is None


class Means:
    def __init__(self, loop: EpollLoop) -> None:
        self.loop = loop
        self.workers = Workers(loop)

    @property
    def watching(self) -> None:
        raise AssertionError("it needs no package that watches")


@pytest.fixture
def means() -> Iterator[Means]:
    loop = EpollLoop()
    loop.call_later(20 * SECOND, loop.stop)  # rather an assertion than a test that never ends
    yield Means(loop)
    loop.close()


def test_it_is_told_once_on_the_loop_and_not_to_who_has_left(means: Means, folder: Path) -> None:
    told: list[str] = []

    def fire() -> None:
        told.append("told")
        means.loop.call_later(0.5 * SECOND, means.loop.stop)  # two looks: nothing comes twice

    staying = MissingWatch(means, fire)  # type: ignore[arg-type]
    leaving = MissingWatch(means, lambda: told.append("left"))  # type: ignore[arg-type]
    assert [watch.arm([f"{folder}/x"], None) for watch in (leaving, staying)] == [True, True]
    means.loop.call_later(0, leaving.drop)
    means.loop.call_later(0.3 * SECOND, (folder / "x").touch)  # after the first look, which sees nothing
    means.loop.run()
    assert told == ["told"]
    assert not MissingWatch(means, fire).arm([f"{folder}/x"], None)  # type: ignore[arg-type]
