"""Searches the files of a tree for fs/search. Runs in a process of its own (`server.searcher`).

Not because of the disk: an expression can take for ever, and the interpreter's lock with it. There, a
signal ends it, because the process has nothing else to do.
"""

from __future__ import annotations

import os
import signal
import stat
import time

from ..core.search import Needle, SearchBudget, is_binary
from ..errors import OutfitterError, Refused
from ..formats.ignore import IgnoreRules, Nested
from ..record import KW_ONLY, record
from .files import failed
from .pipes import let_go
from .walk import PLAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..core.search import Match
    from .walk import Sight

# Which files say what is ignored; the first one decides where two stand in the same folder.
_IGNORE_FILES = (".ignore", ".gitignore")
_IGNORE_FILE_BYTES = 1 << 20  # no sensible one is larger
_DEPTH = 256  # folders in folders; a path has 4,096 bytes


@record
class Query:
    """What is searched and how far; `include`, `exclude` as in an ignore file, from the root."""

    path: str
    pattern: str
    _: KW_ONLY
    regex: bool = True
    case_sensitive: bool = True
    include: list[str]
    exclude: list[str]
    max_matches: int
    max_file_bytes: int
    hidden: bool = False
    honour_ignore_files: bool = True
    files: int
    total_bytes: int
    response_bytes: int
    seconds: float
    file_seconds: float
    width: int
    errors: int


@record
class _Folder:
    """A folder on the way, the rules that hold in it, and whether all below it is wanted."""

    path: str
    rules: Nested | None
    included: bool
    depth: int


class Search:
    """One search, and what it found: `matches` and `errors` as `show` and `complain` made them."""

    def __init__(
        self,
        query: Query,
        show: Callable[[str, Match], str],
        complain: Callable[[str, str], str],
        sight: Sight = PLAIN,
    ) -> None:
        """Raises Refused for a pattern that cannot be used."""
        self._query = query
        self._sight = sight
        self._show = show
        self._complain = complain
        self._needle = Needle(query.pattern, regex=query.regex, case_sensitive=query.case_sensitive)
        self._include = IgnoreRules(query.include)
        self._exclude = IgnoreRules(query.exclude)
        self._budget = SearchBudget(
            matches=query.max_matches,
            files=query.files,
            total_bytes=query.total_bytes,
            response_bytes=query.response_bytes,
        )
        self._deadline = time.monotonic() + query.seconds
        self._root = query.path
        self.matches: list[str] = []
        self.errors: list[str] = []
        self.files_searched = 0
        self.files_skipped = 0  # binary, or too large

    @property
    def truncated(self) -> bool:
        return self._budget.truncated

    def run(self) -> None:
        """Raises OSError when the root is not there, Refused when it can be neither entered nor read."""
        found = self._sight.stat(self._root)
        if stat.S_ISREG(found.st_mode):
            self._file(self._root)
            return
        if not stat.S_ISDIR(found.st_mode):
            raise Refused("only files and directories can be searched")
        # Ignore files above the root are found by its real name; what is told has the name that was given.
        self._root = self._sight.real(self._root)
        for path in self._walk():
            if self._over() or not self._file(path):
                return

    def _over(self) -> bool:
        if time.monotonic() >= self._deadline:
            self._budget.truncated = True
        return self._budget.truncated

    def _name(self, path: str) -> str:
        """The name of a path below the root as it was given."""
        below = path[len(self._root.rstrip("/")) :]
        return f"{self._query.path.rstrip('/')}{below}" or "/"

    # The tree

    def _walk(self) -> Iterator[str]:
        """The files to look at, sorted, a folder's own and those below it in one order."""
        above = _rules_above(self._root, self._sight) if self._query.honour_ignore_files else None
        stack: list[Iterator[str | _Folder]] = [iter([_Folder(self._root, above, not self._include, 0)])]
        while stack:
            for item in stack[-1]:
                if isinstance(item, str):
                    yield item
                elif self._over():
                    return
                else:
                    stack.append(iter(self._list(item)))
                    break
            else:
                stack.pop()

    def _list(self, at: _Folder) -> list[str | _Folder]:
        """What is to be looked at in a folder."""
        query, folder = self._query, at.path
        found: list[str | _Folder] = []
        try:
            with self._sight.scan(folder) as entries:
                names = sorted(
                    (entry.name, is_folder)
                    for entry in entries
                    if (is_folder := entry.is_dir(follow_symlinks=False))
                    or entry.is_file(follow_symlinks=False)
                )
        except OSError as error:
            self._trouble(folder, str(failed(error)))
            return []
        rules = at.rules
        if query.honour_ignore_files:
            own = {name for name, is_folder in names if not is_folder}
            rules = _rules_of(folder, own, rules, self._sight)
        base = folder.rstrip("/")
        start = len(self._root.rstrip("/")) + 1
        for name, is_folder in names:
            if name.startswith(".") and not query.hidden:
                continue
            if name == ".git" and query.honour_ignore_files:
                continue  # what git keeps for itself is nobody's text
            path = f"{base}/{name}"
            if self._exclude.ignores(path[start:], is_folder):
                continue
            if rules is not None and rules.ignores(path, is_folder):
                continue
            included = at.included or bool(self._include.ignores(path[start:], is_folder))
            if not is_folder:
                if included:
                    found.append(path)
            elif at.depth >= _DEPTH:
                self._trouble(path, f"directories more than {_DEPTH} levels deep are not searched")
            else:
                found.append(_Folder(path, rules, included, at.depth + 1))
        return found

    # One file

    def _file(self, path: str) -> bool:
        """Looks for lines in a file; False when nothing more can be told."""
        try:
            fd, found = self._sight.open_read(path)
        except OSError as error:
            self._trouble(path, str(failed(error)))
            return True
        except OutfitterError:
            return True  # a special file since it was listed
        try:
            if found.st_size > self._query.max_file_bytes:
                self.files_skipped += 1
                return True
            if not self._budget.read(found.st_size):
                return False
            # Some files grow, and those of /proc do not know their size.
            data = _read(fd, self._query.max_file_bytes + 1)
        except OSError as error:
            self._trouble(path, str(failed(error)))
            return True
        finally:
            let_go(fd)
        if len(data) > self._query.max_file_bytes or is_binary(data):
            self.files_skipped += 1
            return True
        self.files_searched += 1
        return self._lines(path, data)

    def _lines(self, path: str, data: bytes) -> bool:
        left = self._deadline - time.monotonic()
        allowed = max(0.001, min(left, self._query.file_seconds))
        _matching[:] = [True]
        signal.setitimer(signal.ITIMER_REAL, allowed)
        try:
            for match in self._needle.matches(data, self._query.width):
                text = self._show(self._name(path), match)
                if not self._budget.tell(len(text) + 1):
                    return False
                self.matches.append(text)
        except TookTooLong:
            self._budget.truncated = self._budget.truncated or allowed >= left
            took = f"the pattern took more than {allowed:.3g} s in this file"
            self._trouble(path, f"{took}; the rest of the file was skipped")
        finally:
            _matching[:] = [False]
            signal.setitimer(signal.ITIMER_REAL, 0)
        return True

    def _trouble(self, path: str, message: str) -> None:
        text = self._complain(self._name(path), message)
        if len(self.errors) < self._query.errors and self._budget.tell(len(text) + 1, 0):
            self.errors.append(text)


