"""Replaces a running server by a new version of itself, which keeps its commands.

The process stays the same one: its number, its children and its descriptors. Its program is started again
with the same words, so what is installed now is loaded. Up to the last step the old version can go on:

1. The new version is asked, in a process of its own, whether it starts and can read what it will be given.
2. Providers and setups that are being asked are waited for. Everybody is served meanwhile.
3. Nothing more is read from clients and commands. What is under way is answered.
4. Clients are told to come back: close code 1012, after every answer. What was not answered was not done.
5. What the server has is written to memory, and the new version is executed.

The new version takes the memory, watches the same descriptors, and accepts who waits at the listening socket.
"""

from __future__ import annotations

import os
import select
import sys

from .. import VERSION
from ..core.handover import FORMAT, Parcel, Received
from ..core.marks import NO_SESSION
from ..host import reexec, spawn
from ..host.facts import working_directory
from ..host.pipes import let_go
from ..host.tools.tool import run_tool
from ..log import note, warn
from ..plain import plain
from ..protocol.session import RESTARTING, RESTARTING_REASON
from . import asking as asking  # loaded before their files are those of a new version
from . import draining as draining
from . import handover
from .limits import (
    UPGRADE_ANSWER_SECONDS,
    UPGRADE_CHECK_SECONDS,
    UPGRADE_CLOSE_SECONDS,
    UPGRADE_LOOK_SECONDS,
    UPGRADE_PATIENCE_SECONDS,
    UPGRADE_RETURN_SECONDS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..host.tools.tool import Ran
    from ..loop import Loop, Timer
    from ..protocol.upgrade import Gate
    from ..transport.listener import Listener
    from .server import Server

    Listening = Callable[[], tuple[int, tuple[int, int] | None]]

# Says to a new version which memory it is given, or that it is only asked whether it could take over.
VARIABLE = "OUTFITTER_UPGRADE"
_CHECK = "check:"
_ANSWER = "outfitter takes over format"
_REASON = 300  # characters of what a new version says against itself
_CUT_OFF = "the server restarts and keeps its commands; some answers could not be sent"


class Upgrading:
    """One server's way to its next version, begun by a signal."""

    def __init__(
        self,
        loop: Loop,
        listening: Listening,
        listener: Listener,
        server: Callable[[], Server],
        signals: int,
        last: Callable[[], None],
    ) -> None:
        """`listening` tells the descriptor at which connections arrive, and the identity of its place;
        `server` makes the server if there was no need for it yet; `signals` is where signals arrive; `last`
        writes what threads have not written yet.
        """
        self._loop = loop
        self._listening = listening
        self._listener = listener
        self._get = server
        self._signals = signals
        self._last = last
        self._assumed = spawn.assumed  # with --run-as: all this is root's own
        self._command = reexec.own_command("" if self._assumed is None else self._assumed.folder)
        self._under_way = False
        self._until = 0.0
        self._next: Timer | None = None
        self._stopped = False

    def stop(self) -> None:
        """The server ends: it is not replaced any more."""
        self._stopped = True
        if self._next is not None:
            self._next.cancel()

    def _look_again(self, step: Callable[[], None]) -> None:
        self._next = self._loop.call_later(UPGRADE_LOOK_SECONDS, step)

    # 1. Asking the new version

    def begin(self) -> None:
        if self._under_way:
            return
        self._under_way = True
        self._server = self._get()
        self._services = self._server.services
        self._sessions = self._services.sessions
        note("server", "=", "upgrade: asking the new version")
        mark = self._sessions.marks.new(NO_SESSION)
        try:
            self._sessions.watchdog.ensure()
            self._services.asking.attended(lambda: self._check(mark), self._checked, ("", NO_SESSION))
        except Exception as error:
            self._refuse(f"the new version cannot be asked: {type(error).__name__}")

    def _environment(self, said: str) -> dict[str, str]:
        """What this program was started with, and what the next one is told."""
        assumed = self._assumed
        return {**(self._server.contract.base.values if assumed is None else assumed.environ), VARIABLE: said}

    def _check(self, mark: int) -> str:
        """Why the new version cannot take over; empty if it can. In a thread."""
        env = self._environment(f"{_CHECK}{FORMAT}")
        here = (working_directory() or "/") if self._assumed is None else self._assumed.folder
        ran = run_tool(self._command, here, env, timeout=UPGRADE_CHECK_SECONDS, mark=mark, ourselves=True)
        if ran.ok and ran.stdout.startswith(f"{_ANSWER} {FORMAT} ".encode()):
            return ""
        return _why(ran)

    def _checked(self, reason: str, failure: BaseException | None) -> None:
        if self._stopped:
            return
        if failure is not None:
            reason = f"the new version cannot be asked: {type(failure).__name__}"
        if reason:
            self._refuse(reason)
            return
        self._until = self._loop.time() + UPGRADE_PATIENCE_SECONDS
        self._wait_for_others()

    # 2. Waiting for what must not be interrupted

    def _wait_for_others(self) -> None:
        if not self._sessions.waits_for_others:
            self._fall_silent()
        elif self._loop.time() < self._until:
            self._look_again(self._wait_for_others)
        else:
            self._refuse(
                f"a provider or a setup of a project did not end within {UPGRADE_PATIENCE_SECONDS:g} s; "
                "try again when it has"
            )

    # 3. Answering what is under way

    def _fall_silent(self) -> None:
        self._listener.suspend()
        for connection in self._server.open_connections:
            connection.hold("upgrade", True)
            if connection.session is not None:
                connection.session.freeze()
        self._until = self._loop.time() + UPGRADE_ANSWER_SECONDS
        self._answer()

    def _answer(self) -> None:
        busy = self._services.busy or not all(one.at_rest for one in self._server.open_connections)
        if busy and self._loop.time() < self._until:
            self._look_again(self._answer)
            return
        self._send_away()

    # 4. Telling clients

    def _send_away(self) -> None:
        until = self._loop.time() + UPGRADE_RETURN_SECONDS
        for connection in self._server.open_connections:
            session = connection.session
            if connection.at_rest:
                connection.close(RESTARTING, RESTARTING_REASON)
            else:
                connection.close(1001, _CUT_OFF)
            if session is not None:
                self._sessions.keep(session, until)
        self._until = self._loop.time() + UPGRADE_CLOSE_SECONDS
        self._wait_for_clients()

    def _wait_for_clients(self) -> None:
        if self._listener.served and self._loop.time() < self._until:
            self._look_again(self._wait_for_clients)
        else:
            self._replace()

    # 5. Executing the new version

    def _replace(self) -> None:
        reexec.hold_signals()
        if _is_readable(self._signals):
            # One has come and was not heard yet: it may be the end.
            reexec.take_signals()
            self._look_again(self._replace)
            return
        memory = -1
        try:
            parcel = Parcel()
            memory = reexec.sealed(parcel.pieces(self._told(parcel)))
            self._last()
            env = self._environment(str(parcel.keep(memory)))
            if self._assumed is None:
                reexec.replace(self._command, env, parcel.descriptors)
            else:
                with self._assumed.as_started():
                    reexec.replace(self._command, env, parcel.descriptors)
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            self._refuse(f"the new version cannot be executed: {why}")
        finally:
            let_go(memory)
            reexec.take_signals()
        self._listener.resume()
        self._loop.call_later(UPGRADE_RETURN_SECONDS, _thaw, self._server)

    def _told(self, parcel: Parcel) -> dict[str, object]:
        listening, identity = self._listening()
        return {
            "version": VERSION,
            "upgrades": self._services.upgrades.count,
            "listening": [parcel.keep(listening), identity],
            "signals": parcel.keep(self._signals),  # a thread may take one while we hold them back
            "incoming": [[parcel.keep(fd), parcel.put(head)] for fd, head in self._listener.unheard()],
            **handover.told(self._services, parcel),
        }

    def _refuse(self, reason: str) -> None:
        self._under_way = False
        warn("server", "no upgrade, this version goes on: %s", reason)
        self._services.upgrades.came_to("refused", reason)


def _why(ran: Ran) -> str:
    """What a new version said against itself, in one line."""
    if ran.outcome == "not-started":
        return f"the new version cannot be started: {ran.failure}"
    if ran.outcome == "timeout":
        return f"the new version did not say within {UPGRADE_CHECK_SECONDS:g} s that it can take over"
    lines = ran.stderr.decode("utf-8", "replace").strip().splitlines()
    last = plain(lines[-1])[:_REASON] if lines else f"exit status {ran.code}"
    return f"the new version cannot take over: {last}"


def _is_readable(fd: int) -> bool:
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(0))


