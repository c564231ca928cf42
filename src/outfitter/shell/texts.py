"""The commands that a command text visibly starts, without running or expanding anything.

What is found is there; what is not found may be there all the same: a text can compute what it runs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# A text that is longer is not read: nobody has written it by hand, and it would hold other commands up.
LONGEST = 64 * 1024
# A text in a text in a text.
_DEEPEST = 8
_BREAKS = ";&|()\n"
# Words after which another command begins.
_KEYWORDS = frozenset(("!", "{", "}", "do", "done", "elif", "else", "fi", "if", "then", "until", "while"))
# The letters by which a word of a simple text would be more than itself.
_SPECIAL = frozenset("$`\\*?[]{}~#&|;<>()!=\n\"'^%")


def simple_words(text: str) -> list[str] | None:
    """The words of a text that is one plain command, whatever shell reads it; None for any other."""
    words: list[str] = []
    word: str | None = None
    at = 0
    while at < len(text):
        letter = text[at]
        if letter in "'\"":
            end = text.find(letter, at + 1)
            inside = text[at + 1 : end]
            if end < 0 or (letter == '"' and any(sign in inside for sign in "$`\\!")):
                return None
            if letter == "'" and "\\" in inside:  # fish reads it
                return None
            word = (word or "") + inside
            at = end + 1
            continue
        if letter in " \t":
            if word is not None:
                words.append(word)
                word = None
        elif letter in _SPECIAL:
            return None
        else:
            word = (word or "") + letter
        at += 1
    if word is not None:
        words.append(word)
    return words or None


def quoted(words: list[str]) -> str:
    """The text that means these words in every shell; see `simple_words`."""
    return " ".join([_quoted(word) for word in words])


def _quoted(word: str) -> str:
    if word and not any(letter in _SPECIAL or letter in " \t" for letter in word):
        return word
    return f"'{word}'"


def quotable(words: list[str]) -> bool:
    """Whether `quoted` can write these words for every shell."""
    return not any("'" in word or "\\" in word for word in words)


def commands(text: str, depth: int = 0) -> Iterator[list[str]]:
    """The words of each command that a text starts, those of substitutions and subshells as well.

    Quotes are taken off; a variable stays as it is written ("$SHELL"). Assignments in front are left out.
    """
    if depth > _DEEPEST:
        return
    reader = _Reader(text, depth)
    yield from reader.commands()


class _Reader:
    """Reads a text once, from its beginning to its end."""

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        self._at = 0
        self._inner: list[str] = []  # texts of substitutions, to be read as well
        self._here: list[str] = []  # the words that end here-documents which begin with the next line

    def commands(self) -> Iterator[list[str]]:
        words: list[str] = []
        fresh = True  # nothing but assignments and keywords so far
        while True:
            token = self._token()
            if token is None or token in _OPERATORS:
                if words:
                    yield words
                words, fresh = [], True
                if token is None:
                    break
                continue
            word, plain = token if isinstance(token, tuple) else (token, False)
            if fresh and plain and (word in _KEYWORDS or _assigns(word)):
                continue
            fresh = False
            words.append(word)
        for inner in self._inner:
            yield from commands(inner, self._depth + 1)

    def _token(self) -> tuple[str, bool] | str | None:
        """A word and whether it is unquoted, an operator, or None at the end."""
        text = self._text
        while self._at < len(text):
            letter = text[self._at]
            if letter == "\n":
                self._at += 1
                self._skip_documents()
                return ";"
            if letter in " \t\r":
                self._at += 1
            elif text.startswith("\\\n", self._at):
                self._at += 2
            elif letter == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            elif letter in "<>":
                self._redirect()
            elif letter in _BREAKS:
                self._at += 1
                return ";"
            else:
                return self._word()
        return None

    def _redirect(self) -> None:
        text = self._text
        if text.startswith(("<(", ">("), self._at):
            self._at += 1
            self._inner.append(self._enclosed("(", ")"))
            return
        document = text.startswith("<<", self._at) and not text.startswith("<<<", self._at)
        while self._at < len(text) and text[self._at] in "<>&|-":
            self._at += 1
        while self._at < len(text) and text[self._at] in " \t":
            self._at += 1
        if self._at < len(text) and text[self._at] not in _BREAKS:
            word, _ = self._word()
            if document:
                self._here.append(word)

    def _skip_documents(self) -> None:
        for ending in self._here:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = end + 1
                if line.lstrip("\t") == ending:
                    break
        self._here.clear()

    def _word(self) -> tuple[str, bool]:
        text = self._text
        word: list[str] = []
        plain = True
        while self._at < len(text):
            letter = text[self._at]
            if letter in " \t\r\n<>;&|()":
                break
            self._at += 1
            if letter == "\\":
                plain = False
                if self._at < len(text) and text[self._at] != "\n":
                    word.append(text[self._at])
                self._at += 1
            elif letter == "'":
                plain = False
                end = text.find("'", self._at)
                end = len(text) if end < 0 else end
                word.append(text[self._at : end])
                self._at = end + 1
            elif letter == '"':
                plain = False
                self._quotes(word)
            elif letter == "$":
                self._dollar(word)
            elif letter == "`":
                self._inner.append(self._until("`"))
                word.append("\0")
            else:
                word.append(letter)
        return "".join(word), plain

    def _quotes(self, word: list[str]) -> None:
        text = self._text
        while self._at < len(text) and text[self._at] != '"':
            letter = text[self._at]
            self._at += 1
            if letter == "\\" and text[self._at : self._at + 1] in tuple('$`"\\\n'):
                if text[self._at] != "\n":
                    word.append(text[self._at])
                self._at += 1
            elif letter == "$":
                self._dollar(word)
            elif letter == "`":
                self._inner.append(self._until("`"))
                word.append("\0")
            else:
                word.append(letter)
        self._at += 1

    def _dollar(self, word: list[str]) -> None:
        """Behind a dollar: a substitution, whose text is kept for later, or a variable, as it is written."""
        text = self._text
        following = text[self._at : self._at + 1]
        if following == "(":
            self._inner.append(self._enclosed("(", ")"))
            word.append("\0")
        elif following == "{":
            inside = self._enclosed("{", "}")
            word.append(f"${inside}")
        elif following == "'":
            self._at += 1
            end = text.find("'", self._at)
            while end > 0 and text[end - 1] == "\\":
                end = text.find("'", end + 1)
            end = len(text) if end < 0 else end
            word.append(text[self._at : end])
            self._at = end + 1
        else:
            word.append("$")

    def _until(self, end: str) -> str:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] != end:
            self._at += 1 + (self._text[self._at] == "\\")
        self._at += 1
        return self._text[start : self._at - 1]

    def _enclosed(self, left: str, right: str) -> str:
        """The text between two signs, which may hold more of them, and quotes. The first is at hand."""
        text = self._text
        self._at += 1
        start = self._at
        open_ = 1
        while self._at < len(text):
            letter = text[self._at]
            self._at += 1
            if letter == "\\":
                self._at += 1
            elif letter == "'" and left == "(":
                end = text.find("'", self._at)
                self._at = len(text) if end < 0 else end + 1
            elif letter == left:
                open_ += 1
            elif letter == right:
                open_ -= 1
                if not open_:
                    return text[start : self._at - 1]
        return text[start : self._at]


_OPERATORS = (";",)


def _assigns(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.rstrip("+").isidentifier()
