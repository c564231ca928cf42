"""What startup files leave in a shell beside its environment: functions, aliases, options.

A login shell writes it down once (`dump`), Outfitter reads it (`read`), and later shells get it without
reading a startup file (`restoring`). It travels in variables of ours, which are gone before the command's
text begins: no value stands in argv, and nothing touches a disk.
"""

from __future__ import annotations

from ..record import record
from .call import OURS
from .names import shell_called
from .start import carried, carriers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The reference's bound for what is restored with every command. People's startup files leave 5 to 100 KiB.
STATE_BYTES = 512 << 10
# The names by which clients ask, and the kinds of shells that each may turn out to be.
SHELLS = {"bash": ("bash",), "zsh": ("zsh",), "sh": ("sh", "dash", "ksh")}

_OPTIONS, _FUNCTIONS, _ALIASES = OURS + "OPTIONS", OURS + "FUNCTIONS", OURS + "ALIASES"
# What says how a shell was started, or is for a person at a prompt: nothing that a command can have.
_NOT_KEPT = frozenset(
    (
        *("emacs", "history", "interactive", "login", "loginshell", "login_shell", "monitor", "noexec"),
        *("onecmd", "privileged", "restricted", "restricted_shell", "shinstdin", "singlecommand", "stdin"),
        *("vi", "zle"),
    )
)
_EXPORTED = "declare -fx "  # bash, behind a function that is
# Aliases that every zsh has.
_OF_ZSH = ("run-help=man", "which-command=whence")
# In front of a builtin, so that it is one whatever functions and aliases there are by then.
_SAY = {"bash": "\\builtin", "zsh": "\\builtin", "sh": "\\command"}


@record
class ShellState:
    """What is restored: `text` for the shell to evaluate, and how much is in it. The repr has no text."""

    text: str
    functions: int = 0
    aliases: int = 0
    hidden = ("text",)


def is_kind(name: str, path: str) -> bool:
    """Whether a program is a shell of the name that a client gives it."""
    return shell_called(path.rpartition("/")[2]) in SHELLS.get(name, ())


# Taking it


def dump(name: str, path: str, *, rc: bool) -> str:
    """Commands that write the state to a FIFO, as entries of a report (`shell.snapshot`).

    With `rc`, they read the files of an interactive shell first: people's functions and aliases are there.
    """
    file = f"{_NO_FUNCTION[name]}\n{_FILES[name]}\n" if rc else ""
    entries = {"options": _OPTIONS, "functions": _FUNCTIONS, "aliases": _ALIASES}
    return f"{file}{_NO_FUNCTION[name]}\n{{ {_WRITERS[name].format(**entries)}; }} >|{path}"


# Functions of startup files with the names of builtins do not come in between, nor do aliases.
_NO_FUNCTION = {
    "bash": "\\unset -f builtin 2>/dev/null",
    "zsh": "\\unfunction builtin 2>/dev/null || \\:",
    "sh": "\\unset -f command 2>/dev/null",
}
# The reference's. Who has BASH_ENV has had its file read.
_FILES = {
    "bash": '[[ ${BASH_ENV-} || ! -r ${HOME-}/.bashrc ]] || \\builtin source "$HOME/.bashrc"',
    "zsh": '[[ ! -r "${ZDOTDIR:-$HOME}/.zshrc" ]] || \\builtin source "${ZDOTDIR:-$HOME}/.zshrc"',
    "sh": '\\command [ ! -r "${ENV-}" ] || \\. "$ENV"',
}
_WRITERS = {
    "bash": (
        "\\builtin printf '{options}='; \\builtin set +o; \\builtin shopt -p; "
        "\\builtin printf '\\0{functions}='; \\builtin declare -f; "
        "\\builtin printf '\\0{aliases}='; \\builtin alias -p; \\builtin printf '\\0'"
    ),
    "zsh": (
        "\\builtin printf '{options}='; \\builtin setopt; "
        "\\builtin printf '\\0{functions}='; \\builtin functions; "
        "\\builtin printf '\\0{aliases}='; \\builtin alias -L; \\builtin printf '\\0'"
    ),
    "sh": (
        "\\command printf '{options}='; \\set +o; \\command printf '\\0{functions}='; "
        "\\command -v typeset >/dev/null 2>&1 && \\typeset -f; "
        "\\command printf '\\0{aliases}='; \\command alias; \\command printf '\\0'"
    ),
}


