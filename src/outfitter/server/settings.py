"""What an operator can set, already checked."""

from __future__ import annotations

from . import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..host.limits import ServerLimits

# In the environment of our own programs: what is the server's own, a path in each line.
OWN_FILES = "OUTFITTER_OWN_FILES"


class ServerSettings:
    """A server's settings. The defaults are the reference's where it has one.

    Not a record: a server has one of these before its first line, and no other record.
    """

    session_retention: float = limits.SESSION_RETENTION_SECONDS
    process_retention: float = limits.PROCESS_RETENTION_SECONDS
    detached_retention: float = limits.DETACHED_RETENTION_SECONDS
    max_detached: float | None = None  # seconds that a command may run without a client; None: to its end
    closed_processes: int = limits.CLOSED_PROCESSES
    max_processes: int = limits.PROCESSES_PER_SESSION
    max_sessions: int = limits.SESSIONS
    several_principals: bool = False  # whether there are, though no token says so; a second one shows it, too
    max_connections: int = limits.CONNECTIONS
    retained_total_bytes: int = limits.RETAINED_TOTAL_BYTES
    concurrent_requests: int = 1
    keepalive: float | None = None  # seconds between pings; None: the reference's 30
    fence: float | None = None  # seconds without a word of a client after which the server ends
    ends_with_stdin: bool = False
    project_ceiling: str | None = None  # no project is looked for above this directory
    origins: tuple[tuple[str, str], ...] = ()  # (--origin) variables of our environment: name, who has set it
    allowance: ServerLimits | None = None  # (--limits) of the server and all its commands together
    cgroup: bool = False
    run_as: str | None = None
    sandbox_program: str = ""  # where bubblewrap is, if not where it usually is
    sandbox_processes: int | None = limits.SANDBOX_PROCESSES  # of one sandbox, and its threads
    sandbox_memory: int | None = None  # bytes of one sandbox; needs a control group
    sandbox_loopback: bool = False  # addresses of its own, where it has no network
    sandbox_ptrace: bool = False  # of its own processes
    sandbox_landlock: bool = False  # where bubblewrap cannot be used
    sandbox_protect: tuple[str, ...] = ()  # more names that stay read-only: `core.protecting`
    sandbox_strict_links: bool = False  # file requests in a sandbox write no file with several names
    own_files: tuple[str, ...] = ()  # sockets, tokens and keys: no command in a sandbox sees them
    operators: tuple[str, ...] = ()  # principals who may see and end what belongs to others, and drain
    http_deny: tuple[str, ...] = ()  # ranges of addresses that http/request does not connect to
    http_allow: tuple[str, ...] = ()  # and those of them that it does
    http_cookies: tuple[
        tuple[str, str], ...
    ] = ()  # more cookies that its requests share: (host suffix, name)

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            if not hasattr(ServerSettings, name):
                raise TypeError(f"ServerSettings has no {name}")
            setattr(self, name, value)
