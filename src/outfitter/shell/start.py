"""Shells that cannot undo the contract: what is really executed when a command is a shell.

A shell's startup files run after the environment was resolved, and may change all of it. "enforce" keeps them
out, "repair" lets them run and then puts the environment right in the same shell, "report" lets them run and
has the shell say what they did. The command text, $0 and the parameters are always what was asked for.
Pure: what a shell would find on this machine is not looked at.
"""

from __future__ import annotations

from ..env.names import MARK
from ..errors import LoginRejected
from ..record import KW_ONLY, fields, record, replace
from .call import CARRIER, END, OURS, RARE, READONLY, rewritten
from .names import shell_called

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .call import Family, ShellCall

# One pair of an environment is at most 131,071 bytes on Linux, and a character four of them.
_CARRIED = 30_000
_CARRIED_ASCII = 120_000
# Plans for the usual command line, with this in the place of the text, which cannot be part of one.
_TEXT = "\0"
_USUAL = ("-lc", "-c")
_NO_TEXT = ("", "-", "+")  # begins like a flag, or not at all
_REMEMBERED = 8  # a client sends the same environment again and again
_REMEMBERED_SIZE = 64 * 1024


@record
class Probe:
    """Where a shell says what its environment is after its startup files: a FIFO that someone reads.

    `mark` is a word that nobody can guess; it comes last, so what ends with it is complete.
    """

    path: str
    mark: str


@record
class ContractFlag:
    """Something about a command by which the contract may not hold for all of it.

    `code` is for programs: "login-shell", "startup-files", "new-environment", "other-user", "unknown-option"
    or "unseen". `what` says it for people; no value of a variable is in it.
    """

    code: str
    what: str


@record
class ShellPlan:
    """How a shell is really started.

    `argv`         the words to execute; argv[0] as given, less the dash of a login shell that is none
    `shell`        "bash", "sh", "dash", "ksh", "zsh", "fish", "tcsh" or "csh"; "" for no shell, but flags
    `login_asked`  the caller asked for a login shell
    `login`        it still is one
    `interactive`  it is interactive, or will be if its stdin is a terminal
    `startup`      "enforce", "repair" or "report", as applies; `notes` says why if it is not what was asked
    `withheld`     names to leave out of the environment, because they would make this shell run code
    `added`        pairs to put into it for this start; their values are as secret as the environment's
    `probe`        the shell reports its environment after its startup files
    `changed`      the words are not those that were asked for
    `notes`        what could not be done, and what cannot be kept out
    `program`      what is executed instead of the program that was asked for: the interpreter of a script
    `through`      the programs in front of the shell, outermost first
    `flags`        where the contract may not hold for all of the command
    """

    argv: list[str]
    shell: str
    _: KW_ONLY
    startup: str
    login_asked: bool = False
    login: bool = False
    interactive: bool = False
    withheld: tuple[str, ...] = ()
    added: tuple[tuple[str, str], ...] = ()
    probe: bool = False
    changed: bool = False
    notes: tuple[str, ...] = ()
    program: str = ""
    through: tuple[str, ...] = ()
    flags: tuple[ContractFlag, ...] = ()

    def __repr__(self) -> str:
        # Of what is added, the names: this may end up in a log.
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields(self) if name != "added")
        return f"ShellPlan({shown}, added={[name for name, _ in self.added]!r})"

    def of(self, text: str) -> ShellPlan:
        """The same for a command text."""
        return replace(self, argv=[word.replace(_TEXT, text) for word in self.argv])

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment to start it with, made of the one that the command is to have."""
        exact = {name: value for name, value in env.items() if name not in self.withheld}
        exact.update(self.added)
        return exact


_forms: dict[tuple[object, ...], ShellPlan] = {}


@record
class Seen:
    """What a shell's environment was after its startup files, and which of its names nothing can change."""

    env: dict[str, str]
    readonly: tuple[str, ...] = ()


