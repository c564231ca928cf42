"""What other processes can see of a server's process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534
# Guards itself as an ordinary user, or as root, and says when it is done. Becoming another user hides a
# process as well, so that is undone first.
PROGRAM = """
import ctypes, os, sys
from outfitter.host.guard import protect
user, guarded = int(sys.argv[1]), sys.argv[2] == "guarded"
os.setresgid(user, user, user)
os.setresuid(user, user, user)
libc = ctypes.CDLL(None)
libc.prctl(4, 1, 0, 0, 0)
if guarded:
    protect()
libc.getenv.restype = ctypes.c_char_p
print(os.environ["THE_SECRET"], libc.getenv(b"THE_SECRET").decode(), flush=True)
sys.stdin.read()
"""


@contextmanager
def process(user: int, kind: str) -> Iterator[subprocess.Popen[bytes]]:
    popen = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(user), kind],
        env={
            "PATH": os.environ["PATH"],
            "THE_SECRET": "of the server",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert popen.stdin is not None and popen.stdout is not None
    with popen:
        assert popen.stdout.readline() == b"of the server of the server\n"  # it has what it needs itself
        yield popen
        popen.stdin.close()


def read(user: int, path: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["/bin/cat", path], user=user, group=user, capture_output=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")
@pytest.mark.parametrize("file", ["environ", "maps", "auxv"])
def test_a_process_of_the_same_user_cannot_look_into_the_server(file: str) -> None:
    with process(NOBODY, "plain") as plain, process(NOBODY, "guarded") as guarded:
        assert read(NOBODY, Path(f"/proc/{plain.pid}/{file}")).returncode == 0
        assert read(NOBODY, Path(f"/proc/{guarded.pid}/{file}")).stderr.endswith(b"Permission denied\n")


def test_the_environment_is_gone_from_where_the_kernel_shows_it() -> None:
    user = os.geteuid()
    with process(user, "plain") as plain, process(user, "guarded") as guarded:
        assert b"of the server" in Path(f"/proc/{plain.pid}/environ").read_bytes()
        if user == 0:
            assert set(Path(f"/proc/{guarded.pid}/environ").read_bytes()) <= {0}
