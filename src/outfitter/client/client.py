"""The client: one session on one exec-server, over as many connections as it takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import TimedOut
from ..protocol.session import StatusResult
from .commands import CommandCalls
from .environment import EnvironmentCalls
from .files import Files
from .overlays import OverlayCalls

if TYPE_CHECKING:
    from ..errors import OutfitterError
    from ..protocol.jsontext import Json
    from ..protocol.session import EnvironmentInfo
    from ..protocol.uri import FileUri
    from .session import RemoteSession

_STATUS_SECONDS = 10.0  # the reference's limit for environment/status


class Client(CommandCalls, EnvironmentCalls, OverlayCalls):
    """Runs commands on one exec-server. Made by `outfitter.connect()` and `outfitter.local()`."""

    def __init__(self, session: RemoteSession) -> None:
        self._session = session
        self._files = Files(session)

    def __repr__(self) -> str:
        return f"<Client of {self.where}>"

    async def aclose(self) -> None:
        """Ends what this client started and still runs, except kept processes, and the connection."""
        await self._session.aclose()

    @property
    def where(self) -> str:
        """What this is a client of, for people."""
        return self._session.where

    @property
    def info(self) -> EnvironmentInfo | None:
        """What the server says about itself."""
        return self._session.info

    @property
    def state(self) -> str:
        """ "connected", "recovering" or "failed"."""
        return self._session.link.state

    @property
    def failed(self) -> OutfitterError | None:
        """The error that ended this client, if any."""
        return self._session.link.failure

    @property
    def session_id(self) -> str:
        """The id with which another client can take the session over: see `resume` of `connect`."""
        return self._session.link.session_id

    @property
    def files(self) -> Files:
        """The executor's files."""
        return self._files

    # What the server can do

    def offers(self, capability: str) -> bool:
        """Whether the server has this capability flag."""
        return self._session.offers(capability)

    def require(self, capability: str, what: str) -> None:
        """Raises CapabilityMissing without the flag."""
        self._session.require(capability, what)

    async def call(self, method: str, params: Json, *, repeat: bool = False, wait: bool = True) -> Json:
        """Any request of the protocol.

        While the connection is being recovered a call waits (`wait=False`: fails at once). One that was
        under way when it broke raises Disconnected; `repeat` sends it again instead.
        Raises RequestFailed, Disconnected, SessionExpired, Overloaded.
        """
        return await self._session.call(method, params, repeat=repeat, wait=wait)

    async def status(self) -> str:
        """Asks the server how it is, now ("ready"). Never waits for a recovery.

        Raises Disconnected, SessionExpired, RequestFailed, TimedOut.
        """
        try:
            async with asyncio.timeout(_STATUS_SECONDS):
                found = await self._session.ask(StatusResult, "environment/status", None, wait=False)
        except TimeoutError:
            raise TimedOut(_STATUS_SECONDS) from None
        return found.status

    def resolve(self, path: str | None) -> FileUri:
        """The URI of a path on the executor; relative ones, and None, start in its working directory.

        Nothing is taken from this machine unless it is the same one. Raises SettingInvalid when a
        relative path starts nowhere.
        """
        return self._session.resolve(path)
