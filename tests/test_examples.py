"""Every example runs, prints what the docs say, and stands in the docs as it is."""

# ruff: noqa: E501 - lines as they are printed

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {path.name: path for path in sorted((ROOT / "examples").glob("*.py"))}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

PRINTS = {
    "decide_network.py": """\
deny files.example.org 80 by decider
exit code: 0
""",
    "run_command.py": """\
exit code: 3
stdout: b'made it\\n'
stderr: b'with a warning\\n'
""",
    "agent_loop.py": """\
> list_files .
  check.sh
  greet.sh
> run_command sh check.sh 0.5
  the command was ended after 0.5 s; it had printed: nothing
> read_file greet.sh
  until [ -e ready ]; do sleep 1; done
  echo "hello, $1"
> read_file ready
  no such file: ready
> write_file greet.sh echo "hello, $1"
  17 characters written
> run_command sh check.sh
  exit code 0
  passed
greet.sh waited for a file that nobody makes; it does not wait any more.
""",
    "parallel_tests.py": """\
ok    tests/test_add.py: 2
FAIL  tests/test_divide.py: 1 of 2
      FAIL: test_zero (tests.test_divide.Dividing.test_zero)
1 of 2 files passed
""",
    "stream_output.py": """\
stdout: who is there?
stdout: hello, world
exited: 0
""",
    "explain_environment.py": """\
env: base=launcher, policy=envPolicy, provider=none, setup=none, request=request(applied, 1)
kept  CI            L7 request: given in the request's env
lost  DEPLOY_TOKEN  default exclude *TOKEN*
lost  EDITOR        envPolicy.exclude EDITOR
kept  HOME          L2 envPolicy: set by envPolicy.set
kept  PATH          L0 base: from the environment that Outfitter was started with
PATH 1: /usr/bin from L0 base
PATH 2: /bin from L0 base
the command sees: CI=1 HOME=/srv/project PATH=/usr/bin:/bin
""",
    "explain_project.py": """\
$ outfitter trust --yes
project  /project  suggested (outfitter)
  reads  /project/outfitter.toml
  does  sets CI=1
  does  sets LD_PRELOAD=/tmp/hook.so
  does  puts /project/bin in front of PATH
  digest sha256:f7a5ad0470e7415dad52a4ac3258e5455170454ce0dac59273f3fa106d55b0e6
outfitter: what project says is now set in /project, until that changes
exit status 0

$ outfitter env
env: base=launcher, policy=project:shell_environment_policy, provider=project(applied, 3), setup=none, 1 refused
4 variables for a command in /project; values are not shown
  L0 base (launcher): 1
    HOME
  L3 project: 2
    CI  PATH
  L8 runtime: 1
    SHLVL
1 variable removed
  L2 project:shell_environment_policy.exclude AWS_* (/project/outfitter.toml:7)
    AWS_PROFILE
1 entry refused
  LD_PRELOAD of L3 project: this variable can make later commands run other code; see allow_code_loading (code-loading)
exit status 0

$ outfitter env explain PATH AWS_PROFILE LD_PRELOAD
PATH  from L3 project
    L0 base  set  from the environment that Outfitter was started with
    L2 project:shell_environment_policy  kept  project:shell_environment_policy.inherit is "all" (/project/outfitter.toml)
  * L3 project  prepend  prepend 1, [env] prepend (/project/outfitter.toml:4)
    1  /project/bin  L3 project  prepend, writable by the agent
    2  /usr/bin  L0 base
    3  /bin  L0 base
    -  /usr/bin  L0 base  dropped: duplicate
AWS_PROFILE  not set: L2 project:shell_environment_policy.exclude AWS_* (/project/outfitter.toml:7)
    L0 base  set  from the environment that Outfitter was started with
  * L2 project:shell_environment_policy  removed  project:shell_environment_policy.exclude AWS_* (/project/outfitter.toml:7)
LD_PRELOAD  not set: L3 project: this variable can make later commands run other code; see allow_code_loading (/project/outfitter.toml:3)
    L3 project  refused  this variable can make later commands run other code; see allow_code_loading, [env] set (/project/outfitter.toml:3)
exit status 0

$ outfitter env diff / here
from / to here: 3 differences
  - AWS_PROFILE
  + CI
  ~ PATH
      + /project/bin
exit status 1

$ outfitter env export --format shell --changed
unset AWS_PROFILE
export CI='1'
export PATH='/project/bin:/usr/bin:/bin'
exit status 0

""",
    "login_shell.py": """\
enforce: /project/bin, stage test, no token, in /project
repair: /project/bin, stage test, no token, in /project
report: /home/old/bin, stage test, reintroduced, in /
  added DEPLOY_TOKEN by /home/.bash_profile:3
  changed PATH by /home/.bash_profile:2
refused to L3 project: DEPLOY_TOKEN: envPolicy.exclude *TOKEN*; allow_from with L3 permits it
refused to L3 project: LD_PRELOAD: this variable can make later commands run other code; see allow_code_loading
""",
    "sandbox.py": """\
exit code: 2 denied: True stdout: b''
inside: built
outside: False
""",
    "many_commands.py": """\
exit code 0: 100 commands
exit code 1: 100 commands
exit code 2: 100 commands
""",
    "connect_server.py": """\
collected: b'one\\ntwo\\n'
streamed: b'as it comes\\n'
resumed: b'working\\nfinished\\n' exit code: 0
""",
    "named_environments.py": """\
on build
skills: file:///srv/skills on build
more: not now: cannot connect to ws://127.0.0.1:1: Connection refused
""",
    "session_overlay.py": """\
refused: hook:stage may not set LD_PRELOAD (code-loading)
thread-1: stage test, mine 1
thread-1/tests: stage test, mine none
clear: run again ['hook:stage']
thread-1: stage none, mine 1
""",
    "sync_script.py": """\
exit code: 3
stdout: b'made it\\n'
1
2
3
stdout: b'apple\\npear\\n'
exited: 0
""",
    "remote_files.py": """\
b'three words here\\n'
10000000 bytes
10000000 bytes in blocks
file      /project/data.bin
directory /project/docs
file      /project/docs/notes.txt
still there: False
""",
    "mcp_server.py": """\
tools: ['add']
2 + 3: {'result': 5}
""",
    "pool_map.py": """\
TASK    STATE   VERDICT
right   done    resolved
wrong   done    tests fail
stale   done    does not apply
""",
    "talk_raw.py": """\
a session is open
started: first
stdout: hello from the executor
exit code: 0
server ended with 0
""",
}

