"""outfitter doctor as a person and as a script use it."""

from __future__ import annotations

import json
from typing import Any

from .commandline import Terminal, User

QUIET = {"SHLVL": "1", "TERM": "dumb"}


def report(user: User, *args: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    done = user.run("doctor", "--json", *args, env={**QUIET, **(env or {})})
    assert done.stderr == b""
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if found["overallStatus"] == "error" else 0)
    return found


def lines(user: User, *args: str, env: dict[str, str] | None = None) -> list[str]:
    done = user.run("doctor", "--no-login", *args, env={**QUIET, "PYTHONIOENCODING": "utf-8", **(env or {})})
    assert done.stderr == b""
    return done.stdout.decode().splitlines()


def break_configuration(user: User) -> None:
    (user.home / "outfitter.toml").write_text("[shell]\nstartup = 7\n")


def test_json_is_the_report_and_the_status_is_that_of_the_worst_check(user: User) -> None:
    assert report(user, "--no-login")["overallStatus"] in ("ok", "warning")
    break_configuration(user)
    assert report(user, "--no-login")["overallStatus"] == "error"


def test_the_login_shell_is_asked_unless_it_shall_not_be(user: User) -> None:
    for name in (".profile", ".zprofile"):
        (user.home / name).write_text(f"touch {user.home}/was-read\n")
    assert report(user, "--no-login")["checks"]["path.programs"]["status"] == "skipped"
    assert not (user.home / "was-read").exists()
    report(user)
    assert (user.home / "was-read").exists()


def test_problems_come_first_with_their_details_and_remedy(user: User) -> None:
    break_configuration(user)
    shown = lines(user, env={"BASH_ENV": "/x"})
    assert shown[0].startswith("✗ config.files  1 mistake")
    assert shown[1].startswith(f"    {user.home}/outfitter.toml:2: ")
    assert shown[2].startswith(f"    Edit {user.home}/outfitter.toml:2: ")
    marks = [line[0] for line in shown[:-1] if not line.startswith(" ")]
    assert marks == sorted(marks, key="✗!✓·".index)
    assert shown[-1].startswith("1 error, ")


def test_details_of_what_is_in_order_are_shown_with_all(user: User) -> None:
    assert not [line for line in lines(user) if line.startswith("    shell.startup = enforce")]
    assert [line for line in lines(user, "--all") if line.startswith("    shell.startup = enforce")]


def test_many_details_are_cut_unless_all_are_asked_for(user: User) -> None:
    secrets = {f"TOKEN_{number}": "x" for number in range(12)}
    assert "    and 4 more: --all shows them" in lines(user, env=secrets)
    assert "    TOKEN_9" in lines(user, "--all", env=secrets)


def test_a_summary_has_only_the_problems_a_line_for_each(user: User) -> None:
    shown = lines(user, "--summary", env={"BASH_ENV": "/x"})
    assert [line.split("  ")[0] for line in shown[:-1]] == ["! shell.bash-env"]
    assert shown[-1].startswith("1 warning, ")


def test_marks_are_ascii_when_asked_for_and_where_there_are_no_others(user: User) -> None:
    for shown in (lines(user, "--ascii"), lines(user, env={"PYTHONIOENCODING": "ascii"})):
        assert "[ok] config.files  no files: the defaults apply" in shown
        assert all(line.isascii() for line in shown)


def test_a_terminal_gets_colours_unless_it_shall_not(user: User, screen: Terminal) -> None:
    popen = screen.start(user, "doctor", "--no-login", env={"SHLVL": "1"})
    assert b"\x1b[32m" in screen.rest(popen)[1]
    screen.shown = b""
    popen = screen.start(user, "doctor", "--no-login", "--no-color", env={"SHLVL": "1"})
    assert b"\x1b[" not in screen.rest(popen)[1]


def test_names_cannot_move_the_cursor(user: User) -> None:
    shown = "\n".join(lines(user, "--all", env={"PATH": "/usr/bin:/bin:/a\x1b[2Jb"}))
    assert "\x1b" not in shown
    assert "/a?[2Jb" in shown


def test_the_directory_decides_which_project_is_looked_at(user: User) -> None:
    folder = user.home / "project"
    folder.mkdir()
    (folder / "outfitter.toml").write_text("nonsense")
    assert report(user, "--no-login")["checks"]["config.files"]["status"] == "ok"
    there = report(user, "--no-login", "--cwd", str(folder))
    assert there["checks"]["config.files"]["status"] == "error"
    assert user.run("doctor", "--cwd", str(folder / "gone")).returncode == 2
    assert user.run("doctor", "--nonsense").returncode == 2
