"""What a server says of itself, and how a client reads it."""

from __future__ import annotations

from . import http, network, processnotices, watching, wishes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .jsontext import Json

    ProcessNotice = (
        processnotices.OutputNotice
        | processnotices.ExitedNotice
        | processnotices.ClosedNotice
        | wishes.WaitingNotice
        | network.DecisionNotice
    )
    Notice = ProcessNotice | watching.ChangedNotice | http.BodyNotice

NOTICES: dict[str, Callable[[Json], Notice]] = {
    "process/output": processnotices.OutputNotice.decode,
    "process/exited": processnotices.ExitedNotice.decode,
    "process/closed": processnotices.ClosedNotice.decode,
    "fs/changed": watching.ChangedNotice.decode,
    "environment/waiting": wishes.WaitingNotice.decode,
    "http/request/bodyDelta": http.BodyNotice.decode,
    "network/policyDecision": network.DecisionNotice.decode,
}
