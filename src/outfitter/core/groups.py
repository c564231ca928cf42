"""A queue in which groups take turns: one with 7,000 tasks does not starve one with 30."""

from __future__ import annotations

from ..stdlib import OrderedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class GroupQueue:
    """Names that wait since a time. Within a group, who came first is first."""

    __slots__ = ("_groups", "_length")

    def __init__(self) -> None:
        # The group whose turn it is first. Both kinds are taken from the front and from the middle.
        self._groups: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, name: str, group: str, since: float) -> None:
        self._groups.setdefault(group, OrderedDict())[name] = since
        self._length += 1

    def remove(self, name: str, group: str) -> None:
        del self._groups[group][name]
        self._taken(group)

    def take(self) -> str:
        """The next one. Its group is then behind all others."""
        group = next(iter(self._groups))
        self._groups.move_to_end(group)
        name, _ = self._groups[group].popitem(last=False)
        self._taken(group)
        return name

    def take_oldest(self) -> str:
        """The one that has waited longest, whoever's turn it is."""
        group = min(self._groups, key=self._oldest)
        name, _ = self._groups[group].popitem(last=False)
        self._taken(group)
        return name

    def oldest(self) -> float:
        """Since when somebody waits; infinity if nobody does."""
        return min(map(self._oldest, self._groups), default=float("inf"))

    def counts(self) -> dict[str, int]:
        """How many wait, by group."""
        return {group: len(names) for group, names in self._groups.items()}

    def __iter__(self) -> Iterator[str]:
        for names in self._groups.values():
            yield from names

    def _oldest(self, group: str) -> float:
        return next(iter(self._groups[group].values()))

    def _taken(self, group: str) -> None:
        self._length -= 1
        if not self._groups[group]:
            del self._groups[group]
