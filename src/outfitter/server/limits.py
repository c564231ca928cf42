"""Every number of the server that is not a rule of the wire, each with its reason.

Limits that belong to one mechanism stand with it: retention in `core.output`, stdin queues in
`core.stdin`, frames and keep-alive in `transport.websocket`.
"""

from __future__ import annotations

# A client that waits for a project's environment is told so after this long, then twice as late each time.
FIRST_NEWS_SECONDS = 1.0
# How long a session without a connection is kept: the reference's 30 s. An operator whose users close
# their laptops sets hours.
SESSION_RETENTION_SECONDS = 30.0
# How long a closed process stays readable and its id taken: the reference's.
PROCESS_RETENTION_SECONDS = 30.0
# How long the output of a command that outlived its client can be read after its end: who starts one in the
# evening looks for it in the morning. Its session yields to a new one when there are too many.
DETACHED_RETENTION_SECONDS = 86_400.0
# Closed processes remembered per session. 30 s of short commands at full speed are more; the oldest are
# forgotten early then. A thousand cost about a megabyte.
CLOSED_PROCESSES = 8192
# Running processes per session: far above what an agent starts, far below the process table.
PROCESSES_PER_SESSION = 2048
# Running processes of all sessions, where there are several principals: one of them alone may have half, as
# many as a session. A single principal is limited by its sessions only.
PROCESSES = 2 * PROCESSES_PER_SESSION
# Sessions a server keeps; an abandoned one costs its retained output.
SESSIONS = 256
# Open connections, a descriptor each.
CONNECTIONS = 1024
# Output retained by all processes together; above it, each keeps 64 KiB instead of 1 MiB.
RETAINED_TOTAL_BYTES = 256 << 20
# Answers waiting for a slow reader. Above this the connection is not read until it takes some; its
# output is held back long before (transport.base.HIGH), so control requests still get through.
ANSWERS_BYTES = 4 << 20
# Answers waiting for slow readers on all connections, where there are several principals: one that has more
# than its share is not read until it takes some. A single principal has the limit of each connection only.
ANSWERS_TOTAL_BYTES = 256 << 20
# When a session's connection is asked for by somebody who knows the id, how long the holder has to show
# that it is alive. The stock client goes on asking for 25 s.
PROBE_SECONDS = 5.0
# After a resume, how long a process's output waits for the client to ask for what it missed. It asks at
# once; this is for one that does not.
CATCH_UP_SECONDS = 1.0
# Longest `waitMs`: a client that wants more asks again. More is taken as this.
LONGEST_WAIT_SECONDS = 3600.0
# Longest `graceMs`, as long as systemd and container engines are patient at most. More is taken as this.
LONGEST_GRACE_SECONDS = 600.0
# How long the new version may take to say that it can take over: it loads what a server needs, once.
UPGRADE_CHECK_SECONDS = 30.0
# How long an upgrade waits for providers and setups that are being asked, while everything else goes on. What
# takes longer is not interrupted: the upgrade is refused.
UPGRADE_PATIENCE_SECONDS = 60.0
# How long requests that are under way have to be answered, and the answers to be taken. Nobody else is served
# meanwhile; a disk takes milliseconds, a client that does not read is cut off.
UPGRADE_ANSWER_SECONDS = 2.0
# How long clients have to answer the close. All do so at once; one whose machine sleeps does not.
UPGRADE_CLOSE_SECONDS = 1.0
# After an upgrade, how long a session is kept at least and output waits for its client, which comes back at
# once. Then commands run on as without a client.
UPGRADE_RETURN_SECONDS = 10.0
# How often an upgrade looks whether it can go on.
UPGRADE_LOOK_SECONDS = 0.005
# File requests of one connection that run at a time: enough to keep a disk busy, and not all threads.
FILE_WIDTH = 16
# The same of all connections, where there are several principals: one of them alone may have half. Each takes
# a thread, and threads take turns with the interpreter: with more, the loop would hardly have its own.
FILE_WIDTH_TOTAL = 2 * FILE_WIDTH
# Bytes to be written that wait for a disk, of one connection: the largest message there can be. Above this
# it is not read on; its other requests wait then, too.
FILE_WAITING_BYTES = 64 << 20
# Open file handles of one connection: the reference's.
FILE_HANDLES = 128
# Files above this are sent block by block as they are read; below, one message is quicker.
STREAMED_READ_BYTES = 2 << 20
# Such a block, a multiple of three so that the base64 of blocks joins up: a megabyte of text.
STREAM_BYTES = 768 << 10
# How long one walk may take; a tree on a slow network then gives what was found, `truncated`.
WALK_SECONDS = 30.0
# Paths of one fs/watchMissing: the reference's.
MISSING_PATHS = 64
# Walks that run at a time, of all connections and of one; a thread each, and not one of those for files. The
# next ones wait, and connections take turns.
WALKS_TOTAL, WALKS = 16, 4
# Watches (fs/watch) of one connection: an agent needs a few.
WATCHES = 64
# Folders of one watch. A large source tree without what it was built from has fewer; each costs the kernel
# about a kilobyte that cannot be swapped out.
WATCHED_FOLDERS = 8192
# Folders of all watches: what the user's other programs need is left, where the kernel allows many more.
WATCHED_FOLDERS_TOTAL = 65_536
# Changes in one notice; who has more to read had better look for itself.
CHANGES = 1000
# Searches of one connection that run at a time, a process each; the next ones wait.
SEARCHES = 4
# Searches of a whole server that run at a time: more than any machine of today gains by. The next ones wait.
SEARCHES_TOTAL = 64
# Searches of one connection that wait. Above this a search is refused: nobody waits for so many.
WAITING_SEARCHES = 64
# Questions to providers, setups and login shells that are asked at a time, of all sessions and of one. Each
# is a program of somebody else, which may take minutes: they have threads of their own, so no file waits.
QUESTIONS_TOTAL, QUESTIONS = 32, 8
# Bytes of all requests that wait for that; where there are several principals, one of them may have half. A
# start has some KiB, most of it the environment of an agent: so many are more than anybody waits for.
SET_ASIDE_BYTES = 64 << 20
# Trees that are walked at a time for what the globs of sandboxes match, of all sessions and of one. Such a
# walk takes seconds at most, and threads take turns with the interpreter: more would hold up the loop.
MATCHING_TOTAL, MATCHING = 2, 1
# Large environments that are explained at a time: threads take turns with the interpreter anyway.
EXPLAINING = 1
# Variables, and bytes of values, that are explained at once, in about 5 ms; a thread explains more.
EXPLAINED_VARIABLES = 200
EXPLAINED_BYTES = 16 << 10
# Files and bytes that one search may look at: more than 30 s suffice for, on most disks.
SEARCH_FILES = 200_000
SEARCH_BYTES = 4 << 30
# The answer of a search, as that of a walk.
SEARCH_RESPONSE_BYTES = 4 << 20
# How long an expression may take on one file: an honest one takes milliseconds for the largest.
SEARCH_FILE_SECONDS = 5.0
# How much longer than allowed a search may take to say so, before it is killed.
SEARCH_GRACE_SECONDS = 2.0
# Characters shown of a line, around the match: a minified file is one line.
SEARCH_WIDTH = 500
# Complaints in one answer; who may not read a thousand folders knows after these.
SEARCH_ERRORS = 100
# Memory that a search may take: some times the largest file that it reads.
SEARCH_MEMORY_BYTES = 2 << 30
# Processes that walk large trees for a server: one per core of a small machine keeps its disks busy.
WALKERS = 2
# How long such a process waits for the next walk; it holds 10 MB.
WALKER_IDLE_SECONDS = 60
# How often a server that drains looks whether it is still needed: nobody notices a quarter of a second, and
# who has asked for it has its answer by then.
DRAIN_LOOK_SECONDS = 0.25
# Grants of trust that an observer has been told about: as many as people have projects. After that some are
# told about again.
GRANTS_KNOWN = 1024

