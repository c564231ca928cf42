"""From the URL of an environment to a stream: which registry, which token, which keys.

`https://HOST/PATH/ENVIRONMENT`, and where an executor's key is known already, `#key=` and its fingerprint.
"""

from __future__ import annotations

import os

from ..errors import SettingInvalid
from ..protocol.registry import USE, pool_of
from .credentials import FileCredential, bearer
from .harness import Harness
from .pinned import ExpectedExecutor, PinnedExecutor, kept_keys
from .registry import Registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from .harness import RelayTransport
    from .known import Known
    from .pinned import Pin


def token_file(known: Known, registry: str, environment_id: str, role: str) -> str:
    """The path of the token for an environment, or of that for its pool, whether it exists or not."""
    path = known.token_file(registry, environment_id, role)
    pool = pool_of(environment_id)
    if not pool or os.path.exists(path):
        return path
    of_pool = known.token_file(registry, pool, f"{role}-pool")
    return of_pool if os.path.exists(of_pool) else path


class Reaching:
    """One environment behind a registry."""

    def __init__(self, url: str, known: Known, tls: ssl.SSLContext | None) -> None:
        """Raises SettingInvalid."""
        url, _, key = url.partition("#key=")
        base, _, environment_id = url.rstrip("/").rpartition("/")
        self._token: str | None = None
        self._base, self._environment_id = base, environment_id
        self._known = known
        registry = Registry(base, environment_id, self._headers, tls=tls, seconds=6.0)
        pin: Pin = PinnedExecutor(known, registry.text, environment_id)
        if key:
            pin = ExpectedExecutor(key, f"{environment_id} at {registry.text}")
        own = kept_keys(known, known.key_file) if os.path.exists(known.key_file) else None
        self._harness = Harness(registry, tls=tls, pin=pin, keys=own)
        self.text = f"{environment_id} at {registry.text}"

    def _headers(self) -> dict[str, str]:
        if self._token is not None:
            return bearer(self._token)
        try:
            return FileCredential(token_file(self._known, self._base, self._environment_id, USE)).headers()
        except SettingInvalid as error:
            raise SettingInvalid(
                f"there is no token for {self._environment_id}: run `outfitter enrol {self._base} --code "
                f"CODE`, or give one ({error})"
            ) from None

    async def dial(self, token: str | None, seconds: float) -> RelayTransport:
        """Raises DialFailed, SettingInvalid."""
        self._token = token
        return await self._harness.dial(seconds)
