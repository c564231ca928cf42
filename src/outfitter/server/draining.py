"""The end of a server, announced: no new sessions, and its end when nobody needs it any more."""

from __future__ import annotations

import time

from ..log import tell
from .limits import DRAIN_LOOK_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop
    from .sessions import Sessions


class Drain:
    """`begun` is called with the reason when it begins, `over` when no session is in use any more."""

    def __init__(
        self, loop: Loop, sessions: Sessions, begun: Callable[[str], None], over: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._sessions = sessions
        self._begun = begun
        self._over = over
        self.since_ms = 0  # 0: it has not begun

    def begin(self) -> bool:
        """Begins; False if it has begun before."""
        if self.since_ms:
            return False
        now = time.time()
        self.since_ms = int(now * 1000)
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        self._sessions.draining = since
        self._begun(f"draining since {since}")
        tell(
            "server",
            "=",
            "draining: no new sessions, %d are in use",
            self._sessions.in_use(self._loop.time()),
        )
        self._loop.call_later(DRAIN_LOOK_SECONDS, self._look)
        return True

    def go_on(self, since_ms: int, since: str) -> None:
        """It was begun by the version before this one."""
        self.since_ms = since_ms
        self._sessions.draining = since
        self._begun(f"draining since {since}")
        self._loop.call_later(DRAIN_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        if self._sessions.in_use(self._loop.time()):
            self._loop.call_later(DRAIN_LOOK_SECONDS, self._look)
            return
        tell("server", "=", "drained: the server ends")
        self._over()
