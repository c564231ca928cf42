"""Outfitter's own files: the key of fingerprints and the folder of its state."""

from __future__ import annotations

import os
import stat
from shlex import quote

from ...host import installkey
from ...host.uids import own
from ...record import KW_ONLY, record, replace
from .check import Check, Finding
from .fixes import Mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine

_KEY_SIZE = 32
_PIN = ".executor.pin"
_RELAY_FILES = (".token", ".key", _PIN)
_SHOWN = 20  # keys of executors


@record
class OwnFile:
    """A file or folder of ours. `mode` is None when it is not there; `usable` says that we can use it.

    `held` is the folder that keeps us from it, and `below_home` that this one is in the home directory.
    """

    path: str
    mode: int | None
    _: KW_ONLY
    ours: bool = True
    usable: bool = True
    size: int = 0
    held: OwnFile | None = None
    below_home: bool = False


def key(machine: Machine) -> OwnFile:
    return _look(f"{installkey.state_folder(machine.environ, machine.home)}/key", True)


def state(machine: Machine) -> OwnFile:
    path = installkey.state_folder(machine.environ, machine.home)
    usable = can_write(path)
    path = os.path.realpath(path)  # people keep such folders elsewhere
    if usable:
        return _look(path, True)
    held = _nearest(path)
    below_home = held.startswith(f"{os.path.realpath(machine.home)}/")
    return replace(_look(path, False), held=replace(_look(held, False), below_home=below_home))


def _look(path: str, usable: bool) -> OwnFile:
    try:
        found = os.lstat(path)
    except OSError:
        return OwnFile(path, None, usable=usable)
    ours = found.st_uid == own() and not stat.S_ISLNK(found.st_mode)
    return OwnFile(path, stat.S_IMODE(found.st_mode), ours=ours, usable=usable, size=found.st_size)


def can_write(path: str) -> bool:
    """Whether we can write into a folder, or make it."""
    path = _nearest(path)
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def _nearest(path: str) -> str:
    """The path, or what there is above it."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def key_file(key: OwnFile) -> Finding:
    if key.mode is None:
        return Finding("ok", "does not exist yet: the first fingerprint creates it")
    if not key.ours or key.size != _KEY_SIZE:
        what = f"does not have {_KEY_SIZE} bytes" if key.ours else "is a link or belongs to another user"
        return Finding(
            "warning",
            f"the key {what}: fingerprints of two processes cannot be compared",
            [key.path],
            f"Run `rm {quote(key.path)}`: Outfitter creates a new key.",
        )
    path = quote(key.path)
    if key.mode & 0o077:
        return Finding(
            "warning",
            "other users can read the key: it is not used, and fingerprints of two processes cannot be "
            "compared",
            [f"{key.path}, mode {key.mode & 0o777:o}"],
            f"Run `chmod 600 {path}`, or `rm {path}` if another user may have read it.",
            Mode(key.path, key.mode & 0o7777, 0o600),
        )
    return Finding("ok", "private", [key.path])


def state_folder(state: OwnFile) -> Finding:
    path = quote(state.path)
    if not state.usable:
        what = "cannot be created" if state.mode is None else "cannot be written to"
        held = state.held or state
        return Finding(
            "warning",
            f"the directory of Outfitter's state {what}: commands left running on a server are not "
            f"remembered",
            [state.path] if held.ours else [state.path, f"{held.path} belongs to another user"],
            _how_to_have(held),
        )
    if state.mode is None:
        return Finding("ok", "does not exist yet: Outfitter creates it when needed", [state.path])
    if not state.ours or state.mode & 0o022:
        return Finding(
            "error",
            "other users can change Outfitter's state",
            [f"{state.path}, mode {state.mode & 0o777:o}"],
            f"Run `chmod 700 {path}`."
            if state.ours
            else f"Run `sudo chown $(id -u) {path} && chmod 700 {path}`.",
            Mode(state.path, state.mode & 0o7777, 0o700) if state.ours else None,
        )
    return Finding("ok", "private and writable", [state.path])


def _how_to_have(held: OwnFile) -> str:
    """What helps where a folder keeps us from writing."""
    elsewhere = "set OUTFITTER_HOME to a directory of yours"
    path = quote(held.path)
    if not held.ours and held.below_home:  # as after `sudo` with HOME as it was
        return f"Run `sudo chown -R $(id -u) {path}`, or {elsewhere}."
    if held.ours and (held.mode or 0) & 0o300 != 0o300:
        return f"Run `chmod u+rwx {path}`, or {elsewhere}."
    return f"{elsewhere[0].upper()}{elsewhere[1:]}."  # a home that there is not, a file system to read only


def relays(machine: Machine) -> tuple[OwnFile, ...]:
    """What is kept of relays: tokens, our own keys, and the keys of executors that are known."""
    home = machine.environ.get("OUTFITTER_HOME", "")
    folder = os.path.abspath(home) if home else installkey.state_folder(machine.environ, machine.home)
    found = []
    for place, _, names in os.walk(f"{folder}/relay"):
        found += [_look(f"{place}/{name}", True) for name in names if name.endswith(_RELAY_FILES)]
    return tuple(sorted(found, key=lambda one: one.path))


def relay_files(files: tuple[OwnFile, ...]) -> Finding:
    pins = [one for one in files if one.path.endswith(_PIN)]
    # Others may read what is public, and change nothing.
    wrong = [one for one in files if not one.ours or (one.mode or 0) & (0o022 if one in pins else 0o077)]
    if wrong:
        return Finding(
            "error",
            "other users can read or change tokens or keys of remote executors",
            [f"{one.path}, mode {(one.mode or 0) & 0o777:o}" for one in wrong],
            "Run `chmod 600 " + " ".join(quote(one.path) for one in wrong) + "`, and enrol again if another "
            "user may have read a token.",
        )
    if not files:
        return Finding("ok", "no remote executor was enrolled or used")
    known = [f"{os.path.basename(one.path).removesuffix(_PIN)}: {_first_line(one.path)}" for one in pins]
    others = len(files) - len(pins)
    return Finding(
        "ok", f"{others} private files; the keys of {len(pins)} executors are known", [*known][:_SHOWN]
    )


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline(64).strip()
    except OSError:
        return "cannot be read"


CHECKS = (
    Check("key.file", (key,), key_file),
    Check("state.folder", (state,), state_folder),
    Check("relay.files", (relays,), relay_files),
)
