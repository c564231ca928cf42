"""Params of environment/overlay/*: what a session adds to its commands, and what happens to it."""

from __future__ import annotations

from ..record import KW_ONLY, record
from .fields import Fields
from .results import Result
from .shape import Shape, choice, member, rows, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .documents import ContributionDocument, EventAnswer, OverlayAnswer, PutAnswer
    from .jsontext import Json

EVENTS = ("new", "resume", "clear", "compact", "fork", "cwd", "root", "daemon")
_OWN = ("scope", "producer", "strict", "merge", "order")


@record
class PutParams:
    """environment/overlay/put: `producer`'s words for the commands of `scope`, in place of its former ones.

    `told` are the words as they came: what is wrong in them is answered entry by entry, so they are not read
    here. `strict` takes all or nothing; `merge` keeps what the producer has said of other variables; `order`
    is the one in which producers are configured.
    """

    scope: str
    producer: str
    told: dict[str, Json]
    _: KW_ONLY
    strict: bool = False
    merge: bool = False
    order: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"PutParams({self.scope!r}, {self.producer!r}, {sorted(self.told)})"

    @classmethod
    def decode(cls, params: Json) -> PutParams:
        fields = Fields(params, "PutParams")
        return cls(
            fields.ident("scope"),
            fields.text("producer"),
            {name: value for name, value in params.items() if name not in _OWN},
            strict=fields.flag_or("strict", False),
            merge=fields.flag_or("merge", False),
            order=tuple(fields.texts("order")) if "order" in fields else (),
        )

    def encode(self) -> Json:
        more = {"strict": self.strict, "merge": self.merge, "order": list(self.order)}
        said = {name: value for name, value in more.items() if value}
        return {"scope": self.scope, "producer": self.producer, **self.told, **said}


@shape()
class ListParams(Shape):
    """environment/overlay/list: who has said something for a scope, and of which variables."""

    scope: str = member(Fields.ident)


@shape(before=lambda fields: "names" in fields and fields.texts("names"))
class DropParams(Shape):
    """environment/overlay/drop: forgets a producer, or what it has said of the variables `names`.

    Without a producer the session has ended: all of it goes, and with it what it was not to have.
    """

    scope: str = member(Fields.ident)
    producer: str | None = member(omit=True)
    names: tuple[str, ...] = member(default=(), omit=True)


@shape()
class EventParams(Shape):
    """environment/overlay/event: something has happened to the session of a scope.

    `event` is one of EVENTS; a "fork" copies the overlay to the scope `to`, without the variables `unset`
    and, with `hide_secrets`, without secrets.
    """

    scope: str = member(Fields.ident)
    event: str = member(choice(*EVENTS))
    to: str | None = member(Fields.ident_or_none, default=None, omit=True)
    unset: tuple[str, ...] = member(default=(), omit=True)
    hide_secrets: bool = member(default=False, omit=True)


# Results


@shape(before=lambda fields: [Fields(one, "Rejected") for one in fields.items("rejected")])
class PutResult(Result):
    """environment/overlay/put: the variables that the producer's words are about, and what was refused, as
    (producer, name, reason, why)."""

    names: list[str]
    rejected: list[tuple[str, str, str, str]] = member(*rows("Rejected", "producer", "name", "reason", "why"))

    if TYPE_CHECKING:

        def encode(self) -> PutAnswer: ...


@shape()
class OverlayResult(Result):
    """environment/overlay/list: who has said something for a scope, by names of variables."""

    contributions: list[ContributionDocument] = member(Fields.items)
    withheld: list[str]
    parent: str | None

    if TYPE_CHECKING:

        def encode(self) -> OverlayAnswer: ...


@shape()
class DropResult(Result):
    """environment/overlay/drop: whether something was forgotten."""

    dropped: bool


@shape(before=lambda fields: [Fields(one, "Lost") for one in fields.items("lost")])
class EventResult(Result):
    """environment/overlay/event: what is left, whose hooks must run again and with which reason, and what is
    lost, as (producer, name)."""

    contributions: list[ContributionDocument] = member(Fields.items)
    rerun: list[str]
    reason: str
    lost: list[tuple[str, str]] = member(*rows("Lost", "producer", "name"))

    if TYPE_CHECKING:

        def encode(self) -> EventAnswer: ...
