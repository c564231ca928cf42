"""Params, results and notices of process/*.

`encode` is what a client sends, `decode` what a server reads; both ends share the class. Members that
only Outfitter knows (`size`, `contract`, `eof`, `graceMs`) are optional and advertised as capabilities.
"""

from __future__ import annotations

from ..record import quick_record, record
from ..refusals import InvalidParams, LimitExceeded
from . import base64
from .fields import Fields, unsigned, wrong
from .jsontext import dumps, quote
from .results import Result, flag
from .shape import Shape, member, shape
from .uri import FileUri
from .wishes import ContractParams, EnvPolicyParams, ShellSnapshotParams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from .documents import EnvironmentSummary
    from .jsontext import Json
    from .network import NetworkParams
    from .sandbox import SandboxContext

    class Numbered(Protocol):
        """A piece of output with its number (core.output.Chunk)."""

        @property
        def seq(self) -> int: ...
        @property
        def stream(self) -> bytes: ...
        @property
        def data(self) -> bytes | memoryview: ...


STREAMS = ("stdout", "stderr", "pty")
_LONG_WRITE = 8 << 20  # characters of base64 that are decoded in 10 ms
MAX_TERMINAL_SIDE = 0xFFFF  # the kernel's winsize holds unsigned shorts


def _check_sides(fields: Fields) -> None:
    if not all(0 < fields.unsigned(side) <= MAX_TERMINAL_SIDE for side in ("rows", "cols")):
        raise InvalidParams(f"terminal size must be between 1 and {MAX_TERMINAL_SIDE} rows and columns")


@shape(check=_check_sides)
class TerminalSize(Shape):
    rows: int
    cols: int


@quick_record
class DetachedParams:
    """How long a command may run without a client: None means to its end."""

    for_ms: int | None = None


# What most requests do not have, or as null: to ask for each takes as long as to read all the others.
_RARE = (
    *("envPolicy", "size", "contract", "detached", "metadata", "shellSnapshot"),
    *("sandbox", "managedNetwork", "networkProxy"),
)
_ABSENT = [None] * len(_RARE)
_MANAGED = "enforceManagedNetwork"  # may not be null


# Older versions of the stock client say it to their commands alone.
THREAD_VARIABLE = "CODEX_THREAD_ID"


