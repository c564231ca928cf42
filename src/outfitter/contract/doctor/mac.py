"""What a Mac does to an environment: `path_helper`, Homebrew, launchd, stubs, and two names for one file.

Gathered on a Mac only. What is known of one comes from Apple's documentation.
"""

from __future__ import annotations

import os

from ...record import KW_ONLY, record
from ...shell.pathhelper import folders, moved_back
from ..programs import find
from .check import Check, Finding
from .machine import Configured, Given, configured, given
from .words import counted, few

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .machine import Machine

# Where Homebrew is: of Apple's processors, and of Intel's (also under Rosetta).
PREFIXES = ("/opt/homebrew", "/usr/local")
# What launchd gives a program that was started by a click: not what any shell has.
LAUNCHD_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
# Either makes the programs in /usr/bin that stand for Apple's developer tools work.
_TOOLS = ("/Library/Developer/CommandLineTools", "/Applications/Xcode.app")
_STUBS = ("python3", "git", "make", "cc")
_LINKED = ("/tmp", "/var", "/etc")  # are links to the same below /private
_MOST_BYTES = 64 << 10  # of a file of folders; they have a few lines
_MOST_FILES = 256  # in /etc/paths.d


@record
class Mac:
    """What was found: `helper` is the line that runs path_helper, `own` its folders, `brews` the prefixes
    that have Homebrew, `tools` whether Apple's developer tools are there, `stubs` which of their programs
    come from /usr/bin here. `ignores_case`: the file system of the folder takes `A` for `a`."""

    helper: str = ""
    own: Sequence[str] = ()
    _: KW_ONLY
    brews: Sequence[str] = ()
    tools: bool = True
    stubs: Sequence[str] = ()
    ignores_case: bool = False
    cwd: str = ""


def mac(machine: Machine) -> Mac:
    return look("", machine.environ, machine.cwd)


def look(root: str, environ: Mapping[str, str], cwd: str) -> Mac:
    """What there is below `root`, which is "" for this machine."""
    listed = sorted(_names(f"{root}/etc/paths.d"))[:_MOST_FILES]
    texts = [_text(f"{root}/etc/paths"), *(_text(f"{root}/etc/paths.d/{name}") for name in listed)]
    stubs = [name for name in _STUBS if find(name, environ, cwd) == f"/usr/bin/{name}"]
    return Mac(
        _runs_helper(root),
        folders(*texts),
        brews=[prefix for prefix in PREFIXES if os.path.exists(f"{root}{prefix}/bin/brew")],
        tools=any(os.path.exists(f"{root}{place}") for place in _TOOLS),
        stubs=stubs,
        ignores_case=_ignores_case(cwd),
        cwd=cwd,
    )


def _runs_helper(root: str) -> str:
    for name in ("/etc/zprofile", "/etc/profile"):
        for line, text in enumerate(_text(root + name).splitlines(), 1):
            if "eval" in text and "path_helper" in text:
                return f"{name}:{line}"
    return ""


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _ignores_case(folder: str) -> bool:
    try:
        return folder.swapcase() != folder and os.path.samefile(folder, folder.swapcase())
    except OSError:
        return False


def path_helper(given: Given, mac: Mac) -> Finding:
    if not mac.helper:
        return Finding("ok", "no startup file of the system runs path_helper")
    moved = moved_back(given.base.get("PATH", ""), mac.own)
    if not moved:
        return Finding("ok", f"path_helper ({mac.helper}) would leave PATH in its order")
    return Finding(
        "warning",
        f"a login shell runs path_helper ({mac.helper}), which puts {counted(moved, 'entry')} of PATH behind "
        f"the system's",
        [f"{entry} comes behind the folders of /etc/paths and /etc/paths.d" for entry in moved],
        "Outfitter's own commands are not affected. For other programs, put these folders in front in "
        "~/.zprofile, which is read after /etc/zprofile, and not in ~/.zshenv.",
    )


