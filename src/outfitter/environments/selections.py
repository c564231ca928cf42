"""What a thread of work has selected: environments with a working directory in each, and roots.

A selection is sticky: it holds for every turn of its thread until another one is made, and forks of the
thread inherit it. A turn may override the environments once, for itself. All of this is data: what of it is
there is found out for each step (`manager`, `roots`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SettingInvalid
from ..record import fill, record, replace
from .roots import Selection, file_uri, member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.jsontext import Json
    from ..protocol.uri import FileUri

# Codex's names for them.
_ENVIRONMENTS, _ROOTS = "environments", "selectedCapabilityRoots"


@record
class SelectedEnvironment:
    """An environment and the working directory there, a `file:` URI or an absolute path.

    Raises SettingInvalid.
    """

    environment_id: str
    where: str

    def __post_init__(self) -> None:
        if not self.environment_id:
            raise SettingInvalid("a selected environment must have an id")
        fill(self, where=file_uri(self.where, f"the directory of environment `{self.environment_id}`"))

    @property
    def cwd(self) -> FileUri:
        from ..protocol import uri

        return uri.parse(self.where)


@record
class TurnSelection:
    """What one turn works with. The first environment is the one that commands run in unless they say."""

    environments: Sequence[SelectedEnvironment]
    roots: Selection

    @property
    def primary(self) -> SelectedEnvironment | None:
        return self.environments[0] if self.environments else None

    @property
    def names(self) -> tuple[str, ...]:
        """The environments' ids: what a step of this turn captures."""
        return tuple(one.environment_id for one in self.environments)


@record
class ThreadSelection:
    """What a thread has selected; an environment is there once. Raises SettingInvalid."""

    environments: Sequence[SelectedEnvironment] = ()
    roots: Selection = Selection()

    def __post_init__(self) -> None:
        fill(self, environments=_once(self.environments))

    def select(self, *environments: SelectedEnvironment) -> ThreadSelection:
        """The thread from its next turn on: with these environments and no others."""
        return replace(self, environments=environments)

    def with_roots(self, roots: Selection) -> ThreadSelection:
        return replace(self, roots=roots)

    def fork(self) -> ThreadSelection:
        """What a fork begins with: all of it, however little of the history it takes over.

        A selection is no part of the history. What the fork selects later is its own.
        """
        return self

    def turn(self, override: Sequence[SelectedEnvironment] | None = None) -> TurnSelection:
        """What the next turn works with. An `override` holds for that turn alone; an empty one leaves it
        without environments."""
        return TurnSelection(self.environments if override is None else _once(override), self.roots)

    def to_json(self) -> Json:
        """As Codex spells it, for the record of a thread."""
        return {
            _ENVIRONMENTS: [
                {"environmentId": one.environment_id, "cwd": one.where} for one in self.environments
            ],
            _ROOTS: self.roots.to_json(),
        }

    @classmethod
    def from_json(cls, value: Json) -> ThreadSelection:
        """Reads the record of a thread. A member that is missing or null is an empty selection: the record
        is older than selections. Raises SettingInvalid."""
        if type(value) is not dict:
            raise SettingInvalid("the record of a thread must be an object")
        listed, roots = value.get(_ENVIRONMENTS), value.get(_ROOTS)
        if listed is not None and type(listed) is not list:
            raise SettingInvalid("selected environments must be an array")
        environments = [
            _environment(entry, f"selected environment number {place}")
            for place, entry in enumerate(listed or (), 1)
        ]
        return cls(environments, Selection() if roots is None else Selection.from_json(roots))


def _once(environments: Sequence[SelectedEnvironment]) -> tuple[SelectedEnvironment, ...]:
    seen: set[str] = set()
    for one in environments:
        if one.environment_id in seen:
            raise SettingInvalid(f"environment `{one.environment_id}` is selected twice")
        seen.add(one.environment_id)
    return tuple(environments)


def _environment(entry: Json, name: str) -> SelectedEnvironment:
    where = member(entry, "cwd", str, name)
    if where.startswith("/"):
        raise SettingInvalid(f"{name}: `cwd` must be a file: URI")
    return SelectedEnvironment(member(entry, "environmentId", str, name), where)
