"""Sizes and names that do not reach a command."""

from __future__ import annotations

from outfitter.contract.doctor.limits import limits_size, names_odd
from outfitter.contract.doctor.machine import Given
from outfitter.env.resolve import LARGEST_PAIR

from .build import configured, given, seen


def test_an_environment_that_is_almost_too_large_is_a_warning() -> None:
    assert seen(limits_size(configured(), given()))[0] == "ok"
    finding = limits_size(configured(), given({"BIG": "x" * (LARGEST_PAIR - 100)}))
    assert seen(finding)[0] == "warning"
    assert "Unset BIG" in finding.remedy
    assert seen(limits_size(configured(total_bytes=100), given({"LONG": "x" * 90})))[0] == "warning"


def test_an_environment_that_is_too_large_is_an_error() -> None:
    assert seen(limits_size(configured(), Given({}, {}, problem="BIG is too large"))) == (
        "error",
        ("BIG is too large",),
    )


def test_names_that_dash_drops_are_told() -> None:
    assert seen(names_odd(configured(), given({"A.B": "1", "BASH_FUNC_f%%": "x"}))) == ("warning", ("A.B",))
