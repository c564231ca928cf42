"""An environment as text that something else reads: a shell, a file of variables, a program.

What a format cannot say, or what its readers would not take as it is said, is left out and reported, never
changed. Names are in order, so the same environment gives the same text.

Bytes outside UTF-8 are surrogate escapes, in the text as in the values: write the text with
errors="surrogateescape". Inside quotes, shells take such bytes as they are. The other formats are UTF-8 by
definition, and leave such variables out.
"""

from __future__ import annotations

from ..errors import SettingInvalid
from ..plain import is_text
from .names import SHELL_MAINTAINED, is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Text of one variable; `value` is None to take it away. Or why there is none.
Line = tuple[str, str]
_NOT_SAID = ""

_NO_NAME = "some shells drop variables with this name"
_OWN = "shells set this variable themselves"
_NO_TEXT = "its bytes are not UTF-8"
_NO_UNSET = "this format cannot remove a variable"

# A shell that is told to set one of these fails, ends, or makes something else of it. Seen in bash 5.2,
# zsh 5.9 and ksh 93u+m; the lower-case ones are zsh's.
_SHELLS_OWN = frozenset(
    (
        *("BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_CMDS", "BASH_COMMAND"),
        *("BASH_LINENO", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSINFO", "DIRSTACK", "EPOCHREALTIME"),
        *("EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "LINENO", "PPID", "RANDOM", "SECONDS"),
        *("SHELLOPTS", "SRANDOM", "UID", "ARGC", "ARGV0", "EGID", "ERRNO", "GID", "HISTCHARS"),
        *("KEYBOARD_HACK", "KSH_VERSION", "TRY_BLOCK_ERROR", "TRY_BLOCK_INTERRUPT", "TTYIDLE", "USERNAME"),
        *("WATCH", "ZSH_EVAL_CONTEXT", "ZSH_SUBSHELL", "aliases", "argv", "builtins", "cdpath", "commands"),
        *("dirstack", "dis_aliases", "dis_builtins", "dis_functions", "dis_functions_source"),
        *("dis_galiases", "dis_patchars", "dis_reswords", "dis_saliases", "fignore", "fpath"),
        *("funcfiletrace", "funcsourcetrace", "funcstack", "functions", "functions_source", "functrace"),
        *("galiases", "histchars", "history", "historywords", "jobdirs", "jobstates", "jobtexts"),
        *("keymaps", "mailpath", "manpath", "module_path", "modules", "nameddirs", "options", "parameters"),
        *("patchars", "path", "pipestatus", "psvar", "reswords", "saliases", "signals", "status"),
        *("termcap", "terminfo", "userdirs", "usergroups", "watch", "widgets", "zsh_eval_context"),
        "zsh_scheduled_events",
    )
)
# Numbers to some shell, which calculates what it is given: `x[$(command)]` runs the command, quoted or not.
_SHELLS_NUMBERS = frozenset(
    ("FUNCNEST", "HISTSIZE", "JOBMAX", "KEYTIMEOUT", "LISTMAX", "MAILCHECK", "OPTIND", "SAVEHIST", "TMOUT")
)
_FISHS_OWN = frozenset(
    (
        *("FISH_VERSION", "fish_kill_signal", "fish_killring", "fish_pid", "history", "hostname"),
        *("pipestatus", "status", "status_generation", "umask", "version"),
    )
)
_FISHS_PATHS = frozenset(("PATH", "CDPATH"))  # fish makes "." of an empty entry
# PowerShell takes typographic quotes for plain ones.
_POWERSHELL_QUOTES = "'\u2018\u2019\u201a\u201b"
# What GitHub's runner does not let a step change.
_GITHUBS_PREFIXES = ("GITHUB_", "RUNNER_")
_GITHUBS_OWN = frozenset(("NODE_OPTIONS",))
_DOTENV_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,-")


def export(
    values: Mapping[str, str], format: str, *, unset: Sequence[str] = ()
) -> tuple[str, list[tuple[str, str]]]:
    """The text, and what is not in it: (name, why). `unset` are names to be taken away by the reader.

    `format` is one of `FORMATS`. Raises SettingInvalid for another one.

    json        an object; null takes a variable away
    shell       `export NAME='...'` for sh, bash, zsh, dash, ksh: for `eval` or `.`
    fish        `set -gx NAME '...'`
    powershell  `$env:NAME = '...'`
    dotenv      NAME='...', as far as its many readers agree
    github      for the file $GITHUB_ENV of GitHub Actions
    claude      for the file $CLAUDE_ENV_FILE of Claude Code's hooks: as for a shell
    """
    writer = _WRITERS.get(format)
    if writer is None:
        raise SettingInvalid(f"`{format}` is not an export format; use one of {', '.join(FORMATS)}")
    lines, left_out = [], []
    entries: dict[str, str | None] = {**dict.fromkeys(unset), **values}
    for name in sorted(entries):
        nameable = format == "json" or is_name(name)
        line, why = writer(name, entries[name]) if nameable else (_NOT_SAID, _NO_NAME)
        if why:
            left_out.append((name, why))
        else:
            lines.append(line)
    if format == "json":
        return "{" + ",".join(lines) + "\n}\n", left_out
    return "".join(lines), left_out


# One function per format: the text of one variable, or why there is none. All but JSON get names alone.


def _json(name: str, value: str | None) -> Line:
    import json

    if not is_text(name + (value or "")):
        return _NOT_SAID, _NO_TEXT
    return f"\n  {json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}", ""


def _shell(name: str, value: str | None) -> Line:
    if name in SHELL_MAINTAINED or name in _SHELLS_OWN:
        return _NOT_SAID, _OWN
    if value is None:
        return f"unset {name}\n", ""
    if name in _SHELLS_NUMBERS and not _is_number(value):
        return _NOT_SAID, "some shells evaluate it as arithmetic, and it is not a plain number"
    quoted = value.replace("'", "'\\''")
    return f"export {name}='{quoted}'\n", ""


def _fish(name: str, value: str | None) -> Line:
    if name in SHELL_MAINTAINED or name in _FISHS_OWN:
        return _NOT_SAID, _OWN
    if value is None:
        return f"set -e {name}\n", ""
    if name in _FISHS_PATHS and "" in value.split(":"):
        return _NOT_SAID, "fish turns an empty entry into the current directory"
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"set -gx {name} '{quoted}'\n", ""


def _powershell(name: str, value: str | None) -> Line:
    if value is None:
        return f"$env:{name} = $null\n", ""
    if not value:
        return _NOT_SAID, "PowerShell has no empty variables"
    if not is_text(value):
        return _NOT_SAID, _NO_TEXT
    for quote in _POWERSHELL_QUOTES:
        value = value.replace(quote, quote * 2)
    return f"$env:{name} = '{value}'\n", ""


def _dotenv(name: str, value: str | None) -> Line:
    """Only what python-dotenv, dotenv for Node, Docker Compose and direnv read alike."""
    if value is None:
        return _NOT_SAID, _NO_UNSET
    if not is_text(value):
        return _NOT_SAID, _NO_TEXT
    if value and _DOTENV_BARE.issuperset(value):
        return f"{name}={value}\n", ""
    # Inside single quotes some undo \\ and \', some do not; some expand ${...} there too. A carriage return
    # is a line's end to some. Inside double quotes more is special, but all know the escape \n;
    # direnv reads a file line by line.
    if "\r" in value or "${" in value or "\\\\" in value or value.endswith("\\"):
        return _NOT_SAID, "programs that read .env files disagree on how to quote it"
    if "'" not in value and "\n" not in value:
        return f"{name}='{value}'\n", ""
    if not frozenset('"\\$`').intersection(value):
        escaped = value.replace("\n", "\\n")
        return f'{name}="{escaped}"\n', ""
    return _NOT_SAID, "programs that read .env files disagree on how to quote it"


def _github(name: str, value: str | None) -> Line:
    if name.startswith(_GITHUBS_PREFIXES) or name in _GITHUBS_OWN:
        return _NOT_SAID, "GitHub does not let a step change it"
    if value is None:
        return _NOT_SAID, _NO_UNSET
    if not is_text(value):
        return _NOT_SAID, _NO_TEXT
    from hashlib import sha256

    # Nobody can put a line into a value that is a digest of the whole value.
    end = f"end_{sha256(f'{name}={value}'.encode()).hexdigest()[:32]}"
    return f"{name}<<{end}\n{value}\n{end}\n", ""


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) < 10 and not value.startswith("0")


_WRITERS: dict[str, Callable[[str, str | None], Line]] = {
    "json": _json,
    "shell": _shell,
    "fish": _fish,
    "powershell": _powershell,
    "dotenv": _dotenv,
    "github": _github,
    "claude": _shell,
}
FORMATS = tuple(_WRITERS)
