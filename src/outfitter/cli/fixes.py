"""outfitter doctor --fix: each edit that a check advises, shown, asked for and made."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ..contract.doctor.fixes import Mode, with_setting
from ..errors import SettingInvalid
from .console import say
from .edits import Edit, agreed, offer, text_of
from .env.output import emit, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract.doctor.fixes import Fix


def mend(found: Sequence[tuple[str, Fix]], *, yes: bool) -> set[str]:
    """Offers each fix; returns the ids of the checks whose fix was made."""
    if not found:
        say("nothing here can be mended by --fix: the report says what to type or edit")
    made = set()
    for ident, fix in found:
        try:
            if _chmod(ident, fix, yes=yes) if isinstance(fix, Mode) else offer(_edit(ident, fix), yes=yes):
                made.add(ident)
        except SettingInvalid as error:
            say(f"{ident}: {error}")
    return made


def _edit(ident: str, fix: Fix) -> Edit:
    assert not isinstance(fix, Mode)
    before = text_of(fix.path)
    return Edit(fix.path, before, with_setting(before or "", fix), ident)


def _chmod(ident: str, fix: Mode, *, yes: bool) -> bool:
    emit(f"{printable(fix.path)}: {ident}: mode {fix.before:o} becomes {fix.after:o}")
    if not yes and not agreed(fix.path):
        return False
    try:
        if stat.S_IMODE(os.lstat(fix.path).st_mode) != fix.before:
            raise SettingInvalid(f"{fix.path} has changed meanwhile: run the same command again")
        os.chmod(fix.path, fix.after)
    except OSError as error:
        raise SettingInvalid(f"cannot change {fix.path}: {error.strerror}") from None
    say(f"changed the mode of {fix.path}")
    return True
