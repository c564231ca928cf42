"""Rules for names: whole names, and prefixes."""

from __future__ import annotations

import pytest

from outfitter.env.launches import DEFAULT, KINDS, first_match


@pytest.mark.parametrize(
    ("name", "rule"),
    [("A", "A"), ("AB", None), ("P_", "P_*"), ("P_X", "P_*"), ("P", None), ("a", None), ("p_x", None)],
)
def test_name_meets_itself_or_a_prefix(name: str, rule: str | None) -> None:
    assert first_match(("A", "P_*"), name) == rule


def test_default_has_every_kind_and_asks_for_nothing() -> None:
    assert [kind.name for kind in DEFAULT.kinds] == list(KINDS)
    assert all(not kind.requires and not kind.forbids and not kind.baseline for kind in DEFAULT.kinds)
