"""Fingerprints: whether two environments are the same, without telling what is in them.

Keyed, so that a short secret cannot be guessed from a stored fingerprint. The key is an argument.
"""

from __future__ import annotations

from ..stdlib import sha256
from .names import SHELL_MAINTAINED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .resolve import Resolved

_BLOCK = 64  # bytes that SHA-256 takes at a time
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def env_fp(key: bytes, values: Mapping[str, str], leave_out: Iterable[str] = ()) -> str:
    """The same for the same variables; what shells keep themselves, and `leave_out`, do not count."""
    skipped = SHELL_MAINTAINED.union(leave_out)
    pairs = [(_raw(name), _raw(value)) for name, value in values.items() if name not in skipped]
    return _hmac(
        key, *(b"%d:%b%d:%b" % (len(name), name, len(value), value) for name, value in sorted(pairs))
    )


def contract_fp(key: bytes, resolved: Resolved) -> str:
    """The same for the same inputs: layers, their producers and digests, policies, rules."""
    stack = resolved.stack
    rules = stack.rules
    parts = [policy.name + policy.text for policy in stack.policies]
    parts += [
        repr((layer.level, layer.id, layer.producer, layer.state, layer.digest, layer.root, layer.unset))
        + repr([(one.variable, one.op, one.values) for one in layer.operations])
        + env_fp(key, layer.values)
        for layer in stack.layers
    ]
    parts.append(repr((sorted(rules.allow_from), sorted(rules.list_names), rules.tidy, rules.total)))
    parts.append(repr(sorted((name, sorted(names)) for name, names in rules.allow_code_loading.items())))
    return _hmac(key, *(b"%d:%b" % (len(raw), raw) for raw in map(_raw, parts)))


def value_digest(key: bytes, name: str, value: str) -> str:
    """Stands for a value where the value itself must not be: in locks and in comparisons."""
    raw_name, raw = _raw(name), _raw(value)
    return _hmac(key, b"%d:%b%d:%b" % (len(raw_name), raw_name, len(raw), raw))[:32]


def _hmac(key: bytes, *parts: bytes) -> str:
    """HMAC-SHA256 (RFC 2104). Python's own `hmac` brings OpenSSL, which is 3 MiB of a server's memory."""
    block = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    inner = sha256(block.translate(_INNER))
    for part in parts:
        inner.update(part)
    return sha256(block.translate(_OUTER) + inner.digest()).hexdigest()


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
