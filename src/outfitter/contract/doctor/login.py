"""What a login shell makes of the environment of a command."""

from __future__ import annotations

import os

from ...env.redact import Secrets
from ...record import EMPTY, KW_ONLY, record
from ...shell.start import ShellPlan
from ..programs import find
from ..snapshot import ask
from ..startup import effective, places, whole_value
from .check import Check, Finding
from .machine import Configured, Given, configured, given
from .words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .machine import Machine

# What people ask for by name and get from somewhere else.
PROGRAMS = ("python", "python3", "pip", "node", "npm", "ruby", "go", "cargo", "java", "git", "make", "cc")
_KINDS = ("bash", "zsh", "fish", "tcsh", "csh", "dash", "ksh")


@record
class Login:
    """What a login shell makes of a command's environment: `values` when `state` is "captured".

    `places` has files and lines by variable, `replaces` is the line that gives PATH a whole new value and
    `first` the one that puts its first entry there; `programs` has the path of each program here and there.
    """

    shell: str
    state: str
    values: Mapping[str, str]
    _: KW_ONLY
    reason: str = ""
    places: Mapping[str, Sequence[tuple[str, int]]] = EMPTY
    replaces: tuple[str, int] | None = None
    first: tuple[str, int] | None = None
    programs: Mapping[str, tuple[str | None, str | None]] = EMPTY
    hidden = ("values",)

    def place(self, name: str) -> str:
        known = self.places.get(name)
        return _written(known[-1]) if known else ""


def login(machine: Machine) -> Login | None:
    has = machine.part(given)
    if not machine.asks_login or has.problem or has.refused:
        return None
    settings = machine.part(configured).settings
    found = ask("loginShell", has.values, settings.snapshot_timeout)
    if found.state != "captured":
        return Login(found.shell, found.state, {}, reason=found.reason)
    machine.secrets += Secrets(settings.secret_names).among(found.values)
    name = os.path.basename(found.shell)
    kind = name if name in _KINDS else "sh"
    known = places(ShellPlan([found.shell], kind, startup="report", login=True), has.values)
    path = found.values.get("PATH", "")
    known = {**known, "PATH": [place for place, _ in effective(known.get("PATH", ()), path)]}
    replaces, first = culprits(known["PATH"], machine.home, path)
    programs = {}
    for program in PROGRAMS:
        here, there = (find(program, values, machine.cwd) for values in (has.values, found.values))
        if here or there:
            programs[program] = (here, there)
    return Login(
        found.shell,
        found.state,
        found.values,
        places=known,
        replaces=replaces,
        first=first,
        programs=programs,
    )


def _written(place: tuple[str, int] | None) -> str:
    return "" if place is None else f" ({place[0]}:{place[1]})"


def culprits(
    places: Sequence[tuple[str, int]], home: str, path: str
) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
    """Of the lines that change PATH: the last that gives it a whole new value, of which there is something in
    `path`, and the last that names its first entry."""
    replaces = first = None
    entry = path.partition(":")[0]
    spelled = {entry, *(entry.replace(home, other, 1) for other in ("$HOME", "${HOME}", "~") if home)}
    for place, text in effective(places, path):
        if (value := whole_value(text)) is not None and value in path:
            replaces = place
        if entry and any(one in text for one in spelled):
            first = place
    return replaces, first


def path_login_shell(configured: Configured, given: Given, login: Login | None) -> Finding:
    if login is None:
        return _NOT_ASKED
    if login.state != "captured":
        return Finding(
            "warning",
            f"{login.shell} gave no environment: {login.state}",
            [login.reason],
            f"Run `{login.shell} -l -c true` and correct what it reports.",
        )
    # Only the first of two equal entries is ever searched.
    before, after = (
        list(dict.fromkeys(values.get("PATH", "").split(":"))) for values in (given.values, login.values)
    )
    known = list(login.places.get("PATH", ()))
    last = known[-1] if known else None
    loser, mover = login.replaces or last, login.first or last
    lost = [
        f"PATH[{index}] {entry} is lost in a login shell{_written(loser)}"
        for index, entry in enumerate(before)
        if entry not in after
    ]
    kept = [entry for entry in before if entry in after]
    moved = []
    if kept != [entry for entry in after if entry in kept]:
        # Who puts something new in front has changed the order of nothing.
        mover = mover if after[0] in kept else loser
        moved.append(f"PATH has another order in a login shell{_written(mover)}")
    elif kept and after[: after.index(kept[0])] and not lost:
        moved.append(f"PATH[0] is {after[0]} in a login shell{_written(mover)}")
    filtered = sorted({name for names in given.removed.values() for name in names})
    back = [
        f"{name}, which the policy removes, comes back{login.place(name)}"
        for name in filtered
        if name in login.values
    ]
    every = [f"PATH is changed at {file}:{line}" for file, line in known] if lost or moved else []
    details = [*lost, *moved, *back, *every]
    if not details:
        return Finding("ok", f"a login shell ({login.shell}) leaves PATH and the policy alone")
    said = [f"loses {counted(lost, 'entry')} of PATH"] if lost else []
    if moved:
        said.append("changes the order of PATH")
    if back:
        said.append(f"brings back {counted(back, 'variable')} that the policy removes")
    summary = f"a login shell {' and '.join(said)}"
    startup = configured.settings.startup
    if startup != "report":
        culprit = loser if lost else mover
        changed = "the startup file" if culprit is None else f"{culprit[0]}:{culprit[1]}"
        how = "runs no startup files" if startup == "enforce" else "corrects it afterwards"
        return Finding(
            "warning",
            f"{summary}; Outfitter {how}",
            details,
            "Outfitter's own commands are not affected. For other programs that start login shells, let "
            f'{changed} keep the existing entries (PATH="$PATH:/directory"), or correct PATH after it.',
        )
    return Finding(
        "error",
        f"{summary}, and so do commands that start one",
        details,
        f'Write startup = "enforce" under [shell] in {configured.file}.',
    )


def path_programs(configured: Configured, login: Login | None) -> Finding:
    if login is None:
        return _NOT_ASKED
    if login.state != "captured":
        return Finding("skipped", "the login shell gave no environment: see path.login-shell")
    differ = [
        f"{name} is {here or 'not found'}, but {there or 'not found'} in a login shell"
        for name, (here, there) in login.programs.items()
        if here != there
    ]
    same = [f"{name} is {here}" for name, (here, there) in login.programs.items() if here and here == there]
    if not differ:
        are = "is" if len(same) == 1 else "are"
        return Finding("ok", f"{counted(same, 'program')} {are} the same in a login shell", same)
    names = [line.partition(" ")[0] for line in differ]
    return Finding(
        "warning",
        f"{', '.join(names)}: a different file in a login shell",
        [*differ, *same],
        "If the login shell's file is right, start from its environment: write snapshot = "
        f'"loginShell" under [shell] in {configured.file}. Otherwise, follow path.login-shell.',
    )


_NOT_ASKED = Finding("skipped", "the login shell was not started")

CHECKS = (
    Check("path.login-shell", (configured, given, login), path_login_shell),
    Check("path.programs", (configured, login), path_programs),
)
