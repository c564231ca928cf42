"""What the tests of pools share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.support.machine import wait_until


@pytest.fixture
def own_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for the workspaces of this test, with a short path: sockets live in workspaces."""
    folder = mkdtemp(prefix="op", dir="/tmp")
    monkeypatch.setenv("OUTFITTER_POOL_ROOT", folder)
    monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
    yield Path(folder)
    # What a killed server has left behind may still be clearing up after it.
    wait_until(lambda: _removed(folder), "the folder is gone")


def _removed(folder: str) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not os.path.exists(folder)
