"""Variables that are lists, such as PATH: their segments, each with the layer it came from.

Joining the segments gives exactly the value that a child sees.
"""

from __future__ import annotations

from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LIST_NAMES = frozenset(
    (
        *("PATH", "MANPATH", "INFOPATH", "PKG_CONFIG_PATH", "XDG_DATA_DIRS", "XDG_CONFIG_DIRS", "PYTHONPATH"),
        *("LD_LIBRARY_PATH", "CPATH", "LIBRARY_PATH", "NODE_PATH", "PERL5LIB"),
    )
)
OPERATIONS = ("prepend", "append", "remove", "replace")


@record
class Segment:
    """One entry of a list. `op` is how it came in, `note` what was done to it."""

    value: str
    level: int
    layer: str
    op: str
    note: str = ""


@record
class Dropped:
    """An entry that is not in the list any more, and why."""

    value: str
    level: int
    layer: str
    why: str


class ListValue:
    """One list variable while layers work on it."""

    __slots__ = ("_front", "dropped", "name", "segments", "touched")

    def __init__(self, name: str) -> None:
        self.name = name
        self.segments: list[Segment] = []
        self.dropped: list[Dropped] = []
        self.touched = False  # by an operation: then it is tidied up, whoever asked
        # How many of the first segments one layer has put in front so far: its next ones go behind them.
        self._front: tuple[int, str, int] | None = None

    def copy(self) -> ListValue:
        twin = ListValue(self.name)
        twin.segments = self.segments.copy()
        twin.dropped = self.dropped.copy()
        twin.touched = self.touched
        twin._front = self._front
        return twin

    def text(self) -> str:
        return ":".join([segment.value for segment in self.segments])

    # What layers do

    def set(self, value: str, level: int, layer: str) -> str:
        """Takes a whole new value; entries that were there keep their origin. Returns what that amounts to.

        Most "new" values are the old one with something in front: telling so is the point of provenance.
        """
        self.touched = False  # a whole value is what somebody said, not what we made of it
        self._front = None
        old = self.segments
        waiting: dict[str, list[Segment]] = {}
        for segment in old:
            waiting.setdefault(segment.value, []).append(segment)
        kept: list[Segment] = []
        places: list[int] = []
        fresh: list[Segment | None] = []
        for place, text in enumerate(value.split(":")):
            known = waiting.get(text)
            if known:
                kept.append(known.pop(0))
                places.append(place)
                fresh.append(kept[-1])
            else:
                fresh.append(None)
        op = _amounts_to(old, kept, places, len(fresh))
        self.segments = [
            segment if segment is not None else Segment(text, level, layer, op)
            for segment, text in zip(fresh, value.split(":"), strict=True)
        ]
        lost = [segment for rest in waiting.values() for segment in rest]
        self._drop(lost, f"not in the value that {layer} sets")
        return op

    def operate(self, op: str, values: Sequence[str], level: int, layer: str, root: str | None) -> None:
        """prepend, append, remove or replace; `root` makes relative entries absolute.

        An entry with a colon is several. What one layer prepends in several operations stays in its order.
        """
        self.touched = True
        given = []
        for value in ":".join(values).split(":") if values else ():
            absolute = value
            if root is not None and self._is_relative(value):
                absolute = _join(root, value)
            note = f"written as {value}" if absolute != value else ""
            given.append(Segment(absolute, level, layer, op, note))
        new = {entry_key(segment.value) for segment in given}
        if op == "remove":
            self._drop([one for one in self.segments if entry_key(one.value) in new], f"removed by {layer}")
            front = [
                one
                for one in self.segments[: self._in_front(level, layer)]
                if entry_key(one.value) not in new
            ]
            self._front = (level, layer, len(front))
            self.segments = [one for one in self.segments if entry_key(one.value) not in new]
            return
        new.discard("")  # empty entries are never the same: what one means depends on where it is
        if op == "replace":
            there_before = {one.value: one for one in reversed(self.segments)}
            self._drop(
                [one for one in self.segments if entry_key(one.value) not in new], f"replaced by {layer}"
            )
            # As in `set`: what was there keeps its origin.
            self.segments = [there_before.get(one.value, one) for one in given]
            self._front = None
        elif op == "prepend":
            # Moved to the front, not doubled: the layer that asks for it now is the one it comes from.
            front = self.segments[: self._in_front(level, layer)]
            rest = self.segments[len(front) :]
            there = {entry_key(one.value) for one in front}
            front += [one for one in given if not one.value or entry_key(one.value) not in there]
            self._front = (level, layer, len(front))
            self.segments = front + [one for one in rest if entry_key(one.value) not in new]
        else:
            there = {entry_key(one.value) for one in self.segments}
            self.segments = self.segments + [
                one for one in given if not one.value or entry_key(one.value) not in there
            ]

    def _in_front(self, level: int, layer: str) -> int:
        known = self._front
        return known[2] if known is not None and known[:2] == (level, layer) else 0

    def _is_relative(self, value: str) -> bool:
        if not value or value.startswith(("/", "$")):
            return False
        return self.name != "PATH" or entry_key(value) != "."  # there it means "wherever I am", not a folder

    def tidy(self) -> None:
        """Drops what must not be in a list, and what is in it twice; the first one stays."""
        seen: set[str] = set()
        kept = []
        for segment in self.segments:
            why = self._fault(segment.value)
            key = entry_key(segment.value)
            if not why and key and key in seen:
                why = "duplicate"
            if why:
                self._drop([segment], why)
            else:
                seen.add(key)
                kept.append(segment)
        self.segments = kept
        self._front = None

    def _fault(self, value: str) -> str:
        if self.name != "PATH":
            return ""  # an empty entry of MANPATH stands for the system's own list
        if not value:
            return "empty: it would mean the current directory"
        if value.startswith("$"):
            return "an unexpanded reference to a variable"
        if not value.startswith("/"):
            return "relative: its meaning would depend on the current directory"
        return ""

    def _drop(self, segments: Iterable[Segment], why: str) -> None:
        self.dropped += [Dropped(one.value, one.level, one.layer, why) for one in segments]


