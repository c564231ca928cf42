"""outfitter run -- CMD: a command through the real client path, streamed, its exit code ours."""

from __future__ import annotations

import os
import sys
from collections import deque
from json import dumps
from typing import TYPE_CHECKING, Any

from ..client.feed import ProcessFeed
from ..client.process import RemoteProcess
from ..core.events import Output
from ..errors import Disconnected, OutfitterError, RequestFailed
from . import base, detachkeys, explain, terminal
from .colour import Paint, wants_colour
from .console import say
from .follow import Follower, LeftRunning, status_of
from .quickfollow import can_pass_input
from .records import Records
from .runflags import not_text
from .statuses import DENIED, NOT_EXECUTABLE, NOT_FOUND, NOT_STARTED, not_started, say_reason
from .target import named, reach
from .wishes import client_contract, client_policy, launch_kind, sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..client.answers import NetworkDecision
    from ..client.client import Client
    from ..core.events import Exited
    from ..protocol.jsontext import Json
    from .quickon import RunOn
    from .records import Started
    from .target import Target

REFERENCE_RETENTION = 30.0  # seconds that `codex exec-server` keeps a session
# What a terminal's programs need to know about the terminal, which is here and not there.
_TERMINAL_NAMES = ("TERM", "COLORTERM")
_NOT_INSIDE = "bwrap: execvp "  # what there is to hear of a program that cannot be started in a sandbox
_TAIL_BYTES = 8 << 10  # of what a command says last: a traceback of Python fits


def run(argv: Sequence[str], flags: dict[str, Any]) -> int:
    """Runs the command; returns the exit status of the command line."""
    if (what := not_text(argv, flags)) is not None:
        say(f"{what} is not UTF-8, which is all that can be sent to a server: convert or rename it")
        return NOT_STARTED
    return status_of(lambda: _Run(argv, flags, named(flags, pools=True)).run(), NOT_STARTED)


def take_up(begun: RunOn) -> int:
    """Goes on with a command that `quickon` has begun; returns the exit status of the command line."""
    return status_of(lambda: _take_up(begun), NOT_STARTED)


class _Run:
    """One command line."""

    def __init__(self, argv: Sequence[str], flags: dict[str, Any], target: Target) -> None:
        self._argv = argv
        self._flags = flags
        self._target = target
        self._leave_keys = detachkeys.parse(flags["detach_keys"])
        self._records = Records(os.environ)
        names = _TERMINAL_NAMES if flags["tty"] else ()
        self._env = {name: os.environ[name] for name in names if os.environ.get(name)}
        self._env |= flags["env"]  # what the command line says itself goes before what the terminal does
        self._policy = client_policy(flags)
        self._contract = client_contract(flags)
        self._sandbox = sandbox(flags)
        self._differences: Json = None

    async def run(self) -> int:
        flags = self._flags
        if flags["detach"] and not self._target.resumable:
            say("--detach needs a server at a URL, which keeps the command: name one with --on")
            return NOT_STARTED
        async with reach(self._target, summaries=flags["explain"] or flags["json"]) as client:
            if client.offers("environmentContract"):
                self._contract = client_contract(flags, launch_kind())
            if flags["detach"] and (why := self._why_not_kept(client)):
                say(why)
                return NOT_STARTED
            pass_input = not flags["detach"] and self._can_pass_input(client)
            self._differences = await base.agree(
                client, self._target, flags["from"], compare=flags["explain"]
            )
            cwd = base.directory(client, self._target, flags["cwd"])
            tail = None if self._sandbox is None else _Tail()
            try:
                process = await client.start(
                    self._argv,
                    cwd=cwd,
                    env=self._env,
                    policy=self._policy,
                    contract=self._contract,
                    sandbox=self._sandbox,
                    on_network=None if tail is None else tail.decided,
                    tty=terminal.size() if flags["tty"] else None,
                    stdin=pass_input,
                    detach=self._detach_for(client),
                    on_waiting=lambda what: say(f"waiting for {what}"),
                )
            except RequestFailed as error:
                return not_started(self._argv[0], flags["cwd"], error.message, error.data)
            for warning in process.warnings:
                say(warning)
            started = self._record(client, process)
            if flags["detach"]:
                return await self._detach(client, process, started)
            status = await follow(
                client,
                process,
                self._argv[0],
                started,
                self._records,
                flags,
                pass_input=pass_input,
                leave_keys=self._leave_keys,
                heard=tail,
            )
            if tail is not None and status == 1 and tail.text.startswith(_NOT_INSIDE):
                return NOT_EXECUTABLE if "ermission" in tail.text else NOT_FOUND
            self._say_denied(client, process, tail, cwd)
            say_reason(process.reason)
            if flags["explain"]:
                await self._explain(client, process, cwd)
            return status

    def _say_denied(
        self, client: Client, process: RemoteProcess, tail: _Tail | None, cwd: str | None
    ) -> None:
        """What the sandbox denied, as far as it is known, and which flag would allow it."""
        if not process.exit_code:
            return
        if self._sandbox is None or tail is None:
            if process.sandbox_denied:
                say(DENIED)
            return
        from ..core.remedies import guess, sentence

        here = client.resolve(cwd).local_path()
        denied = bool(process.sandbox_denied)
        found = guess(tail.text, self._sandbox, here, denied=denied, hosts=tail.hosts)
        if found is not None:
            say(sentence(found, self._sandbox, here))

    def _can_pass_input(self, client: Client) -> bool:
        return self._flags["tty"] or can_pass_input(ends=client.offers("processStdinEof"))

    def _detach_for(self, client: Client) -> bool | float:
        """What is asked of a server that can keep a command without a client."""
        if not self._flags["detach"] or not client.offers("processDetach"):
            return False
        seconds = self._flags["detach_for"]
        return True if seconds is None else float(seconds)

    def _why_not_kept(self, client: Client) -> str:
        """Why a server without that capability would end the command too early; empty when it would not."""
        if client.offers("processDetach"):
            return ""
        kept = _retention(client)
        asked = self._flags["detach_for"]
        if asked is not None and asked <= kept:
            return ""
        return (
            f"this server ends a command {kept:g} s after its client has gone: add --detach-for {kept:g} if "
            f"that is enough, or use an Outfitter server"
        )

    def _record(self, client: Client, process: RemoteProcess) -> Started | None:
        if not self._target.resumable:
            return None
        try:
            return self._records.add(
                self._target.on,
                client.session_id,
                process.process_id,
                os.path.basename(self._argv[0]),
                self._flags,
                tty=process.tty,
                server=base.server_pid(client.info, self._target.url),
            )
        except OutfitterError as error:
            say(f"`outfitter attach` will not find this command: {error}")
            return None

    async def _detach(self, client: Client, process: RemoteProcess, started: Started | None) -> int:
        if started is None:
            await process.terminate()
            say("the command was ended, because nobody could find it again")
            return NOT_STARTED
        process.keep()
        self._records.leave(started)
        told = dumps({"event": "detached", "id": started.id}) if self._flags["json"] else started.id
        print(told, flush=True)
        say(f"left running; {self._kept(client)}: outfitter attach {started.id}")
        return 0

    def _kept(self, client: Client) -> str:
        if not client.offers("processDetach"):
            return _kept_for(client)
        seconds = self._flags["detach_for"]
        return "to its end" if seconds is None else f"for {seconds:g} s unless a client attaches to it"

    async def _explain(self, client: Client, process: RemoteProcess, cwd: str | None) -> None:
        flags = self._flags
        try:
            told = await client.explain(
                cwd=cwd,
                env=self._env,
                policy=self._policy,
                contract=self._contract,
                tty=flags["tty"],
            )
        except OutfitterError as error:
            say(str(error))  # and the status stays the command's
            return
        paint = Paint(wants_colour(sys.stderr))
        for line in explain.report(told, process.environment, process.startup, self._differences, paint):
            print(line, file=sys.stderr)


