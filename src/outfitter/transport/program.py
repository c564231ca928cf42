"""Starts a program that speaks the protocol on its stdin and stdout. Lives on an asyncio loop.

It is a group of its own: Ctrl-C in our terminal does not end it, and its end takes what it started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from typing import TYPE_CHECKING

from ..errors import DialFailed
from ..log import note
from .stdio import StdioTransport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_TERM_SECONDS = 2.0  # the reference's: after this SIGTERM was not enough
_STDERR_BYTES = 64 << 10  # read at a time; longer lines are cut
_LAST_READS = 16  # at its end: more than a pipe holds, so all of it, unless it goes on and on
_LAST_LINES = 5  # of its stderr, told when it ends before it has answered


class ProgramTransport(StdioTransport):
    """A child's pipes as a transport. Made by `launch`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, program: str, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        names = f"output of {program}", f"input of {program}"
        super().__init__(loop, child.stdout.fileno(), child.stdin.fileno(), names)
        self._program = program
        self.close_code: int | None = None
        self._child = child
        self._stderr = child.stderr.fileno()
        self._partial = b""
        self._last: list[str] = []
        self._ending: asyncio.Task[None] | None = None
        os.set_blocking(child.stdout.fileno(), False)
        os.set_blocking(self._stderr, False)
        loop.add_reader(self._stderr, self._hear)

    # Standard error

    def _hear(self) -> bool:
        """Passes what the program writes to stderr to our log, line by line; False when there is no more."""
        try:
            data = os.read(self._stderr, _STDERR_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._stderr)
        self._pass_on(data)
        return data != b""

    def _hear_out(self) -> None:
        """Takes what it has said before its end, which need not end a line."""
        for _ in range(_LAST_READS):
            if not self._hear():
                break
        self._pass_on(b"\n" if self._partial else b"")

    def _pass_on(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[:_STDERR_BYTES]
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip()
            self._last = [*self._last, text[:200]][-_LAST_LINES:]
            note("client", "!", "%s: %s", self._program, text)

    # The end

    def _tell(self, reason: str) -> None:
        self._hear_out()
        said = f"; its last output: {' | '.join(self._last)}" if self._last else ""
        self._ending = asyncio.get_running_loop().create_task(self._end())
        super()._tell(reason + said)

    async def _end(self) -> None:
        """SIGTERM to its group, SIGKILL to what is left after a while; always reaped."""
        child = self._child
        # Its input has ended: it may be on its way already, but its children need not be.
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        self._loop.remove_reader(self._stderr)
        for stream in (child.stdin, child.stdout, child.stderr):
            stream.close()
        _signal(child, signal.SIGTERM)
        try:
            await asyncio.to_thread(child.wait, _TERM_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        _signal(child, signal.SIGKILL)
        await asyncio.to_thread(child.wait)

    def abort(self) -> None:
        if not self._closing and self._outbox:
            self._outbox.clear()
            self._loop.remove_writer(self._out)
        self._lose("given up")

    async def wait_ended(self) -> None:
        """Returns when the program is gone."""
        if self._ending is not None:
            await asyncio.shield(self._ending)


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody of its group is left


async def launch(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> ProgramTransport:
    """Starts the program, in this environment or ours. Raises DialFailed."""
    loop = asyncio.get_running_loop()
    try:
        child = subprocess.Popen(  # noqa: ASYNC220 - a millisecond, once
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=None if env is None else dict(env),
            start_new_session=True,
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else str(error)
        raise DialFailed(f"cannot start {argv[0]}: {detail}", retryable=False) from None
    return ProgramTransport(loop, os.path.basename(argv[0]), child)
