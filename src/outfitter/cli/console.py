"""What the command line says about itself: a line on stderr; a spinner while somebody waits at a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES = "|/-\\"
_FRAME_SECONDS = 0.1
_PATIENCE_SECONDS = 0.3  # what is over sooner needs no spinner


def say(text: str) -> None:
    """One line for people. Diagnostics never go to stdout."""
    # A terminal in raw mode needs the carriage return; elsewhere it would be noise.
    end = "\r\n" if sys.stderr.isatty() else "\n"
    sys.stderr.write(f"outfitter: {text}{end}")
    sys.stderr.flush()


class Spinner:
    """A moving mark and a text, on a terminal; nothing anywhere else."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, text: str) -> None:
        if self._task is None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._task = asyncio.get_running_loop().create_task(self._turn(text))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _turn(self, text: str) -> None:
        await asyncio.sleep(_PATIENCE_SECONDS)
        encoding = (sys.stderr.encoding or "ascii").lower()
        frames = _FRAMES if encoding.startswith("utf") else _PLAIN_FRAMES
        place = 0
        try:
            while True:
                _draw(f"\r\x1b[2K{frames[place % len(frames)]} {text}")
                place += 1
                await asyncio.sleep(_FRAME_SECONDS)
        finally:
            _draw("\r\x1b[2K")


def _draw(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass  # the terminal is gone


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Shows a spinner for as long as the block takes."""
    spinner = Spinner()
    spinner.start(text)
    try:
        yield
    finally:
        spinner.stop()


class LinkWatch:
    """Tells people about a connection that breaks: a spinner while it does, one line when it is back."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spinner = Spinner()
        self._since = 0.0

    def __call__(self, state: str) -> None:
        loop = asyncio.get_running_loop()
        if state == "recovering":
            self._since = loop.time()
            self._spinner.start(f"reconnecting to {self._name}")
            return
        self._spinner.stop()
        if state == "connected":
            # The spinner clears its line when it is next on turn; the text comes after that.
            loop.call_later(0, self._back, loop.time() - self._since)

    def _back(self, seconds: float) -> None:
        say(f"the connection to {self._name} was lost and recovered after {seconds:.1f} s")
