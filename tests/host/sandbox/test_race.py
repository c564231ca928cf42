"""Somebody exchanges folders and files for links while a confined request works: nothing leads outside."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outfitter.core.permissions import READ, WRITE, Confinement, Rule
from outfitter.errors import OutfitterError
from outfitter.host.sandbox.files import ConfinedFiles
from outfitter.host.sandbox.grounding import Bounds

ATTEMPTS = 400  # of each operation: some seconds, in which the names are exchanged many thousand times

# Exchanges two pairs of names, for ever: renameat2 with RENAME_EXCHANGE.
SWAPPER = """
import ctypes, sys
libc = ctypes.CDLL(None)
pairs = [tuple(name.encode() for name in pair.split(":")) for pair in sys.argv[1:]]
print("swapping", flush=True)
while True:
    for one, other in pairs:
        assert libc.renameat2(-100, one, -100, other, 2) == 0
"""


class Place:
    """A workspace, with a folder and a file that are links to the outside every now and then."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.outside = root / "workspace", root / "outside"
        for folder, text in ((self.workspace / "d", "inside"), (self.outside, "outside")):
            folder.mkdir(parents=True)
            (folder / "f").write_text(text)
            (folder / "deep").mkdir()
            (folder / "deep" / "f").write_text(text)
        (self.workspace / "file").write_text("inside")
        os.symlink(self.outside, self.workspace / "d-link")
        os.symlink(self.outside / "f", self.workspace / "file-link")

    def outside_is_untouched(self) -> bool:
        names = sorted(str(path.relative_to(self.outside)) for path in self.outside.rglob("*"))
        texts = {path.read_text() for path in self.outside.rglob("f")}
        mode = (self.outside / "f").stat().st_mode & 0o777
        return (names, texts, mode) == (["deep", "deep/f", "f"], {"outside"}, 0o600)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path.resolve())
    (place.outside / "f").chmod(0o600)
    workspace = place.workspace
    pairs = [f"{workspace}/d:{workspace}/d-link", f"{workspace}/file:{workspace}/file-link"]
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, *pairs], stdout=subprocess.PIPE)
    try:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"swapping\n"
        yield place
        assert swapper.poll() is None
    finally:
        swapper.send_signal(signal.SIGKILL)
        swapper.communicate()
    assert place.outside_is_untouched()


def attempts(act: Callable[[], object], *, until_both: bool = True) -> list[object]:
    """What an operation gave. Ends when it was tried often, and was both done and refused at least once: then
    the names were exchanged while it was tried."""
    given: list[object] = []
    refused = 0
    while len(given) + refused < ATTEMPTS or (until_both and not (given and refused)):
        try:
            given.append(act())
        except (OSError, OutfitterError):
            refused += 1
    return given


def read(files: ConfinedFiles, path: Path) -> bytes:
    fd, _ = files.open_read(str(path))
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def reading(place: Place) -> ConfinedFiles:
    return ConfinedFiles(Bounds(Confinement(True, False, (Rule(str(place.workspace), READ),))), writing=False)


def writing(place: Place) -> ConfinedFiles:
    """The outside may be read, but not written."""
    rules = (Rule("/", READ), Rule(str(place.workspace), WRITE))
    return ConfinedFiles(Bounds(Confinement(True, False, rules)), writing=True)


def test_nothing_outside_is_read(place: Place) -> None:
    files, workspace = reading(place), place.workspace
    for path in (workspace / "d" / "f", workspace / "d" / "deep" / "f", workspace / "file"):
        assert set(attempts(lambda path=path: read(files, path))) == {b"inside"}  # type: ignore[misc]


def test_nothing_outside_is_told(place: Place) -> None:
    (place.outside / "secret").mkdir()
    files, workspace = reading(place), place.workspace
    listings = attempts(lambda: files.scan_directory(str(workspace / "d")))
    assert {str(one) for one in listings} == {str((["f"], [("deep", True, False)]))}
    real = attempts(lambda: files.canonicalize(str(workspace / "d" / "f")))
    assert all(str(path).startswith(f"{workspace}/") for path in real)
    (place.outside / "secret").rmdir()


def test_nothing_outside_is_written(place: Place) -> None:
    files, workspace = writing(place), place.workspace
    for path in (workspace / "d" / "f", workspace / "d" / "new"):
        attempts(lambda path=path: files.write_file(str(path), [b"inside"]))  # type: ignore[misc]
        assert place.outside_is_untouched()
    # The link itself may be replaced, and is gone then.
    attempts(lambda: files.write_file(str(workspace / "file"), [b"inside"]), until_both=False)


def test_nothing_outside_is_updated_or_gets_another_mode(place: Place) -> None:
    files, workspace = writing(place), place.workspace

    def update() -> None:
        update = files.update(str(workspace / "d" / "f"))
        update.write_at(b"i", 0)
        update.commit()

    attempts(update)
    attempts(lambda: files.chmod(str(workspace / "d" / "f"), 0o644))
    attempts(lambda: files.chmod(str(workspace / "file"), 0o644))


def test_nothing_outside_is_made_moved_or_removed(place: Place) -> None:
    files, inner = writing(place), place.workspace / "d"

    def make_and_remove() -> None:
        files.create_directory(str(inner / "made" / "deep"), True)
        files.remove(str(inner / "made"), True, False)

    def move() -> None:
        files.rename(str(inner / "deep"), str(inner / "moved"), replace=False)
        files.rename(str(inner / "moved"), str(inner / "deep"), replace=False)

    def remove() -> None:
        files.remove(str(inner / "f"), False, False)

    for act in (make_and_remove, move, remove):
        attempts(act, until_both=False)
        assert place.outside_is_untouched()


def test_nothing_is_copied_from_or_to_the_outside(place: Place) -> None:
    rules = (Rule(str(place.workspace), WRITE),)
    files = ConfinedFiles(Bounds(Confinement(True, False, rules)), writing=True)
    workspace = place.workspace
    (workspace / "source").mkdir()
    (workspace / "source" / "f").write_text("copied")
    number = itertools.count()

    def copy_from() -> None:
        files.copy(str(workspace / "d"), f"{workspace}/copy-{next(number)}", True)

    def copy_to() -> None:
        files.copy(str(workspace / "source"), f"{workspace}/d/copied", True)

    attempts(copy_from)
    attempts(copy_to, until_both=False)
    copied = [path for path in workspace.glob("copy-*") if not path.is_symlink()]  # a link is copied as one
    assert {path.read_text() for folder in copied for path in folder.rglob("f")} == {"inside"}
