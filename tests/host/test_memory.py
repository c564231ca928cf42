"""Memory that was freed in pieces goes back to the kernel, once for all that was freed together."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from outfitter.host.memory import FreedMemory
from tests.support.handloop import HandLoop
from tests.support.machine import SECOND

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")

_CHILD = """
import os
from outfitter.host.memory import FreedMemory, keep_freed_memory
from tests.support.handloop import HandLoop
from tests.support.machine import resident_kib

keep_freed_memory()
loop = HandLoop()
freed = FreedMemory(loop)
pieces = [bytes(60_000) for _ in range(800)]
last = bytes(100_000)  # what lies above them keeps them all
del pieces
before = resident_kib(os.getpid())
freed.later()
loop.advance(60)
print(before - resident_kib(os.getpid()))
"""


def test_freed_memory_goes_back_to_the_kernel() -> None:
    argv = [sys.executable, "-c", _CHILD]
    child = subprocess.run(argv, check=True, capture_output=True, timeout=60 * SECOND)
    assert int(child.stdout) > 30 << 10  # of 47 MiB


def test_sessions_that_end_together_are_one_effort() -> None:
    loop = HandLoop()
    freed = FreedMemory(loop)
    for _ in range(3):
        freed.later()
    assert loop.waiting == 1
    loop.advance(60)
    assert loop.waiting == 0
    freed.later()
    assert loop.waiting == 1
