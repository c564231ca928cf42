"""What a session of work adds to its commands: the part of a client that keeps overlays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol import overlay as wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..protocol.documents import EventAnswer, OverlayAnswer, PutAnswer
    from ..protocol.jsontext import Json
    from .session import Params, R, RemoteSession


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
        """Sets what `producer` adds to commands with `EnvContract(scope=scope)`.

            await client.put_overlay("thread-1", "hook:stage", set={"STAGE": "test"})
            here = outfitter.EnvContract(scope="thread-1")
            print((await client.shell("echo $STAGE", contract=here)).text.strip())  # test

        This replaces its earlier contribution. `producer` is "user", or "hook:NAME", "plugin:NAME",
        "file:PATH", "editor:NAME"; `scope` is an id that the caller chooses. In `set`, None removes a
        variable. With `strict`, one wrong entry rejects the whole contribution; `merge` keeps the producer's
        earlier entries for other variables; `order` is the configured order of the producers. Returns the
        `names` that were accepted, and what was `rejected` with the reasons. Raises RequestFailed or
        CapabilityMissing.
        """
        told: dict[str, Json] = {"set": dict(set or {}), "unset": list(unset), "secrets": list(secrets)}
        for op, entries in (("prepend", prepend), ("append", append), ("remove", remove)):
            told[op] = {name: list(values) for name, values in (entries or {}).items()}
        params = wire.PutParams(
            scope,
            producer,
            {name: value for name, value in told.items() if value},
            strict=strict,
            merge=merge,
            order=tuple(order),
        )
        return (await self._ask(wire.PutResult, "put", params)).encode()

    async def overlay(self, scope: str) -> OverlayAnswer:
        """The `contributions` to the overlay of a scope, with names and without values.

            for one in (await client.overlay("thread-1"))["contributions"]:
                print(one["producer"], one["set"])

        Raises CapabilityMissing.
        """
        return (await self._ask(wire.OverlayResult, "list", wire.ListParams(scope))).encode()

    async def drop_overlay(self, scope: str, producer: str | None = None, names: Sequence[str] = ()) -> bool:
        """Removes a producer's contribution, or some of its variables; returns whether it had any.

            print(await client.drop_overlay("thread-2", "hook:stage"))  # False

        Without a producer, removes the whole overlay of a session that has ended, including the removals of a
        fork.
        """
        params = wire.DropParams(scope, producer, tuple(names))
        return (await self._ask(wire.DropResult, "drop", params)).dropped

    async def overlay_event(
        self,
        scope: str,
        event: str,
        *,
        to: str | None = None,
        unset: Sequence[str] = (),
        hide_secrets: bool = False,
    ) -> EventAnswer:
        """Reports an event of an agent session to the server.

            answer = await client.overlay_event("thread-1", "clear")

        `event` is "new", "resume", "clear", "compact", "fork", "cwd" or "root". A "fork" copies the overlay
        to the scope `to`, for a subagent without the variables `unset` and without secrets. Returns the
        present `contributions`, the producers to `rerun` with the `reason`, and what is `lost`. Raises
        RequestFailed or CapabilityMissing.
        """
        params = wire.EventParams(scope, event, to, tuple(unset), hide_secrets)
        return (await self._ask(wire.EventResult, "event", params, repeat=False)).encode()

    async def _ask(self, kind: type[R], what: str, params: Params, *, repeat: bool = True) -> R:
        self._session.require("environmentOverlay", "keep overlays")
        return await self._session.ask(kind, f"environment/overlay/{what}", params, repeat=repeat)
