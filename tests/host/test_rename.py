"""Renaming: never over what exists unless asked, with the kernel's help and without it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from outfitter.host import rename as module
from outfitter.host.rename import rename


def _unknown(*_: object) -> int:
    """A file system that cannot rename without replacing."""
    module.ctypes.set_errno(errno.EINVAL)
    return -1


@pytest.fixture(params=["kernel", "old library", "old file system"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "old library":
        monkeypatch.setattr(module, "_renameat2", None)
    elif request.param == "old file system":
        monkeypatch.setattr(module, "_renameat2", _unknown)


def listing(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_files_folders_and_links_get_another_name(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("f")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "inside").touch()
    (tmp_path / "l").symlink_to("nowhere")
    for name in "fdl":
        rename(str(tmp_path / name), str(tmp_path / f"new-{name}"), replace=False)
    assert listing(tmp_path) == ["new-d", "new-f", "new-l"]
    assert (tmp_path / "new-f").read_text() == "f"
    assert listing(tmp_path / "new-d") == ["inside"]
    assert os.readlink(tmp_path / "new-l") == "nowhere"


@pytest.mark.parametrize("source", ["f", "d", "l"])
@pytest.mark.parametrize("destination", ["other-f", "other-d", "other-l"])
def test_nothing_is_replaced(source: str, destination: str, tmp_path: Path) -> None:
    for prefix in ("", "other-"):
        (tmp_path / f"{prefix}f").write_text(prefix)
        (tmp_path / f"{prefix}d").mkdir()
        (tmp_path / f"{prefix}l").symlink_to("nowhere")
    before = listing(tmp_path)
    with pytest.raises(FileExistsError):
        rename(str(tmp_path / source), str(tmp_path / destination), replace=False)
    assert listing(tmp_path) == before
    assert (tmp_path / "other-f").read_text() == "other-"


def test_replacing_is_for_those_who_ask(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    rename(str(tmp_path / "a"), str(tmp_path / "b"), replace=True)
    assert listing(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "new"


@pytest.mark.parametrize(
    ("source", "destination", "number"),
    [
        ("none", "x", errno.ENOENT),
        ("f", "none/x", errno.ENOENT),
        ("f/x", "y", errno.ENOTDIR),
        ("d", "d/inside", errno.EINVAL),
        ("f", "f", errno.EEXIST),
    ],
)
def test_refusals_are_the_kernels(source: str, destination: str, number: int, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "d").mkdir()
    with pytest.raises(OSError) as refused:
        rename(str(tmp_path / source), str(tmp_path / destination), replace=False)
    assert refused.value.errno == number
    assert listing(tmp_path) == ["d", "f"]


@pytest.mark.parametrize("replace", [True, False])
def test_another_file_system_is_told_as_such(replace: bool, tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("this machine has no second file system to write to")
    (tmp_path / "f").touch()
    with pytest.raises(OSError) as refused:
        rename(str(tmp_path / "f"), f"/dev/shm/outfitter-{os.getpid()}", replace=replace)
    assert refused.value.errno == errno.EXDEV
    assert listing(tmp_path) == ["f"]