# Processes and threads of one sandbox: a build with a compiler for each of 64 cores has a few hundred, and a
# fork bomb stops before the machine does.
SANDBOX_PROCESSES = 2048
# There is no limit on open files of its own in a sandbox: the kernel has one for each process, not for a
# sandbox, so 4,096 would bound nothing beside 2,048 processes, and would stop a bundler or a test runner that
# opens or watches a large tree. A command has the limit that the server was started with.
# Places that a sandboxed command may write. Each has four protected names, which are made and noted where
# they are missing: 0.5 ms, on the loop. Clients send a workspace, two temporary folders and a few more.
SANDBOX_WRITABLE = 64
# Names that are looked up at a time for the proxies of commands, a thread each; and of one principal. A
# resolver answers in milliseconds, but whose name it is can take as long as the resolver waits: a principal
# whose commands ask for such names holds up its own proxies, and nobody else's.
RESOLVING_TOTAL, RESOLVING = 64, 8
# Longest `policyDecisionTimeoutMs`: a person may be asked. More is taken as this.
LONGEST_QUESTION_SECONDS = 3600.0
# Requests of http/request that run at a time, streams included, a descriptor each, with HTTP/2 a thread: of
# one connection, and of a whole server. An agent has a stream open to each of its MCP servers.
HTTP_REQUESTS, HTTP_REQUESTS_TOTAL = 64, 256
# Names that are looked up at a time for them, a thread each; and of one principal, also for requests that
# have ended: a resolver that gets no answer waits on. An agent asks for fewer names at once.
HTTP_RESOLVING_TOTAL, HTTP_RESOLVING = 128, 32
# Bytes of a body that is answered in one message: the largest message of a client, as base64.
HTTP_BODY_BYTES = 45 << 20
# Bytes of such bodies that a whole server holds. Above this they are refused; streams are not.
HTTP_BODIES_TOTAL_BYTES = 256 << 20
# Longest `timeoutMs`: three years. More is taken as none.
LONGEST_HTTP_SECONDS = 1e8
