"""Whether files and folders are still what they were."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from outfitter.contract import freshness
from outfitter.contract.freshness import (
    RESTLESS_SECONDS,
    TICK_NS,
    Fresh,
    Way,
    lasting,
    settled,
    stamp,
    stamps,
    unchanged,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_text("one")
    return file


def test_a_change_of_equal_length_shows_once_the_file_has_settled(file: Path) -> None:
    before = settled((str(file),))
    file.write_text("two")
    assert stamps((str(file),)) != before and not unchanged((str(file),), before)


def test_a_change_shows_whatever_time_the_file_is_given(file: Path) -> None:
    before = settled((str(file),))
    info = os.stat(file)
    file.write_text("two")
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert not unchanged((str(file),), before)


def test_what_is_replaced_comes_or_goes_is_changed(file: Path) -> None:
    other = file.with_name("other")
    paths = (str(file), str(other))
    before = settled(paths)
    assert before[1] is None and unchanged(paths, before)
    other.write_text("")
    assert not unchanged(paths, before)
    other.rename(file)
    assert not unchanged(paths, before)
    file.unlink()
    assert not unchanged(paths, before)
    assert unchanged(paths, (None, None))


def test_nothing_is_at_a_path_with_a_nul(file: Path) -> None:
    paths = (f"{file}\0", str(file))
    before = settled(paths)
    assert before[0] is None and unchanged(paths, before)
    file.write_text("two")
    assert not unchanged(paths, before)


def test_settling_takes_the_youngest_of_all_past_the_tick(file: Path) -> None:
    file.write_text("now")
    settled((str(file.parent.parent), str(file), "/nowhere"))
    assert time.time_ns() - os.stat(file).st_ctime_ns >= TICK_NS


def test_nothing_needs_no_settling() -> None:
    assert settled(()) == ()
    assert settled(("/nowhere",)) == (None,)


def test_a_young_stamp_is_that_of_no_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = settled((str(file),))
    assert found is not None and lasting(found) == found == stamp(str(file))
    assert lasting(None) is None
    monkeypatch.setattr(freshness, "TICK_NS", 1 << 62)  # as if it had just been written
    assert lasting(found) not in (found, None)


def test_a_stamp_from_a_clock_that_was_ahead_is_old_enough(file: Path) -> None:
    [found] = settled((str(file),))
    assert found is not None
    ahead = (*found[:3], time.time_ns() + 1000 * TICK_NS)
    assert lasting(ahead) == ahead


def test_a_way_holds_until_something_comes_or_goes_in_one_of_its_folders(file: Path) -> None:
    folders = [str(file.parent), str(file.parent.parent)]
    settled(folders)
    way = Way(folders)
    assert way.holds()
    file.write_text("what is in a file is not asked")
    assert way.holds()
    file.with_name("other").touch()
    assert not way.holds()


def test_a_way_of_young_folders_does_not_hold(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "TICK_NS", 1 << 62)
    assert not Way([str(file.parent)]).holds()


def test_ways_are_joined_as_they_were_without_the_folders_of_others(file: Path) -> None:
    inner, outer = str(file.parent), str(file.parent.parent)
    settled((inner, outer))
    ways = [Way([inner]), Way([outer])]
    file.with_name("other").touch()
    whole, rest = Way.joined(ways), Way.joined(ways, {inner})
    assert whole.paths == [inner, outer] and not whole.holds()
    assert rest.paths == [outer] and rest.holds()


def test_an_answer_can_be_used_until_its_time_is_over(file: Path) -> None:
    watch = (str(file),)
    was = settled(watch)
    assert [Fresh(watch, was, seconds).holds() for seconds in (None, 60.0, -1.0)] == [True, True, False]
    file.write_text("two")
    assert not Fresh(watch, was).holds()


def test_an_answer_about_a_file_that_never_rests_holds_for_a_moment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = file.with_name("calm")
    calm.write_text("one")
    watch = (str(file), str(calm))
    answer = Fresh(watch, ((), *settled(watch[1:])))
    file.write_text("two")
    assert answer.holds() and answer.watch == watch
    now = time.monotonic()
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: now + RESTLESS_SECONDS + 1)
        assert not answer.holds()
    calm.write_text("two")
    assert not answer.holds()


class Restless:
    """A clock and a file that is written again whenever somebody looks at it."""

    def __init__(self) -> None:
        self.now = 10**18 + 1
        self.looked = 0

    def time_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)

    def stamp(self, path: str) -> freshness.Stamp:
        self.looked += 1
        return (1, self.looked, self.now, self.now)


def test_a_file_that_never_rests_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    restless = Restless()
    monkeypatch.setattr(freshness, "time", restless)
    monkeypatch.setattr(freshness, "stamp", restless.stamp)
    # No file has this stamp, so the next question is asked again.
    assert freshness.settled(["/f"]) == ((),)
    assert restless.looked == freshness._TRIES + 1


class Clock(Restless):
    """A clock, and files with these times of their last change."""

    def __init__(self, **changed: int) -> None:
        super().__init__()
        self._changed = changed
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        super().sleep(seconds)

    def stamp(self, path: str) -> freshness.Stamp:
        return (1, 1, 1, self._changed[path])


SECOND_NS = 10**9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    begun = 10**18
    clock = Clock(
        coarse=begun,  # on a file system that knows whole seconds, changed in this one
        older=begun - 3 * SECOND_NS,
        young=begun + SECOND_NS // 2 - TICK_NS // 2,
        ahead=begun + 3600 * SECOND_NS + 1,
    )
    clock.now = begun + SECOND_NS // 2
    monkeypatch.setattr(freshness, "time", clock)
    monkeypatch.setattr(freshness, "stamp", clock.stamp)
    return clock


def test_whole_seconds_prove_nothing_for_two_of_them(clock: Clock) -> None:
    coarse = clock.stamp("coarse")
    assert (lasting(coarse), lasting(clock.stamp("older"))) == ((), clock.stamp("older"))
    assert settled(["coarse", "older"]) == (coarse, clock.stamp("older"))
    assert clock.slept == 1.5
    assert lasting(coarse) == coarse


def test_whole_seconds_are_waited_for_once(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "stamp", lambda _: (1, 1, 1, clock.now // SECOND_NS * SECOND_NS))
    assert settled(["/f"]) == ((),)
    assert clock.slept == 1.5


def test_a_stamp_from_a_clock_that_was_ahead_hides_no_young_one(clock: Clock) -> None:
    settled(["ahead", "young"])
    assert clock.slept == TICK_NS / 2 / 1e9
