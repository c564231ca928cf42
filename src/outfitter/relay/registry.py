"""The registry's HTTP calls, as executors and harnesses make them.

They block: each end has them made in a thread. Redirects are not followed, answers are bounded, and no
credential stands in an error.
"""

from __future__ import annotations

from ..errors import DialFailed, InvalidParams, SettingInvalid
from ..plain import unbroken
from ..protocol import registry as wire
from ..protocol.jsontext import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable
    from http.client import HTTPConnection
    from typing import TypeVar

    from ..protocol.jsontext import Json

    T = TypeVar("T")
    Headers = dict[str, str]
    Sign = Callable[[str, str, str, str], Headers]  # from method, host, path with query, and body

_SHOWN = 200  # characters of an error's text


def enrol(base: str, code: str, *, tls: ssl.SSLContext | None = None) -> wire.EnrolAnswer:
    """What a one-time code is worth. Raises DialFailed, SettingInvalid."""
    desk = _Desk(base, dict, tls=tls, seconds=10.0, discreet=False)
    return desk.call("/enrol", wire.EnrolParams(code).encode(), wire.EnrolAnswer.decode)


def rotate(
    base: str, headers: Callable[[], Headers], *, tls: ssl.SSLContext | None = None
) -> wire.RotateAnswer:
    """Another token in place of the one that is shown. Raises DialFailed, SettingInvalid."""
    desk = _Desk(base, headers, tls=tls, seconds=10.0, discreet=False)
    return desk.call("/rotate", wire.RotateParams().encode(), wire.RotateAnswer.decode)


class Registry:
    """A registry, for one environment. `headers` are asked for with every call: tokens change."""

    def __init__(
        self,
        base: str,
        environment_id: str,
        headers: Callable[[], Headers],
        *,
        tls: ssl.SSLContext | None = None,
        seconds: float = 10.0,
        discreet: bool = False,
        sign: Sign | None = None,
    ) -> None:
        """`sign` adds headers that depend on the request. With `discreet`, texts of the registry are not
        shown: they could contain a credential.

        Raises SettingInvalid.
        """
        if not wire.is_environment_id(environment_id):
            raise SettingInvalid(
                f"`{unbroken(environment_id)}` is no environment id: use letters, digits, `.`, `-` and `_`"
            )
        self.environment_id = environment_id
        self._desk = _Desk(base, headers, tls=tls, seconds=seconds, discreet=discreet, sign=sign)
        self.text = self._desk.text

    def register(self, key: wire.KeyObject, *, kept: bool = False) -> wire.RegisterAnswer:
        """Raises DialFailed, whose `status` is what the registry answered."""
        params = wire.RegisterParams(wire.PROFILE, key, kept)
        answer = self._call("register", params.encode(), wire.RegisterAnswer.decode)
        self._check(answer.environment_id)
        return answer

    def connect(self, key: wire.KeyObject) -> wire.ConnectAnswer:
        """Raises DialFailed."""
        answer = self._call("connect", wire.ConnectParams(key).encode(), wire.ConnectAnswer.decode)
        self._check(answer.environment_id)
        return answer

    def validate(self, asked: wire.ValidateParams, stream: str) -> wire.ValidateAnswer:
        """Raises DialFailed."""
        named = {wire.STREAM_HEADER: stream} if stream.isascii() and stream.isprintable() else {}
        return self._call("validate", asked.encode(), wire.ValidateAnswer.decode, named)

    def register_direct(self) -> wire.DirectAnswer:
        """Raises DialFailed."""
        answer = self._call(
            "direct/register", wire.DirectParams(wire.DIRECT).encode(), wire.DirectAnswer.decode
        )
        self._check(answer.environment_id)
        if answer.transport != wire.DIRECT:
            raise DialFailed(f"{self.text} offers no direct transport that is known here", retryable=False)
        return answer

    def _check(self, environment_id: str) -> None:
        if environment_id != self.environment_id:
            raise DialFailed(f"{self.text} answered for another environment", retryable=False)

    def _call(self, what: str, params: Json, decode: Callable[[Json], T], more: Headers | None = None) -> T:
        return self._desk.call(f"/cloud/environment/{self.environment_id}/{what}", params, decode, more)


