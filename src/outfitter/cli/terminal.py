"""Our own terminal while a command has it: raw mode, its size, what is typed."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_READ_SIZE = 64 << 10
DEFAULT_SIZE = (24, 80)  # the reference's, where there is no terminal to ask
INTERRUPT = b"\x03"  # what Ctrl-C types in raw mode


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
def raw() -> Iterator[None]:
    """Everything typed goes through as it is, and nothing is echoed here: the far terminal does both."""
    if not is_terminal():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)
        yield
    finally:
        # Not TCSAFLUSH: what was typed ahead is for the shell that we return to.
        termios.tcsetattr(0, termios.TCSADRAIN, before)


async def standard_input() -> AsyncIterator[bytes]:
    """What comes on standard input, as it comes, up to its end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(0, ready.set)
        watched = True
    except PermissionError:  # a plain file or /dev/null is always ready
        watched = False
    except OSError:  # no standard input at all
        return
    try:
        while True:
            if watched:
                await ready.wait()
                ready.clear()
            try:
                data = os.read(0, _READ_SIZE)
            except BlockingIOError:
                continue
            except OSError:  # a terminal that we are not in the foreground of
                return
            if not data:
                return
            yield data
    finally:
        if watched:
            loop.remove_reader(0)
