"""What a login shell's startup files made of an environment: read from its report, told as a difference.

A report is what `env -0` prints between two marks with the same random number. Only a complete one counts:
a startup file that ends or replaces the shell leaves none, whatever the exit status says. Data only: no
function, no alias and no shell syntax is in a snapshot, so one taken in zsh does no harm under bash.
"""

from __future__ import annotations

from ..env.lists import LIST_NAMES, entry_key
from ..env.names import REQUIRED, SHELL_MAINTAINED, is_name
from ..env.pattern import Patterns, fold
from ..env.redact import SHORTEST_MASKED, Secrets, mask_pairs
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# In the shell's environment while it is asked: startup files that are slow or that prompt can look for it.
MARKER = "OUTFITTER_RESOLVING_ENVIRONMENT"
BEGIN, END = "__CAPTURE_BEGIN", "__CAPTURE_END"
# Linux starts nothing with much more than 2 MB of arguments and environment together, and 1 MiB is what an
# environment may have here: a larger one could not be used.
BLOCK_BYTES = 1 << 20

# What shells add by themselves, beside `SHELL_MAINTAINED`: it says nothing about the startup files.
_ADDED = {
    "fish": frozenset(("USER", "LC_CTYPE")),  # the latter where no locale is set: it wants some UTF-8
    "zsh": frozenset(("LOGNAME",)),
    "tcsh": frozenset(
        ("USER", "LOGNAME", "GROUP", "HOST", "HOSTTYPE", "MACHTYPE", "OSTYPE", "VENDOR", "NLSPATH")
    ),
}
_ADDED["csh"] = _ADDED["tcsh"]

# "Already done" flags. One that outlives its effect makes the next shell skip what it needs, for good: so the
# shell starts without them, does its work, and none of them is in a snapshot.
GUARDS = Patterns(
    (
        "__ETC_*_SOURCED",  # nix's profile scripts and nix-darwin's /etc files
        "__ETC_*_DONE",  # NixOS, /etc/profile
        "__NIXOS_SET_ENVIRONMENT_DONE",  # NixOS, its generated set-environment
        "__NIX_DARWIN_SET_ENVIRONMENT_DONE",  # nix-darwin, the same
        "__HM_*SESS_VARS_SOURCED",  # home-manager, once for all shells and once for zsh
        "__fish_nixos_*_sourced",  # NixOS, fish
        "__Init_Default_Modules",  # Lmod: the site's default modules are loaded
        "PROFILEREAD",  # SUSE, /etc/profile
    )
)
# What a tool remembers of what it has loaded into this very shell. By it the tool would later undo or skip
# what a command's environment does not have; without it, it starts afresh. What it loaded is kept whole.
STATE = Patterns(
    (
        "DIRENV_*",  # direnv: which values to take back (DIRENV_DIFF), for which directory
        "__MISE_*",  # mise: the values and the PATH before it was activated
        "MISE_SHELL",  # mise: "this shell is activated"
        "CONDA_SHLVL",  # conda: how many environments are stacked
        "CONDA_PROMPT_MODIFIER",  # conda: what to take out of the prompt again
        "CONDA_PREFIX_*",  # conda: the environments below the active one
        "_CE_CONDA",  # conda: how its own shell function calls it
        "_CE_M",
        "__DEVBOX_*",  # devbox: a hash of what it has loaded
        "DEVBOX_OG_PATH*",  # devbox: the PATH before
    )
)
# Programs that startup files start for good, by the variable with their process id, and what is of no use
# without them. Nothing that a capture starts survives it.
_DAEMONS = (("SSH_AGENT_PID", "SSH_AUTH_SOCK"), ("DBUS_SESSION_BUS_PID", "DBUS_SESSION_BUS_ADDRESS"))


# Reading a report


def read_block(data: bytes | bytearray, nonce: str) -> dict[str, str] | None:
    """The variables of a complete report, None while it is not. What was written before it does not count.

    Bytes outside UTF-8 become surrogate escapes. Of a name that occurs twice the first counts, as for getenv.
    """
    begin = f"{BEGIN}={nonce}\0".encode()
    at = data.find(begin)
    if at < 0:
        return None
    at += len(begin)
    end = data.find(f"\0{END}={nonce}\0".encode(), at - 1)
    if end < 0:
        return None
    values: dict[str, str] = {}
    for entry in bytes(data[at:end]).split(b"\0"):
        name, equals, value = entry.decode("utf-8", "surrogateescape").partition("=")
        if name and equals:
            values.setdefault(name, value)
    return values


def maintained(shell: str) -> frozenset[str]:
    """The names that a shell (its path or its name) sets by itself, and the marker."""
    return SHELL_MAINTAINED | _ADDED.get(shell.rpartition("/")[2], frozenset()) | {MARKER}


def without_maintained(values: Mapping[str, str], shell: str) -> dict[str, str]:
    ignored = maintained(shell)
    return {name: value for name, value in values.items() if name not in ignored}


def to_start_with(base: Mapping[str, str], home: str) -> dict[str, str]:
    """The environment for the shell: the base without guards, with the marker, and with a home."""
    env = {name: value for name, value in base.items() if GUARDS.match(fold(name)) is None}
    env.setdefault("HOME", home)
    env[MARKER] = "1"
    return env


