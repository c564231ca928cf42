"""Servers that nobody can dial: each registers with a rendezvous, as an environment of its own in a pool.

The node has a token that lets it be any executor of the pool, kept there by `outfitter enrol`; none travels
through the engine. The key of each server does, and whoever else registers in its place has another one.
"""

from __future__ import annotations

import os

from ..errors import EngineFailed, SettingInvalid
from ..protocol.registry import EXECUTE, is_environment_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_NAME = 64  # characters: the ids of a pool and of a lease follow, and 128 are a name of the registry
_KEY = "its key is "


class RelayPlace:
    """Where servers of a pool register: `https://REGISTRY/POOL`. Raises SettingInvalid."""

    def __init__(self, url: str) -> None:
        self.registry, _, self.pool = url.removeprefix("noise+").rstrip("/").rpartition("/")
        secure = self.registry.startswith("https://")
        if not (secure or self.registry.startswith("http://")) or not is_environment_id(self.pool):
            raise SettingInvalid(f"relay: {url!r} is no pool of a rendezvous: write https://REGISTRY/POOL")
        if len(self.pool) > _LONGEST_NAME:
            raise SettingInvalid(f"relay: {self.pool!r} is too long: give {_LONGEST_NAME} characters at most")

    def environment_id(self, pool_id: str, lease_id: str) -> str:
        return f"{self.pool}.{pool_id}-{lease_id}"

    def words(self, environment_id: str, environ: Mapping[str, str]) -> list[str]:
        """What a server is told to register. `environ` leads to the node's token. Raises EngineFailed."""
        from ..relay.known import Known, folder
        from ..relay.reach import token_file

        try:
            token = token_file(Known(folder(environ)), self.registry, environment_id, EXECUTE)
        except SettingInvalid as error:
            raise EngineFailed(str(error)) from None
        if not os.path.exists(token):
            raise EngineFailed(
                f"{os.uname().nodename} has no token for executors of the pool {self.pool}: run `outfitter "
                f"enrol {self.registry}` there, with a code of the role execute-pool"
            )
        return ["--remote", self.registry, "--environment-id", environment_id, "--credential-file", token]

    def url(self, environment_id: str, said: list[str]) -> str:
        """How a client reaches the server that has said this. Raises EngineFailed."""
        key = next((line.removeprefix(_KEY) for line in said if line.startswith(_KEY)), "")
        if not key:
            raise EngineFailed("the server has not said its key: install the same Outfitter everywhere")
        return f"noise+{self.registry}/{environment_id}#key={key}"
