"""Every number of the server that is not a rule of the wire, each with its reason.

Limits that belong to one mechanism stand with it: retention in `core.output`, stdin queues in
`core.stdin`, frames and keep-alive in `transport.websocket`.
"""

from __future__ import annotations

# How long a session without a connection is kept: the reference's 30 s. An operator whose users close
# their laptops sets hours.
SESSION_RETENTION_SECONDS = 30.0
# How long a closed process stays readable and its id taken: the reference's.
PROCESS_RETENTION_SECONDS = 30.0
# Closed processes remembered per session. 30 s of short commands at full speed are more; the oldest are
# forgotten early then. A thousand cost about a megabyte.
CLOSED_PROCESSES = 8192
# Running processes per session: far above what an agent starts, far below the process table.
PROCESSES_PER_SESSION = 2048
# Sessions a server keeps; an abandoned one costs its retained output.
SESSIONS = 256
# Open connections, a descriptor each.
CONNECTIONS = 1024
# Output retained by all processes together; above it, each keeps 64 KiB instead of 1 MiB.
RETAINED_TOTAL_BYTES = 256 << 20
# Answers waiting for a slow reader. Above this the connection is not read until it takes some; its
# output is held back long before (transport.base.HIGH), so control requests still get through.
ANSWERS_BYTES = 4 << 20
# When a session's connection is asked for by somebody who knows the id, how long the holder has to show
# that it is alive. The stock client goes on asking for 25 s.
PROBE_SECONDS = 5.0
# After a resume, how long a process's output waits for the client to ask for what it missed. It asks at
# once; this is for one that does not.
CATCH_UP_SECONDS = 1.0
# Longest `waitMs` and `graceMs` that mean anything: a day. More is taken as this.
LONGEST_WAIT_SECONDS = 86_400.0
# Environments worked out for a policy and remembered. Clients send the same one with every command.
REMEMBERED_POLICIES = 16
