"""Files of `export` lines, as hooks write them for a shell and as people keep them, read without a shell.

    export A=b          declare -x A="b"        A='b' B=$'c\\td'
    export PATH="/x/bin:$PATH"                  unset A

Nothing is executed. What is taken means exactly what bash would export (with `set -a` for lines without
`export`); everything else is refused with its line and the reason. Pure: text in, variables out.
"""

from __future__ import annotations

from collections import ChainMap

from ..env.layer import Operation
from ..env.lists import LIST_NAMES
from ..env.names import is_name
from ..env.overlay import Contribution
from ..env.resolve import LARGEST_PAIR
from ..errors import OverlayRefused
from ..record import record
from .dotenv import CharacterReader, LineMistake, WrongLine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    _Added = tuple[tuple[str, ...], tuple[str, ...]]  # to a list: in front, behind

LONGEST_NAME = 1024  # of a variable that is referred to in braces
# Characters of all the values that a file makes: many times what a program can be given. A line of ten bytes
# can make a hundred thousand.
MOST_MADE = 16 << 20
_BLANKS = " \t"
# Unquoted, each of these makes more of a line than one command with words.
_OPERATORS = {
    ";": "`;` starts another command",
    "&": "`&` starts another command",
    "|": "`|` is a pipe",
    "<": "`<` is a redirection",
    ">": "`>` is a redirection",
    "(": "`(` starts a function, a subshell or an array",
    ")": "`)` ends a construct that only a shell can read",
}
# Words that decide what the lines behind them mean, or whether they are read at all.
_DECIDING = frozenset(
    (
        *("if", "then", "elif", "else", "fi", "case", "esac", "select"),
        *("for", "while", "until", "do", "done"),
        *("function", "time", "coproc", "{", "}", "!", "[[", "exit", "return", "exec", "break", "continue"),
        *("set", "shopt", "eval", "source", ".", "alias", "unalias", "enable", "trap", "builtin", "command"),
        *("local", "readonly", "typeset", "declare"),
    )
)
# Commands that set or take away a variable whose name they are told.
_NAMING = frozenset(("unset", "read", "mapfile", "readarray", "let", "getopts", "-v", "-p", "-n"))
# bash makes these itself, or makes something else of what they are given.
_BASH_OWN = frozenset(
    (
        *("_", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "GROUPS", "DIRSTACK"),
        *("FUNCNAME", "HISTCMD", "OPTIND", "OPTERR", "SHLVL", "EPOCHSECONDS", "EPOCHREALTIME", "HOSTTYPE"),
        *("MACHTYPE", "OSTYPE", "PIPESTATUS", "MAPFILE", "IFS", "PS4", "POSIXLY_CORRECT", "SHELLOPTS"),
        *("BASHOPTS", "COMP_WORDBREAKS", "COPROC", "TIMEFORMAT"),
    )
)
# These have a value of bash's own too, but keep one that they are given.
_FILLED_IN = frozenset(("PWD", "OLDPWD", "HOSTNAME", "OPTARG", "REPLY"))
_LOCALES = ("LC_ALL", "LC_CTYPE", "LANG")
_ESCAPES = {
    "a": 7, "b": 8, "e": 27, "E": 27, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11,
    "\\": 92, "'": 39, '"': 34, "?": 63,
}  # fmt: skip
_HEX = "0123456789abcdefABCDEF"
_OCTAL = "01234567"
# What may follow a dollar sign that is only a dollar sign.
_AFTER_DOLLAR = frozenset(" \t\n/.,:=%+^~]}")


class Read:
    """What a file says. `exact` is what bash would leave of each variable, None for none of it; a list that
    is only added to is in `operations` instead of `values`, and in `exact` where its beginning is known.
    """

    __slots__ = ("exact", "lines", "mistakes", "operations", "unset", "values")

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.unset: dict[str, None] = {}
        self.operations: dict[str, _Added] = {}
        self.lines: dict[str, int] = {}
        self.mistakes: list[LineMistake] = []
        self.exact: dict[str, str | None] = {}

    def __repr__(self) -> str:
        return f"Read({sorted(self.lines)}, {self.mistakes})"

    def contribution(self, producer: str, *, strict: bool = False) -> Contribution:
        """All of it as one producer's words. Raises OverlayRefused when `strict` and a line was refused."""
        if strict and self.mistakes:
            raise OverlayRefused(producer, tuple(map(str, self.mistakes)))
        operations = []
        for name, (front, behind) in self.operations.items():
            operations += [Operation(name, "prepend", front)] if front else []
            operations += [Operation(name, "append", behind)] if behind else []
        return Contribution(producer, self.values, unset=tuple(self.unset), operations=operations)


def parse(text: str, known: Mapping[str, str] | None = None, lists: frozenset[str] = LIST_NAMES) -> Read:
    """The variables of a file, and every line that is refused.

    `known` are the values that references stand for, besides those further up. `lists` are the variables for
    which `NAME="/x:$NAME"` adds to whatever a command has.
    """
    return _File(text, dict(known or {}), lists).read()


class _Word:
    """One word of a command: texts and references, in turn."""

    def __init__(self) -> None:
        self._raw: list[str] = []
        self.parts: list[tuple[str, str]] = []  # ("text", ...) or ("reference", name)

    @property
    def raw(self) -> str:
        """What is not quoted, with a mark for all that is: the mark is in no name and no keyword."""
        return "".join(self._raw)

    @property
    def last(self) -> str:
        return self._raw[-1][-1:] if self._raw else ""

    def add(self, text: str, *, quoted: bool) -> None:
        self._raw.append("\0" if quoted else text)
        self.parts.append(("text", text))

    def refer(self, name: str) -> None:
        self._raw.append("\0")
        self.parts.append(("reference", name))


@record
class _Value:
    """What an assignment makes of a variable: a value, where it is known, or what it adds to a list."""

    value: str | None
    added: _Added | None = None


class _File(CharacterReader):
    def __init__(self, text: str, known: dict[str, str], lists: frozenset[str]) -> None:
        super().__init__(text)
        self._known: dict[str, str | None] = dict(known)
        self._lists = lists
        self._found = Read()
        # What the line at hand assigns, once that is all it can do.
        self._assigns: list[str] | None = None
        # Names whose value a refused line may have changed, and that line.
        self._doubtful: dict[str, int] = {}
        self._everything: int | None = None
        self._made = 0  # of MOST_MADE
        # Names that a refused line has made arrays of, which are not exported, and that line.
        self._arrays: dict[str, int] = {}

    def read(self) -> Read:
        self._read_lines()
        self._found.mistakes = self.mistakes
        return self._found

    # Lines

    def _line(self, line: int) -> None:
        if self._everything is not None:
            self._pass_over(self._everything)
            return
        self._assigns = None
        words = self._words()
        if not words:
            return
        match words[0].raw:
            case "export":
                self._declare(words[1:], line)
            case "declare":
                if len(words) < 2 or words[1].raw != "-x":
                    raise WrongLine("`declare` is only supported as `declare -x NAME=value`")
                self._declare(words[2:], line)
            case "unset":
                self._unset(words[2:] if len(words) > 1 and words[1].raw == "-v" else words[1:], line)
            case _:
                self._assign_in_turn([self._assignment(word) for word in words], line)

    def _assign_in_turn(self, assignments: list[tuple[str, _Word]], line: int) -> None:
        """Each counts for those behind it; all of them, or none."""
        self._assigns = self._once(assignments)
        known: ChainMap[str, str | None] = ChainMap({}, self._known)
        worked_out: list[tuple[str, _Value]] = []
        for name, word in assignments:
            if worked_out and worked_out[-1][1].added is not None:
                raise WrongLine(f"it appends to {worked_out[-1][0]} and then does more: write two lines")
            if name in self._doubtful and len(assignments) > 1:
                raise WrongLine(f"{name} was refused in line {self._doubtful[name]}: write two lines")
            worked_out.append((name, self._worked_out(name, word, known)))
            known[name] = worked_out[-1][1].value
        for name, value in worked_out:
            self._assign(name, value, line)

    def _declare(self, words: list[_Word], line: int) -> None:
        """All words are expanded before the first of them counts."""
        assignments = []
        for word in words:
            raw = word.raw
            if "=" in raw:
                assignments.append(self._assignment(word))
            elif not is_name(raw):
                raise WrongLine("only names and NAME=value may follow `export`")
        self._assigns = self._once(assignments)
        worked_out = [(name, self._worked_out(name, word, self._known)) for name, word in assignments]
        for name, value in worked_out:
            self._assign(name, value, line)

    def _once(self, assignments: list[tuple[str, _Word]]) -> list[str]:
        names = [name for name, _ in assignments]
        if len(set(names)) < len(names):
            raise WrongLine("a name is listed twice: write two lines")
        return names

    def _unset(self, words: list[_Word], line: int) -> None:
        names = [word.raw for word in words]
        for name in names:
            if not is_name(name) or name in _BASH_OWN:
                raise WrongLine("only names of variables may follow `unset`")
        for name in names:
            self._set(name, None, line)
            self._found.unset[name] = None

    def _assignment(self, word: _Word) -> tuple[str, _Word]:
        name, equals, _ = word.raw.partition("=")
        if not equals:
            raise WrongLine("it is a command, and commands are not run")
        if not is_name(name):
            raise WrongLine("the text before the `=` is not a name (letters, digits and `_`)")
        if name in _BASH_OWN or (name.startswith("BASH") and name != "BASH_ENV"):
            raise WrongLine(f"{name} is a variable of bash itself")
        if name in self._arrays:
            raise WrongLine(f"{name} is an array since line {self._arrays[name]}: bash does not export those")
        # Nothing of it is quoted: so it is in the first parts, which are as long as they are in the file.
        left = len(name) + 1
        rest = _Word()
        for kind, text in word.parts:
            rest.parts.append((kind, text[left:]) if kind == "text" else (kind, text))
            left = max(0, left - len(text)) if kind == "text" else 0
        return name, rest

    def _worked_out(self, name: str, word: _Word, known: Mapping[str, str | None]) -> _Value:
        """What a word makes of a variable. Raises for the whole line, before any of it counts."""
        added = self._additions(name, word, known)
        if added is None:
            return _Value(self._expanded(word.parts, known))
        there = known.get(name) if name not in self._doubtful else None
        self._count(len(there or ""), *map(len, self._found.operations.get(name, ())))
        return _Value(None if there is None else _joined([*added[0], there, *added[1]], ":"), added)

    def _count(self, *sizes: int) -> None:
        """Before it is done: what is made of what was made grows without end."""
        self._made += sum(sizes)
        if self._made > MOST_MADE:
            raise WrongLine("all values of this file together are too large to keep")

    def _assign(self, name: str, value: _Value, line: int) -> None:
        front, behind = self._found.operations.get(name, ((), ()))
        self._set(name, value.value, line)
        if value.added is not None:
            self._found.operations[name] = (value.added[0] + front, behind + value.added[1])
            if value.value is None:
                del self._found.exact[name]
        elif value.value is not None:
            self._found.values[name] = value.value

    def _set(self, name: str, value: str | None, line: int) -> None:
        found = self._found
        found.values.pop(name, None)
        found.unset.pop(name, None)
        found.operations.pop(name, None)
        found.lines[name] = line
        found.exact[name] = value
        self._known[name] = value
        self._doubtful.pop(name, None)

    def _additions(self, name: str, word: _Word, known: Mapping[str, str | None]) -> _Added | None:
        """What a value adds in front of the list that is there, and behind it; None when it is a new one."""
        own = [place for place, part in enumerate(word.parts) if part == ("reference", name)]
        said = name in self._found.values or name in self._found.unset
        if name not in self._lists or len(own) != 1 or said:
            return None
        front = self._expanded(word.parts[: own[0]], known)
        behind = self._expanded(word.parts[own[0] + 1 :], known)
        if (front and not front.endswith(":")) or (behind and not behind.startswith(":")):
            return None
        entries = (tuple(front.split(":")[:-1]), tuple(behind.split(":")[1:]))
        return entries if all(map(all, entries)) else None

    def _expanded(self, parts: list[tuple[str, str]], known: Mapping[str, str | None]) -> str:
        texts = []
        for kind, text in parts:
            if kind == "text":
                texts.append(text)
                continue
            if text in self._doubtful:
                raise WrongLine(
                    f"${text} may have been changed in line {self._doubtful[text]}, which was refused"
                )
            value = known.get(text)
            if text in _BASH_OWN or text in _FILLED_IN or text.startswith("BASH"):
                raise WrongLine(f"${text} is a variable of bash itself")
            if value is None:
                raise WrongLine(f"${text} has no value here")
            texts.append(value)
        self._count(*map(len, texts))
        return _joined(texts)

    # What is refused

    def _skip(self, line: int) -> None:
        """To the end of a refused command; what it may have changed is not relied on any more."""
        begun = self._at
        deciding = self._to_command_end()
        self._to_line_end()
        if self._assigns is not None:
            self._doubtful.update(dict.fromkeys(self._assigns, line))
            self._take_back(self._assigns)
            return
        said = self._text[begun : self._at]
        words = _unquoted_words(said)
        if deciding or not _DECIDING.isdisjoint(words) or _hides_a_name(words):
            self._everything = line
        self._doubtful.update(dict.fromkeys(_names_in(said), line))
        self._take_back([_assigned(word) for word in words])
        if not _NAMING.isdisjoint(words):
            self._take_back(words)
        self._arrays.update(dict.fromkeys(_arrays(said, words), line))

    def _take_back(self, names: list[str]) -> None:
        """What a line further up has said, and a refused one says otherwise: no value, but no wrong one."""
        for name in names:
            if name in self._found.values or name in self._found.unset:
                self._found.values.pop(name, None)
                self._found.unset.pop(name, None)
                del self._found.exact[name], self._found.lines[name]

    def _to_command_end(self) -> bool:
        """Goes to the first line's end that is not in quotes; whether what follows belongs to it as well."""
        depth = 0
        previous = ""
        while (here := self._here()) not in ("", "\n"):
            if here == "\\":
                self._at += 1
                if self._here() in ("", "\n"):
                    return True
            elif here == "#" and previous in ("", *_BLANKS, ";"):
                self._to_line_end()
                break
            elif here in "'\"`":
                if not self._over_quotes(here, previous):
                    return True
            elif here in "({":
                depth += 1
            elif here in ")}":
                depth -= 1
            elif here == "<" and previous == "<":
                return True  # a here-document
            previous = here
            self._at += 1
        return depth != 0 or previous in ("|", "&")

    def _over_quotes(self, quote: str, previous: str) -> bool:
        """To the closing one; whether there is one."""
        escapes = quote != "'" or previous == "$"
        self._at += 1
        while (here := self._here()) != quote:
            if not here:
                return False
            self._at += 2 if here == "\\" and escapes else 1
        return True

    def _pass_over(self, line: int) -> None:
        rest = self._rest().strip(_BLANKS)
        if rest and not rest.startswith("#"):
            raise WrongLine(f"its meaning depends on line {line}, which was refused")
        self._to_line_end()

    # Words

    def _words(self) -> list[_Word]:
        """The words of one command, up to the end of its line."""
        words: list[_Word] = []
        while True:
            self._blanks()
            if self._here() == "#":
                self._to_line_end()
            if self._here() in ("", "\n"):
                return words
            words.append(self._word())

    def _word(self) -> _Word:
        word = _Word()
        while (here := self._here()) not in ("", "\n", *_BLANKS):
            if here in _OPERATORS:
                raise WrongLine(_OPERATORS[here])
            if here == "'":
                self._at += 1
                self._add(word, self._single(), quoted=True)
            elif here == '"':
                self._double(word)
            elif here == "$":
                self._dollar(word, quoted=False)
            elif here == "\\":
                self._at += 1
                if self._here() in ("", "\n"):
                    raise WrongLine("a `\\` at its end: write it on one line")
                self._add(word, self._take(), quoted=True)
            else:
                self._plain(word, here)
        return word

    def _plain(self, word: _Word, here: str) -> None:
        if here == "`":
            raise WrongLine("a backtick runs a command")
        if here == "{":
            raise WrongLine("`{` may expand to several words: put the value in quotes")
        if here == "\r":
            raise WrongLine("the line contains a carriage return: save the file with Unix line ends")
        if here == "~" and word.last in ("", ":", "="):
            raise WrongLine("only a shell expands `~`: write $HOME")
        self._add(word, self._take(), quoted=False)

    def _add(self, word: _Word, text: str, *, quoted: bool) -> None:
        if "\0" in text:
            raise WrongLine("the line contains a NUL")
        if "\1" in text or "\x7f" in text:
            raise WrongLine("the line contains a control character that bash uses itself")
        word.add(text, quoted=quoted)

    def _double(self, word: _Word) -> None:
        self._at += 1
        self._add(word, "", quoted=True)
        while (here := self._here()) != '"':
            if not here:
                raise WrongLine('the closing " is missing')
            if here == "`":
                raise WrongLine("a backtick runs a command")
            if here == "$":
                self._dollar(word, quoted=True)
            elif here == "\\":
                self._at += 1
                after = self._here()
                if after in ("", "\n"):
                    raise WrongLine("a `\\` at its end: write it on one line")
                self._add(word, self._take() if after in '$`"\\' else f"\\{self._take()}", quoted=True)
            else:
                self._add(word, self._take(), quoted=True)
        self._at += 1

    def _dollar(self, word: _Word, *, quoted: bool) -> None:
        self._at += 1
        here = self._here()
        if here == "'" and not quoted:
            self._at += 1
            self._add(word, self._ansi(), quoted=True)
            return
        name = ""
        if here == "{":
            inside, closed, _ = self._text[self._at + 1 : self._at + LONGEST_NAME].partition("}")
            if not closed or not is_name(inside):
                raise WrongLine("`${...}` is only supported as ${NAME}")
            name = inside
            self._at += len(inside) + 2
        elif here.isascii() and (here.isalpha() or here == "_"):
            while (here := self._here()).isascii() and (here.isalnum() or here == "_"):
                name += self._take()
        elif here == "(":
            raise WrongLine("`$(` runs a command")
        elif not here or here in _AFTER_DOLLAR or (here == '"' and quoted):
            self._add(word, "$", quoted=True)
            return
        else:
            raise WrongLine("after `$`, only $NAME and ${NAME} are supported")
        word.refer(name)

    def _ansi(self) -> str:
        """What is between $' and '."""
        made = bytearray()
        while (here := self._take()) != "'":
            if not here:
                raise WrongLine("the closing ' is missing")
            if here != "\\":
                made += here.encode("utf-8", "surrogateescape")
                continue
            escape = self._take()
            if escape in _ESCAPES:
                made.append(_ESCAPES[escape])
            elif escape and escape in "xuU":
                digits = self._digits(_HEX, {"x": 2, "u": 4, "U": 8}[escape])
                number = int(digits or "0", 16)
                if not number or number > 0x10FFFF or 0xD800 <= number < 0xE000:
                    raise WrongLine("an escape stands for no character")
                if number > 127 and escape != "x" and any(name in self._found.exact for name in _LOCALES):
                    raise WrongLine("this character depends on the locale, which the file has changed")
                made += bytes((number,)) if escape == "x" else chr(number).encode()
            elif escape and escape in _OCTAL:
                number = int(escape + self._digits(_OCTAL, 2), 8)
                if not 0 < number < 256:
                    raise WrongLine("an escape stands for no character")
                made.append(number)
            else:
                raise WrongLine("an escape in $'...' is not supported")
        return made.decode("utf-8", "surrogateescape")

    def _digits(self, allowed: str, most: int) -> str:
        found = ""
        while len(found) < most and self._here() and self._here() in allowed:
            found += self._take()
        return found


def _joined(texts: list[str], mark: str = "") -> str:
    """Parts put together; bytes that only make a character together do so here as in a shell."""
    # Before it is done: values that are made of themselves grow without end.
    if sum(map(len, texts)) > LARGEST_PAIR:
        raise WrongLine("the value is larger than a program can get")
    whole = mark.join(texts)
    if whole.isascii():
        return whole
    return whole.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _names_in(text: str) -> set[str]:
    """Everything in a text that could be the name of a variable."""
    marks = [mark if mark.isascii() and (mark.isalnum() or mark == "_") else " " for mark in text]
    return {word for word in "".join(marks).split() if is_name(word)}


def _assigned(word: str) -> str:
    """The name that a word of a refused line may give a value to; empty for none."""
    name, equals, _ = word.partition("=")
    return name.removesuffix("+").partition("[")[0] if equals else ""


def _hides_a_name(words: list[str]) -> bool:
    """Whether a refused line may set a variable whose name only a shell knows, which may be any."""
    if _NAMING.isdisjoint(words):
        return any("$" in word.partition("=")[0] for word in words if "=" in word)
    return any("$" in word or "`" in word for word in words)


def _arrays(text: str, words: list[str]) -> list[str]:
    """The names that a refused line may have made arrays of."""
    if "mapfile" in words or "readarray" in words or ("read" in words and "-a" in text):
        return [word for word in words if is_name(word)]
    if "=(" not in text and "[" not in text:
        return []
    return [
        name for name in _names_in(text) if f"{name}=(" in text or f"{name}+=(" in text or f"{name}[" in text
    ]


def _unquoted_words(text: str) -> list[str]:
    """The words of a text, each of them more often than a shell would see it."""
    for mark in ";&|()'\"":
        text = text.replace(mark, " ")
    return text.split()
