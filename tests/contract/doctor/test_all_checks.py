"""All checks together."""

from __future__ import annotations

import re

from outfitter.contract.doctor.base import base_launch, base_stale_activation
from outfitter.contract.doctor.codex import Codex, codex_config
from outfitter.contract.doctor.limits import names_odd
from outfitter.contract.doctor.login import path_login_shell, path_programs
from outfitter.contract.doctor.machine import Given
from outfitter.contract.doctor.policy import policy_code_loading, secrets_visible
from outfitter.contract.doctor.report import CHECKS
from outfitter.contract.doctor.shell import Shells, shell_agreement, shell_bash_env
from outfitter.contract.file import parse_settings
from outfitter.record import replace

from .build import FILE, configured, given, login


def test_ids_are_unique_and_say_their_category() -> None:
    ids = [check.id for check in CHECKS]
    assert len(ids) == len(set(ids))
    assert [check.category for check in CHECKS] == [ident.split(".")[0] for ident in ids]


def test_what_a_remedy_says_to_write_can_be_written() -> None:
    odd = {"A.B": "1", 'Q"': "1", "LD_PRELOAD": "x", "BASH_ENV": "x", "MY_TOKEN": "x", "VIRTUAL_ENV": "/v"}
    found = login("/usr/bin")
    found = replace(found, programs={"python": ("/a", "/b")})
    findings = [
        names_odd(configured(), given(odd)),
        policy_code_loading(configured(), given(odd)),
        secrets_visible(configured(), given(odd)),
        shell_bash_env(configured(), given(odd)),
        base_stale_activation(configured(), given(odd), "/"),
        base_launch(configured(), Given({}, {}), ""),
        path_programs(configured(), found),
        path_login_shell(configured(startup="report"), given({"PATH": "/x"}), found),
        shell_agreement(configured(), Shells(None, "/usr/bin/fish", "/bin/bash")),
        codex_config(configured(), Codex("/c", ["x"])),
    ]
    for finding in findings:
        said = re.search(r"[Ww]rite (\w+ = .+?) under \[(\w+)\]", finding.remedy)
        assert said is not None, finding.remedy
        parse_settings(f"[{said[2]}]\n{said[1]}\n", FILE, "user", "/home/ada")
