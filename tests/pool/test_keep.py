"""A keeper's questions, and when it ends without one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from outfitter.pool.keep import lines, listening


def test_questions_come_in_lines_until_the_end_of_the_input() -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"a": 1}\n{"b"')
    asked = lines(reading, lambda: False)
    assert next(asked) == b'{"a": 1}'
    os.write(writing, b": 2}\n")
    assert next(asked) == b'{"b": 2}'
    os.close(writing)
    assert list(asked) == []
    os.close(reading)


def test_who_has_no_server_and_is_not_asked_ends() -> None:
    reading, writing = os.pipe()
    looked: list[int] = []

    def alone() -> bool:
        looked.append(1)
        return len(looked) != 2  # it had one meanwhile

    assert list(lines(reading, alone, 0.01)) == []
    assert len(looked) == 1
    for fd in (reading, writing):
        os.close(fd)


def test_a_pod_listens_at_its_own_address_and_with_tls() -> None:
    assert listening({"OUTFITTER_POD_ADDRESS": "10.1.2.3"}) == "wss://10.1.2.3:0"
    assert listening({"OUTFITTER_POD_ADDRESS": "fd00::3"}) == "wss://[fd00::3]:0"
    assert listening({"SLURM_SRUN_COMM_HOST": "127.0.0.1"}) == "ws://127.0.0.1:0"


def test_a_keeper_that_is_told_to_end_ends_in_order(own_root: Path) -> None:
    words = [sys.executable, "-m", "outfitter", "keep-slot", "pool", "n1", "unix:", "0"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        assert b"outfitter" in keeper.stdout.readline()
        keeper.send_signal(signal.SIGTERM)
        assert keeper.wait(60) == 1
