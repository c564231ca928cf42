"""What a request's sandbox means for its command: a step of its start."""

from __future__ import annotations

from ..contract.contract import Questions
from ..core.permissions import Confinement, bind
from ..core.starting import confine, refuse
from ..errors import SandboxUnavailable
from ..protocol.sandbox import Disabled, External

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.launch import Launch
    from ..core.starting import Step
    from ..protocol.sandbox import SandboxContext
    from .services import Services

# The reference's words, and its exit code.
_NO_LANDLOCK = (
    "linux-sandbox: filesystem-restricted execution requires bubblewrap to isolate app-server sockets\n"
)
_PANIC = 101


def step(
    services: Services, context: SandboxContext, launch: Launch, *, isolated: bool = False
) -> tuple[bool, Step]:
    """Confines the command as its client asked for, and whether it does: what is allowed everything is not.

    Of a `disabled` profile nothing is enforced. What somebody else confines gets the filter of system calls
    from us, where we can; its network is ours to close, whatever happens. With `isolated` the command has no
    network but one of its own, whatever the profile says. Raises InvalidParams, SandboxUnavailable,
    LookFirst.
    """
    profile = context.permissions
    if isinstance(profile, Disabled) and not isolated:
        return False, confine(None)
    confinement = bind(context, cwd=launch.cwd, tmpdir=launch.env.get("TMPDIR"))
    if context.landlock and confinement.files and not confinement.writes_all:
        return False, refuse(_NO_LANDLOCK, _PANIC)
    if confinement.writes_all:
        confinement = Confinement(False, confinement.network)
    try:
        services.sandboxes.finder.find()
    except SandboxUnavailable:
        if isinstance(profile, External) and profile.network and not isolated:
            return False, confine(None)
        raise
    if confinement.globs and services.sandboxes.scans.found(confinement) is None:
        raise LookFirst(confinement)
    return True, confine(confinement)


class LookFirst(Exception):
    """The files must be looked at before the command can be started, which takes long."""

    def __init__(self, confinement: Confinement) -> None:
        super().__init__()
        self.confinement = confinement

    def questions(self, services: Services) -> Questions:
        """What is to be done in a thread."""
        scans, confinement = services.sandboxes.scans, self.confinement
        what = "the files that its sandbox hides"
        return Questions(confinement, what, lambda _: scans.look(confinement))
