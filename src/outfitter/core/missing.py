"""Which folders to watch for which names, so that paths that are missing are noticed when they appear.

A path is a chain of names from the root. Every folder on the chain is watched for the next name, *before*
that name is looked up: whatever happens to it afterwards is seen, so nothing is missed in between. A chain
ends well at a name that is absent. It cannot be watched where a link or a file stands in the way: the name
that would have to be watched is another one, or none.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# What a name turns out to be. `UNKNOWN`: it could not be looked up, or changes there are not reported.
ABSENT, FOLDER, LINK, OTHER, UNKNOWN = "absent", "folder", "link", "other", "unknown"


class _Node:
    """A name on some chain, and the names looked for below it."""

    __slots__ = ("below", "is_missing", "is_present", "must_exist")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.is_missing = False
        self.is_present = False
        self.must_exist = False  # this is `present`, or on the way to it


class Plan:
    """Paths on their way to be watched. Who looks is told which folder is next, and says what it saw.

    `possible` becomes False with the first name that is not as it must be.
    """

    __slots__ = ("_next", "possible")

    def __init__(self, missing: Iterable[str], present: str | None = None) -> None:
        """Paths are native, absolute and without dots."""
        root = _Node()
        for path in missing:
            _chain(root, path)[-1].is_missing = True
        if present is not None:
            chain = _chain(root, present)
            chain[-1].is_present = True
            for node in chain:
                node.must_exist = True
        self.possible = not root.is_missing
        self._next: list[tuple[str, _Node]] = [("/", root)] if root.below else []

    def next(self) -> Folder | None:
        """The folder to watch and look into now; None at the end, or when it is over."""
        if not self._next or not self.possible:
            return None
        path, node = self._next.pop()
        return Folder(self, path, node)

    def enter(self, path: str, node: _Node) -> None:
        self._next.append((path, node))

    def refuse(self) -> None:
        self.possible = False


class Folder:
    """A folder that exists, and the names in it that matter."""

    __slots__ = ("_node", "_plan", "has_present", "names", "path")

    def __init__(self, plan: Plan, path: str, node: _Node) -> None:
        self._plan = plan
        self._node = node
        self.path = path
        self.names = frozenset(node.below)
        # Only what is there already can be modified; nobody else need hear of every write.
        self.has_present = any(below.is_present for below in node.below.values())

    def saw(self, name: str, kind: str) -> None:
        """What a name in this folder is, looked up after the folder was watched."""
        node, plan = self._node.below[name], self._plan
        if kind == ABSENT:
            if node.must_exist:
                plan.refuse()
        elif kind == UNKNOWN or node.is_missing:
            plan.refuse()
        elif node.below:
            if kind != FOLDER:
                plan.refuse()
            else:
                plan.enter(f"{self.path.rstrip('/')}/{name}", node)
        elif kind == LINK:
            plan.refuse()  # what it leads to would have to be watched, by another name


def _chain(root: _Node, path: str) -> list[_Node]:
    """The nodes of a path, made where they are not there yet."""
    chain = [root]
    for name in path.split("/"):
        if name:
            chain.append(chain[-1].below.setdefault(name, _Node()))
    return chain
