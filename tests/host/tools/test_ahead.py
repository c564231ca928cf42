"""A tool in front of each command sees its files as they were checked, and the command sees what is there."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from outfitter.env.ahead import ABSENT, words
from outfitter.host.tools import ahead, behind
from tests.support.users import NOBODY, installed

ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
INTERRUPTIBLE = ["env", "--default-signal=INT"]  # also where nobody can interrupt these tests
# What direnv and the like do: a file of the project decides about the command's environment.
TOOL = 'echo >{folder}/waiting; read x <{folder}/go; . {top}/config; exec "$@"'


class Project:
    """A folder with a trusted file in it, and a tool that waits until something was done to that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top = folder / "project"
        self.top.mkdir()
        self.config = self.top / "config"
        self.config.write_text("export VALUE=good\n")
        self.tool = folder / "tool"
        self.more: list[str] = []  # paths and digests
        for name in ("waiting", "go"):
            os.mkfifo(folder / name)
        self.says(TOOL.format(folder=folder, top=self.top))

    def says(self, script: str, interpreter: str = "/bin/sh") -> None:
        self.tool.write_text(f"#!{interpreter}\n{script}\n")
        self.tool.chmod(0o755)

    def argv(self, *command: str, python: str = sys.executable) -> list[str]:
        digest = sha256(b"export VALUE=good\n").hexdigest()
        frozen = [str(self.top), str(self.config), digest, str(self.top / "absent"), ABSENT, *self.more]
        between = [python, *behind.program_words()[1:]]
        tool = words([frozen], [str(self.tool), *between])
        return [python, *ahead.program_words()[1:], *tool, "deny", "DENIED", "--", *command]

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*INTERRUPTIBLE, *self.argv(*command)],
            env=ENV,
            cwd=self.top,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *command: str, meanwhile: Callable[[], object] | None = None) -> tuple[int, str, str]:
        started = self.start(*command)
        if meanwhile is not None:
            (self.folder / "waiting").read_text()
            meanwhile()
            (self.folder / "go").write_text("\n")
        out, err = started.communicate()
        return started.returncode, out.decode(), err.decode()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


def test_the_tool_reads_what_was_checked_and_the_command_what_is_there(project: Project) -> None:
    def swap() -> None:
        (project.top / "new").write_text("export VALUE=evil\n")
        (project.top / "new").rename(project.config)

    ran = project.run("sh", "-c", "echo $VALUE; cat config; echo mine >config", meanwhile=swap)
    assert ran == (0, "good\nexport VALUE=evil\n", "")
    assert project.config.read_text() == "mine\n"


def test_nothing_runs_if_a_file_changed_before(project: Project) -> None:
    project.config.write_text(f"touch {project.folder}/evil\n")
    text = f"outfitter: {project.config} has changed since it was checked. Nothing was run: try again.\n"
    assert project.run("true") == (126, "", text)
    project.config.unlink()
    text = f"outfitter: {project.config}: No such file or directory. Nothing was run: try again.\n"
    assert project.run("true") == (126, "", text)
    assert not (project.folder / "evil").exists()


def test_the_names_in_a_folder_count_if_they_were_checked(project: Project) -> None:
    (project.top / "other").touch()
    project.more = [f"{project.top}/", sha256(b"config\0other\0").hexdigest()]
    project.says('ls; exec "$@"')
    assert project.run("true") == (0, "config\nother\n", "")
    (project.top / "evil").touch()
    text = f"outfitter: {project.top}/ has changed since it was checked. Nothing was run: try again.\n"
    assert project.run("true") == (126, "", text)


def test_what_cannot_be_frozen_because_it_changes_is_no_reason_to_do_without(project: Project) -> None:
    project.more = [f"{project.config}/", ABSENT]
    code, out, err = project.run("true")
    assert (code, out) == (126, "")
    assert err.endswith("cannot be frozen: config: Not a directory. Nothing was run: try again.\n")


