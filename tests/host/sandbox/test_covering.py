"""Which files look empty inside a sandbox."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from outfitter.host.sandbox import covering
from outfitter.host.sandbox.arguments import Cover
from outfitter.host.sandbox.covering import covers, read_here, startup_covers


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the only programs of this machine are."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setattr(covering, "_PROGRAMS", (str(folder), "/no/folder"))
    return folder


def test_startup_files_of_shells_that_are_not_here(programs: Path) -> None:
    files = ["/etc/profile", "/etc/zsh", "/etc/csh.login", "/h/.config/fish", "/h/.kshrc", "/h/.bashrc"]
    assert read_here(files) == ["/etc/profile", "/h/.bashrc"]


def test_a_shell_that_comes_is_seen_at_once(programs: Path) -> None:
    assert read_here(["/etc/zsh"]) == []
    (programs / "zsh").touch()
    os.utime(programs, ns=(1, 1))  # another time than before, whatever the clock's steps are
    assert read_here(["/etc/zsh", "/etc/fish"]) == ["/etc/zsh"]


@pytest.mark.parametrize(
    ("files", "covered"),
    [
        (["/etc/profile", "/etc/profile.d"], ["/etc/profile"]),
        (["/etc/profile.d"], ["/etc/profile.d"]),
        (["/h/.bashrc", "/h/.bash_aliases"], ["/h/.bashrc"]),
        (["/h/.bashrc", "/g/.bash_aliases"], ["/h/.bashrc", "/g/.bash_aliases"]),
        (["/h/.bash_profile", "/h/.bash_login", "/h/.profile"], ["/h/.bash_profile", "/h/.profile"]),
        (["/h/.bash_login", "/h/.bash_logout"], ["/h/.bash_login"]),
    ],
)
def test_what_is_read_after_or_by_another_needs_no_cover(
    programs: Path, files: list[str], covered: list[str]
) -> None:
    assert read_here(files) == covered


def test_only_what_is_there_keeps_another_out(programs: Path, tmp_path: Path) -> None:
    login, profile, zsh = (str(tmp_path / name) for name in (".bash_login", ".bash_profile", ".zshrc"))
    for path in (login, zsh):
        Path(path).touch()
    asked = [profile, login, zsh, f"{tmp_path}/.bashrc"]
    assert startup_covers(asked) == (Cover(login, False),)
    Path(profile).touch()
    assert startup_covers(asked) == (Cover(profile, False),)


def test_covers_stand_at_the_real_place(tmp_path: Path) -> None:
    file, folder, link = tmp_path / "file", tmp_path / "folder", tmp_path / "link"
    file.touch()
    folder.mkdir()
    link.symlink_to(file)
    loop, missing = tmp_path / "loop", tmp_path / "missing"
    loop.symlink_to(loop)
    paths = [str(path) for path in (folder, link, loop, missing, file / "below")]
    assert covers(paths, secret=True) == (Cover(str(folder), True, True), Cover(str(file), False, True))


def test_what_cannot_be_looked_at_for_another_reason_is_not_left_open(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        covers([str(tmp_path / ("x" * 300))], secret=True)
    assert caught.value.errno == errno.ENAMETOOLONG


@pytest.fixture
def at_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, on a machine whose clock takes no steps."""
    monkeypatch.setattr(covering, "_STEP_NS", -(10**18))
    monkeypatch.setattr(covering, "_known", ((), [], [], [], ()))
    home = tmp_path / "home"
    home.mkdir()
    return home


def asked(home: Path) -> list[str]:
    return [f"{home}/.bashrc", f"{home}/.profile", f"{home}/.config/more"]


def test_files_that_did_not_change_are_not_looked_at_again(programs: Path, at_rest: Path) -> None:
    (at_rest / ".bashrc").touch()
    found = startup_covers(asked(at_rest))
    assert found == (Cover(f"{at_rest}/.bashrc", False),)
    assert startup_covers(asked(at_rest)) is found
    assert startup_covers([f"{at_rest}/.profile"]) == ()  # others are


@pytest.mark.parametrize("name", [".profile", ".config/more"])
def test_a_file_that_comes_is_seen_at_once(programs: Path, at_rest: Path, name: str) -> None:
    (at_rest / ".bashrc").touch()
    before = startup_covers(asked(at_rest))
    os.utime(at_rest, ns=(1, 1))  # changes when it changed, whatever the clock's steps are
    (at_rest / name).parent.mkdir(exist_ok=True)
    (at_rest / name).touch()
    assert startup_covers(asked(at_rest)) == (*before, Cover(f"{at_rest}/{name}", False))


def test_where_a_link_leads_is_looked_at_each_time(programs: Path, at_rest: Path, tmp_path: Path) -> None:
    one = tmp_path / "one"
    (at_rest / ".bashrc").symlink_to(one)
    assert startup_covers(asked(at_rest)) == ()
    one.touch()
    assert startup_covers(asked(at_rest)) == (Cover(str(one), False),)
    one.unlink()
    assert startup_covers(asked(at_rest)) == ()


def test_a_folder_that_has_just_changed_is_looked_at_again(
    programs: Path, at_rest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covering, "_STEP_NS", 10**18)
    assert startup_covers(asked(at_rest)) == ()
    assert covering._known[0] == ()
