"""Keys of one end, made by the library or from what was kept of them."""

from __future__ import annotations

import pytest

from outfitter.relay.keys import Keys, encapsulate

X25519, SEED = bytes(range(32)), bytes(range(64))


def test_two_ends_agree_on_a_secret() -> None:
    one, other = Keys(), Keys()
    assert one.exchange(other.public.x25519) == other.exchange(one.public.x25519)
    secret, ciphertext = encapsulate(one.public.mlkem)
    assert one.decapsulate(ciphertext) == secret != other.decapsulate(ciphertext)
    assert (len(one.public.x25519), len(one.public.mlkem), len(ciphertext)) == (32, 1184, 1088)


def test_what_was_kept_gives_the_same_keys() -> None:
    assert Keys(X25519, SEED).public == Keys(X25519, SEED).public
    assert Keys(X25519, SEED).public != Keys(X25519, bytes(64)).public


def test_new_keys_differ() -> None:
    one, other = Keys(), Keys()
    assert one.public.x25519 != other.public.x25519 and one.public.mlkem != other.public.mlkem


@pytest.mark.parametrize(("x25519", "seed"), [(b"short", SEED), (X25519, b"short")])
def test_what_is_no_key_is_refused(x25519: bytes, seed: bytes) -> None:
    with pytest.raises(ValueError):
        Keys(x25519, seed)


def test_a_public_key_that_is_none_takes_no_secret() -> None:
    for public in (b"", b"\xff" * 1184):
        with pytest.raises(ValueError):
            encapsulate(public)
