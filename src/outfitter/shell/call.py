"""What a shell's command line asks for, and the words that change when it is to be started otherwise.

A command line is never rebuilt from its meaning: flags are cut out of it and put into it, so that whatever
is not understood stays as it was.
"""

from __future__ import annotations

from ..env.names import MARK, is_name
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    # A stretch of one word: its index in argv, from, to.
    Cut = tuple[int, int, int]

# What the prefix of a command text evaluates. No value of a variable stands in argv, which everybody sees.
CARRIER = "__OUTFITTER_RESTORE"
# What few starts need of it: held apart, because a shell reads code that it does not run as slowly as other.
RARE = "__OUTFITTER_RARE"
# Names of ours, in a shell or in what it reports.
OURS = "__OUTFITTER_"
END = "__OUTFITTER_END"
READONLY = "__OUTFITTER_READONLY"


@record
class ShellFlag:
    """One option: a letter of a bundle, or a whole long word ("--login"), with the value it takes."""

    name: str
    on: bool
    word: str
    cuts: list[Cut]
    value: str | None = None


class ShellCall:
    """A command line as the shell reads it. Indices are into `argv`; -1 where there is no such word."""

    __slots__ = (
        *("argv", "at", "fresh", "interactive", "login", "login_cuts", "loud_cuts", "operand", "posix"),
        *("quiet", "text", "trace"),
    )

    def __init__(self, argv: Sequence[str]) -> None:
        self.argv = argv
        self.at = 1  # the earliest place for a flag of ours
        self.text = -1  # the command text of -c
        self.operand = -1  # a script to run
        self.interactive = False  # a flag says so
        self.login = ""  # the word that asks for a login shell
        self.login_cuts: list[Cut] = []  # what to cut for it not to be one
        self.loud_cuts: list[Cut] = []  # what would have startup files read in spite of our flag
        self.quiet: set[str] = set()  # the flags against startup files that are there already
        self.posix = False  # it behaves as sh
        self.trace = False  # it prints each command, hence expands PS4, from the start
        self.fresh: list[str] = []  # files that flags name as startup files
        if argv[0][:1] == "-":
            self.asks_login(argv[0], [(0, 0, 1)])

    def asks_login(self, word: str, cuts: list[Cut]) -> None:
        self.login = self.login or word
        self.login_cuts += cuts

    def operands_from(self, at: int, command: bool, stdin: bool = False) -> None:
        """The rest of the words: with -c the first is the text, else without -s a script."""
        if at >= len(self.argv):
            return
        if command:
            self.text = at
        elif not stdin:
            self.operand = at

    @property
    def may_prompt(self) -> bool:
        """Whether it reads commands from its stdin: from a person, if that is a terminal."""
        return self.text < 0 and self.operand < 0

    @property
    def may_interact(self) -> bool:
        return self.interactive or self.may_prompt


class Silence:
    """How a shell is kept from reading startup files. `login`: whether it can still be a login shell."""

    __slots__ = ("added", "cuts", "flags", "login", "notes", "withheld")

    def __init__(self, login: bool) -> None:
        self.login = login
        self.flags: list[str] = []
        self.cuts: list[Cut] = []
        self.withheld: list[str] = []
        self.added: list[tuple[str, str]] = []
        self.notes: list[str] = []


