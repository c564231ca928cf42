"""Files of a user's own state: private, whole, and nobody else's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from outfitter.contract.privatefile import NotOurs, read, write
from tests.support.machine import own_descriptors


def test_a_file_and_its_folder_are_for_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "state" / "file"
    write(str(path), b"one", sync=True)
    write(str(path), b"two")
    assert read(str(path), 10) == b"two"
    assert os.listdir(path.parent) == ["file"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_cannot_be_put_in_its_place_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        write(str(path), b"one")
    assert os.listdir(tmp_path) == ["file"]


def test_so_much_is_read_from_either_end(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    write(path, b"0123456789")
    assert read(path, 4) == b"0123"
    assert read(path, 4, end=True) == b"6789"
    assert read(path, 40, end=True) == b"0123456789"


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_what_others_may_write_is_not_ours(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    write(str(path), b"one")
    path.chmod(mode)
    with pytest.raises(NotOurs):
        read(str(path), 10)
    path.chmod(0o644)
    assert read(str(path), 10) == b"one"


def test_what_belongs_to_another_user_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "file")
    write(path, b"one")
    monkeypatch.setattr("outfitter.contract.privatefile.own", lambda: os.geteuid() + 1)
    with pytest.raises(NotOurs):
        read(path, 10)


def test_a_pipe_and_a_link_are_not_read(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(NotOurs):
        read(str(pipe), 10)
    link.symlink_to(tmp_path / "file")
    write(str(tmp_path / "file"), b"one")
    with pytest.raises(OSError):
        read(str(link), 10)


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(str(path), b"one")
    before = len(own_descriptors())
    for mode in (0o600, 0o666):
        path.chmod(mode)
        try:
            read(str(path), 10)
        except NotOurs:
            pass
    assert len(own_descriptors()) == before
