"""fs/watchMissing, fs/watch, fs/unwatch: news of files."""

from __future__ import annotations

from ...errors import FileFailed, HostUnsupported, Refused
from ...log import note
from ..limits import MISSING_PATHS
from .filesystem import native, work_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...formats.ignore import Rules
    from ...host.treewatch import Listing
    from ...protocol.filesystem import WatchMissingParams
    from ...protocol.jsonrpc import Request
    from ...protocol.watching import UnwatchParams, WatchParams
    from ..connection import Connection
    from ..watching import Watches

WATCHING, NOT_WATCHING = '{"watching":true}', '{"watching":false}'
# The name of the watch for missing paths among the things that requests touch; no path begins so.
_MISSING = "\0watchMissing"


def watches_of(connection: Connection) -> Watches:
    if connection.watches is None:
        from ..watching import Watches

        connection.watches = Watches(connection)
    return connection.watches


def watch_missing(connection: Connection, request: Request, params: WatchMissingParams) -> str | None:
    """Waits for one of the paths to appear. What cannot be watched is no error, as in the reference."""
    try:
        watches = watches_of(connection)
    except (HostUnsupported, FileFailed) as error:
        note("server", "!", "paths cannot be watched: %s", error)
        return NOT_WATCHING
    new = watches.next_missing(params.watch_id)
    if new is None:
        return NOT_WATCHING
    try:
        missing = [native(path) for path in params.missing]
        present = None if params.present is None else native(params.present)
    except Refused:
        missing, present = [], None  # a path of another system
    if not 1 <= len(missing) <= MISSING_PATHS:
        watches.answered_missing(new, armed=False)
        return NOT_WATCHING

    def finish(armed: bool) -> str:
        watches.answered_missing(new, armed=armed)
        return WATCHING if armed else NOT_WATCHING

    work_of(connection).run(
        request.id,
        lambda: new.watch.arm(missing, present),
        looks=tuple(missing) if present is None else (*missing, present),
        changes=(_MISSING,),
        finish=finish,
    )
    return None


def watch(connection: Connection, request: Request, params: WatchParams) -> None:
    path, watch_id = native(params.path), params.watch_id
    watches = watches_of(connection)
    reserved = watches.reserve(
        watch_id, path, params.recursive, _rules(params.ignore), params.debounce_ms / 1000
    )

    def finish(listing: Listing) -> str:
        reserved.tree.begin(listing)
        return WATCHING

    work_of(connection).run(
        request.id,
        reserved.tree.arm,
        looks=(path,),
        changes=(_claim(watch_id),),
        finish=finish,
        failed=lambda: watches.end(watch_id),
    )


def _rules(patterns: tuple[str, ...]) -> Rules | None:
    if not patterns:
        return None
    from ...formats.ignore import Rules

    return Rules(patterns)


def _claim(watch_id: str) -> str:
    return f"\0watch {watch_id}"


def unwatch(connection: Connection, request: Request, params: UnwatchParams) -> str | None:
    """Ends a watch, after whatever was asked of it before."""
    watches, work = watches_of(connection), work_of(connection)
    claim = _claim(params.watch_id)

    def end(_: object) -> str:
        watches.end(params.watch_id)
        return "{}"

    if work.free(claim):
        return end(None)
    work.run(request.id, lambda: None, changes=(claim,), finish=end)
    return None