@quick_record
class StartParams:
    """process/start. With `detached` (ours) the command outlives its client. `thread_id` is the agent's
    thread. `sandbox` is what the command may do, `network` how it reaches others. `snapshot` is the state
    that its shell starts with."""

    process_id: str
    argv: list[str]
    cwd: FileUri
    env: dict[str, str]
    tty: bool
    env_policy: EnvPolicyParams | None = None
    pipe_stdin: bool = False
    arg0: str | None = None
    size: TerminalSize | None = None
    tool_call_id: str | None = None
    contract: ContractParams | None = None
    detached: DetachedParams | None = None
    thread_id: str | None = None
    sandbox: SandboxContext | None = None
    network: NetworkParams | None = None
    snapshot: ShellSnapshotParams | None = None

    @classmethod
    def decode(cls, params: Json) -> StartParams:
        fields = Fields(params, "ExecParams")
        said = fields.members.get
        if list(map(said, _RARE)) == _ABSENT and said(_MANAGED, False) is False:
            return cls(
                fields.ident("processId"),
                _argv(fields),
                fields.uri("cwd"),
                fields.variables("env"),
                fields.flag("tty"),
                None,
                fields.flag_or("pipeStdin", False),
                fields.text_or_none("arg0"),
            )
        policy = fields.object_or_none("envPolicy", "ExecEnvPolicy")
        size = fields.object_or_none("size", "TerminalSize")
        contract = fields.object_or_none("contract", "ContractParams")
        detached = fields.object_or_none("detached", "DetachedParams")
        thread, tool_call = _metadata(fields.object_or_none("metadata", "ExecMetadata"))
        snapshot = fields.object_or_none("shellSnapshot", "ShellSnapshotRequest")
        sandbox = fields.raw_or_none("sandbox")
        return cls(
            fields.ident("processId"),
            _argv(fields),
            fields.uri("cwd"),
            fields.variables("env"),
            fields.flag("tty"),
            None if policy is None else EnvPolicyParams.decode(policy),
            fields.flag_or("pipeStdin", False),
            fields.text_or_none("arg0"),
            None if size is None else TerminalSize.decode(size),
            tool_call,
            None if contract is None else ContractParams.decode(contract),
            None if detached is None else DetachedParams(detached.unsigned_or_none("forMs")),
            thread,
            None if sandbox is None else _sandbox(sandbox),
            _network(fields),
            None if snapshot is None else ShellSnapshotParams.decode(snapshot),
        )

    @property
    def thread(self) -> str | None:
        """The agent's thread, by whichever name its client has for it."""
        if self.thread_id is not None:
            return self.thread_id
        said = self.env.get(THREAD_VARIABLE)
        return said if said is not None and _is_uuid(said) else None

    def encode(self) -> Json:
        params = {
            "processId": self.process_id,
            "argv": self.argv,
            "cwd": self.cwd.text,
            "env": self.env,
            "tty": self.tty,
            "envPolicy": None if self.env_policy is None else self.env_policy.encode(),
            "pipeStdin": self.pipe_stdin,
            "arg0": self.arg0,
        }
        if self.size is not None:
            params["size"] = self.size.encode()
        if self.contract is not None:
            params["contract"] = self.contract.encode()
        if self.network is not None:
            params["enforceManagedNetwork"] = self.network.enforced
            params["networkProxy"] = None if self.network.proxy is None else self.network.proxy.encode()
        if self.detached is not None:
            params["detached"] = {"forMs": self.detached.for_ms}
        if self.sandbox is not None:
            params["sandbox"] = self.sandbox.encode()
        if self.snapshot is not None:
            params["shellSnapshot"] = self.snapshot.encode()
        metadata = {"threadId": self.thread_id, "toolCallId": self.tool_call_id}
        if metadata := {name: text for name, text in metadata.items() if text is not None}:
            params["metadata"] = metadata
        return params


def _sandbox(value: Json) -> SandboxContext:
    from .sandbox import SandboxContext  # most commands run without

    return SandboxContext.decode(value)


# Arguments of one command: to hand over so many takes 20 ms. Who has more writes them into a file.
MAX_ARGUMENTS = 32_768


def _argv(fields: Fields) -> list[str]:
    found = fields.texts("argv")
    if len(found) > MAX_ARGUMENTS:
        raise LimitExceeded(
            "`argv`", len(found), MAX_ARGUMENTS, "arguments", "put them into a file, or use several commands"
        )
    return found


def _metadata(metadata: Fields | None) -> tuple[str | None, str | None]:
    """The agent's thread, and its call of a tool."""
    if metadata is None:
        return None, None
    thread = metadata.text_or_none("threadId")
    if thread is not None and not _is_uuid(thread):
        raise InvalidParams("invalid metadata.threadId: expected a UUID")
    return thread, metadata.text_or_none("toolCallId")


def _is_uuid(text: str) -> bool:
    digits = text.removeprefix("urn:uuid:").strip("{}").replace("-", "")
    return len(digits) == 32 and not digits.strip("0123456789abcdefABCDEF")


def _network(fields: Fields) -> NetworkParams | None:
    """What is said about the network; most often all of it is null or false."""
    said = fields.members.get
    if said("networkProxy") is said("managedNetwork") is None and said(_MANAGED, False) is False:
        return None
    from .network import NetworkParams

    return NetworkParams.decode(fields)


@shape()
class ReadParams(Shape):
    process_id: str = member(Fields.ident)
    after_seq: int = member(default=0, null=True)
    max_bytes: int | None = None
    wait_ms: int = member(default=0, null=True)


