"""outfitter up, as the tutorial has it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.machine import PROC, SECOND, wait_until
from tests.support.servers import end, environment


def run(home: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "outfitter", *words]
    return subprocess.run(command, env=environment(home), capture_output=True, timeout=60 * SECOND, cwd=home)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "outfitter", "up"]
    with (tmp_path / "stderr").open("wb") as stderr:
        up = subprocess.Popen(
            command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=stderr, cwd=tmp_path
        )
    try:
        assert up.stdout is not None
        said = ""
        while "Ready." not in said:
            line = up.stdout.readline().decode()
            assert line, said + (tmp_path / "stderr").read_text()
            said += line
        assert f"    {os.uname().nodename}\n" in said
        [where] = set(re.findall(r"--on (\S+)", said))
        done = run(tmp_path, "run", "--on", where, "--", "sh", "-c", "echo hello; exit 3")
        assert (done.returncode, done.stdout) == (3, b"hello\n"), done.stderr
        listed = run(tmp_path, "rendezvous", "list").stdout.decode().splitlines()
        assert [line.split()[:2] for line in listed] == [
            ["ENVIRONMENT", "MAY"],
            ["here", "execute"],
            ["here", "use"],
        ]
        assert all(line.endswith("online") for line in listed[1:])
        children = Path(f"{PROC}/{up.pid}/task/{up.pid}/children").read_text().split()
        assert len(children) == 2
        user = listed[2].split()[-2]
        assert run(tmp_path, "rendezvous", "revoke", user).returncode == 0
        refused = run(tmp_path, "run", "--on", where, "--", "true")
        assert refused.returncode == 125 and b"401" in refused.stderr
        up.send_signal(signal.SIGINT)
        assert up.wait(20 * SECOND) == 0
        for child in children:
            wait_until(lambda pid=int(child): is_gone(pid), "a part of it is left")
    finally:
        end(up)
