"""Wire → domain → wire, one file per prefix. Wire types stop here."""

from __future__ import annotations

from . import environment, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...protocol.jsonrpc import Request
    from ..connection import Connection

    # Each handler takes the params class of its row in protocol.methods; the table cannot say so.
    Handler = Callable[[Connection, Request, Any], "str | None"]

HANDLERS: dict[str, Handler] = {
    "initialize": environment.initialize,
    "environment/info": environment.info,
    "environment/status": environment.status,
    "environment/explain": environment.explain,
    "process/start": process.start,
    "process/read": process.read,
    "process/write": process.write,
    "process/signal": process.signal,
    "process/terminate": process.terminate,
    "process/resize": process.resize,
    "process/list": process.list_processes,
    "process/attach": process.attach,
}
