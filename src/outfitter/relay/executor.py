"""An executor that dials out: it registers, keeps a socket to the rendezvous, and serves who comes through.

Keys live as long as the process, unless they are kept; a registration as long as the service admits its URL.
Losing the socket loses no session: harnesses come back through the next one and resume.
"""

from __future__ import annotations

from ..core.redialling import Redialling
from ..core.streams import Streams
from ..log import warn
from ..protocol.registry import KeyObject, RegisterAnswer, ValidateAnswer, ValidateParams
from .carrier import Carrier
from .dialling import DialsOut
from .keys import Keys, encapsulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ..core.noise import PublicKey
    from ..core.streams import Validate
    from ..errors import OutfitterError
    from ..loop import EpollLoop
    from ..transport.sockets import Stream
    from .carrier import StreamTransport
    from .pinned import AcceptedHarnesses
    from .registry import Registry


class RemoteExecutor(DialsOut[RegisterAnswer]):
    """Serves one environment through a rendezvous."""

    def __init__(
        self,
        loop: EpollLoop,
        registry: Registry,
        connected: Callable[[StreamTransport], None],
        gave_up: Callable[[str], None],
        *,
        tls: ssl.SSLContext | None = None,
        keys: Keys | None = None,
        accepted: AcceptedHarnesses | None = None,
    ) -> None:
        """`keys` are kept: they will be the same the next time, and users may rely on them."""
        super().__init__(loop, registry, gave_up, Redialling(), tls)
        self._connected = connected
        self._kept = keys is not None
        self._keys = keys or Keys()
        self._accepted = accepted
        self._carrier: Carrier | None = None  # the last one

    @property
    def public(self) -> PublicKey:
        """The key that harnesses may rely on, for as long as this lives."""
        return self._keys.public

    @property
    def heard(self) -> float:
        return self._begun if self._carrier is None else self._carrier.heard

    def _call(self) -> RegisterAnswer:
        public = self._keys.public
        return self._registry.register(KeyObject(public.x25519, public.mlkem), kept=self._kept)

    def _carry(self, sock: Stream, registration: RegisterAnswer) -> Callable[[bytes], None]:
        streams = Streams(
            self._keys, registration.environment_id, registration.registration_id, Keys, encapsulate
        )
        carrier = Carrier(self._loop, sock, streams, self._connected, self._ask, self._lost)
        carrier.heard = self.heard  # that a socket was dialled is no sign of a harness
        self._socket = self._carrier = carrier
        return carrier.begin

    # Harnesses

    def _ask(self, asked: Validate, answered: Callable[[bool, str], None]) -> None:
        assert self._registration is not None
        key = KeyObject(asked.harness.x25519, asked.harness.mlkem)
        params = ValidateParams(self._registration.registration_id, key, asked.authorization)

        def done(told: ValidateAnswer | None, error: OutfitterError | None) -> None:
            if error is not None:
                warn("relay", "a harness could not be checked: %s", error)
            answered(told is not None and told.valid, "" if told is None else told.principal)

        def validate() -> ValidateAnswer:
            accepted = self._accepted
            if accepted is not None and not accepted.may_ask(asked.harness):
                return ValidateAnswer(False)
            told = self._registry.validate(params, asked.stream)
            if accepted is not None and told.valid and not accepted.accepts(asked.harness):
                return ValidateAnswer(False)
            return told

        self._in_thread(validate, done)
