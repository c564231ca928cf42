"""Whether commands can be confined here, and what to do if not."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.contract.doctor.machine import Configured, Machine
from outfitter.contract.doctor.sandbox import Sandboxing, sandbox_works, sandboxing
from outfitter.contract.file import parse_settings
from outfitter.contract.merge import merge
from outfitter.host.sandbox.landlock import HINT
from outfitter.host.sandbox.landlocked import lack, version


def configured(text: str = "") -> Configured:
    return Configured(merge(parse_settings(text, "/u/config.toml", "user", "/u"), None))


def test_a_sandbox_that_works_is_named() -> None:
    finding = sandbox_works(configured(), Sandboxing("/usr/bin/bwrap", limits=("few",)))
    assert (finding.status, finding.summary) == ("ok", "commands can be confined")
    assert list(finding.details) == ["made by /usr/bin/bwrap", "few"]


def test_a_container_without_a_view_of_processes_is_told() -> None:
    finding = sandbox_works(configured(), Sandboxing("/usr/bin/bwrap", proc=False, remedy="Start it anew"))
    assert (finding.status, finding.remedy) == ("warning", "Start it anew.")
    assert "/proc is empty inside" in finding.summary


@pytest.mark.parametrize(
    "text",
    ['[sandbox]\nmode = "read-only"\n', '[sandbox]\nsetup = "workspace-write"\n'],
    ids=["commands", "setups"],
)
def test_it_is_an_error_where_the_configuration_wants_one(text: str) -> None:
    why = "bubblewrap is not installed: install bubblewrap 0.7 or newer"
    finding = sandbox_works(configured(), Sandboxing(why=why))
    assert (finding.status, finding.summary, finding.remedy) == (
        "warning",
        "commands cannot be confined: bubblewrap is not installed",
        "Install bubblewrap 0.7 or newer.",
    )
    assert sandbox_works(configured(text), Sandboxing(why=why)).status == "error"


def test_what_has_no_remedy_leads_to_the_command_that_shows_it() -> None:
    finding = sandbox_works(configured(), Sandboxing(why="there is no filter of system calls for riscv64"))
    assert finding.remedy == "See `outfitter run --sandbox read-only -- true`."


def test_it_is_tried_on_this_machine() -> None:
    found = sandboxing(Machine({"PATH": "/usr/bin:/bin"}, "/", login=False))
    assert bool(found.program) != bool(found.why)
    assert len(found.limits) == (2 if found.program else 0)


@pytest.mark.parametrize("text", ["", '[sandbox]\nmode = "read-only"\n'])
def test_what_can_be_done_without_bubblewrap_is_said(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outfitter.host.sandbox.bubblewrap.PLACES", ())
    found = sandboxing(Machine({"PATH": "/usr/bin:/bin"}, "/", login=False))
    assert found.hint == ("" if lack(version()) else HINT)
    assert sandbox_works(configured(text), Sandboxing(why="none: get one", hint="this")).details[-1] == "this"


def test_a_sandbox_needs_a_place_for_its_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = sandboxing(Machine({"OUTFITTER_HOME": f"{tmp_path}/file/x"}, "/", login=False))
    finding = sandbox_works(configured(), found)
    assert (finding.status, finding.summary) == (
        "warning",
        "commands cannot be confined: a sandbox needs a few files in "
        f"{tmp_path}/file/x/state/sandbox, which cannot be written",
    )
    assert "OUTFITTER_HOME" in str(finding.remedy)
