"""outfitter attach: take a command up again whose terminal, client or machine has gone."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from ..errors import OutfitterError, RequestFailed, SettingInvalid
from ..protocol.codes import SESSION_ATTACHED
from . import detachkeys
from .console import say
from .follow import LeftRunning
from .records import Records
from .run import follow
from .statuses import NOT_STARTED
from .target import named, reach, recorded

if TYPE_CHECKING:
    from ..client.client import Client
    from .records import Started
    from .target import Target


def attach(ident: str | None, flags: dict[str, Any]) -> int:
    """Follows the command; returns the exit status of the command line."""
    records = Records(os.environ)
    started: Started | None = None
    try:
        detachkeys.parse(flags["detach_keys"])  # a mistake is told before anything is taken
        if flags["session"] is None:
            started = records.find(ident, flags["on"])
            if started.held and not flags["take_over"]:
                raise SettingInvalid(
                    f"`outfitter` with pid {started.holder} is attached to {started.id}: add --take-over to "
                    f"take it over"
                )
            target = recorded(started)
            session, process = started.session_id, started.process_id
        else:
            if ident is None:
                raise SettingInvalid(
                    "--session needs the ID of a process: `outfitter ps --session` lists them"
                )
            target = named(flags)
            session, process = flags["session"], ident
        return asyncio.run(_attach(target, session, process, started, flags))
    except LeftRunning as left:
        return left.status
    except KeyboardInterrupt:
        return 130
    except OutfitterError as error:
        say(_explained(error, take_over=flags["take_over"]))
        gone = isinstance(error, RequestFailed) and error.code != SESSION_ATTACHED
        if started is not None and gone:
            records.remove(started)
        return NOT_STARTED


async def _attach(
    target: Target, session: str, process_id: str, started: Started | None, flags: dict[str, Any]
) -> int:
    records = Records(os.environ)
    async with reach(target, resume=session, take_over=flags["take_over"]) as client:
        process = await client.attach(process_id)
        process.keep()  # nothing but an explicit end ends what was there before us
        process.tty = started.tty if started is not None else await _has_terminal(client, process_id)
        if started is not None:
            records.take(started)
        if process.missed:
            say(f"the server no longer has {process.missed} earlier events")
        name = started.program if started is not None else process_id
        pass_input = process.tty or client.offers("processStdinEof")
        back = f"outfitter attach --on {target.name} --session {session} {process_id}"
        return await follow(
            client,
            process,
            name,
            started,
            records,
            flags,
            pass_input=pass_input,
            leave_keys=detachkeys.parse(flags["detach_keys"]),
            found=back,
        )


async def _has_terminal(client: Client, process_id: str) -> bool:
    if not client.offers("processList"):
        return False
    return any(one.tty for one in await client.processes() if one.process_id == process_id)


def _explained(error: OutfitterError, *, take_over: bool) -> str:
    if not isinstance(error, RequestFailed):
        return str(error)
    if error.code != SESSION_ATTACHED:
        return f"the command is gone: {error}"
    if take_over:
        return "another client uses this session, and this server cannot take it over"
    return "another client uses this session: add --take-over to take it over"
