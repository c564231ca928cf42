"""What the configuration files make of a request's sandbox: another request, with the sandbox that holds.

The user's file speaks for commands of our own client that ask for none. The project's takes away from what
is asked for. A client that says all about its commands itself, such as the stock one, asks for no sandbox
where a person has decided so: such a command is not confined.
"""

from __future__ import annotations

from ..core.narrowing import narrowed, told
from ..core.permissions import bind
from ..core.sandbox import FULL, Sandbox, here
from ..errors import SandboxUnavailable
from ..protocol.sandbox import Disabled, SandboxContext
from ..record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..contract.contract import Ready
    from ..protocol.process import StartParams
    from .environment import Environments


def composed(environments: Environments, params: StartParams, ready: Ready) -> StartParams:
    """Raises InvalidParams, SandboxUnavailable, EnvironmentTooLarge."""
    settings, cwd = ready.settings, ready.asked.cwd
    context, ours = params.sandbox, params.contract is not None
    assert settings is not None
    if not ours and (context is None or isinstance(context.permissions, Disabled)):
        return params
    if context is None and settings.user_sandbox is not None:
        context = _asked(settings.user_sandbox.sandbox, cwd)
    if settings.project_sandbox is not None:
        tmpdir = environments.contract.environment(ready).values.get("TMPDIR")
        context = _less(context or here(Sandbox(FULL), cwd), settings.project_sandbox.sandbox, cwd, tmpdir)
    return replace(params, sandbox=context)


def _asked(sandbox: Sandbox, cwd: str) -> SandboxContext:
    if sandbox.domains:
        raise SandboxUnavailable("this server cannot limit commands to `allow_domain` of [sandbox]")
    return here(sandbox, cwd)


def _less(context: SandboxContext, project: Sandbox, cwd: str, tmpdir: str | None) -> SandboxContext:
    """A context without what the project takes away; the workspace is the request's."""
    asked = bind(context, cwd=cwd, tmpdir=tmpdir)
    theirs = bind(here(project, cwd, context.roots), cwd=cwd, tmpdir=tmpdir)
    return replace(context, permissions=told(narrowed(asked, theirs)))
