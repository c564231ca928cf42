"""A virtual environment's own words."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from outfitter.providers.manifests import typed
from outfitter.providers.venv import _one_word

TEXTS = st.text(st.sampled_from("a/.-='\"\\$ \té~"), max_size=6)


@given(TEXTS)
def test_a_word_is_read_as_a_shell_reads_it(text: str) -> None:
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    assert _one_word(text) == (words[0] if len(words) == 1 else "")


@given(TEXTS)
def test_a_word_to_type_is_quoted_where_it_has_to_be(word: str) -> None:
    assert typed(word) == (shlex.quote(word) if word else "")
