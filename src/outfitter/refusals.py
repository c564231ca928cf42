"""The exceptions of a server that cannot serve a request: as many as it needs for its first command.

Clients and the contract have others. Everybody who needs those takes these from `errors`, too, which has all
of them and says what each one means: without the others, an idle server takes 140 kB less.
"""

from __future__ import annotations

from .earlyerrors import OutfitterError
from .record import dataclass_transform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

_SHOWN = "outfitter.errors"


@dataclass_transform(eq_default=False)
def fielded(cls: type[T]) -> type[T]:
    """An error that is made from its annotated fields, in their order; they are its `args`, too."""
    names = tuple(cls.__annotations__)

    def __init__(self: Any, *args: Any, **given: Any) -> None:
        self.__dict__.update(zip(names, args, strict=False), **given)
        self.args = tuple([getattr(self, name) for name in names])

    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls


class ProtocolError(OutfitterError):
    """A message broke a rule of the protocol.

        try:
            client = await outfitter.open("build")
            await client.aclose()
        except outfitter.ProtocolError as error:
            print("no exec-server answers there:", error)

    The connection ends with it.
    """

    __module__ = _SHOWN
    slug = "protocol-error"


class RemoteProtocolError(ProtocolError):
    """The other side broke a rule, and the connection cannot go on.

    `close_code` is the WebSocket close code that tells it so.
    """

    __module__ = _SHOWN
    slug = "remote-protocol-error"

    def __init__(self, reason: str, close_code: int = 1002) -> None:
        super().__init__(reason)
        self.reason = reason
        self.close_code = close_code


class HostUnsupported(OutfitterError):
    """This machine lacks what the operation needs; the message says what.

        try:
            client = await outfitter.open_local()
            await client.aclose()
        except outfitter.HostUnsupported as error:
            print(error)

    `outfitter doctor` tells all that is missing.
    """

    __module__ = _SHOWN
    slug = "host-unsupported"


class Malformed(RemoteProtocolError):
    """One message could not be read. `request_id` is its id, if that could be read."""

    __module__ = _SHOWN
    slug = "malformed-message"

    def __init__(self, detail: str, request_id: int | str = -1) -> None:
        super().__init__(detail)
        self.detail = detail
        self.request_id = request_id


class Refused(OutfitterError):
    """A server refuses a request. The text is sent to the client."""

    __module__ = _SHOWN
    slug = "refused"


class InvalidParams(Refused):
    """An argument cannot be used as given; the message says what is allowed.

        try:
            await client.files.read("notes.md", limit=-1)
        except outfitter.InvalidParams as error:
            print(error)  # limit must not be below 0, and is -1

    Nothing was sent.
    """

    __module__ = _SHOWN
    slug = "invalid-params"


class VariableInvalid(InvalidParams):
    """`variable` cannot be given to a command.

        try:
            await client.run(["true"], env={"A=B": "1"})
        except outfitter.VariableInvalid as error:
            print(error.variable)  # A=B

    Nothing was sent.
    """

    __module__ = _SHOWN
    slug = "variable-invalid"

    def __init__(self, message: str, variable: str) -> None:
        super().__init__(message)
        self.variable = variable


@fielded
class LimitExceeded(InvalidParams):
    """A request has more than a server takes: `what` has `size` `unit`; `remedy` says what to do."""

    __module__ = _SHOWN
    slug = "limit-exceeded"
    what: str
    size: int
    limit: int
    unit: str
    remedy: str

    @property
    def problem(self) -> str:
        return f"{self.what}: {self.size} {self.unit}, at most {self.limit} are allowed"

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


@fielded
class MethodUnknown(Refused):
    __module__ = _SHOWN
    slug = "method-unknown"
    method: str

    def __str__(self) -> str:
        # The reference's words: clients may look for them.
        return f"exec-server stub does not implement `{self.method}` yet"


