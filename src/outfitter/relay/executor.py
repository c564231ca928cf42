"""An executor that dials out: it registers, keeps a socket to the rendezvous, and serves who comes through.

Keys live as long as the process, unless they are kept; a registration as long as the service admits its URL.
Losing the socket loses no session: harnesses come back through the next one and resume.
"""

from __future__ import annotations

import os
import random

from ..core.redialling import GIVE_UP, REGISTER, Redialling
from ..core.streams import Streams
from ..errors import DialFailed, OutfitterError, SettingInvalid
from ..log import note, warn
from ..protocol.registry import KeyObject, ValidateAnswer, ValidateParams
from ..stdlib import start_new_thread
from ..transport.address import parse_address
from ..transport.outward import dial_outward
from .carrier import Carrier
from .keys import Keys, encapsulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from typing import TypeVar

    from ..core.redialling import Next
    from ..core.streams import Validate
    from ..loop import Loop
    from ..protocol.registry import RegisterAnswer
    from ..transport.sockets import Stream
    from .carrier import StreamTransport
    from .pinned import AcceptedHarnesses
    from .registry import Registry

    T = TypeVar("T")

_DIAL_SECONDS = 10.0  # the reference's


class RemoteExecutor:
    """Serves one environment through a rendezvous. `gave_up` is told what a person has to mend."""

    def __init__(
        self,
        loop: Loop,
        registry: Registry,
        connected: Callable[[StreamTransport], None],
        gave_up: Callable[[str], None],
        *,
        tls: ssl.SSLContext | None = None,
        keys: Keys | None = None,
        accepted: AcceptedHarnesses | None = None,
    ) -> None:
        """`keys` are kept: they will be the same the next time, and users may rely on them."""
        self._loop = loop
        self._registry = registry
        self._connected = connected
        self._gave_up = gave_up
        self._tls = tls
        self._kept = keys is not None
        self._keys = keys or Keys()
        self._accepted = accepted
        self._redialling = Redialling()
        self._registration: RegisterAnswer | None = None
        self._carrier: Carrier | None = None
        self._since = 0.0
        self._stopped = False
        self.on_ready: Callable[[], None] | None = None  # when the socket first stands

    def begin(self) -> None:
        self._register(again=False)

    def stop(self, reason: str) -> None:
        self._stopped = True
        if self._carrier is not None:
            self._carrier.close(1001, reason)

    # Registering

    def _register(self, again: bool) -> None:
        public = self._keys.public
        key = KeyObject(public.x25519, public.mlkem)
        self._in_thread(
            lambda: self._registry.register(key, kept=self._kept),
            lambda told, error: self._registered(told, error, again),
        )

    def _registered(self, told: RegisterAnswer | None, error: OutfitterError | None, again: bool) -> None:
        if told is None:
            status = error.status if isinstance(error, DialFailed) else None
            lasting = isinstance(error, DialFailed) and not error.retryable and status is None
            step = (GIVE_UP, 0.0) if lasting else self._redialling.unregistered(status, random.random())
            self._next(step, str(error))
            return
        self._registration = told
        note("relay", "=", "registered environment %s", told.environment_id)
        self._next(self._redialling.registered(again, random.random()), "")

    def _next(self, step: Next, why: str) -> None:
        what, wait = step
        if self._stopped:
            return
        if what is GIVE_UP:
            self._gave_up(why)
            return
        if why:
            warn("relay", "%s; trying again in %.1f s", why, wait)
        if what is REGISTER:
            self._loop.call_later(wait, self._register, wait == 0.0)
        else:
            self._loop.call_later(wait, self._dial)

    # The socket

    def _dial(self) -> None:
        if self._stopped:
            return
        registration = self._registration
        assert registration is not None
        try:
            address = parse_address(registration.url)
            if not (address.secure or address.loopback):
                raise SettingInvalid("the rendezvous of another machine must be reached with wss://")
        except SettingInvalid as error:
            self._gave_up(f"the registry gave a URL that cannot be used: {error}")
            return
        request = [f"X-Request-ID: req_{os.urandom(16).hex()}"]
        self._in_thread(
            lambda: dial_outward(self._loop, address, request, _DIAL_SECONDS, self._tls), self._dialled
        )

    def _dialled(self, made: tuple[Stream, bytes] | None, error: OutfitterError | None) -> None:
        if made is None:
            status = error.status if isinstance(error, DialFailed) else None
            self._next(self._redialling.unreachable(status, random.random()), str(error))
            return
        sock, rest = made
        if self._stopped:
            sock.close()
            return
        registration = self._registration
        assert registration is not None
        streams = Streams(
            self._keys, registration.environment_id, registration.registration_id, Keys, encapsulate
        )
        self._since = self._loop.time()
        self._carrier = Carrier(self._loop, sock, streams, self._connected, self._ask, self._lost)
        note("relay", "=", "connected to the rendezvous")
        ready, self.on_ready = self.on_ready, None
        if ready is not None:
            ready()
        self._carrier.begin(rest)

    def _lost(self, reason: str) -> None:
        self._carrier = None
        lasted = self._loop.time() - self._since
        self._next(self._redialling.lost(lasted, random.random()), reason)

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

    # Threads: one for what is under way, which is bounded by what may be pending.

    def _in_thread(
        self, work: Callable[[], T], done: Callable[[T | None, OutfitterError | None], None]
    ) -> None:
        def run() -> None:
            try:
                result, error = work(), None
            except OutfitterError as caught:
                result, error = None, caught
            except Exception as caught:  # a fault of ours is not to keep the executor waiting for ever
                result, error = None, DialFailed(f"{type(caught).__name__}", retryable=True)
            self._loop.call_soon_threadsafe(done, result, error)

        try:
            start_new_thread(run, ())
        except RuntimeError:
            self._loop.call_soon(done, None, DialFailed("no thread could be started", retryable=True))
