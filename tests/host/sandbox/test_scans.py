"""What a long look at files has found is used soon, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.core.permissions import READ, Confinement, Rule
from outfitter.host.sandbox import scans
from outfitter.host.sandbox.scans import Scans


def hiding(folder: Path) -> Confinement:
    return Confinement(True, False, (Rule("/", READ),), (f"{folder}/*.env",))


def test_what_was_found_just_now(tmp_path: Path) -> None:
    (tmp_path / "a.env").touch()
    one = Scans()
    assert one.found(hiding(tmp_path)) is None
    one.look(hiding(tmp_path))
    found = one.found(hiding(tmp_path))
    assert found is not None and [each.path for each in found.hidden] == [f"{tmp_path}/a.env"]
    assert one.found(hiding(tmp_path / "other")) is None
    one.forget(hiding(tmp_path))
    assert one.found(hiding(tmp_path)) is None


def test_what_was_found_before_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Scans()
    one.look(hiding(tmp_path))
    later = scans.time.monotonic() + 2
    monkeypatch.setattr(scans.time, "monotonic", lambda: later)
    assert one.found(hiding(tmp_path)) is None
    one.look(hiding(tmp_path / "other"))
    assert len(one._found) == 1
