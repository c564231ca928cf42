"""Every exception Outfitter raises, and what each one means.

OutfitterError
├── ProtocolError               a rule of the wire was broken
│   ├── LocalProtocolError      we were about to break it
│   └── RemoteProtocolError     the other side did
│       └── Malformed           one message could not be read; the connection goes on
├── ConnectionLost
│   ├── Disconnected            while this was under way; the session goes on, or is being resumed
│   ├── SessionExpired          for good: this client is done for
│   ├── DialFailed              no connection could be made; `retryable` says whether it may work later
│   ├── OutputLost              some output of one process cannot be had any more
│   └── FileChanged             a file that was being read became another one while the connection was down
├── RequestFailed               the other side answered no (client side; keeps the code)
├── CapabilityMissing           the other side does not know how (client side)
├── Overloaded                  a bound of this client is reached; wait for something to finish
├── TimedOut                    a command took longer than its caller allowed (a TimeoutError too)
├── OutputTooLarge              a command printed more than its caller allowed
├── Refused                     we answer no: the request makes no sense in this state
│   ├── InvalidParams           the parameters cannot be read or are not allowed
│   ├── MethodUnknown           no such method here
│   ├── SessionAttached         another connection holds the session
│   ├── EnvironmentTooLarge     no program can be started with so much of it; names the variable
│   ├── LoginRejected           a command asks for a login shell, which the contract does not allow
│   ├── ProviderBlocked         a required provider may not run the project's code: nobody has allowed it
│   ├── ProviderFailed          a required provider could not say what the project's environment is
│   ├── SetupBlocked            the project's setup is required and may not run: nobody has allowed it
│   ├── SetupFailed             the project's setup is required and did not go well
│   ├── OverlayRefused          a strict contribution to the session has mistakes; nothing of it is taken
│   ├── OverlayUnknown          no configuration file has an overlay of this name
│   ├── ScopeUnknown            a session that is a copy of another one, and is not there (any more)
│   └── OverlaysFull            the server keeps as much for sessions as it may; drop what is not needed
├── LaunchFailed                the operating system did not start the program
├── FileFailed                  the operating system refused something about a file
├── HostUnsupported             this machine lacks what the operation needs
├── SettingInvalid              a flag, file or URL cannot be used as given
│   └── FileInvalid             a file has mistakes; all of them, each with its line
├── EnvironmentUnknown          no environment has this name
├── EnvironmentReplaced         the environment was replaced or dropped while this was under way
└── ContractViolated            the environment does not keep what it promises

Each class has a `slug`: a stable name that scripts and logs may rely on.
"""

from __future__ import annotations

from .earlyerrors import FileInvalid as FileInvalid
from .earlyerrors import HostUnsupported as HostUnsupported
from .earlyerrors import OutfitterError as OutfitterError
from .earlyerrors import ProtocolError as ProtocolError
from .earlyerrors import RemoteProtocolError as RemoteProtocolError
from .earlyerrors import SettingInvalid as SettingInvalid


class LocalProtocolError(ProtocolError):
    slug = "local-protocol-error"


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


class DialFailed(ConnectionLost):
    """No connection: refused, unreachable, too slow (`retryable`), or turned away (not)."""

    slug = "dial-failed"

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class OutputLost(ConnectionLost):
    slug = "output-lost"


class FileChanged(ConnectionLost):
    slug = "file-changed"


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


class CapabilityMissing(OutfitterError):
    """The executor does not offer `capability`, and there is no other way to do what was asked."""

    slug = "capability-missing"

    def __init__(self, capability: str, what: str) -> None:
        super().__init__(capability, what)
        self.capability = capability
        self.what = what

    def __str__(self) -> str:
        return f"this executor cannot {self.what}: it does not offer `{self.capability}`"


class Overloaded(OutfitterError):
    slug = "overloaded"


