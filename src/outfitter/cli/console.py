"""What the command line says about itself: a line on stderr; a spinner while somebody waits at a terminal.

It shares the terminal with the command's output, so all of this goes through one `_Line`: nothing of ours
is left on a line of the command's, and nothing of the command's is wiped out.
"""

from __future__ import annotations

import os
import sys

from ..plain import plain
from .env.output import write_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES = "|/-\\"
_FRAME_SECONDS = 0.1
_PATIENCE_SECONDS = 0.3  # what is over sooner needs no spinner


class _Line:
    """The line of the terminal that the cursor is on."""

    def __init__(self) -> None:
        self._unfinished = False  # a command's output stands there
        self._spinning = False

    def spin(self, text: str) -> None:
        self._begin()
        self._spinning = True
        write_error(f"\r\x1b[2K{text}")

    def wipe(self) -> None:
        """Takes the spinner away."""
        if self._spinning:
            self._spinning = False
            write_error("\r\x1b[2K")

    def say(self, text: str) -> None:
        self.wipe()
        self._begin()
        # A terminal in raw mode needs the carriage return; elsewhere it would be noise.
        write_error(f"{text}\r\n" if sys.stderr.isatty() else f"{text}\n")

    def output(self, data: bytes) -> None:
        """A command's output is about to be shown here."""
        self.wipe()
        self._unfinished = not data.endswith(b"\n")

    def _begin(self) -> None:
        if self._unfinished and sys.stderr.isatty():
            write_error("\r\n")
        self._unfinished = False


_line = _Line()


def say(text: str) -> None:
    """One line for people. Diagnostics never go to stdout."""
    _line.say(f"outfitter: {plain(text)}")


def make_way(data: bytes) -> None:
    """To be called before a command's output goes to the terminal."""
    _line.output(data)


class Spinner:
    """A moving mark and a text, on a terminal; nothing anywhere else."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, text: str) -> None:
        if self._task is None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            import asyncio  # late: a plain `outfitter run` says a word without it

            self._task = asyncio.get_running_loop().create_task(self._turn(plain(text)))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
            _line.wipe()

    async def _turn(self, text: str) -> None:
        import asyncio
        import itertools

        await asyncio.sleep(_PATIENCE_SECONDS)
        encoding = (sys.stderr.encoding or "ascii").lower()
        for frame in itertools.cycle(_FRAMES if encoding.startswith("utf") else _PLAIN_FRAMES):
            _line.spin(f"{frame} {text}"[: _columns() - 1])  # what is wider could not be wiped out
            await asyncio.sleep(_FRAME_SECONDS)


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80


class waiting:
    """Shows a spinner for as long as the block takes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spinner = Spinner()

    def __enter__(self) -> None:
        self._spinner.start(self._text)

    def __exit__(self, *error: object) -> None:
        self._spinner.stop()


class LinkWatch:
    """Tells people about a connection that breaks: a spinner while it does, one line when it is back."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spinner = Spinner()
        self._since = 0.0

    def __call__(self, state: str) -> None:
        import asyncio

        now = asyncio.get_running_loop().time()
        if state == "recovering":
            self._since = now
            self._spinner.start(f"reconnecting to {self._name}")
            return
        self._spinner.stop()
        if state == "connected":
            say(f"the connection to {self._name} was lost and recovered after {now - self._since:.1f} s")
