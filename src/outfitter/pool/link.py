"""Our way to one server of a slot: dial it, notice that it is gone, and say why.

The data path decides about life and death. A server that ended refuses the next connection; one that is
silent for `DEAD` seconds is lost, whatever its engine believes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..client.connect import connect, open_program
from ..core.leases import BEAT, DEAD, READY_BEAT, READY_DEAD
from ..core.recovery import CONNECTED, FAILED, RECOVERING
from ..errors import Disconnected, OutfitterError, SessionExpired
from ..transport.dial import DialledTransport
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
# As a connection ends when its keep-alive is not answered.
_WENT_SILENT = ("stopped responding", "did not answer a ping")


class SlotLink:
    """The client of one server; `lost` is called once, when its executor is gone, and `answered` with the
    seconds that each sign of life took."""

    def __init__(
        self, endpoint: Endpoint, token: str, lost: Lost, answered: Callable[[float], None] | None = None
    ) -> None:
        self.endpoint = endpoint
        self.client: Client
        self._lost: Lost | None = lost
        self._answered = answered
        self._beat_seconds, self._dead_seconds = BEAT, DEAD
        self._opening = _opening(endpoint, token, self._changed)
        self._beating: asyncio.Task[None] | None = None

    async def open(self) -> Client:
        """Raises DialFailed, RequestFailed, SettingInvalid."""
        self.client = await self._opening
        if not self.endpoint.url:
            self._beating = asyncio.get_running_loop().create_task(self._beat())
        return self.client

    def pace(self, *, leased: bool) -> None:
        """How soon silence is noticed: later of a server that nobody has."""
        self._beat_seconds, self._dead_seconds = (BEAT, DEAD) if leased else (READY_BEAT, READY_DEAD)
        connection = self.client._session.link.connection
        transport = None if connection is None else connection.transport
        if isinstance(transport, DialledTransport):
            transport.answered = self._answered
            transport.pace(self._beat_seconds, self._dead_seconds - self._beat_seconds)

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
        if state == RECOVERING and any(words in why for words in _WENT_SILENT):
            self._tell(SILENT, f"nothing was heard of it for {self._dead_seconds:g} s")
        elif state == CONNECTED and self._lost is not None:
            self.pace(leased=self._beat_seconds == BEAT)  # of a new connection
        elif state == FAILED:
            refused = "refused" in str(self.client.failed) or bool(self.endpoint.argv)
            self._tell(EXECUTOR_ENDED if refused else NODE_LOST, str(self.client.failed))

    def _tell(self, reason: str, words: str) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(reason, words)

    async def _beat(self) -> None:
        """Programs and relays have no pings: they are asked for the least that there is."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._beat_seconds)
            asked = loop.time()
            try:
                async with asyncio.timeout(DEAD - BEAT):
                    await self.client.call("environment/status", None, wait=False)
                if self._answered is not None:
                    self._answered(loop.time() - asked)
            except TimeoutError:
                if not self.client._session.held:  # else the answer may stand behind output that nobody takes
                    self._tell(SILENT, f"nothing was heard of it for {self._dead_seconds:g} s")
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
        token=token if endpoint.url else None,  # a relay asks for the token that `outfitter enrol` has kept
        tls=trusting(endpoint.certificate) if endpoint.certificate else None,
        connect_timeout=DIAL_SECONDS,
        initialize_timeout=DIAL_SECONDS,
        recovery_timeout=DEAD,
        keepalive=BEAT if endpoint.url else None,
        max_refusals=_REFUSALS,
        on_state=changed,
    )
