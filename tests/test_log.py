"""Lines of the log: what a peer chose stays on its line; a warning costs no import and never raises."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from outfitter import log
from outfitter.log import fault, note, warn
from tests.support.machine import SECOND

EVIL = "fs/\x1b[2J\x9b\r\nWARNING forged\u2028\u202e\x7f\0"
SPELLED = "fs/\\x1b[2J\\x9b\\r\\nWARNING forged\\u2028\\u202e\\x7f\\x00"


def test_control_characters_of_arguments_are_spelled_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "outfitter")
    note("server", "<", "%s for trace %s", EVIL, EVIL)
    warn("server", "%s", ValueError(EVIL))
    fault("server", f"{EVIL} failed", ValueError("100 %s"))
    assert [record.getMessage() for record in caplog.records] == [
        f"< {SPELLED} for trace {SPELLED}",
        f"! {SPELLED}",
        f"! {SPELLED} failed: internal error, ValueError\nTraceback:\n",
    ]


def test_where_a_fault_happened_keeps_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    try:
        int("%d") % 2
    except ValueError as error:
        fault("server", "m", error)
    lines = caplog.records[0].getMessage().splitlines()
    assert lines[1] == "Traceback:"
    assert lines[2].startswith(f'  File "{__file__}", line ')


def test_numbers_stay_numbers_and_long_arguments_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    warn("server", "%d %.1f %s", 7, 2.5, "x" * 5000)
    assert caplog.records[0].getMessage() == f"! 7 2.5 {'x' * 1000}…"


def test_a_line_that_nobody_reads_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    class Untouched:
        def __str__(self) -> str:
            raise AssertionError("nobody wanted it")

    caplog.set_level(logging.INFO, "outfitter")
    note("server", "<", "%s", Untouched())
    assert caplog.records == []


# No descriptor can be opened any more.
EXHAUSTED = """
import sys
from outfitter.log import fault, warn
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
warn("server", "%d of %s", 1, "two")
try:
    {}["secret text"]
except KeyError as error:
    fault("server", "a request failed", error)
print(sorted({"logging", "traceback"} & set(sys.modules)))
"""


def test_without_descriptors_it_is_said_on_stderr_and_nothing_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXHAUSTED], capture_output=True, text=True, timeout=20 * SECOND, check=True
    )
    assert done.stdout == "[]\n"
    said = done.stderr.splitlines()
    assert said[:3] == ["! 1 of two", "! a request failed: internal error, KeyError", "Traceback:"]
    assert said[3].strip() == 'File "<string>", line 8, in <module>'
    assert "secret text" not in done.stderr


def test_whoever_has_logging_gets_records(caplog: pytest.LogCaptureFixture) -> None:
    log.warn("server", "%d of %s", 1, "two")
    assert [(one.name, one.levelname, one.message) for one in caplog.records] == [
        ("outfitter.server", "WARNING", "! 1 of two")
    ]


def test_mistake_in_a_warning_is_not_another_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "logging")
    monkeypatch.setattr(sys, "stderr", None)
    log.warn("server", "%d", "not a number")
    log.fault("server", "nobody reads it", ValueError())


def test_endless_recursion_is_told_by_its_end(caplog: pytest.LogCaptureFixture) -> None:
    def again() -> None:
        again()

    try:
        again()
    except RecursionError as error:
        log.fault("server", "a request failed", error)
    assert caplog.text.count("in again") == 50
