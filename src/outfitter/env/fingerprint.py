"""Fingerprints: whether two environments are the same, without telling what is in them.

Keyed, so that a short secret cannot be guessed from a stored fingerprint. The key is an argument.
"""

from __future__ import annotations

import hmac

from .names import SHELL_MAINTAINED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .resolve import Resolved


def env_fp(key: bytes, values: Mapping[str, str], leave_out: Iterable[str] = ()) -> str:
    """The same for the same variables; what shells keep themselves, and `leave_out`, do not count."""
    skipped = SHELL_MAINTAINED.union(leave_out)
    digest = hmac.new(key, digestmod="sha256")
    pairs = [(_raw(name), _raw(value)) for name, value in values.items() if name not in skipped]
    for name, value in sorted(pairs):
        digest.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return digest.hexdigest()


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
    digest = hmac.new(key, digestmod="sha256")
    for part in parts:
        raw = _raw(part)
        digest.update(b"%d:%b" % (len(raw), raw))
    return digest.hexdigest()


def value_digest(key: bytes, name: str, value: str) -> str:
    """Stands for a value where the value itself must not be: in locks and in comparisons."""
    raw_name, raw = _raw(name), _raw(value)
    return hmac.new(key, b"%d:%b%d:%b" % (len(raw_name), raw_name, len(raw), raw), "sha256").hexdigest()[:32]


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
