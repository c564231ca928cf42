"""The harness's end of one stream: from the first frame to the last, as a table of what may come when.

A frame of another stream is ignored; one of ours that does not fit ends the stream, and with it the
connection: whoever wants it back asks for a new one.
"""

from __future__ import annotations

from ..errors import Disconnected, RemoteProtocolError
from ..protocol import relay
from ..record import record
from .noise import Initiator, PublicKey, prologue
from .records import Opener, Sealer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .noise import Channel, Encapsulate, KeyPair


@record
class Invitation:
    """What the registry tells a harness that may connect."""

    hidden = ("url", "authorization")

    environment_id: str
    registration_id: str
    executor: PublicKey
    url: str
    authorization: str
    kept: bool = False  # the executor's key, which will be the same the next time


class Calling:
    """One stream of a harness. `opening` is to be sent first; `receive` takes what comes."""

    def __init__(
        self,
        invitation: Invitation,
        stream: str,
        static: KeyPair,
        ephemeral: KeyPair,
        encapsulate: Encapsulate,
    ) -> None:
        """Raises RemoteProtocolError for a invitation whose key is none."""
        self.stream = stream
        said = prologue(invitation.environment_id, invitation.registration_id, stream)
        authorization = invitation.authorization.encode()
        begun = Initiator(static, ephemeral, invitation.executor, said, authorization, encapsulate)
        self._begun: Initiator | None = begun
        self.opening = (relay.resume(stream), relay.handshake(stream, begun.message))
        self.sealer: Sealer | None = None  # once the executor has answered
        self._opener: Opener | None = None
        self.farewell: tuple[int, str] | None = None  # code and reason, where the executor has said them

    @property
    def is_open(self) -> bool:
        return self.sealer is not None

    def receive(self, data: bytes) -> list[bytes]:
        """The messages that are complete now. Raises Disconnected or RemoteProtocolError: it is over."""
        frame = relay.decode(data)
        if isinstance(frame, relay.NoFrame) and frame.stream in ("", self.stream):
            raise RemoteProtocolError(frame.why)
        if isinstance(frame, relay.NoFrame) or frame.stream != self.stream:
            return []
        return _RULES[self.is_open, type(frame)](self, frame)

    def _finish(self, frame: relay.Handshake) -> list[bytes]:
        assert self._begun is not None
        self._opened(self._begun.finish(frame.payload))
        self._begun = None  # and the keys that were made for it
        return []

    def _opened(self, channel: Channel) -> None:
        self.sealer, self._opener = Sealer(channel), Opener(channel)

    def _take(self, frame: relay.Data) -> list[bytes]:
        assert self._opener is not None
        messages = self._opener.open(frame.seq, frame.payload)
        self.farewell = self._opener.farewell
        return messages

    def _reset(self, frame: relay.Reset) -> list[bytes]:
        # The reason is anybody's: it is not shown.
        raise Disconnected("the relay ended the stream")

    def _nothing(self, frame: relay.Idle) -> list[bytes]:
        return []

    def _refuse(self, frame: relay.Frame) -> list[bytes]:
        what = "a second handshake" if self.is_open else "data before the handshake"
        raise RemoteProtocolError(f"the executor's end of the stream sent {what}")


_RULES: dict[tuple[bool, type], Callable[..., list[bytes]]] = {
    (False, relay.Handshake): Calling._finish,
    (False, relay.Data): Calling._refuse,
    (False, relay.Reset): Calling._reset,
    (False, relay.Idle): Calling._nothing,
    (True, relay.Handshake): Calling._refuse,
    (True, relay.Data): Calling._take,
    (True, relay.Reset): Calling._reset,
    (True, relay.Idle): Calling._nothing,
}
