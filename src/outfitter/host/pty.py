"""Terminals for children: open one, size it, find who is in the foreground."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from .pipes import let_go

_SIZE = struct.Struct("HHHH")


def open_terminal(rows: int, cols: int) -> tuple[int, int, str]:
    """A terminal of that size: our end, the child's end, and the name of the child's end. Raises OSError."""
    ours, theirs = os.openpty()
    try:
        resize(ours, rows, cols)
        return ours, theirs, os.ttyname(theirs)
    except BaseException:
        let_go(ours, theirs)
        raise


def resize(fd: int, rows: int, cols: int) -> None:
    """Sets the size; the kernel tells the foreground group (SIGWINCH)."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, _SIZE.pack(rows, cols, 0, 0))


def foreground_group(fd: int) -> int | None:
    """The process group that has the terminal, or None when nobody has."""
    try:
        group = os.tcgetpgrp(fd)
    except OSError:
        return None
    return group if group > 0 else None
