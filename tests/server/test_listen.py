"""What signals do to a server that listens."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import os, signal
from outfitter.errors import SettingInvalid
from outfitter.loop import EpollLoop
from outfitter.server import listen

loop, done = EpollLoop(), []

def wrong():
    raise SettingInvalid("the first file is wrong")

def broken():
    raise OSError("an error that nobody has expected")

def reload():
    second, last = (lambda: done.append("the second part")), (lambda: done.append("the last part"))
    listen._reload([wrong, second, broken, last])
    loop.stop()

listen.on_signals(loop, {signal.SIGHUP: reload, signal.SIGTERM: lambda: done.append("ended")})
os.kill(os.getpid(), signal.SIGHUP)
loop.run()
print(done, signal.getitimer(signal.ITIMER_REAL))
"""


def test_sighup_reloads_every_part_and_sets_no_end() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "['the second part', 'the last part'] (0.0, 0.0)\n"
    assert done.stderr.startswith(
        "! the first file is wrong; what was in use stays in use\n"
        "! something could not be read again: internal error, OSError\n"
    )


ENDS = """
import os, signal
from outfitter.loop import EpollLoop
from outfitter.server import listen

loop, number = EpollLoop(), {number}
listen.on_signals(loop, {{number: loop.stop}})
os.kill(os.getpid(), number)
loop.run()
print(signal.alarm(0) > 0)
"""


@pytest.mark.parametrize(("number", "last"), [(1, False), (2, True), (10, False), (12, False), (15, True)])
def test_only_signals_that_mean_the_end_set_a_time_for_it(number: int, last: bool) -> None:
    code = ENDS.format(number=number)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{last}\n"


IGNORED = """
import os, signal
from outfitter.loop import EpollLoop
from outfitter.server import listen

signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
loop, done = EpollLoop(), []
listen.on_signals(loop, {signal.SIGHUP: lambda: done.append("hung up"), signal.SIGUSR1: loop.stop})
os.kill(os.getpid(), signal.SIGHUP)
os.kill(os.getpid(), signal.SIGUSR1)
loop.run()
print(done)
"""


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


UNREADY = """
from outfitter.loop import EpollLoop
from outfitter.server import listen

class Server(listen.LazyServer):
    errors = [OSError, ImportError, MemoryError]

    def get(self):
        if self.errors:
            raise self.errors.pop(0)
        loop.stop()

loop, listen._WARM_UP_AGAIN_SECONDS = EpollLoop(), 0.01
Server(loop, None).warm_up()
loop.run()
print("ready")
"""


def test_a_server_that_cannot_be_made_yet_is_made_later() -> None:
    done = subprocess.run([sys.executable, "-c", UNREADY], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("ready\n", "")
