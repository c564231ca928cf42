"""The rules of ignore files (gitignore(5)): which names a search passes over and a watch does not tell.

A rule is matched against a path itself, not against what lies above it: who walks a tree does not enter a
folder that is ignored, so nothing below it is ever asked about. The last rule that fits decides, which is
how `*`, `!*/`, `!*.py` keep the Python files of a whole tree.

No rule can take long on any path: a star takes the first place that fits and never tries another one, which
finds a match whenever there is one.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Pattern = re.Pattern[str]


class IgnoreRules:
    """The rules of one file or list. Lines that mean nothing are passed over, as git does."""

    __slots__ = ("_runs",)

    def __init__(self, lines: Iterable[str]) -> None:
        rules = [rule for rule in map(_rule, lines) if rule is not None]
        self._runs: list[_Run] = []  # the last rules first
        while rules:
            ignored = rules[-1][0]
            run = []
            while rules and rules[-1][0] == ignored:
                run.append(rules.pop())
            self._runs.append(_Run(ignored, run))

    def __bool__(self) -> bool:
        return bool(self._runs)

    def ignores(self, path: str, folder: bool) -> bool | None:
        """Whether a path, relative to where the rules stand, is ignored; None when no rule is about it."""
        name = path.rpartition("/")[2]
        for run in self._runs:
            if run.fits(path, name, folder):
                return run.ignored
        return None


class _Run:
    """Rules in a row that all ignore, or all do not: their order among themselves does not matter."""

    __slots__ = ("_folder_names", "_folder_paths", "_names", "_paths", "ignored")

    def __init__(self, ignored: bool, rules: list[tuple[bool, bool, bool, str]]) -> None:
        self.ignored = ignored
        self._names, self._paths, self._folder_names, self._folder_paths = [
            _any(text for _, *kind, text in rules if kind == [folder, anchored])
            for folder in (False, True)
            for anchored in (False, True)
        ]

    def fits(self, path: str, name: str, folder: bool) -> bool:
        return (
            _fits(self._names, name)
            or _fits(self._paths, path)
            or (folder and (_fits(self._folder_names, name) or _fits(self._folder_paths, path)))
        )


class Nested:
    """The rules that hold in a folder: its own, and those of the folders above, which give way to them."""

    __slots__ = ("_above", "_rules", "_start")

    def __init__(self, folder: str, rules: list[IgnoreRules], above: Nested | None) -> None:
        """`folder` is where the rules stand; of `rules`, the first that speaks of a path decides."""
        self._above = above
        self._rules = rules
        self._start = len(folder.rstrip("/")) + 1

    def ignores(self, path: str, folder: bool) -> bool:
        """Whether a path, named as the folders are, is ignored."""
        here: Nested | None = self
        while here is not None:
            for rules in here._rules:
                verdict = rules.ignores(path[here._start :], folder)
                if verdict is not None:
                    return verdict
            here = here._above
        return False


def _any(texts: Iterable[str]) -> Pattern | None:
    joined = "|".join(texts)
    return re.compile(joined, re.DOTALL) if joined else None


def _fits(pattern: Pattern | None, text: str) -> bool:
    return pattern is not None and pattern.fullmatch(text) is not None


# One rule


def _rule(line: str) -> tuple[bool, bool, bool, str] | None:
    """Ignores (or not), is for folders alone, is about the path (or the name), and its expression."""
    line = line.removesuffix("\r")
    if line.startswith("#"):
        return None
    line = _without_trailing_spaces(line)
    ignored = not line.startswith("!")
    if not ignored:
        line = line[1:]
    folder = line.endswith("/")
    if folder:
        line = line[:-1]
    anchored = "/" in line
    line = line.removeprefix("/")
    if not line:
        return None
    text = _path(line.split("/")) if anchored else _segment(line)
    return None if text is None else (ignored, folder, anchored, text)


def _without_trailing_spaces(line: str) -> str:
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    # An escaped space stays, and with it the backslash that says so.
    return line[: len(bare) + 1] if escapes % 2 and len(bare) < len(line) else bare


def _path(segments: list[str]) -> str | None:
    """Segments between slashes; `**` stands for any number of them, the last one for at least one."""
    text = ""
    chunk: list[str] = []  # what has to follow each other
    floating = False  # behind a `**`
    for place, segment in enumerate(segments):
        last = place == len(segments) - 1
        if len(segment) > 1 and not segment.strip("*"):
            if chunk:
                parts = "/".join(chunk) + "/"
                text += f"(?>(?:[^/]+/)*?{parts})" if floating else parts
                chunk = []
            floating = True
            if last:
                return text + ".+"
            continue
        one = _segment(segment if last else _without_escaped_slash(segment))
        if one is None:
            return None
        chunk.append(one)
    return text + ("(?:[^/]+/)*" if floating else "") + "/".join(chunk)


def _without_escaped_slash(segment: str) -> str:
    escapes = len(segment) - len(segment.rstrip("\\"))
    return segment[:-1] if escapes % 2 else segment


def _segment(glob: str) -> str | None:
    """One name with `*`, `?`, `[...]` and escapes; None when it can fit nothing."""
    parts = [""]  # between the stars
    place = 0
    while place < len(glob):
        mark = glob[place]
        place += 1
        if mark == "*":
            if parts[-1] or len(parts) == 1:
                parts.append("")
        elif mark == "?":
            parts[-1] += "[^/]"
        elif mark == "[":
            found = _class(glob, place)
            if found is None:
                return None
            text, place = found
            parts[-1] += text
        elif mark == "\\":
            if place == len(glob):
                return None
            parts[-1] += re.escape(glob[place])
            place += 1
        else:
            parts[-1] += re.escape(mark)
    if len(parts) == 1:
        return parts[0]
    return parts[0] + "".join(f"(?>[^/]*?{part})" for part in parts[1:-1]) + "[^/]*" + parts[-1]


_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\x09-\x0d\x20",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


def _class(glob: str, place: int) -> tuple[str, int] | None:
    """The expression of a class that begins here, and where it ends; None when it does not."""
    negated = glob[place : place + 1] in ("!", "^")
    if negated:
        place += 1
    inside = ""
    first = True
    while True:
        mark = glob[place : place + 1]
        if not mark:
            return None
        if mark == "]" and not first:
            break
        first = False
        if mark == "[" and glob[place + 1 : place + 2] == ":":
            end = glob.find(":]", place + 2)
            name = glob[place + 2 : end] if end >= 0 else ""
            if name not in _CLASSES:
                return None
            inside += _CLASSES[name]
            place = end + 2
            continue
        low, place = _member(glob, place)
        if low is None:
            return None
        if glob[place : place + 1] == "-" and glob[place + 1 : place + 2] not in ("", "]"):
            high, place = _member(glob, place + 1)
            if high is None:
                return None
            if low <= high:  # else nothing lies between
                inside += f"{re.escape(low)}-{re.escape(high)}"
        else:
            inside += re.escape(low)
    if not inside:
        return ("[^/]" if negated else r"[^\s\S]"), place + 1
    return f"(?!/)[{'^' if negated else ''}{inside}]", place + 1


def _member(glob: str, place: int) -> tuple[str | None, int]:
    if glob[place] == "\\":
        place += 1
    if place >= len(glob):
        return None, place
    return glob[place], place + 1
