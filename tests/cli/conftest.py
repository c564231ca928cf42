"""An account and a server for each test that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import Server, serving

from .commandline import Terminal, User


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    home = tmp_path / "user"
    home.mkdir()
    one = User(home)
    yield one
    one.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Ours, in a home of its own."""
    with serving("outfitter", tmp_path / "server", env={"PLACE": "there"}) as one:
        yield one


@pytest.fixture(params=["outfitter", "codex"])
def any_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """Ours and the reference."""
    with serving(request.param, tmp_path / "server", env={"PLACE": "there"}) as one:
        yield one


@pytest.fixture
def screen() -> Iterator[Terminal]:
    one = Terminal()
    yield one
    one.close()
