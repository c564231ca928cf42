"""What was looked at, and whether it looks the same later."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outfitter.host.witness import Witness


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("one")
    (tmp_path / "folder/link").symlink_to("../absent")
    return tmp_path


def seen(place: Path) -> Witness:
    """All of it, as a walk looks at it."""
    witness = Witness()
    with witness.scan(str(place / "folder")) as entries:
        names = sorted(entry.name for entry in entries)
    assert names == ["file", "link"]
    fd, found = witness.open_read(str(place / "folder/file"))
    assert (os.read(fd, 10), found.st_size) == (b"one", 3)
    os.close(fd)
    for missing in (place / "missing", place / "folder/file/x"):
        with pytest.raises(OSError):
            witness.stat(str(missing))
    with pytest.raises(OSError):
        witness.open_read(str(place / "nothing"))
    assert witness.real(str(place)) == str(place.resolve())
    assert not witness.is_link(str(place / "folder"))
    return witness


def test_nothing_that_stays_is_a_change(place: Path) -> None:
    witness = seen(place)
    assert (witness.holds(), witness.holds()) == (True, True)


def rewrite(place: Path) -> None:
    """The same size, and the times set back."""
    file = place / "folder/file"
    before = file.stat()
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of the file system has to tick
        file.write_text("two")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        rewrite,
        lambda place: (place / "folder/file").unlink(),
        lambda place: (place / "folder/more").touch(),
        lambda place: (place / "missing").touch(),
        lambda place: (place / "nothing").touch(),
        lambda place: (place / "absent").touch(),
        lambda place: (place / "folder").rename(place / "elsewhere"),
    ],
    ids=["rewrite", "remove", "add", "appear", "appear as a file", "link leads somewhere", "rename"],
)
def test_every_change_shows(place: Path, change: Callable[[Path], object]) -> None:
    witness = seen(place)
    change(place)
    assert not witness.holds()


def test_what_changed_a_moment_ago_is_not_settled(place: Path) -> None:
    assert not seen(place).settled
    later = Witness(time.time_ns() + 3_000_000_000)
    later.stat(str(place / "folder/file"))
    assert later.settled and Witness().settled
