"""The streams of an executor's socket to a rendezvous: who may begin one, and what ends it.

A frame in, actions out. Whatever somebody sends on one stream, the others and the socket live on; frames that
are none are dropped without a word. What happens in which state of a stream stands in `_RULES`.
"""

from __future__ import annotations

from ..errors import RemoteProtocolError
from ..protocol import relay
from ..record import record
from .noise import MAX_AUTHORIZATION, Responder, prologue
from .records import Opener, Sealer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from .noise import Encapsulate, KeyPair, PublicKey

MAX_ACTIVE = 128  # streams of one socket
MAX_PENDING = 32  # questions to the registry at a time, whether a stream may begin
FAILURES = 8  # handshakes that come to nothing, after which nobody may begin for a while
PAUSE_SECONDS = 10.0


@record
class Send:
    """A frame for the other end."""

    frame: bytes


@record
class Validate:
    """Ask the registry whether a harness may begin a stream; `validated` takes the answer."""

    stream: str
    instance: int
    harness: PublicKey
    authorization: str


@record
class Begun:
    """A stream has begun; `instance` tells it from an older one of the same name."""

    stream: str
    instance: int
    harness: PublicKey
    sealer: Sealer


@record
class Came:
    """Messages of a stream, in order."""

    instance: int
    messages: list[bytes]


@record
class Ended:
    """A stream is over: nothing is sent on it any more."""

    instance: int
    farewell: tuple[int, str] | None = None  # code and reason, where the harness has said them itself


Action: TypeAlias = "Send | Validate | Begun | Came | Ended"


class _Pending:
    """A handshake of which it is being asked whether it may go on."""

    def __init__(self, instance: int, responder: Responder) -> None:
        self.instance = instance
        self.responder = responder


class _Active:
    def __init__(self, instance: int, opener: Opener) -> None:
        self.instance = instance
        self.opener = opener


class Streams:
    """What is known of the streams of one socket."""

    def __init__(
        self,
        static: KeyPair,
        environment_id: str,
        registration_id: str,
        make_keys: Callable[[], KeyPair],
        encapsulate: Encapsulate,
    ) -> None:
        self._static = static
        self._environment_id = environment_id
        self._registration_id = registration_id
        self._make_keys = make_keys
        self._encapsulate = encapsulate
        self._pending: dict[str, _Pending] = {}
        self._active: dict[str, _Active] = {}
        self._names: dict[int, str] = {}  # of the active ones
        self._instances = 0
        self._asking = 0  # questions to the registry that are under way, whatever became of their streams
        self._failures = 0
        self._paused_until = 0.0

    @property
    def active(self) -> int:
        return len(self._active)

    def receive(self, data: bytes, now: float) -> list[Action]:
        """What to do about a message from the rendezvous."""
        frame = relay.decode(data)
        if isinstance(frame, relay.NoFrame):
            return []
        if frame.stream in self._active:
            state = "active"
        else:
            state = "pending" if frame.stream in self._pending else "unknown"
        return _RULES[state, type(frame)](self, frame, now)

    # A stream begins

    def _begin(self, frame: relay.Handshake, now: float) -> list[Action]:
        # A stream that is given up is pending no more, but its question is: who begins and gives up again and
        # again gets no more of them than who waits.
        if now < self._paused_until or self.active >= MAX_ACTIVE or self._asking >= MAX_PENDING:
            return _refuse(frame.stream)
        said = prologue(self._environment_id, self._registration_id, frame.stream)
        try:
            responder = Responder(self._static, said, frame.payload)
            if len(responder.authorization) > MAX_AUTHORIZATION:
                return self._fail(frame.stream, now)
            authorization = responder.authorization.decode()
        except (RemoteProtocolError, UnicodeDecodeError):
            return self._fail(frame.stream, now)
        self._instances += 1
        self._asking += 1
        self._pending[frame.stream] = _Pending(self._instances, responder)
        return [Validate(frame.stream, self._instances, responder.harness, authorization)]

    def validated(self, stream: str, instance: int, valid: bool, now: float) -> list[Action]:
        """The registry has answered, or has not in time: once for each Validate."""
        self._asking -= 1
        pending = self._pending.get(stream)
        if pending is None or pending.instance != instance:
            return []  # the stream was given up meanwhile
        del self._pending[stream]
        if not valid:
            return self._fail(stream, now)
        try:
            message, channel = pending.responder.answer(self._make_keys(), self._encapsulate)
        except RemoteProtocolError:
            return self._fail(stream, now)
        self._active[stream] = _Active(instance, Opener(channel))
        self._names[instance] = stream
        opened = Begun(stream, instance, pending.responder.harness, Sealer(channel))
        return [Send(relay.handshake(stream, message)), opened]

    def _fail(self, stream: str, now: float) -> list[Action]:
        """A handshake came to nothing. Whoever fails again and again has everybody wait."""
        self._failures += 1
        if self._failures >= FAILURES:
            self._failures = 0
            self._paused_until = now + PAUSE_SECONDS
        return _refuse(stream)

    # A stream goes on

    def _take(self, frame: relay.Data, now: float) -> list[Action]:
        active = self._active[frame.stream]
        try:
            messages = active.opener.open(frame.seq, frame.payload)
        except RemoteProtocolError:
            return self._drop(frame.stream)
        came: list[Action] = [Came(active.instance, messages)] if messages else []
        if active.opener.farewell is not None:
            self._drop(frame.stream)  # nobody is left who would have to be told
            came.append(Ended(active.instance, active.opener.farewell))
        return came

    # A stream ends

    def close(self, instance: int) -> list[Action]:
        """We end a stream; one that has ended already, or begun anew, is left alone."""
        stream = self._names.get(instance)
        return [] if stream is None else self._drop(stream)[1:]

    def _drop(self, stream: str) -> list[Action]:
        active = self._active.pop(stream)
        del self._names[active.instance]
        return [Ended(active.instance), *_refuse(stream)]

    def _forget(self, frame: relay.Reset, now: float) -> list[Action]:
        return self._drop(frame.stream)[:1]  # nobody is left who would have to be told

    def _abandon(self, frame: relay.Reset, now: float) -> list[Action]:
        del self._pending[frame.stream]
        return []

    def _fail_pending(self, frame: relay.Frame, now: float) -> list[Action]:
        del self._pending[frame.stream]
        return self._fail(frame.stream, now)

    def _turn_away(self, frame: relay.Frame, now: float) -> list[Action]:
        return _refuse(frame.stream)

    def _nothing(self, frame: relay.Frame, now: float) -> list[Action]:
        return []


def _refuse(stream: str) -> list[Action]:
    return [Send(relay.reset(stream))]


_RULES: dict[tuple[str, type], Callable[..., list[Action]]] = {
    ("unknown", relay.Handshake): Streams._begin,
    ("unknown", relay.Data): Streams._turn_away,
    ("unknown", relay.Reset): Streams._nothing,
    ("unknown", relay.Idle): Streams._nothing,
    ("pending", relay.Handshake): Streams._fail_pending,
    ("pending", relay.Data): Streams._fail_pending,
    ("pending", relay.Reset): Streams._abandon,
    ("pending", relay.Idle): Streams._nothing,
    # The stream goes on: whoever sends this need not be who has begun it.
    ("active", relay.Handshake): Streams._turn_away,
    ("active", relay.Data): Streams._take,
    ("active", relay.Reset): Streams._forget,
    ("active", relay.Idle): Streams._nothing,
}
