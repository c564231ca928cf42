"""The environment that a stack of layers stands on, and whose it is."""

from __future__ import annotations

import os
import time

from ..host import facts
from ..record import KW_ONLY, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


@record
class Base:
    """Layer 0 and who it belongs to.

    `kind` is "launcher" (the process that runs the command was started for it), "daemon" (a server that was
    there before), "client" or "merge" (what a client brought along).
    """

    kind: str
    values: Mapping[str, str]
    _: KW_ONLY
    pid: int
    host: str
    user: str
    started_ms: int
    hidden = ("values",)

    def describe(self) -> Any:
        """Whose environment it is, for people and programs."""
        return {
            "kind": self.kind,
            "pid": self.pid,
            "host": self.host,
            "user": self.user,
            "startedAtMs": self.started_ms,
            "variables": len(self.values),
        }


def base_of(kind: str, values: Mapping[str, str], pid: int | None = None) -> Base:
    """A base on this machine, from now on; of this process unless `pid` says whose."""
    return Base(
        kind,
        values,
        pid=os.getpid() if pid is None else pid,
        host=os.uname().nodename,
        user=facts.user(),
        started_ms=int(time.time() * 1000),
    )
