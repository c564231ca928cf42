"""What a program's file is: a shell under whatever name, a script and its interpreter, or something else.

A file is read once, as long as it stays the same: afterwards one look at it per command is enough.
"""

from __future__ import annotations

import os

from ..core.launch import DEFAULT_PATH, MAX_FOLDERS
from ..shell.look import Looked
from ..shell.names import shell_called, shell_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..shell.wrappers import Account

_REMEMBERED = 512  # files; then all are forgotten
_LINE = 256  # what the kernel reads of a script's first line
_FOLDERS = ("/bin", "/usr/bin", "/usr/local/bin")
# A shell has a name or two. What has more is many programs in one file, and none of them in particular.
_LINKS = 4


class Programs:
    """Looks at the files of programs. One per server."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Looked] = {}
        self._last: dict[str, str] = {}  # where a program was found: it most often is again
        self._shells: dict[tuple[int, int], str] | None = None

    def look(self, program: str, env: Mapping[str, str], cwd: str) -> Looked | None:
        """The file that a program's name means for a command; None if there is none."""
        if "/" in program:
            return self._file(program, program if program[:1] == "/" else f"{cwd}/{program}", searched=False)
        access, last = os.access, self._last.get(program)
        try:
            # As `candidates` has them, but most are found before the list would be made.
            for folder in env.get("PATH", DEFAULT_PATH).split(":")[:MAX_FOLDERS]:
                path = f"{folder}/{program}" if folder else program
                whole = path if path[:1] == "/" else f"{cwd}/{path}"
                if whole == last or access(whole, os.X_OK):
                    found = self._file(path, whole, searched=True)
                    if found is not None:
                        self._last[program] = whole
                        return found
        except ValueError:  # a NUL: nothing can be started so
            pass
        return None

    def _file(self, path: str, whole: str, *, searched: bool) -> Looked | None:
        """The file at a place; if `searched` for, only one that may be executed."""
        try:
            status = os.stat(whole)
        except (OSError, ValueError):
            return None
        # One that is written or gets other rights has another time, one that takes its place another number.
        key = (path, status.st_ino, status.st_ctime_ns, status.st_size, status.st_dev, searched)
        known = self._known.get(key)
        if known is None:
            if status.st_mode & 0o170000 != 0o100000:  # no file, but a folder or the like
                return None
            if searched and not os.access(whole, os.X_OK):
                return None
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
                self._last.clear()
            known = self._known[key] = self._read(path, whole, status)
        return known

    def _read(self, path: str, whole: str, status: os.stat_result) -> Looked:
        name = _real_name(whole)
        try:
            with open(whole, "rb", buffering=0) as file:
                head = file.read(_LINE)
        except OSError:
            head = b""  # it can be executed, but not read: it is no script
        if head.startswith(b"#!"):
            return Looked(path, name, interpreter=_interpreter(head))
        if self._shells is None:
            self._shells = _shells()
        return Looked(path, name, self._shells.get((status.st_dev, status.st_ino), ""))


def _interpreter(head: bytes) -> tuple[str, ...]:
    """The words of a script's first line as the kernel takes them: a path, and all of the rest as one."""
    line = head[2:].split(b"\n", 1)[0].strip(b" \t")
    words = [os.fsdecode(word.strip(b" \t")) for word in line.replace(b"\t", b" ").split(b" ", 1)]
    return tuple([word for word in words if word])


def _real_name(path: str) -> str:
    """What the file is called that a path leads to: its folders are of no account, and links are few."""
    return (os.path.realpath(path) if os.path.islink(path) else path).rpartition("/")[2]


def _shells() -> dict[tuple[int, int], str]:
    """The shells of this machine, by their files."""
    folders = dict.fromkeys(map(os.path.realpath, _FOLDERS))  # often one is another
    paths = [f"{folder}/{name}" for folder in folders for name in shell_names()]
    try:
        with open("/etc/shells", encoding="utf-8", errors="surrogateescape") as file:
            paths += [line.strip() for line in file if line.startswith("/")]
    except OSError:
        pass
    found: dict[tuple[int, int], str] = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        identity = status.st_dev, status.st_ino
        # `sh` may be a name of a program that has a better one.
        if status.st_nlink > _LINKS or found.get(identity, "sh") != "sh":
            continue
        # By its real name: `sh` may be a name of a program that is many.
        shell = shell_called(_real_name(path))
        if shell:
            found[identity] = shell
    return found


def account() -> Account:
    """Whose commands are started."""
    from pwd import getpwuid

    from ..shell.wrappers import Account
    from . import spawn

    user = getattr(spawn.assumed, "user", None)
    if user is not None:
        return Account(user.name, user.uid, user.shell)
    uid = os.getuid()
    try:
        entry = getpwuid(uid)
    except KeyError:
        return Account(str(uid), uid, "/bin/sh")
    return Account(entry.pw_name, uid, entry.pw_shell or "/bin/sh")
