"""Every exception Outfitter raises, and what each one means.

OutfitterError
├── ProtocolError               a message broke a rule of the protocol
│   ├── LocalProtocolError      this side was about to break a rule
│   └── RemoteProtocolError     the other side broke a rule
│       └── Malformed           one message could not be read; the connection stays open
├── ConnectionLost              (a ConnectionError too)
│   ├── Disconnected            the connection ended during this call; the session goes on or is being resumed
│   ├── SessionExpired          the session cannot be resumed; this client is unusable
│   │   └── LeaseLost           the executor of a lease is gone; `reason` says why
│   ├── DialFailed              no connection could be made; `retryable` says whether it may work later
│   ├── OutputLost              some output of one process is no longer available
│   └── FileChanged             a file was replaced during a read, while the connection was down
├── RequestFailed               the server answered with an error (client side; keeps the code)
│   ├── NotFound                a path does not exist (a FileNotFoundError too)
│   │   └── ProgramNotFound     the program of a command does not exist
│   ├── PermissionDenied        the executor's system does not allow it (a PermissionError too)
│   ├── AlreadyExists           a path exists already (a FileExistsError too)
│   ├── IsADirectory            a file is wanted (an IsADirectoryError too)
│   └── NotADirectory           a directory is wanted (a NotADirectoryError too)
├── LeaseRefused                a pool gives no executor to this caller; `reason` says why
├── EngineFailed                a pool's engine cannot be reached or says no
├── CapabilityMissing           the server does not offer what the call needs (client side)
├── Overloaded                  a limit of this client is reached; wait for a call to finish
├── TimedOut                    a command took longer than its caller allowed (a TimeoutError too)
├── OutputTooLarge              a command printed more than its caller allowed
├── CommandFailed               a command that was to succeed (`check`) exited with another code than 0
├── Refused                     a server refuses a request in its present state
│   ├── InvalidParams           the parameters cannot be read or are not allowed
│   │   ├── VariableInvalid     a variable that no command can be given
│   │   ├── LimitExceeded       they have more of something than this server takes
│   │   ├── SandboxUnavailable  they ask for a sandbox, which this machine cannot make
│   │   └── AddressRefused      they ask for an address that this server does not connect to
│   ├── MethodUnknown           this server does not have the method
│   ├── SessionAttached         another connection uses the session
│   ├── Draining                the server takes no new sessions, because it is about to end
│   ├── OperatorOnly            the request is for operators of the server
│   ├── QuotaReached            this principal holds its share; what is left is for others
│   ├── DetachRefused           the server does not keep a command for so long without a client
│   ├── EnvironmentTooLarge     no program can start with this much; names the largest variable
│   ├── LoginRejected           a command asks for a login shell, which the contract does not allow
│   ├── MasksUnavailable        startup files are to be masked, which this machine does not allow
│   ├── ProviderBlocked         a required provider may not run the project's code: nobody allowed it
│   ├── ProviderFailed          a required provider gave no environment
│   ├── SetupBlocked            the project's setup is required and may not run: nobody allowed it
│   ├── SetupFailed             the project's setup is required and failed
│   ├── OverlayRefused          a strict contribution has mistakes; nothing of it was added
│   ├── OverlayUnknown          no configuration file has an overlay with this name
│   ├── ScopeUnknown            a forked scope that this server does not have (any more)
│   ├── OverlaysFull            the server has reached a limit on overlays; drop what is not needed
│   └── Exhausted               the server or its machine has no descriptors, memory or disk left for this
├── LaunchFailed                the operating system did not start the program
├── FileFailed                  the operating system refused a file operation
├── HttpFailed                  a request to another server failed, or its answer could not be read
├── HostUnsupported             this machine lacks what the operation needs
├── AdapterMissing              the package that an adapter is for is not installed (an ImportError too)
├── SettingInvalid              a flag, file or URL cannot be used as given
│   └── FileInvalid             a file has mistakes; all of them, each with its line
├── EnvironmentUnknown          no environment has this name
├── EnvironmentReplaced         the environment was replaced or dropped during this call
└── ContractViolated            the environment does not meet its contract
    └── LaunchRefused           the launch of an agent breaks its launch contract; names every broken rule

Each class has a `slug`: a stable name that scripts and logs may rely on.
"""

