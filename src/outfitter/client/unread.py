"""What one source of output has waiting for its caller: one that nobody reads is held back alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.jsontext import Json
    from .session import RemoteSession

# What a source may have waiting when much waits in all. Small beside that, so that hundreds that nobody reads
# leave room for others.
_SHARE_BYTES = 256 << 10


class Unread:
    """The bytes of one process or streamed body that wait, and whether the server keeps the rest."""

    waiting = 0  # the class's, as Ctrl-C may come before `__init__`

    def __init__(
        self, session: RemoteSession, capability: str, method: str, params: Callable[[bool], Json]
    ) -> None:
        """A server with this capability holds the source back by `method`, or sends its output again."""
        self._held = False
        self._over = False
        self._session = session
        self._capability = capability
        self._method = method
        self._params = params

    def count(self, change: int) -> None:
        """So much more waits. What others say is behind it on the connection."""
        self.waiting += change
        self._session.queued(change)
        if self._held:
            if self.waiting <= _SHARE_BYTES // 2 or self._session.has_room:
                self._hold(False)
        elif change > 0 and self.waiting > _SHARE_BYTES and self._session.crowded and self._can_be_held:
            self._hold(True)

    def __del__(self) -> None:
        if self.waiting:  # else what nobody can take any more would hold the connection back for ever
            self._session.dropped(self.waiting)

    def end(self) -> None:
        """Nobody wants more of it: what is left may come, and go."""
        self._over = True
        if self._held:
            self._hold(False)

    def ended(self) -> None:
        """No more comes of it."""
        self._over = True
        self._held = False

    def remind(self) -> None:
        """Tells a new connection, which does not know."""
        if self._held:
            self._hold(True)

    @property
    def _can_be_held(self) -> bool:
        return not self._over and self._session.offers(self._capability)

    def _hold(self, on: bool) -> None:
        self._held = on
        self._session.hold(self._method, self._params(on))
