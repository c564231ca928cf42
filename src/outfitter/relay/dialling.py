"""What all executors that dial out do: they register, keep a socket, and dial again when it is lost."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Generic, TypeVar

from ..core.redialling import GIVE_UP, REGISTER
from ..errors import DialFailed, OutfitterError, SettingInvalid
from ..log import note, warn
from ..stdlib import start_new_thread
from ..transport.address import parse_address
from ..transport.outward import dial_outward

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from typing import Protocol

    from ..core.redialling import Next, Redialling
    from ..loop import EpollLoop
    from ..protocol.registry import DirectAnswer, RegisterAnswer
    from ..transport.address import Address
    from ..transport.sockets import Stream
    from .registry import Registry

    class Socket(Protocol):
        def close(self, code: int, reason: str) -> None: ...


T = TypeVar("T")
R = TypeVar("R", bound="RegisterAnswer | DirectAnswer")  # what a registry answers

_DIAL_SECONDS = 10.0  # the reference's


class DialsOut(Generic[R]):
    """One environment's executor. `gave_up` is told what a person has to mend."""

    def __init__(
        self,
        loop: EpollLoop,
        registry: Registry,
        gave_up: Callable[[str], None],
        redialling: Redialling,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._loop = loop
        self._registry = registry
        self._gave_up = gave_up
        self._redialling = redialling
        self._tls = tls
        self._registration: R | None = None
        self._socket: Socket | None = None
        self._since = 0.0
        self._begun = loop.time()
        self._stopped = False
        self.on_ready: Callable[[], None] | None = None  # when the socket first stands

    @property
    def heard(self) -> float:
        """When a client has said something, by the loop's clock; until it has, when this was made."""
        return self._begun

    def begin(self) -> None:
        self._register(again=False)

    def stop(self, reason: str) -> None:
        self._stopped = True
        if self._socket is not None:
            self._socket.close(1001, reason)

    # What each transport does its own way

    def _call(self) -> R:
        """Registers. In a thread; raises OutfitterError."""
        raise NotImplementedError

    def _sign(self, address: Address) -> dict[str, str]:
        """More headers for the request that opens the socket."""
        return {}

    def _carry(self, sock: Stream, registration: R) -> Callable[[bytes], None]:
        """Takes a socket, as `_socket`; what is returned begins with what came with the answer."""
        raise NotImplementedError

    # Registering

    def _register(self, again: bool) -> None:
        self._in_thread(self._call, lambda told, error: self._registered(told, error, again))

    def _registered(self, told: R | None, error: OutfitterError | None, again: bool) -> None:
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
        headers = {"X-Request-ID": f"req_{os.urandom(16).hex()}", **self._sign(address)}
        request = [f"{name}: {value}" for name, value in headers.items()]
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
        self._since = self._loop.time()
        begin = self._carry(sock, registration)
        note("relay", "=", "connected to the rendezvous")
        ready, self.on_ready = self.on_ready, None
        if ready is not None:
            ready()
        begin(rest)

    def _lost(self, reason: str) -> None:
        self._socket = None
        lasted = self._loop.time() - self._since
        self._next(self._redialling.lost(lasted, random.random()), reason)

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
