"""TOML with line numbers: what a file says, and where it says it, so that a mistake can be pointed at.

`plaintoml` reads the values, or else `tomllib`, which refuses what is not TOML. Neither tells lines, so a
second pass over the same text finds them; that pass runs only on text that was accepted and decides nothing.

    document = toml.parse(text, "environments.toml")
    root = toml.Table(document)
    name = root.text("default")         # a wrong type is noted, and None returned
    root.only("default", "environments")
    refuse(root.mistakes)               # one error with everything that was noted
"""

from __future__ import annotations

from ..errors import FileInvalid
from . import plaintoml
from .document import Document, LineFinder, Mistake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .document import Path

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_ENDS_PLAIN = frozenset(",]}#\n")  # where a number, date or boolean is over
# Of a dotted key. The time that it takes grows with the square of its parts: for 1 MiB, hours.
MAX_PARTS = 32
# What to write instead, by how tomllib's message starts; the first match counts.
_REMEDIES = (
    ("Invalid value", 'put text in quotes: key = "value"'),
    (
        "Invalid initial character for a key part",
        "put the key in quotes if it has characters other than A-Z a-z 0-9 - _",
    ),
    ("Illegal character '\\n'", "close the string on the line where it starts"),
    ("Illegal character", "write control characters as \\uXXXX inside double quotes"),
    ("Found invalid character", "remove it"),
    ("Escaped character", "write the character itself"),
    ("Unescaped '\\'", "double the backslash, or use single quotes"),
    ("Unterminated", "close the string"),
    ("Expected \"'", "close the string"),
    ("Unclosed", "close the bracket"),
    ("Expected ']'", "close the bracket"),
    ("Expected", "write one key = value per line"),
    ("Invalid statement", "write key = value, [table] or [[array of tables]]"),
    ("Cannot", "write every key and every table only once"),
    ("Duplicate", "write every key once"),
)
_OTHER_REMEDY = "see https://toml.io for the syntax"
_KINDS = {
    bool: "a boolean",
    str: "a string",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "a table",
}


def parse(text: str, file: str) -> Document:
    """Reads TOML; `file` is what mistakes are reported under. Raises FileInvalid."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    plain = plaintoml.loads(text)
    if plain is not None:
        return Document(file, plain, _Lines(text).lines)
    import tomllib  # it takes longer than all of this package

    try:
        value = values(text)
        return Document(file, value, _Lines(text).lines)
    except _LongKey as error:
        problem = Mistake(file, error.line, f"a key with more than {MAX_PARTS} parts", "use fewer levels")
    except RecursionError:
        problem = Mistake(file, None, "not valid TOML: nested too deeply", "use fewer levels")
    except tomllib.TOMLDecodeError as error:
        problem = _syntax(text, file, str(error))
    except ValueError:  # Python's bound on the digits of an integer
        problem = Mistake(file, None, "not valid TOML: an integer has too many digits", "write fewer digits")
    raise FileInvalid((problem,))


class _LongKey(ValueError):
    """A key has more parts than anybody writes."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def values(text: str) -> dict[str, Any]:
    """What `tomllib` gives, of a file that nobody may have looked at. Raises ValueError, RecursionError."""
    if text.count(".") >= MAX_PARTS:
        from re import search

        part = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
        key = rf"(?<![A-Za-z0-9_.-]){part}(?:[ \t]*+\.[ \t]*+{part}){{{MAX_PARTS}}}"
        if (found := search(key, text)) is not None:
            raise _LongKey(text.count("\n", 0, found.start()) + 1)
    import tomllib

    return tomllib.loads(text)


def _syntax(text: str, file: str, message: str) -> Mistake:
    what, _, place = message.rpartition(" (at ")
    column = ""
    if place.startswith("line "):
        row, _, column = place.removeprefix("line ").removesuffix(")").partition(", ")
        line = int(row)
        column = f" at {column}"
    else:  # at end of document
        line = text.rstrip("\n").count("\n") + 1
    remedy = next((remedy for start, remedy in _REMEDIES if what.startswith(start)), _OTHER_REMEDY)
    return Mistake(file, line, f"not valid TOML: {what[:1].lower()}{what[1:]}{column}", remedy)


