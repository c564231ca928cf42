"""A script that is sourced for what it does to the environment: what bash is told, and what its report means.

The result is data. What else a script leaves in its shell ends with it; `Lost` names it.
"""

from __future__ import annotations

from ..env.lists import LIST_NAMES
from ..env.names import SHELL_MAINTAINED, is_name, is_runtime
from ..env.pathops import operations as list_operations
from ..env.redact import SHORTEST_MASKED, mask_pairs
from ..record import record
from .snapshot import BEGIN, END, without_assignment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..env.layer import Operation
    from ..env.redact import Secrets

# Names that make bash read files or change its ways before the script: left out while it runs, back after it.
STARTUP_NAMES = ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS")
_BEFORE, _AFTER = "__CAPTURE_BEFORE", "__CAPTURE_AFTER"
_OWN = (BEGIN, END, _BEFORE, _AFTER)
_ENV = "/usr/bin/env"
_LONGEST_LINE = 64 << 10
# What is not environment, one line each.
_STATE = "{ \\builtin declare -F; \\builtin alias -p; \\builtin umask; \\builtin ulimit -S -a; } 2>/dev/null"
# In a script: a here-document that bash takes to the letter, with the rest of the line that begins it; the
# variable with the script's path behind a backslash; and that variable where bash replaces it.
_SOURCE = (
    rb"(?m)(?P<line><<-?[ \t]*['\"\\](?P<end>\w+)[^\n]*\n)(?P<text>(?s:.*?)^\t*(?P=end)$)"
    rb"|\\(?:\\|\$\{?[#!]?BASH_SOURCE)|BASH_SOURCE"
)


@record
class Leftover:
    """What a script left in its shell that no other command can get: "function", "alias", "limit", ..."""

    kind: str
    name: str


def sealed_text(content: bytes) -> bytes:
    """A script's text for a copy of it that bash sources from a descriptor, which the script does not keep.

    The copy is no file beside the script's other files: where the text asks bash for its own path, it gets
    that of the script. All of it is on the first line, so that the numbers of lines are the script's. What
    the script writes to other files as it stands is not about this script, and stays as it is.
    """
    own = b'\\exec 3<&-; __outfitter_source=("$0"); '
    if b"BASH_SOURCE" not in content:
        return own + content
    import re  # most scripts do without it

    def renamed(found: re.Match[bytes]) -> bytes:
        if found["end"]:
            return _renamed(found["line"]) + found["text"]
        return found[0] if found[0].startswith(b"\\") else _renamed(found[0])

    return own + re.sub(_SOURCE, renamed, content)


def _renamed(text: bytes) -> bytes:
    return text.replace(b"BASH_SOURCE", b"__outfitter_source")


def command(path: str, nonce: str, *, inline: bool, file: str = "$0") -> str:
    """What bash is given as `-c`: it sources `file`, or what it reads from stdin, and reports to `path`.

    The report is made by a trap as well, so that a script may `exit 0`. It is not made by `exec`: a script's
    own trap cleans up after it. The builtins go by their names and the rest by whole paths: no alias and no
    function of the script comes in between. A redirection would make a file of a pipe that is gone.
    """
    begin = f"\\builtin printf '{BEGIN}={nonce}\\0{_BEFORE}=%s\\0' \"$({_STATE})\" >|{path}"
    report = (
        f"{{ __outfitter_status=$?; [[ -p {path} ]] && {{ \\builtin printf '{_AFTER}=%s\\0' \"$({_STATE})\"; "
        # Nothing of ours in the trace of a script that says `set -x`. With `set -k`, a word that could be an
        # assignment is one: the mark would stand in the middle of the report, and end it there.
        f"\\{_ENV} -0 \\{END}={nonce}; }} >|{path}; }} 2>/dev/null"
    )
    trap = f"""\\builtin trap '{report.replace("'", _QUOTE)}' EXIT"""
    if inline:
        # Seekable, so bash reads it in blocks; and the text is in no argument, which has its limits.
        source = 'IFS= \\builtin read -r -d "" __outfitter_text; \\exec </dev/null; '
        source += '\\builtin eval "$__outfitter_text"'
    else:
        source = f'\\builtin . "{file}" "$@"'
    # On one line, so that the numbers in what bash says about a text are the text's own.
    return f'{begin}; {trap}; {source}\n{report}\n\\builtin exit "$__outfitter_status"'


