"""THE method table: name → how its params are read, its family, and its lane.

The family is what the handshake refusals call it. A `control` method is answered at once, whatever
else waits; the others keep the order of their process.
"""

from __future__ import annotations

from ..record import Record
from .environment import ExplainParams, NoParams
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
from .session import InitializeParams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .jsontext import Json


class Method(Record):
    __slots__ = ("decode", "family", "name")

    def __init__(self, name: str, decode: Callable[[Json], object], family: str) -> None:
        self.name = name
        self.decode = decode
        self.family = family


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("initialize", InitializeParams.decode, "initialize"),
        Method("environment/info", NoParams.decode, "environment info"),
        Method("environment/status", NoParams.decode, "environment status"),
        Method("environment/explain", ExplainParams.decode, "environment info"),
        Method("process/start", StartParams.decode, "exec"),
        Method("process/read", ReadParams.decode, "exec"),
        Method("process/write", WriteParams.decode, "exec"),
        Method("process/signal", SignalParams.decode, "exec"),
        Method("process/terminate", TerminateParams.decode, "exec"),
        Method("process/resize", ResizeParams.decode, "exec"),
        Method("process/list", NoParams.decode, "exec"),
        Method("process/attach", AttachParams.decode, "exec"),
    )
}

# What a server says of itself, and how a client reads it.
NOTICES: dict[str, Callable[[Json], OutputNotice | ExitedNotice | ClosedNotice]] = {
    "process/output": OutputNotice.decode,
    "process/exited": ExitedNotice.decode,
    "process/closed": ClosedNotice.decode,
}
