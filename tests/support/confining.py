"""Fixtures of the tests that run commands in a sandbox: a server for a module, a session on it for each test.

The root conftest has them loaded, so they are there for every test; a module may have a server of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .sandbox import need_sandbox
from .servers import Server, serving
from .wire import Wire


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    need_sandbox()
    with serving("outfitter", tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        wire.handshake()
        yield wire


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace, with nothing in it."""
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder
