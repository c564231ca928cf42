"""Ways to reach a server: a URL, or a program that speaks the protocol on its stdin and stdout."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import DialFailed, SettingInvalid
from ..transport.address import parse_address
from ..transport.dial import dial
from ..transport.program import launch
from .arguments import seconds
from .client import Client
from .session import RemoteSession
from .token import current

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from os import PathLike
    from ssl import SSLContext

    from ..protocol.session import InitializeResult
    from ..transport.base import Dialled
    from .link import Dial
    from .token import Token

RELAYS = ("noise+https://", "noise+http://")  # URLs of a registry, and the environment behind the last slash


class Opening:
    """A client for an `async with` block; awaited, one that the caller closes with `aclose()`.

        client = await outfitter.connect("build")
        await client.aclose()

    `connect()` and `local()` give one.
    """

    def __init__(self, session: RemoteSession, resume: str | None = None, take_over: bool = False) -> None:
        self._session = session
        self._resume = resume
        self._take_over = take_over

    def __await__(self) -> Generator[object, None, Client]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Client:
        try:
            await self._session.open(self._resume, take_over=self._take_over)
        except BaseException:
            await self._session.aclose()
            raise
        return Client(self._session)

    async def __aexit__(self, *_: object) -> None:
        await self._session.aclose()

    def _take_up(self, result: InitializeResult, reason: str) -> Client:
        """A client of a session that is open already and whose connection is lost: it comes back."""
        self._session.take_up(result, reason)
        return Client(self._session)


def connect(
    url: str,
    *,
    token: Token | None = None,
    resume: str | None = None,
    take_over: bool = False,
    connect_timeout: float = 10.0,
    initialize_timeout: float = 10.0,
    recovery_timeout: float | None = None,
    on_state: Callable[[str], None] | None = None,
    ca: str | PathLike[str] | None = None,
    client_cert: str | PathLike[str] | None = None,
    client_key: str | PathLike[str] | None = None,
    tls: SSLContext | None = None,
    summaries: bool = False,
    operate: bool = False,
    max_concurrency: int | None = None,
    keepalive: float | None = None,
    max_refusals: int | None = None,
) -> Opening:
    """A client of the server at a URL: see `outfitter.connect`, which also knows names.

    With `max_refusals`, an address at which nobody listens so many times in a row is given up: for a server
    that never comes back at its port.
    """
    seconds("connect_timeout", connect_timeout)
    if url.startswith(RELAYS):
        if keepalive is not None:
            raise SettingInvalid(
                "`keepalive` needs a server that is dialled directly, and this is a relay's URL"
            )
        dial_it, where = _relay(url, token, connect_timeout, ca, tls)
    else:
        files = (ca, client_cert, client_key)
        dial_it, where = _server(url, token, connect_timeout, files, tls, keepalive)
    if max_refusals is not None:
        dial_it = _at_most(max_refusals, dial_it)
    session = RemoteSession(
        dial_it,
        where=where,
        resumable=True,
        initialize_timeout=initialize_timeout,
        recovery_timeout=recovery_timeout,
        on_state=on_state,
        summaries=summaries,
        operate=operate,
        max_concurrency=max_concurrency,
    )
    return Opening(session, resume, take_over)


def _server(
    url: str,
    token: Token | None,
    connect_timeout: float,
    given: tuple[str | PathLike[str] | None, ...],
    tls: SSLContext | None,
    keepalive: float | None,
) -> tuple[Dial, str]:
    """How to dial a WebSocket URL, and its text for people. Raises SettingInvalid."""
    address = parse_address(url)
    files = [None if file is None else os.fspath(file) for file in given]
    if files != [None] * 3:
        if tls is not None:
            raise SettingInvalid("`tls` cannot be used with `ca`, `client_cert` or `client_key`")
        if not address.secure:
            raise SettingInvalid(f"certificates need a wss:// URL, and {address.text} is none")

    async def dial_it() -> Dialled:
        nonlocal tls
        if address.secure and tls is None:
            from ..transport.certificates import client_context

            tls = client_context(*files)  # once: whoever dials again should need no file
        return await dial(
            address, token=await current(token), limit=connect_timeout, tls=tls, keepalive=keepalive
        )

    return dial_it, address.text


def _at_most(refusals: int, dial_it: Dial) -> Dial:
    """Dials until the address has refused so many times in a row."""
    refused = 0

    async def count() -> Dialled:
        nonlocal refused
        try:
            dialled = await dial_it()
        except DialFailed as error:
            refused = refused + 1 if error.refused else 0
            if refused >= refusals:
                raise DialFailed(str(error), retryable=False, refused=True) from None
            raise
        refused = 0
        return dialled

    return count


def _relay(
    url: str,
    token: Token | None,
    connect_timeout: float,
    ca: str | PathLike[str] | None,
    tls: SSLContext | None,
) -> tuple[Dial, str]:
    """How to reach an environment through its registry, and its text for people. Raises SettingInvalid."""
    from ..relay.known import Known, folder
    from ..relay.reach import Reaching

    if ca is not None:
        from ..transport.certificates import client_context

        tls = client_context(os.fspath(ca))
    reaching = Reaching(url.removeprefix("noise+"), Known(folder(os.environ)), tls)

    async def dial_it() -> Dialled:
        return await reaching.dial(await current(token), connect_timeout)

    return dial_it, reaching.text


def open_program(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    initialize_timeout: float = 10.0,
    on_state: Callable[[str], None] | None = None,
    summaries: bool = False,
    max_concurrency: int | None = None,
) -> Opening:
    """A client of a program that it starts, with `env` on top of the environment of this process.

    The program ends with the client. Its session cannot be resumed, because the pipes end with the program.
    """
    if not argv:
        raise DialFailed("no program is given", retryable=False)

    async def start_it() -> Dialled:
        return await launch(argv, env=None if env is None else {**os.environ, **env}, cwd=cwd)

    session = RemoteSession(
        start_it,
        where=argv[0],
        resumable=False,
        initialize_timeout=initialize_timeout,
        on_state=on_state,
        summaries=summaries,
        max_concurrency=max_concurrency,
    )
    return Opening(session)