class TookTooLong(Exception):
    """A pattern did not end in time on one file."""


_matching = [False]


def interrupt(*_: object) -> None:
    """Handles SIGALRM; expressions look for signals now and then."""
    if _matching[0]:  # it may come a moment too late
        raise TookTooLong


def _read(fd: int, most: int) -> bytes:
    parts = []
    while most > 0 and (data := os.read(fd, min(most, 1 << 20))):
        parts.append(data)
        most -= len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


# Ignore files


def _rules_of(folder: str, names: set[str], above: Nested | None, sight: Sight) -> Nested | None:
    rules = [IgnoreRules(_lines_of(f"{folder}/{name}", sight)) for name in _IGNORE_FILES if name in names]
    rules = [one for one in rules if one]
    return Nested(folder, rules, above) if rules else above


def _rules_above(root: str, sight: Sight) -> Nested | None:
    """The rules of the repository that the root lies in, from its top to just above the root."""
    folders = [sight.real(root)]
    while not _is_there(f"{folders[-1]}/.git", sight):
        if folders[-1] == "/":
            return None
        folders.append(os.path.dirname(folders[-1]))
    top = folders[-1]
    own = IgnoreRules(_lines_of(f"{top}/.git/info/exclude", sight))
    nested = Nested(top, [own], None) if own else None
    for folder in reversed(folders[1:]):
        nested = _rules_of(folder, set(_IGNORE_FILES), nested, sight)
    return nested


def _is_there(path: str, sight: Sight) -> bool:
    try:
        sight.stat(path)
    except OSError:
        return False
    return True


def _lines_of(path: str, sight: Sight) -> list[str]:
    try:
        fd, found = sight.open_read(path)
    except (OSError, OutfitterError):
        return []
    try:
        if found.st_size > _IGNORE_FILE_BYTES:
            return []
        data = _read(fd, _IGNORE_FILE_BYTES)
    except OSError:
        return []
    finally:
        let_go(fd)
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
