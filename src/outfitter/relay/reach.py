"""From the URL of an environment to a stream: which registry, which token, which keys."""

from __future__ import annotations

import os

from ..errors import SettingInvalid
from .credentials import FileCredential, bearer
from .harness import Harness
from .pinned import PinnedExecutor, kept_keys
from .registry import Registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from .harness import RelayTransport
    from .known import Known


class Reaching:
    """One environment behind a registry: `https://HOST/PATH/ENVIRONMENT`."""

    def __init__(self, url: str, known: Known, tls: ssl.SSLContext | None) -> None:
        """Raises SettingInvalid."""
        base, _, environment_id = url.rstrip("/").rpartition("/")
        self._token: str | None = None
        self._base, self._environment_id = base, environment_id
        self._known = known
        registry = Registry(base, environment_id, self._headers, tls=tls, seconds=6.0)
        pin = PinnedExecutor(known, registry.text, environment_id)
        own = kept_keys(known, known.key_file) if os.path.exists(known.key_file) else None
        self._harness = Harness(registry, tls=tls, pin=pin, keys=own)
        self.text = f"{environment_id} at {registry.text}"

    def _headers(self) -> dict[str, str]:
        if self._token is not None:
            return bearer(self._token)
        path = self._known.token_file(self._base, self._environment_id, "use")
        try:
            return FileCredential(path).headers()
        except SettingInvalid as error:
            raise SettingInvalid(
                f"there is no token for {self._environment_id}: run `outfitter enrol {self._base} --code "
                f"CODE`, or give one ({error})"
            ) from None

    async def dial(self, token: str | None, seconds: float) -> RelayTransport:
        """Raises DialFailed, SettingInvalid."""
        self._token = token
        return await self._harness.dial(seconds)
