"""The encrypted channel through a relay: hybrid Noise IK for both ends, with no socket in sight.

    <- s
    -> skem, e, es, s, ss      with the harness's authorization
    <- ekem, skem, e, ee, se   with nothing

X25519 and ML-KEM-768, AES-256-GCM, SHA-256; whoever breaks one of the two key agreements still reads nothing.
Secrets are compared and computed by `cryptography`, in constant time. Keys are given and never made here, and
nothing of a handshake outlives it but the two keys of its channel.
"""

from __future__ import annotations

import hashlib
import hmac

from ..errors import RemoteProtocolError
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class KeyPair(Protocol):
        """A pair of key pairs: X25519 and ML-KEM-768."""

        @property
        def public(self) -> PublicKey: ...
        def exchange(self, other: bytes) -> bytes:
            """The X25519 secret with another's public key. Raises ValueError for a key that has none."""

        def decapsulate(self, ciphertext: bytes) -> bytes:
            """The ML-KEM secret that somebody has sent to this key."""

    # An ML-KEM public key becomes a secret and the ciphertext that carries it. Raises ValueError.
    Encapsulate = Callable[[bytes], tuple[bytes, bytes]]

NAME = b"Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256"  # hashed: not the label of the suite in the registry
MAX_AUTHORIZATION = 4096  # bytes; the reference resets the stream for one more
_LABEL = b"codex-exec-server-relay-noise/v1"
X25519_BYTES, MLKEM_BYTES = 32, 1184
_TAG, _CIPHERTEXT = 16, 1088
_FIRST = _CIPHERTEXT + X25519_BYTES + MLKEM_BYTES + X25519_BYTES + _TAG + MLKEM_BYTES + _TAG + _TAG
_SECOND = _CIPHERTEXT + _CIPHERTEXT + _TAG + X25519_BYTES + MLKEM_BYTES + _TAG


@record
class PublicKey:
    """Raw public keys, as they stand in messages."""

    x25519: bytes
    mlkem: bytes

    def __post_init__(self) -> None:
        if len(self.x25519) != X25519_BYTES or len(self.mlkem) != MLKEM_BYTES:
            raise ValueError("a public key has the wrong length")


@record
class Channel:
    """What a handshake ends with: a key for each direction, and what both ends have seen."""

    hidden = ("sending", "receiving")

    sending: bytes
    receiving: bytes
    transcript: bytes


def prologue(environment_id: str, registration_id: str, stream: str) -> bytes:
    """What both ends must agree on before the first message: a service that mixes streams up is found out."""
    parts = (_LABEL, environment_id.encode(), registration_id.encode(), stream.encode())
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


class Initiator:
    """The harness's end: `message` goes out, `finish` reads what comes back."""

    def __init__(
        self,
        static: KeyPair,
        ephemeral: KeyPair,
        executor: PublicKey,
        said: bytes,
        authorization: bytes,
        encapsulate: Encapsulate,
    ) -> None:
        """`said` is the prologue. Raises RemoteProtocolError for an executor's key that is none."""
        self._static, self._ephemeral = static, ephemeral
        state = self._state = _State(said, executor)
        with _Faults():
            secret, ciphertext = encapsulate(executor.mlkem)
            out = [state.encrypt(ciphertext)]
            state.mix_key_and_hash(secret)
            out += state.mix_ephemeral(ephemeral.public)
            state.mix_key(ephemeral.exchange(executor.x25519))
            out += [state.encrypt(static.public.x25519), state.encrypt(static.public.mlkem)]
            state.mix_key(static.exchange(executor.x25519))
        self.message = b"".join([*out, state.encrypt(authorization)])

    def finish(self, message: bytes) -> Channel:
        """Raises RemoteProtocolError unless the executor whose key is known has answered."""
        if len(message) != _SECOND:
            raise RemoteProtocolError(f"the second handshake message has {len(message)} bytes, not {_SECOND}")
        state, read = self._state, _Reader(message)
        with _Faults():
            ciphertext = state.mix_hash(read(_CIPHERTEXT))
            state.mix_key(self._ephemeral.decapsulate(ciphertext))
            state.mix_key_and_hash(self._static.decapsulate(state.decrypt(read(_CIPHERTEXT + _TAG))))
            theirs = state.mix_hash(read(X25519_BYTES))
            state.mix_hash(read(MLKEM_BYTES))
            state.mix_key(self._ephemeral.exchange(theirs))
            state.mix_key(self._static.exchange(theirs))
            state.decrypt(read(_TAG))
        sending, receiving = state.split()
        return Channel(sending, receiving, state.hash)


