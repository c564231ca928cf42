"""Whether commands can be confined on this machine: it is tried."""

from __future__ import annotations

from ...host.installkey import state_folder
from ...record import record
from .check import Check, Finding
from .machine import Configured, configured
from .state import can_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine


@record
class Sandboxing:
    """What came of the trial: the program that makes sandboxes, or `why` there is none. `proc`: a sandbox has
    its own view of its processes. `limits` are those of a server without flags."""

    program: str = ""
    proc: bool = True
    why: str = ""
    limits: tuple[str, ...] = ()
    remedy: str = ""  # without such a view
    hint: str = ""  # what can be done without the program


def sandboxing(machine: Machine) -> Sandboxing:
    from ...errors import SandboxUnavailable
    from ...host.sandbox.bubblewrap import Finder
    from ...host.sandbox.landlock import HINT
    from ...host.sandbox.landlocked import lack, version
    from ...host.sandbox.limits import Allowance, Limits
    from ...host.sandbox.nesting import around, unmask
    from ...host.sandbox.placeholders import REMEDY

    folder = f"{state_folder(machine.environ, machine.home)}/sandbox"
    if not can_write(folder):
        return Sandboxing(why=f"a sandbox needs a few files in {folder}, which cannot be written: {REMEDY}")
    try:
        found = Finder().find()
    except SandboxUnavailable as error:
        return Sandboxing(why=error.why, hint="" if lack(version()) else HINT)
    limits = tuple(Limits(Allowance()).told())
    return Sandboxing(found.path, found.proc, limits=limits, remedy="" if found.proc else unmask(around()))


def sandbox_works(configured: Configured, sandboxing: Sandboxing) -> Finding:
    settings = configured.settings
    words = [said for said in (settings.user_sandbox, settings.project_sandbox) if said is not None]
    wanted = bool(words) or (settings.confined_setup, settings.confined_providers) != ("off", "off")
    if not sandboxing.why:
        details = [f"made by {sandboxing.program}", *sandboxing.limits]
        if sandboxing.proc:
            return Finding("ok", "commands can be confined", details)
        summary = "commands can be confined, but /proc is empty inside: ps and /dev/fd do not work"
        return Finding("warning", summary, details, f"{sandboxing.remedy}.")
    problem, _, remedy = sandboxing.why.partition(": ")
    summary = f"commands cannot be confined: {problem}"
    remedy = (
        f"{remedy[:1].upper()}{remedy[1:]}." if remedy else "See `outfitter run --sandbox read-only -- true`."
    )
    hint = [sandboxing.hint] if sandboxing.hint else []
    if wanted:
        places = [str(said.source("mode")) for said in words]
        details = [f"[sandbox] asks for it: {place}" for place in places]
        return Finding("error", summary, [*details, *hint], remedy)
    return Finding("warning", summary, ["a command that asks for a sandbox is refused", *hint], remedy)


CHECKS = (Check("sandbox.works", (configured, sandboxing), sandbox_works),)
