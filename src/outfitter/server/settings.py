"""What an operator can set, already checked."""

from __future__ import annotations

from ..record import Record
from . import limits


class Settings(Record):
    """A server's settings. The defaults are the reference's where it has one."""

    __slots__ = (
        "cgroup",
        "closed_processes",
        "concurrent_requests",
        "max_connections",
        "max_processes",
        "max_sessions",
        "process_retention",
        "retained_total_bytes",
        "session_retention",
    )

    def __init__(
        self,
        *,
        session_retention: float = limits.SESSION_RETENTION_SECONDS,
        process_retention: float = limits.PROCESS_RETENTION_SECONDS,
        closed_processes: int = limits.CLOSED_PROCESSES,
        max_processes: int = limits.PROCESSES_PER_SESSION,
        max_sessions: int = limits.SESSIONS,
        max_connections: int = limits.CONNECTIONS,
        retained_total_bytes: int = limits.RETAINED_TOTAL_BYTES,
        concurrent_requests: int = 1,
        cgroup: bool = False,
    ) -> None:
        self.session_retention = session_retention
        self.process_retention = process_retention
        self.closed_processes = closed_processes
        self.max_processes = max_processes
        self.max_sessions = max_sessions
        self.max_connections = max_connections
        self.retained_total_bytes = retained_total_bytes
        self.concurrent_requests = concurrent_requests
        self.cgroup = cgroup