@fielded
class Draining(Refused):
    """`since` is when it began, in UTC, for people."""

    __module__ = _SHOWN
    slug = "draining"
    since: str

    def __str__(self) -> str:
        return (
            f"this exec-server has been draining since {self.since} and takes no new sessions: use another "
            "one, or try again when it has been started again"
        )


@fielded
class OperatorOnly(Refused):
    __module__ = _SHOWN
    slug = "operator-only"
    principal: str
    what: str

    def __str__(self) -> str:
        return (
            f"only an operator may {self.what}, and you are {self.principal}: connect as the server's own "
            f"user, or start it with --operator {self.principal}"
        )


@fielded
class SessionAttached(Refused):
    __module__ = _SHOWN
    slug = "session-attached"
    session_id: str

    def __str__(self) -> str:
        return f"session {self.session_id} is already attached to another connection"


@fielded
class QuotaReached(Refused):
    """A principal holds its share of `what`; the rest of the server is for others."""

    __module__ = _SHOWN
    slug = "quota-reached"
    what: str
    held: int
    remedy: str

    def __str__(self) -> str:
        return f"you already have {self.held} {self.what}, your share of this exec-server: {self.remedy}"


class DetachRefused(Refused):
    """A command was to outlive its client for longer than the server allows: `limit` seconds."""

    __module__ = _SHOWN
    slug = "detach-refused"

    def __init__(self, message: str, limit: float) -> None:
        super().__init__(message)
        self.limit = limit


@fielded
class EnvironmentTooLarge(Refused):
    """One variable, or all of them together, is larger than a program can get."""

    __module__ = _SHOWN
    slug = "environment-too-large"
    name: str
    size: int
    total: int | None
    limit: int

    def __str__(self) -> str:
        if self.total is None:
            return (
                f"the variable {self.name} is too large: {self.size} bytes, a program can get at most "
                f"{self.limit}; remove the variable, or put its content into a file"
            )
        return (
            f"the environment is too large: {self.total} bytes, the limit is {self.limit}; the largest "
            f"variable is {self.name} with {self.size} bytes; remove it, or raise total_bytes under [limits]"
        )


@fielded
class MasksUnavailable(Refused):
    """Startup files cannot be masked on this machine; `why` is what the kernel said."""

    __module__ = _SHOWN
    slug = "masks-unavailable"
    why: str

    def __str__(self) -> str:
        return (
            f'descendants = "mask" does not work on this machine ({self.why}): allow user namespaces '
            "(`sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0`, or "
            'in a container the capability SYS_ADMIN), or write descendants = "flag" under [shell]'
        )


@fielded
class SandboxUnavailable(InvalidParams):
    """A command is to run in a sandbox, which this machine cannot make; `why` says what is missing and how to
    get it. Nothing was started."""

    __module__ = _SHOWN
    slug = "sandbox-unavailable"
    why: str

    def __str__(self) -> str:
        # The first words are the reference's.
        return f"sandbox intent cannot be enforced on this executor: {self.why}"


class Exhausted(Refused):
    """Descriptors, memory or disk are spent; `errno_name` is the symbol (`EMFILE`). It may work later."""

    __module__ = _SHOWN
    slug = "exhausted"

    def __init__(self, message: str, errno_name: str | None = None) -> None:
        super().__init__(message)
        self.errno_name = errno_name


class LaunchFailed(OutfitterError):
    """The operating system refused to start a program.

    `errno_name` is the symbol (`ENOENT`), `subject` which of "cwd", "program", "interpreter" and
    "sandbox" is at fault, and `what` the same in words, if known.
    """

    __module__ = _SHOWN
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


class FileFailed(OutfitterError):
    """A file operation that the operating system refused; `errno_name` is the symbol (`ENOENT`)."""

    __module__ = _SHOWN
    slug = "file-failed"

    def __init__(self, message: str, errno_name: str | None = None) -> None:
        super().__init__(message)
        self.errno_name = errno_name
