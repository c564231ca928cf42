"""Who descends from whom, from what `ps` says: recorded as macOS's manual page has it, not from a Mac."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.core.marks import Marks
from outfitter.host.portable import descendants
from outfitter.host.portable.descendants import _below, leads, read, spread, table
from outfitter.host.portable.exits import waitpid, watch_exit
from tests.support.machine import wait_until

MARK = Marks(7).new(3)
SAID = f"""\
  1     0     1 Ss   /sbin/launchd
 70     1    70 S    sh -c work HOME=/Users/ada OUTFITTER_MARK={MARK} TERM=dumb
 71    70    70 S    /bin/zsh
 72    71    72 S+   sleep 9
 73     1    70 Z    (sh)
 74     1    74 S    sh -c two
lines OUTFITTER_MARK={MARK}
 75     1    75 S    echo OUTFITTER_MARK=12 OUTFITTER_MARK=x
""".encode()


def test_rows_are_read_and_odd_lines_passed_over() -> None:
    rows = read(SAID)
    assert [(row.pid, row.parent, row.group, row.dead) for row in rows] == [
        (1, 0, 1, False),
        (70, 1, 70, False),
        (71, 70, 70, False),
        (72, 71, 72, False),
        (73, 1, 70, True),
        (74, 1, 74, False),
        (75, 1, 75, False),
    ]
    assert {row.pid: row.mark for row in rows if row.mark} == {70: MARK}


def test_who_hides_its_environment_has_the_mark_of_its_parents_or_of_its_group() -> None:
    assert {pid for pid, mark in spread(read(SAID), {}).items() if mark == MARK} == {70, 71, 72}
    assert {pid for pid, mark in spread(read(SAID), {70: MARK, 74: MARK}).items() if mark == MARK} == {
        *(70, 71, 72, 73),
        74,
    }


def test_a_circle_of_parents_is_no_endless_loop() -> None:
    assert spread(read(b"8 9 8 S x\n9 8 9 S y\n"), {}) == {8: 0, 9: 0}


def test_all_below_a_process_are_found() -> None:
    assert _below(70, read(SAID)) == {71, 72}


@pytest.fixture
def ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `ps` that does what its test says, on a system that was not asked yet."""
    monkeypatch.setattr(descendants, "_PS", (str(tmp_path / "ps"),))
    monkeypatch.setattr(descendants, "_way", 0)
    monkeypatch.setattr(descendants, "_understood", False)
    return tmp_path / "ps"


def says(ps: Path, script: str) -> None:
    ps.write_text(f"#!/bin/sh\n{script}\n")
    ps.chmod(0o755)


WITH_ENVIRONMENT = (
    f'case "$*" in *-E*) echo "7 1 7 S sleep 9 OUTFITTER_MARK={MARK}" ;; *) echo 7 1 7 S ;; esac'
)


@pytest.mark.parametrize("once", ["kill -9 $$", "kill -15 $$"])
def test_a_look_that_was_ended_is_no_reason_to_look_for_less(ps: Path, once: str) -> None:
    says(ps, once)
    with pytest.raises(OSError, match="has failed"):
        table()
    says(ps, WITH_ENVIRONMENT)
    assert [row.mark for row in table()] == [MARK]
    says(ps, "exit 1")  # which would mean that it does not know -E, had it not answered before
    with pytest.raises(OSError, match="status 1"):
        table()
    says(ps, WITH_ENVIRONMENT)
    assert [row.mark for row in table()] == [MARK]


def test_ps_that_shows_no_environment_is_asked_for_the_rest(ps: Path) -> None:
    says(ps, 'case "$*" in *-E*) exit 1 ;; esac; echo 7 1 7 S')
    assert [(row.pid, row.mark) for row in table()] == [(7, 0)]


def test_a_signal_for_our_group_does_not_end_a_look(ps: Path) -> None:
    """Ctrl-C, or SIGTERM for a server and whatever is in its group."""
    says(ps, f"exec {sys.executable} -c 'import os; print(7, 1, os.getpgrp(), \"S\")'")
    assert [row.group for row in table()] != [os.getpgrp()]


def leader(script: str) -> subprocess.Popen[bytes]:
    """Runs the script in a group of its own, which it ends with its input."""
    started = subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    started.returncode = 0  # we wait for it
    leads(started.pid, MARK)
    return started


def test_number_of_a_group_that_has_ended_may_be_a_strangers() -> None:
    one, other = leader("read line"), leader("read line")
    assert one.stdin is not None and other.stdin is not None
    ending = watch_exit(one.pid)
    assert {one.pid, other.pid} <= set(descendants._leaders)
    one.stdin.close()
    assert os.read(ending, 1) == b""
    os.close(ending)
    waitpid(one.pid, 0)
    other.stdin.close()
    waitpid(other.pid, 0)  # which nobody watched
    assert not {one.pid, other.pid} & set(descendants._leaders)


def test_group_counts_as_long_as_somebody_is_in_it() -> None:
    started = leader("exec 3<&0; (read line <&3) & exit")
    assert started.stdin is not None
    os.close(watch_exit(started.pid))
    waitpid(started.pid, 0)
    assert descendants._leaders[started.pid] == MARK
    started.stdin.close()
    wait_until(lambda: started.pid not in descendants._leaders, "its group is forgotten")
    assert started.pid not in descendants._left
