"""What a shell has beside its environment: written by one shell, read here, and had by another."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from outfitter.shell.snapshot import BEGIN, END, read_block
from outfitter.shell.start import prepare
from outfitter.shell.state import ShellState, dump, is_kind, read, restored, restoring, statements
from tests.support.tools import program

OPTIONS, FUNCTIONS, ALIASES = (f"__OUTFITTER_{name}" for name in ("OPTIONS", "FUNCTIONS", "ALIASES"))


def report(options: str = "", functions: str = "", aliases: str = "", **values: str) -> dict[str, str]:
    return {OPTIONS: options, FUNCTIONS: functions, ALIASES: aliases, **values}


@pytest.mark.parametrize(
    ("name", "path", "is_it"),
    [
        ("bash", "/bin/bash", True),
        ("bash", "/opt/rbash", True),
        ("bash", "/bin/zsh", False),
        ("zsh", "/usr/bin/zsh", True),
        ("sh", "/bin/sh", True),
        ("sh", "/bin/dash", True),
        ("sh", "/bin/bash", False),
        ("sh", "/bin/cat", False),
        ("fish", "/bin/fish", False),
    ],
)
def test_a_shell_is_what_its_program_is_called(name: str, path: str, is_it: bool) -> None:
    assert is_kind(name, path) is is_it


# Reading


def test_variables_and_state_are_told_apart() -> None:
    state, values = read("bash", report(A="1", __OUTFITTER_OTHER="x"))
    assert (state, values) == (ShellState(""), {"A": "1"})


@pytest.mark.parametrize("missing", [OPTIONS, FUNCTIONS, ALIASES])
def test_a_state_that_is_not_whole_is_none(missing: str) -> None:
    told = report(A="1")
    del told[missing]
    assert read("bash", told) == (None, {"A": "1"})


def test_what_says_how_a_shell_was_started_is_not_restored() -> None:
    options = (
        "set +o errexit\nset -o pipefail\nset -o privileged\nset +o history\nset -o noexec\nodd\n"
        "shopt -s extglob\nshopt -s login_shell\nshopt -u autocd\nshopt -x what\n"
    )
    state, _ = read("bash", report(options))
    assert state is not None
    assert state.text == (
        "\\builtin shopt -s extglob\n\\builtin shopt -u autocd\n\\builtin set +o errexit -o pipefail\n"
    )


def test_options_of_zsh_are_names_or_a_table() -> None:
    for options in ("extendedglob\nnohashdirs\nlogin\nnozle\n", "extendedglob on\nlogin on\nzle off\n"):
        state, _ = read("zsh", report(options))
        assert state is not None
        assert state.text.removesuffix(" nohashdirs\n").strip() == "\\builtin setopt extendedglob"


def test_options_that_change_what_is_read_come_after_it_but_those_of_patterns() -> None:
    functions = "f () \n{ \n    echo @(a|b)\n}\ndeclare -fx f\n"
    state, _ = read("bash", report("set -o posix\nshopt -s extglob\n", functions, "alias l='ls'\n"))
    assert state is not None
    read_first, rest = state.text.split("f () ")
    assert (read_first, state.functions, state.aliases) == ("\\builtin shopt -s extglob\n", 1, 1)
    late = (
        "declare -fx f",
        *(f"\\builtin {one}" for one in ("export -nf f", "alias l='ls'", "set -o posix")),
    )
    assert rest.endswith("}\n" + "".join(f"{one}\n" for one in late))


def test_aliases_without_their_word_get_it_and_those_of_every_zsh_do_not_count() -> None:
    state, _ = read("sh", report(aliases="a='x y'\nb='1\n2'\n"))
    assert state == ShellState("\\command alias a='x y'\n\\command alias b='1\n2'\n", 0, 2)
    state, _ = read("zsh", report(aliases="alias run-help=man\nalias which-command=whence\nalias -g G=x\n"))
    assert state == ShellState("\\builtin alias -g G=x\n", 0, 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("a\n\nb\n", ["a", "b"]),
        ("a='1\n2'\nb", ["a='1\n2'", "b"]),
        ('a="1\'\n\\"2"\nb', ['a="1\'\n\\"2"', "b"]),
        ("a='\\'\nb", ["a='\\'", "b"]),
        ("a=\\\n1\nb", ["a=\\\n1", "b"]),
        ("a=''\\'''\nb='", ["a=''\\'''", "b='"]),
    ],
)
def test_a_line_inside_of_quotes_is_no_new_one(text: str, found: list[str]) -> None:
    assert statements(text) == found


def test_the_repr_has_no_text() -> None:
    assert "hunter2" not in repr(ShellState("f() { echo hunter2; }\n"))


# Restoring


def test_nothing_to_restore_changes_nothing() -> None:
    assert restoring("bash", ShellState(""), "echo hi") == ("echo hi", [])


def test_no_part_of_a_state_is_in_an_argument() -> None:
    text = "f() { echo hunter2; }\n" * 20_000
    command, added = restoring("bash", ShellState(text), "echo hi")
    assert ("hunter2" in command, command.split("\n")[1:]) == (False, ["echo hi"])
    assert "".join(value for _, value in added) == text
    assert all(len(f"{name}={value}".encode()) < 131_071 for name, value in added)


def test_the_text_stands_where_it_stood() -> None:
    argv = ["bash", "--norc", "-c", "echo $1", "name", "one"]
    words, env = restored("bash", ShellState("alias l=ls\n"), argv, 2, {"A": "1"})
    assert [*words[:3], *words[4:]] == ["bash", "--norc", "-c", "name", "one"]
    assert words[3].endswith("\necho $1")
    assert env == {"A": "1", "__OUTFITTER_RESTORE": "alias l=ls\n"}


# Real shells


def taken(name: str, startup: str, tmp_path: Path, rc: str | None = None) -> ShellState:
    """What a shell writes after a text."""
    path = tmp_path / "report"
    path.write_bytes(b"")
    if rc is not None:
        files = {"bash": ".bashrc", "zsh": ".zshrc", "sh": "env"}
        (tmp_path / files[name]).write_text(rc)
    text = f"{startup}\n{dump(name, str(path), rc=rc is not None)}"
    flags = {"bash": ["--norc"], "zsh": ["-f"], "sh": []}[name]
    env = {"HOME": str(tmp_path), "ENV": str(tmp_path / "env"), "PATH": "/usr/bin:/bin"}
    subprocess.run([program(name), *flags, "-c", text], env=env, check=True, stderr=subprocess.DEVNULL)
    block = f"{BEGIN}=n\0".encode() + path.read_bytes() + f"{END}=n\0".encode()
    values = read_block(block, "n")
    assert values is not None
    state, left = read(name, values)
    assert (state is not None, left) == (True, {})
    assert state is not None
    return state


def had(name: str, state: ShellState, command: str, *more: str) -> str:
    """What a command prints in a new shell that begins with a state: as it would be started."""
    plan = prepare(
        name,
        [name, "-lc", command, *more],
        login="strip",
        startup="enforce",
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
    )
    assert plan is not None
    words, env = restored(name, state, plan.argv, len(more), {"PATH": "/usr/bin:/bin"})
    done = subprocess.run(
        words,
        executable=program(name),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode()


BASH = """
shopt -s expand_aliases extglob
greet() { case $1 in @(a|b)) echo "it's $1";; *) echo other;; esac; }
shared() { echo shared; }; export -f shared
alias l='echo "list'\\''s"' two='echo 1
echo 2'
set -o pipefail -o noclobber
builtin() { :; }; declare() { :; }; printf() { :; }; alias alias=false
"""


def test_bash_has_functions_aliases_and_options(tmp_path: Path) -> None:
    state = taken("bash", BASH, tmp_path)
    assert had("bash", state, "greet a; greet c; l; two; echo $0 $1", "zero", "one") == (
        "it's a\nother\nlist's\n1\n2\nzero one\n"
    )
    assert (
        had("bash", state, "false | true; echo $?; set -o | grep -c 'noclobber.*on'; echo $-")
        == "1\n1\nhBCc\n"
    )
    # A function is the shell's own; nothing of ours is left, and no program gets more than its contract.
    assert had(
        "bash", state, "shared; bash -c shared; env | grep -a OUTFITTER; set | grep -a '^__OUTFITTER'"
    ) == ("shared\nbash: line 1: shared: command not found\n")


def test_bash_expands_aliases_where_startup_files_say_so(tmp_path: Path) -> None:
    state = taken("bash", "alias l='echo list'", tmp_path)
    assert "l: command not found" in had("bash", state, "l")


def test_zsh_has_functions_aliases_and_options(tmp_path: Path) -> None:
    startup = "zf() { print -r -- \"zf $1\" }\nalias l='echo list'\nsetopt extendedglob\n"
    startup += "alias -g G='| tr a-z A-Z'\n"
    state = taken("zsh", startup + "functions() { : }; alias alias=false\n", tmp_path)
    assert had("zsh", state, "zf 1; l G; [[ -o extendedglob ]] && echo $0 $1", "zero", "one") == (
        "zf 1\nLIST\nzero one\n"
    )
    assert had("zsh", state, "env | grep OUTFITTER; set | grep -a '^__OUTFITTER'; exit 3") == ""


def test_sh_has_what_it_can_tell(tmp_path: Path) -> None:
    state = taken("sh", "alias l='echo list' m='a\nb'\nset -o noglob\nprintf() { :; }\n", tmp_path)
    assert had("sh", state, "l; echo *; echo $0 $1", "zero", "one") == "list\n*\nzero one\n"
    assert (state.functions, state.aliases) == (0 if "f ()" not in state.text else 1, 2)


@pytest.mark.parametrize("name", ["bash", "zsh", "sh"])
def test_the_files_of_an_interactive_shell_are_read_if_that_is_asked_for(name: str, tmp_path: Path) -> None:
    state = taken(
        name, "shopt -s expand_aliases 2>/dev/null", tmp_path, rc="alias l='echo rc'\nreturn\nexit 9\n"
    )
    assert had(name, state, "l") == "rc\n"


@pytest.mark.parametrize("name", ["bash", "zsh", "sh"])
def test_what_cannot_be_read_is_said_and_the_command_runs(name: str) -> None:
    said = had(name, ShellState("f() { (\n"), "echo ran")
    # sh ends with a mistake in what it evaluates, as POSIX wants it.
    assert said in ("failed to restore shell snapshot\nran\n", "") and (said or name == "sh")


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_an_option_that_ends_a_shell_holds_for_the_command_alone(name: str, tmp_path: Path) -> None:
    state = taken(name, "set -o errexit -o nounset", tmp_path)
    assert had(name, state, "echo one; false; echo two") == "one\n"
