"""Codex's configuration."""

from __future__ import annotations

from outfitter.contract.doctor.codex import Codex, codex_config

from .build import FILE, configured, seen


def test_a_codex_policy_that_is_not_imported_is_told() -> None:
    says = ["[shell_environment_policy]"]
    finding = codex_config(configured(), Codex("/c", says))
    assert seen(finding) == ("warning", ("/c",))
    assert "codex = true" in finding.remedy and FILE in finding.remedy
    assert seen(codex_config(configured(), Codex("/c", says, imported=True)))[0] == "ok"
    assert seen(codex_config(configured(), Codex("/c", [])))[0] == "ok"
    assert seen(codex_config(configured(), Codex("/c", None)))[0] == "ok"
    assert seen(codex_config(configured(), Codex("/c", (), mistakes=["/c:1: no"]))) == (
        "warning",
        ("/c:1: no",),
    )
