"""What a system does less well than Linux is told."""

from __future__ import annotations

from outfitter.contract.doctor.platform import abilities
from outfitter.core.abilities import ABILITIES

from .build import seen


def test_linux_has_every_ability() -> None:
    assert seen(abilities("")) == ("ok", ())


def test_others_are_told_what_is_weaker_and_what_is_refused() -> None:
    finding = abilities("macos")
    assert finding.summary.startswith("macos without Linux's own calls: limits, mask, ")
    assert len(finding.details) == len(ABILITIES)
