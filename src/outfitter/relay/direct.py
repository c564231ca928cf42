"""The direct transport: an executor that dials out and is spoken to on that socket, without a relay.

Requests are signed as AWS wants it. TLS alone protects what is said: the service can read everything.
"""

from __future__ import annotations

import time

from ..core.records import MAX_MESSAGE
from ..core.redialling import Redialling
from ..core.sigv4 import AwsCredentials, signed_headers
from ..errors import SettingInvalid
from ..protocol import websocket as ws
from ..protocol.registry import DirectAnswer
from ..stdlib import deque
from ..transport.base import LOW
from ..transport.outward import OutwardSocket
from .dialling import DialsOut
from .joining import Joining

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from ..loop import EpollLoop
    from ..transport.address import Address
    from ..transport.sockets import Stream
    from .registry import Registry

_CLOSE_SECONDS = 2.0  # for what is queued, at the end
_FIRST_SECONDS = 0.5  # until it dials again, the first time; the reference's


class Signer:
    """Signs requests with a static key pair."""

    def __init__(self, credentials: AwsCredentials, region: str, service: str) -> None:
        self._credentials = credentials
        self._region = region
        self._service = service

    def __call__(self, method: str, host: str, target: str, body: str) -> dict[str, str]:
        path, _, query = target.partition("?")
        return signed_headers(
            self._credentials,
            region=self._region,
            service=self._service,
            date=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
            method=method,
            host=host,
            path=path,
            query=query,
            content_type="application/json" if body else "",
            body=body.encode(),
        )


def signer_of(environ: Mapping[str, str], region: str | None, service: str) -> Signer:
    """With the key pair in the usual variables. Raises SettingInvalid."""
    key_id, secret = environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", "")
    if not key_id or not secret:
        raise SettingInvalid("--aws-sigv4 needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    region = region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise SettingInvalid("--aws-sigv4 needs --aws-region, AWS_REGION or AWS_DEFAULT_REGION")
    credentials = AwsCredentials(key_id, secret, environ.get("AWS_SESSION_TOKEN", ""))
    for value in (key_id, credentials.session_token, region, service):
        if not value.isascii() or (value and not value.isprintable()):
            raise SettingInvalid("what is signed with goes into headers: it must be printable ASCII")
    return Signer(credentials, region, service)


class DirectExecutor(DialsOut[DirectAnswer]):
    """Serves one environment on a socket that it has dialled."""

    def __init__(
        self,
        loop: EpollLoop,
        registry: Registry,
        signer: Signer,
        connected: Callable[[DirectTransport], None],
        gave_up: Callable[[str], None],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(loop, registry, gave_up, Redialling(first=_FIRST_SECONDS, registers=False), tls)
        self._signer = signer
        self._connected = connected

    def _call(self) -> DirectAnswer:
        return self._registry.register_direct()

    def _sign(self, address: Address) -> dict[str, str]:
        host = f"[{address.host}]" if ":" in address.host else address.host
        usual = 443 if address.secure else 80
        named = host if address.port == usual else f"{host}:{address.port}"
        return self._signer("GET", named, address.path, "")

    def _carry(self, sock: Stream, registration: DirectAnswer) -> Callable[[bytes], None]:
        self._socket = transport = DirectTransport(self._loop, sock, registration, self._lost)
        self._connected(transport)
        return transport.begin


class DirectTransport(Joining):
    """A server's end of the socket: see `transport.base.Serving`."""

    def __init__(
        self, loop: EpollLoop, sock: Stream, registration: DirectAnswer, over: Callable[[str], None]
    ) -> None:
        super().__init__(loop)
        self._socket = OutwardSocket(loop, sock, MAX_MESSAGE, self, texts=True)
        self.principal = f"direct:{registration.environment_id}"
        self.address = "the direct transport"
        self._over = over
        self._told = False
        self._hold = False
        self._inbox: deque[bytes] = deque()  # what one read brought behind a pause
        self._ending: tuple[int, str] | None = None

    def begin(self, rest: bytes) -> None:
        self._socket.begin(rest)

    # From the socket

    def frame(self, data: bytes) -> None:
        self._inbox.append(data)
        self._deliver()

    def _deliver(self) -> None:
        while self._inbox and not self._hold and not self._told:
            self.receiver.message(self._inbox.popleft())

    def drained(self) -> None:
        if self._ending is not None:
            if not self.buffered:
                self._socket.close(*self._ending)
        elif self._crowded and self.buffered <= LOW:
            self._crowded = False
            self.receiver.drained()

    def _drained(self) -> None:
        if not self._told and self._ending is None:
            self.receiver.drained()

    def lost(self, reason: str) -> None:
        self._told = True
        self._let_go()
        self.close_code = self._socket.close_code
        self.receiver.lost(reason)
        self._over(reason)

    # For the server

    @property
    def buffered(self) -> int:
        return self._socket.buffered + self._kept

    @property
    def all_sent(self) -> bool:
        return not self.buffered and self._fragments is None

    def send_parts(self, *messages: tuple[bytes, ...]) -> None:
        if self._ending is not None or self._defers(messages):
            return
        for parts in messages:
            self._socket.send_message(b"".join(parts), ws.TEXT)
        self._crowded = self._crowded or self.buffered > LOW

    def pause_reading(self) -> None:
        self._hold = True
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._hold = False
        if not self._told:
            self._socket.resume_reading()
            self._loop.call_soon(self._deliver)

    def probe(self, seconds: float) -> None:
        """The service may hold the socket for many: who wants a session that is in use here gets it."""
        self._loop.call_soon(self.close, 1001, "another connection wants the session")

    def close(self, code: int, reason: str) -> None:
        """Ends after what is queued, if the service takes it soon."""
        if self._ending is not None:
            return
        self._ending = code, reason
        self._let_go()
        if self.buffered:
            self._loop.call_later(_CLOSE_SECONDS, self._socket.close, code, reason)
        else:
            self._socket.close(code, reason)