def homebrew(given: Given, mac: Mac) -> Finding:
    if not mac.brews:
        return Finding("ok", "Homebrew is not installed")
    path = given.base.get("PATH", "").split(":")
    lacking = [prefix for prefix in mac.brews if f"{prefix}/bin" not in path]
    if lacking:
        return Finding(
            "warning",
            f"Homebrew is in {few(list(mac.brews))}, but PATH lacks {few([f'{one}/bin' for one in lacking])}",
            remedy=f'Write eval "$({lacking[0]}/bin/brew shellenv)" in ~/.zprofile and log in again.',
        )
    if len(mac.brews) > 1:
        first = min(mac.brews, key=lambda prefix: path.index(f"{prefix}/bin"))
        return Finding(
            "ok",
            f"Homebrew is in both {PREFIXES[0]} and {PREFIXES[1]}; programs of {first} are found first",
        )
    return Finding("ok", f"Homebrew's programs are found in {mac.brews[0]}/bin")


def launchd(configured: Configured, given: Given, mac: Mac) -> Finding:
    base = given.base
    signs = []
    if base.get("XPC_SERVICE_NAME", "0") not in ("", "0"):
        signs.append("XPC_SERVICE_NAME is set, as for programs that launchd starts")
    if base.get("PATH") == LAUNCHD_PATH:
        signs.append(f"PATH is launchd's own: {LAUNCHD_PATH}")
    if not signs or "SHLVL" in base or configured.settings.snapshot != "none":
        return Finding("ok", "commands do not start from the bare environment of launchd", signs)
    return Finding(
        "warning",
        "started by a graphical program: commands start from launchd's environment, not from your shell's",
        signs,
        f'Write snapshot = "loginShell" under [shell] in {configured.file}, or start the agent from a '
        "terminal.",
    )


def python_stub(given: Given, mac: Mac) -> Finding:
    if not mac.stubs or mac.tools:
        return Finding("ok", "no program in PATH is a stub of Apple's developer tools")
    return Finding(
        "warning",
        f"/usr/bin has stubs without the developer tools: {few(list(mac.stubs))}",
        ["a stub opens a window that offers an installation, and the command fails"],
        "Run `xcode-select --install`, or put a directory with the real program in front of /usr/bin.",
    )


def case(given: Given, mac: Mac) -> Finding:
    if not mac.ignores_case:
        return Finding("ok", "the file system tells upper and lower case apart")
    entries = given.base.get("PATH", "").split(":")
    doubled = [entry for place, entry in enumerate(entries) if _is_again(entry, entries[:place])]
    if not doubled:
        return Finding("ok", "the file system ignores case; no two entries of PATH differ by case alone")
    return Finding(
        "warning",
        f"the file system ignores case, and {counted(doubled, 'entry')} of PATH is there twice",
        [f"{entry} is the same folder as an entry before it" for entry in doubled],
        "Write it in one way in your startup files: rules about folders compare letters as they are.",
    )


def _is_again(entry: str, before: Sequence[str]) -> bool:
    return any(other != entry and other.lower() == entry.lower() for other in before)


def private_links(given: Given, mac: Mac) -> Finding:
    named = given.base.get("PWD", "")
    if not named.startswith(tuple(f"{link}/" for link in _LINKED)) or mac.cwd != f"/private{named}":
        return Finding("ok", "the current directory has one name")
    return Finding(
        "ok",
        f"{named} is {mac.cwd}: /tmp, /var and /etc are links below /private",
        ["trust, locks and caches go by the real name, so both names mean the same project"],
    )


CHECKS = (
    Check("mac.path-helper", (given, mac), path_helper),
    Check("mac.homebrew", (given, mac), homebrew),
    Check("mac.launchd", (configured, given, mac), launchd),
    Check("mac.stubs", (given, mac), python_stub),
    Check("mac.case", (given, mac), case),
    Check("mac.private", (given, mac), private_links),
)
