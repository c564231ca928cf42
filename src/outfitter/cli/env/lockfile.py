"""The lock as a file, and what it is compared with: the environment as it is now."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time

from ...env import lock as locks
from ...env.redact import Secrets
from ...errors import FileInvalid, SettingInvalid
from ...formats.lockfile import decode
from ...host import facts
from ...openers import at_once, plain_file
from ...providers import inherited
from .output import say
from .places import project_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...contract.contract import Contract
    from ...env.lock import Lock
    from ...env.resolve import Resolved

# Whose versions are noted, where they are there.
TOOLS = ("python3", "node", "cargo", "go", "java", "git", "bash")
_VERSION_SECONDS = 5.0
_VERSION_BYTES = 16 << 10  # read of what it says
_VERSION_CHARACTERS = 200  # of the first line: more is no version
_FILE_BYTES = 8 << 20  # larger than any environment that a command can be given


def read(path: str, *, named: bool) -> Lock:
    """Raises SettingInvalid when there is none, FileInvalid when it is not one. A person may have `named`
    a pipe; what lies in the project's place may be anything."""
    try:
        with open(path, "rb", opener=at_once if named else plain_file) as file:
            data = file.read(_FILE_BYTES + 1)
    except FileNotFoundError:
        raise SettingInvalid(f"{path} does not exist: run `outfitter env lock` to write it") from None
    except OSError as error:
        raise SettingInvalid(f"cannot read {path}: {error.strerror}") from None
    if len(data) > _FILE_BYTES:
        raise SettingInvalid(f"{path} is too large to be a lock")
    try:
        return decode(data.decode(), path)
    except UnicodeDecodeError:
        raise SettingInvalid(f"{path} is not a lock: it is not UTF-8") from None


def salt_of(path: str) -> bytes:
    """That of the lock that is there, so that a new one differs from it only where the environment does."""
    try:
        return read(path, named=False).salt
    except (SettingInvalid, FileInvalid):
        return os.urandom(locks.SHORTEST_SALT)


def make(
    resolved: Resolved,
    contract: Contract,
    folder: str,
    salt: bytes,
    *,
    tools: Mapping[str, str],
    levels: Iterable[int],
    only: Iterable[str],
) -> Lock:
    """The lock of a folder's environment, with ~ and a dot for the home and the project."""
    return locks.build(
        resolved,
        salt=salt,
        secrets=Secrets(contract.settings(folder).secret_names),
        tools=tools,
        home=facts.home(inherited.load()),
        project=project_folder(folder),
        levels=levels,
        only=only,
    )


def tools_of(names: Iterable[str], resolved: Resolved, cwd: str, levels: Iterable[int]) -> list[str]:
    """Those that are found in a folder which one of these layers has put into PATH."""
    from ...contract.programs import find

    covered = frozenset(levels)
    path = resolved.history()[1].get("PATH")
    folders = {one.value for one in path.segments if one.level in covered} if path is not None else set()
    found = {name: find(name, resolved.values, cwd) for name in names}
    return [name for name, path in found.items() if path is not None and os.path.dirname(path) in folders]


def versions(names: Iterable[str], resolved: Resolved, cwd: str) -> dict[str, str]:
    """What each program that is in PATH says about itself: the first line of `NAME --version`.

    None of a project's that nobody has allowed, nor one that is named by its place: a lock is the project's,
    too.
    """
    from ...contract.programs import find

    waiting = {(layer.level, layer.id): layer.awaits for layer in resolved.layers if layer.awaits}
    path = resolved.history()[1].get("PATH")
    strange = {
        os.path.realpath(one.value): waiting[one.level, one.layer]
        for one in (path.segments if path is not None else ())
        if (one.level, one.layer) in waiting
    }
    found = {}
    for name in names:
        program = None if "/" in name else find(name, resolved.values, cwd)
        if program is None:
            continue
        grant = strange.get(os.path.realpath(os.path.dirname(program)))
        if grant is None:
            found[name] = _version(program, resolved.values, cwd)
        else:
            say(
                f"{program} is the project's, and was not asked for its version: to allow that, type: {grant}"
            )
    return found


def _version(path: str, env: Mapping[str, str], cwd: str) -> str:
    """Programs that take too long or do not start say so in place of a version."""
    try:
        popen = subprocess.Popen(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_encoded(env),
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return "(cannot be started)"
    with popen:
        assert popen.stdout is not None, "it is a pipe"
        try:
            text = _first_line(popen.stdout.fileno())
        finally:
            # Whatever it started goes with it: a wrapper may have left something waiting.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(popen.pid, signal.SIGKILL)
    return text


def _first_line(fd: int) -> str:
    """The first line that is not empty, waited for up to its end."""
    deadline = time.monotonic() + _VERSION_SECONDS
    data = b""
    while len(data) < _VERSION_BYTES and b"\n" not in data.lstrip():
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return "(no answer)"
        more = os.read(fd, _VERSION_BYTES)
        if not more:
            break
        data += more
    line = data.strip().partition(b"\n")[0]
    return line.decode("utf-8", "replace").strip()[:_VERSION_CHARACTERS] or "(prints nothing)"


def _encoded(env: Mapping[str, str]) -> dict[bytes, bytes]:
    return {
        name.encode("utf-8", "surrogateescape"): value.encode("utf-8", "surrogateescape")
        for name, value in env.items()
    }
