"""The client: one session on one server, over as many connections as necessary."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import TimedOut
from ..protocol.environment import StatusResult
from .environment import EnvironmentCalls
from .files import Files
from .http import Http
from .overlays import OverlayCalls
from .running import RunCalls

if TYPE_CHECKING:
    from ..errors import OutfitterError, SessionExpired
    from ..protocol.jsontext import Json
    from ..protocol.session import EnvironmentInfo
    from ..protocol.uri import FileUri
    from .arguments import Place
    from .session import RemoteSession

_STATUS_SECONDS = 10.0  # the reference's limit for environment/status


class ClientState:
    """What is known of a client and its server, in both kinds of clients: as the session has it now."""

    _session: RemoteSession

    def __repr__(self) -> str:
        return f"<Client of {self.where}>"

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
        """The id of the session.

        Anyone who knows it can resume the session when this client is gone: see `resume` of `connect`.
        """
        return self._session.link.session_id

    # What the server can do

    def offers(self, capability: str) -> bool:
        """Whether the server has this capability.

            print(client.offers("fsWatch"))  # True

        docs/reference/protocol.md says which method needs which capability.
        """
        return self._session.offers(capability)

    def require(self, capability: str, what: str) -> None:
        """Raises CapabilityMissing if the server does not have the capability.

            client.require("processDetach", "keep a command running without its client")

        `what` completes the message: this executor cannot …
        """
        self._session.require(capability, what)

    def resolve(self, path: Place | None) -> FileUri:
        """The URI of a path on the executor. Relative paths and None start at its working directory.

            print(client.resolve("/srv/app").text)  # file:///srv/app

        The working directory of this process is used only if the executor is this machine. Raises
        SettingInvalid if a relative path has no directory to start at.
        """
        return self._session.resolve(path)


class Client(ClientState, RunCalls, EnvironmentCalls, OverlayCalls):
    """Runs commands on one server. Created by `outfitter.connect()` and `outfitter.local()`.

        async with outfitter.local() as client:
            done = await client.run(["echo", "hello"], text=True)
            print(done.stdout.strip())  # hello

    One client may run any number of commands at once.
    """

    def __init__(self, session: RemoteSession) -> None:
        self._session = session
        self._files = Files(session)
        self._http = Http(session)

    async def aclose(self) -> None:
        """Ends every command that this client started, except kept ones, and closes the connection.

            client = await outfitter.open("build")
            await client.aclose()

        A client of an `async with` block is closed by the block.
        """
        await self._session.aclose()

    def fail(self, error: SessionExpired) -> None:
        """Gives the executor up: the connection ends at once, without a word to the server.

            client.fail(outfitter.SessionExpired("its machine is gone"))
            try:
                await client.run(["true"])
            except outfitter.SessionExpired as error:
                print(error)  # its machine is gone

        Every call in progress and every later one raises this error. For those who know by other means that
        the executor is gone; its commands end when it notices, or with its session.
        """
        self._session.link.fail(error)

    @property
    def files(self) -> Files:
        """The executor's files."""
        return self._files

    @property
    def http(self) -> Http:
        """HTTP requests that the executor sends."""
        return self._http

    async def upload(self, local: Place, remote: Place) -> None:
        """Copies a file or a tree of this machine to the executor: see `files.upload`.

            await client.upload("src", "backup/src")

        Raises OSError for what is wrong here and RequestFailed for what is wrong there.
        """
        await self._files.upload(local, remote)

    async def download(self, remote: Place, local: Place) -> None:
        """Copies a file or a tree of the executor to this machine: see `files.download`.

            await client.download("build.log", "copy.log")

        Raises as `upload`.
        """
        await self._files.download(remote, local)

    async def call(self, method: str, params: Json, *, repeat: bool = False, wait: bool = True) -> Json:
        """Sends any request of the protocol and returns its result.

            print(await client.call("environment/status", None))  # {'status': 'ready'}

        While the connection is being recovered, a call waits; with `wait=False` it fails at once. A call that
        was in progress when the connection was lost raises Disconnected; with `repeat` it is sent again
        instead. Raises RequestFailed, Disconnected, SessionExpired or Overloaded.
        """
        return await self._session.call(method, params, repeat=repeat, wait=wait)

    async def status(self) -> str:
        """Asks the server for its status now ("ready"). Never waits for a recovery.

            print(await client.status())  # ready

        Raises Disconnected, SessionExpired, RequestFailed or TimedOut.
        """
        try:
            async with asyncio.timeout(_STATUS_SECONDS):
                found = await self._session.ask(StatusResult, "environment/status", None, wait=False)
        except TimeoutError:
            raise TimedOut(_STATUS_SECONDS) from None
        return found.status
