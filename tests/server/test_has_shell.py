"""Which commands are looked at more closely because a shell may be in them."""

from __future__ import annotations

import pytest

from outfitter.server.starting import _has_shell
from outfitter.shell.look import Looked

PLAIN = [
    ["env"],
    ["env", "-0"],
    ["/usr/bin/env", "--null", "A=1", "B=bash -lc x"],
    ["make", "-S", "all"],
    ["git", "status"],
]
CONCERNED = [
    ["env", "-S", "bash -lc 'A=1 make'"],
    ["env", "-Sbash -lc 'echo $A=1'"],
    ["env", "-vS", "bash -l"],
    ["env", "--split-string=bash -lc 'A=1'"],
    ["env", "--split=bash -lc 'A=1'"],
    ["env", "A=1", "my-shell", "-l"],
    ["script", "-qc", "bash -lc 'A=1 make'"],
    ["script", "--command=bash -lc 'A=1'"],
    ["su", "-"],
    ["sudo", "-i"],
    ["strace", "bash", "-lc", "x"],
]


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("argv", PLAIN, ids=" ".join)
def test_what_starts_no_shell_is_passed_on(argv: list[str], found: bool) -> None:
    assert not _has_shell(argv, _looked(argv) if found else None)


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("argv", CONCERNED, ids=" ".join)
def test_what_may_start_one_is_looked_at(argv: list[str], found: bool) -> None:
    assert _has_shell(argv, _looked(argv) if found else None)


def _looked(argv: list[str]) -> Looked:
    name = argv[0].rpartition("/")[2]
    return Looked(f"/usr/bin/{name}", name)
