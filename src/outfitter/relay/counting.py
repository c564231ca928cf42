"""What a service has counted: plain numbers, which cost next to nothing and which others may show."""

from __future__ import annotations

# Why somebody was refused, in a word of ours each: never an id, a name or an address.
REASONS = {
    400: "request",
    401: "token",
    403: "code",
    404: "environment",
    409: "offline",
    429: "rate",
    501: "unsupported",
    503: "store",
}
OTHER = "other"
URL, FULL, SHARE = "url", "full", "share"  # at the rendezvous


class RelayCounts:
    """From the start of one service."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}  # that were granted, by their name
        self.refused: dict[str, int] = {}  # by reason
        self.validations_refused = 0  # handshakes that the executor was told not to finish
        self.executors = self.harnesses = 0  # sockets that were opened
        self.bytes = 0  # of frames that were passed on

    def granted(self, call: str) -> None:
        self.calls[call] = self.calls.get(call, 0) + 1

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def refuse_call(self, status: int) -> None:
        self.refuse(REASONS.get(status, OTHER))
