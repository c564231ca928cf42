"""Shells and what runs in them before a command."""

from __future__ import annotations

import pytest

from outfitter.contract.doctor.machine import Given
from outfitter.contract.doctor.shell import (
    Masking,
    Shells,
    shell_agreement,
    shell_bash_env,
    shell_descendants,
    shell_modes,
    shell_shlvl,
)
from outfitter.contract.settings import Source

from .build import FILE, configured, given, seen


def test_shells_that_agree_are_in_order() -> None:
    assert seen(shell_agreement(configured(), Shells("/bin/zsh", "/bin/zsh", "/bin/zsh")))[0] == "ok"
    assert seen(shell_agreement(configured(), Shells(None, "/bin/zsh", "/bin/zsh")))[0] == "ok"


def test_shells_that_disagree_are_told() -> None:  # L12
    finding = shell_agreement(configured(), Shells("/bin/zsh", "/bin/bash", "/bin/bash"))
    assert seen(finding)[0] == "warning"
    assert "`export SHELL=/bin/bash`" in finding.remedy and "`chsh -s /bin/zsh`" in finding.remedy
    assert (
        seen(shell_agreement(configured(), Shells("/usr/bin/fish", "/usr/bin/fish", "/bin/bash")))[0]
        == "warning"
    )


def test_startup_files_that_run_are_told_with_the_setting() -> None:
    assert seen(shell_modes(configured()))[0] == "ok"
    for startup in ("report", "repair"):
        own = configured(startup=startup)
        own.settings.sources["shell.startup"] = Source(FILE, 4, "user")
        finding = shell_modes(own)
        assert seen(finding)[0] == "warning"
        assert f"{FILE}:4" in finding.remedy


def test_variables_that_run_code_before_a_command_are_told() -> None:  # K6, L11
    base = {"BASH_ENV": "x", "BASH_FUNC_ls%%": "() { :; }", "ENV": "y"}
    finding = shell_bash_env(configured(), given(base))
    assert seen(finding) == ("warning", ("BASH_ENV", "BASH_FUNC_ls%%", "ENV"))
    assert "`unset BASH_ENV ENV`" in finding.remedy
    assert 'exclude = ["BASH_ENV", "BASH_FUNC_ls%%", "ENV"]' in finding.remedy


def test_those_that_the_policy_removes_do_no_harm() -> None:
    finding = shell_bash_env(configured(), Given({"BASH_ENV": "x"}, {}))
    assert seen(finding) == ("ok", ("BASH_ENV is withheld from commands",))


@pytest.mark.parametrize(("value", "status"), [("1", "ok"), ("0", "warning"), (None, "warning")])
def test_a_missing_shlvl_is_told(value: str | None, status: str) -> None:
    base = {} if value is None else {"SHLVL": value}
    assert seen(shell_shlvl(Given(base, base)))[0] == status


def test_masks_that_do_not_work_are_an_error_and_those_that_do_have_a_price() -> None:
    assert seen(shell_descendants(configured(), Masking(False)))[0] == "ok"
    finding = shell_descendants(configured(), Masking(True, "unshare: Operation not permitted"))
    assert finding.status == "error"
    assert "unshare: Operation not permitted" in finding.summary
    assert 'write descendants = "flag"' in finding.remedy
    assert shell_descendants(configured(), Masking(True, root=True)).details == ()
    [detail] = shell_descendants(configured(), Masking(True)).details
    assert detail.startswith("sudo and other programs")
