"""Snapshots of shells that the clients of one session have asked for: which is used, and when one is taken.

A shell that could not be asked is not asked with every command: a few times, with a pause, then never again
for this snapshot. Time is an argument. Entries may come from threads; all else is for one thread.
"""

from __future__ import annotations

from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..env.layer import Layer
    from ..shell.state import ShellState

ASKED_ID = "shell-snapshot"  # what the layer is called
# Snapshots of one session: the reference's. A client has a few directories and two or three sandboxes.
SNAPSHOTS = 16
# What they hold in memory together: sixteen of 100 KiB, which is much. The oldest are taken again.
TOTAL_BYTES = 2 << 20
# The reference's: a profile that waits for a network may work a second later.
ATTEMPTS, PAUSE_SECONDS = 3, 1.0
# What of a request's own variables decides which startup files there are, and what they do. All others are
# the command's alone: a snapshot that knew them would bring those of one command to the next.
RELEVANT = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "TERM", "COLORTERM", "NO_COLOR", "TZ"),
        *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "BASH_ENV", "ENV", "ZDOTDIR"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
    )
)


@record
class Taken:
    """What a snapshot gives a command: a layer of its environment, and what else its shell begins with.

    `layer` is None where the variables do not come, or are there already.
    """

    layer: Layer | None
    left: ShellState | None = None

    @property
    def failed(self) -> bool:
        return self.layer is not None and self.layer.state == "failed"

    @property
    def size(self) -> int:
        size = 0 if self.left is None else len(self.left.text)
        if self.layer is not None:
            size += sum(len(name) + len(value) for name, value in self.layer.values.items())
            size += sum(len(text) for one in self.layer.operations for text in one.values)
        return size


def start_of(lower: Mapping[str, str], env: Mapping[str, str], unset: tuple[str, ...]) -> dict[str, str]:
    """The environment that startup files run in: that below a request, and what is relevant of its own."""
    start = {**lower, **{name: env[name] for name in RELEVANT.intersection(env)}}
    return {name: value for name, value in start.items() if name not in unset}


class SnapshotCache:
    """The snapshots of a session, by key; the one that was used least recently is forgotten first."""

    def __init__(self) -> None:
        # With how often each has failed, and until when it is not tried again.
        self.entries: dict[str, tuple[Taken, int, float]] = {}
        self._arrived: list[tuple[str, Taken, float]] = []

    def arrive(self, key: str, taken: Taken, now: float) -> None:
        """Gives what was taken, from any thread."""
        self._arrived.append((key, taken, now))

    def find(self, key: str, now: float) -> Taken | None:
        """What is known; None if it must be taken, perhaps again."""
        self.settle()
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        self.entries[key] = entry
        taken, failures, rests_until = entry
        return None if taken.failed and failures < ATTEMPTS and now >= rests_until else taken

    def settle(self) -> None:
        """Takes in what has arrived."""
        while self._arrived:
            key, taken, now = self._arrived.pop(0)
            known = self.entries.pop(key, None)
            failures = 0 if not taken.failed else 1 + (0 if known is None else known[1])
            self.entries[key] = (self._alike(taken), failures, now + PAUSE_SECONDS)
            while len(self.entries) > 1 and (len(self.entries) > SNAPSHOTS or self._size > TOTAL_BYTES):
                del self.entries[next(iter(self.entries))]

    @property
    def _size(self) -> int:
        return sum(taken.size for taken, _, _ in self.entries.values())

    def _alike(self, taken: Taken) -> Taken:
        """One that is the same, if there is one: then what was made of its layer is known, too."""
        for other, _, _ in self.entries.values():
            if other.layer is not None and taken.layer is not None and _same(other.layer, taken.layer):
                return Taken(other.layer, taken.left)
        return taken


def _same(one: Layer, other: Layer) -> bool:
    names = ("values", "unset", "operations", "state", "note", "producer")
    return all(getattr(one, name) == getattr(other, name) for name in names)