class Family:
    """What differs between shells. One instance each; `name` is as in `Plan.shell`."""

    name = ""
    # Names that the shell itself sets, or that mean something else inside than outside: never touched.
    maintained: frozenset[str] = frozenset()
    # Names that it sets where they are missing: touched only if they were given.
    supplied: frozenset[str] = frozenset()
    # Whether the prefix of a command text can put the environment right and report it.
    repairs = True
    # What starts a program if a path, for the `{}`, is a FIFO.
    if_fifo = ""
    # What changes to a directory, for the `{0}`, unless the shell is there.
    enter = ""
    # An expression for the names of the exported variables that are readonly, where there is one.
    readonly = ""
    # Variables of ours that are there while the carried text is evaluated.
    helpers: tuple[str, ...] = ()

    def read(self, argv: Sequence[str], env: Mapping[str, str]) -> ShellCall:
        raise NotImplementedError

    def silence(self, call: ShellCall, env: Mapping[str, str], login: bool) -> Silence:
        raise NotImplementedError

    def reads(self, call: ShellCall, env: Mapping[str, str], login: bool) -> bool:
        """Whether a startup file may be read if nobody prevents it."""
        return True

    def quote(self, text: str) -> str:
        """One word that means the text, whatever is in it."""
        return "'" + text.replace("'", "'\\''") + "'"

    def prefix(self, names: Sequence[str]) -> str:
        """The first line of the command text: evaluates the text that the variables hold together."""
        raise NotImplementedError

    def probe(self, path: str, mark: str, names: Sequence[str]) -> str:
        """Text that writes the exported variables to a FIFO, the mark last; `names` are not among them."""
        fifo = self.quote(path)
        without = " ".join(f"-u {name}" for name in (*names, *self.helpers))
        readonly = f'{READONLY}="{self.readonly}" ' if self.readonly else ""
        return (
            f"{self.if_fifo.format(fifo)} /usr/bin/env -0 {without} "
            f"{readonly}{END}={self.quote(mark)} {self.into(fifo)} </dev/null\n"
        )

    def into(self, fifo: str) -> str:
        """Redirections that write to a FIFO, quoted as it must be.

        To open one for writing is to wait for a reader, who may have died: so there is one while it is
        opened. For builtins bash keeps that one until they are done: then a report of more than 64 KiB waits.
        """
        return f"9<>{fifo} >{fifo} 9<&-"

    def quick_probe(self, path: str, mark: str, names: Sequence[str], env: Mapping[str, str]) -> str | None:
        """As `probe`, without starting a program, where the shell can; `core.shell.seen` reads its form."""
        return None

    def restore(self, env: Mapping[str, str], cwd: str) -> tuple[str, str]:
        """Text that makes the exported variables and the working directory what they should be.

        And text that it evaluates where it must: the variable `RARE` holds it.
        """
        raise NotImplementedError

    def entered(self, cwd: str) -> list[str]:
        """The line that changes to a directory; none where no directory is asked for."""
        return [self.enter.format(self.quote(cwd))] if cwd else []

    def finish(self, names: Sequence[str]) -> str:
        """Text that takes away what the others needed, `names` too, and leaves the exit status 0."""
        raise NotImplementedError

    def wrapped(self, call: ShellCall, names: Sequence[str]) -> tuple[list[str], str]:
        """Flags to put in, and the command text, so that the carried text is evaluated first.

        The text follows on a line of its own. To `eval` it would be the other way; then the text would have
        to be in a variable or quoted, `exec` and the last command would run inside an eval, and a mistake in
        it would be reported as one of eval's.
        """
        return [], f"{self.prefix(names)}\n{call.argv[call.text]}"

    def known(self, names: Sequence[str]) -> list[str]:
        """What a startup file cannot have added, quoted."""
        kept = (*names, *sorted(self.maintained), *sorted(self.supplied), MARK)
        return [self.quote(name) for name in kept]

    def names(self, env: Mapping[str, str]) -> list[str]:
        """What is to be re-asserted. Other names cannot be changed by a startup file."""
        return [
            name
            for name in env
            if is_name(name) and name not in self.maintained and name != MARK and not name.startswith(OURS)
        ]


def flags(
    argv: Sequence[str], at: int, *, takes: str, attached: bool = False, last: str = ""
) -> tuple[list[ShellFlag], int]:
    """The options from `at` on, and where the operands begin.

    The letters in `takes` have a value, which is the next word that is not one already ("-oO a b"), or with
    `attached` the rest of their own word, if there is any. A letter in `last` ends the options.
    """
    found: list[ShellFlag] = []
    while at < len(argv):
        word = argv[at]
        if word in ("-", "--"):
            return found, at + 1
        if word[:1] not in ("-", "+"):
            break
        on = word[0] == "-"
        following = at + 1
        if word[:2] == "--":
            found.append(ShellFlag(word, True, word, [(at, 0, len(word))]))
            at = following + (word in ("--rcfile", "--init-file"))
            continue
        ended = False
        position = 1
        while position < len(word):
            letter = word[position]
            cuts = [(at, position, position + 1)]
            value: str | None = None
            position += 1
            if letter in takes:
                if attached and position < len(word):
                    value = word[position:]
                    cuts = [(at, position - 1, len(word))]
                    position = len(word)
                elif following < len(argv):
                    value = argv[following]
                    cuts.append((following, 0, len(value)))
                    following += 1
            ended = ended or letter in last
            found.append(ShellFlag(letter, on, word, cuts, value))
        at = following
        if ended:
            break
    return found, min(at, len(argv))


def rewritten(argv: Sequence[str], cuts: Iterable[Cut], at: int, added: Sequence[str]) -> list[str]:
    """The words with stretches cut out, and flags added before `at`. A bundle with nothing left goes too."""
    words: list[str | None] = list(argv)
    for index, start, end in sorted(set(cuts), reverse=True):
        word = words[index]
        if word is None:
            continue
        word = word[:start] + word[end:]
        words[index] = word if index == 0 or word not in ("", "-", "+") else None
    words[at:at] = added
    return [word for word in words if word is not None]


# The names whose value a shell expands when it prompts.
_PROMPTS = ("PS0", "PS1", "PS2")


def prompts_that_run(call: ShellCall, env: Mapping[str, str], trace: bool) -> list[str]:
    """The prompts of the environment that would run a command when shown, of those that will be shown.

    PS1 and PS4 as such stay: people set them, and nothing but a substitution in them is code.
    """
    shown = _PROMPTS if call.may_prompt else ()
    if trace:
        shown = (*shown, "PS4")
    return [name for name in shown if name in env and _substitutes(env[name])]


def _substitutes(prompt: str) -> bool:
    # $(...) and $((...)), `...`, the old $[...], bash's ${name@P}.
    return any(sign in prompt for sign in ("$(", "`", "$[", "@P"))
