"""Whether anything is left below a process, told by its children alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from outfitter.host import orphans
from outfitter.host.orphans import Orphans
from tests.support.handloop import HandLoop

# In a process of its own, as it adopts orphans from then on.
LOOK = """
import os, subprocess, threading
from outfitter.host.orphans import Orphans
from tests.support.handloop import HandLoop

here = Orphans(HandLoop(), lambda pid: False, set())
print(here.adopting, here.none_left(0))
guard = subprocess.Popen(["sleep", "1000"])
print(here.none_left(0), here.none_left(guard.pid))
started = []
thread = threading.Thread(target=lambda: started.append(subprocess.Popen(["sleep", "1000"])))
thread.start()
thread.join()
print(here.none_left(guard.pid))
started[0].kill()
print(os.waitid(os.P_PID, started[0].pid, os.WEXITED | os.WNOWAIT).si_pid == started[0].pid)
print(here.none_left(guard.pid))  # it has ended, and nobody has waited for it
started[0].wait()
print(here.none_left(guard.pid))
left = int(subprocess.run(["sh", "-c", "sleep 1000 >/dev/null & echo $!"], stdout=subprocess.PIPE).stdout)
print(here.none_left(guard.pid))  # its parent has ended: it is ours
os.kill(left, 9)
os.waitpid(left, 0)
print(here.none_left(guard.pid))
guard.kill()
guard.wait()
"""


def test_who_is_left_alone_is_a_child() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=60)
    told = ["True True", "False True", "False", "True", "False", "True", "False", "True"]
    assert (done.stdout.splitlines(), done.stderr) == (told, "")


def test_a_kernel_that_does_not_tell_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "adopt_orphans", lambda: True)
    monkeypatch.setattr(orphans, "children", lambda: None)
    assert not Orphans(HandLoop(), lambda pid: False, set()).none_left(0)


def test_who_adopts_nobody_does_not_know_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "adopt_orphans", lambda: False)
    monkeypatch.setattr(orphans, "children", set)
    assert not Orphans(HandLoop(), lambda pid: False, set()).none_left(0)
