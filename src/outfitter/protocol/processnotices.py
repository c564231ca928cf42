"""Notices of process/*, as a client reads them. A server writes them by hand: `process.Notices`."""

from __future__ import annotations

from ..record import quick_record
from . import base64
from .fields import Fields, unsigned, wrong
from .process import piece

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from .documents import StartupReport
    from .jsontext import Json


@quick_record
class OutputNotice:
    process_id: str
    seq: int
    stream: str
    data: bytes

    @classmethod
    def decode(cls, params: Json) -> OutputNotice:
        fields = Fields(params, "OutputNotice")
        return cls(fields.text("processId"), *piece(fields))


def quick_output(message: bytes) -> OutputNotice | None:
    """A process/output as servers write it, read without building its JSON; None for anything else.

    Most bytes a client gets are in these messages, and parsing them as JSON takes six times as long as
    decoding their base64.
    """
    head = _quick_head()(message)
    if head is None or message[-3:] != b'"}}':
        return None
    try:
        data = base64.decode_bytes(memoryview(message)[head.end() : -3])
        return OutputNotice(str(head[1], "utf-8"), int(head[2]), str(head[3], "ascii"), data)
    except ValueError:
        return None  # the long way says what is wrong with it


def _quick_head() -> Callable[[bytes], re.Match[bytes] | None]:
    global _match_head
    if _match_head is None:
        import re  # a server never gets here, and starts without it

        _match_head = re.compile(
            rb'\{"method":"process/output","params":\{"processId":"([^"\\\x00-\x1f]{0,512})",'
            rb'"seq":([1-9]\d{0,17}),"stream":"(stdout|stderr|pty)","chunk":"'
        ).match
    return _match_head


_match_head: Callable[[bytes], re.Match[bytes] | None] | None = None


@quick_record
class ExitedNotice:
    """process/exited. Older servers do not say `sandboxDenied`; it costs a process/read then. `signal` (ours)
    is the one that has ended the command, and `reason` (ours) why the machine did so."""

    process_id: str
    seq: int
    exit_code: int
    sandbox_denied: bool | None
    environment: StartupReport | None = None
    signal: int | None = None
    reason: str | None = None

    @classmethod
    def decode(cls, params: Json) -> ExitedNotice:
        fields = Fields(params, "ExitedNotice")
        code = fields.raw("exitCode")
        if type(code) is not int:
            raise wrong(code, "i32")
        denied = None if fields.raw_or_none("sandboxDenied") is None else fields.flag("sandboxDenied")
        told, signal = fields.document("environment"), fields.unsigned_or_none("signal")
        reason = fields.text_or_none("reason")
        return cls(fields.text("processId"), unsigned(fields.raw("seq")), code, denied, told, signal, reason)


@quick_record
class ClosedNotice:
    process_id: str
    seq: int

    @classmethod
    def decode(cls, params: Json) -> ClosedNotice:
        fields = Fields(params, "ClosedNotice")
        return cls(fields.text("processId"), unsigned(fields.raw("seq")))
