"""Who answers a question about an environment: the contract here, or an executor elsewhere.

The answers are the same objects either way. Here nothing of asyncio is imported: that takes longer than the
answer.
"""

from __future__ import annotations

import os

from ...contract import answers
from ...contract.contract import contract_of
from ...env.redact import Secrets
from ...errors import NotFound, SettingInvalid
from ...providers import inherited
from ..patience import patiently
from ..wishes import asked, client_contract, client_policy, launch_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any, TypeVar

    from ...client.client import Client
    from ...contract.contract import Asked, Contract
    from ...env.resolve import Resolved
    from ...protocol.jsontext import Json
    from ..target import Target
    from ..wishes import Flags

    _T = TypeVar("_T")

# Looked up in every explanation, where they exist: what people ask about.
PROGRAMS = ("python", "python3", "pip", "node", "cargo")


def explain(flags: Flags, show: str = "names", *, programs: Sequence[str] = (), login: bool = False) -> Json:
    """The whole story of every variable. Raises OutfitterError."""
    target = where(flags)
    if target is None:
        contract, question = here(flags)
        return answers.explain(contract, question, show, programs=programs, login=login)()

    async def ask(client: Client) -> Json:
        wire = await _wire(client, target, flags)
        return await client.explain(**wire, show=show, programs=programs, login=login)

    return there(target, ask)


def resolve(flags: Flags, show: str = "names") -> Json:
    """What a command would get. Raises OutfitterError."""
    target = where(flags)
    if target is None:
        contract, question = here(flags)
        return answers.resolve(contract, question, show)()

    async def ask(client: Client) -> Json:
        return await client.environment(**await _wire(client, target, flags), show=show)

    return there(target, ask)


# Here


def where(flags: Flags) -> Target | None:
    """The executor that `outfitter run` with the same flags would use; None for this process."""
    is_plain = all(flags[name] is None for name in ("token_file", "tls_ca", "tls_cert", "tls_key"))
    if flags["on"] == "local" and is_plain:
        return None
    if flags["on"] is None and is_plain and flags["codex_home"] is None:
        # Looking for the file here saves most people what it takes to read one.
        from ...places import user_file

        try:
            folder = os.path.dirname(user_file(os.environ))
        except SettingInvalid:
            return None
        if not os.path.lexists(os.path.join(folder, "environments.toml")):
            return None
    from ..target import named

    target = named(flags)
    return None if target.declared is None else target


def here(flags: Flags) -> tuple[Contract, Asked]:
    """The contract of commands that are started from here, and the question to it. Raises OutfitterError."""
    return prepared(), asked(flags, folder_of(flags["cwd"]))


def prepared() -> Contract:
    """As `outfitter run` has it on this machine. Raises FileInvalid."""
    contract = contract_of("launcher", inherited.load())
    contract.around = patiently
    contract.prepare()
    return contract


def secret_values(contract: Contract, resolved: Resolved, folder: str) -> dict[str, str]:
    """The variables that are secret by what a layer says, by their name or by their value."""
    secrets = Secrets(contract.settings(folder).secret_names)
    marked = frozenset[str]().union(*(layer.secrets for layer in resolved.layers))
    values = resolved.values.items()
    return {name: value for name, value in values if name in marked or secrets.holds(name, value)}


def folder_of(cwd: str | None) -> str:
    """Raises SettingInvalid when this directory does not exist."""
    try:
        path = os.path.abspath(cwd or ".")
    except FileNotFoundError:
        raise SettingInvalid("the current directory no longer exists: change to another one") from None
    if not os.path.isdir(path):
        raise SettingInvalid(f"{path} is not a directory")
    return path


# There


def there(target: Target, question: Callable[[Client], Awaitable[_T]]) -> _T:
    """The answer of an executor. Raises OutfitterError."""
    import asyncio

    from ..target import reach

    async def ask() -> _T:
        async with reach(target) as client:
            return await question(client)

    return asyncio.run(ask())


async def as_for_run(client: Client, target: Target, cwd: str | None) -> str | None:
    """Has the server answer for commands of `outfitter run`; returns where they run. Raises OutfitterError.

    On a server of ours, on this machine, they run where we are, in the environment that is configured. No
    command runs in a directory that is missing there, so there is no answer for one.
    """
    from .. import base

    await base.agree(client, target, None, compare=False)
    folder = base.directory(client, target, cwd)
    if folder is not None:
        try:
            is_folder = (await client.files.stat(folder)).is_directory
        except NotFound:
            is_folder = False
        if not is_folder:
            raise SettingInvalid(f"{folder} is not a directory on {target.name}")
    return folder


async def _wire(client: Client, target: Target, flags: Flags) -> dict[str, Any]:
    return {
        "cwd": await as_for_run(client, target, flags["cwd"]),
        "env": dict(flags["env"]),
        "policy": client_policy(flags),
        "contract": client_contract(flags, launch_kind() if client.offers("environmentContract") else ""),
    }
