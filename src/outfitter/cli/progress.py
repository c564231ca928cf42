"""How far a copy is: one line on a terminal, nothing anywhere else."""

from __future__ import annotations

import os
import shutil
import sys
import time

_REDRAW_SECONDS = 0.1
_BAR = 24


class Progress:
    """Files and bytes, done and expected."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._files = self.files_done = 0
        self._bytes = self.bytes_done = self.bytes_before = 0
        self._name = ""
        self._begun = time.monotonic()
        self._drawn = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._shown:
            self._draw(force=True)
            sys.stderr.write("\n" if kind is None else "\r\x1b[2K")
            sys.stderr.flush()

    def expect(self, files: int, size: int) -> None:
        self._files += files
        self._bytes += size

    def resumed(self, size: int) -> None:
        """So much was there already."""
        self.bytes_before += size
        self.moved(size)

    def moved(self, size: int) -> None:
        self.bytes_done += size
        self._draw()

    def done(self, path: str) -> None:
        self.files_done += 1
        self._name = path
        self._draw()

    def _draw(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if not self._shown or (not force and now - self._drawn < _REDRAW_SECONDS):
            return
        self._drawn = now
        share = min(1.0, self.bytes_done / self._bytes) if self._bytes else 1.0
        filled = int(share * _BAR)
        moved = self.bytes_done - self.bytes_before
        rate = moved / max(0.001, now - self._begun)
        left = (self._bytes - self.bytes_done) / rate if rate else 0.0
        counted = f"{self.files_done}/{self._files} files, " if self._files > 1 else ""
        line = (
            f"[{'#' * filled}{'.' * (_BAR - filled)}] {share:4.0%} {counted}"
            f"{size_text(self.bytes_done)} of {size_text(self._bytes)}, {size_text(int(rate))}/s"
            + (f", {left:.0f} s left" if 1 < left < 360_000 else "")
        )
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[2K{line[:width]}")
        sys.stderr.flush()


def size_text(size: int) -> str:
    """A size for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError
