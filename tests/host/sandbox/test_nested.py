"""Names in the folders of a workspace that stay read-only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outfitter.core.permissions import READ, WRITE, Confinement, Rule
from outfitter.core.protecting import keeping
from outfitter.host.sandbox import nested as module
from outfitter.host.sandbox.nested import nested
from outfitter.host.sandbox.paths import look, match
from outfitter.host.sandbox.refusal import Unenforceable

NAMES = (".git/hooks", ".git/config")


def protected(root: Path, *names: str, more: tuple[Rule, ...] = ()) -> dict[str, tuple[bool, bool]]:
    """By the path from the root: whether it is there, and whether it is a folder."""
    rules = (Rule("/", READ), Rule(str(root), WRITE), *more)
    confinement = keeping(Confinement(True, False, rules), names)
    matched = match(confinement)
    found = look(confinement, matched)
    assert found == look(confinement)  # whoever walks the tree
    assert found.refusal is None, found.refusal
    writable = next(one for one in found.writable if one.target == str(root))
    usual = {str(root / name) for name in (".git", ".agents", ".codex", ".aws")}
    rest = [one for one in writable.protected if one.path not in usual]
    return {os.path.relpath(one.path, root): (one.exists, one.is_dir) for one in rest}


def test_repositories_three_folders_deep_are_found(tmp_path: Path) -> None:
    for folder in ("", "a", "a/b", "a/b/c", "a/b/c/d"):
        (tmp_path / folder / ".git").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    assert nested(str(tmp_path), NAMES) == tuple(
        sorted(f"{tmp_path}/{folder}/{name}" for folder in ("a", "a/b", "a/b/c") for name in NAMES)
    )


def test_folder_that_goes_meanwhile_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "b/.git").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    looks: list[None] = []

    def needed() -> bool:
        looks.append(None)
        if len(looks) == 2:  # the first was at the root
            (tmp_path / "a").rmdir()
        return True

    assert nested(str(tmp_path), (".git/hooks",), needed) == (f"{tmp_path}/b/.git/hooks",)
    assert len(looks) >= 3


def test_a_temporary_directory_of_everybody_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/.git").mkdir(parents=True)
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert nested(str(tmp_path), NAMES) == ()
    tmp_path.chmod(0o777)
    assert nested(str(tmp_path), NAMES) != ()


def test_the_temporary_directories_of_the_system_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/.git").mkdir(parents=True)
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(module, "_TEMPORARY", (str(tmp_path),))
    assert nested(str(tmp_path), NAMES) == ()


def test_what_the_kernel_makes_up_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process that has ended some folders cannot be listed, whoever asks."""
    for folder in ("proc", "home"):
        (tmp_path / folder / "a/.git").mkdir(parents=True)
    monkeypatch.setattr(module, "_KERNELS", (f"{tmp_path}/proc",))
    assert nested(str(tmp_path), NAMES) == tuple(sorted(f"{tmp_path}/home/a/{name}" for name in NAMES))


def test_a_command_cannot_make_its_workspace_one_of_everybody(tmp_path: Path) -> None:
    """The owner of a folder can set the sticky bit, a command in a sandbox included."""
    (tmp_path / "a/.git").mkdir(parents=True)
    before = nested(str(tmp_path), NAMES)
    tmp_path.chmod(0o1777)
    assert nested(str(tmp_path), NAMES) == before != ()


def test_a_tree_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.setattr(module, "MAX_NAMES", 1)
    with pytest.raises(Unenforceable, match="more than 1 names in the first 4 levels"):
        nested(str(tmp_path), NAMES)


def test_a_walk_that_nobody_needs_ends(tmp_path: Path) -> None:
    (tmp_path / "a/.git").mkdir(parents=True)
    assert nested(str(tmp_path), NAMES, lambda: False) == ()


def test_what_is_missing_needs_an_empty_file_where_it_would_begin(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".bashrc").write_text("x")
    (tmp_path / "sub/.git/hooks").mkdir(parents=True)
    found = protected(
        tmp_path, ".vscode", ".bashrc", ".idea", ".claude/agents", "**/.git/hooks", "**/.git/config"
    )
    assert found == {
        ".vscode": (True, True),
        ".bashrc": (True, False),
        ".idea": (False, False),
        ".claude": (False, False),
        "sub/.git/hooks": (True, True),
        "sub/.git/config": (False, False),
    }


def test_a_name_for_the_folders_below_is_protected_at_the_top_too(tmp_path: Path) -> None:
    for folder in (".vscode", "sub/.vscode", ".git/hooks"):
        (tmp_path / folder).mkdir(parents=True)
    assert protected(tmp_path, "**/.vscode", "**/.idea", "**/.git/hooks") == {
        ".vscode": (True, True),
        ".idea": (False, False),
        "sub/.vscode": (True, True),
    }
    git = (Rule(f"{tmp_path}/.git", WRITE),)
    assert ".git/hooks" not in protected(tmp_path, "**/.git/hooks", more=git)


def test_a_file_in_the_place_of_a_folder_is_protected(tmp_path: Path) -> None:
    """A submodule and a worktree have a file `.git`."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.git").write_text("gitdir: ../.git/modules/sub")
    (tmp_path / ".claude").write_text("x")
    found = protected(tmp_path, ".claude/agents", ".claude/commands", "**/.git/hooks", "**/.git/config")
    assert found == {".claude": (True, False), "sub/.git": (True, False)}


def test_what_a_rule_allows_to_be_written_is_not_protected(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / "sub/.git/hooks").mkdir(parents=True)
    more = (Rule(f"{tmp_path}/.vscode", WRITE), Rule(f"{tmp_path}/sub/.git/hooks", WRITE))
    assert protected(tmp_path, ".vscode", "**/.git/hooks", more=more) == {}
