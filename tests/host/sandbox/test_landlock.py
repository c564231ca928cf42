"""What can be said by Landlock, and what cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.core.permissions import Confinement
from outfitter.host.sandbox import landlock
from outfitter.host.sandbox.landlock import allowed, obstacle
from outfitter.host.sandbox.landlocked import EVERYTHING, lack, version
from outfitter.host.sandbox.paths import Found, Hidden, Protected, Writable

READS, LISTS = 1 | 4 | 8, 8  # execute, read a file, list a folder
WHOLE = Found(("/",))
CONFINED = Confinement(True, False)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (0, "Landlock 6 is needed (Linux 6.12), and this kernel has none, or it is not switched on (lsm=)"),
        (5, "Landlock 6 is needed (Linux 6.12), and this kernel has version 5"),
        (6, ""),
        (7, ""),
    ],
)
def test_which_kernels_have_enough_of_it(version: int, said: str) -> None:
    assert lack(version) == said


@pytest.mark.parametrize(
    ("confinement", "found", "proxied", "said"),
    [
        (CONFINED, WHOLE, False, ""),
        (CONFINED, Found(("/usr", "/bin")), False, ""),
        (CONFINED, Found(("/",), (Writable("/f", "/f", True), Writable("/d", "/d"))), False, ""),
        (CONFINED, WHOLE, True, "it keeps a command only from all of the network"),
        (Confinement(True, True), WHOLE, False, "it keeps a command only from all of the network"),
        (Confinement(False, False), WHOLE, False, "the files of this command are not confined"),
        (CONFINED, Found(("/",), (), (Hidden("/secret", False),)), False, "it cannot hide /secret"),
        (
            CONFINED,
            Found(("/",), (Writable("/w", "/w", False, (Protected("/w/.git", False, True),)),)),
            False,
            "it cannot keep /w/.git read-only below /w, which may be written",
        ),
    ],
)
def test_what_it_can_enforce(confinement: Confinement, found: Found, proxied: bool, said: str) -> None:
    assert obstacle(confinement, found, proxied=proxied) == said


def test_all_is_allowed_around_what_is_not_to_be_seen(tmp_path: Path) -> None:
    for name in ("a/b/secret/key", "a/b/other", "a/file", "z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("z")  # needs no word: what it leads to has one
    rules = allowed(Found((str(tmp_path),)), {f"{tmp_path}/a/b/secret", "/elsewhere"})
    here = {
        path.removeprefix(str(tmp_path)): access for path, access in rules if not path.startswith("/dev/")
    }
    assert here == {"": LISTS, "/a": LISTS, "/a/b": LISTS, "/a/b/other": READS, "/a/file": READS, "/z": READS}


def test_of_devices_only_harmless_ones_are_allowed() -> None:
    rules = dict(allowed(WHOLE, ()))
    assert "/" in rules and rules["/"] == LISTS and "/usr" in rules and "/dev" not in rules
    devices = {path for path in rules if path.startswith("/dev/")}
    assert devices == {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}


def test_what_is_hidden_as_a_whole_is_not_allowed_at_all(tmp_path: Path) -> None:
    paths = {path for path, _ in allowed(Found((f"{tmp_path}/state",)), {str(tmp_path)})}
    assert not [path for path in paths if path.startswith(str(tmp_path))]


def test_a_writable_place_may_be_all_written(tmp_path: Path) -> None:
    found = Found((), (Writable(str(tmp_path), str(tmp_path)),))
    assert (str(tmp_path), EVERYTHING) in allowed(found, ())
    for unseen in (f"{tmp_path}/state", str(tmp_path), str(tmp_path.parent)):
        with pytest.raises(ValueError, match="cannot hide devices or files of the server at"):
            allowed(found, {unseen})
    with pytest.raises(ValueError, match="at /dev/sda, which may be written"):
        allowed(Found((), (Writable("/dev/sda", "/dev/sda", True),)), ())


def test_there_are_not_too_many_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (tmp_path / str(number)).touch()
    monkeypatch.setattr(landlock, "MAX_RULES", 3)
    with pytest.raises(ValueError, match="more than 3 names beside"):
        allowed(Found((str(tmp_path),)), {f"{tmp_path}/0"})


# Confines itself to some folders, and tries to write into each.
CONFINED_TO = """
import os, sys
from outfitter.host.sandbox import landlocked
landlocked._libc.prctl(landlocked._NO_NEW_PRIVS, 1, 0, 0, 0)
landlocked._restrict([(path, landlocked.EVERYTHING) for path in sys.argv[1:]])
for path in sys.argv[1:]:
    try:
        os.mkdir(f"{path}/made")
        print("made")
    except PermissionError:
        print("refused")
"""


@pytest.mark.skipif(bool(lack(version())), reason="needs Landlock")
def test_a_folder_that_is_replaced_while_a_command_starts_is_not_allowed(tmp_path: Path) -> None:
    for name in ("outer", "outside"):
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / "turned").symlink_to("outside")  # a folder, when somebody looked
    places = [str(tmp_path / name / "inner") for name in ("outer", "turned")]
    ran = subprocess.run(
        [sys.executable, "-c", CONFINED_TO, *places], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.split() == ["made", "refused"], ran.stderr
