"""What the tests of pools share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def own_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for the workspaces of this test, with a short path: sockets live in workspaces."""
    with TemporaryDirectory(prefix="op", dir="/tmp") as folder:
        monkeypatch.setenv("OUTFITTER_POOL_ROOT", folder)
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        yield Path(folder)
