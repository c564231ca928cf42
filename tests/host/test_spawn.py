"""Launch → child: program, arguments, directory, descriptors, signals, session, environment, errors."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from outfitter.core.launch import Launch
from outfitter.errors import LaunchFailed
from outfitter.host.spawn import Stdio
from outfitter.host.unix import Spawner
from tests.support.machine import PROC, own_children, own_descriptors

# What a child can say about itself.
REPORT = """
import json, os
print(json.dumps({
    "cwd": os.getcwd(),
    "fds": sorted(int(fd) for fd in os.listdir("PROC/self/fd"))[:-1],  # the last one is this look
    "leads": os.getpid() == os.getpgrp() == os.getsid(0),
    "stdin": os.readlink("PROC/self/fd/0"),
}))
""".replace("PROC", PROC)


class Child:
    """Runs a Launch to its end on a pipe."""

    def __init__(self, launch: Launch, mark: int | None = None) -> None:
        reading, writing = os.pipe()
        try:
            self.pid = Spawner().spawn(launch, Stdio(stdout=writing, stderr=writing), mark)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            self.output = stream.read()
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def launch(*argv: str, cwd: str = "/", env: dict[str, str] | None = None) -> Launch:
    return Launch(argv[0], argv, cwd, {"PATH": "/usr/bin:/bin"} if env is None else env)


def report(**options: Any) -> Any:
    child = Child(launch(sys.executable, "-I", "-S", "-c", REPORT, **options))
    assert child.code == 0, child.output
    return json.loads(child.output)


def failure(what: Launch) -> tuple[str, str | None, str | None]:
    with pytest.raises(LaunchFailed) as raised:
        Child(what)
    return str(raised.value), raised.value.errno_name, raised.value.what


# The child


def test_child_leads_its_own_session_in_its_directory() -> None:
    found = report(cwd="/usr")
    assert (found["cwd"], found["leads"]) == ("/usr", True)


def test_child_has_three_descriptors_and_nothing_to_read() -> None:
    leaking = os.dup(0)
    os.set_inheritable(leaking, True)
    try:
        found = report()
    finally:
        os.close(leaking)
    assert (found["fds"], found["stdin"]) == ([0, 1, 2], "/dev/null")


def test_child_has_no_signal_blocked_or_ignored() -> None:
    old = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
    try:
        child = Child(launch("/bin/grep", "-E", "^Sig(Blk|Ign)", f"{PROC}/self/status"))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGUSR1, old)
    assert child.output == b"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"


def test_argv0_is_what_the_program_sees_not_what_is_run() -> None:
    child = Child(Launch("/bin/cat", ["renamed", f"{PROC}/self/cmdline"], "/", {}))
    assert child.output == f"renamed\0{PROC}/self/cmdline\0".encode()


def test_environment_is_exactly_what_was_given() -> None:
    env = {"B": "2", "A": "1", "EMPTY": "", "odd name=": "x", "": "nameless", "UTF8": "é", "RAW": "\udcff"}
    child = Child(launch("/usr/bin/env", "-0", env=env))
    assert child.output == b"B=2\0A=1\0EMPTY=\0odd name==x\0=nameless\0UTF8=\xc3\xa9\0RAW=\xff\0"


def test_arguments_are_bytes_to_the_child() -> None:
    child = Child(launch("/usr/bin/printf", "%s|", "", "a b", "é", "\udcff\n"))
    assert child.output == b"|a b|\xc3\xa9|\xff\n|"


def test_mark_is_in_the_child_and_not_in_us() -> None:
    before = resource.getrlimit(resource.RLIMIT_RTTIME)
    mark = (1 << 62) + 12345
    child = Child(launch("/bin/grep", "realtime timeout", "/proc/self/limits"), mark)
    assert child.output.split()[3] == str(mark).encode()
    assert resource.getrlimit(resource.RLIMIT_RTTIME) == before


def test_raised_limit_of_files_is_ours_alone() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    spawner = Spawner()
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    reading, writing = os.pipe()
    try:
        spawner.raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
        pid = spawner.spawn(launch("/bin/sh", "-c", "ulimit -n"), Stdio(stdout=writing, stderr=writing))
        os.close(writing)
        os.waitpid(pid, 0)
        assert os.read(reading, 100) == b"256\n"
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_limit_of_files_that_may_not_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        with monkeypatch.context() as patched:
            patched.setattr(resource, "setrlimit", refuse)
            Spawner().raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (256, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_is_remembered_of_one_start_is_not_taken_for_another(tmp_path: Path) -> None:
    spawner = Spawner()
    text = 'echo "$PWD $A"; cat; echo error >&2'
    # More directories than are remembered, and again the first ones.
    for number in [*range(70), 0, 1]:
        folder = tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        given = tmp_path / "input"
        given.write_text(f"input {number}\n")
        for source in (True, False):
            env = {"PATH": "/usr/bin:/bin", "A": str(number % 3)}
            fds = [*os.pipe(), *os.pipe()]
            stdin = os.open(given, os.O_RDONLY) if source else -1
            pid = spawner.spawn(
                launch("sh", "-c", text, cwd=str(folder), env=env), Stdio(stdin, fds[1], fds[3])
            )
            os.waitpid(pid, 0)
            read = f"input {number}\n" if source else ""
            assert os.read(fds[0], 1000).decode() == f"{folder} {number % 3}\n{read}"
            assert os.read(fds[2], 1000) == b"error\n"
            for fd in {*fds, stdin} - {-1}:
                os.close(fd)


# Looking for the program


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """first/tool, second/tool and second/only; first/only is no program, third/only a directory."""
    for place in ("first", "second", "third"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "tool").write_text(f"#!/bin/sh\necho {place} $0\n")
        (tmp_path / place / "tool").chmod(0o755)
    (tmp_path / "first/only").write_text("")
    (tmp_path / "second/only").write_text("#!/bin/sh\necho only\n")
    (tmp_path / "second/only").chmod(0o755)
    (tmp_path / "third/only").mkdir()
    return tmp_path


def test_program_is_looked_for_in_the_childs_path(tools: Path) -> None:
    # P2: never in ours.
    env = {"PATH": f"{tools}/nonesuch:{tools}/second:{tools}/first"}
    assert Child(launch("tool", env=env)).output == f"second {tools}/second/tool\n".encode()


def test_file_that_is_no_program_is_passed_over(tools: Path) -> None:
    env = {"PATH": f"{tools}/first:{tools}/third:{tools}/second"}
    assert Child(launch("only", env=env)).output == b"only\n"


def test_empty_and_relative_parts_of_path_are_the_childs_directory(tools: Path) -> None:
    for path in (":/nonesuch", "first", "./first"):
        cwd = tools / "first" if path.startswith(":") else tools
        assert Child(launch("tool", cwd=str(cwd), env={"PATH": path})).output.startswith(b"first ")


def test_without_a_path_the_systems_own_is_searched() -> None:
    assert Child(launch("echo", "found", env={})).output == b"found\n"


def test_program_with_a_slash_is_relative_to_the_childs_directory(tools: Path) -> None:
    assert Child(launch("first/tool", cwd=str(tools))).output.startswith(b"first ")


# Errors


def test_errors_say_what_is_wrong_and_carry_the_systems_name(tools: Path) -> None:
    (tools / "script").write_text("#!/nonesuch/interpreter\n")
    (tools / "script").chmod(0o755)
    (tools / "data").write_text("data")
    (tools / "data").chmod(0o755)
    (tools / "loop").symlink_to("loop")
    enoent, eacces, enotdir = (
        "No such file or directory (os error 2)",
        "Permission denied (os error 13)",
        "Not a directory (os error 20)",
    )
    path = {"PATH": str(tools / "first")}
    missing = "the working directory does not exist or is not a directory"
    cases: list[tuple[Launch, tuple[str, str | None, str | None]]] = [
        (launch("nonesuch"), (enoent, "ENOENT", "`nonesuch` was not found in the command's PATH")),
        (launch("/nonesuch"), (enoent, "ENOENT", "the program does not exist")),
        (launch(f"{tools}/script"), (enoent, "ENOENT", "the program's interpreter does not exist")),
        (launch("only", env=path), (eacces, "EACCES", "`only` is in PATH but not executable")),
        (launch(f"{tools}/first/only"), (eacces, "EACCES", None)),
        (launch("/usr"), (eacces, "EACCES", None)),
        (launch("/bin/true", cwd="/nonesuch"), (enoent, "ENOENT", missing)),
        (launch("/bin/true", cwd="/etc/passwd"), (enotdir, "ENOTDIR", missing)),
        (launch(f"{tools}/loop"), ("Too many levels of symbolic links (os error 40)", "ELOOP", None)),
        (
            launch(f"{tools}/data"),
            (
                "Exec format error (os error 8)",
                "ENOEXEC",
                "the file is neither a binary of this machine nor a script with a #! line",
            ),
        ),
        (
            launch("/bin/echo", "x" * (1 << 18)),
            (
                "Argument list too long (os error 7)",
                "E2BIG",
                "arguments and environment together are larger than the system allows",
            ),
        ),
        (launch(""), ("missing program for pipe spawn", None, None)),
        (launch("/bin/echo", "a\0b"), ("nul byte found in provided data", None, None)),
        (launch("a\0b"), ("nul byte found in provided data", None, None)),
        (launch("/bin/echo", env={"A": "\0"}), ("data provided contains a nul byte", None, None)),
    ]
    assert [failure(what) for what, _ in cases] == [expected for _, expected in cases]


def test_terminal_errors_are_in_the_references_words() -> None:
    for program, expected in (
        ("", "missing program for PTY spawn"),
        ("nonesuch", 'Unable to spawn nonesuch because:\nNo viable candidates found in PATH "/usr/bin:/bin"'),
    ):
        with pytest.raises(LaunchFailed) as raised:
            Child(Launch(program, [program], "/", {"PATH": "/usr/bin:/bin"}, rows=24, cols=80))
        assert str(raised.value) == expected


def test_failed_start_leaves_no_child_and_no_descriptor() -> None:
    before = own_descriptors(), own_children()
    for _ in range(5):
        failure(launch("/nonesuch"))
    assert (own_descriptors(), own_children()) == before


# Descriptors


def reads_all(count: int) -> str:
    return f"import os; print([os.read(3 + n, 9).decode() for n in range({count})], end='')"


def test_descriptors_of_ours_are_its_own_from_3_on_whatever_their_numbers(tmp_path: Path) -> None:
    texts = ["first", "second", "third"]
    files = [os.memfd_create(text) for text in texts]
    for fd, text in zip(files, texts, strict=True):
        os.write(fd, text.encode())
        os.lseek(fd, 0, os.SEEK_SET)
    before = own_descriptors()
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        for fd in files:
            os.lseek(fd, 0, os.SEEK_SET)
        argv = [sys.executable, "-c", reads_all(3) + "; print(len(os.listdir('/proc/self/fd')), end='')"]
        chosen = tuple(files[place] for place in order)
        launch = Launch(sys.executable, argv, str(tmp_path), {}, descriptors=chosen)
        # The standard ones, ours, and the one that lists them.
        assert Child(launch).output.decode() == f"{[texts[place] for place in order]}7"
    for fd in files:
        os.close(fd)
    assert len(own_descriptors()) == len(before) - len(files)


def test_a_descriptor_that_is_not_open_is_no_launch(tmp_path: Path) -> None:
    before = own_descriptors()
    with pytest.raises(OSError, match="Bad file descriptor"):
        Spawner().spawn(
            Launch("/bin/true", ["true"], str(tmp_path), {}, descriptors=(0, 9999)), Stdio(stdout=1, stderr=2)
        )
    assert own_descriptors() == before
