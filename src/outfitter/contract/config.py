"""Where configuration is read: the user's `config.toml`, a project's `outfitter.toml`, Codex's if asked for.

    configuration = Configuration(os.environ)
    settings = configuration.settings("/srv/app")     # the same object again until a file changes

What reads the files is imported when there is one.
"""

from __future__ import annotations

import errno
import os
import stat

from ..earlyerrors import FileInvalid, SettingInvalid
from ..host.pipes import let_go
from ..places import codex_file, user_file
from ..providers import files
from ..providers.files import is_repository
from ..system import account_home
from .freshness import Way, lasting, stamp
from .settings import FileSettings, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from ..formats.document import Mistake
    from .freshness import Stamp

    _Value = TypeVar("_Value")
    Mistakes = tuple[Mistake, ...]

PROJECT_FILE = "outfitter.toml"
_GIT = ".git"
MAX_DIRECTORIES = 1024  # remembered at a time; each has the few paths that are looked at for it
_MAX_MERGED = 64  # as many projects at a time
# What is wrong with the machine at this moment, and not with a file.
PASSING = (errno.EIO, errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EMFILE)


# Places


def find_project_file(directory: str) -> str | None:
    """The nearest `outfitter.toml`, from a directory upwards; a directory with a `.git` is the last one.

    In a folder that everybody may write to, such as /tmp, a file counts only if it is ours or root's.
    """
    return _Search(directory).found


def project_candidates(directory: str) -> list[str]:
    """Every path whose coming or going changes what `find_project_file` answers."""
    search = _Search(directory)
    found = (search.found, search.git, *search.absent, *search.passed)
    return [path for path in found if path is not None]


class _Search:
    """The way up from a directory, and what there was on it.

    `absent` would have been found, or have ended the search, had it been there; `git` did end it.
    `passed` are files that do not count.
    """

    def __init__(self, directory: str) -> None:
        self.found: str | None = None
        self.absent: list[str] = []
        self.passed: list[str] = []
        self.git: str | None = None
        # Where a command runs is a folder, not the link that led there.
        self.way = Way(_upwards(os.path.realpath(directory)))
        for folder in self.way.paths:
            path = os.path.join(folder, PROJECT_FILE)
            if not _is_there(path):
                self.absent.append(path)
            else:
                from ..providers.files import foreign  # most commands run where no file is

                try:
                    is_foreign = foreign(folder, path)
                except OSError as error:
                    if error.errno in PASSING:
                        raise cannot_read(path, error) from None
                    is_foreign = True  # it has gone
                if not is_foreign:
                    self.found = path
                    return
                self.passed.append(path)
            git = os.path.join(folder, _GIT)
            if _is_there(git, follow=True) and is_repository(folder):
                self.git = git
                return
            self.absent.append(git)


def _is_there(path: str, *, follow: bool = False) -> bool:
    """Raises FileInvalid where the machine cannot say it now: that nothing is there would be remembered."""
    try:
        os.stat(path, follow_symlinks=follow)
    except OSError as error:
        if error.errno in PASSING:
            raise cannot_read(path, error) from None
        return False
    except ValueError:
        return False
    return True


def _upwards(folder: str) -> list[str]:
    """A folder and those above it, as far as a search can go."""
    folders = [folder]
    while (
        not files.is_ceiling(folder)
        and (above := os.path.dirname(folder)) != folder
        and not (os.access(f"{folder}/{_GIT}", os.F_OK) and is_repository(folder))
    ):
        folder = above
        folders.append(folder)
    return folders


# Files


def read_file(path: str, kind: str, home: str | None) -> FileSettings | None:
    """What a file says; None when it does not exist. Raises FileInvalid with all its mistakes.

    `kind` is "user", "project" or "codex"; `home` is what `~/` stands for.
    """
    path = os.path.abspath(path)
    data = _data(path, kind)
    if data is None:
        return None
    from .file import parse_settings, unreadable

    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise unreadable(path, "not UTF-8", "save the file as UTF-8", line) from None
    return parse_settings(text, path, kind, home)


