"""Params and results of process/list and process/attach (ours)."""

from __future__ import annotations

from .fields import Fields
from .results import Result
from .shape import Shape, member, shape


@shape()
class AttachParams(Shape):
    """process/attach (ours): send the retained events after `after_seq` again, then the live ones."""

    process_id: str = member(Fields.ident)
    after_seq: int = member(default=0, null=True)


@shape()
class ProcessSummary(Result):
    """process/attach, and one entry of process/list (ours)."""

    process_id: str
    pid: int
    program: str
    cwd: str
    tty: bool
    started_at_ms: int
    first_seq: int
    next_seq: int
    exited: bool
    exit_code: int | None = member(Fields.raw)
    closed: bool
    dropped_bytes: int


@shape()
class ListResult(Result):
    """process/list (ours): the processes of a session, oldest first."""

    processes: list[ProcessSummary]
