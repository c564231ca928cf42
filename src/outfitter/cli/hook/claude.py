"""outfitter hook claude: the environment goes into $CLAUDE_ENV_FILE, which is put in front of every command.

Claude Code has one such file for each event and hook of a session, and uses all of them, in the order of the
events. Only one of them has our part: who writes takes it out of the others. A session that is continued may
be told the folder of another one, which it throws away: its own is known by the session's id.
"""

from __future__ import annotations

import os
import stat

from ...agents.hooks import block, claude_answer, claude_settings, has_block, with_block
from ...env.explain import shown
from ...env.names import SHELL_MAINTAINED
from ...errors import SettingInvalid
from ..env.output import emit_json, printable, say, write_whole
from .session import HookSession, ourselves, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ...agents.hooks import Answer

_SESSIONS = "session-env"  # the folder with a folder for each session
_EVENTS = ("setup", "sessionstart", "cwdchanged", "filechanged")
_LARGEST_FILE = 1 << 20  # eight times what could be put in front of a command


def claude(flags: Mapping[str, Any]) -> int:
    """Returns the exit status. Raises nothing but for --print-settings."""
    if flags["print_settings"]:
        from shlex import join

        emit_json(claude_settings(join([*ourselves(), "hook", "claude"])))
        return 0
    return run(_apply, claude_answer, _give_up, strict=flags["strict"])


def _apply(session: HookSession) -> Answer:
    path = _file()
    text, left_out = block(session.change, ourselves()[0])
    for one in _files(path, session.heard.session):
        _put(one, text)
    for name, why in left_out:
        if name not in SHELL_MAINTAINED:
            say(f"left out: {printable(shown(name))}: {why}")
    return session.answer()


def _give_up(session: HookSession) -> None:
    """Takes out what an earlier hook has put in."""
    if "CLAUDE_ENV_FILE" in os.environ:
        for one in _files(_file(), session.heard.session):
            _put(one, "")


def _file() -> str:
    path = os.environ.get("CLAUDE_ENV_FILE", "")
    if not os.path.isabs(path):
        raise SettingInvalid(
            "CLAUDE_ENV_FILE is not set: Claude Code sets it for SessionStart, CwdChanged and FileChanged "
            "hooks (see outfitter hook claude --print-settings)"
        )
    return path


def _files(path: str, session: str) -> list[str]:
    """The file that we were told, and the same of the session that the input names, if that is another.

    With `--continue`, commands read the files of the session that goes on. With `--continue --fork-session`
    it is the other way round: the path is right, and the input may have the old id.
    """
    folder, name = os.path.split(path)
    above, told = os.path.split(folder)
    if not session or session == told or not _is_hook_file(name) or os.path.basename(above) != _SESSIONS:
        return [path]
    own = os.path.join(above, session)
    try:
        os.makedirs(own, mode=0o700, exist_ok=True)
    except OSError as error:
        raise SettingInvalid(f"cannot make {own}: {error.strerror}") from None
    return [path, os.path.join(own, name)]


def _put(path: str, text: str) -> None:
    """Our part into this file, and out of the session's others. Raises SettingInvalid."""
    import fcntl

    folder = os.path.dirname(path)
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SettingInvalid(f"cannot write {path}: {error.strerror}") from None
    try:
        try:
            # Hooks run side by side: without this two could take out each other's.
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks
        for other in _others(path):
            _rewrite(other, "")
        _rewrite(path, text)
    finally:
        os.close(lock)


def _others(path: str) -> Iterator[str]:
    """The session's other files."""
    folder, name = os.path.split(path)
    if not _is_hook_file(name):
        return  # not the layout that we know
    for other in sorted(os.listdir(folder)):
        where = os.path.join(folder, other)
        if other != name and _is_hook_file(other) and os.path.isfile(where) and not os.path.islink(where):
            yield where


def _is_hook_file(name: str) -> bool:
    event, found, number = name.removesuffix(".sh").partition("-hook-")
    return bool(found) and name.endswith(".sh") and event in _EVENTS and number.isdigit()


def _rewrite(path: str, text: str) -> None:
    before = _read(path)
    if not text and not has_block(before):
        return
    after = with_block(before, text)
    if after == before and stat.S_IMODE(os.stat(path).st_mode) == 0o600:
        return
    data = after.encode("utf-8", "surrogateescape")
    try:
        write_whole(path, data, private=True)
    except SettingInvalid:
        # A folder in which nothing can be made: the file itself may still be written. On a full disk it would
        # be emptied, with what others have put into it.
        if not os.path.isfile(path) or os.access(os.path.dirname(path), os.W_OK):
            raise
        try:
            fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            with open(fd, "wb") as file:
                os.fchmod(fd, 0o600)
                file.write(data)
        except OSError as error:
            raise SettingInvalid(f"cannot write {path}: {error.strerror}") from None


def _read(path: str) -> str:
    try:
        # Claude Code makes no links: what one leads to is a file of somebody else, ~/.bashrc perhaps.
        if os.path.islink(path):
            raise SettingInvalid(f"{path} is a symbolic link, which is not followed: remove it")
        # Nothing that would not be read at once: a FIFO opens without waiting, and is refused.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise SettingInvalid(f"{path} is not a file")
            data = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SettingInvalid(f"cannot read {path}: {error.strerror}") from None
    if len(data) > _LARGEST_FILE:
        raise SettingInvalid(f"{path} has more than {_LARGEST_FILE} bytes: remove what is not needed")
    return data.decode("utf-8", "surrogateescape")
