"""Placeholders: made, shared, removed; and those of a server that was killed."""

from __future__ import annotations

import os
import resource
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from outfitter.errors import LaunchFailed
from outfitter.host.sandbox.paths import Found, Hidden, Protected, Writable
from outfitter.host.sandbox.placeholders import REMEDY, Placeholders, needed
from tests.support.machine import descriptors


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def wanted(ws: Path) -> list[tuple[str, bool]]:
    return [(f"{ws}/.git", True), (f"{ws}/.env", False)]


def kill(one: Placeholders) -> None:
    """What is left of a server that was killed: nothing that it had open."""
    for note, _, folder in one.held.values():
        os.close(note)
        os.close(folder)


def test_they_are_made_and_removed(notes: Path, ws: Path) -> None:
    before = descriptors(os.getpid())
    one = Placeholders(str(notes))
    taken = one.take(wanted(ws))
    assert (ws / ".git").is_dir() and (ws / ".env").is_file()
    one.give_back(taken)
    assert (os.listdir(ws), os.listdir(notes), one.held) == ([], [], {})
    assert descriptors(os.getpid()) == before


def test_the_last_who_needs_them_removes_them(notes: Path, ws: Path) -> None:
    one, other = Placeholders(str(notes)), Placeholders(str(notes))
    first, second, third = one.take(wanted(ws)), one.take(wanted(ws)), other.take(wanted(ws))
    one.give_back(first)
    one.give_back(second)
    assert sorted(os.listdir(ws)) == [".env", ".git"]
    other.give_back(third)
    assert os.listdir(ws) == []


def test_those_of_a_killed_server_go_with_the_next(notes: Path, ws: Path) -> None:
    one, other = Placeholders(str(notes)), Placeholders(str(notes))
    one.take(wanted(ws))
    second = other.take(wanted(ws)[:1])
    other.tidy()
    assert sorted(os.listdir(ws)) == [".env", ".git"]  # both live
    kill(one)
    other.tidy()
    assert sorted(os.listdir(ws)) == [".env", ".git"]  # one is needed still, and they go together
    other.give_back(second)
    assert (os.listdir(ws), os.listdir(notes)) == ([], [])


def test_what_is_somebody_elses_stays(notes: Path, ws: Path) -> None:
    (ws / ".git").mkdir()
    one = Placeholders(str(notes))
    taken = one.take(wanted(ws))
    (ws / ".env").write_text("used")
    one.give_back(taken)
    assert sorted(os.listdir(ws)) == [".env", ".git"]


def test_a_folder_that_was_filled_stays(notes: Path, ws: Path) -> None:
    one = Placeholders(str(notes))
    taken = one.take(wanted(ws))
    (ws / ".git" / "HEAD").touch()
    one.give_back(taken)
    assert os.listdir(ws) == [".git"]


def test_one_that_cannot_be_made_undoes_the_others(notes: Path, ws: Path) -> None:
    before = descriptors(os.getpid())
    one = Placeholders(str(notes))
    with pytest.raises(LaunchFailed, match=r"No such file or directory \(os error 2\)"):
        one.take([*wanted(ws), (f"{ws}/no/.git", True)])
    assert (os.listdir(ws), one.held, descriptors(os.getpid())) == ([], {}, before)


def test_what_a_server_with_notes_of_its_own_needs_stays(tmp_path: Path, ws: Path) -> None:
    one, other = Placeholders(str(tmp_path / "one")), Placeholders(str(tmp_path / "other"))
    first, second = one.take(wanted(ws)), other.take(wanted(ws))
    one.give_back(first)
    assert sorted(os.listdir(ws)) == [".env", ".git"]
    other.give_back(second)
    one.give_back(one.take([(f"{tmp_path}/.codex", True)]))  # the next time that it has something to remove
    assert os.listdir(ws) == []


def test_a_folder_that_another_program_has_locked(notes: Path, ws: Path) -> None:
    before = descriptors(os.getpid())
    fd = os.open(ws, os.O_RDONLY)
    flock(fd, LOCK_EX)
    with pytest.raises(LaunchFailed, match="busy") as caught:
        Placeholders(str(notes)).take(wanted(ws))
    assert caught.value.what == (
        f"another program has locked {ws} (flock), where the sandbox protects {ws}/.git: end it"
    )
    os.close(fd)
    assert (os.listdir(ws), descriptors(os.getpid())) == ([], before)


def test_nothing_is_made_that_cannot_be_written_down(notes: Path, ws: Path) -> None:
    one = Placeholders(str(notes))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(LaunchFailed, match="too large") as caught:
            one.take(wanted(ws))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    reason = f"cannot write down that the sandbox protects {ws}/.git: {notes}; {REMEDY}"
    assert (caught.value.what, os.listdir(ws), one.held) == (reason, [], {})


def test_what_this_user_may_not_make_needs_no_placeholder(notes: Path) -> None:
    one = Placeholders(str(notes))
    taken = one.take([("/sys/kernel/.git", True)])
    one.give_back(taken)
    assert not os.path.exists("/sys/kernel/.git")


def test_a_broken_note_is_left_alone(notes: Path, ws: Path) -> None:
    notes.mkdir()
    (notes / "broken").write_bytes(b"no numbers here\0")
    Placeholders(str(notes)).tidy()
    assert os.listdir(notes) == ["broken"]


def test_paths_with_odd_names(notes: Path, ws: Path) -> None:
    odd = os.fsdecode(os.fsencode(ws) + b"/a b\n\xff")
    os.mkdir(odd)
    one = Placeholders(str(notes))
    taken = one.take([(f"{odd}/.git", True)])
    assert os.listdir(odd) == [".git"]
    one.give_back(taken)
    assert os.listdir(odd) == []


def test_what_is_needed(ws: Path) -> None:
    (ws / "empty").mkdir()
    (ws / "full" / "inner").mkdir(parents=True)
    (ws / "file").write_text("")
    (ws / "words").write_text("x")
    names = {"empty": True, "full": True, "file": False, "words": False}
    protected = [Protected(f"{ws}/{name}", True, is_dir) for name, is_dir in names.items()]
    missing = Protected(f"{ws}/missing", False, True)
    hidden = (Hidden(f"{ws}/one", False, exists=False), Hidden(f"{ws}/two", False))
    found = Found(("/",), (Writable(str(ws), str(ws), protected=(*protected, missing)),), hidden)
    assert needed(found) == [
        (f"{ws}/empty", True),
        (f"{ws}/file", False),
        (f"{ws}/missing", True),
        (f"{ws}/one", False),
    ]
