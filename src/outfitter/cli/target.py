"""Where a command runs: `--on NAME`, `--on URL`, the configured default, or this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from ..environments.file import LOCAL, Declared, check, load, shown_url
from ..environments.manager import opening
from ..errors import SettingInvalid
from ..record import fields, record, replace
from ..transport.unix import PREFIX, path_of
from .console import LinkWatch, waiting
from .follow import LeftRunning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from ..client.client import Client
    from ..protocol.session import InitializeResult
    from .records import Started

_TOKEN_BYTES = 16 << 10  # more is no token
_GOODBYE_SECONDS = 0.2  # for a server that has not answered for longer than somebody cared to wait


@record
class Target:
    """An environment to use: `name` for people, `on` for `--on`; `declared` is None for this machine.

    With `pool` it is one lease of a pool of pools.toml.
    """

    on: str
    declared: Declared | None
    pool: bool = False

    @property
    def name(self) -> str:
        return shown_url(self.on)  # a plain name is shown as it is

    @property
    def url(self) -> str | None:
        """The server's, where it has one."""
        return None if self.declared is None else self.declared.url

    @property
    def resumable(self) -> bool:
        """Whether another command can take its sessions up later."""
        return self.url is not None


def is_url(name: str) -> bool:
    """Whether `--on` names a server itself and no environment: no environment's name has a colon."""
    return "://" in name or name.startswith(PREFIX)


@record
class TlsFiles:
    """What --tls-ca, --tls-cert and --tls-key name."""

    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None


def named(flags: Mapping[str, Any], *, pools: bool = False) -> Target:
    """What the flags of `envflags.WHERE` name; with `pools`, also a pool. Raises SettingInvalid."""
    files = TlsFiles(*(flags[name] for name in fields(TlsFiles)))
    return find(flags["on"], flags["codex_home"], flags["token_file"], files, pools=pools)


def recorded(started: Started) -> Target:
    """Where a command that was written down runs. Raises SettingInvalid."""
    files = TlsFiles(started.tls_ca, started.tls_cert, started.tls_key)
    return find(started.on, started.codex_home, started.token_file, files)


def find(
    on: str | None,
    codex_home: str | None = None,
    token_file: str | None = None,
    tls: TlsFiles = TlsFiles(),  # noqa: B008 - it is frozen
    *,
    pools: bool = False,
) -> Target:
    """What `--on` names; without it the configured default. Raises SettingInvalid."""
    if on is not None and is_url(on):
        if on.startswith(PREFIX):
            on = PREFIX + path_of(on)  # wherever somebody attaches to it later
        files = {name: getattr(tls, name) for name in fields(tls)}
        for key, file in files.items():
            fits = ("wss://", "noise+https://") if key == "tls_ca" else "wss://"
            if file is not None and not on.startswith(fits):
                raise SettingInvalid(f"--{key.replace('_', '-')} needs --on wss://HOST:PORT")
        declared = Declared("url", url=on, token=_token(token_file), **files)
        check(declared)
        if token_file is not None:  # it is read again whenever the client dials
            declared = replace(declared, token=None, token_file=os.path.abspath(token_file))
        return Target(on, declared)
    if token_file is not None:
        raise SettingInvalid(
            "--token-file needs --on URL; for a named environment, set auth_bearer_token_file"
        )
    for key in fields(tls):
        if getattr(tls, key) is not None:
            flag = f"--{key.replace('_', '-')}"
            raise SettingInvalid(f"{flag} needs --on wss://HOST:PORT; for a named environment, set {key}")
    configuration = load(os.environ, codex_home)
    name = configuration.default if on is None else on
    if name is None:
        raise SettingInvalid("no default environment is configured: name one with --on")
    if name == LOCAL and (configuration.include_local or on == LOCAL):
        return Target(LOCAL, None)
    for declared in configuration.environments:
        if declared.id == name:
            return Target(name, declared)
    known = [LOCAL] if configuration.include_local else []
    known += [one.id for one in configuration.environments]
    if pools:
        from ..pool.file import load as load_pools

        declared_pools = load_pools(os.environ)
        if name in declared_pools:
            return Target(name, None, pool=True)
        known += declared_pools
    raise SettingInvalid(f"no environment is named {name!r}; known: {', '.join(known)}")


def _token(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            token = file.read(_TOKEN_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingInvalid(f"cannot read --token-file {path}: {reason}") from None
    if not token:
        raise SettingInvalid(f"--token-file {path} is empty")
    return token


@contextlib.asynccontextmanager
async def reach(
    target: Target,
    *,
    resume: str | None = None,
    take_over: bool = False,
    quiet: bool = False,
    summaries: bool = False,
    operate: bool = False,
    opened: InitializeResult | None = None,
    reason: str | None = None,
) -> AsyncIterator[Client]:
    """A client of the target; a broken connection is reported as it should be on a command line.

    `opened` is a session to go on with, whose connection was lost for this `reason`, or left.
    """
    declared = target.declared
    if target.pool:
        from ..pool.pool import Pool

        async with Pool(target.on) as pool, contextlib.AsyncExitStack() as stack:
            with waiting(f"waiting for an executor of {target.name}"):
                client = await stack.enter_async_context(pool.lease())
            yield client
        return
    if declared is None:
        # Through the package: importing the module would put it in the place of the public function.
        from .. import local

        async with local(summaries=summaries) as client:
            yield client
        return
    watch = None if quiet or (opened is not None and reason is None) else LinkWatch(target.name)
    if opened is not None:
        client = opening(declared, on_state=watch)._take_up(opened, reason or "left")
    else:
        with contextlib.nullcontext() if quiet else waiting(f"connecting to {target.name}"):
            client = await opening(
                declared,
                resume=resume,
                take_over=take_over,
                on_state=watch,
                summaries=summaries,
                operate=operate,
            )
    patience: float | None = None
    try:
        yield client
    except LeftRunning as left:
        if left.silent:
            patience = _GOODBYE_SECONDS
        raise
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await client.aclose()
