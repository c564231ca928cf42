"""Answers that the kernel has at hand are the ones it would give after looking."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outfitter.host import files
from outfitter.host.statx import CachedLookup, statx_at
from tests.support.machine import own_descriptors


@pytest.fixture
def lookup(tmp_path: Path) -> CachedLookup:
    """One that finds what was just looked at, where the kernel knows such lookups at all."""
    lookup = CachedLookup()
    (tmp_path / "probe").touch()
    os.stat(tmp_path / "probe")
    if lookup.find(str(tmp_path / "probe")) is None:
        pytest.skip("this kernel has no lookups in its cache alone (Linux 5.12)")
    return lookup


def test_cached_answer_is_the_answer(lookup: CachedLookup, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-file").symlink_to("file")
    (tmp_path / "to-folder").symlink_to("folder")
    os.mkfifo(tmp_path / "fifo")
    for name in ("file", "folder", "to-file", "to-folder", "fifo"):
        known = files.metadata(f"{tmp_path}/{name}")
        assert lookup.find(f"{tmp_path}/{name}") == known
    (tmp_path / "file").write_bytes(b"123456789")
    found = lookup.find(f"{tmp_path}/to-file")
    assert found is not None and (found.size, found.is_symlink) == (9, True)


@pytest.mark.parametrize("name", ["missing", "dangling", "loop", "file/below", "n" * 256, "x/" * 3000])
def test_what_is_no_answer_is_left_to_those_who_look(lookup: CachedLookup, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    assert lookup.find(f"{tmp_path}/{name}") is None
    assert lookup.find(f"{tmp_path}/file") is not None


def test_no_descriptor_is_left_open(lookup: CachedLookup, tmp_path: Path) -> None:
    before = len(own_descriptors())
    for name in ("probe", "missing", "probe/x"):
        lookup.find(f"{tmp_path}/{name}")
    assert len(own_descriptors()) == before


def test_names_relative_to_a_folder_and_links_themselves(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    folder = os.open(tmp_path, os.O_PATH)
    own, target = (statx_at(folder, "link", follow=follow) for follow in (False, True))
    os.close(folder)
    assert (own.is_symlink, own.size, target.is_symlink, target.size) == (True, 4, False, 5)
    with pytest.raises(FileNotFoundError):
        statx_at(None, f"{tmp_path}/missing", follow=True)
