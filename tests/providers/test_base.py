"""Modes: which ones a provider has, and what each of them still loses."""

from __future__ import annotations

import pytest

from outfitter.errors import SettingInvalid
from outfitter.providers.base import MODES, Lost, check_mode, modes_of, still_lost
from outfitter.providers.registry import OURS, find
from tests.support.notes import Notes


def test_a_provider_that_says_nothing_gives_snapshots() -> None:
    assert modes_of(Notes()) == ("snapshot",)
    check_mode(Notes(), "snapshot")
    with pytest.raises(SettingInvalid) as raised:
        check_mode(Notes(), "wrap")
    assert (
        str(raised.value) == 'the provider `notes` has no mode `wrap`: write "snapshot" in [providers.modes]'
    )


@pytest.mark.parametrize("id", OURS)
def test_what_a_provider_never_does_has_a_reason(id: str) -> None:
    provider = find(id, {"values": ("x",)})
    has = modes_of(provider)
    assert has
    assert {*has} <= {*MODES}
    refused = getattr(provider, "refused", {})
    assert not {*has} & {*refused}
    for mode in refused:
        with pytest.raises(SettingInvalid) as raised:
            check_mode(provider, mode)
        assert f"no mode `{mode}` ({refused[mode]}): write " in str(raised.value)
        assert all(f'"{one}"' in str(raised.value) for one in has)


def test_some_providers_never_do_what_others_do() -> None:
    refused = {id: {*getattr(find(id, {"values": ("x",)}), "refused", {})} for id in OURS}
    assert {id for id, modes in refused.items() if modes} >= {"conda", "python"}
    assert set().union(*refused.values()) == {"capture", "wrap"}


def test_each_mode_keeps_what_the_ones_before_it_do() -> None:
    lost = [Lost("a", kept_by, kept_by) for kept_by in ("capture", "wrap", "session")]
    assert {mode: [one.name for one in still_lost(lost, mode)] for mode in MODES} == {
        "snapshot": ["capture", "wrap", "session"],
        "capture": ["wrap", "session"],
        "wrap": ["session"],
    }
