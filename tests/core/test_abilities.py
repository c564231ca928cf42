"""The table of abilities, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.core.abilities import ABILITIES, refusal

PAGE = Path(__file__).resolve().parents[2] / "docs" / "topics" / "platforms.md"


def test_names_are_unique_and_every_row_says_what_is_weaker() -> None:
    assert len({ability.name for ability in ABILITIES}) == len(ABILITIES)
    assert all(ability.what and ability.linux and ability.weaker for ability in ABILITIES)


def test_the_page_has_every_row_and_no_other() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{one.name}` | {one.what} | {one.linux} | {one.portable or 'refused'} | {one.weaker} |"
        for one in ABILITIES
    ]


def test_what_is_refused_says_what_to_do() -> None:
    refused = [ability for ability in ABILITIES if not ability.portable]
    assert {ability.name for ability in refused} >= {"limits", "mask", "sandbox", "run-as", "upgrade"}
    assert [refusal(ability.name) for ability in refused] == [ability.weaker for ability in refused]


def test_what_has_another_way_is_not_refused() -> None:
    with pytest.raises(AssertionError):
        refusal("tree")
