"""What executors and harnesses ask of a registry: bodies of its HTTP calls, both ways.

Names are the reference's. Unknown members of answers are ignored; a public key has exactly its own.
"""

from __future__ import annotations

from ..errors import InvalidParams
from ..record import record
from .base64 import encode_text
from .fields import Fields
from .shape import Shape, member, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json

PROFILE = "noise_hybrid_ik_v1"
SUITE = "Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256"  # a label, not the name that is hashed
DIRECT = "direct_jsonrpc_v1"
OFFLINE = "environment_offline"  # a harness that is told so comes again in a moment
EXECUTE, USE = "execute", "use"  # what one may do with an environment: be its executor, run commands on it
# The same for the environments of a pool, made when they are needed: NAME has those that are called NAME.ANY.
EXECUTE_POOL, USE_POOL = f"{EXECUTE}-pool", f"{USE}-pool"
ROLES = (EXECUTE, USE, EXECUTE_POOL, USE_POOL)
STREAM_HEADER = "x-codex-noise-stream-id"
MAX_BODY = 64 << 10  # a registration has 1.8 KiB
_X25519, _MLKEM = 32, 1184
_KEY_MEMBERS = {"suite", "x25519_public_key", "mlkem768_public_key"}


@record
class KeyObject:
    """The public keys of one end, raw."""

    x25519: bytes
    mlkem: bytes

    @classmethod
    def decode(cls, value: Json) -> KeyObject:
        """Raises InvalidParams."""
        fields = Fields(value, "PublicKey")
        unknown = sorted(fields.members.keys() - _KEY_MEMBERS)
        if unknown:
            raise InvalidParams(f"a public key has no member `{unknown[0]}`")
        if fields.text("suite") != SUITE:
            raise InvalidParams(f"the suite of a public key must be `{SUITE}`")
        return cls(_key(fields, "x25519_public_key", _X25519), _key(fields, "mlkem768_public_key", _MLKEM))

    def encode(self) -> Json:
        return {
            "suite": SUITE,
            "x25519_public_key": encode_text(self.x25519),
            "mlkem768_public_key": encode_text(self.mlkem),
        }


def _key(fields: Fields, name: str, size: int) -> bytes:
    from binascii import Error, a2b_base64

    try:
        raw = a2b_base64(fields.text(name).encode("ascii"), strict_mode=True)
    except (Error, UnicodeEncodeError):
        raise InvalidParams(f"`{name}` is not base64") from None
    if len(raw) != size:
        raise InvalidParams(f"`{name}` must have {size} bytes, not {len(raw)}")
    return raw


def _key_object(fields: Fields, name: str) -> KeyObject:
    return KeyObject.decode(fields.members.get(name))


def _profile(fields: Fields, name: str) -> str:
    found = fields.text(name)
    if found != PROFILE:
        raise InvalidParams(f"security profile `{found}` is not known: this side has `{PROFILE}`")
    return found


def _said(fields: Fields, name: str) -> str:
    """A text that says something."""
    found = fields.text(name)
    if not found.strip():
        raise InvalidParams(f"`{name}` is empty")
    return found


def _write_key(key: KeyObject) -> Json:
    return key.encode()


@shape()
class RegisterParams(Shape):
    """An executor comes, with its key. One that is kept will be the same the next time: see
    `ConnectAnswer`."""

    security_profile: str = member(_profile, name="security_profile")
    executor: KeyObject = member(_key_object, _write_key, name="executor_public_key")
    kept: bool = member(default=False, omit=True, name="executor_key_kept")


@shape()
class RegisterAnswer(Shape):
    """Where the executor has to connect, and what its registration is called."""

    environment_id: str = member(_said, name="environment_id")
    url: str = member(_said)
    security_profile: str = member(_profile, name="security_profile")
    registration_id: str = member(_said, name="executor_registration_id")


@shape()
class ConnectParams(Shape):
    """A harness wants to reach an executor."""

    harness: KeyObject = member(_key_object, _write_key, name="harness_public_key")


@shape()
class ConnectAnswer(Shape):
    """What a harness needs for one connection. `kept` is the executor's word that its key will not change:
    whoever hears it remembers the key."""

    environment_id: str = member(_said, name="environment_id")
    url: str = member(_said)
    security_profile: str = member(_profile, name="security_profile")
    registration_id: str = member(_said, name="executor_registration_id")
    executor: KeyObject = member(_key_object, _write_key, name="executor_public_key")
    authorization: str = member(_said, name="harness_key_authorization")
    kept: bool = member(default=False, omit=True, name="executor_key_kept")


@shape()
class ValidateParams(Shape):
    """An executor asks whether a harness may begin a stream."""

    registration_id: str = member(_said, name="executor_registration_id")
    harness: KeyObject = member(_key_object, _write_key, name="harness_public_key")
    authorization: str = member(_said, name="harness_key_authorization")


@shape()
class ValidateAnswer(Shape):
    """Whether the harness may, and who it is where the registry knows: the same user has the same sessions
    from every machine."""

    valid: bool
    principal: str = member(default="", omit=True)


@shape()
class DirectParams(Shape):
    """An executor that will be spoken to without a relay."""

    transport: str


@shape()
class DirectAnswer(Shape):
    environment_id: str = member(_said, name="environment_id")
    transport: str
    registration_id: str = member(_said, name="registration_id")
    url: str = member(_said)


@shape()
class EnrolParams(Shape):
    """Somebody has a one-time code."""

    code: str = member(_said)


@shape()
class EnrolAnswer(Shape):
    """What the code was worth: a token, and for what."""

    hidden = ("token",)

    token: str = member(_said)
    principal: str = member(_said)
    environment_id: str = member(_said, name="environment_id")
    role: str = member(_said)


@shape()
class RotateParams(Shape):
    """Whoever asks wants another token in place of the one it shows."""


@shape()
class RotateAnswer(Shape):
    """The new token, and for how many seconds the old one still works."""

    hidden = ("token",)

    token: str = member(_said)
    grace: int


def error_body(code: str, message: str) -> Json:
    return {"error": {"code": code, "message": message}}


def error_of(value: Json) -> tuple[str, str]:
    """Code and message of an answer that is an error; empty where it does not say."""
    try:
        fields = Fields(Fields(value, "Answer").members.get("error"), "Error")
        return fields.text("code"), fields.text("message")
    except InvalidParams:
        return "", ""


def pool_of(environment_id: str) -> str:
    """The pool that an environment may belong to by its name; empty for none."""
    return environment_id.rpartition(".")[0]


def is_environment_id(text: str) -> bool:
    """Whether an environment may be called so: the name is put into paths as it is."""
    return (
        0 < len(text) <= 128
        and all(mark.isascii() and (mark.isalnum() or mark in "._-") for mark in text)
        and text not in (".", "..")
    )
