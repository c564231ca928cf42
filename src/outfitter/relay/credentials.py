"""What an executor shows its registry: a token that stays, one in a file, or frames on its standard input.

Frames are the reference's `--executor-credential-stdin`: a line of JSON each, a new one before the old
expires. Expired, an executor makes no call: streams that are open go on, and a fresh frame repairs the rest.
"""

from __future__ import annotations

from ..errors import DialFailed, InvalidParams, SettingInvalid
from ..protocol.fields import Fields
from ..protocol.jsontext import loads
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

MAX_FRAME = 16 << 10  # bytes of a line
FIRST_SECONDS = 30.0  # within which the first has to come
_MEMBERS = {"version", "environment_id", "token", "expires_at"}


@record
class CredentialFrame:
    hidden = ("token",)

    token: str
    expires_at: int


def parse_frame(line: bytes, environment_id: str) -> CredentialFrame:
    """Raises InvalidParams, without repeating anything of the line."""
    if len(line) > MAX_FRAME:
        raise InvalidParams(f"a credential frame has {MAX_FRAME} bytes at most")
    try:
        value = loads(line.decode())
    except ValueError:
        raise InvalidParams("a credential frame is no JSON") from None
    fields = Fields(value, "CredentialFrame")
    if fields.members.keys() != _MEMBERS:
        raise InvalidParams(f"a credential frame has the members {', '.join(sorted(_MEMBERS))} and no others")
    if fields.members["version"] != 1 or fields.members["version"] is True:
        raise InvalidParams("a credential frame has version 1")
    expires = fields.members["expires_at"]
    if type(expires) is not int:
        raise InvalidParams("`expires_at` of a credential frame is an integer, in Unix seconds")
    token = fields.text("token")
    if not token or not token.isascii() or not token.isprintable():
        raise InvalidParams("the token of a credential frame must be printable ASCII")
    if fields.text("environment_id") != environment_id:
        raise InvalidParams("a credential frame is for another environment")
    return CredentialFrame(token, expires)


class StdinCredential:
    """Frames from a pipe. `first` waits for the first; `ended` is called in a thread when none follows."""

    def __init__(
        self, source: BinaryIO, environment_id: str, clock: Callable[[], float], ended: Callable[[str], None]
    ) -> None:
        from threading import Event, Thread

        self._source = source
        self._environment_id = environment_id
        self._clock = clock
        self._ended = ended
        self._frame: CredentialFrame | None = None
        self._came = Event()
        self._why = ""
        Thread(target=self._read, daemon=True).start()

    def first(self) -> None:
        """Raises SettingInvalid."""
        if not self._came.wait(FIRST_SECONDS):
            raise SettingInvalid(f"no credential came on standard input within {FIRST_SECONDS:g} s")
        if self._frame is None:
            raise SettingInvalid(self._why)

    def _read(self) -> None:
        try:
            while line := self._source.readline(MAX_FRAME + 2):
                self._frame = parse_frame(line.rstrip(b"\r\n"), self._environment_id)
                self._came.set()
            self._why = "standard input, which brings the credentials, has ended"
        except InvalidParams as error:
            self._why = str(error)
            if not self._came.is_set():
                self._frame = None
        except (OSError, ValueError) as error:
            self._why = f"credentials cannot be read from standard input: {type(error).__name__}"
        self._came.set()
        self._ended(self._why)

    def headers(self) -> dict[str, str]:
        """Raises DialFailed while the last one has expired."""
        frame = self._frame
        if frame is None or frame.expires_at <= self._clock():
            raise DialFailed("the executor's credential has expired: send a new frame", retryable=True)
        return bearer(frame.token)


class FileCredential:
    """A token in a file, read for each call: it may be renewed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.headers()  # mistakes are for whoever starts the executor

    def headers(self) -> dict[str, str]:
        """Raises SettingInvalid."""
        from ..transport.certificates import check_private

        check_private(self._path, "the credential file")
        try:
            with open(self._path, encoding="ascii") as file:
                token = file.read(MAX_FRAME).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingInvalid(f"{self._path} cannot be read: {type(error).__name__}") from None
        if not token or not token.isprintable():
            raise SettingInvalid(f"{self._path} has no token on one line")
        return bearer(token)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
