"""Whether commands get the same environment on every node: by keyed digests, without seeing a value."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from ..env.names import SHELL_MAINTAINED

if TYPE_CHECKING:
    from ..client.client import Client

_OF_A_LEASE = SHELL_MAINTAINED | {"HOME", "TMPDIR"}
MAX_NODES = 4096  # that are remembered to differ: as many as there can be slots


class Parity:
    """The environment of the first executor, and the nodes that have another one."""

    def __init__(self) -> None:
        self.differing: dict[str, tuple[str, ...]] = {}  # nodes: names of variables
        self._key = secrets.token_bytes(32)
        self._first: dict[str, str] | None = None

    async def look(self, client: Client, node: str) -> tuple[str, ...]:
        """The variables in which an executor differs from the first one. Raises OutfitterError."""
        found = await client.environment(digest_key=self._key)
        digests = {
            name: variable.get("digest", "")
            for name, variable in found["variables"].items()
            if name not in _OF_A_LEASE
        }
        if self._first is None:
            self._first = digests
        names = {*digests, *self._first}
        differing = tuple(sorted(name for name in names if digests.get(name) != self._first.get(name)))
        if not differing:
            self.differing.pop(node, None)
        elif len(self.differing) < MAX_NODES:
            self.differing[node] = differing
        return differing
