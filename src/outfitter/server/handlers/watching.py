"""fs/watchMissing, fs/watch, fs/unwatch: news of files."""

from __future__ import annotations

from ...errors import FileFailed, HostUnsupported, Refused
from ...log import note
from ...protocol.results import DONE
from ...protocol.watching import WatchResult
from ..files import FileWork
from ..limits import MISSING_PATHS
from ..watching import Watches
from .filesystem import confined, native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...formats.ignore import IgnoreRules
    from ...host.watch.tree import Listing
    from ...protocol.filesystem import WatchMissingParams
    from ...protocol.results import Done
    from ...protocol.watching import UnwatchParams, WatchParams
    from ..call import Call, Later

WATCHING, NOT_WATCHING = WatchResult(True), WatchResult(False)
# The name of the watch for missing paths among the things that requests touch; no path begins so.
_MISSING = "\0watchMissing"


def watch_missing(call: Call, params: WatchMissingParams) -> WatchResult | Later:
    """Waits for one of the paths to appear. What cannot be watched is no error, as in the reference."""
    watches = call.feature(Watches)
    try:
        new = watches.next_missing(params.watch_id)
    except (HostUnsupported, FileFailed) as error:
        note("server", "!", "paths cannot be watched: %s", error)
        return NOT_WATCHING
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

    def finish(armed: bool) -> WatchResult:
        watches.answered_missing(new, armed=armed)
        return WATCHING if armed else NOT_WATCHING

    return call.feature(FileWork).run(
        call,
        lambda: new.watch.arm(missing, present),
        looks=tuple(missing) if present is None else (*missing, present),
        changes=(_MISSING,),
        finish=finish,
    )


def watch(call: Call, params: WatchParams) -> Later:
    bounds = confined(call, params.sandbox)
    path, watch_id = native(params.path), params.watch_id
    watches = call.feature(Watches)
    call.later()  # before the name is taken: too many may wait
    reserved = watches.reserve(
        watch_id, path, params.recursive, _rules(params.ignore), params.debounce_ms / 1000, bounds
    )

    def finish(listing: Listing) -> WatchResult:
        reserved.tree.begin(listing)
        return WATCHING

    return call.feature(FileWork).run(
        call,
        reserved.tree.arm,
        looks=(path,),
        changes=(_claim(watch_id),),
        finish=finish,
        failed=lambda: watches.end(watch_id),
    )


def _rules(patterns: tuple[str, ...]) -> IgnoreRules | None:
    if not patterns:
        return None
    from ...formats.ignore import IgnoreRules

    return IgnoreRules(patterns)


def _claim(watch_id: str) -> str:
    return f"\0watch {watch_id}"


def unwatch(call: Call, params: UnwatchParams) -> Done | Later:
    """Ends a watch, after whatever was asked of it before."""
    watches, work = call.feature(Watches), call.feature(FileWork)
    claim = _claim(params.watch_id)

    def end(_: object) -> Done:
        watches.end(params.watch_id)
        return DONE

    if work.free(claim):
        return end(None)
    return work.run(call, lambda: None, changes=(claim,), finish=end)
