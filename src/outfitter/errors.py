"""Every exception Outfitter raises, and what each one means.

OutfitterError
├── ProtocolError               a rule of the wire was broken
│   ├── LocalProtocolError      we were about to break it
│   └── RemoteProtocolError     the other side did
│       └── Malformed           one message could not be read; the connection goes on
├── ConnectionLost
│   ├── Disconnected            the session can be resumed
│   └── SessionExpired          it cannot
├── RequestFailed               the other side answered no (client side; keeps the code)
├── Refused                     we answer no: the request makes no sense in this state
│   ├── InvalidParams           the parameters cannot be read or are not allowed
│   ├── MethodUnknown           no such method here
│   └── SessionAttached         another connection holds the session
├── LaunchFailed                the operating system did not start the program
├── HostUnsupported             this machine lacks what the operation needs
├── SettingInvalid              a flag, file or URL cannot be used as given
└── ContractViolated            the environment does not keep what it promises

Each class has a `slug`: a stable name that scripts and logs may rely on.
"""

from __future__ import annotations


class OutfitterError(Exception):
    """Base of everything Outfitter raises on purpose."""

    slug = "outfitter-error"


class ProtocolError(OutfitterError):
    slug = "protocol-error"


class LocalProtocolError(ProtocolError):
    slug = "local-protocol-error"


class RemoteProtocolError(ProtocolError):
    """The peer broke a rule after which the connection cannot go on.

    `close_code` is the WebSocket close code that tells it so.
    """

    slug = "remote-protocol-error"

    def __init__(self, reason: str, close_code: int = 1002) -> None:
        super().__init__(reason)
        self.reason = reason
        self.close_code = close_code


class Malformed(RemoteProtocolError):
    """One message could not be read. `request_id` is its id where one could be made out."""

    slug = "malformed-message"

    def __init__(self, detail: str, request_id: int | str = -1) -> None:
        super().__init__(detail)
        self.detail = detail
        self.request_id = request_id


class ConnectionLost(OutfitterError):
    slug = "connection-lost"


class Disconnected(ConnectionLost):
    slug = "disconnected"


class SessionExpired(ConnectionLost):
    slug = "session-expired"


class RequestFailed(OutfitterError):
    """The server refused a request; `code` and `data` are what it sent."""

    slug = "request-failed"

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} (code {self.code})"


class Refused(OutfitterError):
    """We refuse a request. The text goes to the peer as it is."""

    slug = "refused"


class InvalidParams(Refused):
    slug = "invalid-params"


class MethodUnknown(Refused):
    slug = "method-unknown"

    def __init__(self, method: str) -> None:
        super().__init__(method)
        self.method = method

    def __str__(self) -> str:
        # The reference's words: clients may look for them.
        return f"exec-server stub does not implement `{self.method}` yet"


class SessionAttached(Refused):
    slug = "session-attached"

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def __str__(self) -> str:
        return f"session {self.session_id} is already attached to another connection"


class LaunchFailed(OutfitterError):
    """The operating system refused to start a program.

    `errno_name` is the symbol (`ENOENT`), `subject` which of "cwd", "program" and "interpreter" is at
    fault, and `what` the same in words, as far as it can be told.
    """

    slug = "launch-failed"

    def __init__(
        self,
        message: str,
        errno_name: str | None = None,
        what: str | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(message)
        self.errno_name = errno_name
        self.what = what
        self.subject = subject


class HostUnsupported(OutfitterError):
    slug = "host-unsupported"


class SettingInvalid(OutfitterError):
    slug = "setting-invalid"


class ContractViolated(OutfitterError):
    slug = "contract-violated"
