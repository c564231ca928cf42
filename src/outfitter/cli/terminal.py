"""Our end of a command: what is typed and what is shown; a terminal's raw mode and size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from typing import TYPE_CHECKING

from .quickfollow import BACKGROUND_SECONDS, in_background

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

_READ_SIZE = 64 << 10
_WRITE_SIZE = select.PIPE_BUF  # what a pipe with any room takes without making us wait
DEFAULT_SIZE = (24, 80)  # the reference's, where there is no terminal to ask
INTERRUPT, END = b"\x03", b"\x04"  # what Ctrl-C and Ctrl-D type in raw mode
LINE_ENDS = (b"\r", b"\n", END)  # what a terminal passes a line on for


def is_terminal() -> bool:
    """Whether somebody types at our standard input."""
    try:
        return os.isatty(0)
    except OSError:
        return False


def size() -> tuple[int, int]:
    """Rows and columns of the terminal we are on."""
    for fd in (1, 0, 2):
        try:
            found = os.get_terminal_size(fd)
        except OSError:
            continue
        if found.lines and found.columns:
            return found.lines, found.columns
    return DEFAULT_SIZE


@contextlib.contextmanager
def raw() -> Iterator[Callable[[], None]]:
    """Everything typed goes through as it is, and nothing is echoed here: the far terminal does both.

    Yields what makes it so again, after a shell had the terminal while we were stopped.
    """
    if not is_terminal():
        yield lambda: None
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    ours = True

    def again() -> None:
        if ours:
            with contextlib.suppress(termios.error):  # it is gone
                tty.setraw(0, termios.TCSADRAIN)

    try:
        tty.setraw(0, termios.TCSADRAIN)
        yield again
    finally:
        ours = False
        # Not TCSAFLUSH: what was typed ahead is for the shell that we return to.
        with contextlib.suppress(termios.error):  # it is gone
            termios.tcsetattr(0, termios.TCSADRAIN, before)


async def standard_input() -> AsyncIterator[bytes]:
    """What comes on standard input, as it comes, up to its end."""
    watched = True
    while True:
        if watched:
            try:
                await _ready(0, writing=False)
            except PermissionError:  # a plain file or /dev/null is always ready
                watched = False
            except OSError:  # no standard input at all
                return
            if in_background():
                await asyncio.sleep(BACKGROUND_SECONDS)
                continue
        try:
            data = os.read(0, _READ_SIZE)
        except BlockingIOError:
            continue
        except OSError:  # a terminal that we are not in the foreground of
            return
        if not data:
            return
        yield data


async def write(fd: int, data: bytes) -> None:
    """Writes all of it; a reader that is slow, or stopped, holds up nothing else. Raises OSError.

    The descriptor stays blocking, for it may be shared with others who rely on that.
    """
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    rest = memoryview(data)
    while rest:
        if not poll.poll(0):
            await _ready(fd, writing=True)
            continue
        try:
            rest = rest[os.write(fd, rest[:_WRITE_SIZE]) :]
        except BlockingIOError:  # somebody else has made it non-blocking
            await _ready(fd, writing=True)


async def _ready(fd: int, *, writing: bool) -> None:
    loop = asyncio.get_running_loop()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    ready: asyncio.Future[None] = loop.create_future()

    def found() -> None:
        # At once: told twice, we would read twice, and the second time wait for somebody to type.
        remove(fd)
        if not ready.done():
            ready.set_result(None)

    add(fd, found)
    try:
        await ready
    finally:
        remove(fd)