class TimedOut(OutfitterError, TimeoutError):
    """A command was ended because its time was up; `stdout` and `stderr` are what it had printed."""

    slug = "timed-out"

    def __init__(self, seconds: float, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"the command was ended after {self.seconds:g} s"


class OutputTooLarge(OutfitterError):
    """A command was ended because it printed more than `limit` bytes; `stdout` and `stderr` are the rest."""

    slug = "output-too-large"

    def __init__(self, limit: int, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(limit)
        self.limit = limit
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"the command was ended after {self.limit} bytes of output: stream it, or raise max_output"


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


class EnvironmentTooLarge(Refused):
    """One variable, or all of them together, is more than a program can be started with."""

    slug = "environment-too-large"

    def __init__(self, name: str, size: int, total: int | None, limit: int) -> None:
        super().__init__(name, size, total, limit)
        self.name = name
        self.size = size
        self.total = total
        self.limit = limit

    def __str__(self) -> str:
        if self.total is None:
            return (
                f"the variable {self.name} is too large: {self.size} bytes, at most {self.limit} can be "
                "passed to a program; take it away, or put its content into a file"
            )
        return (
            f"the environment is too large: {self.total} bytes, limit is {self.limit}; the largest variable "
            f"is {self.name} with {self.size} bytes; take it away, or raise [limits] total_bytes"
        )


class LoginRejected(Refused):
    """A command asks for a login shell, by the word `flag` or, if `by_name`, by the name it goes under."""

    slug = "login-rejected"

    def __init__(self, shell: str, flag: str, *, by_name: bool = False) -> None:
        super().__init__(shell, flag)
        self.shell = shell
        self.flag = flag
        self.by_name = by_name

    def __str__(self) -> str:
        how = f"its argv[0] is `{self.flag}`" if self.by_name else f"`{self.flag}`"
        return (
            f"the command asks for a login shell of {self.shell} ({how}), which is not allowed here: "
            'ask for one that is none, or set login = "strip" (started as no login shell) or "allow"'
        )


class ProviderBlocked(Refused):
    """A provider that the project requires is not trusted; `grant` is what to type."""

    slug = "provider-blocked"

    def __init__(self, provider: str, root: str, grant: str, why: str = "") -> None:
        super().__init__(provider, root, grant, why)
        self.provider = provider
        self.root = root
        self.grant = grant
        self.why = why

    def __str__(self) -> str:
        remedy = f"read it, then type: {self.grant}" if self.grant else "it cannot be allowed from here"
        why = f" ({self.why})" if self.why else ""
        return f"{self.provider} is required in {self.root} and may not run{why}: {remedy}"


class ProviderFailed(Refused):
    """A provider that the project requires did not give an environment; `stderr_tail` is its own word."""

    slug = "provider-failed"

    def __init__(self, provider: str, root: str, reason: str, stderr_tail: str = "") -> None:
        super().__init__(provider, root, reason, stderr_tail)
        self.provider = provider
        self.root = root
        self.reason = reason
        self.stderr_tail = stderr_tail

    def __str__(self) -> str:
        said = f"; it said: {self.stderr_tail.strip()}" if self.stderr_tail.strip() else ""
        return f"{self.provider} is required in {self.root} and failed: {self.reason}{said}"


class SetupBlocked(Refused):
    """The setup that the project requires is not trusted; `grant` is what to type."""

    slug = "setup-blocked"

    def __init__(self, worktree: str, grant: str) -> None:
        super().__init__(worktree, grant)
        self.worktree = worktree
        self.grant = grant

    def __str__(self) -> str:
        return f"the setup of {self.worktree} is required and may not run: read it, then type: {self.grant}"


class SetupFailed(Refused):
    """The setup that the project requires failed; `log` is where its output is, `tail` the end of that."""

    slug = "setup-failed"

    def __init__(self, worktree: str, reason: str, log: str = "", tail: str = "") -> None:
        super().__init__(worktree, reason, log, tail)
        self.worktree = worktree
        self.reason = reason
        self.log = log
        self.tail = tail

    def __str__(self) -> str:
        where = f"; its output is in {self.log}" if self.log else ""
        return (
            f"the setup of {self.worktree} is required and failed: {self.reason}{where}; mend it, then type: "
            f"outfitter setup --again {self.worktree}"
        )


class OverlayRefused(Refused):
    """A `strict` contribution has mistakes: `rejected` are all of them in words, and nothing was taken."""

    slug = "overlay-refused"

    def __init__(self, producer: str, rejected: tuple[str, ...]) -> None:
        super().__init__(producer, rejected)
        self.producer = producer
        self.rejected = rejected

    def __str__(self) -> str:
        told = "; ".join(self.rejected)
        return f"nothing of {self.producer} was taken: {told}; correct it, or leave out `strict`"


class OverlayUnknown(Refused):
    """There is no overlay `name` in the configuration; `known` are the names that there are."""

    slug = "overlay-unknown"

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        known = ", ".join(f"`{name}`" for name in self.known) or "none"
        return f"there is no overlay `{self.name}` here: add [overlays.{self.name}]; there are: {known}"


class ScopeUnknown(Refused):
    """There is no session `scope`, which by its name is a copy: it might be one that should have less."""

    slug = "scope-unknown"

    def __init__(self, scope: str) -> None:
        super().__init__(scope)
        self.scope = scope

    def __str__(self) -> str:
        parent = self.scope.rpartition("/")[0]
        return (
            f"there is no scope `{self.scope}`: with a `/` in its name it is a copy, which a fork makes, "
            "and a server that was started anew has none; "
            f"fork `{parent}` again, or choose a name without `/`"
        )


class OverlaysFull(Refused):
    """A bound on what a server keeps for sessions; `what` names it, `limit` is its number."""

    slug = "overlays-full"

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what = what
        self.limit = limit

    def __str__(self) -> str:
        return f"no room for more than {self.limit} {self.what}: environment/overlay/drop makes some"


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


class FileFailed(OutfitterError):
    """A file operation that the operating system refused; `errno_name` is the symbol (`ENOENT`)."""

    slug = "file-failed"

    def __init__(self, message: str, errno_name: str | None = None) -> None:
        super().__init__(message)
        self.errno_name = errno_name


class EnvironmentUnknown(OutfitterError):
    """There is no environment `environment_id`; `known` are the names that there are."""

    slug = "environment-unknown"

    def __init__(self, environment_id: str, known: tuple[str, ...]) -> None:
        super().__init__(environment_id, known)
        self.environment_id = environment_id
        self.known = known

    def __str__(self) -> str:
        known = ", ".join(f"`{name}`" for name in self.known) or "none"
        return f"environment `{self.environment_id}` is not configured; there are: {known}"


class EnvironmentReplaced(OutfitterError):
    """The environment is not the one of this name any more; `how` is "replaced", "dropped" or "closed"."""

    slug = "environment-replaced"

    def __init__(self, environment_id: str, how: str) -> None:
        super().__init__(environment_id, how)
        self.environment_id = environment_id
        self.how = how

    def __str__(self) -> str:
        return f"environment `{self.environment_id}` was {self.how}"


class ContractViolated(OutfitterError):
    slug = "contract-violated"
