"""Every example runs, prints what the docs say, and stands in the docs as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {path.name: path for path in sorted((ROOT / "examples").glob("*.py"))}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

PRINTS = {
    "run_command.py": """\
exit code: 3
stdout: b'made it\\n'
stderr: b'with a warning\\n'
""",
    "stream_output.py": """\
stdout: who is there?
stdout: hello, world
exited: 0
""",
    "explain_environment.py": """\
kept  CI            given in the request's env: the request's env wins
lost  DEPLOY_TOKEN  from the exec-server's own environment: default exclude *TOKEN*
lost  EDITOR        from the exec-server's own environment: envPolicy.exclude EDITOR
kept  HOME          set by envPolicy.set: envPolicy.set
kept  PATH          from the exec-server's own environment: envPolicy.inherit is "all"
the command sees: CI=1 HOME=/srv/project PATH=/usr/bin:/bin
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
    "talk_raw.py": """\
a session is open
started: first
stdout: hello from the executor
exit code: 0
server ended with 0
""",
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


def test_every_example_is_checked() -> None:
    assert set(EXAMPLES) == set(PRINTS)


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_what_it_should(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES[name]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTS[name], "")


def test_the_docs_quote_examples_as_they_are() -> None:
    quoted = quotes("python")
    assert {name for _, name, _ in quoted} == set(EXAMPLES)
    assert [(page, name) for page, name, text in quoted if text != EXAMPLES[name].read_text()] == []


def test_the_docs_quote_what_examples_print() -> None:
    quoted = quotes("text")
    assert quoted
    assert [(page, name) for page, name, text in quoted if text != PRINTS[name]] == []