# Typed access


class Table:
    """One table of a document, read key by key. What is wrong is noted in `mistakes`, not raised.

    A key that is absent, or whose value has the wrong type, reads as None; `key in table` tells whether it
    was written. Values are never put into a mistake: they may be secret.
    """

    def __init__(
        self,
        document: Document,
        path: Path = (),
        value: dict[str, Any] | None = None,
        mistakes: list[Mistake] | None = None,
    ) -> None:
        self.mistakes: list[Mistake] = [] if mistakes is None else mistakes
        self._document = document
        self._path = path
        self._value = document.value if value is None else value

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def keys(self) -> list[str]:
        return list(self._value)

    def line(self, *path: str | int) -> int:
        return self._document.line(*self._path, *path)

    def wrong(self, text: str, remedy: str, *path: str | int) -> None:
        """Notes a mistake at a key of this table, or at the table itself."""
        self.mistakes.append(Mistake(self._document.file, self.line(*path), text, remedy))

    def only(self, *known: str) -> None:
        """Notes every key but these."""
        for key in self._value:
            if key not in known:
                self.wrong(f"unknown field `{shown(key)}`", suggest(key, known), key)

    def text(self, key: str) -> str | None:
        value = self._get(key, (str,), f'write {key} = "text"')
        return None if value is None else str(value)

    def flag(self, key: str) -> bool | None:
        value = self._get(key, (bool,), f"write {key} = true or {key} = false")
        return None if value is None else bool(value)

    def number(self, key: str) -> float | None:
        value = self._get(key, (int, float), f"write {key} = 10 or {key} = 2.5")
        try:
            return None if value is None else float(value)
        except OverflowError:
            return float("inf")

    def texts(self, key: str) -> tuple[str, ...] | None:
        """An array of strings."""
        remedy = f'write {key} = ["text", "text"]'
        value = self._get(key, (list,), remedy)
        wrong = [(place, item) for place, item in enumerate(value or ()) if type(item) is not str]
        for place, item in wrong:
            self.wrong(f"`{key}` must contain only strings, not {_kind(item)}", remedy, key, place)
        return None if value is None or wrong else tuple(value)

    def text_map(self, key: str) -> dict[str, str] | None:
        """A table whose values are strings."""
        value = self._get(key, (dict,), f'write {key} = {{ NAME = "text" }}')
        wrong = [(name, item) for name, item in (value or {}).items() if type(item) is not str]
        for name, item in wrong:
            problem = f"`{key}.{shown(name)}` must be a string, not {_kind(item)}"
            self.wrong(problem, "put its value in quotes", key, name)
        return None if value is None or wrong else dict(value)

    def table(self, key: str) -> Table | None:
        value = self._get(key, (dict,), f"write a table: {key} = {{ … }}")
        return None if value is None else Table(self._document, (*self._path, key), value, self.mistakes)

    def tables(self, key: str) -> list[Table]:
        """An array of tables; none when it is absent. Elements that are no table are noted and left out."""
        remedy = f"write each entry as a table under its own line [[{key}]]"
        found = []
        for place, item in enumerate(self._get(key, (list,), remedy) or ()):
            if type(item) is dict:
                found.append(Table(self._document, (*self._path, key, place), item, self.mistakes))
            else:
                self.wrong(f"`{key}` must contain only tables, not {_kind(item)}", remedy, key, place)
        return found

    def _get(self, key: str, types: tuple[type, ...], remedy: str) -> Any:
        # The values of a document are of any type until they have been looked at.
        value = self._value.get(key)
        if value is None or type(value) in types:
            return value
        self.wrong(f"`{key}` must be {_KINDS[types[-1]]}, not {_kind(value)}", remedy, key)
        return None


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a date or time")


