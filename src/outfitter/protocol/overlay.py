"""Params of environment/overlay/*: what a session adds to its commands, and what happens to it."""

from __future__ import annotations

from ..record import KW_ONLY, record
from .fields import Fields, wrong
from .results import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .documents import Contribution, EventAnswer, OverlayAnswer, PutAnswer
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
            fields.text("scope"),
            fields.text("producer"),
            {name: value for name, value in params.items() if name not in _OWN},
            strict=fields.flag_or("strict", False),
            merge=fields.flag_or("merge", False),
            order=tuple(fields.texts("order")) if "order" in fields else (),
        )

    def encode(self) -> Json:
        params: dict[str, Json] = {"scope": self.scope, "producer": self.producer, **self.told}
        if self.strict:
            params["strict"] = True
        if self.merge:
            params["merge"] = True
        if self.order:
            params["order"] = list(self.order)
        return params


@record
class ListParams:
    """environment/overlay/list: who has said something for a scope, and of which variables."""

    scope: str

    @classmethod
    def decode(cls, params: Json) -> ListParams:
        return cls(Fields(params, "ListParams").text("scope"))

    def encode(self) -> Json:
        return {"scope": self.scope}


@record
class DropParams:
    """environment/overlay/drop: forgets a producer, or what it has said of the variables `names`.

    Without a producer the session has ended: all of it goes, and with it what it was not to have.
    """

    scope: str
    producer: str | None
    names: tuple[str, ...] = ()

    @classmethod
    def decode(cls, params: Json) -> DropParams:
        fields = Fields(params, "DropParams")
        names = tuple(fields.texts("names")) if "names" in fields else ()
        return cls(fields.text("scope"), fields.text_or_none("producer"), names)

    def encode(self) -> Json:
        params: dict[str, Json] = {"scope": self.scope}
        if self.producer is not None:
            params["producer"] = self.producer
        if self.names:
            params["names"] = list(self.names)
        return params


@record
class EventParams:
    """environment/overlay/event: something has happened to the session of a scope.

    `event` is one of EVENTS; a "fork" copies the overlay to the scope `to`, without the variables `unset`
    and, with `hide_secrets`, without secrets.
    """

    scope: str
    event: str
    to: str | None = None
    unset: tuple[str, ...] = ()
    hide_secrets: bool = False

    @classmethod
    def decode(cls, params: Json) -> EventParams:
        fields = Fields(params, "EventParams")
        return cls(
            fields.text("scope"),
            fields.choice("event", EVENTS),
            fields.text_or_none("to"),
            tuple(fields.texts("unset")) if "unset" in fields else (),
            fields.flag_or("hideSecrets", False),
        )

    def encode(self) -> Json:
        params: dict[str, Json] = {"scope": self.scope, "event": self.event}
        if self.to is not None:
            params["to"] = self.to
        if self.unset:
            params["unset"] = list(self.unset)
        if self.hide_secrets:
            params["hideSecrets"] = True
        return params


# Results


@record
class PutResult(Result):
    """environment/overlay/put: the variables that the producer's words are about, and what was refused, as
    (producer, name, reason, why)."""

    names: list[str]
    rejected: list[tuple[str, str, str, str]]

    @classmethod
    def decode(cls, result: Json) -> PutResult:
        fields = Fields(result, "PutResult")
        rejected = [Fields(one, "Rejected") for one in _list(fields, "rejected")]
        words = ("producer", "name", "reason", "why")
        return cls(
            fields.texts("names"),
            [tuple(one.text(word) for word in words) for one in rejected],  # type: ignore[misc]
        )

    def encode(self) -> PutAnswer:
        return {
            "names": self.names,
            "rejected": [
                {"producer": producer, "name": name, "reason": reason, "why": why}
                for producer, name, reason, why in self.rejected
            ],
        }


@record
class OverlayResult(Result):
    """environment/overlay/list: who has said something for a scope, by names of variables."""

    contributions: list[Contribution]
    withheld: list[str]
    parent: str | None

    @classmethod
    def decode(cls, result: Json) -> OverlayResult:
        fields = Fields(result, "OverlayResult")
        return cls(_list(fields, "contributions"), fields.texts("withheld"), fields.text_or_none("parent"))

    def encode(self) -> OverlayAnswer:
        return {"contributions": self.contributions, "withheld": self.withheld, "parent": self.parent}


@record
class DropResult(Result):
    """environment/overlay/drop: whether something was forgotten."""

    dropped: bool

    @classmethod
    def decode(cls, result: Json) -> DropResult:
        return cls(Fields(result, "DropResult").flag("dropped"))

    def encode(self) -> Json:
        return {"dropped": self.dropped}


@record
class EventResult(Result):
    """environment/overlay/event: what is left, whose hooks must run again and with which reason, and what is
    lost, as (producer, name)."""

    contributions: list[Contribution]
    rerun: list[str]
    reason: str
    lost: list[tuple[str, str]]

    @classmethod
    def decode(cls, result: Json) -> EventResult:
        fields = Fields(result, "EventResult")
        lost = [Fields(one, "Lost") for one in _list(fields, "lost")]
        return cls(
            _list(fields, "contributions"),
            fields.texts("rerun"),
            fields.text("reason"),
            [(one.text("producer"), one.text("name")) for one in lost],
        )

    def encode(self) -> EventAnswer:
        return {
            "contributions": self.contributions,
            "rerun": self.rerun,
            "reason": self.reason,
            "lost": [{"producer": producer, "name": name} for producer, name in self.lost],
        }


def _list(fields: Fields, name: str) -> list[Json]:
    value = fields.raw(name)
    if type(value) is not list:
        raise wrong(value, "a sequence")
    return value
