"""What a file system looks like from inside a confinement, as mounts for its rules show it.

Nothing here looks at a disk: paths are real ones, absolute and without links and dots. What is to be seen at
a path, if it is there, is one of seven:

    HIDDEN   nothing
    CLOSED   nothing, and not even that can be found out: it is below a mask
    MASKED   a mask: there to be seen, but not to be opened
    PASSES   a mask through which a way leads to something below; nobody may look around there
    LEADS    a folder or a link that is there only because a way leads through it
    READ, WRITE
"""

from __future__ import annotations

from .permissions import DENY as DENY
from .permissions import READ as READ
from .permissions import WRITE as WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .permissions import Rule

HIDDEN, CLOSED, MASKED, PASSES, LEADS = "hidden", "closed", "masked", "passes", "leads"

# What a rule means for its path, and for what is below it.
_MEANS = {READ: (READ, READ), WRITE: (WRITE, WRITE), DENY: (MASKED, CLOSED)}
_WAY, _MASKED_WAY = (LEADS, HIDDEN), (PASSES, HIDDEN)


class Visibility:
    """Rules for real paths, as a tree of places at which the answer changes."""

    __slots__ = ("_matches", "_places", "has_globs", "places")

    def __init__(
        self,
        rules: Iterable[Rule],
        ways: Iterable[str] = (),
        matches: Callable[[str], object] | None = None,
    ) -> None:
        """`ways` are paths by which something that may be seen is reached, through links; `matches` tells
        which files are masked by their names."""
        self._matches = matches
        self.has_globs = matches is not None
        self._places: dict[str, tuple[str, str]] = {}
        for rule in sorted(rules, key=lambda rule: (rule.path.count("/"), len(rule.path))):
            if rule.access != DENY or self.look(rule.path) != HIDDEN:
                self._places[rule.path] = _MEANS[rule.access]
        for path in [path for path, means in self._places.items() if means != _MEANS[DENY]]:
            self._lead_to(path)
        for path in ways:
            if self.look(path) == HIDDEN:
                self._places[path] = _WAY
                self._lead_to(path)
        self._places.setdefault("/", _WAY)
        #: Where something begins, the root aside: a mount stands there.
        self.places = tuple(sorted(path for path in self._places if path != "/"))

    def _lead_to(self, path: str) -> None:
        """Makes the way to a place visible where it is not."""
        while path != "/":
            path = parent(path)
            here = self._places.get(path)
            if here is None and self.look(path) in (HIDDEN, CLOSED):
                self._places[path] = _WAY
            elif here == _MEANS[DENY]:
                self._places[path] = _MASKED_WAY

    def look(self, path: str) -> str:
        """What is to be seen at a real path, patterns aside."""
        places = self._places
        found = places.get(path)
        if found is not None:
            return found[0]
        while path != "/":
            path = path[: path.rfind("/")] or "/"
            found = places.get(path)
            if found is not None:
                return found[1]
        return HIDDEN

    def look_at_file(self, path: str) -> str:
        """The same for what is no folder: patterns mask files."""
        look = self.look(path)
        if self._matches is not None and look in (READ, WRITE) and self._matches(path):
            return MASKED
        return look

    def is_place(self, path: str) -> bool:
        """Whether a mount stands there."""
        return path in self._places

    def within(self, path: str) -> list[str]:
        """The places strictly below a path."""
        start = path.rstrip("/") + "/"
        return [place for place in self.places if place.startswith(start)]


def parent(path: str) -> str:
    return path[: path.rfind("/")] or "/"
