"""What has changed in a folder, by two looks at it; and through watchfiles, on any system."""

from __future__ import annotations

import os
import queue
import select
import sys
from pathlib import Path

import pytest
import watchfiles

from outfitter.errors import HostUnsupported
from outfitter.host.portable.notifier import Notifier, _entries, differences
from outfitter.host.watch.inotify import CREATE, DELETE, IGNORED, ISDIR, MODIFY, MOVE_SELF
from tests.support.machine import SECOND


def test_two_listings_differ_in_inotifys_words(tmp_path: Path) -> None:
    for name in ("gone", "kept", "written", "became a folder"):
        (tmp_path / name).write_text("old")
    (tmp_path / "folder").mkdir()
    before = _entries(str(tmp_path))
    (tmp_path / "gone").unlink()
    (tmp_path / "written").write_text("new content")
    (tmp_path / "became a folder").unlink()
    (tmp_path / "became a folder").mkdir()
    (tmp_path / "folder" / "below").touch()  # not of this folder
    (tmp_path / "new").touch()
    assert sorted(differences(before, _entries(str(tmp_path)))) == sorted(
        [
            (DELETE, "gone"),
            (DELETE, "became a folder"),
            (CREATE | ISDIR, "became a folder"),
            (CREATE, "new"),
            (MODIFY, "written"),
        ]
    )


def news(notifier: Notifier) -> list[tuple[int, int, str]]:
    """The next events, whenever they come."""
    ready = select.poll()
    ready.register(notifier.fd, select.POLLIN)
    while ready.poll(30 * SECOND * 1000):
        if events := notifier.read()[0]:
            return events
    raise AssertionError("nothing was told")


def test_changes_are_told_and_the_end_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "1")
    folder = tmp_path / "watched"
    folder.mkdir()
    notifier = Notifier()
    fd = os.open(folder, os.O_RDONLY)
    try:
        watch = notifier.add(fd, 0, str(folder))
        assert notifier.add(fd, 0, str(folder)) == watch
        (folder / "new").touch()
        assert news(notifier) == [(watch, CREATE, "new")]
        folder.rename(tmp_path / "elsewhere")
        (tmp_path / "watched").mkdir()
        assert news(notifier) in ([(watch, MOVE_SELF, ""), (watch, IGNORED, "")], [(watch, IGNORED, "")])
    finally:
        os.close(fd)
        notifier.close()


def test_a_folder_that_is_found_at_its_new_place_first_is_watched_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old watch ends with its old path, and takes nothing along."""
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "1")
    (tmp_path / "old").mkdir()
    notifier = Notifier()
    fd = os.open(tmp_path / "old", os.O_RDONLY)
    try:
        old = notifier.add(fd, 0, str(tmp_path / "old"))
        (tmp_path / "old").rename(tmp_path / "new")
        new = notifier.add(fd, 0, str(tmp_path / "new"))
        assert new != old
        assert news(notifier) == [(old, IGNORED, "")]
        assert notifier.add(fd, 0, str(tmp_path / "new")) == new
        (tmp_path / "new" / "file").touch()
        assert news(notifier) == [(new, CREATE, "file")]
    finally:
        os.close(fd)
        notifier.close()


def test_what_came_and_went_before_watchfiles_looked_is_told_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells that something came, which is gone before its next look: of that it tells nothing."""
    says: queue.Queue[set[tuple[int, str]] | None] = queue.Queue()
    monkeypatch.setattr(watchfiles, "watch", lambda *paths, **flags: iter(says.get, None))
    fleeting = tmp_path / "fleeting"
    notifier = Notifier()
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        watch = notifier.add(fd, 0, str(tmp_path))
        says.put(set())  # it watches now
        fleeting.touch()
        says.put({(1, str(fleeting))})
        assert news(notifier) == [(watch, CREATE, "fleeting")]
        fleeting.unlink()
        says.put(set())
        assert news(notifier) == [(watch, DELETE, "fleeting")]
    finally:
        os.close(fd)
        notifier.close()
        says.put(None)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(HostUnsupported, match=r"install outfitter\[watch\]"):
        Notifier()
