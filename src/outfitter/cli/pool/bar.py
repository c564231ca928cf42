"""How far a run of many tasks is: one line that moves on a terminal, one line every ten seconds elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...pool.tally import PoolStatus

_BAR, _SHORTEST = 24, 4  # columns of the bar itself
_WIDE = 1000  # columns where nothing is cut
_BAD = ("failed", "lost", "refused")  # states that are shown while it runs
_REDRAW_SECONDS = 0.1
_LINE_SECONDS = 10.0


class Bar:
    """Counts results; `draw` shows them when it is time."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._clock = clock
        self._moving = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._begun = clock()
        self._drawn = self._begun if not self._moving else 0.0
        self.states: dict[str, int] = {}

    @property
    def done(self) -> int:
        return sum(self.states.values())

    def count(self, state: str) -> None:
        self.states[state] = self.states.get(state, 0) + 1

    def draw(self, status: PoolStatus) -> None:
        now = self._clock()
        if now - self._drawn < (_REDRAW_SECONDS if self._moving else _LINE_SECONDS):
            return
        self._drawn = now
        width = shutil.get_terminal_size().columns - 1 if self._moving else _WIDE
        text = line(self.states, self._total, status, now - self._begun, width)
        sys.stderr.write(f"\r\x1b[2K{text[:width]}" if self._moving else f"{text}\n")
        sys.stderr.flush()

    def wipe(self) -> None:
        """Makes way for a line of somebody else."""
        if self._moving:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._drawn = 0.0

    def end(self) -> None:
        self.wipe()
        sys.stderr.write(f"{summary(self.states, self._clock() - self._begun)}\n")
        sys.stderr.flush()


def line(
    states: Mapping[str, int], total: int, status: PoolStatus, seconds: float, width: int = _WIDE
) -> str:
    """The line, for people. Where it is too long, first the bar becomes shorter."""
    done = sum(states.values())
    rate = done / seconds if seconds else 0.0
    said = [f"{done:,}/{total:,}", f"{status['leased']} leased"]
    said.append(f"{status['slots'].get('starting', 0)} starting")
    said += [f"{states[state]:,} {state}" for state in _BAD if states.get(state)]
    said.append(f"{rate:.3g}/s")
    if rate and done < total:
        said.append(f"about {duration((total - done) / rate)}")
    text = "  ".join(said)
    room = min(_BAR, width - len(text) - len("[] "))
    return text if room < _SHORTEST else f"[{_drawn(done / total if total else 1.0, room)}] {text}"


def _drawn(share: float, room: int) -> str:
    filled = int(share * room)
    return "=" * filled if filled == room else "=" * filled + ">" + " " * (room - filled - 1)


def summary(states: dict[str, int], seconds: float) -> str:
    parts = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items())) or "nothing to do"
    return f"{sum(states.values()):,} tasks in {duration(seconds)}: {parts}"


def duration(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
