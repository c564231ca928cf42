"""Whether sandboxes can be made, as another process finds it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.host.sandbox import probing
from outfitter.host.sandbox.bubblewrap import Bubblewrap, Finder
from outfitter.host.sandbox.probing import main, probe
from tests.support.sandbox import need_sandbox


def test_it_tells_what_this_process_would_find() -> None:
    need_sandbox()
    answer = probe("", {})
    assert isinstance(answer, tuple) and Bubblewrap(*answer) == Finder().find()


def test_what_was_found_out_is_not_tried_again() -> None:
    need_sandbox()
    there, finder = Finder().find(), Finder()
    finder.learn(there)
    assert finder.find() is there


def test_another_file_in_its_place_is_tried(tmp_path: Path) -> None:
    need_sandbox()
    finder = Finder()
    finder.learn(Bubblewrap(str(tmp_path / "bwrap"), (1, 2, 3)))  # gone since
    assert finder.find().path != str(tmp_path / "bwrap")


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
