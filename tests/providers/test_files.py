"""Looking at a project's files: upwards to the repository, and never into a trap."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outfitter.providers.files import below, nearest, program, read, upwards
from tests.support.machine import own_descriptors


def test_the_way_up_ends_at_the_root_or_after_a_repository(tmp_path: Path) -> None:
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    assert list(upwards(str(inner)))[-1] == "/"
    (tmp_path / ".git").mkdir()
    assert list(upwards(str(inner))) == [str(inner), str(tmp_path / "a"), str(tmp_path)]
    # A worktree and a submodule have a file there, be it one that leads nowhere.
    (tmp_path / "a/.git").symlink_to("nowhere")
    assert list(upwards(str(inner))) == [str(inner), str(tmp_path / "a")]


def test_the_nearest_folder_tells_all_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/two", "one", "two"):
        (tmp_path / name).touch()
    assert nearest(str(tmp_path / "a"), ("one", "two")) == (str(tmp_path / "a"), (f"{tmp_path}/a/two",))
    assert nearest(str(tmp_path), ("two", "./one")) == (str(tmp_path), (f"{tmp_path}/two", f"{tmp_path}/one"))
    (tmp_path / ".git").mkdir()
    assert nearest(str(tmp_path), ("three", ".git")) is None


def test_only_regular_files_of_a_sensible_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    os.mkfifo(tmp_path / "pipe")
    before = own_descriptors()
    assert read(f"{tmp_path}/file") == b"12345"
    assert read(f"{tmp_path}/file", 5) == b"12345"
    assert read(f"{tmp_path}/file", 4) is None
    for path in (f"{tmp_path}/pipe", str(tmp_path), f"{tmp_path}/none", "/dev/zero", "", "a\0b"):
        assert read(path) is None
    assert own_descriptors() == before


@pytest.mark.parametrize(
    ("name", "wanted"), [("./x", "/p/x"), ("x", "/p/x"), ("/x", "/x"), ("../x", "/p/../x"), (".x", "/p/.x")]
)
def test_paths_below_a_folder(name: str, wanted: str) -> None:
    assert below("/p", name) == wanted


def test_a_program_is_executable_and_never_found_by_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tool"
    tool.touch()
    monkeypatch.chdir(tmp_path)
    env = {"PATH": f"relative::.:{tmp_path}"}
    assert program("tool", env) is None
    tool.chmod(0o755)
    assert program("tool", env) == str(tool)
    assert program("tool", {"PATH": ":."}) is None
    assert program("tool", {}) is None
    assert program("./tool", {}, str(tmp_path)) == str(tool)
