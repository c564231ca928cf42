"""One real server for the tests that need no flags of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers import Server, serving


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    environment = {"SECRET_TOKEN": "hush-token", "PLAIN": "hush-plain", "TMPDIR": "/var/tmp"}
    with serving("outfitter", tmp_path_factory.mktemp("home"), env=environment) as server:
        yield server