# What an example is given, where it takes something; and its exit code, where that is not 0.
ARGUMENTS = {"parallel_tests.py": ["--jobs", "1", "tests/test_add.py", "tests/test_divide.py"]}
EXITS = {"parallel_tests.py": 1}
TESTS = {
    "test_add.py": "Adding: one 1 + 1 == 2, two 2 + 2 == 4",
    "test_divide.py": "Dividing: half 1 / 2 == 0.5, zero 1 / 2 == 0",
}

# A page quotes a file by naming it in a comment right before the block: <!-- examples/run_command.py -->
_QUOTE = re.compile(r"<!-- examples/(\S+) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def quotes(language: str) -> list[tuple[str, str, str]]:
    """Page, example and quoted text of every block in this language that names an example."""
    return [
        (str(page.relative_to(ROOT)), name, text)
        for page in PAGES
        for name, found, text in _QUOTE.findall(page.read_text())
        if found == language
    ]


def write_tests(folder: Path) -> None:
    """Test files, of "Class: test expression, ..." each."""
    folder.mkdir()
    for name, told in TESTS.items():
        kind, _, cases = told.partition(": ")
        lines = ["import unittest", f"class {kind}(unittest.TestCase):"]
        for case in cases.split(", "):
            test, _, expression = case.partition(" ")
            lines.append(f"    def test_{test}(self): self.assertTrue({expression})")
        (folder / name).write_text("\n".join(lines) + "\n")


def test_every_example_is_checked() -> None:
    assert set(EXAMPLES) == set(PRINTS)


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_what_it_should(name: str, tmp_path: Path) -> None:
    venv.create(tmp_path / ".venv", symlinks=True)  # as in a checkout: it is applied to commands there
    write_tests(tmp_path / "tests")
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES[name], *ARGUMENTS.get(name, ())],
        env={
            **os.environ,
            "HOME": str(tmp_path / "home"),  # where an overlay and a sandbox leave what they keep
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    # A server that other processes keep from running says so: that is the machine's, not the example's.
    said = [line for line in done.stderr.splitlines() if not line.startswith("! nothing else was served")]
    assert (done.returncode, done.stdout, said) == (EXITS.get(name, 0), PRINTS[name], [])


def test_the_test_runner_shows_how_far_it_is(tmp_path: Path) -> None:
    write_tests(tmp_path / "tests")
    command = [sys.executable, EXAMPLES["parallel_tests.py"], "tests/test_add.py", "tests/test_divide.py"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path) as running:
        os.close(theirs)
        shown = b"".join(iter(lambda: read(ours), b""))
    os.close(ours)
    assert running.returncode == 1
    # Each state of the line that is drawn over and over, whichever file is quicker.
    states = re.findall(rb"(\d)/2 files: (\d) passed, (\d) failed", shown)
    assert states == sorted(states)
    assert (states[0][0], states[-1]) == (b"0", (b"2", b"3", b"1"))
    assert shown.endswith(b"\r\x1b[K1 of 2 files passed\r\n")


def read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # how a terminal ends
        return b""


def test_the_docs_quote_examples_as_they_are() -> None:
    quoted = quotes("python")
    assert {name for _, name, _ in quoted} == set(EXAMPLES)
    assert [(page, name) for page, name, text in quoted if text != EXAMPLES[name].read_text()] == []


def test_the_docs_quote_what_examples_print() -> None:
    quoted = quotes("text")
    assert quoted
    assert [(page, name) for page, name, text in quoted if text != PRINTS[name]] == []
