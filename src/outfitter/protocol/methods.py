"""THE method table: one row per method.

A row names the method, the types of its params and its result, its family (what the handshake's refusals
call it), its handler in `server.handlers`, loaded when it is first used, and the capability flags that it
makes true.
"""

# ruff: noqa: E501 - a table reads better with a row on each line

from __future__ import annotations

from .loading import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .jsontext import Json
    from .results import Result


class Method:
    """One row. `flags` name what a client may rely on where this method is there.

    Its types are loaded when they are first used: most connections need few of them.
    """

    __slots__ = ("_params", "_result", "decode", "family", "flags", "handler", "name")

    def __init__(self, name: str, params: str, result: str, family: str, handler: str, *flags: str) -> None:
        self.name = name
        self._params = params
        self._result = result
        self.family = family
        self.handler = handler
        self.flags = flags
        self.decode: Callable[[Json], Any] = self._first

    def _first(self, params: Json) -> Any:
        self.decode = load(__package__, self._params).decode
        return self.decode(params)

    @property
    def result(self) -> type[Result]:
        found: type[Result] = load(__package__, self._result)
        return found


# fmt: off
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("initialize", "session.InitializeParams", "session.InitializeResult", "initialize", "session.initialize", "sessionTakeOver", "sessionLeave"),
        Method("server/sessions", "environment.NoParams", "operating.SessionsResult", "server", "operating.sessions", "serverSessions"),
        Method("server/kill", "operating.KillParams", "operating.KillResult", "server", "operating.kill", "serverKill"),
        Method("server/drain", "environment.NoParams", "operating.DrainResult", "server", "operating.drain", "serverDrain"),
        Method("server/upgrades", "operating.UpgradesParams", "operating.UpgradesResult", "server", "session.upgrades", "serverUpgrade"),
        Method("environment/info", "environment.NoParams", "session.InfoResult", "environment info", "environment.info"),
        Method("environment/status", "environment.NoParams", "environment.StatusResult", "environment status", "environment.status"),
        Method("environment/resolve", "environment.ResolveParams", "environment.ResolveResult", "environment info", "environment.resolve", "environmentExplain"),
        Method("environment/explain", "environment.ResolveParams", "environment.ExplainResult", "environment info", "environment.explain", "environmentExplain"),
        Method("environment/diff", "environment.DiffParams", "environment.DiffResult", "environment info", "environment.diff", "environmentExplain"),
        Method("environment/base", "environment.BaseParams", "environment.BaseResult", "environment info", "environment.base", "environmentContract"),
        Method("environment/overlay/put", "overlay.PutParams", "overlay.PutResult", "environment info", "overlay.put", "environmentOverlay"),
        Method("environment/overlay/list", "overlay.ListParams", "overlay.OverlayResult", "environment info", "overlay.list_contributions", "environmentOverlay"),
        Method("environment/overlay/drop", "overlay.DropParams", "overlay.DropResult", "environment info", "overlay.drop", "environmentOverlay"),
        Method("environment/overlay/event", "overlay.EventParams", "overlay.EventResult", "environment info", "overlay.event", "environmentOverlay"),
        Method("process/start", "process.StartParams", "process.StartResult", "exec", "process.start", "processExitSignal", "processExitReason", "environmentContract", "processResize", "processDetach", "networkProxyLaunch", "shellSnapshotV2"),
        Method("process/read", "process.ReadParams", "process.ReadResult", "exec", "process.read"),
        Method("process/write", "process.WriteParams", "process.WriteResult", "exec", "process.write", "processStdinEof"),
        Method("process/signal", "process.SignalParams", "results.Done", "exec", "process.signal", "processSignals"),
        Method("process/terminate", "process.TerminateParams", "process.TerminateResult", "exec", "process.terminate", "processTerminateGrace"),
        Method("process/resize", "process.ResizeParams", "results.Done", "exec", "process.resize", "processResize"),
        Method("process/hold", "process.HoldParams", "results.Done", "exec", "process.hold", "processHold"),
        Method("process/list", "environment.NoParams", "listing.ListResult", "exec", "listing.list_processes", "processList"),
        Method("process/attach", "listing.AttachParams", "listing.ProcessSummary", "exec", "listing.attach", "processList"),
        Method("fs/readFile", "filesystem.FileParams", "fileresults.FileResult", "filesystem", "filesystem.read_file"),
        Method("fs/writeFile", "filesystem.WriteFileParams", "results.Done", "filesystem", "filesystem.write_file"),
        Method("fs/createDirectory", "filesystem.CreateDirectoryParams", "results.Done", "filesystem", "filesystem.create_directory"),
        Method("fs/getMetadata", "filesystem.FileParams", "fileresults.MetadataResult", "filesystem", "filesystem.get_metadata"),
        Method("fs/canonicalize", "filesystem.PathParams", "fileresults.PathResult", "filesystem", "filesystem.canonicalize"),
        Method("fs/readDirectory", "filesystem.DirectoryParams", "fileresults.EntriesResult", "filesystem", "filesystem.read_directory", "fsReadDirectoryDetails"),
        Method("fs/walk", "filesystem.WalkParams", "fileresults.WalkResult", "filesystem", "filesystem.walk"),
        Method("fs/remove", "filesystem.RemoveParams", "results.Done", "filesystem", "filesystem.remove"),
        Method("fs/copy", "filesystem.CopyParams", "results.Done", "filesystem", "filesystem.copy"),
        Method("fs/open", "filesystem.OpenParams", "fileresults.OpenResult", "filesystem", "filesystem.open_file", "fileWriteStreaming", "sandboxedFileStreaming", "fsOpenUpdate"),
        Method("fs/readBlock", "filesystem.ReadBlockParams", "fileresults.BlockResult", "filesystem", "filesystem.read_block"),
        Method("fs/writeBlock", "filesystem.WriteBlockParams", "results.Done", "filesystem", "filesystem.write_block", "fileWriteStreaming"),
        Method("fs/close", "filesystem.CloseParams", "results.Done", "filesystem", "filesystem.close_file", "fsCloseDiscard"),
        Method("fs/watchMissing", "filesystem.WatchMissingParams", "watching.WatchResult", "filesystem", "watching.watch_missing", "fsWatchMissing"),
        Method("fs/rename", "filesystem.RenameParams", "results.Done", "filesystem", "filesystem.rename", "fsRename"),
        Method("fs/chmod", "filesystem.ChmodParams", "results.Done", "filesystem", "filesystem.chmod", "fsChmod"),
        Method("fs/watch", "watching.WatchParams", "watching.WatchResult", "filesystem", "watching.watch", "fsWatch"),
        Method("fs/unwatch", "watching.UnwatchParams", "results.Done", "filesystem", "watching.unwatch", "fsWatch"),
        Method("capabilityRoots/discoverV1", "discovery.RootsParams", "discovery.RootsResult", "capability discovery", "discovery.roots", "capabilityDiscoverySandbox"),
        Method("capabilities/discoverV2", "discovery.DiscoverParams", "discovery.DiscoverResult", "capability discovery", "discovery.discover", "capabilityDiscoveryV2"),
        Method("environmentConfig/read", "configuration.ConfigParams", "configuration.ConfigResult", "environment config", "configuration.read", "environmentConfigRead"),
        Method("http/request", "http.RequestParams", "http.RequestResult", "http", "http.request", "httpHeaderEnvVars", "httpBackpressure"),
        Method("http/cancel", "http.CancelParams", "http.CancelResult", "http", "http.cancel", "httpCancel"),
        Method("http/hold", "http.HoldStreamParams", "results.Done", "http", "http.hold", "httpHold"),
        Method("fs/search", "search.SearchParams", "search.SearchResult", "filesystem", "search.search", "fsSearch"),
    )
}
# fmt: on

# What a server of ours can do: the flags of its methods.
CAPABILITIES: frozenset[str] = frozenset([flag for method in METHODS.values() for flag in method.flags])
