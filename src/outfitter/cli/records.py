"""Which commands `outfitter run` has started elsewhere: what `ps` lists and `attach` finds.

One small file per command, readable by its owner alone, gone when the command is. The session id in it is
what lets `attach` take the command up; arguments and tokens are never written.
"""

from __future__ import annotations

import os
import time

from ..contract import privatefile
from ..errors import SettingInvalid
from ..host import facts
from ..host.installkey import state_folder
from ..protocol.jsontext import dumps
from ..record import fields, record, replace
from ..transport.unix import PREFIX, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_FILES = ("codex_home", "token_file", "tls_ca", "tls_cert", "tls_key")  # flags, and fields of a record
_STALE_SECONDS = 7 * 86_400  # a record that nobody asked about for so long belongs to a server that is gone


@record
class Started:
    """A command that runs on some environment, and who holds its session."""

    id: str
    on: str
    session_id: str
    process_id: str
    program: str
    tty: bool
    started: float
    holder: int  # the pid of the outfitter command that follows it
    holder_since: str  # when that process started, since pids are used again
    codex_home: str | None = None
    token_file: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    server: int = 0  # the server's pid, where it is a process of this user on this machine
    server_since: str = ""

    @property
    def server_ended(self) -> bool:
        """Whether its server, and with it every command, is known to have ended."""
        return self.server != 0 and not _runs(self.server, self.server_since)

    @property
    def held(self) -> bool:
        """Whether the command that follows it still runs, on this machine."""
        return self.holder != 0 and _runs(self.holder, self.holder_since)


def state_home(environ: Mapping[str, str]) -> str:
    return state_folder(environ, facts.home(environ))


class Records:
    """The files of one user on this machine."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder = os.path.join(state_home(environ), "commands")

    def add(
        self,
        on: str,
        session_id: str,
        process_id: str,
        program: str,
        flags: Mapping[str, Any],
        *,
        tty: bool,
        server: int = 0,
    ) -> Started:
        """Writes down a command that this process follows; `flags` name the files. Raises SettingInvalid."""
        started = Started(
            os.urandom(4).hex(),
            on,
            session_id,
            process_id,
            program,
            tty,
            time.time(),
            os.getpid(),
            _since(os.getpid()),
            server=server,
            server_since=_since(server) if server else "",
            **{name: os.path.abspath(flags[name]) for name in _FILES if flags.get(name) is not None},
        )
        self._write(started)
        return started

    def take(self, started: Started) -> None:
        """This process follows it from now on."""
        self._write(replace(started, holder=os.getpid(), holder_since=_since(os.getpid())))

    def leave(self, started: Started) -> None:
        """Nobody follows it any more; the server keeps it for a while."""
        self._write(replace(started, holder=0))

    def remove(self, started: Started) -> None:
        try:
            os.unlink(self._path(started.id))
        except OSError:
            pass  # somebody else has removed it

    def all(self, on: str | None = None) -> list[Started]:
        """Every command written down, oldest first; with `on`, of those on this environment.

        A file that cannot be read is not one of ours. Raises SettingInvalid.
        """
        if on is not None and on.startswith(PREFIX):
            on = PREFIX + path_of(on)  # as it is written down, wherever somebody was
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        found = [self._read(os.path.join(self._folder, name)) for name in names if name.endswith(".json")]
        fitting = [one for one in found if one is not None and on in (None, one.on)]
        return sorted(fitting, key=lambda one: one.started)

    def find(self, ident: str | None, on: str | None = None) -> Started:
        """The command with this id, or the beginning of one; without an id the only one there is.

        With `on`, of those on this environment. Raises SettingInvalid.
        """
        everything = self.all(on)
        fitting = [one for one in everything if ident is None or (ident and one.id.startswith(ident))]
        if len(fitting) == 1:
            return fitting[0]
        if not everything:
            raise SettingInvalid("no commands are running: `outfitter run --on NAME` starts one")
        names = ", ".join(one.id for one in fitting or everything)
        if not fitting:
            raise SettingInvalid(f"no command has the ID {ident!r}; known: {names}")
        raise SettingInvalid(f"more than one command matches; choose one of: {names}")

    # Files

    def _path(self, ident: str) -> str:
        return os.path.join(self._folder, f"{ident}.json")

    def _write(self, started: Started) -> None:
        path = self._path(started.id)
        content = {name: getattr(started, name) for name in fields(Started)}
        try:
            privatefile.write(path, dumps(content).encode())
        except OSError as error:
            raise SettingInvalid(f"cannot write {path}: {error.strerror}") from None

    def _read(self, path: str) -> Started | None:
        import json

        try:
            with open(path, encoding="utf-8") as file:
                started = Started(**json.load(file))
            if not _fits(started, path):
                return None
            if not started.held and time.time() - os.stat(path).st_mtime > _STALE_SECONDS:
                os.unlink(path)
                return None
            return started
        except (OSError, ValueError, TypeError, RecursionError):
            return None


def _fits(started: Started, path: str) -> bool:
    """Whether what a file says has the right types, and is about itself."""
    others = {
        "tty": (bool,),
        "started": (int, float),
        "holder": (int,),
        **dict.fromkeys(_FILES, (str, type(None))),
        "server": (int,),
    }
    return os.path.basename(path) == f"{started.id}.json" and all(
        type(getattr(started, name)) in others.get(name, (str,)) for name in fields(Started)
    )


def _runs(pid: int, since: str) -> bool:
    """Whether the process that started then still runs, for all that can be told."""
    now = _since(pid)
    return now != "" and (now == since or "?" in (now, since))


def _since(pid: int) -> str:
    """When a process started, as the kernel tells it; "" when there is none, "?" where it cannot be told."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
            # A dead one that nobody has reaped follows nothing.
            return "" if fields[0] in "ZX" else fields[19]
    except (FileNotFoundError, ProcessLookupError):
        if os.path.isdir("/proc/self"):
            return ""
    except IndexError:
        return ""
    except OSError:
        pass  # no descriptor is left, say: that is no news of the process
    try:
        os.kill(pid, 0)
    except OSError:
        return ""
    return "?"
