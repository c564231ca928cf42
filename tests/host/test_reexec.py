"""A process that replaces its program: the same number and descriptors, memory that nobody can change."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.host import reexec


def test_memory_holds_what_it_was_given_however_many_pieces() -> None:
    pieces = [b"", b"first ", memoryview(b"second "), *(b"%d," % number for number in range(3000))]
    fd = reexec.sealed(pieces)
    try:
        assert bytes(reexec.contents(fd)) == b"".join(bytes(piece) for piece in pieces)
    finally:
        os.close(fd)


def test_memory_cannot_be_changed() -> None:
    fd = reexec.sealed([b"a secret"])
    try:
        for change in (lambda: os.pwrite(fd, b"x", 0), lambda: os.ftruncate(fd, 1)):
            with pytest.raises(PermissionError):
                change()
        with pytest.raises(PermissionError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


def test_memory_that_anybody_could_change_is_refused() -> None:
    fd = os.memfd_create("open", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(fd, b"something")
        with pytest.raises(ValueError, match="not sealed"):
            reexec.contents(fd)
    finally:
        os.close(fd)
    with open(__file__, "rb") as file, pytest.raises(OSError, match="Invalid argument"):
        reexec.contents(file.fileno())


# Replaces itself by another program, which tells what it has.
NEXT = """
import os, signal, sys
print(os.getpid(), os.environb[b"VALUE"], os.pread(int(sys.argv[1]), 99, 0), *map(int, signal.sigpending()))
print(*sorted(fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{fd}")))
signal.signal(signal.SIGTERM, lambda *_: print("and now the signal"))
from outfitter.host import reexec
reexec.take_signals()
"""
REPLACE = """
import os, signal, sys
from outfitter.host import reexec
kept, left = os.pipe2(os.O_CLOEXEC)
memory = reexec.sealed([b"from the old program"])
print(os.getpid(), kept, memory, flush=True)
reexec.hold_signals()
os.kill(os.getpid(), signal.SIGTERM)  # waits for the next program
reexec.replace([sys.executable, "-c", sys.argv[1], str(memory)], {"VALUE": "\\udcff"}, [kept, memory])
"""


def test_next_program_has_number_descriptors_environment_and_signals() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REPLACE, NEXT], stdout=subprocess.PIPE, text=True, check=True
    )
    before, after, fds, last = done.stdout.splitlines()
    number, kept, memory = before.split()
    assert after == " ".join((number, repr(b"\xff"), repr(b"from the old program"), str(int(signal.SIGTERM))))
    assert fds.split() == ["0", "1", "2", *sorted((kept, memory))]
    assert last == "and now the signal"


FAIL = """
import os, sys
from outfitter.host import reexec
kept, _ = os.pipe2(os.O_CLOEXEC)
try:
    reexec.replace([sys.argv[1]], {}, [kept])
except OSError as error:
    print(error.strerror, os.get_inheritable(kept))
"""


@pytest.mark.parametrize(
    ("mode", "reason"), [(None, "No such file or directory"), (0o644, "Permission denied")]
)
def test_program_that_cannot_be_executed_leaves_all_as_it_was(
    mode: int | None, reason: str, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    if mode is not None:
        program.touch(mode)
    done = subprocess.run([sys.executable, "-c", FAIL, program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{reason} False\n"


COMMAND = "import sys; from outfitter.host.reexec import own_command; print(*own_command(), sep='\\n')\n"


def test_own_command_is_the_interpreter_with_the_same_words(tmp_path: Path) -> None:
    words = ["-X", "utf8", "-c", COMMAND.strip(), "serve", "a word"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    assert done.stdout == "\n".join([sys.executable, *words]) + "\n"


def test_own_command_is_the_script_if_it_names_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "outfitter"
    script.write_text(f"#!{sys.executable}\n{COMMAND}")
    script.chmod(0o755)
    run = {"capture_output": True, "text": True, "check": True, "cwd": tmp_path}
    assert subprocess.run(["./outfitter", "serve"], **run).stdout == f"{script}\nserve\n"  # type: ignore[call-overload]
    script.chmod(0o644)
    python = subprocess.run([sys.executable, "outfitter", "serve"], **run)  # type: ignore[call-overload]
    assert python.stdout == f"{sys.executable}\noutfitter\nserve\n"
