"""scripts/setup, which `make setup` runs: it says how far it is, and what went wrong."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# A Python and its pip, in a shell's words. The second installation waits in its middle for whoever opens
# `go`, and then ends with this status.
PYTHON = """#!/bin/sh
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    *--editable*)
        echo "Obtaining file:///somewhere"
        echo "Collecting click>=8.1"
        cat "{go}"
        echo "Collecting h11>=0.14 (from outfitter)"
        echo "ERROR: no space left" >&2
        exit {status} ;;
    *"pip install"*) echo "Collecting pip>=25.1" ;;
esac
"""


class Setup:
    """A run of the script that has come to the middle of its second installation."""

    def __init__(self, folder: Path, status: int) -> None:
        self.ready = folder / "venv" / ".ready"
        self._go = folder / "go"
        os.mkfifo(self._go)
        python = folder / "python"
        python.write_text(PYTHON.format(go=self._go, status=status))
        python.chmod(0o755)
        argv = [str(ROOT / "scripts" / "setup"), str(python), str(folder / "venv")]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip()

    def go_on(self) -> str:
        """Lets it end; returns the rest of what it says."""
        self._go.write_text("")
        return self.process.communicate()[1]


def test_each_package_is_named_while_the_installation_goes_on(tmp_path: Path) -> None:
    setup = Setup(tmp_path, 0)
    assert [setup.line() for _ in range(5)] == [
        f"setup: 1 of 3, the virtual environment {tmp_path}/venv",
        "setup: 2 of 3, pip",
        "setup:     pip>=25.1",
        "setup: 3 of 3, outfitter, and what its tests and checks need (a minute or less)",
        "setup:     click>=8.1",
    ]
    assert not setup.ready.exists()
    assert setup.go_on() == "setup:     h11>=0.14\n"
    assert setup.process.returncode == 0
    assert setup.ready.exists()


def test_everything_is_told_of_an_installation_that_fails(tmp_path: Path) -> None:
    setup = Setup(tmp_path, 3)
    said = setup.go_on()
    assert said.endswith(
        "Obtaining file:///somewhere\nCollecting click>=8.1\nCollecting h11>=0.14 (from outfitter)\n"
        "ERROR: no space left\n"
    )
    assert setup.process.returncode == 1
    assert not setup.ready.exists()


@pytest.mark.parametrize("python", ["false", "/nowhere/python3"])
def test_a_python_that_will_not_do_is_named(python: str, tmp_path: Path) -> None:
    argv = [str(ROOT / "scripts" / "setup"), python, str(tmp_path / "venv")]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Outfitter needs Python 3.11 or newer" in done.stderr
    assert "make setup PYTHON=python3.12" in done.stderr
