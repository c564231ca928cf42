"""What a tool has made beforehand, and what was said about the command meanwhile."""

from __future__ import annotations

import pytest

from outfitter.core.launch import Launch
from outfitter.core.making import Made, made
from outfitter.errors import InvalidParams

GIVEN = {"PATH": "/bin", "BASH_ENV": "/given", "HOME": "/home"}
MADE = Made(GIVEN, {"PATH": "/tool:/bin", "BASH_ENV": "/given", "HOME": "/home", "NEW": "1"}, "/else")


def test_the_command_has_what_the_tool_made_and_what_came_or_went_meanwhile() -> None:
    launch = Launch("x", ["x", "y"], "/here", {"PATH": "/bin", "HOME": "/mine", "PROXY": "1"}, found="/bin/x")
    step, note = made(MADE)(launch)
    assert (step.env, step.cwd, note) == (
        {"PATH": "/tool:/bin", "HOME": "/mine", "PROXY": "1", "NEW": "1"},
        "/else",
        None,
    )
    assert (step.program, step.argv, step.found) == ("x", ["x", "y"], "")


def test_a_umask_of_the_tool_is_the_command_s() -> None:
    step, _ = made(Made(GIVEN, GIVEN, "/", 0o027))(Launch("x", ["x", "y"], "/", GIVEN))
    assert [step.program, *step.argv[1:]] == [
        *("/bin/sh", "-c", 'umask "$1"; shift; exec "$@"', "sh"),
        *("27", "x", "y"),
    ]


def test_a_tool_that_has_failed_is_what_came_of_it() -> None:
    step, _ = made(Made(GIVEN, failure="why\n", code=3))(Launch("x", ["x"], "/", GIVEN))
    assert step.argv[-2:] == ["why\n", "3"]
    assert step.env == {}


def test_a_name_of_its_own_is_refused() -> None:
    with pytest.raises(InvalidParams, match="arg0 is lost"):
        made(MADE)(Launch("sh", ["-sh"], "/", GIVEN, renamed=True))