def suggest(key: str, known: tuple[str, ...]) -> str:
    """What to write instead of a word that is not known: the nearest one, or all that there are."""
    from difflib import get_close_matches

    close = get_close_matches(key.lower(), known, 1)
    return (
        f"did you mean `{close[0]}`?" if close else "write one of " + ", ".join(f"`{name}`" for name in known)
    )


def shown(text: str) -> str:
    """Text of a file as a terminal may show it: no control characters."""
    return text if text.isprintable() else repr(text)[1:-1]


# Lines


class _Lines(LineFinder):
    """Finds the line of every key, table and array element. The text must be valid TOML with `\\n` only."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._arrays: dict[Path, int] = {}  # arrays of tables: the index of the last element
        self._document()

    # Statements

    def _document(self) -> None:
        table: Path = ()
        while self._skip() < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        line = self._here()
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        keys = self._key()
        self._at += 2 if is_array else 1
        path: Path = ()
        for key in keys[:-1]:
            path = self._enter((*path, key), line)
        path = (*path, keys[-1])
        if not is_array:
            self.lines[path] = line
            return path
        self.lines.setdefault(path, line)
        self._arrays[path] = self._arrays.get(path, -1) + 1
        path = (*path, self._arrays[path])
        self.lines[path] = line
        return path

    def _enter(self, path: Path, line: int) -> Path:
        """A table named on the way to another: in an array of tables, its last element."""
        self.lines.setdefault(path, line)
        return (*path, self._arrays[path]) if path in self._arrays else path

    def _pair(self, table: Path) -> None:
        line = self._here()
        path = table
        *above, last = self._key()
        for key in above:
            path = (*path, key)
            self.lines.setdefault(path, line)
        path = (*path, last)
        self.lines[path] = line
        self._at = self._text.index("=", self._at) + 1
        self._value(path)

    # Keys

    def _key(self) -> list[str]:
        """A dotted key; leaves the scanner behind it and its blanks."""
        keys = []
        while True:
            self._blanks()
            keys.append(self._key_part())
            self._blanks()
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _key_part(self) -> str:
        start = self._at
        if self._text[start] in "\"'":
            self._string()
            import tomllib

            # Escapes are its business: they must come out as they did in the values.
            return next(iter(tomllib.loads(self._text[start : self._at] + "=0")))
        self._pass(_BARE)
        return self._text[start : self._at]

    # Values

    def _value(self, path: Path) -> None:
        self._blanks()
        mark = self._text[self._at]
        if mark in "\"'":
            self._string()
        elif mark in "[{":
            self._entries(path, "]" if mark == "[" else "}")
        else:
            self._pass_until(_ENDS_PLAIN)

    def _entries(self, path: Path, closing: str) -> None:
        """Of an array, or of an inline table."""
        self._at += 1
        place = 0
        while self._text[self._skip(",")] != closing:
            if closing == "}":
                self._pair(path)
            else:
                self.lines[*path, place] = self._here()
                self._value((*path, place))
                place += 1
        self._at += 1

    def _string(self) -> None:
        quote = self._text[self._at]
        closing = quote * 3 if self._text.startswith(quote * 3, self._at) else quote
        at = self._at + len(closing)
        while not self._text.startswith(closing, at):
            at += 2 if quote == '"' and self._text[at] == "\\" else 1
        at += len(closing)
        if len(closing) == 3:
            # A multi-line string may end in quotes of its own: up to two before the closing three.
            while self._text.startswith(quote, at):
                at += 1
        self._at = at

    # Between them

    def _skip(self, also: str = "") -> int:
        """Passes blanks, line ends and comments; returns where it stands."""
        self._pass(" \t\n" + also)
        while self._text.startswith("#", self._at):
            self._pass_until("\n")
            self._pass(" \t\n" + also)
        return self._at

    def _blanks(self) -> None:
        self._pass(" \t")
