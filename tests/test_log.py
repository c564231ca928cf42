"""A warning reaches somebody, costs no import, and never raises: least of all when nothing is left."""

from __future__ import annotations

import subprocess
import sys

import pytest

from outfitter import log
from tests.support.machine import SECOND

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
