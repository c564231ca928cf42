"""What is kept of a setup, per worktree: a record, its log, and the lock that makes it run once.

Private files. No secret value is among them: who writes a record leaves such exports out and names them.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from hashlib import sha256

from ...env.layer import Operation
from ...errors import SettingInvalid
from ...openers import private_folder
from ...record import EMPTY, KW_ONLY, fields, record
from .. import privatefile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO

STATES = ("running", "applied", "failed")
_LARGEST = 8 << 20  # an environment is 1 MiB at most; JSON makes more of it
_LOOK_SECONDS = 0.02


@record
class SetupRun:
    """What came of the last run in a worktree; "running" when no result was written: it was cut off.

    `digest` stands for everything that it depends on, `inputs` has the digests of its files. `set`, `unset`
    and `operations` are what it exports, but for the names in `withheld`, which are secret and nowhere else
    than in the memory of the process that ran it. `run` tells one run from the next, `identity` the worktree
    from one that was at its path before. The repr has no values.
    """

    worktree: str
    state: str
    digest: str
    label: str
    _: KW_ONLY
    run: str
    begun_ms: int
    identity: str = ""
    seconds: float = 0.0
    outcome: str = ""
    exit_code: int | None = None
    reason: str = ""
    inputs: Mapping[str, str | None] = EMPTY
    changed: tuple[str, ...] = ()  # inputs that it has changed itself
    set: Mapping[str, str] = EMPTY
    unset: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    withheld: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    hidden = ("set", "operations")

    @property
    def names(self) -> list[str]:
        """What it exports, changes or takes away."""
        return sorted({*self.set, *self.unset, *(one.variable for one in self.operations), *self.withheld})


class SetupFiles:
    """The files of one worktree."""

    __slots__ = ("_folder", "lock", "log", "name", "record", "worktree")

    def __init__(self, state_folder: str, worktree: str) -> None:
        self.worktree = worktree
        self._folder = f"{state_folder}/setups"
        name = sha256(worktree.encode("utf-8", "surrogateescape")).hexdigest()
        # Another state folder is another user's, or another test's.
        self.name = sha256(f"{state_folder}\0{worktree}".encode("utf-8", "surrogateescape")).hexdigest()
        self.record = f"{self._folder}/{name}.json"
        self.log = f"{self._folder}/{name}.log"
        self.lock = f"{self._folder}/{name}.lock"

    def read(self) -> SetupRun | None:
        """The last record; None when there is none that could be ours."""
        try:
            kept = _read(privatefile.read(self.record, _LARGEST))
        except (OSError, privatefile.NotOurs):
            return None
        return kept if kept is not None and kept.worktree == self.worktree else None

    def read_log(self, most: int) -> str:
        """The end of the last run's output."""
        try:
            return privatefile.read(self.log, most, end=True).decode("utf-8", "replace")
        except (OSError, privatefile.NotOurs):
            return ""

    def write(self, kept: SetupRun) -> None:
        """Raises SettingInvalid."""
        self._write(self.record, json.dumps(_told(kept)).encode())

    def write_log(self, text: str) -> None:
        """Raises SettingInvalid."""
        self._write(self.log, text.encode("utf-8", "replace"))

    def forget(self) -> None:
        """Removes the record and the log."""
        for path in (self.record, self.log):
            try:
                os.unlink(path)
            except OSError:
                pass

    def is_locked(self) -> bool:
        """Whether somebody is at it now."""
        try:
            fd = os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def locked(self, deadline: float) -> BinaryIO | None:
        """The lock, for a `with`; None when others held it until the deadline. Raises SettingInvalid.

        It is held to the end of the block, or of this process, whatever ends it.
        """
        try:
            private_folder(self._folder)
            fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise _cannot(self._folder, error) from None
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return open(fd, "rb")
                except OSError as error:
                    if error.errno not in (errno.EAGAIN, errno.EACCES):
                        raise _cannot(self._folder, error) from None
                if time.monotonic() >= deadline:
                    os.close(fd)
                    return None
                time.sleep(_LOOK_SECONDS)
        except BaseException:
            os.close(fd)
            raise

    def _write(self, path: str, data: bytes) -> None:
        try:
            privatefile.write(path, data)
        except OSError as error:
            raise _cannot(self._folder, error) from None


def _cannot(folder: str, error: OSError) -> SettingInvalid:
    return SettingInvalid(f"cannot write the result of the setup to {folder}: {error.strerror}")


# As text


# The keys in the file that are not the names of the fields.
_KEYS = {"label": "producer", "begun_ms": "begunAtMs", "exit_code": "exitCode"}


def _told(kept: SetupRun) -> dict[str, Any]:
    told = {_KEYS.get(name, name): getattr(kept, name) for name in fields(kept)}
    told["seconds"] = round(kept.seconds, 3)
    told["operations"] = [[one.variable, one.op, list(one.values)] for one in kept.operations]
    return {**told, "names": kept.names}


def _read(data: bytes) -> SetupRun | None:
    """None for what no version of ours has written. The folder is private: this is about accidents."""
    try:
        told = json.loads(data)
        said = {name: told[_KEYS.get(name, name)] for name in fields(SetupRun)}
        for name, kind in (("begun_ms", int), ("seconds", float), ("inputs", dict), ("set", dict)):
            said[name] = kind(said[name])
        said["operations"] = [Operation(name, op, tuple(values)) for name, op, values in said["operations"]]
        said["lost"] = [(kind, name) for kind, name in said["lost"]]
        kept = SetupRun(**said)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    texts = [kept.worktree, kept.digest, kept.label, kept.run, kept.identity, kept.outcome, kept.reason]
    texts += kept.unset
    texts += [*kept.set, *kept.set.values(), *kept.withheld, *(name for one in kept.lost for name in one)]
    texts += [text for one in kept.operations for text in (one.variable, one.op, *one.values)]
    return kept if kept.state in STATES and all(type(text) is str for text in texts) else None
