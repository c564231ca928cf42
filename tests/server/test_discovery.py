"""What is remembered of skills and plugins, and for whom."""

from __future__ import annotations

import pytest

from outfitter.host.witness import Witness
from outfitter.protocol.discovery import DiscoverResult
from outfitter.protocol.results import Written
from outfitter.server.handlers import discovery


class Overtaken(Witness):
    """All that it has seen is the same; while it looks, another thread finds something that has changed."""

    def holds(self) -> bool:
        discovery._last = None
        return True


def test_an_answer_that_another_thread_forgets_meanwhile_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written([b"the last answer"])
    monkeypatch.setattr(discovery, "_last", ("key", Overtaken(), written))
    assert discovery._remembered(lambda _: DiscoverResult([], [], []), "key") is written
