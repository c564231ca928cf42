"""Programs started by the standard library's own way: real children, on every system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outfitter.core.launch import Launch
from outfitter.core.marks import Marks
from outfitter.env.names import MARK
from outfitter.errors import HostUnsupported, LaunchFailed
from outfitter.host.portable.spawn import Spawner
from outfitter.host.pty import open_terminal
from outfitter.host.spawn import Stdio

ENV = {"PATH": "/usr/bin:/bin"}
SHELL = ["sh", "-c"]


def ran(argv: list[str], cwd: str = "/", env: dict[str, str] | None = None, mark: int | None = None) -> str:
    reading, writing = os.pipe()
    try:
        launch = Launch(argv[0], argv, cwd, ENV if env is None else env)
        pid = Spawner().spawn(launch, Stdio(stdout=writing, stderr=writing), mark)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    os.waitpid(pid, 0)
    return said


def test_directory_environment_and_session_are_the_launchs(tmp_path: Path) -> None:
    text = 'pwd; echo "$A"; read line || echo no input; ps -o pid= -o pgid= -p $$ 2>/dev/null || echo $$ $$'
    said = ran([*SHELL, text], str(tmp_path), {**ENV, "A": "b c"}).splitlines()
    assert said[:3] == [str(tmp_path), "b c", "no input"]
    assert len(set(said[3].split())) == 1


def test_mark_is_a_variable_of_a_command_that_has_one() -> None:
    mark = Marks(5).new(1)
    assert ran(["env"], env=ENV, mark=mark).splitlines() == ["PATH=/usr/bin:/bin", f"{MARK}={mark}"]
    assert ran(["env"], env=ENV).splitlines() == ["PATH=/usr/bin:/bin"]


def test_program_beside_the_command_is_found_by_an_empty_entry_of_its_path(tmp_path: Path) -> None:
    program = tmp_path / "here"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o700)
    assert ran(["here"], str(tmp_path), {"PATH": "/nonesuch:"}) == "found\n"


@pytest.mark.parametrize(
    ("argv", "cwd", "subject", "code"),
    [
        (["/nonesuch"], "/", "program", "ENOENT"),
        (["true"], "/nonesuch", "cwd", "ENOENT"),
        (["/etc/passwd"], "/", "program", "EACCES"),
    ],
)
def test_what_cannot_be_started_is_told(argv: list[str], cwd: str, subject: str, code: str) -> None:
    with pytest.raises(LaunchFailed) as failed:
        ran(argv, cwd)
    assert (failed.value.subject, failed.value.errno_name) == (subject, code)


@pytest.mark.parametrize(
    ("argv", "env"), [(["true", "a\0b"], {}), (["true"], {"A": "\0"}), (["true"], {"A=": "x"})]
)
def test_what_no_system_takes_is_refused(argv: list[str], env: dict[str, str]) -> None:
    with pytest.raises(LaunchFailed):
        ran(argv, env={**ENV, **env})


def test_terminal_is_the_childs_own() -> None:
    ours, theirs, name = open_terminal(24, 80)
    launch = Launch("sh", [*SHELL, "exec 3</dev/tty && stty size <&3"], "/", ENV, rows=24, cols=80)
    pid = Spawner().spawn(launch, Stdio(terminal=name))
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 100):
            said += piece
    except OSError:
        pass  # EIO: the child has closed it
    os.close(ours)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert said == b"24 80\r\n"


def test_descriptors_of_ours_are_not_for_it() -> None:
    launch = Launch("true", ["true"], "/", ENV, descriptors=(0,))
    with pytest.raises(HostUnsupported):
        Spawner().spawn(launch, Stdio(stdout=1, stderr=2))
