"""What the files make of a request's sandbox: whose word counts, and that a project only takes away."""

from __future__ import annotations

import pytest

from outfitter.contract.contract import Asked, Ready
from outfitter.contract.file import parse_settings
from outfitter.contract.merge import merge
from outfitter.core.permissions import Confinement, bind
from outfitter.core.sandbox import Sandbox, here
from outfitter.env.resolve import Rules, Stack
from outfitter.protocol.network import ALLOW, DENY, NetworkParams, NetworkProxy, ProxyRules
from outfitter.protocol.process import StartParams
from outfitter.protocol.sandbox import SandboxContext
from outfitter.protocol.uri import from_path, parse
from outfitter.protocol.wishes import ContractParams
from outfitter.record import replace
from outfitter.server import composing
from outfitter.server.composing import composed

CWD = "/srv/app"


def request(
    sandbox: Sandbox | None = None, network: NetworkParams | None = None, *, ours: bool = True
) -> StartParams:
    return StartParams(
        "p",
        ["true"],
        parse(from_path(CWD)),
        {},
        False,
        contract=ContractParams() if ours else None,
        sandbox=None if sandbox is None else here(sandbox, CWD),
        network=network,
    )


def compose(params: StartParams, user: str = "", project: str = "") -> StartParams:
    files = [
        parse_settings(f"[sandbox]\n{text}" if text else "", file, kind, "/home/me")
        for text, file, kind in (
            (user, "/u/config.toml", "user"),
            (project, f"{CWD}/outfitter.toml", "project"),
        )
    ]
    asked = Asked(CWD, {})
    ready = Ready(asked, Stack((), (), Rules(tidy=False, total=None)), merge(files[0], files[1]))
    return composed(params, ready)


def means(params: StartParams) -> Confinement:
    assert isinstance(params.sandbox, SandboxContext)
    return bind(params.sandbox, cwd=CWD, tmpdir=None)


def allowed(params: StartParams) -> list[str] | None:
    """The domains that a command reaches; None for no proxy."""
    if params.network is None:
        return None
    assert params.network.enforced
    assert params.network.proxy is not None
    assert params.network.proxy.timeout_ms is None
    return [name for name, access in params.network.proxy.rules.domains if access == ALLOW]


def proxy(*domains: tuple[str, str], timeout: int | None = None) -> NetworkParams:
    return NetworkParams(NetworkProxy(ProxyRules(domains=domains), timeout), enforced=True)


MINE = 'mode = "workspace-write"\nallow_write = ["/var/cache"]\nallow_domain = ["*.org"]\n'


def test_the_users_word_is_for_our_clients_that_have_none() -> None:
    told = compose(request(), MINE)
    assert (means(told).writable, allowed(told)) == (("/srv/app", "/tmp", "/var/cache"), ["*.org"])
    reading = request(Sandbox.read_only())
    assert compose(reading, MINE) == reading
    stock = request(ours=False)
    assert compose(stock, MINE) is stock


def test_a_stock_client_without_a_sandbox_is_left_alone_and_with_one_is_not() -> None:
    project = 'mode = "read-only"\n'
    for stock in (request(ours=False), request(Sandbox.full_access(), ours=False)):
        assert compose(stock, project=project) is stock
    told = compose(request(Sandbox.workspace_write(), ours=False), project=project)
    assert (means(told).writable, means(told).network) == ((), False)


def test_a_project_takes_away_files() -> None:
    told = compose(request(), MINE, 'mode = "workspace-write"\ndeny_read = [".env"]\n')
    assert means(told).writable == ("/srv/app", "/tmp")
    assert means(told).access("/srv/app/.env") == "deny"
    assert compose(request(), project='deny_read = [".env"]\n').network is None


def test_a_project_confines_who_asks_for_everything() -> None:
    told = compose(request(Sandbox.full_access()), project='mode = "workspace-write"\n')
    assert (means(told).files, means(told).network, allowed(told)) == (True, False, None)


@pytest.mark.parametrize(
    ("asked", "project", "left"),
    [
        # Who has no network gets none.
        (None, 'allow_domain = ["pypi.org"]', None),
        # Who has all of it gets what the project allows.
        ("all", 'allow_domain = ["pypi.org"]', ["pypi.org"]),
        ("all", "", None),
        # Who has some of it gets what both allow.
        (proxy(("*.org", ALLOW)), 'allow_domain = ["pypi.org", "pypi.com"]', ["pypi.org"]),
        (proxy(("PyPI.org", ALLOW), timeout=5), 'allow_domain = ["*.org"]', ["pypi.org"]),
        (proxy(("a.com", ALLOW)), 'allow_domain = ["b.com"]', None),
        (proxy(("a.com", ALLOW)), "", None),
    ],
)
def test_a_project_takes_away_domains(
    asked: NetworkParams | str | None, project: str, left: list[str] | None
) -> None:
    network = asked if isinstance(asked, NetworkParams) else None
    params = request(Sandbox.workspace_write(network=asked is not None), network)
    told = compose(params, project=f'mode = "workspace-write"\n{project}\n')
    assert allowed(told) == left
    assert means(told).network is (left is not None)


def test_what_a_request_denies_stays_denied() -> None:
    network = proxy(("*.org", ALLOW), ("bad.org", DENY))
    told = compose(
        request(Sandbox.workspace_write(network=True), network),
        project='mode = "workspace-write"\nallow_domain = ["**.org"]\n',
    )
    assert told.network is not None
    assert told.network.proxy is not None
    assert told.network.proxy.rules.domains == (("*.org", ALLOW), ("bad.org", DENY))


def test_a_project_that_only_hides_leaves_the_network() -> None:
    network = proxy(("*.org", ALLOW), timeout=5)
    params = request(Sandbox.workspace_write(network=True), network)
    assert compose(params, project='deny_read = [".env"]\n').network == network


def test_the_temporary_directory_is_the_commands() -> None:
    project = 'mode = "workspace-write"\n'
    params = request()
    params = replace(params, env={"TMPDIR": "/var/t"})
    assert means(compose(params, project=project)).writable == ("/srv/app", "/tmp", "/var/t")


def test_contexts_are_remembered_and_so_many_at_most() -> None:
    text = '[sandbox]\nmode = "read-only"\n'
    settings = merge(
        parse_settings(text, "/u/config.toml", "user", None),
        parse_settings(text, f"{CWD}/outfitter.toml", "project", None),
    )
    stack = Stack((), (), Rules(tidy=False, total=None))

    def sandbox(cwd: str) -> object:
        return composed(request(), Ready(Asked(cwd, {}), stack, settings)).sandbox

    assert sandbox("/a") is sandbox("/a")
    for number in range(composing._REMEMBERED):
        sandbox(f"/{number}")
    assert len(composing._known) <= composing._REMEMBERED
