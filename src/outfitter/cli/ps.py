"""outfitter ps: the commands that run elsewhere, and how they are."""

from __future__ import annotations

import asyncio
import os
from json import dumps
from typing import TYPE_CHECKING, Any

from ..environments.file import shown_url
from ..errors import OutfitterError, RequestFailed
from ..protocol.codes import SESSION_ATTACHED
from ..protocol.listing import ListResult
from ..protocol.process import ReadParams, ReadResult
from . import operating
from .console import waiting
from .follow import status_of
from .records import Records
from .statuses import NOT_STARTED
from .table import ago, table
from .target import named, reach, recorded

if TYPE_CHECKING:
    from .records import Started

_ASK_SECONDS = 10.0  # for one server; a list is not worth a longer wait
_END = (1 << 53) - 1  # after every event there can be: asks for the state and no output


def ps(flags: dict[str, Any]) -> int:
    """Prints the list; returns the exit status. Raises SettingInvalid."""
    if flags["server"] is not None:
        return operating.ps(flags["server"], flags)
    work = _records if flags["session"] is None else _session
    return status_of(lambda: work(flags), NOT_STARTED)


async def _records(flags: dict[str, Any]) -> int:
    records = Records(os.environ)
    known = records.all(flags["on"])
    with waiting("waiting for the servers"):
        found = list(zip(known, await asyncio.gather(*map(_state, known)), strict=True))
    for one, state in found:
        if state["state"] == "gone":
            records.remove(one)
    if flags["json"]:
        print(dumps([_entry(one, state) for one, state in found]))
        return 0
    rows = [(one.id, shown_url(one.on), one.program, _shown(state), ago(one.started)) for one, state in found]
    print(table(("ID", "ENVIRONMENT", "PROGRAM", "STATE", "STARTED"), rows))
    return 0


async def _state(started: Started) -> dict[str, object]:
    """How a command is. Asking resumes its session for a moment, which gives it its full time again."""
    if started.server_ended:
        return {"state": "gone", "reason": "its server has ended"}
    if started.held:
        return {"state": "attached", "pid": started.holder}
    try:
        target = recorded(started)
        async with (
            asyncio.timeout(_ASK_SECONDS),
            reach(target, resume=started.session_id, quiet=True) as client,
        ):
            params = ReadParams(started.process_id, _END).encode()
            result = ReadResult.decode(await client.call("process/read", params))
    except TimeoutError:
        return {"state": "unreachable", "reason": f"no answer within {_ASK_SECONDS:g} s"}
    except RequestFailed as error:
        if error.code == SESSION_ATTACHED:
            return {"state": "attached"}
        return {"state": "gone", "reason": error.message}
    except OutfitterError as error:
        return {"state": "unreachable", "reason": str(error)}
    if result.exited:
        return {"state": "exited", "exitCode": result.exit_code}
    return {"state": "running"}


def _entry(started: Started, state: dict[str, object]) -> dict[str, object]:
    return {
        "id": started.id,
        "environment": shown_url(started.on),
        "program": started.program,
        "processId": started.process_id,
        "tty": started.tty,
        "startedAtMs": int(started.started * 1000),
        **state,
    }


def _shown(state: dict[str, object]) -> str:
    match state:
        case {"state": "attached", "pid": pid}:
            return f"attached (pid {pid})"
        case {"state": "exited", "exitCode": code}:
            return f"exited {code}"
        case {"state": "unreachable", "reason": reason}:
            return f"unreachable: {reason}"
        case _:
            return str(state["state"])


async def _session(flags: dict[str, Any]) -> int:
    """The processes of one session, as its server lists them."""
    target = named(flags)
    async with reach(target, resume=flags["session"]) as client:
        client.require("processList", "list its processes")
        found = ListResult.decode(await client.call("process/list", None, repeat=True)).processes
    if flags["json"]:
        print(dumps([one.encode() for one in found]))
        return 0
    rows = []
    for one in found:
        state = f"exited {one.exit_code}" if one.exited else "running"
        rows.append((one.process_id, str(one.pid), one.program, state, ago(one.started_at_ms / 1000)))
    print(table(("PROCESS", "PID", "PROGRAM", "STATE", "STARTED"), rows))
    return 0