def _data(path: str, kind: str) -> bytes | None:
    try:
        # A pipe that was put there must not hold us up.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.islink(path):
            return None
        reason, remedy = "it is a broken symbolic link", "correct or remove the link"
    except OSError as error:
        raise cannot_read(path, error) from None
    else:
        from .file import MAX_BYTES

        most = MAX_BYTES[kind]
        try:
            is_file = stat.S_ISREG(os.fstat(fd).st_mode)
            data = b""
            if is_file:
                with open(fd, "rb", closefd=False) as file:
                    data = file.read(most + 1)
        except OSError as error:
            raise cannot_read(path, error) from None
        finally:
            let_go(fd)
        if is_file and len(data) <= most:
            return data
        reason, remedy = "it is not a file", "put a file in its place, or remove it"
        if is_file:
            reason, remedy = f"it has more than {most} bytes", "make it shorter"
    from .file import unreadable

    raise unreadable(path, f"cannot be read: {reason}", remedy)


def cannot_read(path: str, error: OSError) -> FileInvalid:
    """Says why; where that passes, to try again."""
    from .file import unreadable

    reason = (error.strerror or type(error).__name__).lower()
    passing = error.errno in PASSING
    remedy = "try again" if passing else "make it a readable file, or remove it"
    failure = unreadable(path, f"cannot be read: {reason}", remedy)
    failure.passing = passing
    return failure


def load(environ: Mapping[str, str], directory: str | None) -> Settings:
    """The settings of a directory, or, with None, those outside of any project.

    Raises FileInvalid with all mistakes of all files.
    """
    return Configuration(environ).settings(directory)


# Again and again


class _Seen:
    """What was found for one directory, and what it depends on.

    `way` are the folders from there upwards as they were when what is in `missing` was not there: while
    nothing comes or goes in them, nobody need look for it.
    """

    __slots__ = ("absent", "files", "git", "identity", "missing", "outcome", "way")

    def __init__(self, directory: str | None) -> None:
        self.identity = _identity(directory)
        self.outcome: Settings | Mistakes = ()
        self.files: list[tuple[str, Stamp]] = []
        self.absent: list[str] = []
        self.missing: list[str] = []
        self.git: str | None = None
        self.way: Way | None = None

    def holds(self, directory: str | None) -> bool:
        """Whether everything is as it was: a few calls of stat."""
        way = self.way
        is_same = way is not None and way.holds()
        # Where no link leads to the folder, the way has shown that it is still the same one.
        is_told = is_same and way is not None and way.paths[0] == directory
        if directory is not None and not is_told and _identity(directory) != self.identity:
            return False
        for path, was in self.files:
            if stamp(path) != was:
                return False
        access = os.access  # half the price of a stat that fails
        for path in self.absent:
            if access(path, os.F_OK):
                return False
        if way is None or is_same:
            return True
        way = Way(way.paths)  # before anybody looks, so that nothing comes unseen
        for path in self.missing:
            if access(path, os.F_OK):
                return False
        self.way = way
        return self.git is None or access(self.git, os.F_OK)