def read(name: str, report: Mapping[str, str]) -> tuple[ShellState | None, dict[str, str]]:
    """The state in a report, None if it has none, and the variables in it."""
    values = {key: value for key, value in report.items() if not key.startswith(OURS)}
    if not {_OPTIONS, _FUNCTIONS, _ALIASES} <= report.keys():
        return None, values
    say = _SAY[name]
    early, late = _options(name, report[_OPTIONS])
    functions = report[_FUNCTIONS].strip("\n")
    found = [one.removeprefix("alias ") for one in statements(report[_ALIASES])]
    aliases = [f"alias {one}" for one in found if one not in _OF_ZSH]
    # What a function exports is no part of the contract: a command's own programs do not have it.
    exported = [line[len(_EXPORTED) :] for line in functions.split("\n") if line.startswith(_EXPORTED)]
    inside = [f"export -nf {' '.join(exported)}"] if exported else []
    # Aliases after functions, which would be read with them; options last: they may change what is read.
    parts = [f"{say} {one}" for one in early]
    parts += [functions] if functions else []
    parts += [f"{say} {one}" for one in (*inside, *aliases, *late)]
    return ShellState("".join([f"{one}\n" for one in parts]), _count(functions), len(aliases)), values


def _options(name: str, text: str) -> tuple[list[str], list[str]]:
    """Commands that set the options: those without which functions cannot be read, and the others."""
    if name == "zsh":
        # With KSH_OPTION_PRINT it is a table of two columns.
        words = [line.split() for line in text.splitlines()]
        names = [one[0] for one in words if one and one[-1] != "off"]
        kept = [one for one in names if one not in _NOT_KEPT and one.removeprefix("no") not in _NOT_KEPT]
        return [], [f"setopt {' '.join(kept)}"] if kept else []
    shopts: dict[str, list[str]] = {"-s": [], "-u": []}
    others: list[str] = []
    for line in text.splitlines():
        command, _, rest = line.partition(" ")
        flag, _, option = rest.partition(" ")
        if option in _NOT_KEPT or not option:
            continue
        if command == "shopt" and flag in shopts:
            shopts[flag].append(option)
        elif command == "set":
            others.append(f"{flag} {option}")
    early = [f"shopt {flag} {' '.join(names)}" for flag, names in shopts.items() if names]
    return early, [f"set {' '.join(others)}"] if others else []


def statements(text: str) -> list[str]:
    """The commands of a text with one on each line, but for lines inside of quotes."""
    found: list[str] = []
    quote = ""
    start = at = 0
    while at < len(text):
        letter = text[at]
        if letter == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "\n":
            found.append(text[start:at])
            start = at + 1
        at += 1
    found.append(text[start:])
    return [one for one in found if one.strip()]


def _count(functions: str) -> int:
    """How many functions there are, about: each ends with a brace on a line of its own."""
    return sum(1 for line in functions.split("\n") if line == "}")


# Giving it


# The reference's words, for a shell that cannot read what another one wrote.
_FAILED = "failed to restore shell snapshot"


def restoring(name: str, state: ShellState, text: str) -> tuple[str, list[tuple[str, str]]]:
    """A command text that begins with the state, and the variables that hold the state until then.

    On one line of its own, so that what follows is read with the aliases and options; zsh reads all of a text
    before it runs any.
    """
    if not state.text:
        return text, []
    names = carriers(len(state.text), state.text.isascii())
    held = "".join(f"${{{one}-}}" for one in names)
    eval_ = "\\builtin eval" if name != "sh" else "\\eval"
    failed = f"{_SAY[name]} printf '{_FAILED}\\n' >&2"
    first = f'if ! {eval_} "\\unset {" ".join(names)};{held}\\:" >/dev/null 2>&1; then {failed}; fi'
    if name == "zsh" and state.aliases:
        text = "\\builtin eval '" + text.replace("'", "'\\''") + "'"
    return f"{first}\n{text}", carried(state.text, names)


def restored(
    name: str, state: ShellState, argv: Sequence[str], after: int, env: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The words and the environment of a shell that gets the state first. `after` words follow its text."""
    words = list(argv)
    place = len(words) - after - 1
    words[place], added = restoring(name, state, words[place])
    return words, {**env, **dict(added)}
