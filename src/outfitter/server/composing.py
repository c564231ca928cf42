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
    from ..contract.contract import Ready
    from ..protocol.process import StartParams
    from .environment import Environments


def composed(environments: Environments, params: StartParams, ready: Ready) -> StartParams:
    """Raises InvalidParams, EnvironmentTooLarge."""
    settings, cwd = ready.settings, ready.asked.cwd
    context, ours = params.sandbox, params.contract is not None
    assert settings is not None
    if not ours and (context is None or isinstance(context.permissions, Disabled)):
        return params
    if context is None and settings.user_sandbox is not None:
        mine = settings.user_sandbox.sandbox
        params = replace(params, sandbox=here(mine, cwd), network=_network(mine.domains))
    if settings.project_sandbox is None:
        return params
    tmpdir = environments.contract.environment(ready).values.get("TMPDIR")
    return _less(params, settings.project_sandbox.sandbox, cwd, tmpdir)


def _less(params: StartParams, project: Sandbox, cwd: str, tmpdir: str | None) -> StartParams:
    """A request without what the project takes away; the workspace is the request's."""
    context = params.sandbox or here(Sandbox(FULL), cwd)
    asked = bind(context, cwd=cwd, tmpdir=tmpdir)
    theirs = bind(here(project, cwd, context.roots), cwd=cwd, tmpdir=tmpdir)
    both = narrowed(asked, theirs)
    network = params.network
    if not project.network:
        # Without the network of the host there is at most a proxy, and it knows only what both allow.
        network = _fewer(network, project.domains) if both.network else None
        if network is None:
            both = replace(both, network=False)
    return replace(params, sandbox=replace(context, permissions=told(both)), network=network)


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