class Configuration:
    """Settings by directory, read again when a file has changed, has come or has gone.

    `version` counts the changes that were noticed.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.version = 0
        home = environ.get("HOME") or account_home()
        self._home = home if os.path.isabs(home) else None
        self._user_file = known_place(user_file, environ)
        self._codex_file = known_place(codex_file, environ)
        self._seen: dict[str | None, _Seen] = {}
        self._files: dict[tuple[str, str], tuple[Stamp, FileSettings | Mistakes | None]] = {}
        # With what they were merged of, so that its identity stays taken.
        self._merged: dict[tuple[int, ...], tuple[Settings, tuple[FileSettings | None, ...]]] = {}

    def settings(self, directory: str | None) -> Settings:
        """The settings of a directory: the same object as before while nothing has changed.

        Directories of the same project share one. Raises FileInvalid with all mistakes of all files.
        """
        seen = self._seen.get(directory)
        if seen is None or not seen.holds(directory):
            before = self._seen.pop(directory, None)
            seen = _remember(self._seen, directory, self._look(directory), MAX_DIRECTORIES)
            if before is not None and before.outcome != seen.outcome:
                self.version += 1
        if isinstance(seen.outcome, Settings):
            return seen.outcome
        raise FileInvalid(seen.outcome)

    def way(self, directory: str) -> Way | None:
        """The folders from a directory upwards, as `settings` has just seen them."""
        seen = self._seen.get(directory)
        return None if seen is None else seen.way

    def _look(self, directory: str | None) -> _Seen:
        seen = _Seen(directory)
        mistakes: list[Mistake] = []
        user = self._read(self._user_file, "user", seen, mistakes)
        codex = None
        if user is not None and (path := self._import_of(user)) is not None:
            codex = self._read(path, "codex", seen, mistakes)
            if codex is None and user.import_codex is not True and not mistakes:
                mistakes.append(_nothing_to_import(user))
        project = None
        if directory is not None:
            search = _Search(directory)
            seen.way = search.way
            seen.missing += search.absent
            seen.git = search.git
            seen.files += [(path, stamp(path)) for path in search.passed]
            project = self._read(search.found, "project", seen, mistakes)
        if mistakes:
            seen.outcome = tuple(sorted(mistakes, key=lambda mistake: (mistake.file, mistake.line or 0)))
        else:
            seen.outcome = self._merge(user, project, codex)
        return seen

    def _import_of(self, user: FileSettings) -> str | None:
        if user.import_codex is True:
            return self._codex_file
        return user.import_codex or None

    def _read(self, path: str | None, kind: str, seen: _Seen, mistakes: list[Mistake]) -> FileSettings | None:
        """A file, read unless it is as it was. What it depends on is noted in `seen`."""
        if path is None:
            return None
        now = stamp(path)
        before, found = self._files.pop((path, kind), (None, None))
        if now is None or before != now:
            now = lasting(now)
            said: FileSettings | Mistakes | None
            try:
                said = read_file(path, kind, self._home)
            except FileInvalid as error:
                if error.passing:
                    raise  # nothing to remember
                said = error.mistakes
            if said != found:  # else it stays the same object, and so do the settings
                found = said
        if now is None and not os.path.islink(path):
            seen.absent.append(path)  # cheaper to look for than a stamp
        else:
            seen.files.append((path, now))
        _remember(self._files, (path, kind), (now, found), MAX_DIRECTORIES)
        if isinstance(found, tuple):
            mistakes += found
            return None
        return found

    def _merge(
        self, user: FileSettings | None, project: FileSettings | None, codex: FileSettings | None
    ) -> Settings:
        key = (id(user), id(project), id(codex))
        known = self._merged.get(key)
        if known is not None:
            return known[0]
        files = [] if self._user_file is None else [(self._user_file, "user", user is not None)]
        if user is not None and (path := self._import_of(user)) is not None:
            files.append((path, "codex", codex is not None))
        if project is not None:
            files.append((project.file, "project", True))
        if user is project is codex is None:
            merged = Settings()  # as `merge` has it, without loading that
            merged.files = tuple(files)
        else:
            from .merge import merge

            merged = merge(user, project, codex, files=files)
        _remember(self._merged, key, (merged, (user, project, codex)), _MAX_MERGED)
        return merged


def _remember(memory: dict[Any, Any], key: object, value: _Value, most: int) -> _Value:
    """Keeps a value, and so many at most: the one that was put in first goes."""
    if len(memory) >= most:
        del memory[next(iter(memory))]
    memory[key] = value
    return value


def _nothing_to_import(user: FileSettings) -> Mistake:
    from ..formats.document import Mistake

    problem = "`import.codex` names a file that does not exist"
    remedy = "correct the path, or write codex = true"
    return Mistake(user.file, user.source("import.codex").line, problem, remedy)


def known_place(place: Callable[[Mapping[str, str]], str], environ: Mapping[str, str]) -> str | None:
    """What `user_file` or `codex_file` says; None without a home, where there is no file."""
    try:
        return place(environ)
    except SettingInvalid:
        return None


def _identity(directory: str | None) -> tuple[int, int] | None:
    """Which folder a path leads to: it changes when a link on the way does."""
    if directory is None:
        return None
    try:
        info = os.stat(directory)
    except OSError:
        return None
    return (info.st_dev, info.st_ino)
