"""An environment is the user's own if the user, and no repository, has made it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outfitter.host import uids
from outfitter.providers.files import planted
from outfitter.providers.owned import is_own

from .test_gitindex import git

PARTS = ("bin", "bin/python", "pyvenv.cfg")
STRANGER = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").symlink_to("/bin/sh")
    (project / ".venv/pyvenv.cfg").write_text("home = /bin\n")
    git(project, "init", "-q")
    return project / ".venv"


def own(folder: Path) -> bool:
    return is_own(str(folder), *PARTS)


def test_what_the_user_made_is_the_users(venv: Path) -> None:
    assert own(venv)
    (venv.parent / "file").write_text("")
    git(venv.parent, "add", "file")
    assert own(venv)


@pytest.mark.parametrize("part", ["pyvenv.cfg", "bin/python", "bin/git"])
def test_one_tracked_file_makes_it_the_repositorys(venv: Path, part: str) -> None:
    path = venv / part
    if not path.is_symlink() and not path.exists():
        path.write_text("#!/bin/sh\n")
    git(venv.parent, "add", "--force", f".venv/{part}")
    assert not own(venv)


def test_a_link_to_what_is_tracked_is_the_repositorys(venv: Path) -> None:
    git(venv.parent, "add", "--force", ".venv/pyvenv.cfg")
    link = venv.parent / "link"
    link.symlink_to(".venv")
    assert not own(link)


def test_a_tracked_link_is_the_repositorys_wherever_it_leads(venv: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    venv.rename(elsewhere)
    venv.symlink_to(elsewhere)
    assert own(venv)
    git(venv.parent, "add", ".venv")
    assert not own(venv)


def test_programs_that_are_linked_from_the_repository_are_the_repositorys(venv: Path) -> None:
    (venv / "bin").rename(venv.parent / "programs")
    (venv / "bin").symlink_to("../programs")
    assert own(venv)
    git(venv.parent, "add", "programs")
    assert not own(venv)


def test_what_is_not_there_is_nobodys(venv: Path) -> None:
    (venv / "pyvenv.cfg").unlink()
    assert not own(venv)


@pytest.mark.parametrize("part", ["", "bin"])
def test_where_anybody_may_put_programs_it_is_not_the_users(venv: Path, part: str) -> None:
    (venv / part).chmod(0o777)
    assert not own(venv)


@as_root
@pytest.mark.parametrize("part", ["", *PARTS])
def test_a_part_of_another_user_makes_it_a_strangers(venv: Path, part: str) -> None:
    os.chown(venv / part, STRANGER, STRANGER, follow_symlinks=False)
    assert not own(venv)


@as_root
def test_a_folder_of_programs_is_a_strangers_where_it_leads_to_one(venv: Path, tmp_path: Path) -> None:
    (venv / "bin").rename(tmp_path / "bin")
    (venv / "bin").symlink_to(tmp_path / "bin")
    assert own(venv)
    os.chown(tmp_path / "bin", STRANGER, STRANGER)
    assert not own(venv)


@as_root
def test_for_another_user_that_users_files_are_ours(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (venv, venv / "bin", venv / "bin/python", venv / "pyvenv.cfg"):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    venv.parent.chmod(0o1777)
    assert not own(venv)
    assert planted(str(venv.parent), str(venv))
    monkeypatch.setattr(uids, "assumed", STRANGER)
    assert own(venv)
    assert not planted(str(venv.parent), str(venv))
    os.chown(venv, 1234, 1234)
    assert not own(venv)
    assert planted(str(venv.parent), str(venv))
