"""Starting a command: pure steps, each a launch made of another, with their notes."""

from __future__ import annotations

import pytest

from outfitter.core.launch import Launch
from outfitter.core.starting import shell, through, wrap
from outfitter.errors import InvalidParams, LoginRejected
from outfitter.record import replace

ENV = {"PATH": "/usr/bin:/bin", "BASH_ENV": "/evil"}
BASH = Launch("/bin/bash", ["bash", "-lc", "make"], "/srv", ENV, pipe_stdin=True)


def test_without_steps_a_launch_is_what_it_was() -> None:
    assert through(BASH, ()) == (BASH, ())


def test_a_shell_keeps_startup_files_out_and_says_so() -> None:
    launch, [plan] = through(BASH, [shell("strip", "enforce", None)])
    assert (plan.shell, plan.login, plan.withheld) == ("bash", False, ("BASH_ENV",))
    assert launch == replace(BASH, argv=plan.argv, env={"PATH": "/usr/bin:/bin"})
    assert BASH.env == ENV  # what was asked for stays as it was


def test_what_is_no_shell_stays_as_it_is() -> None:
    launch = replace(BASH, program="/usr/bin/make", argv=["make"])
    assert through(launch, [shell("strip", "enforce", None)]) == (launch, ())


def test_a_login_shell_can_be_rejected() -> None:
    with pytest.raises(LoginRejected):
        through(BASH, [shell("reject", "enforce", None)])


def test_a_tool_goes_in_front_and_starts_the_program_that_was_asked_for() -> None:
    prefix = ("/usr/bin/direnv", "exec", "/srv")
    launch, notes = through(BASH, [wrap(prefix)])
    argv = ["/usr/bin/direnv", "exec", "/srv", "/bin/bash", "-lc", "make"]
    assert (launch, notes) == (replace(BASH, program="/usr/bin/direnv", argv=argv), ())


def test_steps_work_from_the_inside_out() -> None:
    launch, [plan] = through(BASH, [shell("strip", "enforce", None), wrap(("/usr/bin/tool",))])
    assert launch.argv == ["/usr/bin/tool", "/bin/bash", *plan.argv[1:]]
    assert "--noprofile" in launch.argv


def test_a_tool_in_front_would_lose_the_name_that_was_chosen() -> None:
    with pytest.raises(InvalidParams, match="arg0 is lost"):
        through(replace(BASH, renamed=True), [wrap(("/usr/bin/tool",))])
