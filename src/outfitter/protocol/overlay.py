"""Params of environment/overlay/*: what a session adds to its commands, and what happens to it."""

from __future__ import annotations

from ..record import Record
from .fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json

EVENTS = ("new", "resume", "clear", "compact", "fork", "cwd", "root", "daemon")
_OWN = ("scope", "producer", "strict", "merge", "order")


class PutParams(Record):
    """environment/overlay/put: `producer`'s words for the commands of `scope`, in place of its former ones.

    `told` are the words as they came: what is wrong in them is answered entry by entry, so they are not read
    here. `strict` takes all or nothing; `merge` keeps what the producer has said of other variables; `order`
    is the one in which producers are configured.
    """

    __slots__ = ("merge", "order", "producer", "scope", "strict", "told")

    def __init__(
        self,
        scope: str,
        producer: str,
        told: dict[str, Json],
        *,
        strict: bool = False,
        merge: bool = False,
        order: tuple[str, ...] = (),
    ) -> None:
        self.scope = scope
        self.producer = producer
        self.told = told
        self.strict = strict
        self.merge = merge
        self.order = order

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


class ListParams(Record):
    """environment/overlay/list: who has said something for a scope, and of which variables."""

    __slots__ = ("scope",)

    def __init__(self, scope: str) -> None:
        self.scope = scope

    @classmethod
    def decode(cls, params: Json) -> ListParams:
        return cls(Fields(params, "ListParams").text("scope"))

    def encode(self) -> Json:
        return {"scope": self.scope}


class DropParams(Record):
    """environment/overlay/drop: forgets a producer, or what it has said of the variables `names`.

    Without a producer the session has ended: all of it goes, and with it what it was not to have.
    """

    __slots__ = ("names", "producer", "scope")

    def __init__(self, scope: str, producer: str | None, names: tuple[str, ...] = ()) -> None:
        self.scope = scope
        self.producer = producer
        self.names = names

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


class EventParams(Record):
    """environment/overlay/event: something has happened to the session of a scope.

    `event` is one of EVENTS; a "fork" copies the overlay to the scope `to`, without the variables `unset`
    and, with `hide_secrets`, without secrets.
    """

    __slots__ = ("event", "hide_secrets", "scope", "to", "unset")

    def __init__(
        self,
        scope: str,
        event: str,
        to: str | None = None,
        unset: tuple[str, ...] = (),
        hide_secrets: bool = False,
    ) -> None:
        self.scope = scope
        self.event = event
        self.to = to
        self.unset = unset
        self.hide_secrets = hide_secrets

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
