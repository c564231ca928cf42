"""What git tracks, as our reader sees it, against indexes that git itself has written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.providers.gitindex import UnreadableIndex, names, tracks

QUIET = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *words],
        cwd=folder,
        env=QUIET,
        check=True,
        capture_output=True,
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def repository(folder: Path, *options: str) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", *options)
    # In the fourth form, the second of two alike is written as what differs.
    plain = (".venv/bin/python", "a/b/c.txt", "a/b/d.txt", "with space/ü.txt")
    for name in (*plain, f"{'long' * 40}/{'x' * 200}/y"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def asked(folder: Path, path: str) -> bool:
    return tracks(str(folder / path))


def agrees(folder: Path) -> None:
    """Whatever git lists is found, with the folders above it, and nothing else is."""
    listed = git(folder, "ls-files", "-z").split("\0")[:-1]
    assert listed
    for name in listed:
        assert asked(folder, name)
        assert asked(folder, name.partition("/")[0])
    for name in ("none", ".venv2", ".ven", "a/b/c.txt2", "a/b/c.txt/below", "a/bc"):
        assert not asked(folder, name)


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_what_git_lists_is_tracked(tmp_path: Path, version: int, form: str) -> None:
    folder = repository(tmp_path / "r", f"--object-format={form}")
    assert not asked(folder, ".venv")  # there is no index yet
    git(folder, "add", "a", "with space")
    assert not asked(folder, ".venv")
    assert asked(folder, "a")
    git(folder, "add", "--force", ".venv")
    if version == 3:
        git(folder, "add", "--intent-to-add", ".")  # the third form is for entries with more flags
    else:
        git(folder, "add", ".")
        git(folder, "update-index", f"--index-version={version}")
    assert (folder / ".git/index").read_bytes()[7] == version
    agrees(folder)
    git(folder, "rm", "-rq", "--cached", ".venv")
    assert not asked(folder, ".venv")


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_a_split_index_is_read_with_its_shared_part(tmp_path: Path, form: str) -> None:
    folder = repository(tmp_path / "r", f"--object-format={form}")
    git(folder, "add", "a", ".venv")
    git(folder, "update-index", "--split-index")
    git(folder, "-c", "splitIndex.maxPercentChange=100", "add", "with space")
    (folder / "a/b/c.txt").write_text("changed")
    git(folder, "-c", "splitIndex.maxPercentChange=100", "add", "a")
    [shared] = (folder / ".git").glob("sharedindex.*")
    assert asked(folder, ".venv")
    assert asked(folder, "with space")
    assert not asked(folder, "none")
    shared.unlink()
    assert asked(folder, "none")  # nobody can tell


def test_a_linked_worktree_has_an_index_of_its_own(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    git(folder, "add", "a")
    git(folder, "commit", "-qm", "a")
    git(folder, "worktree", "add", "-q", str(tmp_path / "linked"))
    linked = tmp_path / "linked"
    assert asked(linked, "a/b/c.txt")
    assert not asked(linked, ".venv")
    (linked / ".venv").mkdir()
    (linked / ".venv/x").write_text("")
    git(linked, "add", ".venv")
    assert asked(linked, ".venv")
    assert not asked(folder, ".venv")


def test_a_submodule_is_tracked_as_a_whole_and_has_an_index_inside(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "a")
    outer = repository(tmp_path / "outer")
    git(outer, "submodule", "add", "-q", str(inner), "sub")
    git(outer, "submodule", "add", "-q", str(inner), "env")
    assert asked(outer, "env")
    assert asked(outer, "sub/.venv")
    assert not asked(outer, "sub/none")
    assert not asked(outer, ".venv")


def test_folders_of_a_sparse_index_count_with_all_below(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "a")
    git(folder, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
    found, _ = names((folder / ".git/index").read_bytes())
    assert b".venv/" in found
    assert asked(folder, ".venv")
    assert asked(folder, ".venv/bin")
    assert not asked(folder, "none")


def test_names_that_only_look_like_more_are_told_apart(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    for name in ("link", "a.venv", ".venv.txt"):
        (folder / name).write_text("")
    git(folder, "add", "a", "link", "a.venv", ".venv.txt")
    agrees(folder)
    assert not asked(folder, ".venv")
    assert asked(folder, "a.venv")


def test_outside_of_a_repository_nothing_is_tracked(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()  # so that what is above does not count
    assert not asked(tmp_path, "a")


@pytest.mark.parametrize(
    "text", ["", "gitdir:", "gitdir: /nonexistent", "gitdir: a\0b", "x" * 20_000, "elsewhere"]
)
def test_where_it_cannot_be_told_it_is_tracked(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    assert asked(tmp_path, ".venv")


def test_where_nobody_may_look_for_the_index_it_is_tracked(tmp_path: Path) -> None:
    # Root may look everywhere, but for a path that is too long.
    longest = os.pathconf("/", "PC_PATH_MAX") - 1
    prefix = f"{tmp_path}/"
    dots = "./" * ((longest - len(prefix)) // 2 - 1)
    assert os.path.isdir(prefix + dots)
    (tmp_path / ".git").write_text(f"gitdir: {dots}\n")
    assert asked(tmp_path, ".venv")


def test_an_index_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git/index")
    assert asked(tmp_path, ".venv")


def _written(tmp_path: Path) -> bytes:
    folder = repository(tmp_path / "r")
    git(folder, "add", ".")
    return (folder / ".git/index").read_bytes()


def test_a_damaged_index_is_unreadable_or_read_and_never_worse(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    whole = _written(tmp_path_factory.mktemp("index"))

    @given(st.integers(0, len(whole)), st.binary(max_size=40), st.sampled_from([2, 3, 4]))
    def damaged(place: int, more: bytes, version: int) -> None:
        data = whole[:7] + bytes((version,)) + whole[8:place] + more + whole[place + len(more) :]
        try:
            names(data)
        except UnreadableIndex:
            pass

    damaged()


@given(st.binary(max_size=400), st.booleans(), st.integers(0, 5))
def test_any_bytes_are_unreadable_or_read(data: bytes, begun: bool, version: int) -> None:
    if begun:
        data = b"DIRC\0\0\0" + bytes((version,)) + data
    try:
        found, shared = names(data)
    except UnreadableIndex:
        return
    assert all(b"\0" not in one for one in found)
    assert "/" not in shared
