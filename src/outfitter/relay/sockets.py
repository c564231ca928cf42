"""The service's end of the sockets of executors and harnesses: binary messages, bounded and never read."""

from __future__ import annotations

from ..protocol import websocket as ws
from ..protocol.relay import MAX_FRAME
from ..transport.websocket import READ_SIZE, READ_SIZE_LARGE, WebSocketTransport


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

    def _waits(self) -> bool:
        """Whether what comes now has to wait, or is not wanted."""
        return self._hold or self._closing

    def _received(self, data: bytes) -> None:
        if self._inbox or self._delivering or self._waits():
            super()._received(data)
            return
        # As nearly always: nothing waits, so a frame goes on at once.
        self.heard = self._loop.time()
        for opcode, payload in self._frames.feed(data):
            if opcode >= ws.CLOSE:
                self._control(opcode, payload)
            elif self._waits():
                self._inbox.append(payload)
            else:
                self.receiver.message(payload)
        self._read_size = READ_SIZE_LARGE if self._frames.held > READ_SIZE else READ_SIZE
        if self._inbox:
            self._watch()
        elif self._frames.fault is not None:
            self._fail(self._frames.fault)

    def send_frame(self, data: bytes) -> None:
        if not self._closing and not self._gone:
            self._push([ws.header(len(data), ws.BINARY), data])
