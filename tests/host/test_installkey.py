"""The key of a user's fingerprints: made once, private, and never the reason that something fails."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from outfitter.host.installkey import load, state_folder


def test_the_state_folder_is_where_the_variables_say() -> None:
    every = {"OUTFITTER_HOME": "/o", "XDG_STATE_HOME": "/x"}
    assert state_folder(every, "/h") == "/o/state"
    assert state_folder({"XDG_STATE_HOME": "/x"}, "/h") == "/x/outfitter"
    assert state_folder({"XDG_STATE_HOME": "relative"}, "/h") == "/h/.local/state/outfitter"
    assert state_folder({}, "/h") == "/h/.local/state/outfitter"


def test_it_is_made_once(tmp_path: Path) -> None:
    folder = str(tmp_path / "a/state")
    key = load(folder)
    assert len(key) == 32
    assert load(folder) == key
    assert load(str(tmp_path / "b")) != key
    assert os.listdir(folder) == ["key"]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_nobody_else_can_read_it(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "state"
    before = os.umask(umask)
    try:
        load(str(folder))
    finally:
        os.umask(before)
    if umask != 0o777:  # which leaves nothing to anybody, but for root
        assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (folder, folder / "key"):
        assert not path.exists() or not path.stat().st_mode & 0o077


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_one_that_others_could_know_is_not_used(tmp_path: Path, mode: int) -> None:
    key = load(str(tmp_path))
    (tmp_path / "key").chmod(mode)
    assert load(str(tmp_path)) != key


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33], ids=["empty", "short", "long"])
def test_one_of_another_size_is_not_used(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    key = load(str(tmp_path))
    assert len(key) == 32
    assert key != content
    assert os.listdir(tmp_path) == ["key"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    other = load(str(tmp_path / "other"))
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "key").symlink_to(tmp_path / "other/key")
    assert load(str(folder)) != other


def test_where_it_cannot_be_kept_there_is_one_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert len(load(str(tmp_path / "file/state"))) == 32
    assert len(load("/proc/no-such-folder")) == 32


def test_a_full_disk_leaves_no_half_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    assert len(load(str(tmp_path))) == 32
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    assert load(str(tmp_path)) == load(str(tmp_path))


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "write", full)
    assert len(load(str(tmp_path))) == 32
    assert os.listdir(tmp_path) == []


def test_all_who_start_together_have_the_same(tmp_path: Path) -> None:
    # In one process or in many: the names they write to first are different ones.
    for attempt in range(20):
        folder = str(tmp_path / str(attempt))
        keys: list[bytes] = []
        ready = threading.Barrier(8)

        def take(folder: str = folder, ready: threading.Barrier = ready, keys: list[bytes] = keys) -> None:
            ready.wait()
            keys.append(load(folder))

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(keys) == 8
        assert len(set(keys)) == 1
        assert os.listdir(folder) == ["key"]


def test_a_pipe_in_its_place_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key", 0o600)
    assert len(load(str(tmp_path))) == 32
    assert os.listdir(tmp_path) == ["key"]
