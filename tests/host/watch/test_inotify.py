"""inotify as the kernel does it, and one instance shared: who hears what, and from when on."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.core.quotas import Sharing
from outfitter.errors import FileFailed
from outfitter.host.watch import inotify
from outfitter.host.watch.inotify import (
    CREATE,
    DELETE,
    IGNORED,
    ISDIR,
    MODIFY,
    MOVED_FROM,
    MOVED_TO,
    OVERFLOW,
    Inotify,
    parse,
    tells_all,
    tells_nothing,
)
from outfitter.host.watch.watching import Watching
from tests.support.handloop import HandLoop

ALL = CREATE | DELETE | MODIFY | MOVED_FROM | MOVED_TO
QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


@pytest.fixture
def kernel() -> Iterator[Inotify]:
    one = Inotify()
    yield one
    one.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_events_come_in_order_with_their_names(kernel: Inotify, folder: int, tmp_path: Path) -> None:
    watch = kernel.add(folder, ALL)
    (tmp_path / "ümlaut").write_bytes(b"x")
    (tmp_path / "d").mkdir()
    os.rename(tmp_path / "ümlaut", os.fsencode(tmp_path) + b"/\xff")
    (tmp_path / "d").rmdir()
    assert kernel.read() == (
        [
            (watch, CREATE, "ümlaut"),
            (watch, MODIFY, "ümlaut"),
            (watch, CREATE | ISDIR, "d"),
            (watch, MOVED_FROM, "ümlaut"),
            (watch, MOVED_TO, "\udcff"),
            (watch, DELETE | ISDIR, "d"),
        ],
        False,
    )


def test_nothing_to_read_is_nothing(kernel: Inotify) -> None:
    assert kernel.read() == ([], False)


def test_one_folder_has_one_watch_with_the_bits_of_both(kernel: Inotify, folder: int, tmp_path: Path) -> None:
    assert kernel.add(folder, CREATE) == kernel.add(folder, DELETE)
    (tmp_path / "f").touch()
    (tmp_path / "f").unlink()
    assert [bits for _, bits, _ in kernel.read()[0]] == [CREATE, DELETE]


def test_the_end_of_a_watch_is_the_last_event_of_it(kernel: Inotify, folder: int, tmp_path: Path) -> None:
    watch = kernel.add(folder, ALL)
    kernel.remove(watch)
    kernel.remove(watch)
    (tmp_path / "f").touch()
    assert kernel.read() == ([(watch, IGNORED, "")], False)
    assert kernel.add(folder, ALL) != watch


def test_more_than_fits_in_one_read_is_known(kernel: Inotify, folder: int, tmp_path: Path) -> None:
    kernel.add(folder, CREATE)
    for number in range(2000):
        (tmp_path / f"{number:0200}").touch()
    count, reads, more = 0, 0, True
    while more:
        events, more = kernel.read()
        count += len(events)
        reads += 1
    assert (count, kernel.read()) == (2000, ([], False))
    assert reads > 1


@pytest.mark.skipif(QUEUE > 100_000, reason="this machine keeps too many events to lose some")
def test_a_full_queue_is_an_event(kernel: Inotify, folder: int, tmp_path: Path) -> None:
    kernel.add(folder, CREATE | DELETE)
    for number in range(QUEUE // 2 + 10):
        path = tmp_path / str(number)
        path.touch()
        path.unlink()
    events, more = kernel.read()
    while more:
        last, more = kernel.read()
        events += last
    assert events[-1] == (-1, OVERFLOW, "")


def test_parse_takes_what_the_kernel_writes() -> None:
    one = b"\x01\0\0\0\0\1\0\0\0\0\0\0\x10\0\0\0name" + bytes(12)
    assert parse(b"") == []
    assert parse(one + b"\x02\0\0\0\0\x80\0\0\0\0\0\0\0\0\0\0") == [(1, CREATE, "name"), (2, IGNORED, "")]


def test_what_is_modified_over_and_over_is_told_once_per_read(
    kernel: Inotify, folder: int, tmp_path: Path
) -> None:
    with (tmp_path / "a").open("wb", 0) as first, (tmp_path / "b").open("wb", 0) as second:
        watch = kernel.add(folder, ALL)
        for _ in range(100):
            first.write(b"x")
            second.write(b"x")
        (tmp_path / "a").unlink()
    assert kernel.read()[0] == [(watch, MODIFY, "a"), (watch, MODIFY, "b"), (watch, DELETE, "a")]


def test_a_file_cannot_be_watched(kernel: Inotify, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    fd = os.open(tmp_path / "f", os.O_PATH)
    try:
        with pytest.raises(NotADirectoryError):
            kernel.add(fd, ALL)
    finally:
        os.close(fd)


class _Kernel:
    """What the kernel says when a user has used up something; a real one would be the whole machine's."""

    def __init__(self, number: int) -> None:
        self._number = number

    def _fail(self, *_: object) -> int:
        ctypes.set_errno(self._number)
        return -1

    inotify_init1 = inotify_add_watch = inotify_rm_watch = _fail


