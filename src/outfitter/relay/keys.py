"""The keys of one end of a relay, made and used by `cryptography`.

Private keys live in the library's memory, which wipes them when the last handle goes.
"""

from __future__ import annotations

from ..core.noise import PublicKey
from ..errors import SettingInvalid
from ..stdlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NEEDED = "a relay needs cryptography 48 or newer, which has ML-KEM: pip install 'outfitter[relay]'"


class Keys:
    """An X25519 and an ML-KEM-768 key pair: made anew, or from what was kept of them."""

    def __init__(self, x25519: bytes | None = None, seed: bytes | None = None) -> None:
        """Raises SettingInvalid where the library has not what it takes."""
        x, kem = _library()
        self._x25519 = x.X25519PrivateKey.generate() if x25519 is None else _load(x, x25519)
        pair = kem.MLKEM768PrivateKey
        self._mlkem = pair.generate() if seed is None else pair.from_seed_bytes(seed)
        self.public = PublicKey(
            self._x25519.public_key().public_bytes_raw(), self._mlkem.public_key().public_bytes_raw()
        )

    def exchange(self, other: bytes) -> bytes:
        secret: bytes = self._x25519.exchange(_library()[0].X25519PublicKey.from_public_bytes(other))
        return secret

    def decapsulate(self, ciphertext: bytes) -> bytes:
        secret: bytes = self._mlkem.decapsulate(ciphertext)
        return secret


def encapsulate(public: bytes) -> tuple[bytes, bytes]:
    """A secret for the owner of an ML-KEM key, and the ciphertext that carries it. Raises ValueError."""
    secret, ciphertext = _library()[1].MLKEM768PublicKey.from_public_bytes(public).encapsulate()
    return secret, ciphertext


def fingerprint(key: PublicKey) -> str:
    """What a person compares of a public key, and what tells harnesses apart."""
    return sha256(key.x25519 + key.mlkem).hexdigest()[:32]


def _load(x: Any, private: bytes) -> Any:
    return x.X25519PrivateKey.from_private_bytes(private)


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import mlkem, x25519
    except ImportError:
        raise SettingInvalid(_NEEDED) from None
    return x25519, mlkem
