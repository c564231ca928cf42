"""Who waits is told for what; who does not wait long is left alone."""

from __future__ import annotations

import threading

import pytest

from outfitter.cli import patience
from outfitter.cli.patience import patiently


class _Told(threading.Event):
    """A stderr that says when something was written to it."""

    text = ""

    def write(self, text: str) -> int:
        self.text += text
        if self.text.count("\n") >= 2:
            self.set()
        return len(text)

    def flush(self) -> None:
        pass


def test_what_takes_its_time_is_told_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _Told()
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.001)
    monkeypatch.setattr("sys.stderr", told)
    with patiently("direnv in /srv/app"):
        assert told.wait(30)
    assert set(told.text.splitlines()) == {"outfitter: waiting for direnv in /srv/app"}


def test_what_is_over_soon_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with patiently("nothing"):
        pass
    assert capsys.readouterr().err == ""
