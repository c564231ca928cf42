"""The service's end of the sockets of executors and harnesses: binary messages, bounded and never read."""

from __future__ import annotations

from ..protocol import websocket as ws
from ..protocol.relay import MAX_FRAME
from ..transport.websocket import WebSocketTransport


class RelaySocket(WebSocketTransport):
    """A connection of which each message is one relay frame."""

    limit = MAX_FRAME
    raw_above = 1 << 62
    number = 0  # what `core.routing` calls it
    waits_for: RelaySocket | None = None  # that takes what this one brings too slowly
    keeps_waiting: tuple[RelaySocket, ...] = ()  # those that wait for this one

    @property
    def moved(self) -> float:
        """When the peer last took something, while something waits."""
        return self._moved

    def send_frame(self, data: bytes) -> None:
        if not self._closing and not self._gone:
            self._push([ws.header(len(data), ws.BINARY), data])