from __future__ import annotations

from .earlyerrors import FileInvalid as FileInvalid
from .earlyerrors import OutfitterError as OutfitterError
from .earlyerrors import SettingInvalid as SettingInvalid
from .refusals import DetachRefused as DetachRefused
from .refusals import Draining as Draining
from .refusals import EnvironmentTooLarge as EnvironmentTooLarge
from .refusals import Exhausted as Exhausted
from .refusals import FileFailed as FileFailed
from .refusals import HostUnsupported as HostUnsupported
from .refusals import InvalidParams as InvalidParams
from .refusals import LaunchFailed as LaunchFailed
from .refusals import LimitExceeded as LimitExceeded
from .refusals import Malformed as Malformed
from .refusals import MasksUnavailable as MasksUnavailable
from .refusals import MethodUnknown as MethodUnknown
from .refusals import OperatorOnly as OperatorOnly
from .refusals import ProtocolError as ProtocolError
from .refusals import QuotaReached as QuotaReached
from .refusals import Refused as Refused
from .refusals import RemoteProtocolError as RemoteProtocolError
from .refusals import SandboxUnavailable as SandboxUnavailable
from .refusals import SessionAttached as SessionAttached
from .refusals import VariableInvalid as VariableInvalid
from .refusals import fielded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, TypedDict

    class Broken(Protocol):
        """A broken rule of a launch contract (agents.spec.Violation)."""

        @property
        def rule(self) -> str: ...
        @property
        def name(self) -> str: ...

    class ErrorData(TypedDict, total=False):
        """What Outfitter's servers say with an error; other servers have members of their own."""

        error: str  # the slug of the class that the server raised
        errno: str  # the symbol of the operating system's error: "ENOENT"
        reason: str  # why a program was not started
        subject: str  # what was at fault then: "cwd", "program", "interpreter", "sandbox"


_SAID_BYTES = 2000  # of a failed command's last words in a message: a screen full


class LocalProtocolError(ProtocolError):
    slug = "local-protocol-error"


class ConnectionLost(OutfitterError, ConnectionError):
    """The connection is lost, or something with it. It is a ConnectionError too.

        try:
            await outfitter.open("ws://127.0.0.1:1")
        except ConnectionError as error:
            print(error.slug)  # dial-failed

    The classes below it say what is lost, and what to do.
    """

    slug = "connection-lost"


class Disconnected(ConnectionLost):
    """The connection ended during this call; the session goes on, or is being resumed.

        try:
            await client.call("environment/status", None)
        except outfitter.Disconnected:
            pass  # the server may have done it: look, then ask again

    `call` with `repeat` asks again by itself.
    """

    slug = "disconnected"


class SessionExpired(ConnectionLost):
    """The session is over or cannot be resumed: make a new client.

        client = await outfitter.open("build")
        await client.aclose()
        try:
            await client.run(["make"])
        except outfitter.SessionExpired as error:
            print(error)  # the client is closed

    Every later call of that client raises it.
    """

    slug = "session-expired"


class LeaseLost(SessionExpired):
    """The executor of a lease is gone, and what ran there with it.

        lease = pool.lease()
        try:
            async with lease as client:
                await client.run(["make", "html"])
        except outfitter.LeaseLost as error:
            print(error.reason, error.node, error.detail)
            await lease.fenced()  # from now on somebody else may do the work

    `reason` is "node-lost", "executor-ended", "out-of-memory", "silent" or "engine-lost", and `detail` says
    it in words; `node` is the engine's name of its node. After `fenced_after` more seconds nothing of it can
    run any more.
    """

    slug = "lease-lost"

    def __init__(self, reason: str, node: str, detail: str, *, fenced_after: float) -> None:
        super().__init__(reason, node, detail)
        self.reason = reason
        self.node = node
        self.detail = detail
        self.fenced_after = fenced_after

    def __reduce__(self) -> tuple[object, ...]:
        return _lease_lost, (self.reason, self.node, self.detail, self.fenced_after)

    def __str__(self) -> str:
        where = f" on {self.node}" if self.node else ""
        said = f"the executor{where} is lost ({self.reason}): {self.detail}"
        if self.fenced_after:
            said += f"; its last command ends within {self.fenced_after:.0f} s"
        return said