class _Desk:
    """Where a registry answers."""

    def __init__(
        self,
        base: str,
        headers: Callable[[], Headers],
        *,
        tls: ssl.SSLContext | None,
        seconds: float,
        discreet: bool,
        sign: Sign | None = None,
    ) -> None:
        from urllib.parse import urlsplit

        shown = unbroken(base.partition("?")[0].rpartition("@")[2])  # without what may be secret
        none = SettingInvalid(f"`{shown}` is no registry: write https://HOST[:PORT][/PATH]")
        try:
            parts = urlsplit(base.strip())
            port = parts.port
        except ValueError:
            raise none from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise none
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise SettingInvalid("a registry on another machine must be reached with https://")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._path = parts.path.rstrip("/")
        self._headers = headers
        self._tls = tls
        self._seconds = seconds
        self._discreet = discreet
        self._sign = sign
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        usual = (None, 443 if self._secure else 80)
        self._named = host if port in usual else f"{host}:{port}"
        self.text = f"{parts.scheme}://{parts.netloc}{self._path}"

    def call(self, path: str, params: Json, decode: Callable[[Json], T], more: Headers | None = None) -> T:
        headers = {"Content-Type": "application/json", "Accept": "*/*", **self._headers(), **(more or {})}
        said = dumps(params)
        if self._sign is not None:
            headers |= {"Host": self._named, **self._sign("POST", self._named, self._path + path, said)}
        status, body = self._exchange(path, said, headers)
        if status != 200:
            raise self._refusal(path.rpartition("/")[2], status, body)
        self._guard(headers, body)
        try:
            if len(body) > wire.MAX_BODY:
                raise InvalidParams(f"it has more than {wire.MAX_BODY} bytes")
            return decode(loads(body.decode()))
        except (ValueError, InvalidParams) as error:
            text = f"the answer of {self.text} to `{path.rpartition('/')[2]}` cannot be used: {error}"
            raise DialFailed(text, retryable=False) from None

    def _exchange(self, path: str, said: str, headers: Headers) -> tuple[int, bytes]:
        """Status and body, which is cut behind what may be read. Raises DialFailed."""
        from http.client import HTTPException, IncompleteRead
        from threading import Timer

        connection = self._connection()
        late = Timer(self._seconds, lambda: None)
        given_up: list[bool] = []
        try:
            connection.connect()
            # The socket's own time is for each byte: who sends one now and then would never be given up.
            late = Timer(self._seconds, _cut, (connection.sock, given_up))
            late.daemon = True
            late.start()
            connection.request("POST", self._path + path, said, headers)
            with connection.getresponse() as response:
                body = response.read(wire.MAX_BODY + 1)
                if given_up:
                    raise TimeoutError
                if response.length and len(body) <= wire.MAX_BODY:
                    raise IncompleteRead(body)
                return response.status, body
        except (OSError, HTTPException) as error:
            if isinstance(error, TimeoutError) or given_up:
                text = f"{self.text} did not answer within {self._seconds:g} s"
            else:
                text = f"cannot reach {self.text}: {getattr(error, 'strerror', None) or type(error).__name__}"
            raise DialFailed(text, retryable=True) from None
        finally:
            late.cancel()
            connection.close()

    def _guard(self, headers: Headers, body: bytes) -> None:
        """An answer that repeats a token is not used: whatever is made of it could end in a log."""
        token = headers.get("Authorization", "").removeprefix("Bearer ").encode()
        if self._discreet and token and token in body:
            raise DialFailed(f"the answer of {self.text} contains the credential", retryable=False)

    def _refusal(self, what: str, status: int, body: bytes) -> DialFailed:
        try:
            code, message = wire.error_of(loads(body[: wire.MAX_BODY].decode()))
            shown = f"{code}: {message}" if code else message
        except ValueError:
            code, shown = "", body.decode("utf-8", "replace")
        detail = "" if self._discreet or not shown.strip() else f": {unbroken(shown.strip())[:_SHOWN]}"
        again = status >= 500 or status in (408, 429) or (status == 409 and code == wire.OFFLINE)
        if status in (401, 403):
            detail += "; check the credential"
        return DialFailed(
            f"{self.text} answered `{what}` with {status}{detail}", retryable=again, status=status
        )

    def _connection(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        if not self._secure:
            return HTTPConnection(self._host, self._port, timeout=self._seconds)
        from ..transport.certificates import client_context

        tls = self._tls or client_context()
        return HTTPSConnection(self._host, self._port, timeout=self._seconds, context=tls)


def _cut(sock: socket.socket, given_up: list[bool]) -> None:
    import socket

    given_up.append(True)
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # of TLS, too, which has a way of its own
    except OSError:
        pass  # it has ended just now


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
