"""Which bubblewrap is used, and what is said where none can be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outfitter.errors import SandboxUnavailable
from outfitter.host.sandbox import bubblewrap, seccomp
from outfitter.host.sandbox.bubblewrap import Finder
from tests.support.sandbox import need_sandbox

OPTIONS = "--args --seccomp --info-fd --block-fd --perms --size --remount-ro --clearenv"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the only bubblewrap of this machine would be."""
    monkeypatch.setattr(bubblewrap, "PLACES", ())
    return tmp_path / "bwrap"


def script(place: Path, text: str) -> Path:
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return place


def why(place: Path) -> str:
    with pytest.raises(SandboxUnavailable) as caught:
        Finder(str(place)).find()
    return caught.value.why


def test_one_that_works_is_found_once() -> None:
    need_sandbox()
    finder = Finder()
    found = finder.find()
    assert found.path in bubblewrap.PLACES and finder.find() is found


def test_one_that_is_missing(place: Path) -> None:
    assert why(place) == (
        "bubblewrap is not installed: install bubblewrap 0.7 or newer (Debian, Ubuntu: apt-get install "
        "bubblewrap)"
    )


def test_one_that_is_too_old(place: Path) -> None:
    assert "is too old (--perms, --size" in why(script(place, "echo --args --seccomp --info-fd --block-fd"))


def test_the_next_one_is_tried(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    works = script(tmp_path / "other", f'[ "$1" = --help ] && echo {OPTIONS} && exit; exit 7')
    monkeypatch.setattr(bubblewrap, "PLACES", (str(works),))
    assert Finder(str(script(place, "echo --args"))).find().path == str(works)


@pytest.mark.parametrize(
    ("mode", "said"), [(0o775, "can be written by others: chmod go-w"), (0o757, "can be written by others")]
)
def test_one_that_others_could_replace(place: Path, mode: int, said: str) -> None:
    script(place, "exit 0").chmod(mode)
    assert said in why(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_one_of_another_user(place: Path) -> None:
    os.chown(script(place, "exit 0"), 23456, 23456)
    assert "belongs to another user" in why(place)


def test_a_folder_is_none(place: Path) -> None:
    place.mkdir()
    assert "is not a file" in why(place)


def test_one_that_cannot_make_namespaces(place: Path) -> None:
    said = "bwrap: No permissions to create a new namespace"
    text = why(script(place, f'[ "$1" = --help ] && echo {OPTIONS} && exit; echo "{said}" >&2; exit 1'))
    assert "here (No permissions to create a new namespace): " in text and "--privileged" in text


def test_one_that_fails_for_another_reason(place: Path) -> None:
    text = why(script(place, f'[ "$1" = --help ] && echo {OPTIONS} && exit; echo broken >&2; exit 1'))
    assert text.startswith("bubblewrap cannot make a sandbox here (broken): ")


def test_without_a_view_of_processes_it_is_used_all_the_same(place: Path) -> None:
    # As in a container that may not mount proc: it fails where the words ask for that.
    asks = "grep -qz -x -e --proc /proc/self/fd/3"
    script(place, f'[ "$1" = --help ] && echo {OPTIONS} && exit; {asks} && exit 1; exit 7')
    found = Finder(str(place)).find()
    assert (found.proc, found.argv0, found.bind_fd) == (False, False, False)


def test_another_file_in_its_place_is_tested_again(place: Path) -> None:
    works = f'[ "$1" = --help ] && echo {OPTIONS} --argv0 --bind-fd && exit; exit 7'
    finder = Finder(str(script(place, works)))
    first = finder.find()
    assert (first.proc, first.argv0, first.bind_fd) == (True, True, True)
    script(place, works + "\n# another")
    os.utime(place, ns=(1, 1))
    assert finder.find() is not first
    place.unlink()
    with pytest.raises(SandboxUnavailable, match="not installed"):
        finder.find()


def test_a_failure_is_remembered_for_a_while(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = Finder(str(place))
    with pytest.raises(SandboxUnavailable):
        finder.find()
    script(place, f'[ "$1" = --help ] && echo {OPTIONS} && exit; exit 7')
    with pytest.raises(SandboxUnavailable, match="not installed"):
        finder.find()
    later = bubblewrap.time.monotonic() + 6
    monkeypatch.setattr(bubblewrap.time, "monotonic", lambda: later)
    assert finder.find().path == str(place)


def test_a_machine_without_a_filter_has_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "known", lambda machine: False)
    with pytest.raises(SandboxUnavailable, match="no filter of system calls"):
        Finder().filter(seccomp.RESTRICTED)
