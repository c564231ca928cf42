"""What all connections share: what an operator's settings mean for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from outfitter.core.http import prepare
from outfitter.errors import AddressRefused, HttpFailed
from outfitter.host.http.requests import Exchange, Head
from outfitter.host.sandbox.limits import Allowance
from outfitter.host.tools import within
from outfitter.loop import EpollLoop
from outfitter.pace import Pace
from outfitter.server.limits import HTTP_RESOLVING, RESOLVING
from outfitter.server.services import Services
from outfitter.server.settings import ServerSettings
from tests.support.sandbox import need_sandbox


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


def test_a_server_that_has_confined_nothing_tries_it_in_another_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    need_sandbox()
    monkeypatch.setattr("outfitter.server.services._PROBE_SECONDS", 0.0)
    loop = EpollLoop()
    env = {"HOME": str(tmp_path), "OUTFITTER_HOME": str(tmp_path)}
    services = Services(loop, ServerSettings(), env, retains=False, base="daemon", pace=Pace())

    def look() -> None:
        if services._bubblewrap is None:
            loop.call_later(0.01, look)
        else:
            loop.stop()

    look()
    services.get_ready_to_confine()
    loop.run()
    assert services.used_sandboxes is None  # nothing is kept but the answer
    assert services.sandboxes.finder._found is not None
    services.stop()
    loop.close()


def test_slow_names_of_one_principal_hold_up_no_other_ones_proxies() -> None:
    answer, asked = threading.Event(), list[str]()
    ended, wanted = list[str](), True

    def look(host: str) -> Sequence[str]:
        asked.append(host)
        if host != "quick.test":
            answer.wait()
        return ["192.0.2.1"]

    def over(host: str) -> None:
        nonlocal wanted
        ended.append(host)
        if host == "quick.test":
            wanted = False  # the command that asked for the others is gone
            answer.set()
        if len(ended) == len(names):
            loop.stop()

    loop = EpollLoop()
    services = Services(loop, ServerSettings(), {}, retains=False, base="daemon", pace=Pace())
    resolver = services.resolver
    resolver._ask = look
    names = [*(f"n{number}.slow.test" for number in range(200)), "quick.test"]
    for host in names:
        principal = "another" if host == "quick.test" else "one"
        resolver.resolve(host, lambda _, host=host: over(host), principal, lambda: wanted)  # type: ignore[misc]
    giving_up = loop.call_later(60.0, loop.stop)
    loop.run()
    giving_up.cancel()
    answer.set()
    assert ended[0] == "quick.test"
    assert sorted(ended) == sorted(names)
    assert len(asked) <= RESOLVING + 1  # nobody asks for what nobody waits for
    services.stop()
    loop.close()


class Nobody:
    """Whose request it is, when nobody waits for it any more; `over` is called in any case."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over

    def began(self, head: Head) -> None: ...
    def piece(self, data: bytes) -> None: ...

    def finished(self) -> None:
        self._over()

    def failed(self, error: HttpFailed | AddressRefused) -> None:
        self._over()


def test_slow_names_of_one_principal_hold_up_no_other_ones_requests() -> None:
    answer, asked = threading.Event(), list[str]()

    def look(host: str) -> Sequence[str]:
        asked.append(host)
        if host != "quick.test":
            answer.wait()
        return []

    loop = EpollLoop()
    services = Services(loop, ServerSettings(), {}, retains=False, base="daemon", pace=Pace())
    pool = services.http.pool
    pool.resolver._ask = look
    ended = list[str]()

    def ask(host: str, principal: str) -> Exchange:
        def over() -> None:
            ended.append(host)
            loop.stop()

        outgoing = prepare("GET", f"http://{host}/", (), b"", {})
        asking = Exchange(pool, outgoing, Nobody(over), principal, follow=False)
        asking.begin()
        return asking

    for number in range(300):
        ask(f"n{number}.slow.test", "one").close()  # its time is over, or it was cancelled
    ask("quick.test", "another")
    giving_up = loop.call_later(30.0, loop.stop)
    loop.run()
    giving_up.cancel()
    answer.set()
    assert ended == ["quick.test"]
    assert len(asked) <= HTTP_RESOLVING + 1
    services.stop()
    loop.close()
