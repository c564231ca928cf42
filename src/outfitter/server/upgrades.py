"""How often this server was asked to replace itself by a new version, and what came of it."""

from __future__ import annotations

import os

from .. import VERSION
from ..protocol.operating import UpgradesResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Waiting(Protocol):
        """What is needed of a call that is answered later."""

        def later(self, cancel: Any = None) -> object: ...
        def answer(self, result: UpgradesResult) -> None: ...


class Upgrades:
    """The count goes on from one version to the next."""

    def __init__(self) -> None:
        self.count = 0
        self.outcome = "none"
        self.reason = ""
        self._waiting: list[Waiting] = []

    def told(self, call: Waiting, after: int | None) -> UpgradesResult | None:
        """The answer to server/upgrades, or None when it comes later. Raises Refused."""
        if after is None or after < self.count:
            return self._result()
        call.later(lambda: self._waiting.remove(call))
        self._waiting.append(call)
        return None

    def came_to(self, outcome: str, reason: str = "") -> None:
        """Another one is over."""
        self.count += 1
        self.outcome = outcome
        self.reason = reason
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call.answer(self._result())

    def _result(self) -> UpgradesResult:
        return UpgradesResult(self.count, self.outcome, self.reason, VERSION, os.getpid())