def without_daemons(
    base: Mapping[str, str], values: Mapping[str, str], runs: Callable[[int], bool]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The values without those that lead to a program that has ended, and their names; the base's come back.

    `runs` tells whether a process does.
    """
    kept = dict(values)
    gone: list[str] = []
    for pid, address in _DAEMONS:
        text = values.get(pid, "")
        if text == base.get(pid, "") or not text.isdecimal() or runs(int(text)):
            continue
        for name in (pid, address):
            if kept.pop(name, None) is not None:
                gone.append(name)
            if name in base:
                kept[name] = base[name]
    return kept, tuple(gone)


# The difference


@record
class ListChange:
    """What startup files did to a list variable.

    `segments` is what a command should get: the entries as they left them, then those of the base that are
    not among these, which are `lost`.
    """

    lost: tuple[str, ...]
    segments: tuple[str, ...]


@record
class Snapshot:
    """What startup files add to a base: `set`, `unset`, and `lists` by name. The repr has no values."""

    shell: str
    set: dict[str, str]
    unset: tuple[str, ...]
    lists: dict[str, ListChange]
    hidden = ("set", "lists")


def difference(base: Mapping[str, str], captured: Mapping[str, str], shell: str) -> Snapshot:
    """What turns `base` into `captured`, as far as it is meant for commands. All in the order of names."""
    ignored = maintained(shell)
    changed: dict[str, str] = {}
    unset: list[str] = []
    lists: dict[str, ListChange] = {}
    for name in sorted({*base, *captured} - ignored):
        before, after = base.get(name), captured.get(name)
        if before == after or _is_left_out(name, after):
            continue
        if after is None:
            unset.append(name)
        elif name in LIST_NAMES and after:
            segments, lost = merge_lost(before.split(":") if before else (), after.split(":"))
            lists[name] = ListChange(lost, segments)
        else:
            changed[name] = after
    return Snapshot(shell, changed, tuple(unset), lists)


def _is_left_out(name: str, after: str | None) -> bool:
    """Whether a change is not meant for commands.

    Several shells drop names that others do not pass on: that is nobody's wish. And commands do not work
    without a PATH, whose earlier value is kept then.
    """
    without = name in REQUIRED and not (after or "").strip(":")
    return without or not is_name(name) or is_of_the_shell(name)


def is_of_the_shell(name: str) -> bool:
    """Whether a variable says what was done to the shell that it is in."""
    folded = fold(name)
    return GUARDS.match(folded) is not None or STATE.match(folded) is not None


def merge_lost(base: Sequence[str], captured: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The captured segments, then those of the base that they lost, which are also returned by themselves.

    A trailing slash makes no difference. Empty segments of the base stay lost: what they mean
    depends on where they are.
    """
    seen = {entry_key(segment) for segment in captured}
    lost: list[str] = []
    for segment in base:
        if segment and entry_key(segment) not in seen:
            seen.add(entry_key(segment))
            lost.append(segment)
    return (*captured, *lost), tuple(lost)


# What it said


def told(
    raw: bytes,
    known: Mapping[str, str],
    limit: int,
    *,
    cut: bool,
    names: Secrets | None = None,
    before: Mapping[str, str] | None = None,
) -> str:
    """The end of what a shell wrote to stderr, at most `limit` characters, without secrets.

    Of the `known` variables, the values of the secret ones are masked, wherever they are; of others, what
    follows `NAME=` to the end of the line, as `set -x` prints it. `cut` says that `raw` is the end of
    something longer: a secret may have been cut in two there, as it may at its end. `names` tells which
    variables are secret; without it the usual ones. `before` are the values of another time.
    """
    names = names or Secrets()
    secrets = list(dict.fromkeys([*names.among(known), *names.among(before or {})]))
    text = raw.decode("utf-8", "surrogateescape")
    for _, value in secrets:
        if len(value) >= SHORTEST_MASKED:
            text = _without_parts(text, value, cut)
    text = mask_pairs(text, secrets)
    text = "\n".join([without_assignment(line, names) for line in text.split("\n")])
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[-limit:]


def _without_parts(text: str, value: str, cut: bool) -> str:
    """The text without its first and last characters where they are a part of a value, not all of it."""
    if cut and text in value:
        return ""
    sizes = range(min(len(value) - 1, len(text)), 0, -1)
    if cut:
        text = text[next((size for size in sizes if text.startswith(value[-size:])), 0) :]
    last = next((size for size in sizes if text.endswith(value[:size])), 0)
    # A few letters are a secret's first ones by chance; and a whole one is masked with its name.
    if last < SHORTEST_MASKED or text.endswith(value):
        return text
    return f"{text[:-last]}[secret]"


def without_assignment(line: str, names: Secrets) -> str:
    """A line without what follows `NAME=`, for the first name that is secret."""
    at = line.find("=")
    while at >= 0:
        start = at
        while start and (line[start - 1].isalnum() or line[start - 1] == "_"):
            start -= 1
        # A value that is masked already says whose it was.
        if names.holds(line[start:at], "") and not line.startswith("[secret", at + 1):
            return f"{line[: at + 1]}[secret]"
        at = line.find("=", at + 1)
    return line
