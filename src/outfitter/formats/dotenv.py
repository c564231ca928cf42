"""`.env` files, read strictly: what readers disagree about is a mistake with its line, not a guess.

There is no standard. The same file means different things to python-dotenv, Node, uv, direnv and Docker
Compose; so everything that they read differently is refused, unless somebody chooses a dialect, and nothing
is ever executed. Pure: text in, entries out.
"""

from __future__ import annotations

from ..env.names import is_name
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# `strict`: what readers read differently is refused: references, and escapes but for "\n". `literal`: a
# dollar sign is a dollar sign. `expand-braces`: ${NAME} and ${NAME:-default} are replaced, but not in single
# quotes; $NAME is not. Both know the escapes below.
DIALECTS = ("strict", "literal", "expand-braces")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}
_BLANKS = " \t"
# Characters that references stand for, in one file: each can double what is above it. Commands get 1 MiB.
_EXPANDED = 4 << 20
_CHOOSE = "or choose a dialect with `dotenv_dialect`"


@record
class DotenvEntry:
    """One variable of a file. The repr has no value: it may be a password."""

    name: str
    value: str
    line: int
    hidden = ("value",)


@record
class LineMistake:
    """What is wrong in a line, without any of its text."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}"


def parse(
    text: str, dialect: str = DIALECTS[0], known: Mapping[str, str] | None = None
) -> tuple[list[DotenvEntry], list[LineMistake]]:
    """The variables in their order, and everything that is wrong, all at once.

    A file with mistakes should not be used at all: what follows one may not be what was meant. `known` are
    the values that ${NAME} may stand for, besides those further up in the file.
    """
    return _File(text, dialect, dict(known or {})).read()


class WrongLine(Exception):
    """A line that is refused."""


class CharacterReader:
    """Goes through a text, entry by entry; an entry may have several lines. What is wrong is noted."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.mistakes: list[LineMistake] = []

    def _read_lines(self) -> None:
        line, counted = 1, 0
        while self._at < len(self._text):
            begun = self._at
            line += self._text.count("\n", counted, begun)
            counted = begun
            try:
                self._line(line)
            except WrongLine as wrong:
                self.mistakes.append(LineMistake(line, str(wrong)))
                self._at = begun
                self._skip(line)
            self._at += 1  # the line's end

    def _line(self, line: int) -> None:
        """Reads to the end of the line that an entry ends in. Raises WrongLine."""
        raise NotImplementedError

    def _skip(self, line: int) -> None:
        """To the end of what was refused."""
        self._to_line_end()

    # Where it stands

    def _here(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        here = self._here()
        self._at += len(here)
        return here

    def _rest(self) -> str:
        end = self._text.find("\n", self._at)
        return self._text[self._at :] if end < 0 else self._text[self._at : end]

    def _to_line_end(self) -> None:
        self._at += len(self._rest())

    def _blanks(self) -> None:
        while self._here() in (" ", "\t"):
            self._at += 1

    def _single(self) -> str:
        """What is between two single quotes, of which the first was taken."""
        end = self._text.find("'", self._at)
        if end < 0:
            raise WrongLine("the closing ' is missing")
        text = self._text[self._at : end]
        self._at = end + 1
        return text


class _File(CharacterReader):
    def __init__(self, text: str, dialect: str, known: dict[str, str]) -> None:
        # As editors on Windows leave it.
        super().__init__(text.removeprefix("\ufeff").replace("\r\n", "\n"))
        self._expand = dialect == "expand-braces"
        self._strict = dialect == "strict"
        self._known = known
        self._left = _EXPANDED
        self._entries: list[DotenvEntry] = []

    def read(self) -> tuple[list[DotenvEntry], list[LineMistake]]:
        self._read_lines()
        return self._entries, self.mistakes

    def _line(self, line: int) -> None:
        self._blanks()
        if self._here() in ("", "\n", "#"):
            self._to_line_end()
            return
        head, equals, _ = self._rest().partition("=")
        if not equals:
            raise WrongLine("the `=` is missing")
        name = (head[7:] if head.startswith(("export ", "export\t")) else head).strip(_BLANKS)
        if not is_name(name):
            raise WrongLine("the text before the `=` is not a name (letters, digits and `_`)")
        self._at += len(head) + 1
        self._blanks()
        begun = self._at
        value = self._value()
        # Some end the line there, some leave it out, some keep it. As an escape it is meant.
        if "\r" in self._text[begun : self._at]:
            raise WrongLine("it contains a carriage return: save the file with Unix line ends")
        if "\0" in value:
            raise WrongLine("the value contains a NUL")
        self._entries.append(DotenvEntry(name, value, line))
        self._known[name] = value

    def _value(self) -> str:
        quote = self._here()
        if quote == "`":
            raise WrongLine(
                "some programs read a backtick as a quote, others run a command: use single quotes"
            )
        if quote not in ("'", '"'):
            return self._unquoted()
        self._at += 1
        value = self._literal() if quote == "'" else self._double()
        after = self._rest()
        blank = after[:1] in ("", *_BLANKS)
        self._to_line_end()
        after = after.strip(_BLANKS)
        if after and not (blank and after.startswith("#")):
            raise WrongLine("the closing quote is followed by more text")
        return value

    def _unquoted(self) -> str:
        before = self._text[self._at - 1]  # the `=`, or a blank
        rest = self._rest()
        self._to_line_end()
        value = rest
        for place, mark in enumerate(rest):
            if mark == "#":
                if (rest[place - 1] if place else before) not in _BLANKS:
                    raise WrongLine("some programs start a comment at the `#`: put the value in quotes")
                value = rest[:place]
                break
        value = value.strip(_BLANKS)
        if value.endswith("\\"):
            raise WrongLine("a `\\` at the end does not continue a line: put the value in quotes")
        if self._strict and "\\" in value:
            raise WrongLine(f"some programs remove a `\\`: put the value in single quotes, {_CHOOSE}")
        if self._strict and any(value.count(quote) > 1 for quote in "'\""):
            raise WrongLine(f"some programs remove quotes inside of a value: put it all in quotes, {_CHOOSE}")
        return self._replaced(value)

    def _literal(self) -> str:
        """What is in single quotes."""
        value = self._single()
        if self._strict and "${" in value:
            raise WrongLine(f"some programs replace ${{NAME}} even here: write what it stands for, {_CHOOSE}")
        if self._strict and "\\\\" in value:
            raise WrongLine(f"some programs read `\\\\` as one, others as two: write it otherwise, {_CHOOSE}")
        if self._strict and value.endswith("\\"):
            raise WrongLine(f"to some programs `\\'` does not end the value: write it otherwise, {_CHOOSE}")
        return value

    def _replaced(self, text: str) -> str:
        """A piece of a value in which references count."""
        if self._expand:
            return self._expanded(text)
        # direnv even takes `$!` away.
        if self._strict and "$" in text:
            raise WrongLine(
                "some programs replace what follows the `$`: put the value in single quotes, or write what "
                f"it stands for, {_CHOOSE}"
            )
        return text

    def _double(self) -> str:
        parts = []
        plain = self._at  # where text begins in which references count
        while True:
            mark = self._here()
            if not mark:
                raise WrongLine('the closing " is missing')
            if mark in '"\\':
                piece = self._text[plain : self._at]
                parts.append(self._replaced(piece))
                self._at += 1
                if mark == '"':
                    return "".join(parts)
                escape = _ESCAPES.get(self._here())
                if self._strict and self._here() != "n":
                    raise WrongLine(
                        "programs read this backslash differently, only \\n alike: put the value in single "
                        f"quotes, {_CHOOSE}"
                    )
                if escape is None:
                    raise WrongLine(
                        'only \\n, \\r, \\t, \\", \\\\ and \\$ may follow a backslash here: double it'
                    )
                parts.append(escape)
                plain = self._at + 1
            self._at += 1

    def _expanded(self, text: str) -> str:
        parts = []
        while True:
            before, found, rest = text.partition("${")
            parts.append(before)
            if not found:
                return "".join(parts)
            inside, closed, text = rest.partition("}")
            name, has_default, default = inside.partition(":-")
            if not closed or not is_name(name):
                raise WrongLine("only ${NAME} and ${NAME:-default} are supported")
            value = self._known.get(name)
            if has_default and not value:
                value = default
            if value is None:
                raise WrongLine(f"${{{name}}} has no value here: give one with ${{{name}:-...}}")
            self._left -= len(value)
            if self._left < 0:
                raise WrongLine("references make more of this file than an environment can have: use fewer")
            parts.append(value)
