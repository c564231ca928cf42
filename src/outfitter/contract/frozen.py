"""What a provider's tool sees of a project: the files that were checked, whoever changes them meanwhile."""

from __future__ import annotations

import os
import stat

from ..env.ahead import ABSENT
from ..host.tools.frozen import FrozenFiles
from ..host.uids import ours
from ..providers.files import is_repository, upwards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .settings import Settings

_KERNEL = (
    "Allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1 "
    "kernel.apparmor_restrict_unprivileged_userns=0`; in a container the capability SYS_ADMIN), or write "
    'freeze = "off" under [providers] in your own file.'
)
_ELSEWHERE = "Move the project into a directory of your own, where others cannot write."
_PUBLIC = "everybody may write to "
_UNFROZEN = "its files were checked before and after it ran, not meanwhile: "
_OFF = 'freeze = "off"'
_NOBODY = 65534  # whose root's folders seem to be in a namespace of users


def frozen_files(root: str, files: Mapping[str, bytes | None], settings: Settings) -> FrozenFiles | None:
    """The files of the project at `root`, frozen unless the user forbids it; None if there are none."""
    if not files:
        return None
    top = top_of(root)
    frozen = FrozenFiles(top, files)
    if settings.freeze == "off":
        frozen.why = f"{_OFF} ({settings.sources['providers.freeze']})"
    elif _is_public(top):
        frozen.why = _PUBLIC + top
    return frozen


def top_of(root: str) -> str:
    """The folder above which nobody who works on the project changes anything: that of its repository."""
    real = os.path.realpath(root)
    last = list(upwards(real))[-1]
    return last if is_repository(last) else real


def _is_public(folder: str) -> bool:
    """Whether it is a place like /tmp: what others put there meanwhile must be seen, pipes of ours too."""
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def movable(top: str) -> str:
    """The nearest folder above in which somebody else than root and the user can rename something on the way
    to `top`; "" if there is none. What is mounted there moves with it: nothing can be done against that."""
    path = top
    while (above := os.path.dirname(path)) != path:
        try:
            found, owner = os.stat(above), os.lstat(path).st_uid
        except OSError:
            return above
        shared = bool(found.st_mode & stat.S_IWOTH)
        # Many systems give each user a group of the same number.
        shared |= bool(found.st_mode & stat.S_IWGRP) and found.st_gid not in ours()
        kept = bool(found.st_mode & stat.S_ISVTX) and owner in ours()
        if found.st_uid not in (*ours(), _NOBODY) or (shared and not kept):
            return above
        path = above
    return ""


def frozen_words(frozen: FrozenFiles | None) -> tuple[str, ...]:
    """The same for a tool that starts each command: the top, then paths and digests in turn; nothing where
    files cannot be frozen."""
    if frozen is None or frozen.why:
        return ()
    from ..stdlib import sha256

    words = [frozen.top]
    for path, content in frozen.files.items():
        words += (path, ABSENT if content is None else sha256(content).hexdigest())
    return tuple(words)


def frozen_notes(frozen: FrozenFiles | None) -> list[str]:
    """What a person should know of it."""
    notes: list[str] = []
    if frozen is None:
        return notes
    if frozen.why:
        notes.append(_UNFROZEN + frozen.why)
    elif above := movable(frozen.top):
        notes.append(
            f"who may write to {above} can rename {frozen.top} while it runs, and put another in its place"
        )
    if frozen.lost:
        notes.append(f"what it wrote could not be kept: {frozen.lost}")
    return notes


def cannot_freeze(note: str) -> bool:
    """Whether a layer's note says that files could not be frozen, though the user has not forbidden it."""
    return _UNFROZEN in note and _UNFROZEN + _OFF not in note


def freeze_remedy(notes: Iterable[str]) -> str:
    """What helps layers with such notes."""
    notes = list(notes)
    remedies = [_ELSEWHERE] * any(_UNFROZEN + _PUBLIC in note for note in notes)
    remedies += [_KERNEL] * any(_UNFROZEN + _PUBLIC not in note for note in notes)
    return " ".join(remedies)
