"""JSON as editors write it, with line numbers: comments and commas behind the last entry are allowed.

`plain` turns it into JSON of the same length, `json` reads the values and refuses what is not JSON, and a
second pass over text that was accepted finds the lines. All three take time in proportion to the text.

    document = jsonc.parse(text, ".vscode/settings.json")
    document.value["python.envFile"], document.line("python.envFile")
"""

from __future__ import annotations

from ..errors import FileInvalid
from .document import Document, LineFinder, Mistake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .document import Path

_BLANKS = " \t\n\r"
# More than any settings; `json` itself would stop at the interpreter's recursion limit, wherever that is.
DEEPEST = 100


def parse(text: str, file: str) -> Document:
    """Reads a document; `file` is what a mistake is reported under. Raises FileInvalid.

    Of a key that is listed twice the last counts, as in JSON.
    """
    import json

    text = text.removeprefix("\ufeff")
    json_text = plain(text, file)
    try:
        value = json.loads(json_text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        problem = Mistake(
            file,
            error.lineno,
            f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}",
            "write it as JSON; comments and a comma after the last entry are allowed",
        )
    except RecursionError:
        problem = _too_deep(file, None)
    except ValueError as error:
        what = str(error) if str(error).startswith("`") else "a number has too many digits"
        problem = Mistake(file, None, f"not valid JSON: {what}", "write another number")
    else:
        return Document(file, value, _Lines(json_text).lines)
    raise FileInvalid((problem,))


def plain(text: str, file: str = "") -> str:
    """The text with blanks for comments and for commas behind a last entry: every line stays where it is.

    What is inside strings stays. Raises FileInvalid for a comment that does not end, and for brackets in
    brackets without end.
    """
    pieces: list[str] = []  # of the result, in order
    done = 0  # what is in them
    comma = -1  # where the last one is, if nothing but blanks and comments came after it
    last = ""  # the last mark that counts; a quote for a string
    depth = 0
    at = 0
    size = len(text)
    while at < size:
        mark = text[at]
        if mark == '"':
            at = _behind_string(text, at)
            comma = -1
            last = mark
        elif mark == "/" and text[at + 1 : at + 2] in ("/", "*"):
            end = _behind_comment(text, at, file)
            pieces += text[done:at], _blanked(text[at:end])
            done = at = end
        elif mark in _BLANKS:
            at += 1
        else:
            if mark in "]}" and comma >= 0:
                # Into what was already put away, if a comment stands between: by its distance from the end.
                done = _replace_comma(pieces, text, done, comma)
            # `[,]` has no comma behind its last entry, nor has `[1,,]`: there it stays, and is a mistake.
            comma = at if mark == "," and last and last not in "[{,:" else -1
            last = mark
            depth += (mark in "[{") - (mark in "]}")
            if depth > DEEPEST:
                raise FileInvalid((_too_deep(file, text.count("\n", 0, at) + 1),))
            at += 1
    pieces.append(text[done:])
    return "".join(pieces)


def _replace_comma(pieces: list[str], text: str, done: int, comma: int) -> int:
    if comma >= done:
        pieces += text[done:comma], " "
        return comma + 1
    place, left = len(pieces) - 1, done - comma
    while left > len(pieces[place]):
        left -= len(pieces[place])
        place -= 1
    at = len(pieces[place]) - left
    pieces[place] = f"{pieces[place][:at]} {pieces[place][at + 1 :]}"
    return done


def _behind_string(text: str, at: int) -> int:
    at += 1
    while at < len(text):
        mark = text[at]
        if mark == "\\":
            at += 2
            continue
        at += 1
        if mark in '"\n':  # a string ends with its line: what is wrong there is `json`'s to say
            break
    return at


def _behind_comment(text: str, at: int, file: str) -> int:
    if text[at + 1] == "/":
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    end = text.find("*/", at + 2)
    if end < 0:
        line = text.count("\n", 0, at) + 1
        problem = Mistake(file, line, "not valid JSON: a comment does not end", "close it with */")
        raise FileInvalid((problem,))
    return end + 2


def _blanked(comment: str) -> str:
    if "\n" not in comment and "\r" not in comment:
        return " " * len(comment)
    return "".join([mark if mark in "\n\r" else " " for mark in comment])


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"`{name}` is not a JSON number")


def _too_deep(file: str, line: int | None) -> Mistake:
    return Mistake(file, line, "not valid JSON: nested too deeply", "use fewer levels")


class _Lines(LineFinder):
    """Finds the line of every key and element. The text must be valid JSON."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._value(())

    def _value(self, path: Path) -> None:
        self._blanks()
        mark = self._text[self._at]
        if mark in "{[":
            self._entries(path, "}" if mark == "{" else "]")
        elif mark == '"':
            self._at = _behind_string(self._text, self._at)
        else:
            self._pass_until(",]}" + _BLANKS)

    def _entries(self, path: Path, closing: str) -> None:
        self._at += 1
        place = 0
        self._blanks(",")
        while self._text[self._at] != closing:
            line = self._here()
            entry = (*path, self._key() if closing == "}" else place)
            # The last of several keys counts; what the others held is not there.
            self.lines[entry] = line
            self._value(entry)
            place += 1
            self._blanks(",")
        self._at += 1

    def _key(self) -> str:
        import json

        start = self._at
        self._at = _behind_string(self._text, start)
        key: str = json.loads(self._text[start : self._at])
        self._blanks(":")
        return key

    def _blanks(self, also: str = "") -> None:
        self._pass(_BLANKS + also)
