"""A program that is run to its end for what it prints: blocking, bounded, and gone with all it started.

For worker threads and commands of our own. It gets no terminal and no input, a session of its own, and a time
limit that takes everything it started with it.
"""

from __future__ import annotations

import os
import time

from ...core.launch import Launch
from ...core.marks import Marks
from ...record import fill, record
from ...refusals import LaunchFailed, SandboxUnavailable
from ..pipes import let_go
from ..spawn import Stdio
from ..tree import new_nonce
from ..unix import Spawner, kill_marked, kill_session_members, marked, usable, waitpid
from ..watchdog import Watchdog
from .attend import attend
from .within import started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OUTPUT_BYTES = 8 << 20  # more than any tool has to say about an environment
TAIL_BYTES = 16 << 10  # of stderr: the last lines tell what went wrong
_CHUNK = 64 << 10
# What is killed takes a moment to be gone.
_GONE_SECONDS = 0.8
_LOOK_SECONDS = 0.002


@record
class Ran:
    """What came of a program. `outcome` is "exited", "timeout", "too-large" or "not-started".

    `code` is its exit code, negative for a signal, None where there is none. `failure` says why it was not
    started. The repr has no output.
    """

    argv: Sequence[str]
    outcome: str
    code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    failure: str = ""
    hidden = ("stdout", "stderr")

    def __post_init__(self) -> None:
        fill(self, argv=tuple(self.argv))

    @property
    def ok(self) -> bool:
        return self.outcome == "exited" and self.code == 0


def run_tool(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    *,
    timeout: float,
    mark: int | None = None,
    output: int = OUTPUT_BYTES,
    program: str = "",
    descriptors: tuple[int, ...] = (),
    ourselves: bool = False,
) -> Ran:
    """Runs a program in exactly this environment, without input; blocks for `timeout` and a second at most.

    `program` is the file, if it is not `argv[0]`; without a slash it is looked for in `env`'s PATH. It gets
    `descriptors` as 3, 4 and so on. `mark` is one of a server's (`core.marks`), whose sudden end takes the
    program with it; without one our own end does. With `ourselves` it is our own user's (`host.spawn`).
    """
    begun = time.monotonic()
    launch = Launch(program or argv[0], list(argv), cwd, env, descriptors=descriptors)
    watchdog: Watchdog | None = None
    try:
        if mark is None:
            marks = Marks(new_nonce())
            watchdog, mark = Watchdog(None, Spawner(), marks), marks.new(0)
            watchdog.ensure()
        return _run(launch, begun, timeout, mark, output, ourselves)
    except (LaunchFailed, SandboxUnavailable, OSError) as error:
        return _not_started(argv, error)
    finally:
        if watchdog is not None:
            watchdog.stop()


def _run(launch: Launch, begun: float, timeout: float, carried: int, output: int, ourselves: bool) -> Ran:
    argv = launch.argv
    spawner = Spawner()
    out, out_theirs, err, err_theirs = spawner.pipes.take()
    stdio = Stdio(stdout=out_theirs, stderr=err_theirs)
    ours, theirs = (out, err), (out_theirs, err_theirs)
    pid, ready = started(spawner, launch, stdio, carried, ours=ours, theirs=theirs, ourselves=ourselves)
    said, complaint = bytearray(), bytearray()
    hear = {out: lambda fd: _read(fd, said, output + 1), err: lambda fd: _read(fd, complaint, TAIL_BYTES)}
    try:
        outcome = attend(pid, begun + timeout, hear, lambda: "too-large" if len(said) > output else "")
    finally:
        try:
            code = end_tree(pid, carried)
            _read(out, said, output + 1)
            _read(err, complaint, TAIL_BYTES)
        finally:
            let_go(*ours)
            ready.ended()
    if len(said) > output:
        outcome = "too-large"
    seconds = time.monotonic() - begun
    return Ran(argv, outcome, code, bytes(said[:output]), bytes(complaint[-TAIL_BYTES:]), seconds)


def _not_started(argv: Sequence[str], error: LaunchFailed | SandboxUnavailable | OSError) -> Ran:
    if isinstance(error, SandboxUnavailable):
        return Ran(argv, "not-started", failure=str(error))
    if isinstance(error, LaunchFailed):
        return Ran(argv, "not-started", failure=error.what or str(error))
    return Ran(argv, "not-started", failure=f"{error.strerror}; this process may have too many files open")


def _read(fd: int, into: bytearray, keep: int) -> bool:
    """Takes what is there; of more than twice `keep` the end stays. False at the end of the pipe."""
    while True:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False  # nothing more of it can be read
        if not data:
            return False
        into += data
        if len(into) > 2 * keep:
            del into[:-keep]


def end_tree(pid: int, mark: int) -> int | None:
    """Ends a program of ours and all that it started; its exit code, None when somebody else reaped it."""
    until = time.monotonic() + _GONE_SECONDS
    # Before it is reaped: until then its number is its own. Those below it first: when it dies, they go to
    # another parent.
    kill_session_members(pid, reaped=False)
    code = _reap(pid, until)
    # Those that have left its session. They are gone then, not only killed.
    while usable() and (not kill_marked(mark.__eq__) or marked(mark.__eq__)):
        if time.monotonic() > until:
            break
        time.sleep(_LOOK_SECONDS)
    return code


def _reap(pid: int, until: float) -> int | None:
    while True:
        try:
            ended, status = waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None  # it hangs in the kernel, which nobody can help
        time.sleep(_LOOK_SECONDS)
