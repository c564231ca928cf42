"""What the configuration files make of a request's sandbox: another request, with the sandbox that holds.

The user's file speaks for commands of our own client that ask for none. The project's takes away from what
is asked for. A client that says all about its commands itself, such as the stock one, asks for no sandbox
where a person has decided so: such a command is not confined.
"""

from __future__ import annotations

from ..core.narrowing import narrowed, told
from ..core.permissions import bind
from ..core.sandbox import FULL, Sandbox, common_domains, here
from ..protocol.network import ALLOW, NetworkParams, NetworkProxy, ProxyRules
from ..protocol.sandbox import Disabled
from ..record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..contract.contract import Ready
    from ..contract.settings import Settings
    from ..protocol.process import StartParams
    from ..protocol.sandbox import SandboxContext

# Contexts that are remembered: to make one takes 0.3 ms, and clients run commands in a few directories. Each
# key has identities of what is kept beside its context, so they stay taken.
_REMEMBERED = 64
_known: dict[tuple[object, ...], tuple[object, SandboxContext]] = {}


def composed(params: StartParams, ready: Ready) -> StartParams:
    """Raises InvalidParams."""
    settings, cwd = ready.settings, ready.asked.cwd
    context, ours = params.sandbox, params.contract is not None
    assert settings is not None
    if not ours and (context is None or isinstance(context.permissions, Disabled)):
        return params
    if context is None and settings.user_sandbox is not None:
        mine = settings.user_sandbox.sandbox
        context = _remembered((id(settings), cwd), settings, lambda: here(mine, cwd))
        params = replace(params, sandbox=context, network=_network(mine.domains))
    if settings.project_sandbox is None:
        return params
    if context is None:
        context = _remembered((id(settings), cwd), settings, lambda: here(Sandbox(FULL), cwd))
    return _less(params, context, settings, settings.project_sandbox.sandbox, cwd, _tmpdir(params, ready))


def _less(
    params: StartParams,
    context: SandboxContext,
    settings: Settings,
    project: Sandbox,
    cwd: str,
    tmpdir: str | None,
) -> StartParams:
    """A request without what the project takes away; the workspace is the request's."""
    asked = bind(context, cwd=cwd, tmpdir=tmpdir)
    network, reaches = params.network, asked.network
    if not project.network:
        # Without the network of the host there is at most a proxy, and it knows only what both allow.
        network = _fewer(network, project.domains) if asked.network else None
        reaches = network is not None

    def make() -> SandboxContext:
        theirs = bind(here(project, cwd, context.roots), cwd=cwd, tmpdir=tmpdir)
        both = replace(narrowed(asked, theirs), network=reaches)
        return replace(context, permissions=told(both))

    key = (id(context), id(settings), cwd, tmpdir, reaches)
    less = _remembered(key, (context, settings), make)
    return replace(params, sandbox=less, network=network)


def _tmpdir(params: StartParams, ready: Ready) -> str | None:
    """TMPDIR of the command."""
    if "TMPDIR" in params.env:
        return params.env["TMPDIR"]
    return None if "TMPDIR" in ready.asked.unset else ready.stack.values.get("TMPDIR")


def _remembered(key: tuple[object, ...], held: object, make: Callable[[], SandboxContext]) -> SandboxContext:
    known = _known.get(key)
    if known is None:
        if len(_known) >= _REMEMBERED:
            del _known[next(iter(_known))]
        known = _known[key] = (held, make())
    return known[1]


def _network(domains: tuple[str, ...]) -> NetworkParams | None:
    """A proxy for these domains; None for none of them."""
    if not domains:
        return None
    rules = ProxyRules(domains=tuple([(name, ALLOW) for name in domains]))
    return NetworkParams(NetworkProxy(rules), enforced=True)


def _fewer(network: NetworkParams | None, domains: tuple[str, ...]) -> NetworkParams | None:
    """What is left of a network if only these domains may be reached; None for nothing.

    Nobody is asked about other hosts: an answer could only add.
    """
    if network is None or network.proxy is None or not network.enforced:
        return _network(domains)
    rules = network.proxy.rules
    allowed = [name.lower() for name, access in rules.domains if access == ALLOW]
    left = common_domains(allowed, domains)
    if not left:
        return None
    denied = tuple([rule for rule in rules.domains if rule[1] != ALLOW])
    fewer = replace(rules, domains=(*((name, ALLOW) for name in left), *denied))
    return NetworkParams(NetworkProxy(fewer), enforced=True)
