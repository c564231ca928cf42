"""Base64 as strict as the reference: padded, no white space, canonical last symbol, its three texts."""

from __future__ import annotations

import base64 as stdlib
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import InvalidParams
from outfitter.protocol import base64

quick = settings(deadline=None, max_examples=80)

ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"


def refusal(text: str) -> str:
    with pytest.raises(InvalidParams) as caught:
        base64.decode(text)
    return str(caught.value)


@quick
@given(st.binary(max_size=200))
def test_encoding_agrees_with_the_standard_library(data: bytes) -> None:
    assert base64.encode(data) == stdlib.b64encode(data)
    assert base64.encode_text(data) == stdlib.b64encode(data).decode()


@quick
@given(st.binary(max_size=200))
def test_bytes_survive_the_round_trip(data: bytes) -> None:
    assert base64.decode(base64.encode_text(data)) == data


@quick
@given(st.text(alphabet=ALPHABET + "=", max_size=12) | st.text(max_size=8))
def test_exactly_the_canonical_texts_are_accepted(text: str) -> None:
    # Canonical: it is what encoding its own bytes gives. Lax decoding first, strict comparison after.
    try:
        data = stdlib.b64decode(text.encode("ascii"))
        canonical = stdlib.b64encode(data).decode() == text
    except ValueError:
        canonical = False
    if canonical:
        assert base64.decode(text) == data
    else:
        refusal(text)


def test_an_empty_text_is_no_bytes() -> None:
    assert base64.decode("") == b""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("*AAA", "Invalid symbol 42, offset 0."),
        ("AAA*", "Invalid symbol 42, offset 3."),
        ("AA A", "Invalid symbol 32, offset 2."),
        ("AAAA\n", "Invalid symbol 10, offset 4."),
        ("AA-_", "Invalid symbol 45, offset 2."),
        ("AA=A", "Invalid symbol 61, offset 2."),
        ("AA==AAAA", "Invalid symbol 61, offset 2."),
        ("AAA\u00e9", "Invalid symbol 195, offset 3."),
        ("\u00e9*AA", "Invalid symbol 195, offset 0."),
    ],
)
def test_a_foreign_symbol_is_named_with_its_place(text: str, fault: str) -> None:
    assert refusal(text) == fault


@pytest.mark.parametrize(
    "text", ["A", "AA", "AAA", "AA=", "AAAAA", "A===", "=", "==", "====", "AAAA=", "AAAA=="]
)
def test_padding_is_required_and_exact(text: str) -> None:
    assert refusal(text) == "Invalid padding"


@pytest.mark.parametrize(("before", "padding", "unused_bits"), [("A", "==", 4), ("AA", "=", 2)])
def test_the_unused_bits_of_the_last_symbol_are_zero(before: str, padding: str, unused_bits: int) -> None:
    for value, symbol in enumerate(ALPHABET):
        text = before + symbol + padding
        if value % (1 << unused_bits):
            assert refusal(text) == f"Invalid last symbol {ord(symbol)}, offset {len(before)}."
        else:
            assert base64.encode_text(base64.decode(text)) == text


def test_the_reference_texts_are_word_for_word() -> None:
    assert [refusal("*"), refusal("QQ"), refusal("QR==")] == [
        "Invalid symbol 42, offset 0.",
        "Invalid padding",
        "Invalid last symbol 82, offset 1.",
    ]
