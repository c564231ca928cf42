"""What all connections share: what an operator's settings mean for it."""

from __future__ import annotations

import pytest

from outfitter.host import within
from outfitter.host.sandbox.limits import Allowance
from outfitter.loop import EpollLoop
from outfitter.pace import Pace
from outfitter.server.services import Services
from outfitter.server.settings import ServerSettings


@pytest.mark.parametrize(
    ("settings", "allowance"),
    [
        (ServerSettings(), None),
        (ServerSettings(sandbox_processes=64), Allowance(64)),
        (ServerSettings(sandbox_memory=1 << 30), Allowance(memory=1 << 30)),
        (ServerSettings(cgroup=True), Allowance(groups=True)),
    ],
)
def test_tools_in_a_sandbox_get_the_limits_of_commands(
    monkeypatch: pytest.MonkeyPatch, settings: ServerSettings, allowance: Allowance | None
) -> None:
    monkeypatch.setattr(within, "allowance", None)
    loop = EpollLoop()
    services = Services(loop, settings, {}, retains=False, base="daemon", pace=Pace())
    services.stop()
    loop.close()
    assert within.allowance == allowance
