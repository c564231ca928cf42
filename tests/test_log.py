"""Lines of the log: what a peer chose stays on its line and steers no terminal."""

from __future__ import annotations

import logging

import pytest

from outfitter.log import fault, note, warn

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
    text = caplog.records[0].getMessage()
    assert text.splitlines()[1] == "Traceback:" and text.splitlines()[3].strip() == 'int("%d") % 2'


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
