"""Which files match the patterns of a confinement, at this moment.

A pattern is matched from the folder in front of its first wildcard, at any depth if it is a single name. `*`
and `?` stay within one name, `**` is any number of folders. Names with a dot in front match like others,
links to folders are not entered.
"""

from __future__ import annotations

import os

from .refusal import TooWide, Unenforceable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

MAX_MATCHES = 8192  # the reference's: each is a mount
# Names of files and folders looked at for all patterns: six seconds. More of them is a pattern with too short
# a prefix.
MAX_SCANNED = 1 << 20
MAX_ALTERNATIVES = 256  # that the braces of one pattern stand for; people write a handful
_WILD = frozenset("*?[]")


def expand(
    patterns: Iterable[str], depth: int | None, needed: Callable[[], bool] = lambda: True
) -> list[str]:
    """Every file and link that matches one of the absolute patterns, ordered. `depth` is how many folders
    deep below the prefix a match may be. Ends early, with less, when it is `needed` no more.

    Raises Unenforceable, TooWide."""
    found: set[str] = set()
    left = MAX_SCANNED
    for root, wanted in _by_root(patterns).items():
        for path, relative in _names(root, depth, needed):
            left -= 1
            if left < 0:
                raise TooWide(root, MAX_SCANNED)
            if path and wanted.fullmatch(relative):
                found.add(path)
                if len(found) > MAX_MATCHES:
                    raise Unenforceable(
                        f"unreadable glob expansion for {root} matched more than {MAX_MATCHES} paths"
                    )
    return sorted(found)


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Tells whether the real path of a file matches one of the absolute patterns: a link on the way to the
    folder where a pattern begins leads to another one. Raises Unenforceable."""
    wanted = [(os.path.realpath(root).rstrip("/"), each) for root, each in _by_root(patterns).items()]

    def matches(path: str) -> bool:
        for root, expression in wanted:
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


def _names(root: str, depth: int | None, needed: Callable[[], bool]) -> Iterator[tuple[str, str]]:
    """Every file and link below a folder, with its path from there; for a folder there is nothing of it."""
    waiting = [("", 1)]
    while waiting and needed():
        folder, level = waiting.pop()
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                for entry in entries:
                    relative = folder + entry.name
                    if not entry.is_dir(follow_symlinks=False):
                        yield f"{root}/{relative}", relative
                        continue
                    yield "", ""
                    if depth is None or level < depth:
                        waiting.append((f"{relative}/", level + 1))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if is_closed(f"{root}/{folder}", error):
                continue
            raise Unenforceable(
                f"unreadable glob expansion for {root} cannot list {root}/{folder}: {error.strerror}"
            ) from None


def is_closed(folder: str, error: OSError) -> bool:
    """Whether a folder is closed to a command of ours as well. Who owns one can open it."""
    try:
        return isinstance(error, PermissionError) and os.lstat(folder).st_uid != os.geteuid()
    except OSError:
        return True  # nor can anybody come so far


def translate(glob: str) -> str:
    """A pattern as a regular expression. A bracket or brace that nothing closes stands for itself.

    No pattern takes long on any path: a star takes the first place that fits what follows it, and never tries
    another one, which finds a match whenever there is one. So alternatives are written out.

    Raises Unenforceable."""
    return "(?:" + "|".join([_expression(one) for one in _alternatives(glob)]) + ")"


def _alternatives(glob: str) -> list[str]:
    """The patterns without braces that one with braces stands for."""
    waiting, done = [glob], []
    while waiting:
        one = waiting.pop()
        braces = _braces(one)
        if braces is None:
            done.append(one)
            continue
        begin, *commas, end = braces
        starts = [begin, *commas]
        inner = [one[left + 1 : right] for left, right in zip(starts, [*commas, end], strict=True)]
        waiting += [one[:begin] + text + one[end + 1 :] for text in inner]
        if len(waiting) + len(done) > MAX_ALTERNATIVES:
            raise Unenforceable(
                f"unreadable glob pattern is invalid: it has more than {MAX_ALTERNATIVES} alternatives"
            )
    return done


def _braces(glob: str) -> list[int] | None:
    """Where the first pair of braces stands, with the commas between its alternatives."""
    opened: list[list[int]] = []
    at = 0
    while at < len(glob):
        mark = glob[at]
        if mark == "\\":
            at += 1
        elif mark == "[" and (end := _closing(glob, at + 1)) > 0:
            at = end
        elif mark == "{":
            opened.append([at])
        elif mark == "," and opened:
            opened[-1].append(at)
        elif mark == "}" and opened:
            return [*opened.pop(), at]
        at += 1
    return None


def _expression(glob: str) -> str:
    """One without braces: segments between slashes, of which `**` stands for any number."""
    text, chunk, floating = "", list[str](), False
    for segment in glob.split("/"):
        if segment != "**":
            chunk.append(_segment(segment))
            continue
        if chunk:
            parts = "/".join([*chunk, ""])
            text += f"(?>(?:[^/]+/)*?{parts})" if floating else parts
            chunk = []
        floating = True
    if not chunk:
        return f"{text}.+"
    return text + ("(?:[^/]+/)*" if floating else "") + "/".join(chunk)


def _segment(glob: str) -> str:
    import re

    parts, at = [""], 0  # what stands between the stars
    while at < len(glob):
        mark = glob[at]
        at += 1
        if mark == "*":
            if parts[-1] or len(parts) == 1:
                parts.append("")
        elif mark == "?":
            parts[-1] += "[^/]"
        elif mark == "[" and (end := _closing(glob, at)) > 0:
            parts[-1] += _class(glob[at:end])
            at = end + 1
        elif mark == "\\" and at < len(glob):
            parts[-1] += re.escape(glob[at])
            at += 1
        else:
            parts[-1] += re.escape(mark)
    if len(parts) == 1:
        return parts[0]
    return parts[0] + "".join([f"(?>[^/]*?{part})" for part in parts[1:-1]]) + "[^/]*" + parts[-1]


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
