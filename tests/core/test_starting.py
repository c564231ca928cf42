"""Starting a command: pure steps, each a launch made of another, with their notes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outfitter.core.launch import Launch
from outfitter.core.starting import shell, through, wrap
from outfitter.env.behind import Behind
from outfitter.errors import InvalidParams, LoginRejected
from outfitter.record import replace
from outfitter.shell.look import Looked
from outfitter.shell.start import ShellPlan
from outfitter.shell.wrappers import Account

NOTHING = Behind(("--",), {})
ENV = {"PATH": "/usr/bin:/bin", "BASH_ENV": "/evil"}
BASH = Launch("/bin/bash", ["bash", "-lc", "make"], "/srv", ENV, pipe_stdin=True)


def nothing(program: str, env: object, cwd: str) -> Looked | None:
    """A machine without any files."""
    return None


def root() -> Account:
    return Account("root", 0, "/bin/bash")


def step(login: str) -> Callable[[Launch], tuple[Launch, ShellPlan | None]]:
    return shell(login, "enforce", None, nothing, root)


def test_without_steps_a_launch_is_what_it_was() -> None:
    assert through(BASH, ()) == (BASH, ())


def test_a_shell_keeps_startup_files_out_and_says_so() -> None:
    launch, [plan] = through(BASH, [step("strip")])
    assert (plan.shell, plan.login, plan.withheld) == ("bash", False, ("BASH_ENV",))
    assert launch == replace(BASH, argv=plan.argv, env={"PATH": "/usr/bin:/bin"})
    assert BASH.env == ENV  # what was asked for stays as it was


def test_what_is_no_shell_stays_as_it_is() -> None:
    launch = replace(BASH, program="/usr/bin/make", argv=["make"])
    assert through(launch, [step("strip")]) == (launch, ())


def test_a_shell_behind_a_program_is_a_shell() -> None:
    asked = replace(BASH, program="nice", argv=["nice", "bash", "-lc", "make"])
    launch, [plan] = through(asked, [step("strip")])
    assert launch.argv == ["nice", "bash", "--noprofile", "--norc", "-c", "make"]
    assert (launch.program, launch.env, plan.through) == ("nice", {"PATH": "/usr/bin:/bin"}, ("nice",))


def test_the_shell_of_a_script_is_what_is_executed() -> None:
    def look(program: str, env: object, cwd: str) -> Looked | None:
        return Looked("bin/run", "run", interpreter=("/bin/bash", "-l")) if program == "run" else None

    asked = replace(BASH, program="run", argv=["run", "it"])
    launch, [plan] = through(asked, [shell("strip", "enforce", None, look, root)])
    assert (launch.program, launch.argv) == ("/bin/bash", ["/bin/bash", "bin/run", "it"])
    assert plan.login_asked


def test_a_login_shell_can_be_rejected() -> None:
    with pytest.raises(LoginRejected):
        through(BASH, [step("reject")])


def test_a_tool_goes_in_front_and_starts_the_program_that_was_asked_for() -> None:
    prefix = ("/usr/bin/direnv", "exec", "/srv")
    launch, notes = through(
        BASH,
        [
            wrap(
                prefix,
                ("again",),
                Behind(
                    ("deny", "*X", "--"), {"__OUTFITTER_KEPT_PATH": "/x", "__OUTFITTER_KEPT_GONE": "1"}, ENV
                ),
            )
        ],
    )
    argv = [*prefix, "again", "deny", "*X", "--", "/bin/bash", "-lc", "make"]
    env = {**ENV, "__OUTFITTER_KEPT_PATH": "/x"}  # what was withheld meanwhile stays so
    assert (launch, notes) == (replace(BASH, program="/usr/bin/direnv", argv=argv, env=env), ())


def test_a_program_of_ours_goes_before_a_tool_that_has_to_find_files_as_they_were() -> None:
    holds = Behind(("--",), {}, frozen=[("/srv", "/srv/.envrc", "12ab")])
    launch, _ = through(
        BASH, [wrap(("/usr/bin/tool", "exec"), ("between",), holds, ("/our/python", "ahead"))]
    )
    ahead = ["/our/python", "ahead", "/srv", "/srv/.envrc", "12ab", "--", "3"]
    argv = [*ahead, "/usr/bin/tool", "exec", "between", "--", "/bin/bash", "-lc", "make"]
    assert (launch.program, launch.argv) == ("/our/python", argv)


def test_steps_work_from_the_inside_out() -> None:
    launch, [plan] = through(BASH, [step("strip"), wrap(("/usr/bin/tool",), (), NOTHING)])
    assert launch.argv == ["/usr/bin/tool", "--", "/bin/bash", *plan.argv[1:]]
    assert "--noprofile" in launch.argv


def test_a_tool_in_front_would_lose_the_name_that_was_chosen() -> None:
    with pytest.raises(InvalidParams, match="arg0 is lost"):
        through(replace(BASH, renamed=True), [wrap(("/usr/bin/tool",), (), NOTHING)])
