"""The key of this user's fingerprints on this machine: random, private, made once.

Fingerprints made with it can be compared with each other and with nothing else.
"""

from __future__ import annotations

import os
import stat

from ..openers import private_folder
from .pipes import let_go
from .uids import own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZE = 32


def state_folder(environ: Mapping[str, str], home: str) -> str:
    """Where Outfitter keeps what is not configuration: OUTFITTER_HOME, or below XDG_STATE_HOME."""
    own = environ.get("OUTFITTER_HOME", "")
    if own:
        return f"{os.path.abspath(own)}/state"
    state = environ.get("XDG_STATE_HOME", "")
    return f"{state}/outfitter" if state.startswith("/") else f"{home.rstrip('/')}/.local/state/outfitter"


def load(folder: str) -> bytes:
    """The key; made when there is none. Where it cannot be kept, one for this process alone."""
    path = f"{folder}/key"
    key = _read(path)
    if key is not None:
        return key
    key = os.urandom(_SIZE)
    try:
        private_folder(folder)
        # Whole or not at all: those who start together must end up with the same one.
        own = f"{path}.{os.urandom(8).hex()}"
        fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                written = os.write(fd, key)
            finally:
                os.close(fd)
            if written == _SIZE:  # else the disk is full
                os.link(own, path)
        finally:
            os.unlink(own)
    except FileExistsError:
        return _read(path) or key
    except OSError:
        return key  # a read-only home: fingerprints of this process match each other, and no others
    return key


def _read(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if found.st_uid != own() or found.st_mode & 0o077 or not stat.S_ISREG(found.st_mode):
            return None  # others could know it, or it is no file
        key = os.read(fd, _SIZE + 1)
    finally:
        let_go(fd)
    return key if len(key) == _SIZE else None