class Responder:
    """The executor's end, once the first message has been read: who asks, and what shows that it may."""

    def __init__(self, static: KeyPair, said: bytes, message: bytes) -> None:
        """`said` is the prologue. Raises RemoteProtocolError for a message that is not for this key."""
        if not _FIRST <= len(message) <= _FIRST + MAX_AUTHORIZATION:
            raise RemoteProtocolError(f"the first handshake message has {len(message)} bytes")
        state, read = _State(said, static.public), _Reader(message)
        with _Faults():
            ciphertext = state.decrypt(read(_CIPHERTEXT))
            state.mix_key_and_hash(static.decapsulate(ciphertext))
            ephemeral = PublicKey(state.mix_hash(read(X25519_BYTES)), state.mix_hash(read(MLKEM_BYTES)))
            state.mix_key(static.exchange(ephemeral.x25519))
            x25519 = state.decrypt(read(X25519_BYTES + _TAG))
            self.harness = PublicKey(x25519, state.decrypt(read(MLKEM_BYTES + _TAG)))
            state.mix_key(static.exchange(x25519))
            self.authorization = state.decrypt(read(len(message)))
        self._state, self._ephemeral = state, ephemeral

    def answer(self, ephemeral: KeyPair, encapsulate: Encapsulate) -> tuple[bytes, Channel]:
        """The second message, and the channel. Raises RemoteProtocolError for keys that are none."""
        state = self._state
        with _Faults():
            secret, ciphertext = encapsulate(self._ephemeral.mlkem)
            out = [state.mix_hash(ciphertext)]
            state.mix_key(secret)
            secret, ciphertext = encapsulate(self.harness.mlkem)
            out.append(state.encrypt(ciphertext))
            state.mix_key_and_hash(secret)
            out += state.mix_ephemeral(ephemeral.public)
            state.mix_key(ephemeral.exchange(self._ephemeral.x25519))
            state.mix_key(ephemeral.exchange(self.harness.x25519))
        message = b"".join([*out, state.encrypt(b"")])
        receiving, sending = state.split()
        return message, Channel(sending, receiving, state.hash)


class _Reader:
    """Takes a message apart, from its beginning."""

    def __init__(self, message: bytes) -> None:
        self._message, self._place = message, 0

    def __call__(self, count: int) -> bytes:
        place = self._place
        self._place = place + count
        return self._message[place : place + count]


class _Faults:
    """What the library raises for a message that is not right, as ours: it does not say what was wrong."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        from cryptography.exceptions import InvalidTag

        if isinstance(error, InvalidTag | ValueError):
            raise RemoteProtocolError(
                "the handshake does not fit this key, this peer or this stream"
            ) from None


class _State:
    """Noise's symmetric state."""

    def __init__(self, said: bytes, executor: PublicKey) -> None:
        self.hash = self._chain = hashlib.sha256(NAME).digest()
        self._key: bytes | None = None
        self._nonce = 0
        for known in (said, executor.x25519, executor.mlkem):
            self.mix_hash(known)

    def mix_hash(self, data: bytes) -> bytes:
        self.hash = hashlib.sha256(self.hash + data).digest()
        return data

    def mix_key(self, secret: bytes) -> None:
        self._chain, self._key = _derive(self._chain, secret, 2)
        self._nonce = 0

    def mix_key_and_hash(self, secret: bytes) -> None:
        self._chain, known, self._key = _derive(self._chain, secret, 3)
        self.mix_hash(known)
        self._nonce = 0

    def mix_ephemeral(self, public: PublicKey) -> list[bytes]:
        return [self.mix_hash(public.x25519), self.mix_hash(public.mlkem)]

    def encrypt(self, plaintext: bytes) -> bytes:
        if self._key is None:
            return self.mix_hash(plaintext)
        return self.mix_hash(cipher(self._key).encrypt(self._next_nonce(), plaintext, self.hash))

    def decrypt(self, ciphertext: bytes) -> bytes:
        if self._key is None:
            return self.mix_hash(ciphertext)
        plaintext = cipher(self._key).decrypt(self._next_nonce(), ciphertext, self.hash)
        self.mix_hash(ciphertext)
        return plaintext

    def _next_nonce(self) -> bytes:
        self._nonce += 1
        return nonce(self._nonce - 1)

    def split(self) -> tuple[bytes, bytes]:
        """The keys of both directions; nothing more can be said with this state."""
        first, second = _derive(self._chain, b"", 2)
        self._chain, self._key = b"", None
        return first, second


def _derive(chain: bytes, secret: bytes, count: int) -> list[bytes]:
    """Noise's HKDF: so many keys from a secret."""
    temporary = hmac.digest(chain, secret, "sha256")
    found = [hmac.digest(temporary, b"\x01", "sha256")]
    while len(found) < count:
        found.append(hmac.digest(temporary, found[-1] + bytes((len(found) + 1,)), "sha256"))
    return found


if TYPE_CHECKING:

    class Cipher(Protocol):
        def encrypt(self, nonce: bytes, data: bytes | memoryview, associated_data: bytes | None) -> bytes: ...
        def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
            """Raises InvalidTag."""


def cipher(key: bytes) -> Cipher:
    """AES-256-GCM. Raises ValueError for a key of another length."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    made: Cipher = AESGCM(key)
    return made


def nonce(count: int) -> bytes:
    return count.to_bytes(12, "big")
