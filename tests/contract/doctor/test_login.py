"""What a login shell changes (L1, L5, P7)."""

from __future__ import annotations

from pathlib import Path

from outfitter.contract.doctor.login import Login, culprits, path_login_shell, path_programs
from outfitter.record import replace

from .build import FILE, configured, given, login, seen

CHANGED = "PATH is changed at /etc/profile:7"


def test_what_a_login_shell_loses_is_told_with_file_and_line() -> None:
    finding = path_login_shell(configured(), given({"PATH": "/x/bin:/usr/bin"}), login("/usr/bin:/bin"))
    assert seen(finding) == ("warning", ("PATH[0] /x/bin is lost in a login shell (/etc/profile:7)", CHANGED))
    assert "/etc/profile:7" in finding.remedy


def test_another_order_of_path_is_told() -> None:
    finding = path_login_shell(configured(), given({"PATH": "/x:/usr/bin"}), login("/usr/bin:/x"))
    assert seen(finding) == ("warning", ("PATH has another order in a login shell (/etc/profile:7)", CHANGED))


def test_another_order_is_nobody_s_who_puts_something_new_in_front() -> None:
    profile, own = ("/etc/profile", 5), ("/home/ada/.bash_profile", 2)
    found = Login("/bin/bash", "captured", {}, places={"PATH": [profile, own]}, replaces=profile, first=own)
    for path, blamed in (("/new:/usr/bin:/x", profile), ("/usr/bin:/x", own)):
        finding = path_login_shell(
            configured(), given({"PATH": "/x:/usr/bin"}), replace(found, values={"PATH": path})
        )
        told = f"PATH has another order in a login shell ({blamed[0]}:{blamed[1]})"
        assert seen(finding)[1][0] == told


def test_something_in_front_of_path_is_told() -> None:
    finding = path_login_shell(configured(), given({"PATH": "/x:/usr/bin"}), login("/sys:/x:/usr/bin"))
    assert seen(finding) == ("warning", ("PATH[0] is /sys in a login shell (/etc/profile:7)", CHANGED))


def test_something_behind_path_or_twice_in_it_is_in_order() -> None:
    found = login("/x:/usr/bin:/x:/games")
    finding = path_login_shell(configured(), given({"PATH": "/x:/usr/bin"}), found)
    assert seen(finding) == ("ok", ())


def test_a_filtered_variable_that_comes_back_is_told_by_name() -> None:
    found = login("/usr/bin:/bin", GITHUB_TOKEN="never-shown")
    found = replace(found, places={"GITHUB_TOKEN": [("/home/ada/.profile", 3)]})
    finding = path_login_shell(configured(), given(removed={"exclude *": ["GITHUB_TOKEN"]}), found)
    wanted = "GITHUB_TOKEN, which the policy removes, comes back (/home/ada/.profile:3)"
    assert seen(finding) == ("warning", (wanted,))


def test_it_is_an_error_where_startup_files_are_only_reported() -> None:
    finding = path_login_shell(
        configured(startup="report"), given({"PATH": "/x:/usr/bin"}), login("/usr/bin")
    )
    assert seen(finding)[0] == "error"
    assert 'startup = "enforce"' in finding.remedy and FILE in finding.remedy


def test_a_login_shell_without_an_answer_is_a_warning_with_its_reason() -> None:
    found = Login("/bin/zsh", "timeout", {}, reason="it waits")
    assert seen(path_login_shell(configured(), given(), found)) == ("warning", ("it waits",))
    assert seen(path_programs(configured(), found)) == ("skipped", ())


def test_without_asking_both_checks_are_skipped() -> None:
    assert seen(path_login_shell(configured(), given(), None))[0] == "skipped"
    assert seen(path_programs(configured(), None))[0] == "skipped"


def test_programs_that_differ_are_told_with_both_paths() -> None:
    found = login("/usr/bin")
    found = replace(
        found,
        programs={
            "python": ("/x/bin/python", "/usr/bin/python"),
            "node": (None, "/opt/node"),
            "git": ("/usr/bin/git", "/usr/bin/git"),
        },
    )
    assert seen(path_programs(configured(), found)) == (
        "warning",
        (
            "python is /x/bin/python, but /usr/bin/python in a login shell",
            "node is not found, but /opt/node in a login shell",
            "git is /usr/bin/git",
        ),
    )


def test_lines_that_change_path_are_all_told_and_the_right_one_is_blamed(tmp_path: Path) -> None:
    """As Debian has it: a profile that replaces PATH for everybody, and a user's own that adds to it."""
    home = str(tmp_path)
    system, own = tmp_path / "profile", tmp_path / ".bash_profile"
    system.write_text('if x; then\n  PATH="/usr/bin:/bin"\nelse\n  PATH="/games"\nfi\nexport PATH\n')
    own.write_text('\nexport PATH="$HOME/bin:$PATH"\nexport PATH="$PATH:/opt/bin"\n')
    taken = [(str(system), 2), (str(own), 2), (str(own), 3)]
    places = [*taken[:1], (str(system), 4), *taken[1:]]
    path = f"{home}/bin:/usr/bin:/bin:/opt/bin"
    replaces, first = culprits(places, home, path)
    assert (replaces, first) == ((str(system), 2), (str(own), 2))
    found = replace(login(path), places={"PATH": taken}, replaces=replaces, first=first)
    every = tuple(f"PATH is changed at {file}:{line}" for file, line in taken)
    finding = path_login_shell(configured(), given({"PATH": "/usr/bin:/bin"}), found)
    assert finding.details == (f"PATH[0] is {home}/bin in a login shell ({own}:2)", *every)
    assert f"let {own}:2 keep" in finding.remedy
    finding = path_login_shell(configured(), given({"PATH": "/venv/bin:/usr/bin:/bin"}), found)
    assert finding.details == (f"PATH[0] /venv/bin is lost in a login shell ({system}:2)", *every)
    assert f"let {system}:2 keep" in finding.remedy
