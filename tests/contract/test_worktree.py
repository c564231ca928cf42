"""Which worktree a folder belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.contract.worktree import worktree_root


@pytest.mark.parametrize(
    ("made", "asked", "expected"),
    [
        ([".git/"], "a/b", ""),
        (["outfitter.toml"], "a", ""),
        ([".git/", "a/outfitter.toml"], "a/b", "a"),
        ([".git/", "a/.git"], "a/b", "a"),
    ],
)
def test_a_worktree_begins_at_the_nearest_checkout_or_project(
    made: list[str], asked: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / asked).mkdir(parents=True)
    for name in made:
        path = tmp_path / name
        path.mkdir() if name.endswith("/") else path.write_text("")
    assert worktree_root(str(tmp_path / asked)) == str((tmp_path / expected).resolve())
    link = tmp_path / "link"
    link.symlink_to(tmp_path / asked)
    assert worktree_root(str(link)) == str((tmp_path / expected).resolve())


def test_a_folder_outside_of_any_is_its_own(tmp_path: Path) -> None:
    assert worktree_root(str(tmp_path)) == str(tmp_path.resolve())
    assert worktree_root("/") == "/"
