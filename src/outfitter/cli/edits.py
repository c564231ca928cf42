"""Edits of people's files: shown as a difference first, made after a yes, with a backup of what was there."""

from __future__ import annotations

import os
import sys
from difflib import unified_diff

from ..errors import SettingInvalid
from ..openers import plain_file
from ..record import record
from .console import say
from .env.output import emit, printable, write_whole

_LARGEST = 1 << 20  # of a file that is edited; settings have some kilobytes
BACKUP = ".before-outfitter"


@record
class Edit:
    """A file that shall have another text; `before` is None where there is none yet."""

    path: str
    before: str | None
    after: str
    why: str

    @property
    def difference(self) -> list[str]:
        """As `diff -u` shows it."""
        before = "" if self.before is None else self.before
        name = "/dev/null" if self.before is None else self.path
        lines = unified_diff(before.splitlines(), self.after.splitlines(), name, self.path, lineterm="")
        return [printable(line) for line in lines]


def text_of(path: str) -> str | None:
    """The text of a file; None if there is none. Raises SettingInvalid."""
    try:
        with open(path, "rb", opener=plain_file) as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise SettingInvalid(f"{path} is larger than {_LARGEST} bytes: edit it yourself")
        return data.decode()
    except FileNotFoundError:
        if os.path.islink(path):
            raise SettingInvalid(f"{path} is a broken symbolic link: correct or remove it") from None
        return None
    except OSError as error:
        raise SettingInvalid(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingInvalid(f"{path} is not UTF-8: edit it yourself") from None


def offer(edit: Edit, *, yes: bool, backup: bool = True) -> bool:
    """Shows an edit, and makes it after a yes; returns whether it was made. Raises SettingInvalid."""
    emit("\n".join([f"{printable(edit.path)}: {edit.why}", *edit.difference]))
    if not yes and not agreed(edit.path):
        return False
    make(edit, backup=backup)
    return True


def make(edit: Edit, *, backup: bool = True) -> None:
    """Makes an edit, unless the file has changed meanwhile. Raises SettingInvalid.

    Without `backup`, one was made a moment ago, of what was there first.
    """
    if text_of(edit.path) != edit.before:
        raise SettingInvalid(f"{edit.path} has changed meanwhile: run the same command again")
    kept = ""
    if edit.before is not None and backup:
        kept = _free(edit.path + BACKUP)
        write_whole(kept, edit.before.encode(), like=edit.path, sync=True)
    try:
        os.makedirs(os.path.dirname(edit.path), exist_ok=True)
    except OSError as error:
        raise SettingInvalid(f"cannot make {os.path.dirname(edit.path)}: {error.strerror}") from None
    write_whole(edit.path, edit.after.encode(), sync=True)
    say(f"wrote {edit.path}" + (f"; what was there is in {kept}" if kept else ""))


def _free(path: str) -> str:
    """A name that nothing has: an older backup has what was there before a person began."""
    name, number = path, 2
    while os.path.lexists(name):
        name, number = f"{path}.{number}", number + 1
    return name


def agreed(path: str) -> bool:
    """Whether somebody at the terminal wants this file changed."""
    if sys.stdin is None or not sys.stdin.isatty():
        say(f"{path} was not changed: nobody can be asked here; --yes does it without a question")
        return False
    print(f"Change {printable(path)}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