async def _take_up(begun: RunOn) -> int:
    flags = begun.flags
    async with reach(named(flags), opened=begun.opened, reason=begun.reason) as client:
        session = client._session
        if not begun.runs:
            session.end(begun.process_id)  # it may have started all the same
            raise Disconnected(begun.reason or "the connection was lost")
        feed = ProcessFeed(session, begun.process_id)
        feed.take_up(begun.order, begun.exit)
        process = session.processes[begun.process_id] = RemoteProcess(session, feed)
        process._next_write = begun.writes + (begun.in_flight is None)
        return await follow(
            client,
            process,
            begun.argv[0],
            begun.record,
            begun.records,
            flags,
            pass_input=begun.passes_input and not begun.input_over,
            leave_keys=b"",
            begun=begun,
        )


class _Tail:
    """Hears what a command says last on stderr, or on its terminal, and which hosts it could not reach."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.hosts: deque[tuple[str, bool]] = deque(maxlen=1)  # the last one is told

    def decided(self, notice: NetworkDecision) -> None:
        if notice.decision == "deny":
            self.hosts.append((notice.host, notice.reason == "not_allowed_local"))

    def __call__(self, event: Output | Exited) -> None:
        if isinstance(event, Output) and event.stream != "stdout":
            self._data += event.data
            del self._data[:-_TAIL_BYTES]

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace")


async def follow(
    client: Client,
    process: RemoteProcess,
    name: str,
    started: Started | None,
    records: Records,
    flags: dict[str, Any],
    *,
    pass_input: bool,
    leave_keys: bytes,
    found: str | None = None,
    heard: Callable[[Output | Exited], object] | None = None,
    begun: RunOn | None = None,
) -> int:
    """Follows a command; returns the exit status. Raises LeftRunning, after it said how to come back.

    `found` is how to come back to one that was there before and has no record; `heard` is told every event;
    `begun` is who has followed it so far.
    """
    follower = Follower(
        client,
        process,
        name,
        pass_input=pass_input,
        may_leave=found is not None or started is not None,
        found=found is not None,
        leave_keys=leave_keys,
        as_json=flags["json"],
        timeout=flags.get("timeout"),
        heard=heard,
        begun=begun,
    )
    try:
        status = await follower.run()
    except LeftRunning as left:
        if started is not None:
            process.keep()
            records.leave(started)
            found = f"outfitter attach {started.id}"
        if found is None:
            left.silent = False  # it is ended, which takes its time
            say(str(left))
        else:
            goes_on = "goes on" if left.wanted else "may still run"
            # Whether it was started to outlive its client is not known here.
            say(f"{left}; the command {goes_on}, {_kept_for(client, 'at least ')}: {found}")
        raise
    # A command whose end was not seen may be somebody else's by now: `ps` clears up after it.
    if started is not None and not follower.lost:
        records.remove(started)
        client._session.leaves = True  # nothing else was started in it
    return status


def _retention(client: Client) -> float:
    """How long a server keeps a session: one that does not say so is the reference."""
    retention = None if client.info is None else client.info.session_retention
    return REFERENCE_RETENTION if retention is None else retention


def _kept_for(client: Client, least: str = "") -> str:
    retention = None if client.info is None else client.info.session_retention
    if retention is None:
        return "for as long as its server keeps the session"
    return f"for {least}{retention:g} s unless a client attaches to it"