@quick_record
class WriteParams:
    """process/write. `eof` (ours) closes stdin after the chunk; on a terminal it types Ctrl-D.

    Of a very long message `chunk` is a Blob: to decode it takes longer than anybody else should wait.
    """

    process_id: str
    chunk: bytes | base64.Blob
    write_id: str
    eof: bool = False

    @classmethod
    def decode(cls, params: Json) -> WriteParams:
        fields = Fields(params, "WriteParams")
        chunk = fields.members.get("chunk")
        if type(chunk) is not base64.Blob or len(chunk) <= _LONG_WRITE:
            chunk = fields.base64("chunk")
        write_id = fields.ident("writeId")
        if not write_id:
            raise InvalidParams("writeId must not be empty")
        return cls(fields.ident("processId"), chunk, write_id, fields.flag_or("eof", False))

    @property
    def data(self) -> bytes:
        """The bytes. Raises InvalidParams."""
        return self.chunk if isinstance(self.chunk, bytes) else b"".join(self.chunk.decode())

    def encode(self) -> Json:
        params: dict[str, Json] = {
            "processId": self.process_id,
            "chunk": base64.encode_text(self.data),
            "writeId": self.write_id,
        }
        if self.eof:
            params["eof"] = True
        return params


# What a client may send beside "interrupt" (ours): what programs wait for, and job control.
SIGNALS = ("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "ALRM", "TERM", "CONT", "STOP", "TSTP", "WINCH")


def _signal(fields: Fields, name: str) -> str:
    found = fields.members.get(name)
    if found in SIGNALS:
        return str(found)
    return fields.choice(name, ("interrupt",))  # the reference's words for anything else


@shape()
class SignalParams(Shape):
    process_id: str = member(Fields.ident)
    signal: str = member(_signal, default="interrupt", required=True)


@shape()
class TerminateParams(Shape):
    """process/terminate. `grace_ms` (ours) asks for SIGTERM first and SIGKILL that much later."""

    process_id: str = member(Fields.ident)
    grace_ms: int = member(default=0, null=True, omit=True)


def _check_size(fields: Fields) -> None:
    if fields.object_or_none("size", "TerminalSize") is None:
        raise wrong(None, "struct TerminalSize")


@shape(before=_check_size)
class ResizeParams(Shape):
    """process/resize (ours)."""

    process_id: str = member(Fields.ident)
    size: TerminalSize


@shape()
class HoldParams(Shape):
    """process/hold (ours): send no more of its output, or send it again."""

    process_id: str = member(Fields.ident)
    held: bool


# Results


def piece(fields: Fields) -> tuple[int, str, bytes]:
    """A piece of output: its number, its stream, its bytes."""
    stream = fields.choice("stream", STREAMS)
    return unsigned(fields.raw("seq")), stream, fields.base64("chunk")


@quick_record
class StartResult(Result):
    """process/start. Ours: `warnings` about the project's environment and the `pid`, for a client that sent a
    `contract`, and a summary of the command's `environment`, for one that asked for summaries."""

    process_id: str
    sandbox_type: str = "none"
    warnings: tuple[str, ...] = ()
    environment: EnvironmentSummary | None = None
    pid: int | None = None

    @classmethod
    def decode(cls, result: Json) -> StartResult:
        fields = Fields(result, "StartResult")
        return cls(
            fields.text("processId"),
            fields.text_or_none("sandboxType") or "none",
            tuple(fields.texts("warnings")) if "warnings" in fields else (),
            fields.document("environment"),
            fields.unsigned_or_none("pid"),
        )

    def wire(self) -> str:
        more = f',"warnings":{dumps(list(self.warnings))}' if self.warnings else ""
        if self.pid is not None:
            more += f',"pid":{self.pid}'
        if self.environment is not None:
            more += f',"environment":{dumps(self.environment)}'
        return f'{{"processId":{quote(self.process_id)},"sandboxType":"{self.sandbox_type}"{more}}}'


@quick_record
class WriteResult(Result):
    """process/write: what became of the bytes."""

    status: str

    @classmethod
    def decode(cls, result: Json) -> WriteResult:
        return cls(Fields(result, "WriteResult").text("status"))

    def wire(self) -> str:
        return f'{{"status":"{self.status}"}}'


ACCEPTED = WriteResult("accepted")
STDIN_CLOSED = WriteResult("stdinClosed")
UNKNOWN_PROCESS = WriteResult("unknownProcess")


@shape()
class TerminateResult(Result):
    """process/terminate: whether the command was still running."""

    running: bool


@record
class ReadResult(Result):
    """process/read; `chunks` are (number, stream, bytes). `dropped_bytes` (ours) were lost before them,
    `signal` (ours) has ended the command, for a `reason` (ours) of the machine's."""

    chunks: list[tuple[int, str, bytes]]
    next_seq: int
    exited: bool
    exit_code: int | None
    closed: bool
    failure: str | None = None
    sandbox_denied: bool = False
    dropped_bytes: int = 0
    signal: int | None = None
    reason: str | None = None

    @classmethod
    def decode(cls, result: Json) -> ReadResult:
        fields = Fields(result, "ReadResult")
        chunks = fields.items("chunks")
        code = fields.raw_or_none("exitCode")
        if code is not None and type(code) is not int:
            raise wrong(code, "i32")
        return cls(
            [piece(Fields(one, "Chunk")) for one in chunks],
            unsigned(fields.raw("nextSeq")),
            fields.flag_or("exited", False),
            code,
            fields.flag_or("closed", False),
            fields.text_or_none("failure"),
            fields.flag_or("sandboxDenied", False),
            fields.unsigned_or_none("droppedBytes") or 0,
            fields.unsigned_or_none("signal"),
            fields.text_or_none("reason"),
        )

    def wire(self) -> str:
        chunks = ",".join(
            [
                f'{{"seq":{seq},"stream":"{stream}","chunk":"{base64.encode_text(data)}"}}'
                for seq, stream, data in self.chunks
            ]
        )
        code = "null" if self.exit_code is None else self.exit_code
        failure = "null" if self.failure is None else quote(self.failure)
        # Only when something is missing, so that an answer without loss is the reference's to the letter.
        more = f',"droppedBytes":{self.dropped_bytes}' if self.dropped_bytes else ""
        more += f',"signal":{self.signal}' if self.signal is not None else ""
        more += f',"reason":"{self.reason}"' if self.reason is not None else ""
        return (
            f'{{"chunks":[{chunks}],"nextSeq":{self.next_seq},"exited":{flag(self.exited)},'
            f'"exitCode":{code},"closed":{flag(self.closed)},"failure":{failure},'
            f'"sandboxDenied":{flag(self.sandbox_denied)}{more}}}'
        )


# Notices. These are most of what a server sends, so they are formatted by hand: building and encoding
# a dict costs 5 us where the format costs 1, and base64 text never needs escaping.


def encoded(environment: Json) -> bytes:
    """What became of a command's environment, as it goes with `Notices.exited`."""
    return dumps(environment).encode()


class Notices:
    """Formats the notices of one process; its id is quoted once.

    Output comes as parts of one message: joining them would copy every byte once more.
    """

    __slots__ = ("_ident",)

    def __init__(self, process_id: str) -> None:
        self._ident = quote(process_id).encode()

    def output(self, chunk: Numbered) -> tuple[bytes, bytes, bytes]:
        return _OUTPUT % (self._ident, chunk.seq, chunk.stream), base64.encode(chunk.data), b'"}}'

    def exited(
        self,
        seq: int,
        exit_code: int,
        environment: bytes = b"",
        *,
        denied: bool = False,
        signal: int | None = None,
        reason: str | None = None,
    ) -> bytes:
        """`environment` (ours) is JSON text about what became of the command's environment; `signal` (ours)
        has ended it, for a `reason` (ours) of the machine's."""
        extra = b',"environment":%b' % environment if environment else b""
        if signal is not None:
            extra += b',"signal":%d' % signal
        if reason is not None:
            extra += b',"reason":"%b"' % reason.encode()
        return _EXITED % (self._ident, seq, exit_code, b"true" if denied else b"false", extra)

    def closed(self, seq: int) -> bytes:
        return _CLOSED % (self._ident, seq)


_OUTPUT = b'{"method":"process/output","params":{"processId":%b,"seq":%d,"stream":"%b","chunk":"'
_EXITED = b'{"method":"process/exited","params":{"processId":%b,"seq":%d,"exitCode":%d,"sandboxDenied":%b%b}}'
_CLOSED = b'{"method":"process/closed","params":{"processId":%b,"seq":%d}}'
