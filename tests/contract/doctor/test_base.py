"""What we were started by, and what is left of activations."""

from __future__ import annotations

import pytest

from outfitter.contract.doctor.base import base_launch, base_stale_activation
from outfitter.contract.doctor.machine import Given

from .build import FILE, configured, given, seen


def test_a_service_is_offered_the_snapshot() -> None:
    service = Given({"INVOCATION_ID": "1"}, {})
    finding = base_launch(configured(), service, "systemd")
    assert seen(finding)[0] == "warning"
    assert 'snapshot = "loginShell"' in finding.remedy and FILE in finding.remedy
    assert seen(base_launch(configured(snapshot="loginShell"), service, "systemd"))[0] == "ok"


def test_a_terminal_below_systemd_is_no_service() -> None:
    assert seen(base_launch(configured(), given({"INVOCATION_ID": "1"}), "systemd")) == ("ok", ())


@pytest.mark.parametrize(
    ("base", "stale"),
    [
        ({"VIRTUAL_ENV": "/v", "PATH": "/v/bin:/bin"}, False),
        ({"VIRTUAL_ENV": "/v"}, True),
        ({"CONDA_PREFIX": "/c/"}, True),
        ({"DIRENV_DIFF": "x", "DIRENV_DIR": "-/repo"}, False),
        ({"DIRENV_DIFF": "x", "DIRENV_DIR": "-/other"}, True),
        ({"__MISE_DIFF": "x"}, True),
        ({"__MISE_DIFF": "x", "PATH": "/h/.local/share/mise/installs/a/bin:/bin"}, False),
        ({"__ETC_PROFILE_NIX_SOURCED": "1"}, True),
        ({"__ETC_PROFILE_NIX_SOURCED": "1", "PATH": "/nix/var/x/bin"}, False),
    ],
)
def test_an_activation_whose_effect_is_missing_is_stale(base: dict[str, str], stale: bool) -> None:  # S2
    finding = base_stale_activation(configured(), given(base), "/repo/src")
    assert seen(finding)[0] == ("warning" if stale else "ok")
    if stale:
        [name] = [name for name in base if name in finding.remedy]
        assert f'unset = ["{name}"]' in finding.remedy
