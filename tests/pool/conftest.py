"""What the tests of pools share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pool.support import short_folder


@pytest.fixture
def own_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for the workspaces of this test."""
    with short_folder() as folder:
        monkeypatch.setenv("OUTFITTER_POOL_ROOT", str(folder))
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        yield folder
