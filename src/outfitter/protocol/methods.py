"""THE method table: name → how its params are read, its family, and its lane.

The family is what the handshake refusals call it. A `control` method is answered at once, whatever
else waits; the others keep the order of their process.
"""

from __future__ import annotations

from ..record import record
from .environment import BaseParams, DiffParams, NoParams, ResolveParams, WaitingNotice
from .filesystem import (
    ChmodParams,
    CloseParams,
    CopyParams,
    CreateDirectoryParams,
    FileParams,
    OpenParams,
    PathParams,
    ReadBlockParams,
    RemoveParams,
    RenameParams,
    WalkParams,
    WatchMissingParams,
    WriteBlockParams,
    WriteFileParams,
)
from .overlay import DropParams, EventParams, ListParams, PutParams
from .process import (
    AttachParams,
    ClosedNotice,
    ExitedNotice,
    OutputNotice,
    ReadParams,
    ResizeParams,
    SignalParams,
    StartParams,
    TerminateParams,
    WriteParams,
)
from .search import SearchParams
from .session import InitializeParams
from .watching import ChangedNotice, UnwatchParams, WatchParams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .jsontext import Json


@record
class Method:
    name: str
    decode: Callable[[Json], object]
    family: str


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("initialize", InitializeParams.decode, "initialize"),
        Method("environment/info", NoParams.decode, "environment info"),
        Method("environment/status", NoParams.decode, "environment status"),
        Method("environment/resolve", ResolveParams.decode, "environment info"),
        Method("environment/explain", ResolveParams.decode, "environment info"),
        Method("environment/diff", DiffParams.decode, "environment info"),
        Method("environment/base", BaseParams.decode, "environment info"),
        Method("environment/overlay/put", PutParams.decode, "environment info"),
        Method("environment/overlay/list", ListParams.decode, "environment info"),
        Method("environment/overlay/drop", DropParams.decode, "environment info"),
        Method("environment/overlay/event", EventParams.decode, "environment info"),
        Method("process/start", StartParams.decode, "exec"),
        Method("process/read", ReadParams.decode, "exec"),
        Method("process/write", WriteParams.decode, "exec"),
        Method("process/signal", SignalParams.decode, "exec"),
        Method("process/terminate", TerminateParams.decode, "exec"),
        Method("process/resize", ResizeParams.decode, "exec"),
        Method("process/list", NoParams.decode, "exec"),
        Method("process/attach", AttachParams.decode, "exec"),
        Method("fs/readFile", FileParams.decode, "filesystem"),
        Method("fs/writeFile", WriteFileParams.decode, "filesystem"),
        Method("fs/createDirectory", CreateDirectoryParams.decode, "filesystem"),
        Method("fs/getMetadata", FileParams.decode, "filesystem"),
        Method("fs/canonicalize", PathParams.decode, "filesystem"),
        Method("fs/readDirectory", PathParams.decode, "filesystem"),
        Method("fs/walk", WalkParams.decode, "filesystem"),
        Method("fs/remove", RemoveParams.decode, "filesystem"),
        Method("fs/copy", CopyParams.decode, "filesystem"),
        Method("fs/open", OpenParams.decode, "filesystem"),
        Method("fs/readBlock", ReadBlockParams.decode, "filesystem"),
        Method("fs/writeBlock", WriteBlockParams.decode, "filesystem"),
        Method("fs/close", CloseParams.decode, "filesystem"),
        Method("fs/watchMissing", WatchMissingParams.decode, "filesystem"),
        Method("fs/rename", RenameParams.decode, "filesystem"),
        Method("fs/chmod", ChmodParams.decode, "filesystem"),
        Method("fs/watch", WatchParams.decode, "filesystem"),
        Method("fs/unwatch", UnwatchParams.decode, "filesystem"),
        Method("fs/search", SearchParams.decode, "filesystem"),
    )
}

# What a server says of itself, and how a client reads it.
NOTICES: dict[
    str, Callable[[Json], OutputNotice | ExitedNotice | ClosedNotice | ChangedNotice | WaitingNotice]
] = {
    "process/output": OutputNotice.decode,
    "process/exited": ExitedNotice.decode,
    "process/closed": ClosedNotice.decode,
    "fs/changed": ChangedNotice.decode,
    "environment/waiting": WaitingNotice.decode,
}
