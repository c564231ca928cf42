"""Wire → domain → wire, one file per prefix. Wire types stop here."""

from __future__ import annotations

from . import environment, filesystem, process, search, watching

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
    "environment/resolve": environment.resolve,
    "environment/explain": environment.explain,
    "environment/diff": environment.diff,
    "environment/base": environment.base,
    "environment/overlay/put": environment.overlay_put,
    "environment/overlay/list": environment.overlay_list,
    "environment/overlay/drop": environment.overlay_drop,
    "environment/overlay/event": environment.overlay_event,
    "process/start": process.start,
    "process/read": process.read,
    "process/write": process.write,
    "process/signal": process.signal,
    "process/terminate": process.terminate,
    "process/resize": process.resize,
    "process/list": process.list_processes,
    "process/attach": process.attach,
    "fs/readFile": filesystem.read_file,
    "fs/writeFile": filesystem.write_file,
    "fs/createDirectory": filesystem.create_directory,
    "fs/getMetadata": filesystem.get_metadata,
    "fs/canonicalize": filesystem.canonicalize,
    "fs/readDirectory": filesystem.read_directory,
    "fs/walk": filesystem.walk,
    "fs/remove": filesystem.remove,
    "fs/copy": filesystem.copy,
    "fs/open": filesystem.open_file,
    "fs/readBlock": filesystem.read_block,
    "fs/writeBlock": filesystem.write_block,
    "fs/close": filesystem.close_file,
    "fs/watchMissing": watching.watch_missing,
    "fs/rename": filesystem.rename,
    "fs/chmod": filesystem.chmod,
    "fs/watch": watching.watch,
    "fs/unwatch": watching.unwatch,
    "fs/search": search.search,
}
