"""Launching an agent through a client: here, on a named environment, or anywhere else that one reaches.

async with outfitter.local() as client:
    values, origins = await base_of(client, cwd="/srv/app")
    spec = CommandSpec(contract, backend("codex"), "skill", task, base=values, origins=origins)
    process = await start(client, spec)
"""

from __future__ import annotations

from ..env.origin import Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..client.client import Client
    from ..client.process import RemoteProcess
    from ..core.sandbox import Sandbox
    from .spec import CommandSpec


async def base_of(client: Client, *, cwd: str | None = None) -> tuple[dict[str, str], dict[str, Origin]]:
    """What a command would have on that executor, and where each variable comes from there.

    Raises CapabilityMissing for a server that cannot explain environments.
    """
    told = await client.explain(cwd=cwd, show="secrets")
    values: dict[str, str] = {}
    origins: dict[str, Origin] = {}
    for name, one in told["variables"].items():
        if "removed" not in one:
            said = one["origin"]
            values[name] = one.get("value", "")
            where = said.get("file"), said.get("line")
            origins[name] = Origin(said["kind"], said["detail"], *where, secret=one["secret"])
    return values, origins


async def start(
    client: Client,
    spec: CommandSpec,
    *,
    tty: tuple[int, int] | None = None,
    stdin: bool = False,
    sandbox: Sandbox | None = None,
) -> RemoteProcess:
    """Starts what a spec says, with exactly its environment; in a sandbox of the executor's, if one is given.

    Raises LaunchFailed and what `start` raises.
    """
    # A spec says all about its environment: without a policy, an executor adds nothing to it.
    return await client.start(
        list(spec.argv), cwd=spec.cwd, env=dict(spec.env), policy=None, tty=tty, stdin=stdin, sandbox=sandbox
    )
