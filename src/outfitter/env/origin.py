"""Where a variable's value came from."""

from __future__ import annotations

from ..record import Record


class Origin(Record):
    """A source of values: `kind` is a stable word, `detail` says which one of its kind."""

    __slots__ = ("detail", "kind")

    def __init__(self, kind: str, detail: str) -> None:
        self.kind = kind
        self.detail = detail


EXECUTOR = Origin("executor", "from the exec-server's own environment")
POLICY_SET = Origin("policy", "set by envPolicy.set")
REQUEST = Origin("request", "given in the request's env")
TERMINAL = Origin("terminal", "the account's login shell, added because a terminal was asked for")
