"""What a server says of itself, and how a client reads it."""

from __future__ import annotations

from . import http, network, process, watching, wishes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .jsontext import Json

    ProcessNotice = (
        process.OutputNotice
        | process.ExitedNotice
        | process.ClosedNotice
        | wishes.WaitingNotice
        | network.DecisionNotice
    )
    Notice = ProcessNotice | watching.ChangedNotice | http.BodyNotice

NOTICES: dict[str, Callable[[Json], Notice]] = {
    "process/output": process.OutputNotice.decode,
    "process/exited": process.ExitedNotice.decode,
    "process/closed": process.ClosedNotice.decode,
    "fs/changed": watching.ChangedNotice.decode,
    "environment/waiting": wishes.WaitingNotice.decode,
    "http/request/bodyDelta": http.BodyNotice.decode,
    "network/policyDecision": network.DecisionNotice.decode,
}
