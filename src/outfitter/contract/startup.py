"""What a shell's startup files changed, and in which file and line, where that can be found."""

from __future__ import annotations

import os
import stat

from ..env.explain import shown
from ..env.fingerprint import value_digest
from ..env.names import SHELL_MAINTAINED, is_name
from ..providers.files import read
from ..shell.start import maintained
from ..shell.startup import assignments, at_home, sources, startup_files
from .freshness import lasting, stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..shell.start import ShellPlan
    from .freshness import Stamp

# All files of one start: to read so much takes half a second, and somebody waits for the exit meanwhile.
_BYTES = 256 << 10
_FILES = 64  # files that include each other are followed so far
_REMEMBERED = 256  # files that are not read again until they change
_PLACES = 20  # lines that are named for one variable, the last ones; who has more has a loop, or a mess
_SHORT = 16  # characters of a digest that is only looked at


# A line with the variable that it assigns, or with the file that it reads, as written.
Lines = list[tuple[int, str, str]]
# By path and shell: how the file was, its size, and what it says. Names only, never a value.
_known: dict[tuple[str, str], tuple[Stamp, int, Lines]] = {}


def changes(
    given: Mapping[str, str], found: Mapping[str, str], plan: ShellPlan, key: bytes
) -> list[dict[str, object]]:
    """What differs between the environment a shell was given and the one its startup files left.

    Values are keyed digests. `file` and `line` are where a startup file last assigns the variable, as its
    text says; absent when nothing there does. `places` are all of them, if there are several: PATH is put
    together by many.
    """
    ignored = SHELL_MAINTAINED | maintained(plan.shell)
    # What is no name for a shell it cannot change, and may not report.
    names = sorted(
        name
        for name in {*given, *found} - ignored
        if given.get(name) != found.get(name) and (name in found or is_name(name))
    )
    known = places(plan, given) if names else {}
    told = []
    for name in names:
        before, after = given.get(name), found.get(name)
        entry: dict[str, object] = {
            "name": shown(name),
            "kind": "added" if before is None else "removed" if after is None else "changed",
        }
        if before is not None:
            entry["before"] = value_digest(key, name, before)[:_SHORT]
        if after is not None:
            entry["after"] = value_digest(key, name, after)[:_SHORT]
        several = known.get(name, [])
        if name == "PATH" and len(several) > 1:
            several = [place for place, _ in effective(several, after or "")]
        if several:
            entry["file"], entry["line"] = shown(several[-1][0]), several[-1][1]
        if len(several) > 1:
            entry["places"] = [{"file": shown(file), "line": line} for file, line in several[-_PLACES:]]
        told.append(entry)
    return told


def places(plan: ShellPlan, env: Mapping[str, str]) -> dict[str, list[tuple[str, int]]]:
    """Where each variable is assigned, in the order in which the shell reads its files."""
    home = env.get("HOME", "")
    groups = startup_files(plan.shell, login=plan.login, interactive=plan.interactive, home=home, env=env)
    scan = _Scan(plan.shell, home)
    for group in groups:
        for path in _existing(group):
            scan.file(path)
    return scan.found


def effective(places: Sequence[tuple[str, int]], path: str) -> list[tuple[tuple[str, int], str]]:
    """Of the lines that assign PATH those that can have made it what it is, each with its text.

    One that gives it a whole new value, of which nothing is there, belongs to a branch that was not taken, or
    another one has replaced it since. All of them, if that leaves none.
    """
    texts: dict[str, list[str]] = {}
    found = []
    for file, line in places:
        if file not in texts:
            texts[file] = (read(file, _BYTES) or b"").decode("utf-8", "replace").split("\n")
        text = texts[file][line - 1] if line <= len(texts[file]) else ""
        found.append(((file, line), text))
    return [one for one in found if (value := whole_value(one[1])) is None or value in path] or found


def whole_value(text: str) -> str | None:
    """What a line assigns, if that depends on nothing; None for what it adds to, or computes."""
    _, equals, value = text.partition("=")
    value = value.strip()
    if value[:1] in ("'", '"'):
        value = value[1:].partition(value[0])[0]
    else:
        for end in (";", " ", "\t", "&", "|", ")", "#"):
            value = value.partition(end)[0]
    return value if equals and value and not any(mark in value for mark in "$`(*") else None


def _existing(group: tuple[str, ...]) -> list[str]:
    """Of a group the first file that is there; of a pattern all that match."""
    for path in group:
        if "*" in path:
            from glob import glob

            return sorted(glob(path))
        if path.startswith("/") and os.path.isfile(path):  # a relative one is not where we are
            return [path]
    return []


class _Scan:
    """The files of one start, in the order in which they are read."""

    def __init__(self, shell: str, home: str) -> None:
        self.found: dict[str, list[tuple[str, int]]] = {}
        self._shell = shell
        self._home = home
        self._read: set[str] = set()
        self._left = _BYTES

    def file(self, path: str) -> None:
        if path in self._read or len(self._read) >= _FILES or self._left <= 0:
            return
        self._read.add(path)
        for line, name, written in self._lines(path):
            if name:
                self.found.setdefault(name, []).append((path, line))
            elif (other := _expanded(written, self._home)) is not None:
                self.file(other)

    def _lines(self, path: str) -> Lines:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return []
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return []
            now = stamp_of(info)
            known = _known.get((path, self._shell))
            if known is not None and known[0] == now:
                self._left -= known[1]
                return known[2]
            lasts = lasting(now)
            whole = info.st_size <= self._left
            text = os.read(fd, self._left).decode("utf-8", "surrogateescape")
        except OSError:
            return []
        finally:
            os.close(fd)
        self._left -= len(text)
        lines = _said(text, self._shell)
        if whole:
            if len(_known) >= _REMEMBERED:
                _known.clear()
            _known[path, self._shell] = (lasts, len(text), lines)
        return lines


def _said(text: str, shell: str) -> Lines:
    return sorted(
        [
            *((line, name, "") for line, name in assignments(text, shell)),
            *((line, "", written) for line, written in sources(text, shell)),
        ]
    )


def _expanded(written: str, home: str) -> str | None:
    """A path as startup files write it; None for what only a shell could tell."""
    path = at_home(written, home)
    return path if path.startswith("/") and "$" not in path and "`" not in path else None
