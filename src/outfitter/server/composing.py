"""What the configuration files make of a request's sandbox.

The user's file speaks for commands of our own client that ask for none. The project's takes away from what
is asked for. A client that says all about its commands itself, such as the stock one, asks for no sandbox
where a person has decided so: such a command is not confined.
"""

from __future__ import annotations

from ..core.sandbox import FULL, Sandbox, here
from ..errors import SandboxUnavailable
from ..protocol.sandbox import Disabled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..contract.settings import Settings
    from ..protocol.process import StartParams
    from ..protocol.sandbox import SandboxContext


def composed(
    params: StartParams, settings: Settings, cwd: str
) -> tuple[SandboxContext | None, Sandbox | None]:
    """The sandbox of a command, None for none, and what the project takes away from it.

    Raises SandboxUnavailable.
    """
    context, ours = params.sandbox, params.contract is not None
    if not ours and (context is None or isinstance(context.permissions, Disabled)):
        return context, None
    if context is None and settings.user_sandbox is not None:
        context = _asked(settings.user_sandbox.sandbox, cwd)
    if settings.project_sandbox is None:
        return context, None
    project = settings.project_sandbox.sandbox
    return context or _asked(Sandbox(FULL), cwd), project


def _asked(sandbox: Sandbox, cwd: str) -> SandboxContext:
    if sandbox.domains:
        raise SandboxUnavailable("this server cannot limit commands to `allow_domain` of [sandbox]")
    return here(sandbox, cwd)