def test_limits_of_the_user_are_named(kernel: Inotify, folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "_loaded", [_Kernel(28)])
    monkeypatch.setattr(kernel, "_add", _Kernel(28)._fail)
    with pytest.raises(FileFailed, match="raise /proc/sys/fs/inotify/max_user_watches") as full:
        kernel.add(folder, ALL)
    assert full.value.errno_name == "ENOSPC"
    monkeypatch.setattr(inotify, "_loaded", [_Kernel(24)])
    with pytest.raises(FileFailed, match="raise /proc/sys/fs/inotify/max_user_instances") as none:
        Inotify()
    assert none.value.errno_name == "EMFILE"


def test_file_systems_that_tell_nothing_are_known(folder: int) -> None:
    for path, nothing in (("/proc", True), ("/sys", True), ("/", False)):
        if os.path.ismount(path):
            fd = os.open(path, os.O_PATH | os.O_DIRECTORY)
            assert (tells_nothing(fd), tells_all(fd)) in ([(True, False)] if nothing else [(False, True)])
            os.close(fd)


# One instance for many


class Loop(HandLoop):
    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        self.call_soon(callback, *args)


class Ears:
    """A watcher that keeps what it hears."""

    principal = "somebody"

    def __init__(self) -> None:
        self.heard: list[tuple[object, int, str]] = []
        self.lost = 0

    def event(self, key: object, bits: int, name: str) -> None:
        self.heard.append((key, bits, name))

    def overflowed(self) -> None:
        self.lost += 1

    def names(self) -> list[str]:
        heard, self.heard = self.heard, []
        return [name for _, _, name in heard]


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def watching(loop: Loop) -> Iterator[Watching]:
    one = Watching(loop, 3)
    yield one
    one.close()
    one.close()


def test_each_hears_what_it_asked_for_with_its_own_key(
    loop: Loop, watching: Watching, folder: int, tmp_path: Path
) -> None:
    first, second = Ears(), Ears()
    watching.add(first, folder, CREATE, "one")
    watching.add(second, folder, DELETE, "two")
    (tmp_path / "f").touch()
    (tmp_path / "f").unlink()
    loop.tick()
    assert (first.heard, second.heard) == ([("one", CREATE, "f")], [("two", DELETE, "f")])


def test_what_happened_before_is_never_told(
    loop: Loop, watching: Watching, folder: int, tmp_path: Path
) -> None:
    first, second = Ears(), Ears()
    watching.add(first, folder, CREATE, 1)
    (tmp_path / "before").touch()
    watching.add(second, folder, CREATE, 2)
    (tmp_path / "after").touch()
    loop.advance(1.0)
    loop.tick()
    assert (first.names(), second.names()) == (["before", "after"], ["after"])


def test_events_are_read_in_batches(loop: Loop, watching: Watching, folder: int, tmp_path: Path) -> None:
    ears = Ears()
    watching.add(ears, folder, CREATE, None)
    (tmp_path / "a").touch()
    loop.tick()
    (tmp_path / "b").touch()
    loop.tick()
    assert ears.names() == ["a"]
    loop.advance(0.1)
    loop.tick()
    assert ears.names() == ["b"]


