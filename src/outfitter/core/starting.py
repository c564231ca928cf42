"""How a command is really started: a list of pure steps, each a `Launch` made of another.

A step may have something to say about what it did, a note; who starts the command reads them. The order of
the steps is the order of the words in front of the command, from the inside out.
"""

from __future__ import annotations

from ..record import replace
from ..refusals import InvalidParams
from ..shell.look import is_plain
from ..shell.names import is_shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..env.behind import Behind
    from ..shell.look import Look
    from ..shell.start import Probe, ShellPlan
    from ..shell.state import ShellState
    from ..shell.wrappers import Account
    from .launch import Launch
    from .permissions import Confinement

    Note = ShellPlan
    Step = Callable[[Launch], tuple[Launch, Note | None]]


def through(launch: Launch, steps: Iterable[Step]) -> tuple[Launch, tuple[Note, ...]]:
    """The launch that all steps make of one, and their notes."""
    notes = []
    for step in steps:
        launch, note = step(launch)
        if note is not None:
            notes.append(note)
    return launch, tuple(notes)


def shell(login: str, startup: str, probe: Probe | None, look: Look, account: Callable[[], Account]) -> Step:
    """A shell does not undo the contract: its flags and its environment keep startup files out, or make good
    what they do. So does one behind `env`, `nice` and the like, and that of a script. Anything else stays as
    it is. Raises LoginRejected."""
    from ..shell.start import prepare

    def step(launch: Launch) -> tuple[Launch, Note | None]:
        if is_shell(launch.program) and is_plain(launch.argv):
            plan = prepare(
                launch.program,
                launch.argv,
                login=login,
                startup=startup,
                env=launch.env,
                cwd=launch.cwd,
                probe=probe,
            )
        else:
            from ..shell.chain import arrange

            plan = arrange(
                launch.program,
                launch.argv,
                login=login,
                startup=startup,
                env=launch.env,
                cwd=launch.cwd,
                probe=probe,
                look=look,
                account=account,
            )
        if plan is None:
            return launch, None
        env = plan.environment(launch.env) if plan.withheld or plan.added else launch.env
        if plan.program:
            return replace(launch, program=plan.program, found="", argv=plan.argv, env=env), plan
        return replace(launch, argv=plan.argv, env=env), plan

    return step


def restore(name: str, left: ShellState, after: int) -> Step:
    """The shell begins with what startup files left in another one; `after` words follow its command text."""
    from ..shell.state import restored

    def step(launch: Launch) -> tuple[Launch, Note | None]:
        argv, env = restored(name, left, launch.argv, after, launch.env)
        return replace(launch, argv=argv, env=env), None

    return step


# What names a startup file, or a folder of them, wherever that is.
_NAMES_FILES = ("BASH_ENV", "ENV", "ZDOTDIR")


def mask(paths: tuple[str, ...]) -> Step:
    """Startup files look empty, for the command and all its descendants."""
    from ..env.behind import KEPT

    def step(launch: Launch) -> tuple[Launch, Note | None]:
        env = {
            name: value
            for name, value in launch.env.items()
            if name.removeprefix(KEPT) not in _NAMES_FILES  # behind a tool, too
        }
        return replace(launch, masks=paths, env=env), None

    return step


def confine(confinement: Confinement | None, matched: object = None) -> Step:
    """The command runs in a sandbox, with all that stands in front of it. Without a confinement its caller
    asked for a sandbox that allows everything. `matched` is what the confinement's globs match."""

    def step(launch: Launch) -> tuple[Launch, Note | None]:
        return replace(launch, sandboxed=True, confinement=confinement, matched=matched), None

    return step


def connect(before: Callable[[int, Callable[[], None]], None]) -> Step:
    """The command reaches others only through what is made before it runs, inside its sandbox."""

    def step(launch: Launch) -> tuple[Launch, Note | None]:
        return replace(launch, before=before), None

    return step


def refuse(text: str, code: int) -> Step:
    """What a client sees instead of a command that cannot be confined as it was asked for: why, and an exit
    code, as the reference has it."""

    def step(launch: Launch) -> tuple[Launch, Note | None]:
        return replace(refused(launch, text, code), sandboxed=True), None

    return step


def refused(launch: Launch, text: str, code: int) -> Launch:
    """A launch that says why there is no other."""
    argv = ["/bin/sh", "-c", 'printf %s "$1" >&2; exit "$2"', "sh", text, str(code)]
    return replace(launch, program=argv[0], argv=argv, env={}, found="", masks=(), confinement=None)


def wrap(prefix: tuple[str, ...], between: Sequence[str], holds: Behind, ahead: Sequence[str] = ()) -> Step:
    """A tool in front of the command makes its environment; `between` the two stands a program of ours, which
    makes good what a layer has refused, and another `ahead` of the tool, where its files are frozen. Raises
    InvalidParams."""

    def step(launch: Launch) -> tuple[Launch, Note | None]:
        check_name(launch)
        tool = [*prefix, *between]
        if holds.frozen:
            from ..env.ahead import words

            tool = [*ahead, *words(holds.frozen, tool)]
        argv = [*tool, *holds.words, launch.program, *launch.argv[1:]]
        env = holds.given(launch.env)
        return replace(launch, program=argv[0], found="", argv=argv, env=env), None

    return step


def check_name(launch: Launch) -> None:
    """Raises InvalidParams for a name of its own, which a command behind a tool cannot have."""
    if launch.renamed:
        raise InvalidParams("arg0 is lost: a provider of this project starts its commands (mode wrap)")
