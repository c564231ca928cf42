"""`make docs`: a warning of Sphinx is an error, so every link and every docstring is read."""

from __future__ import annotations

import subprocess

import pytest

import outfitter
from outfitter import sync

from .test_wheel import ROOT, SECONDS


@pytest.mark.timeout(SECONDS)
def test_the_site_has_every_public_name() -> None:
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    reference = ROOT / "build" / "site" / "reference"
    for page, names in (
        ("python", set(outfitter.__all__) - {"VERSION", "sync"}),
        ("python-sync", sync.__all__),
    ):
        text = (reference / f"{page}.html").read_text()
        assert [name for name in names if f'.{name}"' not in text] == []
    assert (ROOT / "build" / "site" / "index.html").is_file()
    assert "outfitter" in (ROOT / "build" / "site" / "searchindex.js").read_text()