def test_a_watch_ends_with_its_last_watcher(
    loop: Loop, watching: Watching, folder: int, tmp_path: Path
) -> None:
    first, second = Ears(), Ears()
    for ears in (first, second):
        watching.add(ears, folder, CREATE, None)
    watching.drop(first)
    (tmp_path / "a").touch()
    loop.tick()
    assert (first.names(), second.names(), len(watching)) == ([], ["a"], 1)
    watching.drop(second)
    watching.drop(second)
    assert len(watching) == 0


def test_a_folder_watched_twice_is_let_go_by_its_key(
    loop: Loop, watching: Watching, folder: int, tmp_path: Path
) -> None:
    ears, old, new = Ears(), object(), object()
    watch = watching.add(ears, folder, CREATE, old)
    assert watching.add(ears, folder, CREATE, new) == watch
    watching.remove(ears, watch, old)
    watching.remove(ears, watch, old)
    (tmp_path / "a").touch()
    loop.tick()
    assert ears.heard == [(new, CREATE, "a")]
    watching.remove(ears, watch, new)
    assert len(watching) == 0


def test_a_folder_that_goes_is_forgotten(loop: Loop, watching: Watching, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    fd = os.open(tmp_path / "d", os.O_PATH)
    ears = Ears()
    watching.add(ears, fd, CREATE, "d")
    os.close(fd)
    (tmp_path / "d").rmdir()
    loop.tick()
    assert ears.heard == [("d", IGNORED, "")]
    assert len(watching) == 0
    watching.drop(ears)


def test_there_is_a_bound(watching: Watching, tmp_path: Path) -> None:
    ears = Ears()
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        fd = os.open(tmp_path / str(number), os.O_PATH)
        try:
            if number < 3:
                watching.add(ears, fd, CREATE, None)
            else:
                with pytest.raises(FileFailed, match="this server already watches 3 directories"):
                    watching.add(ears, fd, CREATE, None)
        finally:
            os.close(fd)


@pytest.mark.skipif(QUEUE > 100_000, reason="this machine keeps too many events to lose some")
def test_everybody_hears_that_events_got_lost(
    loop: Loop, watching: Watching, folder: int, tmp_path: Path
) -> None:
    ears = [Ears(), Ears()]
    for one in ears:
        watching.add(one, folder, CREATE | DELETE, None)
    for number in range(QUEUE // 2 + 10):
        path = tmp_path / str(number)
        path.touch()
        path.unlink()
    loop.serve(lambda: all(one.lost == 1 for one in ears))


def test_a_watcher_that_fails_harms_no_other(
    loop: Loop, watching: Watching, folder: int, tmp_path: Path
) -> None:
    class Deaf(Ears):
        def event(self, key: object, bits: int, name: str) -> None:
            raise RuntimeError("deaf")

    ears = Ears()
    watching.add(Deaf(), folder, CREATE, None)
    watching.add(ears, folder, CREATE, None)
    (tmp_path / "a").touch()
    loop.tick()
    assert ears.names() == ["a"]


def test_after_the_end_nothing_can_be_watched(loop: Loop, folder: int) -> None:
    watching = Watching(loop, 3)
    watching.close()
    with pytest.raises(FileFailed):
        watching.add(Ears(), folder, CREATE, None)


def test_one_of_several_principals_cannot_watch_all_there_may_be(loop: Loop, tmp_path: Path) -> None:
    watching = Watching(loop, 4, Sharing(True))
    for name in "abcd":
        (tmp_path / name).mkdir()
    folders = {name: os.open(tmp_path / name, os.O_RDONLY) for name in "abcd"}
    alice, more, bob = Ears(), Ears(), Ears()
    alice.principal = more.principal = "alice"
    bob.principal = "bob"
    try:
        watching.add(alice, folders["a"], CREATE, None)
        watching.add(more, folders["b"], CREATE, None)
        with pytest.raises(FileFailed, match="you already watch 2 directories, your share") as caught:
            watching.add(more, folders["c"], CREATE, None)
        assert caught.value.errno_name == "ENOSPC"
        watching.add(bob, folders["c"], CREATE, None)
        watching.drop(alice)
        watching.add(more, folders["d"], CREATE, None)
    finally:
        watching.close()
        for folder in folders.values():
            os.close(folder)
