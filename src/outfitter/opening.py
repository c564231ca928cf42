"""Ways to a client by what people call the executor: a URL, the name of an environment, or this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# First, through the package: importing the module of that name would put it in the place of the function.
from . import local
from .client.connect import connect as connect_url
from .environments.file import LOCAL, load
from .environments.manager import opening
from .errors import EnvironmentUnknown, SettingInvalid
from .transport.unix import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike
    from ssl import SSLContext

    from .client.client import Client
    from .client.connect import Opening
    from .client.token import Token


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
) -> Opening:
    """A client of the server at a `ws://`, `wss://` or `unix:` URL: Outfitter's or `codex exec-server`.

        async with outfitter.connect("build") as client:  # an environment of environments.toml
            await client.upload("src", "backup/src")

    A name without `://` is that of an environment in `environments.toml`, which has its token and its
    certificates; `local` is this machine. Awaited instead of used in `async with`, it gives a client that you
    close with `aclose()`.

    `noise+https://REGISTRY/ENVIRONMENT` reaches an executor through its relay, end to end encrypted; without
    `token`, the one that `outfitter enrol` has kept is used. `token` is sent as a bearer token, only over
    TLS or to this machine: text, the path of a file that has it (a PathLike), or a function that gives it,
    async or not. Files and functions are asked again whenever the client dials, so a token can be renewed.
    `resume` is the id of a session to resume; with `take_over`, also a session that another client still
    uses. A lost connection is dialled again for `recovery_timeout` seconds; the default is a little less
    than the server keeps sessions, or 25 s if the server does not say. `on_state` is called with
    "recovering", "connected" and "failed". With `summaries`, each command reports where its environment came
    from. At most `max_concurrency` commands of `run`, `shell` and `lines` run at once; others wait for their
    turn, and their `timeout` begins then. With `operate`, the client only looks after the server: it can
    start nothing, and a server that drains accepts it. With `keepalive`, the client gives a sign of life
    every so many seconds, and gives up a connection that was silent for three of them; without, silence is
    noticed after 30 to 90 s. It needs a URL that is no relay's. At the end of the block, every command that
    this client started is ended, unless `keep()` was called on its handle.

    For `wss://`, `ca` is a file with the certificates of the CAs to trust, instead of the machine's or those
    of SSL_CERT_FILE. `client_cert` and `client_key` are files for a server that asks for a certificate. `tls`
    is a context of your own, instead of all three.

    Raises DialFailed, RequestFailed, SettingInvalid or EnvironmentUnknown.
    """
    if not isinstance(url, str):
        raise TypeError(f"a URL, or the name of an environment, is text, not {url!r}")
    if "://" in url or url.startswith(PREFIX):
        return connect_url(
            url,
            token=token,
            resume=resume,
            take_over=take_over,
            connect_timeout=connect_timeout,
            initialize_timeout=initialize_timeout,
            recovery_timeout=recovery_timeout,
            on_state=on_state,
            ca=ca,
            client_cert=client_cert,
            client_key=client_key,
            tls=tls,
            summaries=summaries,
            operate=operate,
            max_concurrency=max_concurrency,
            keepalive=keepalive,
        )
    if (token, ca, client_cert, client_key, tls, keepalive) != (None,) * 6:
        raise SettingInvalid(
            f"{url!r} names an environment, whose token and certificates stand in environments.toml: "
            "leave them and `keepalive` out, or give its URL"
        )
    configuration = load(os.environ)
    declared = {one.id: one for one in configuration.environments}
    if url in declared:
        return opening(
            declared[url],
            resume=resume,
            take_over=take_over,
            recovery_timeout=recovery_timeout,
            on_state=on_state,
            summaries=summaries,
            operate=operate,
            max_concurrency=max_concurrency,
        )
    if url == LOCAL and configuration.include_local:
        return local(summaries=summaries, max_concurrency=max_concurrency)
    raise EnvironmentUnknown(url, (*([LOCAL] if configuration.include_local else []), *declared))


async def open(target: str = LOCAL, *, summaries: bool = False, max_concurrency: int | None = None) -> Client:
    """A client without a block, as in a notebook: close it with `aclose()`.

        client = await outfitter.open("build")
        print((await client.run(["make"])).ok)  # True
        await client.aclose()

    `target` is a URL, the name of an environment, or `local` for this machine. For more settings, await
    `connect()` or `local()`. Raises DialFailed, RequestFailed, SettingInvalid or EnvironmentUnknown.
    """
    return await connect(target, summaries=summaries, max_concurrency=max_concurrency)


async def open_local(
    *,
    environment: Mapping[str, str] | None = None,
    summaries: bool = False,
    max_concurrency: int | None = None,
) -> Client:
    """`local()` without a block, as in a notebook: close it with `aclose()`.

        client = await outfitter.open_local()
        print((await client.run(["make"])).ok)  # True
        await client.aclose()

    Raises as `local`.
    """
    return await local(environment=environment, summaries=summaries, max_concurrency=max_concurrency)