def _lease_lost(reason: str, node: str, detail: str, fenced_after: float) -> LeaseLost:
    return LeaseLost(reason, node, detail, fenced_after=fenced_after)


class LeaseRefused(OutfitterError):
    """A lease was never given, so nothing ran.

        try:
            async with pool.lease(cpus=10_000):
                pass
        except outfitter.LeaseRefused as error:
            print(error.reason)  # impossible

    `reason` is "queue-full", "timed-out", "impossible", "setup-failed", "draining" or "start-failed"; it is
    in words in `detail`.
    """

    slug = "lease-refused"

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"no executor ({self.reason}): {self.detail}"


class EngineFailed(OutfitterError):
    """The engine of a pool cannot be reached, or said no.

        try:
            await pool.refresh()
        except outfitter.EngineFailed as error:
            print(error, error.retryable)

    `retryable`: the same call may work later.
    """

    slug = "engine-failed"

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class DialFailed(ConnectionLost):
    """No connection could be made. `retryable` is false if the server rejected the client; `status` is what
    it answered in HTTP, where it did; `refused` says that nobody listens at the address.

        try:
            await outfitter.open("ws://127.0.0.1:1")
        except outfitter.DialFailed as error:
            print(error.retryable)  # True

    It is a ConnectionError too.
    """

    slug = "dial-failed"

    def __init__(
        self, message: str, *, retryable: bool, status: int | None = None, refused: bool = False
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status
        self.refused = refused


class OutputLost(ConnectionLost):
    """Some output of a command is no longer available.

        process = await client.start(["make"])
        try:
            async for event in process:
                print(event)
        except outfitter.OutputLost:
            print("exit code:", await process.wait())

    It was not read in time: a server keeps the newest megabyte of each command.
    """

    slug = "output-lost"


class FileChanged(ConnectionLost):
    slug = "file-changed"


class RequestFailed(OutfitterError):
    """The server answered a request with an error; `code`, `message` and `data` are what it sent.

        try:
            await client.files.read("no-such-file")
        except outfitter.RequestFailed as error:
            print(error.errno, error.path)  # 2 no-such-file

    `data` is None if the server sent no object; `sent` has all three as they came. `errno` is the number of
    the operating system's error on this machine, and `path` or `program` what the request was about, where
    they are known. `as_oserror` is for callers who know Python's own errors alone.
    """

    slug = "request-failed"
    errno: int | None
    path: str | None
    program: str | None

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(code, message, data)
        self.args = self.sent = (code, message, data)  # an OSError would read them in its own way
        self.code = code
        self.message = message
        self.data: ErrorData | None = data if isinstance(data, dict) else None  # type: ignore[assignment]
        self.errno = self.path = self.program = None

    def __reduce__(self) -> tuple[object, ...]:
        # As an OSError it has some of them in places that nobody would copy.
        more = {name: getattr(self, name) for name in ("errno", "filename") if hasattr(self, name)}
        return type(self), self.sent, {**self.__dict__, **more}

    def as_oserror(self, path: str | None = None) -> OSError:
        """Python's own error of the same kind, as if the file were here; `path` if it had another name.

            try:
                await client.files.read("no-such-file")
            except outfitter.RequestFailed as error:
                print(error.as_oserror())  # [Errno 2] No such file or directory: 'no-such-file'

        Without an `errno` it is EIO.
        """
        from errno import EIO

        named = next((one for one in (path, self.path, self.program) if one is not None), None)
        said = self.message.partition(" (os error ")[0]
        return OSError(EIO if self.errno is None else self.errno, said, named)

    def __str__(self) -> str:
        reason = None if self.data is None else self.data.get("reason")
        said = f"{self.message}: {reason}" if isinstance(reason, str) else self.message
        named = self.path if self.path is not None else self.program
        if named is not None and named not in said:
            said = f"{named}: {said}"
        return f"{said} (code {self.code})"


class NotFound(RequestFailed, FileNotFoundError):
    """`path` does not exist on the executor.

        try:
            await client.files.read("no-such-file")
        except FileNotFoundError as error:
            print(error.path)  # no-such-file

    It is a FileNotFoundError too.
    """

    slug = "not-found"


class ProgramNotFound(NotFound):
    """`program` does not exist on the executor, or not in the command's PATH.

        try:
            await client.run(["no-such-program"])
        except outfitter.ProgramNotFound as error:
            print(error.program)  # no-such-program

    It is a FileNotFoundError too.
    """

    slug = "program-not-found"


class PermissionDenied(RequestFailed, PermissionError):
    """The executor's operating system does not allow it.

        try:
            await client.run(["./notes.md"])
        except PermissionError as error:
            print(error.program, error.errno)  # ./notes.md 13

    It is a PermissionError too. `path` is what it is about where that is a file.
    """

    slug = "permission-denied"


class AlreadyExists(RequestFailed, FileExistsError):
    """`path` exists already on the executor.

        try:
            await client.files.make_directory("src", recursive=False)
        except FileExistsError as error:
            print(error.path)  # src

    It is a FileExistsError too.
    """

    slug = "already-exists"


class IsADirectory(RequestFailed, IsADirectoryError):
    """`path` is a directory, and a file is wanted.

        try:
            await client.files.read("src")
        except IsADirectoryError as error:
            print(error.path)  # src

    It is an IsADirectoryError too.
    """

    slug = "is-a-directory"


class NotADirectory(RequestFailed, NotADirectoryError):
    """`path`, or something on the way to it, is not a directory.

        try:
            await client.files.list("notes.md")
        except NotADirectoryError as error:
            print(error.path)  # notes.md

    It is a NotADirectoryError too.
    """

    slug = "not-a-directory"


class CapabilityMissing(OutfitterError):
    """The executor does not offer `capability`, which the call needs.

        try:
            client.require("teleport", "move a command to another machine")
        except outfitter.CapabilityMissing as error:
            print(error.capability)  # teleport

    `what` is what the executor cannot do without it. Other servers than Outfitter's may lack some.
    """

    slug = "capability-missing"

    def __init__(self, capability: str, what: str) -> None:
        super().__init__(capability, what)
        self.capability = capability
        self.what = what

    def __str__(self) -> str:
        return f"this executor cannot {self.what}: it does not offer `{self.capability}`"


class Overloaded(OutfitterError):
    """This client has reached a limit: wait for a call to end, or give `max_concurrency`.

        try:
            done = await client.run(["make"])
        except outfitter.Overloaded as error:
            print(error)

        async with outfitter.connect("build", max_concurrency=64) as client:
            done = await client.run(["make"])  # waits for its turn

    Nothing was sent.
    """

    slug = "overloaded"


class TimedOut(OutfitterError, TimeoutError):
    """A command was ended at its timeout; `stdout` and `stderr` are what it had printed.

        try:
            await client.run(["sleep", "60"], timeout=0.1)
        except TimeoutError as error:
            print(error)  # the command was ended after 0.1 s

    It is a TimeoutError too. `seconds` is the timeout.
    """

    slug = "timed-out"

    def __init__(self, seconds: float, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"the command was ended after {self.seconds:g} s"


class OutputTooLarge(OutfitterError):
    """A command was ended because it printed more than `limit` bytes, kept in `stdout` and `stderr`.

        try:
            await client.run(["echo", "hello"], max_output=2)
        except outfitter.OutputTooLarge as error:
            print(error.stdout)  # b'he'

    `overflow` of `run` keeps a part instead.
    """

    slug = "output-too-large"

    def __init__(self, limit: int, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(limit)
        self.limit = limit
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"the command was ended after {self.limit} bytes of output: stream it, or raise max_output"


class CommandFailed(OutfitterError):
    """A command that was to succeed did not: its `command`, `exit_code`, `stdout` and `stderr`.

        try:
            await client.run(["sh", "-c", "echo no >&2; exit 3"], check=True)
        except outfitter.CommandFailed as error:
            print(error.exit_code, error.stderr.split())  # 3 [b'no']

    Only `check` and `lines` raise it.
    """

    slug = "command-failed"

    def __init__(self, command: tuple[str, ...], exit_code: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(command, exit_code, stdout, stderr)
        self.command = command
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        program = self.command[0] if self.command else "the command"
        said = self.stderr[-_SAID_BYTES:].decode(errors="replace").strip()
        return f"{program} exited with {self.exit_code}" + (f": {said}" if said else "")


class AdapterMissing(OutfitterError, ImportError):
    """`peer` is the package that an adapter is for, and the extra that brings it."""

    slug = "adapter-missing"

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.peer = peer

    def __str__(self) -> str:
        return f"the package {self.peer} is not installed: pip install 'outfitter[{self.peer}]'"


class LoginRejected(Refused):
    """A command asks for a login shell, by its flag `flag` or, if `by_name`, by its argv[0].

    `in_text`: not the command itself asks, but what it visibly starts; then `flag` is a sentence about it.
    """

    slug = "login-rejected"

    def __init__(self, shell: str, flag: str, *, by_name: bool = False, in_text: bool = False) -> None:
        super().__init__(shell, flag)
        self.shell = shell
        self.flag = flag
        self.by_name = by_name
        self.in_text = in_text

    def __str__(self) -> str:
        if self.in_text:
            return (
                f"{self.flag}, which is not allowed here: start a non-login shell in it, or set "
                'login = "strip" or "allow" (both let it run)'
            )
        how = f"its argv[0] is `{self.flag}`" if self.by_name else f"`{self.flag}`"
        return (
            f"the command asks for a login shell of {self.shell} ({how}), which is not allowed here: start "
            'a non-login shell, or set login = "strip" (drops the flag) or "allow"'
        )


@fielded
class AddressRefused(InvalidParams):
    """http/request leads to an `address` that this server does not connect to, by the rule `network`."""

    slug = "address-refused"
    address: str
    network: str

    def __str__(self) -> str:
        return (
            f"http/request failed: this exec-server does not connect to {self.address}, which is in "
            f"{self.network}: use another address, or have an operator allow it with --http-allow"
        )


@fielded
class ProviderBlocked(Refused):
    """A required provider is not trusted; `grant` is the command that allows it."""

    slug = "provider-blocked"
    provider: str
    root: str
    grant: str
    why: str = ""

    def __str__(self) -> str:
        remedy = f"read its files, then type: {self.grant}" if self.grant else "nothing here can allow it"
        why = f" ({self.why})" if self.why else ""
        return f"{self.provider} is required in {self.root} and may not run{why}: {remedy}"


@fielded
class ProviderFailed(Refused):
    """A required provider gave no environment; `stderr_tail` is the end of what it printed."""

    slug = "provider-failed"
    provider: str
    root: str
    reason: str
    stderr_tail: str = ""

    def __str__(self) -> str:
        said = f"; it printed: {self.stderr_tail.strip()}" if self.stderr_tail.strip() else ""
        return f"{self.provider} is required in {self.root} and failed: {self.reason}{said}"


@fielded
class SetupBlocked(Refused):
    """The required setup is not trusted; `grant` is the command that allows it."""

    slug = "setup-blocked"
    worktree: str
    grant: str

    def __str__(self) -> str:
        return (
            f"the setup of {self.worktree} is required and may not run: read its files, then type: "
            f"{self.grant}"
        )


@fielded
class SetupFailed(Refused):
    """The required setup failed; `log` is the file with its output, `tail` the end of that."""

    slug = "setup-failed"
    worktree: str
    reason: str
    log: str = ""
    tail: str = ""

    def __str__(self) -> str:
        where = f"; its output is in {self.log}" if self.log else ""
        return (
            f"the setup of {self.worktree} is required and failed: {self.reason}{where}; fix it, then type: "
            f"outfitter setup --again {self.worktree}"
        )


@fielded
class OverlayRefused(Refused):
    """A `strict` contribution has mistakes, all listed in `rejected`; nothing was added."""

    slug = "overlay-refused"
    producer: str
    rejected: tuple[str, ...]

    def __str__(self) -> str:
        told = "; ".join(self.rejected)
        return f"nothing from {self.producer} was added: {told}; correct this, or leave out `strict`"


@fielded
class OverlayUnknown(Refused):
    """The configuration has no overlay `name`; `known` lists its overlays."""

    slug = "overlay-unknown"
    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        known = ", ".join(f"`{name}`" for name in self.known) or "none"
        return f"no overlay is named `{self.name}` here: add [overlays.{self.name}], or use one of: {known}"


@fielded
class ScopeUnknown(Refused):
    """The server has no scope `scope`, whose name says that it is a fork."""

    slug = "scope-unknown"
    scope: str

    def __str__(self) -> str:
        parent = self.scope.rpartition("/")[0]
        return (
            f"this server has no scope `{self.scope}`: a name with `/` is a fork, and forks are lost when "
            f"the server restarts; fork `{parent}` again, or choose a name without `/`"
        )


@fielded
class OverlaysFull(Refused):
    """A limit on the overlays of a server is reached; `what` names it, `limit` is its number.

    `held` is how much of it this principal has, where that is its share and the rest is for others.
    """

    slug = "overlays-full"
    what: str
    limit: int
    held: int | None = None

    def __str__(self) -> str:
        if self.held is not None:
            return (
                f"you already have {self.held} {self.what}, your share of the {self.limit} of this "
                "exec-server: free some with environment/overlay/drop"
            )
        return f"the limit of {self.limit} {self.what} is reached: free some with environment/overlay/drop"


class HttpFailed(OutfitterError):
    """A request to another server failed, or its answer could not be read to the end."""

    slug = "http-failed"


class EnvironmentUnknown(OutfitterError):
    """No environment is named `environment_id`; `known` lists the names.

        try:
            await outfitter.open("biuld")
        except outfitter.EnvironmentUnknown as error:
            print(error)

    The message names what there is.
    """

    slug = "environment-unknown"

    def __init__(self, environment_id: str, known: tuple[str, ...]) -> None:
        super().__init__(environment_id, known)
        self.environment_id = environment_id
        self.known = known

    def __str__(self) -> str:
        known = ", ".join(f"`{name}`" for name in self.known) or "none"
        return f"environment `{self.environment_id}` is not configured; known: {known}"


@fielded
class EnvironmentReplaced(OutfitterError):
    """The environment is gone; `how` is "replaced", "dropped" or "closed"."""

    slug = "environment-replaced"
    environment_id: str
    how: str

    def __str__(self) -> str:
        return f"environment `{self.environment_id}` was {self.how}"


class ContractViolated(OutfitterError):
    """The environment, or a launch, does not meet its contract; the message names what is missing.

        from outfitter.agents import CommandSpec, Kind, LaunchContract, Task, backend

        contract = LaunchContract("mine", (Kind("skill", requires=("RUN_ID",)),))
        try:
            task = Task("fix the tests", cwd="/srv/app")
            CommandSpec(contract, backend("codex"), "skill", task, base={})
        except outfitter.ContractViolated as error:
            print("RUN_ID" in str(error))  # True

    Nothing was started.
    """

    slug = "contract-violated"


@fielded
class LaunchRefused(ContractViolated):
    """The launch of an agent breaks its contract. `violations` has every broken rule, with its name."""

    slug = "launch-refused"
    backend: str
    kind: str
    violations: tuple[Broken, ...]

    def __str__(self) -> str:
        found = "; ".join(map(str, self.violations))
        return f"{self.backend} cannot be launched as `{self.kind}`: {found}"
