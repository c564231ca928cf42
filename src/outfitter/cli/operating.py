"""outfitter ps --server, sessions, kill and drain: what runs on a server, and its end."""

from __future__ import annotations

import contextlib
import os
from json import dumps
from typing import TYPE_CHECKING, Any

from ..errors import SettingInvalid
from ..protocol.operating import DrainResult, KillParams, KillResult, SessionsResult
from ..protocol.process import SignalParams, TerminateParams, TerminateResult
from .console import say
from .follow import status_of
from .records import Records
from .table import ago, table
from .target import named, reach, recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..client.client import Client
    from ..protocol.listing import ProcessSummary
    from ..protocol.operating import SessionSummary
    from .target import Target

FAILED = 1


def ps(server: str, flags: dict[str, Any]) -> int:
    """Prints every command on a server that we may see; returns the exit status."""
    return status_of(lambda: _overview(server, flags, _print_processes), FAILED)


def sessions(server: str | None, flags: dict[str, Any]) -> int:
    """Prints every session that we may see; returns the exit status."""
    return status_of(lambda: _overview(server, flags, _print_sessions), FAILED)


def kill(ident: str, flags: dict[str, Any]) -> int:
    """Ends a command or sends it a signal; returns the exit status."""
    return status_of(lambda: _kill(ident, flags), FAILED)


def drain(server: str, flags: dict[str, Any]) -> int:
    """Has a server take no more sessions; returns the exit status."""
    return status_of(lambda: _drain(server, flags), FAILED)


def _server(name: str | None, flags: dict[str, Any]) -> Target:
    target = named({**flags, "on": name})
    if not target.resumable:
        raise SettingInvalid(f"{target.name} is no server that others can reach: give the URL or name of one")
    return target


# Looking


async def _overview(
    server: str | None, flags: dict[str, Any], show: Callable[[SessionsResult, str, bool], None]
) -> int:
    async with reach(_server(server, flags), operate=True) as client:
        client.require("serverSessions", "list the sessions of a server")
        found = SessionsResult.decode(await client.call("server/sessions", None, repeat=True))
        show(found, client.session_id, flags["json"])
    return 0


def _others(found: SessionsResult, own: str) -> list[SessionSummary]:
    return [one for one in found.sessions if one.session_id != own]


def _print_processes(found: SessionsResult, own: str, as_json: bool) -> None:
    pairs = [(one, process) for one in _others(found, own) for process in one.processes]
    if as_json:
        told = ("session_id", "principal", "client", "peer")
        whose = {"session_id": "sessionId"}
        print(
            dumps(
                [
                    {**process.encode(), **{whose.get(name, name): getattr(one, name) for name in told}}
                    for one, process in pairs
                ]
            )
        )
        return
    rows = [
        (
            str(process.pid),
            process.program,
            _state(process),
            ago(process.started_at_ms / 1000),
            process.process_id,
            one.session_id,
            one.principal,
        )
        for one, process in pairs
    ]
    print(table(("PID", "PROGRAM", "STATE", "STARTED", "PROCESS", "SESSION", "PRINCIPAL"), rows))


def _print_sessions(found: SessionsResult, own: str, as_json: bool) -> None:
    shown = _others(found, own)
    if as_json:
        told = found.encode()
        told["sessions"] = [one.encode() for one in shown]
        print(dumps(told))
        return
    rows = [
        (
            one.session_id,
            one.principal,
            one.client,
            _place(one),
            str(sum(not process.closed for process in one.processes)),
            ago(one.opened_at_ms / 1000),
        )
        for one in shown
    ]
    print(table(("SESSION", "PRINCIPAL", "CLIENT", "FROM", "RUNNING", "OPENED"), rows))
    if found.draining_since_ms is not None:
        say(f"the server began to drain {ago(found.draining_since_ms / 1000)} and takes no new sessions")
    if not found.operator:
        say(f"these are the sessions of {found.principal}; an operator sees those of others, too")


def _place(session: SessionSummary) -> str:
    if session.peer is not None:
        return session.peer
    return f"no client for {(session.detached_for_ms or 0) // 1000} s"


def _state(process: ProcessSummary) -> str:
    return f"exited {process.exit_code}" if process.exited else "running"


# Ending


async def _kill(ident: str, flags: dict[str, Any]) -> int:
    signal, grace_ms = flags["signal"], int((flags["grace"] or 0) * 1000)
    if flags["server"] is not None:
        if not ident.isascii() or not ident.isdigit() or len(ident) > 10:
            raise SettingInvalid(f"with --server, ID is a PID of `outfitter ps --server`, not {ident!r}")
        params = KillParams(pid=int(ident), signal=signal, grace_ms=grace_ms)
        return _killed(await _kill_by(_server(flags["server"], flags), params), flags)
    records, started = Records(os.environ), None
    if flags["session"] is not None:
        target, session, process = _server(flags["on"], flags), flags["session"], ident
    else:
        started = records.find(ident, flags["on"])
        target = recorded(started)
        session, process = started.session_id, started.process_id
    params = KillParams(session_id=session, process_id=process, signal=signal, grace_ms=grace_ms)
    running = await _kill_by(target, params)
    if started is not None and signal in (None, "KILL") and not grace_ms:
        records.remove(started)
    return _killed(running, flags)


def _killed(running: bool, flags: dict[str, Any]) -> int:
    if flags["json"]:
        print(dumps({"running": running}))
    elif not running:
        say("the command itself had ended; what it left running was ended")
    return 0


async def _kill_by(target: Target, params: KillParams) -> bool:
    """Whether the command itself still ran."""
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(reach(target, operate=True))
        if client.offers("serverKill"):
            return KillResult.decode(await client.call("server/kill", params.encode())).running
        if params.pid is not None:
            client.require("serverKill", "end the commands of other sessions")
    await _kill_resumed(target, params)
    return True


async def _kill_resumed(target: Target, params: KillParams) -> None:
    """On a server that knows only its own sessions' commands. Raises OutfitterError."""
    assert params.session_id is not None and params.process_id is not None
    async with reach(target, resume=params.session_id) as client:
        if params.signal == "INT":
            await client.call("process/signal", SignalParams(params.process_id).encode())
        elif params.signal in (None, "KILL"):
            await _terminate(client, params.process_id)
        else:
            raise SettingInvalid(f"this server cannot send {params.signal}: it knows INT and KILL")


async def _terminate(client: Client, process_id: str) -> None:
    answer = await client.call("process/terminate", TerminateParams(process_id).encode(), repeat=True)
    if not TerminateResult.decode(answer).running:
        raise SettingInvalid(f"no running command has the ID {process_id!r}")


async def _drain(server: str, flags: dict[str, Any]) -> int:
    async with reach(_server(server, flags), operate=True) as client:
        client.require("serverDrain", "drain a server")
        told = DrainResult.decode(await client.call("server/drain", None, repeat=True))
    if flags["json"]:
        print(dumps({"draining": True, "sessions": told.sessions}))
        return 0
    count = f"{told.sessions or 'no'} session{'' if told.sessions == 1 else 's'}"
    print(f"the server takes no new sessions and ends when none is in use; {count} in use now")
    return 0
