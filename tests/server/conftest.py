"""One real server for the tests that need no flags of their own, and a session on it for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers import Server, serving
from tests.support.wire import Wire


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    environment = {"SECRET_TOKEN": "hush-token", "PLAIN": "hush-plain", "TMPDIR": "/var/tmp"}
    with serving("outfitter", tmp_path_factory.mktemp("home"), env=environment) as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        wire.handshake()
        yield wire
