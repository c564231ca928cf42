"""Entries of PATH that nobody meant (P9)."""

from __future__ import annotations

import pytest

from outfitter.contract.doctor.machine import Given
from outfitter.contract.doctor.path import path_result, path_segments

from .build import given, seen


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/usr/bin:", "warning", "PATH[1] is empty, which means the current directory"),
        ("bin:/usr/bin", "warning", "PATH[0] bin is relative: its meaning depends on the current directory"),
        ("/usr/bin:$PATH", "warning", "PATH[1] $PATH is an unexpanded reference to a variable"),
        ("/usr/bin:/usr/bin/", "ok", "PATH[1] /usr/bin/ is listed twice"),
        ("/usr/bin:/opt/gone", "ok", "PATH[1] /opt/gone does not exist"),
    ],
)
def test_entries_of_path_that_nobody_meant_are_told(path: str, status: str, detail: str) -> None:
    assert seen(path_segments(given({"PATH": path}), frozenset({"/usr/bin"}))) == (status, (detail,))


@pytest.mark.parametrize("base", [{"PATH": ""}, {"PATH": "bin"}])
def test_a_path_that_leads_nowhere_is_an_error(base: dict[str, str]) -> None:
    assert seen(path_segments(given(base), frozenset())) == ("error", ())


@pytest.mark.parametrize(("path", "status"), [("/x", "error"), ("", "error"), ("/x:/usr/bin", "ok")])
def test_the_path_that_commands_get_must_reach_the_system(path: str, status: str) -> None:
    base = {"PATH": "/usr/bin:/bin"}
    assert seen(path_result(Given(base, {"PATH": path})))[0] == status
    assert seen(path_result(Given(base, {}, problem="too large")))[0] == "ok"


def test_who_has_set_a_path_that_is_probably_wrong_is_named() -> None:
    base, told = {"PATH": "/usr/bin:/bin"}, ["PATH of user (/c.toml:2) is probably a mistake: ..."]
    finding = path_result(Given(base, {"PATH": "/usr/bin"}, path_mistakes=told))
    assert seen(finding) == ("warning", tuple(told))
    finding = path_result(Given(base, {"PATH": "/x"}, path_mistakes=told))
    assert seen(finding) == ("error", ("PATH=/x", *told))