_QUOTE = "'\\''"


def began(block: bytes | bytearray) -> bool:
    """Whether a script came to its report, and could start no program for it: too much is exported."""
    return f"\0{_AFTER}=".encode() in block


def understood(block: Mapping[str, str], cwd: str) -> tuple[dict[str, str], tuple[Leftover, ...]]:
    """The environment of a report, without what is only about the report, and what is lost.

    `cwd` is where the script began. What the shell keeps itself is not in it.
    """
    values = {
        name: value
        for name, value in block.items()
        if name not in _OWN and name not in SHELL_MAINTAINED and not name.startswith("__outfitter_")
    }
    before, after = _state(block.get(_BEFORE, "")), _state(block.get(_AFTER, ""))
    lost = [Leftover(kind, name) for (kind, name), now in after.items() if before.get((kind, name)) != now]
    if block.get("PWD", cwd) != cwd:
        lost.append(Leftover("cwd", block["PWD"]))
    return values, tuple(sorted(lost, key=lambda one: (one.kind, one.name)))


def _state(text: str) -> dict[tuple[str, str], str]:
    found = {}
    for line in text.split("\n"):
        if line.startswith("declare -f"):
            found["function", line.rpartition(" ")[2]] = ""
        elif line.startswith("alias "):
            name, _, value = line.removeprefix("alias ").partition("=")
            found["alias", name] = value
        elif line.isdecimal():
            found["umask", line] = ""
        elif "(" in line:
            name, _, value = line.partition("(")
            found["limit", name.strip()] = value
    return found


@record
class ScriptChanges:
    """What a script did to an environment. The repr has no values."""

    set: dict[str, str]
    unset: tuple[str, ...]
    operations: tuple[Operation, ...]
    hidden = ("set", "operations")


def changes(
    before: Mapping[str, str],
    after: Mapping[str, str],
    list_names: frozenset[str] = LIST_NAMES,
    ignore: Sequence[str] = (),
) -> ScriptChanges:
    """What turns one environment into the other, in the order of names; list variables as operations.

    Left out: what shells keep themselves, what only Outfitter sets, what `ignore` has, and names that some
    shell would drop, which no layer can carry.
    """
    set: dict[str, str] = {}
    unset: list[str] = []
    operations: list[Operation] = []
    for name in sorted({*before, *after} - SHELL_MAINTAINED - {*ignore}):
        old, new = before.get(name), after.get(name)
        if old == new or is_runtime(name) or not is_name(name):
            continue
        if new is None:
            unset.append(name)
        elif name in list_names and new:
            operations += list_operations(old, new, name)
        else:
            set[name] = new
    return ScriptChanges(set, tuple(unset), tuple(operations))


class MaskedLines:
    """Passes a script's output on while it runs, in whole lines, without the secret values of `known`."""

    def __init__(self, known: Mapping[str, str], names: Secrets, write: Callable[[str], None]) -> None:
        self._names = names
        self._write = write
        self._rest = b""
        self._secrets = names.among(known)
        # A private key is printed line by line.
        self._secrets += [
            (name, line)
            for name, value in self._secrets
            for line in value.split("\n")
            if line != value and len(line) >= SHORTEST_MASKED
        ]

    def feed(self, data: bytes) -> None:
        self._rest += data
        lines, newline, rest = self._rest.rpartition(b"\n")
        if newline:
            self._rest = rest
            self._pass_on(lines)
        if len(self._rest) > _LONGEST_LINE:
            self.finish()

    def finish(self) -> None:
        """What is left: a line without its end."""
        if self._rest:
            data, self._rest = self._rest, b""
            self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        for line in mask_pairs(data.decode("utf-8", "replace"), self._secrets).split("\n"):
            self._write(without_assignment(line, self._names))