def prepare(
    program: str,
    argv: Sequence[str],
    *,
    login: str,
    startup: str,
    env: Mapping[str, str],
    cwd: str,
    probe: Probe | None = None,
    shell: str = "",
) -> ShellPlan | None:
    """How to start a shell so that its command gets `env` and `cwd`; None if the program is no shell.

    `shell` is the kind of shell that the program is, where its name does not tell. `login` is "allow",
    "strip" or "reject"; `startup` is "enforce", "repair" or "report". Raises `LoginRejected` for a login
    shell that is not allowed.
    """
    usual = len(argv) == 3 and argv[1] in _USUAL and argv[2][:1] not in _NO_TEXT and _TEXT not in argv[0]
    if probe is not None or not usual:
        return _prepare(program, argv, login, startup, env, cwd, probe, shell)
    # What agents send differs in the text alone, and all else has been thought of before.
    known = (program, argv[0], argv[1], login, startup, cwd, shell, *env.items())
    form = _forms.get(known)
    if form is None:
        form = _prepare(program, [argv[0], argv[1], _TEXT], login, startup, env, cwd, None, shell)
        if form is None:
            return None
        if sum(len(value) for _, value in form.added) <= _REMEMBERED_SIZE:
            if len(_forms) >= _REMEMBERED:
                _forms.clear()
            _forms[known] = form
    return form.of(argv[2])


def _prepare(
    program: str,
    argv: Sequence[str],
    login: str,
    startup: str,
    env: Mapping[str, str],
    cwd: str,
    probe: Probe | None,
    shell: str,
) -> ShellPlan | None:
    shell = shell or shell_called(program.rpartition("/")[2])
    if not shell:
        return None
    family = family_of(shell)
    argv = list(argv) or [program]
    call = family.read(argv, env)
    asked = call.login != ""
    if asked and login == "reject":
        raise LoginRejected(shell, call.login, by_name=call.login_cuts[0][0] == 0)
    still = asked and login == "allow"
    notes: list[str] = []
    if startup != "enforce":
        reason = _unwrappable(family, call)
        if not reason:
            return _watched(family, call, startup, env, cwd, probe, still)
        notes.append(f"{reason}: its startup files are kept out instead ({startup} is not possible)")
    silence = family.silence(call, env, still)
    cuts = list(silence.cuts)
    if not silence.login:
        cuts += call.login_cuts
    words = _named(rewritten(argv, cuts, call.at, silence.flags), argv[0], program)
    return ShellPlan(
        words,
        shell,
        startup="enforce",
        login_asked=asked,
        login=silence.login,
        interactive=call.may_interact,
        withheld=tuple(silence.withheld),
        added=tuple(silence.added),
        changed=words != argv,
        notes=(*notes, *silence.notes),
    )


def _watched(
    family: Family,
    call: ShellCall,
    startup: str,
    env: Mapping[str, str],
    cwd: str,
    probe: Probe | None,
    login: bool,
) -> ShellPlan:
    """A shell that reads its startup files, and then our text before the command's."""
    argv = list(call.argv)
    text = ""
    added: list[tuple[str, str]] = []
    flags: list[str] = []
    reads = family.reads(call, env, login)
    if reads and (startup == "repair" or probe is not None):
        # How many variables it takes is known only with the text, which names them: so the names come first.
        body, rare = _restore(family, env, cwd) if startup == "repair" else ("", "")
        names = carriers(len(body) + len(probe.path) if probe else len(body), body.isascii())
        all_names = [*names, RARE] if rare else names
        text = body + family.finish(all_names)
        if probe is not None:
            quick = family.quick_probe(probe.path, probe.mark, all_names, env)
            text = (quick or family.probe(probe.path, probe.mark, all_names)) + text
        added = carried(text, names)
        if rare:
            added.append((RARE, rare))
        flags, wrapped = family.wrapped(call, names)
        if wrapped:
            argv[call.text] = wrapped
    words = _named(rewritten(argv, () if login else call.login_cuts, call.at, flags), argv[0], family.name)
    notes = []
    if reads and startup == "repair" and family.name == "fish":
        notes.append("fish's exported universal variables stay: unsetting one would erase it permanently")
    return ShellPlan(
        words,
        family.name,
        startup=startup,
        login_asked=call.login != "",
        login=login,
        interactive=call.may_interact,
        added=tuple(added),
        probe=bool(added) and probe is not None,
        changed=words != list(call.argv),
        notes=tuple(notes),
    )


