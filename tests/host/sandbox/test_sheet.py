"""What bubblewrap is told while it starts: it waits for all of it, and runs nothing without."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from outfitter.host.pipes import let_go
from outfitter.host.sandbox import seccomp
from outfitter.host.sandbox.bubblewrap import Finder, fill
from outfitter.host.sandbox.sheet import Sheet
from tests.support.machine import wait_until
from tests.support.sandbox import need_sandbox

WORDS = b"--ro-bind\0/\0/\0--setenv\0HEARD\0all\0"


@pytest.fixture(scope="module")
def program() -> str:
    need_sandbox()
    return Finder().find().path


def started(program: str, sheet: Sheet) -> subprocess.Popen[bytes]:
    """Bubblewrap with a command that says what it has heard."""
    numbers = [word if word.startswith("-") else str(sheet.theirs[int(word)]) for word in sheet.words(0)]
    argv = [program, *numbers, "--", "/bin/sh", "-c", 'echo "ran $HEARD"']
    return subprocess.Popen(
        argv, pass_fds=sheet.theirs, env={}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def waits(pid: int) -> bool:
    name, state = Path(f"/proc/{pid}/stat").read_text().split()[1:3]
    return (name, state) == ("(bwrap)", "S")


def test_it_waits_until_everything_is_written(program: str) -> None:
    sheet = Sheet()
    with started(program, sheet) as bubblewrap:
        wait_until(lambda: waits(bubblewrap.pid), "it waits")
        sheet.write(WORDS, Finder().filter(seccomp.RESTRICTED))
        let_go(*sheet.opened)
        assert (bubblewrap.communicate(), bubblewrap.returncode) == ((b"ran all\n", b""), 0)


@pytest.mark.parametrize("written", [b"", WORDS[:14], WORDS], ids=["nothing", "some", "no-filter"])
def test_nothing_runs_where_its_server_ends_before(program: str, written: bytes) -> None:
    sheet = Sheet()
    with started(program, sheet) as bubblewrap:
        fill(sheet.theirs[1], written)
        let_go(*sheet.opened)
        said, why = bubblewrap.communicate()
        assert said == b"" and bubblewrap.returncode != 0
        assert b"PR_SET_SECCOMP" in why or not written


def test_a_sheet_that_cannot_be_made_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")

    def fails(*_: object) -> int:
        raise OSError("no memory")

    monkeypatch.setattr(os, "memfd_create", fails)
    with pytest.raises(OSError, match="no memory"):
        Sheet()
    assert os.listdir("/proc/self/fd") == before