def _thaw(server: Server) -> None:
    """Who was sent away and did not come back has had the time for it."""
    server.services.sessions.thaw()


# The new version


def answer_check(said: str, gate: Callable[[], Gate]) -> int:
    """Says whether this version could take over, having loaded what it needs; returns the exit status."""
    from ..transport import listener, websocket
    from . import server
    from .handlers import environment, process, session

    gate()
    needed = (listener, websocket, server, environment, process, session)
    if said != f"{_CHECK}{FORMAT}":
        sys.stderr.write(f"it reads format {FORMAT}, and this server writes {said.removeprefix(_CHECK)}\n")
        return 1
    sys.stdout.write(f"{_ANSWER} {FORMAT} {VERSION} {len(needed)}\n")
    sys.stdout.flush()
    return 0


def is_check(said: str) -> bool:
    return said.startswith(_CHECK)


def received(said: str) -> Received | None:
    """What the version before has left for this one; None if the variable comes from somewhere else."""
    try:
        fd = int(said)
        found = Received(reexec.contents(fd))
    except (OSError, ValueError) as error:
        warn("server", "%s is not what a server leaves to its next version: %s", VARIABLE, error)
        return None
    if found.told["pid"] != os.getpid():
        warn("server", "%s was left for another process", VARIABLE)
        return None
    let_go(fd)
    reexec.keep((one for one in found.told["descriptors"] if one != fd), False)
    return found


def take_over(server: Server, listener: Listener, found: Received, loop: Loop) -> None:
    """Goes on with what the version before had."""
    handover.taken(server.services, found)
    for fd, head in found.told["incoming"]:
        listener.adopt(fd, found.bytes(head))
    upgrades = server.services.upgrades
    upgrades.count = found.told["upgrades"]
    upgrades.came_to("upgraded")
    reexec.take_signals()
    if (signals := found.told.get("signals")) is not None:  # of a version that leaves them
        reexec.raise_again(signals)
    loop.call_later(UPGRADE_RETURN_SECONDS, _thaw, server)
    note(
        "server",
        "=",
        "upgraded from %s to %s with %d sessions",
        found.told["version"],
        VERSION,
        len(found.told["sessions"]),
    )