def whole(report: bytearray, mark: str) -> bytes | None:
    """A report without what was written after it; None if it has not all come yet."""
    end = f"{END}={mark}\0".encode()
    at = report.find(end)
    return None if at < 0 else bytes(report[: at + len(end)])


def seen(report: bytes, mark: str) -> Seen | None:
    """What a probe delivered; None if it is not complete."""
    if report.startswith((b"declare -", b"export ")):
        from .exports import read

        found = read(report, f"{END}={mark}".encode())
        return None if found is None else Seen(*found)
    pairs = report.split(b"\0")
    if len(pairs) < 2 or pairs[-2] != f"{END}={mark}".encode() or pairs[-1]:
        return None
    env: dict[str, str] = {}
    readonly: tuple[str, ...] = ()
    for pair in pairs[:-2]:
        name, equals, value = pair.decode("utf-8", "surrogateescape").partition("=")
        if name == READONLY:
            readonly = tuple(value.split())
        elif equals and not name.startswith(OURS):
            env[name] = value
    return Seen(env, tuple(name for name in readonly if name in env))


def unmarked(report: bytes) -> bytes:
    """What a shell says of its environment, without the number that differs from command to command."""
    before, found, after = report.partition(f"{MARK}=".encode())
    return before + after.lstrip(b"\"'0123456789") if found else report


def maintained(shell: str) -> frozenset[str]:
    """The names that a shell sets by itself: nobody changed them, whatever they are."""
    family = family_of(shell)
    return family.maintained | family.supplied


def _unwrappable(family: Family, call: ShellCall) -> str:
    if not family.repairs:
        return f"{family.name} cannot report or correct what its startup files changed"
    if call.text < 0:
        return "the shell runs a script" if call.operand >= 0 else "the shell gets no command text"
    return ""


def _named(words: list[str], given: str, program: str) -> list[str]:
    """A login shell may be called just "-"; one that is called nothing at all stays so."""
    if not words[0] and given:
        words[0] = program.rpartition("/")[2]
    return words


def _restore(family: Family, env: Mapping[str, str], cwd: str) -> tuple[str, str]:
    text, rare = family.restore(env, cwd)
    if len(rare) > (_CARRIED_ASCII if rare.isascii() else _CARRIED):  # thousands of names
        return f"{RARE}={family.quote(rare)}\n{text}", ""
    return text, rare


def carriers(size: int, ascii: bool) -> list[str]:
    # The rest of the text is far below a tenth of one variable.
    count = 1 + (size + 4_000) // (_CARRIED_ASCII if ascii else _CARRIED)
    return [CARRIER, *(f"{CARRIER}_{number}" for number in range(1, count))]


def carried(text: str, names: list[str]) -> list[tuple[str, str]]:
    step = -(-len(text) // len(names))
    return [(name, text[number * step : (number + 1) * step]) for number, name in enumerate(names)]


# The modules of shells that have none of their own name.
_MODULES = {"sh": "posix", "dash": "posix", "ksh": "posix", "tcsh": "csh"}


def family_of(shell: str) -> Family:
    """What is particular about a kind of shell."""
    # Only what is needed: most servers meet one kind of shell.
    name = shell.upper()
    family: Family = getattr(
        __import__(f"{__package__}.{_MODULES.get(shell, shell)}", None, None, (name,)), name
    )
    return family
