"""Files that are files, and folders for one user alone, whatever the umask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.openers import plain_file, private_folder
from tests.support.machine import terminal

# Each makes something in the state of a user who had none.
FIRST = {
    "trust": "from outfitter.contract.trust import TrustStore as T; T(state).grant('project', '/w', 'x')",
    "key": "from outfitter.host.installkey import load; load(state)",
    "sandboxes": "from outfitter.host.sandbox.sandboxes import empty_files; empty_files(f'{state}/sandbox')",
    "placeholders": (
        "from outfitter.host.sandbox.placeholders import Placeholders as P; "
        "P(f'{state}/sandbox/placeholders').take([(f'{work}/.git', True)])"
    ),
}


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST)
@pytest.mark.parametrize("umask", [0, 0o002])
def test_nobody_else_can_write_what_is_kept(tmp_path: Path, first: str, umask: int) -> None:
    work = tmp_path / "work"
    work.mkdir(mode=0o700)
    state = tmp_path / ".local" / "state" / "outfitter"
    code = f"state, work = {str(state)!r}, {str(work)!r}; {first}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, umask=umask)
    kept = [tmp_path / ".local", *(tmp_path / ".local").rglob("*")]
    assert state in kept
    assert [str(path) for path in kept if path.stat().st_mode & 0o022] == []


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    private_folder(str(tmp_path / "a" / "b"))
    private_folder(str(tmp_path / "a" / "b"))
    modes = [oct(path.stat().st_mode & 0o777) for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")]
    assert modes == ["0o755", "0o700", "0o700"]


def test_a_file_in_its_place_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError):
        private_folder(str(tmp_path / "a"))
    with pytest.raises(NotADirectoryError):
        private_folder(str(tmp_path / "a" / "b"))


def test_nobody_waits_for_a_terminal_in_the_place_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    with terminal() as name:
        path.symlink_to(name)
        with pytest.raises(OSError, match="It is a device, not a file"):
            plain_file(str(path), os.O_RDONLY)
    path.unlink()
    path.symlink_to("/dev/null")
    with open(path, opener=plain_file) as file:
        assert file.read() == ""
