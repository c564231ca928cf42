"""What a session of work adds to its commands: the part of a client that keeps overlays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.overlay import (
    DropParams,
    DropResult,
    EventParams,
    EventResult,
    ListParams,
    OverlayResult,
    PutParams,
    PutResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..protocol.documents import EventAnswer, OverlayAnswer, PutAnswer
    from ..protocol.jsontext import Json
    from .session import R, RemoteSession


class OverlayCalls:
    """The part of `Client` that keeps overlays."""

    _session: RemoteSession

    async def put_overlay(
        self,
        scope: str,
        producer: str,
        *,
        set: Mapping[str, str | None] | None = None,
        unset: Sequence[str] = (),
        prepend: Mapping[str, Sequence[str]] | None = None,
        append: Mapping[str, Sequence[str]] | None = None,
        remove: Mapping[str, Sequence[str]] | None = None,
        secrets: Sequence[str] = (),
        strict: bool = False,
        merge: bool = False,
        order: Sequence[str] = (),
    ) -> PutAnswer:
        """What `producer` adds to commands with `EnvContract(scope=scope)`, in place of its former words.

        `producer` is "user", or "hook:NAME", "plugin:NAME", "file:PATH", "editor:NAME"; the session is
        called `scope`, as the caller likes. In `set`, None takes a variable away. `strict` takes all or
        nothing; `merge` keeps what the producer has said of other variables; `order` is the one in which
        producers are configured. Returns the `names` that were taken and what was `rejected`, each with the
        reason. Raises RequestFailed, CapabilityMissing.
        """
        told: dict[str, Json] = {"set": dict(set or {}), "unset": list(unset), "secrets": list(secrets)}
        for op, entries in (("prepend", prepend), ("append", append), ("remove", remove)):
            told[op] = {name: list(values) for name, values in (entries or {}).items()}
        params = PutParams(
            scope,
            producer,
            {name: value for name, value in told.items() if value},
            strict=strict,
            merge=merge,
            order=tuple(order),
        )
        return (await self._ask(PutResult, "put", params)).encode()

    async def overlay(self, scope: str) -> OverlayAnswer:
        """Who has said what for a scope: `contributions` with names, never with values. CapabilityMissing."""
        return (await self._ask(OverlayResult, "list", ListParams(scope))).encode()

    async def drop_overlay(self, scope: str, producer: str | None = None, names: Sequence[str] = ()) -> bool:
        """Forgets a producer, or what it has said of some variables; whether there was anything.

        Without a producer the session has ended: all of it is forgotten, what a fork took away included.
        """
        return (await self._ask(DropResult, "drop", DropParams(scope, producer, tuple(names)))).dropped

    async def overlay_event(
        self,
        scope: str,
        event: str,
        *,
        to: str | None = None,
        unset: Sequence[str] = (),
        hide_secrets: bool = False,
    ) -> EventAnswer:
        """Something has happened to a session: "new", "resume", "clear", "compact", "fork", "cwd", "root".

        A "fork" copies the overlay to the scope `to`; for a subagent without the variables `unset`, and
        without secrets. Returns the `contributions` that there are now, whose hooks must be `rerun` with
        which `reason`, and what is `lost`. Raises RequestFailed, CapabilityMissing.
        """
        params = EventParams(scope, event, to, tuple(unset), hide_secrets)
        return (await self._ask(EventResult, "event", params, repeat=False)).encode()

    async def _ask(
        self,
        kind: type[R],
        what: str,
        params: PutParams | ListParams | DropParams | EventParams,
        *,
        repeat: bool = True,
    ) -> R:
        self._session.require("environmentOverlay", "keep overlays")
        return await self._session.ask(kind, f"environment/overlay/{what}", params.encode(), repeat=repeat)
