"""Which files match the patterns of a confinement, at this moment.

A pattern is matched from the folder in front of its first wildcard, at any depth if it is a single name. `*`
and `?` stay within one name, `**` is any number of folders. Names with a dot in front match like others,
links to folders are not entered.
"""

from __future__ import annotations

import os

from .refusal import Unenforceable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

MAX_MATCHES = 8192  # the reference's: each is a mount
# Names looked at for all patterns: three seconds. More of them is a pattern with too short a prefix.
MAX_SCANNED = 1 << 20
_WILD = frozenset("*?[]")


def expand(patterns: Iterable[str], depth: int | None) -> list[str]:
    """Every file and link that matches one of the absolute patterns, ordered. `depth` is how many folders
    deep below the prefix a match may be. Raises Unenforceable."""
    found: set[str] = set()
    scanned = 0
    for root, wanted in _by_root(patterns).items():
        for path, relative in _files(root, depth):
            scanned += 1
            if scanned > MAX_SCANNED:
                raise Unenforceable(
                    f"unreadable glob expansion for {root} looked at more than {MAX_SCANNED} paths"
                )
            if wanted.fullmatch(relative):
                found.add(path)
                if len(found) > MAX_MATCHES:
                    raise Unenforceable(
                        f"unreadable glob expansion for {root} matched more than {MAX_MATCHES} paths"
                    )
    return sorted(found)


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Tells whether the path of a file matches one of the absolute patterns. Raises Unenforceable."""
    wanted = _by_root(patterns)

    def matches(path: str) -> bool:
        for root, expression in wanted.items():
            start = len(root) + 1
            if path.startswith(f"{root}/") and expression.fullmatch(path, start):
                return True
        return False

    return matches


def _by_root(patterns: Iterable[str]) -> dict[str, re.Pattern[str]]:
    """One expression for each folder where patterns begin."""
    import re

    parts: dict[str, list[str]] = {}
    for pattern in patterns:
        first = next((at for at, mark in enumerate(pattern) if mark in _WILD), 0)
        folder = pattern[: max(0, pattern.rfind("/", 0, first))]
        if not folder:
            raise Unenforceable(
                f"unreadable glob `{pattern}` cannot be safely expanded; "
                "use a pattern with a non-root directory prefix"
            )
        rest = pattern[len(folder) + 1 :]
        # The reference finds a plain name in the folder alone, or with ripgrep at any depth: the latter.
        deep = "" if "/" in rest else "(?:.*/)?"
        parts.setdefault(folder, []).append(deep + translate(rest))
    return {folder: re.compile("|".join(texts), re.DOTALL) for folder, texts in parts.items()}


def _files(root: str, depth: int | None) -> Iterator[tuple[str, str]]:
    """Every file and link below a folder, with its path from there."""
    waiting = [("", 1)]
    while waiting:
        folder, level = waiting.pop()
        try:
            entries = list(os.scandir(f"{root}/{folder}"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if _is_closed(f"{root}/{folder}", error):
                continue
            raise Unenforceable(
                f"unreadable glob expansion for {root} cannot list {root}/{folder}: {error.strerror}"
            ) from None
        for entry in entries:
            relative = folder + entry.name
            if entry.is_dir(follow_symlinks=False):
                if depth is None or level < depth:
                    waiting.append((f"{relative}/", level + 1))
            else:
                yield f"{root}/{relative}", relative


def _is_closed(folder: str, error: OSError) -> bool:
    """Whether a folder is closed to a command of ours as well. Who owns one can open it."""
    try:
        return isinstance(error, PermissionError) and os.lstat(folder).st_uid != os.geteuid()
    except OSError:
        return True  # nor can anybody come so far


def translate(glob: str) -> str:
    """A pattern as a regular expression. A bracket or brace that nothing closes stands for itself.

    Raises Unenforceable."""
    import re

    out, at, open_braces = [], 0, 0
    while at < len(glob):
        mark = glob[at]
        starts = at == 0 or glob[at - 1] == "/"
        at += 1
        if starts and glob.startswith("**/", at - 1):
            out.append("(?:[^/]+/)*")
            at += 2
        elif starts and glob[at - 1 :] == "**":
            out.append(".+")
            at += 1
        elif mark == "*":
            out.append("[^/]*")
        elif mark == "?":
            out.append("[^/]")
        elif mark == "[" and (end := _closing(glob, at)) > 0:
            out.append(_class(glob[at:end]))
            at = end + 1
        elif mark == "{" and "}" in glob[at:]:
            out.append("(?:")
            open_braces += 1
        elif mark in ",}" and open_braces:
            out.append("|" if mark == "," else ")")
            open_braces -= mark == "}"
        elif mark == "\\" and at < len(glob):
            out.append(re.escape(glob[at]))
            at += 1
        else:
            out.append(re.escape(mark))
    return "(?:" + "".join(out) + ")" * (open_braces + 1)


def _closing(glob: str, at: int) -> int:
    """Where the class that begins here ends; its first mark is never its end."""
    return glob.find("]", at + 1 + (glob[at : at + 1] in ("!", "^")))


def _class(inside: str) -> str:
    """A class of marks. Raises Unenforceable for a range that goes backwards."""
    import re

    negated = inside[:1] in ("!", "^")
    marks, at, out = inside[negated:], 0, []
    while at < len(marks):
        if marks[at + 1 : at + 2] == "-" and at + 2 < len(marks):
            first, last = marks[at], marks[at + 2]
            if first > last:
                raise Unenforceable(
                    f"unreadable glob pattern is invalid: invalid range; '{first}' > '{last}'"
                )
            out.append(f"{re.escape(first)}-{re.escape(last)}")
            at += 3
        else:
            out.append(re.escape(marks[at]))
            at += 1
    return f"[{'^' if negated else ''}{''.join(out)}]"
