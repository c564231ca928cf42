"""A walk over a tree, decided but not done: what is listed, what is entered, when it stops.

Breadth-first, sorted within a folder, bounded by depth, folders, names looked at and the size of the
answer. Who looks at the folders is told which one is next, and says what it found.
"""

from __future__ import annotations

# The reference's bound for an answer, and how it counts: the URI and so much more for every entry.
RESPONSE_BYTES = 4 << 20
ENTRY_BYTES = 64

DIRECTORY, FILE, OTHER = "directory", "file", "other"


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: One name in a folder: the name, its URI, what it is or leads to, and whether it can be entered. A plain
    #: tuple: a walk makes fifty thousand of them.
    Found = tuple[str, str, str, bool]


class Walk:
    """The state of one walk."""

    __slots__ = (
        "_budget",
        "_depth",
        "_directories",
        "_entered",
        "_examined",
        "_limit",
        "_prune_hidden",
        "_queue",
        "_reading",
        "_stopped",
        "errors",
        "groups",
        "truncated",
    )

    def __init__(
        self,
        root: tuple[str, str],
        *,
        max_depth: int,
        max_directories: int,
        max_entries: int,
        prune_hidden: bool,
        budget: int = RESPONSE_BYTES,
    ) -> None:
        """`root` is its path and its URI, as all folders are."""
        # What is listed: the URI of a folder with its slash, names as they stand in URIs, and their kind.
        self.groups: list[tuple[str, list[str], str]] = []
        self.errors: list[tuple[str, str]] = []  # URI and message
        self.truncated = False
        self._depth = max_depth
        self._directories = max_directories
        self._limit = max_entries
        self._prune_hidden = prune_hidden
        self._budget = budget
        self._queue: list[tuple[str, str, int]] = [(*root, 0)]
        self._reading = 0
        self._entered = 1
        self._examined = 0
        self._stopped = False

    @property
    def entries(self) -> list[tuple[str, str]]:
        """URI and kind of everything listed."""
        return [(prefix + name, kind) for prefix, names, kind in self.groups for name in names]

    def next(self) -> tuple[str, str, int] | None:
        """Path, URI and depth of the folder to look at now, or None at the end."""
        if self._stopped or self._reading >= len(self._queue):
            return None
        folder = self._queue[self._reading]
        self._queue[self._reading] = ("", "", 0)  # a wide tree is long; what was done is not kept
        self._reading += 1
        return folder

    def stop(self) -> None:
        """The time is up."""
        self._stopped = self.truncated = True

    def failed(self, uri: str, message: str) -> None:
        """A folder or name could not be looked at; the walk goes on."""
        if self._spend(len(uri) + len(message)):
            self.errors.append((uri, message))

    def saw(
        self, path: str, depth: int, names: list[Found], fresh: Callable[[str], bool] | None = None
    ) -> None:
        """What a folder holds, sorted. `fresh` says of a folder's path whether it was never entered yet."""
        for name, uri, kind, enter in names:
            if self._stopped:
                return
            if self._examined >= self._limit:
                self.stop()
                return
            self._examined += 1
            if kind == OTHER:
                continue
            if not self._spend(len(uri)):
                return
            prefix, slash, last = uri.rpartition("/")
            self.groups.append((prefix + slash, [last], kind))
            if enter:
                self._may_enter(path, depth, name, uri, fresh)

    def saw_files(self, prefix: str, names: list[str]) -> None:
        """Files of one folder, sorted, their names as they stand in URIs: nearly all that there is, so they
        are taken together."""
        if self._stopped or not names:
            return
        room = self._limit - self._examined
        fits = names if len(names) <= room else names[:room]
        cost = len(fits) * (len(prefix) + ENTRY_BYTES) + sum(map(len, fits))
        if cost > self._budget:
            count = 0
            for name in fits:
                if not self._spend(len(prefix) + len(name)):
                    break
                count += 1
            fits = fits[:count]
        else:
            self._budget -= cost
        self._examined += len(fits)
        if fits:
            self.groups.append((prefix, fits, FILE))
        if len(fits) < len(names):
            self.stop()

    def _may_enter(
        self, path: str, depth: int, name: str, uri: str, fresh: Callable[[str], bool] | None
    ) -> None:
        if depth >= self._depth or (self._prune_hidden and name.startswith(".")):
            return
        inner = f"{path}/{name}" if path != "/" else f"/{name}"
        if fresh is not None and not fresh(inner):
            return
        if self._entered >= self._directories:
            self.truncated = True
            return
        self._entered += 1
        self._queue.append((inner, uri, depth + 1))

    def _spend(self, size: int) -> bool:
        size += ENTRY_BYTES
        if size > self._budget:
            self.stop()
            return False
        self._budget -= size
        return True
