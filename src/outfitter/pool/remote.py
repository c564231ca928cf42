"""A keeper on another machine, spoken to through a program of the engine's: its pipes are the keeper's.

What the program prints before the keeper does (a startup file's greeting) is passed over. When the program
ends, the slot is gone.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import TYPE_CHECKING

from ..errors import EngineFailed
from .carried import heard, told
from .engine import EXECUTOR_ENDED, NODE_LOST, OUT_OF_MEMORY, Endpoint, Loss, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..core.shape import Shape
    from .engine import Card, Order

STOP_SECONDS = 12.0  # for the keeper to end its server: its own limit, and the way there and back
END_SECONDS = 5.0  # for the program to end after that; then it is killed
_WORDS_SECONDS = 1.0  # for its last words when it has ended: they are in the pipe by then
_LINE_BYTES = 1 << 20  # an answer has a certificate in it, and some hundred bytes
_GREETING_LINES = 1000  # that others may print before the keeper says something
_LAST_BYTES = 2000  # of what it says when it fails

Say = dict[str, object]  # one line, either way


# How `outfitter` is called on nodes, where it is not in the PATH of a shell there.
NODE_COMMAND = "OUTFITTER_NODE_COMMAND"


def keep_command(order: Order, node: str, listen: str, environ: Mapping[str, str]) -> list[str]:
    """The words that start a keeper on a node."""
    own = shlex.split(environ.get(NODE_COMMAND, "")) or ["outfitter"]
    return [*own, "keep-slot", order.pool_id, node, listen, f"{order.shape.gpus:g}"]


def reason(said: str) -> str:
    """Why a slot is gone, by what its program has said last."""
    low = said.lower()
    if "oom" in low or "out of memory" in low:
        return OUT_OF_MEMORY
    return NODE_LOST if "node fail" in low else EXECUTOR_ENDED


def _nothing() -> None:
    pass


class _Program(asyncio.subprocess.SubprocessStreamProtocol):
    """A program that has ended when it has. For asyncio it goes on as long as something that it has started
    holds its pipes, such as a connection that ssh shares."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_LINE_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class RemoteSlot:
    """A slot whose keeper is at the other end of a program. `left` is called once, when it is over."""

    def __init__(self, argv: Sequence[str], shape: Shape, left: Callable[[RemoteSlot], None]) -> None:
        self._argv = list(argv)
        self._shape = shape
        self._left = left
        self._child: asyncio.subprocess.Process | None = None
        self._pipes: asyncio.SubprocessTransport | None = None
        self._said = bytearray()
        self._hearing: asyncio.Task[None] | None = None
        self._greeted = False
        self._asked = 0
        self._stopping = False
        self._ended = asyncio.Event()
        self._asking = asyncio.Lock()

    async def begin(self) -> None:
        """Starts the program. Raises EngineFailed."""
        loop, pipe = asyncio.get_running_loop(), asyncio.subprocess.PIPE
        try:
            self._pipes, program = await loop.subprocess_exec(
                lambda: _Program(loop),
                *self._argv,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineFailed(f"cannot start {self._argv[0]}: {error.strerror}") from None
        self._child = asyncio.subprocess.Process(self._pipes, program, loop)
        self._hearing = loop.create_task(self._hear(self._child, program))

    async def _hear(self, child: asyncio.subprocess.Process, program: _Program) -> None:
        """Keeps the end of what it says on stderr, and notices its end."""
        assert child.stderr is not None
        reading = asyncio.ensure_future(self._read(child.stderr))
        await program.exited.wait()
        await asyncio.wait((reading,), timeout=_WORDS_SECONDS)
        reading.cancel()
        self._ended.set()
        self._left(self)

    async def _read(self, stderr: asyncio.StreamReader) -> None:
        while piece := await stderr.read(4096):
            self._said += piece
            del self._said[:-_LAST_BYTES]

    async def serve(self, card: Card) -> Endpoint:
        return await self._begin("serve", card)

    async def prepare(self, card: Card) -> Endpoint:
        return await self._begin("prepare", card)

    async def _begin(self, how: str, card: Card) -> Endpoint:
        answer = await self._ask({how: told(card), "shape": told(self._shape)})
        if "endpoint" not in answer:
            raise EngineFailed(str(answer.get("failed")), retryable=bool(answer.get("retryable")))
        return await self.reached(heard(Endpoint, answer["endpoint"]), only=how == "serve")  # type: ignore[arg-type]

    async def reached(self, endpoint: Endpoint, *, only: bool) -> Endpoint:
        """How this machine reaches what the keeper has started: as the keeper says, unless an engine knows
        better. With `only`, no other server is there any more. Raises EngineFailed."""
        return endpoint

    async def gone(self) -> Loss:
        await self._ended.wait()
        if self._stopping:
            return Loss(EXECUTOR_ENDED, "it was stopped")
        return Loss(reason(self._last_words()), self._last_words())

    async def stop(self, *, keep: bool = False) -> Stopped:
        self._stopping = True
        stopped = Stopped(False, "its keeper has not been reached")
        if self._greeted and not self._ended.is_set():
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    answer = await self._ask({"stop": {"keep": keep}})
                stopped = heard(Stopped, answer["stopped"])  # type: ignore[arg-type]
            except TimeoutError:
                stopped = Stopped(False, f"its keeper has not answered for {STOP_SECONDS:g} s")
            except (EngineFailed, KeyError) as error:
                stopped = Stopped(False, str(error))
        elif self._ended.is_set():
            stopped = Stopped(False, self._last_words())
        await self._end()
        return stopped

    async def _end(self) -> None:
        child = self._child
        if child is None or self._pipes is None:
            return
        await self._end_program(child)
        if self._ended.is_set():  # else this would kill it
            self._pipes.close()

    async def _end_program(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdin is not None
        child.stdin.close()
        # One that has reached no keeper may wait for a place, and does not look at its input.
        ends = [_nothing] if self._greeted else []
        ends += [child.terminate, child.kill]
        for end in ends:
            if not self._ended.is_set():
                end()
            try:
                async with asyncio.timeout(END_SECONDS):
                    await self._ended.wait()
                return
            except TimeoutError:
                continue

    async def _ask(self, what: Say) -> Say:
        """Raises EngineFailed when the program ends before it has answered."""
        child = self._child
        assert child is not None and child.stdin is not None
        async with self._asking:
            if not self._greeted:
                await self._greeting()
                self._greeted = True
            self._asked += 1
            try:
                child.stdin.write(json.dumps({"number": self._asked, **what}).encode() + b"\n")
                await child.stdin.drain()
                # Before it may come the answer to a question whose asker did not wait.
                while (answer := await self._line()).get("number") != self._asked:
                    pass
                return answer
            except OSError as error:
                raise EngineFailed(self._last_words() or str(error), retryable=True) from None

    async def _greeting(self) -> None:
        while "outfitter" not in (said := await self._line()):
            if "failed" in said:
                raise EngineFailed(str(said["failed"]), retryable=bool(said.get("retryable")))

    async def _line(self) -> Say:
        """The next line that is an object; anything else is somebody else's."""
        assert self._child is not None and self._child.stdout is not None
        for _ in range(_GREETING_LINES):
            try:
                line = await self._child.stdout.readline()
            except ValueError:
                raise EngineFailed(f"{self._argv[0]} has printed a line that is too long") from None
            if not line:
                await self._ended.wait()
                raise EngineFailed(self._last_words(), retryable=True)
            if line.startswith(b"{"):
                try:
                    found = json.loads(line)
                except ValueError:
                    continue
                if isinstance(found, dict):
                    return found
        raise EngineFailed(f"{self._argv[0]} prints much that no keeper says: {line[:200]!r}")

    def _last_words(self) -> str:
        said = " ".join(self._said.decode("utf-8", "replace").split())
        status = "" if self._child is None else f" with exit status {self._child.returncode}"
        return f"{self._argv[0]} ended{status}: {said or 'it said nothing'}"
