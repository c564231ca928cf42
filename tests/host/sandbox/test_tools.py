"""Tools of providers in a sandbox: what a thread starts in its block, and only that."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.core.permissions import Confinement, Rule
from outfitter.host.sandbox import tools
from outfitter.host.sandbox.limits import Allowance
from outfitter.host.sandbox.tools import confining
from outfitter.host.tools import within
from outfitter.host.tools.capture import capture
from outfitter.host.tools.tool import Ran, run_tool
from outfitter.host.tools.within import Within, is_confined
from tests.support.sandboxes import elsewhere

ENV = {"PATH": os.environ["PATH"]}
READING = Confinement(True, False, (Rule("/", "read"),))


@pytest.fixture
def place() -> Iterator[Path]:
    with elsewhere() as folder:
        yield folder


def run(place: Path, *argv: str) -> Ran:
    return run_tool(argv, str(place), ENV, timeout=20.0)


def test_a_tool_reads_and_does_not_write(place: Path) -> None:
    (place / "a").write_text("hello")
    with Within(confining(READING, str(place / "state"))):
        read, write = run(place, "cat", "a"), run(place, "touch", "b")
    assert (read.ok, read.stdout) == (True, b"hello")
    assert (write.code, (place / "b").exists()) == (1, False)
    assert b"Read-only file system" in write.stderr
    assert run(place, "touch", "b").ok  # outside of the block


def test_what_may_be_written_keeps_its_protected_names_and_nothing_stays(place: Path) -> None:
    (place / "w").mkdir()
    confinement = Confinement(True, False, (Rule("/", "read"), Rule(str(place / "w"), "write")))
    with Within(confining(confinement, str(place / "state"))):
        done = run(place, "sh", "-c", "touch w/a; mkdir w/.git/x")
    assert done.code == 1
    assert sorted(path.name for path in (place / "w").iterdir()) == ["a"]


def test_a_tool_does_not_see_what_outfitter_keeps(place: Path) -> None:
    (place / "state").mkdir()
    (place / "state" / "key").write_text("hush")
    with Within(confining(READING, str(place / "state"))):
        done = run(place, "cat", "state/key")
    assert (done.code, done.stdout) == (1, b"")


def test_a_tool_has_its_environment_and_its_descriptors(place: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"given")
    os.close(writing)
    with Within(confining(READING, str(place / "state"))):
        done = run_tool(
            ["sh", "-c", 'printf "%s " "$WORD"; cat <&3; ls /proc/self/fd | wc -l'],
            str(place),
            {**ENV, "WORD": "said"},
            timeout=20.0,
            descriptors=(reading,),
        )
    os.close(reading)
    assert done.stdout.split() == [b"said", b"given5"]  # 0 to 3, and the one that ls opens


def test_a_script_reports_what_it_exports(place: Path) -> None:
    with Within(confining(READING, str(place / "state"))):
        done = capture(
            "export MADE=1; touch x || export CLOSED=1", cwd=str(place), env=ENV, timeout=20.0, inline=True
        )
    assert done.state == "captured"
    assert done.env is not None
    assert (done.env["MADE"], done.env["CLOSED"]) == ("1", "1")


def test_what_does_not_end_is_ended_with_all_of_it(place: Path) -> None:
    with Within(confining(READING, str(place / "state"))):
        done = run_tool(["sh", "-c", "sleep 600 & sleep 600"], str(place), ENV, timeout=0.5)
    assert done.outcome == "timeout"


def test_what_cannot_be_enforced_is_not_started(place: Path) -> None:
    (place / "inner").mkdir()
    (place / ".git").symlink_to("inner")
    confinement = Confinement(True, False, (Rule("/", "read"), Rule(str(place), "write")))
    with Within(confining(confinement, str(place / "state"))):
        done = run(place, "true")
    assert (done.outcome, "crosses writable symlink" in done.failure) == ("not-started", True)


def test_a_tool_that_cannot_be_limited_does_not_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tools, "_limits", [])
    monkeypatch.setattr(within, "allowance", Allowance("many"))  # type: ignore[arg-type]  # which no kernel takes
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # whose limit is a number of the kernel's
    with Within(confining(READING, str(place / "state"))):
        done = run(place, "echo", "ran")
    assert (done.code, done.stdout) == (-9, b"")
    assert "a tool in a sandbox cannot be limited, and is ended" in caplog.text


def test_only_the_thread_of_the_block_is_confined(place: Path) -> None:
    seen: list[bool] = []
    with Within(confining(READING, str(place / "state"))):
        other = threading.Thread(target=lambda: seen.append(is_confined()))
        other.start()
        other.join()
        seen.append(is_confined())
    assert [*seen, is_confined()] == [False, True, False]
    with Within(None):
        assert not is_confined()


def test_the_first_process_is_the_one_that_bubblewrap_names() -> None:
    gate = tools._Gate()
    os.write(gate.theirs[0], b'{\n    "child-pid": 42')
    os.write(gate.theirs[0], b',\n    "net-namespace": 7\n}\n')
    assert gate.first() == 42
    os.close(gate.theirs[0])
    assert gate.first() == 0  # it has ended, and said nothing
    os.close(gate.theirs[1])
    gate.close()
