"""Our way to one server of a slot: dial it, notice that it is gone, and say why.

The data path decides about life and death. A server that ended refuses the next connection; one that is
silent for `DEAD` seconds is lost, whatever its engine believes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..client.connect import connect, open_program
from ..core.leases import BEAT, DEAD
from ..core.recovery import FAILED, RECOVERING
from ..errors import Disconnected, OutfitterError, SessionExpired
from .certificate import trusting
from .engine import EXECUTOR_ENDED, NODE_LOST, SILENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..client.client import Client
    from ..client.connect import Opening
    from .engine import Endpoint

    Lost = Callable[[str, str], None]  # the reason, and the words

DIAL_SECONDS = 10.0  # for a server that has just said that it listens
_REFUSALS = 3  # in a row: a server of a lease never comes back at its port
_WENT_SILENT = "stopped responding"  # as a connection ends when its keep-alive is not answered


class SlotLink:
    """The client of one server; `lost` is called once, when its executor is gone."""

    def __init__(self, endpoint: Endpoint, token: str, lost: Lost) -> None:
        self.endpoint = endpoint
        self.client: Client
        self._lost: Lost | None = lost
        self._opening = _opening(endpoint, token, self._changed)
        self._beating: asyncio.Task[None] | None = None

    async def open(self) -> Client:
        """Raises DialFailed, RequestFailed, SettingInvalid."""
        self.client = await self._opening
        if not self.endpoint.url:
            self._beating = asyncio.get_running_loop().create_task(self._beat())
        return self.client

    async def close(self) -> None:
        """Lets go of the server without a word to it: its keeper ends it, with all its commands."""
        self._lost = None
        if self._beating is not None:
            self._beating.cancel()
        if self.client.failed is None:
            self.client.fail(SessionExpired("the lease has ended, and its client with it"))
        await self.client.aclose()

    def _changed(self, state: str) -> None:
        why = self.client._session.link.reason
        if state == RECOVERING and _WENT_SILENT in why:
            self._tell(SILENT, f"nothing was heard of it for {DEAD:g} s")
        elif state == FAILED:
            refused = "refused" in str(self.client.failed) or bool(self.endpoint.argv)
            self._tell(EXECUTOR_ENDED if refused else NODE_LOST, str(self.client.failed))

    def _tell(self, reason: str, words: str) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(reason, words)

    async def _beat(self) -> None:
        """Programs and relays have no pings: they are asked for the least that there is."""
        while True:
            await asyncio.sleep(BEAT)
            try:
                async with asyncio.timeout(DEAD - BEAT):
                    await self.client.call("environment/status", None, wait=False)
            except TimeoutError:
                if not self.client._session.held:  # else the answer may stand behind output that nobody takes
                    self._tell(SILENT, f"nothing was heard of it for {DEAD:g} s")
                    return
            except (Disconnected, SessionExpired):
                return  # which was told
            except OutfitterError:
                pass  # an answer is an answer


def _opening(endpoint: Endpoint, token: str, changed: Callable[[str], None]) -> Opening:
    if endpoint.argv:
        return open_program(endpoint.argv, initialize_timeout=DIAL_SECONDS, on_state=changed)
    return connect(
        endpoint.url or endpoint.relay,
        token=token,
        tls=trusting(endpoint.certificate) if endpoint.certificate else None,
        connect_timeout=DIAL_SECONDS,
        initialize_timeout=DIAL_SECONDS,
        recovery_timeout=DEAD,
        keepalive=BEAT if endpoint.url else None,
        max_refusals=_REFUSALS,
        on_state=changed,
    )
