"""outfitter doctor --fix: each edit that a check advises, shown, asked for and made."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ..contract.doctor.fixes import Mode, Removal, with_setting, without_member
from ..errors import SettingInvalid
from .console import say
from .edits import Edit, agreed, offer, text_of
from .env.output import emit, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract.doctor.fixes import Fix, Setting


def mend(found: Sequence[tuple[str, Fix]], *, yes: bool) -> set[str]:
    """Offers each fix; returns the ids of the checks whose fix was made."""
    if not found:
        say("nothing here can be mended by --fix: the report says what to type or edit")
    made: set[str] = set()
    edited: set[str] = set()
    for ident, fix in found:
        try:
            if isinstance(fix, Mode):
                agreed_to = _chmod(ident, fix, yes=yes)
            elif agreed_to := offer(_edit(ident, fix), yes=yes, backup=fix.path not in edited):
                edited.add(fix.path)
        except SettingInvalid as error:
            say(f"{ident}: {error}")
            continue
        if agreed_to:
            made.add(ident)
    return made


def _edit(ident: str, fix: Setting | Removal) -> Edit:
    before = text_of(fix.path)
    text = before or ""
    after = without_member(text, fix) if isinstance(fix, Removal) else with_setting(text, fix)
    return Edit(fix.path, before, after, ident)


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
