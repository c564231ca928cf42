"""What a request's sandbox means for its command: a step of its start, and what must be found before it."""

from __future__ import annotations

from ..core.permissions import Confinement, bind, has_globs
from ..core.protecting import below, keeping
from ..core.starting import confine, refuse
from ..errors import LimitExceeded, SandboxUnavailable
from ..host.sandbox.refusal import TooWide, Unenforceable, refusal
from ..protocol.sandbox import Disabled, External
from .call import LATER
from .limits import SANDBOX_WRITABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..contract.contract import Ready
    from ..core.launch import Launch
    from ..core.starting import Step
    from ..host.sandbox import paths
    from ..protocol.process import StartParams
    from ..protocol.sandbox import SandboxContext
    from .call import Call, Handler, Later
    from .services import Services

    # What globs match, or why nobody can say.
    Matched = paths.Matched | Unenforceable

# The reference's words, and its exit code.
_NO_LANDLOCK = (
    "linux-sandbox: filesystem-restricted execution requires bubblewrap to isolate app-server sockets\n"
)
_PANIC = 101


def patterns(
    services: Services, context: SandboxContext, ready: Ready, protects: tuple[str, ...]
) -> Confinement | None:
    """The confinement of a command, if it hides what globs match, or protects what is found in folders below.
    `protects` are names that files of settings keep read-only.

    Raises InvalidParams, EnvironmentTooLarge, LaunchRefused.
    """
    protects = (*services.protects, *protects)
    if not has_globs(context.permissions) and not below(protects):
        return None
    tmpdir = services.environments.contract.environment(ready).values.get("TMPDIR")
    confinement = keeping(bind(context, cwd=ready.asked.cwd, tmpdir=tmpdir), protects)
    return confinement if confinement.globs or below(confinement.kept) else None


def matched_first(call: Call, params: StartParams, confinement: Confinement, begin: Handler) -> Later:
    """Has a thread walk the trees of globs, which may be large: 5 us for each name. Then `begin` gets what
    matches, and the command starts at once: see `host.sandbox.paths.look` for what is looked at again."""
    from ..host.sandbox.paths import match

    def walk() -> Matched:
        try:
            return match(confinement, lambda: call.open)
        except TooWide as why:
            what, remedy = (
                f"a glob that the sandbox hides, below {why.folder}",
                "begin it with a deeper folder",
            )
            raise LimitExceeded(what, why.limit + 1, why.limit, "names or more", remedy) from None
        except Unenforceable as why:
            return why  # which the command says, as with the reference

    def use(matched: Matched) -> None:
        call.run(begin, matched)

    tell = params.process_id if params.contract is not None else None
    what = "the files that its sandbox hides"
    call.services.asking.beside(call, walk, use, params.process_id, tell=tell, what=what)
    return LATER


def step(
    services: Services,
    context: SandboxContext,
    launch: Launch,
    matched: Matched | None = None,
    *,
    isolated: bool = False,
    protects: tuple[str, ...] = (),
) -> tuple[bool, Step]:
    """Confines the command as its client asked for, and whether it does: what is allowed everything is not.

    Of a `disabled` profile nothing is enforced. What somebody else confines gets the filter of system calls
    from us, where we can; its network is ours to close, whatever happens. With `isolated` the command has no
    network but one of its own, whatever the profile says. `matched` is what `matched_first` has found;
    `protects` are names that the files of settings keep read-only, beside those of the operator.

    Raises InvalidParams, LimitExceeded, SandboxUnavailable.
    """
    profile = context.permissions
    if isinstance(profile, Disabled) and not isolated:
        return False, confine(None)
    confinement = bind(context, cwd=launch.cwd, tmpdir=launch.env.get("TMPDIR"))
    if context.landlock and confinement.files and not confinement.writes_all:
        return False, refuse(_NO_LANDLOCK, _PANIC)
    if (places := len(confinement.writable)) > SANDBOX_WRITABLE:
        what, remedy = "the sandbox of a command", "name a folder above some of them"
        raise LimitExceeded(what, places, SANDBOX_WRITABLE, "places that may be written", remedy)
    if confinement.writes_all:
        confinement = Confinement(False, confinement.network)
    try:
        services.sandboxes.finder.find()
    except SandboxUnavailable:
        if isinstance(profile, External) and profile.network and not isolated:
            return False, confine(None)
        if not services.landlock:
            raise
    if isinstance(matched, Unenforceable):
        return False, refuse(refusal(matched), 1)
    return True, confine(keeping(confinement, protects), matched)
