"""What the policy takes away and lets through."""

from __future__ import annotations

from outfitter.contract.doctor.policy import policy_code_loading, policy_effect, secrets_visible

from .build import configured, given, seen


def test_the_effect_of_the_policy_is_told_by_rule() -> None:
    finding = policy_effect(given(removed={"exclude AWS_*": ["AWS_B", "AWS_A"]}))
    assert seen(finding) == ("ok", ("exclude AWS_*: AWS_A, AWS_B",))


def test_code_loading_names_are_told_but_for_the_usual_ones() -> None:
    assert seen(policy_code_loading(configured(), given({"EDITOR": "vi"}))) == ("ok", ("EDITOR",))
    finding = policy_code_loading(configured(), given({"LD_PRELOAD": "x", "PAGER": "cat"}))
    assert seen(finding) == ("warning", ("LD_PRELOAD", "PAGER (usual)"))
    assert 'exclude = ["LD_PRELOAD"]' in finding.remedy


def test_secrets_that_commands_get_are_told_by_name() -> None:
    base = {"API_TOKEN": "never-shown", "MY_THING": "never-shown", "DB": "postgres://a:never-shown@h/d"}
    finding = secrets_visible(configured(secret_names=("MY_*",)), given(base))
    assert seen(finding) == ("warning", ("API_TOKEN", "DB", "MY_THING"))
    assert "never-shown" not in repr(finding)
    assert seen(secrets_visible(configured(), given()))[0] == "ok"