def leads_somewhere(path: str) -> bool:
    """Whether programs can be found through a value of PATH, whatever the current directory is."""
    return any(entry.startswith("/") for entry in path.split(":"))


# Where programs are that every command needs; the last is NixOS's.
SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/run/current-system/sw/bin")


def reaches_system(path: str) -> bool:
    """Whether the programs that every command needs can be found through a value of PATH."""
    return any(entry_key(entry) in SYSTEM_FOLDERS or entry.startswith("/nix/") for entry in path.split(":"))


def entry_mistake(entry: str) -> str:
    """What is wrong with an entry for PATH, of which nothing is expanded; empty when nothing is."""
    if not entry:
        return "an empty entry means the current directory: remove the colon"
    if "$" in entry:
        return (
            f"`{entry}` is not expanded here: write the directory itself, and use prepend or append for PATH"
        )
    if not entry.startswith("/"):
        return f"`{entry}` is relative, and means another directory for each command: write it from / on"
    return ""


def path_mistake(path: str) -> str:
    """What is wrong with a whole value for PATH; empty when nothing is."""
    for entry in path.split(":"):
        if why := entry_mistake(entry):
            return why
    if not reaches_system(path):
        return (
            "it has neither /usr/bin nor /bin, so commands find no programs: use prepend or append for PATH"
        )
    return ""


def _amounts_to(old: list[Segment], kept: list[Segment], places: list[int], size: int) -> str:
    if not old:
        return "set"
    if kept != old:
        return "replace"
    if len(kept) == size:
        return "set"
    if places == list(range(size - len(places), size)):
        return "prepend"
    return "append" if places == list(range(len(places))) else "replace"


def entry_key(value: str) -> str:
    """What makes two entries the same: a trailing slash does not count, links are not followed."""
    return value.rstrip("/") or value[:1]


def _join(root: str, relative: str) -> str:
    parts = [] if root == "/" else root.rstrip("/").split("/")[1:]
    for part in relative.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
