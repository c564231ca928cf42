"""Whether sandboxes can be made, as another process finds it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.host.sandbox import probing
from outfitter.host.sandbox.bubblewrap import Finder
from outfitter.host.sandbox.probing import main, probe, read
from tests.support.sandbox import need_sandbox


def test_it_tells_what_this_process_would_find() -> None:
    need_sandbox()
    answer, there, finder = probe("", {}), Finder().find(), Finder()
    assert answer == (there.path, there.argv0, there.bind_fd, there.proc)
    finder.learn(*answer)
    assert finder._found == there


def test_a_file_that_is_none_of_the_places_is_not_believed(tmp_path: Path) -> None:
    need_sandbox()
    forged, finder = tmp_path / "bwrap", Finder()
    forged.write_text("#!/bin/sh\n")
    forged.chmod(0o755)
    finder.learn(str(forged), True, True, True)
    assert finder._found is None
    assert finder.find().path != str(forged)


@pytest.mark.parametrize(
    "said", [b"", b"/usr/bin/bwrap", b"/usr/bin/bwrap\0", b"x\x0012x", b"x\x001111", b"\xff"]
)
def test_what_is_no_answer_is_a_reason(said: bytes) -> None:
    assert isinstance(read(said), str)


def test_it_says_why_there_is_none(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROGRAM", "")
    monkeypatch.setattr("outfitter.host.sandbox.bubblewrap.PLACES", ())
    main()
    assert "bubblewrap is not installed: install bubblewrap" in capfd.readouterr().out


def test_a_process_that_fails_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        probing, "own_program", lambda module: ["/bin/sh", "-c", "echo no memory >&2; exit 1"]
    )
    assert probe("", {}) == "no memory\n"
