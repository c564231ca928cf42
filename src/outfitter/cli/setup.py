"""outfitter setup: run what makes a worktree usable, if it must be, and show what came of it."""

from __future__ import annotations

import shlex
import sys
import time
from json import dumps
from typing import TYPE_CHECKING, Any

from ..contract.contract import Asked, contract_of
from ..contract.setup.secrets import recalled
from ..env.explain import shown
from ..errors import SetupBlocked, SetupFailed
from ..providers import inherited
from ..record import replace
from .console import say
from .env.asking import folder_of
from .env.output import printable
from .trust import readable

if TYPE_CHECKING:
    from ..contract.contract import Contract
    from ..contract.setup.runs import SetupFiles
    from ..contract.setup.setups import SetupStatus, SetupUse

_LOG_BYTES = 2 << 20  # more than is ever kept
_GOOD = ("applied", "not-applicable")


def setup(directory: str | None, flags: dict[str, Any]) -> int:
    """Runs it unless it was; returns the exit status: 0 when all is well. Raises OutfitterError."""
    contract = contract_of("launcher", inherited.load())
    folder = folder_of(directory)
    settings = contract.settings(folder)
    setups = contract.setups
    use = setups.use(folder, settings)
    if use is None:
        if flags["json"]:
            print(dumps({"state": "none"}))
        else:
            say('no setup is declared here: write script = "setup.sh" under [setup] in outfitter.toml')
        return 0
    if flags["log"]:
        place = setups.place(use)
        if place.read() is None:
            say("the setup has not run here yet: type `outfitter setup`")
        sys.stdout.write(place.read_log(_LOG_BYTES))
        return 0
    state = note = ""
    if not flags["status"]:
        state, note = _run(contract, use, folder, again=flags["again"])
    status = setups.status(use)
    if state == "failed" and status.state in _GOOD:
        status = replace(status, state=state, note=note)  # it could not be run: what is on record is older
    elif note and status.state not in _GOOD:
        status = replace(status, note=note)  # it knows more: what it is waiting for, say
    if flags["json"]:
        print(dumps(_told(status)))
    else:
        _print(status, setups.place(use))
    return 0 if status.state in _GOOD else 1


def _run(contract: Contract, use: SetupUse, folder: str, *, again: bool) -> tuple[str, str]:
    """Runs it if it must; how it is then, and what there is to say about it.

    Its output goes where progress does, to stderr. As it comes, for a person at a terminal. Elsewhere at the
    end: only then is it known which of its values are secret, and the reader may be a program that remembers
    them.
    """
    setups = contract.setups
    place = setups.place(use)
    before = place.read()
    live = sys.stderr.isatty()
    setups.again = again
    setups.log = _show if live else None
    try:
        contract.ready(Asked(folder, {}))  # as the next command would: providers first
    except (SetupBlocked, SetupFailed):
        pass  # shown below
    after = place.read()
    if not live and after is not None and (before is None or before.run != after.run):
        for line in place.read_log(_LOG_BYTES).removesuffix("\n").split("\n"):
            _show(line)
    return setups.last(use)


def _show(line: str) -> None:
    # Of a line that was written over and over, what stayed.
    sys.stderr.write(f"  | {readable(line.rstrip(chr(13)).rpartition(chr(13))[2])}\n")
    sys.stderr.flush()


def _told(status: SetupStatus) -> dict[str, Any]:
    kept, plan = status.kept, status.plan
    told: dict[str, Any] = {
        "worktree": shown(status.worktree),
        "state": status.state,
        "note": shown(status.note),
        "runs": None if plan is None else [shown(word) for word in plan.argv],
        "log": shown(status.log) if status.log else None,
    }
    if kept is not None and kept.state != "running":
        told["last"] = {
            "exitCode": kept.exit_code,
            "outcome": kept.outcome,
            "begunAtMs": kept.begun_ms,
            "seconds": round(kept.seconds, 3),
            "exports": kept.names,
            "secret": list(kept.withheld),
            "lost": [{"kind": kind, "name": shown(name)} for kind, name in kept.lost],
            "inputs": {shown(path): digest for path, digest in kept.inputs.items()},
            "changed": [shown(path) for path in kept.changed],
        }
    return told


def _print(status: SetupStatus, place: SetupFiles) -> None:
    print(f"setup  {printable(shown(status.worktree))}  {status.state}")
    if status.note:
        print(f"  {readable(shown(status.note))}")
    if status.plan is not None and (status.plan.script or status.plan.text):
        print(f"  runs     {readable(shown(shlex.join(status.plan.argv)))}")
    kept = status.kept
    if kept is not None and kept.state != "running":
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(kept.begun_ms / 1000))
        code = "" if kept.exit_code is None else f", exit code {kept.exit_code}"
        print(f"  ran      {when}, {kept.seconds:.1f} s{code}")
        if kept.names:
            print(f"  exports  {', '.join(kept.names)}")
        if kept.withheld:
            if recalled(place, kept) is not None:
                why = "kept in the kernel's keyring for a day, not written to disk"
            else:
                why = "not written to disk; a process that does not have it runs the setup again"
            print(f"  secret   {', '.join(kept.withheld)}: {why}")
        if kept.changed:
            written = ", ".join(printable(shown(path)) for path in kept.changed)
            print(f"  wrote    {written}, which the setup depends on")
        if kept.lost:
            print("  lost     " + ", ".join(f"{kind} {printable(shown(name))}" for kind, name in kept.lost))
    if status.log:
        print(f"  log      {printable(shown(status.log))}")