def test_what_the_tool_leaves_besides_variables_is_the_commands(project: Project) -> None:
    project.says('umask 027; mkdir made; cd made; echo "$0" >made; export DENIED=1 GIVEN=1; exec "$@"')
    script = "pwd; umask; cat made; echo $DENIED$GIVEN; grep SigIgn /proc/$$/status; kill -PIPE $$; echo no"
    plain = subprocess.run(
        [*INTERRUPTIBLE, "grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True, check=True
    )
    said = f"{project.top}/made\n0027\n{project.tool}\n1\n{plain.stdout}"
    assert project.run("sh", "-c", script) == (-signal.SIGPIPE, said, "")


@pytest.mark.parametrize("given", [{}, {"LC_CTYPE": "C.UTF-8"}])
def test_the_command_has_no_variable_that_python_made_up(project: Project, given: dict[str, str]) -> None:
    # In the C locale, Python sets LC_CTYPE in its own environment (PEP 538).
    project.says('/usr/bin/env >seen; exec "$@"', "/bin/bash")
    env = {"PATH": "/usr/bin:/bin", **given}
    argv = project.argv("/usr/bin/env")
    done = subprocess.run(argv, env=env, cwd=project.top, capture_output=True, text=True, check=True)
    for text in ((project.top / "seen").read_text(), done.stdout):
        found = dict(line.split("=", 1) for line in text.splitlines())
        assert {name: value for name, value in found.items() if name.startswith("LC_")} == given


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -TERM $$", -signal.SIGTERM)])
def test_a_tool_that_ends_without_a_command_is_what_came_of_it(
    project: Project, script: str, status: int
) -> None:
    project.says(f"echo why >&2; {script}")
    assert project.run("true") == (status, "", "why\n")


def test_a_command_that_is_not_there_is_told(project: Project) -> None:
    project.says('exec "$@"')
    assert project.run("not-there") == (127, "", "outfitter: not-there: No such file or directory\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_tool_ends_with_the_command_that_is_ended_before_it_begins(project: Project, number: int) -> None:
    project.says(f"exec 9>{project.folder}/waiting; echo $$ >&9; exec sleep 600")
    started = project.start("true")
    with open(project.folder / "waiting", encoding="ascii") as told:
        assert int(told.readline()) != started.pid
        started.send_signal(number)
        assert (started.communicate(), started.returncode) == ((b"", b""), -number)
        assert told.read() == ""  # nobody has it open any more


def test_a_signal_that_is_ignored_stays_so(project: Project) -> None:
    project.says('exec "$@"')
    words = [
        "sh",
        "-c",
        'trap "" INT; exec "$@"',
        "sh",
        *project.argv("sh", "-c", "kill -INT $$; echo alive"),
    ]
    done = subprocess.run(words, env=ENV, cwd=project.top, capture_output=True, check=False)
    assert done.stdout == b"alive\n"


def test_the_terminal_is_the_commands_again(project: Project) -> None:
    script = "import os, sys, signal; signal.signal(22, signal.SIG_IGN); os.setpgid(0, 0)\n"
    script += "os.tcsetpgrp(0, os.getpgrp()); os.execvp(sys.argv[1], sys.argv[1:])"
    project.says(script, sys.executable)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(project.top)
        argv = project.argv("sh", "-c", "read x; echo got $x")
        os.execve(argv[0], argv, ENV)
    os.write(terminal, b"word\n")
    said = b""
    while b"got word" not in said:
        said += os.read(terminal, 1024)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)


def test_where_the_kernel_forbids_it_by_now_nothing_runs(project: Project) -> None:
    project.says('export VALUE=plain; exec "$@"')
    script = 'echo 0 >/proc/sys/user/max_mnt_namespaces; exec "$@"'
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script, "sh", *project.argv("sh", "-c", "echo $VALUE")],
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (126, ""), done
    assert "cannot be frozen: No space left on device. Nothing was run" in done.stderr
    assert 'freeze = "off"' in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
def test_the_command_of_an_ordinary_user_is_in_no_namespace_of_ours() -> None:
    python, place = installed()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        project = Project(Path(folder).resolve())
        project.says('readlink /proc/self/ns/user; . ./config; echo mine >made; exec "$@"')
        subprocess.run(["chown", "-R", str(NOBODY), folder], check=True)
        argv = project.argv(
            "sh", "-c", "readlink /proc/self/ns/user; echo $VALUE; cat made", python=str(python)
        )
        argv = [word.replace(str(Path(ahead.__file__).parents[3]), str(place)) for word in argv]
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd=project.top,
            env=ENV,
            check=False,
        )
    tools, commands, *rest = done.stdout.splitlines()
    assert rest == ["good", "mine"], done
    assert commands == os.readlink("/proc/self/ns/user")
    if tools == commands:
        pytest.skip("this kernel gives ordinary users no namespaces")
