"""outfitter pool run: the tasks of a file over a pool, results as they come."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import os
import signal
import stat
import sys
from typing import IO, TYPE_CHECKING, Any

from ...core.leases import MAX_WAITING
from ...errors import SettingInvalid
from ...pool.pool import Pool
from .bar import Bar
from .jobs import check, finished, head, jobs, line
from .metrics import metrics_server
from .task import perform

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable

    from ...client.client import Client
    from ...pool.map import Outcome
    from ...pool.settings import PoolWishes
    from .jobs import Job
    from .task import Result

# Tasks that wait in the pool, so that a small group far down in the file has its turn. Some KiB each.
_AHEAD = min(10_000, MAX_WAITING)
_AHEAD_BYTES = 64 << 20  # of their lines: tasks may have files of MiB in them
_DRAW_SECONDS = 0.1
# Flags that are arguments of a pool.
_WISHES = ("size", "cpus", "memory", "image", "address", "relay", "name", "limits")
STATES = ("done", "failed", "lost", "refused", "cancelled")  # of results
# Exit codes; 0: every command exited with 0.
FAILED, LOST, INTERRUPTED, TERMINATED = 1, 3, 130, 143


def run(flags: dict[str, Any]) -> int:
    """Runs the tasks; returns the exit code. Raises SettingInvalid, FileInvalid."""
    source = _source(flags["jobs"])
    ids = check(source, flags["jobs"])
    _check_resume(flags)
    checked = source.tell()
    source.seek(0)
    with contextlib.ExitStack() as stack:
        stack.callback(source.close)
        out = sys.stdout.buffer
        if flags["out"] != "-":
            out = _results(flags)
            stack.callback(_close, out)
        skipped = _skipped(flags)
        earlier = [skipped[job_id] for job_id in ids if job_id in skipped]
        left = len(ids) - len(earlier)
        if earlier:
            print(f"{len(earlier):,} of {len(ids):,} tasks have a result already", file=sys.stderr)
        work = _Run(flags, head(source, checked), set(skipped), left, out)
        try:
            asyncio.run(work.run())
        except (KeyboardInterrupt, asyncio.CancelledError):
            work.cancelled()
            return TERMINATED if work.terminated else INTERRUPTED
    return _exit_code([*earlier, *work.states])


class _Run:
    """One run: its counts, and where its results go."""

    def __init__(
        self, flags: dict[str, Any], source: Iterable[bytes], skipped: set[str], total: int, out: IO[bytes]
    ) -> None:
        self._flags = flags
        self._source = source
        self._skipped = skipped
        self._bar = Bar(total)
        self._out = out
        self._running: set[str] = set()
        # Of the tasks that were read and have not ended: bytes of each, and of all.
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._fewer = asyncio.Event()
        self.terminated = False
        self._most = flags["max_output"]

    @property
    def states(self) -> Iterable[str]:
        """Of the results so far, each once."""
        return self._bar.states

    def _interrupt(self, task: asyncio.Task[Any], number: signal.Signals) -> None:
        self.terminated = self.terminated or number == signal.SIGTERM
        task.cancel()

    async def run(self) -> None:
        this = asyncio.current_task()
        assert this is not None
        # With asyncio's own handler a second Ctrl-C breaks off whatever the loop does, and who waits for that
        # waits for ever. Launchers that pass on what the whole terminal gets make two of each Ctrl-C.
        for number in (signal.SIGINT, signal.SIGTERM):
            if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, self._interrupt, this, number)
        async with (
            Pool(self._flags["on"], **_wishes(self._flags)) as pool,
            metrics_server(pool, self._flags["metrics"]),
        ):
            drawing = asyncio.ensure_future(self._draw(pool))
            try:
                outcomes = pool.map(
                    self._perform,
                    self._tasks(),
                    at_a_time=_AHEAD,
                    retries=self._flags["retries"],
                    lease=lambda job: job.wishes(),
                )
                async for outcome in outcomes:
                    self._write(outcome)
            finally:
                drawing.cancel()
        self._bar.end()

    def cancelled(self) -> None:
        """What ran was ended."""
        for job_id in sorted(self._running):
            self._say({"id": job_id, "state": "cancelled", "exit_code": None})
        self._bar.end()

    async def _tasks(self) -> AsyncIterator[Job]:
        for job, size in jobs(self._source):
            if job.id in self._skipped:
                continue
            while self._bytes and self._bytes + size > _AHEAD_BYTES:
                self._fewer.clear()
                await self._fewer.wait()
            self._sizes[job.id] = size
            self._bytes += size
            yield job

    async def _perform(self, client: Client, job: Job) -> Result:
        self._running.add(job.id)
        return await perform(client, job, self._most)

    def _write(self, outcome: Outcome[Job, Result]) -> None:
        job, value = outcome.item, outcome.value or {}
        state = outcome.state
        if state == "done" and value.get("exit_code") != 0:
            state = "failed"
        result: Result = {"id": job.id, "state": state, "exit_code": None, **value}
        result |= {"attempts": outcome.attempts, "node": outcome.node, "lease": outcome.lease}
        result |= {"queued_s": round(outcome.waited, 3), "ran_s": round(outcome.seconds, 3)}
        if outcome.error is not None:
            result["error"] = str(outcome.error)
        self._running.discard(job.id)
        self._bytes -= self._sizes.pop(job.id)
        self._fewer.set()
        self._say(result)

    def _say(self, result: Result) -> None:
        self._bar.count(result["state"])
        if self._out.isatty():
            self._bar.wipe()
        try:
            self._out.write(line(result))
            self._out.flush()
        except BrokenPipeError:
            raise  # nobody reads them any more: the command line ends without a word
        except OSError as error:
            raise SettingInvalid(f"cannot write --out {self._flags['out']}: {error.strerror}") from None

    async def _draw(self, pool: Pool) -> None:
        while True:
            self._bar.draw(pool.status())
            await asyncio.sleep(_DRAW_SECONDS)


def _exit_code(states: Collection[str]) -> int:
    """What came of all tasks, also of those that an earlier run did."""
    if "lost" in states or "refused" in states:
        return LOST
    return FAILED if any(state != "done" for state in states) else 0


def _wishes(flags: dict[str, Any]) -> PoolWishes:
    wishes: dict[str, Any] = {key: flags[key] for key in _WISHES}
    given: PoolWishes = {key: value for key, value in wishes.items() if value is not None}  # type: ignore[assignment]
    return given


def _source(name: str) -> IO[bytes]:
    """The tasks, which are read twice. Those of a pipe are kept in memory: they may have secrets."""
    if name == "-":
        return io.BytesIO(sys.stdin.buffer.read())
    try:
        file = open(name, "rb")  # noqa: SIM115 - read until the end of the run
        return file if file.seekable() else io.BytesIO(file.read())
    except OSError as error:
        raise SettingInvalid(f"cannot read --jobs {name}: {error.strerror}") from None


def _check_resume(flags: dict[str, Any]) -> None:
    if flags["rerun"] and not flags["resume"]:
        raise SettingInvalid("--rerun needs --resume: it says which results do not count")
    if flags["resume"] and flags["out"] == "-":
        raise SettingInvalid("--resume needs --out FILE: it looks there for what is done")
    for state in flags["rerun"]:
        if state not in STATES:
            raise SettingInvalid(
                f"--rerun {state}: no result has this state: write one of {', '.join(STATES)}"
            )


def _results(flags: dict[str, Any]) -> IO[bytes]:
    """The file of results, which is this run's alone. An older one is neither overwritten nor mixed up with
    this run."""
    path = flags["out"]
    try:
        file = open(path, "ab")  # noqa: SIM115 - the caller closes it
        try:
            _claim(file, path)
            if file.seekable() and file.tell():
                if not flags["resume"]:
                    raise SettingInvalid(f"{path} has results already: add --resume, or choose another --out")
                if _unfinished(path):
                    file.write(b"\n")  # of a run that was killed
        except BaseException:
            file.close()
            raise
        return file
    except OSError as error:
        raise SettingInvalid(f"cannot write --out {path}: {error.strerror}") from None


def _claim(file: IO[bytes], path: str) -> None:
    """Two runs would not see each other's results, and run the same tasks. Raises SettingInvalid."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SettingInvalid(
            f"another run writes its results to {path}: wait for its end, or choose another --out"
        ) from None
    except OSError:
        pass  # a file system without locks


def _skipped(flags: dict[str, Any]) -> dict[str, str]:
    """The tasks that have a result already, and are not to be run again, with the state of each."""
    if not flags["resume"]:
        return {}
    try:
        with open(flags["out"], "rb") as file:
            states = finished(file)
    except OSError as error:
        raise SettingInvalid(f"cannot read --out {flags['out']}: {error.strerror}") from None
    return {job_id: state for job_id, state in states.items() if state not in flags["rerun"]}


def _close(file: IO[bytes]) -> None:
    """Each result was flushed: what is left could not be written, which was told."""
    with contextlib.suppress(OSError):
        file.close()


def _unfinished(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
