"""The files a shell reads when it starts, and the lines of them that change a variable."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.shell.startup import assignments, sources, startup_files

SHELLS = ("bash", "sh", "dash", "ksh", "zsh", "fish", "tcsh", "csh")
quick = settings(deadline=None, max_examples=200)


def files(shell: str, login: bool = False, interactive: bool = False, **env: str) -> list[tuple[str, ...]]:
    return startup_files(shell, login=login, interactive=interactive, home="/h", env={"SHLVL": "1", **env})


# Files


def test_a_plain_command_of_bash_reads_nothing() -> None:
    assert files("bash") == []


def test_bash_may_read_its_rc_file_if_it_is_the_outermost_shell() -> None:
    rc = [("/etc/bash.bashrc", "/etc/bashrc"), ("/h/.bashrc",)]
    assert startup_files("bash", login=False, interactive=False, home="/h", env={}) == rc
    assert files("bash", SHLVL="0") == rc


def test_a_login_bash_reads_the_first_of_three_profiles() -> None:
    profiles = [("/etc/profile",), ("/h/.bash_profile", "/h/.bash_login", "/h/.profile")]
    assert files("bash", login=True) == profiles
    assert files("bash", login=True, interactive=True) == profiles
    assert files("bash", login=True, BASH_ENV="/e") == [*profiles, ("/e",)]


def test_an_interactive_bash_reads_its_rc_file_and_no_bash_env() -> None:
    assert files("bash", interactive=True, BASH_ENV="/e") == [
        ("/etc/bash.bashrc", "/etc/bashrc"),
        ("/h/.bashrc",),
    ]


@pytest.mark.parametrize("value", ["$HOME/e", "${HOME}/e", "~/e"])
def test_bash_env_may_name_the_home(value: str) -> None:
    assert files("bash", BASH_ENV=value) == [("/h/e",)]


def test_sh_and_dash_read_profiles_at_login_and_env_when_interactive() -> None:
    for shell in ("sh", "dash"):
        assert files(shell, ENV="/e") == []
        assert files(shell, login=True) == [("/etc/profile",), ("/h/.profile",)]
        assert files(shell, interactive=True) == []
        assert files(shell, interactive=True, ENV="/e") == [("/e",)]


def test_an_interactive_ksh_has_a_file_of_its_own() -> None:
    assert files("ksh", interactive=True) == [("/etc/ksh.kshrc",), ("/h/.kshrc", "/h/.mkshrc")]
    assert files("ksh", interactive=True, ENV="/e") == [("/e",)]


def test_zsh_reads_up_to_four_files_below_zdotdir() -> None:
    assert files("zsh") == [("/etc/zsh/zshenv", "/etc/zshenv"), ("/h/.zshenv",)]
    own = [group[0] for group in files("zsh", True, True, ZDOTDIR="/z") if group[0].startswith("/z/")]
    assert own == ["/z/.zshenv", "/z/.zprofile", "/z/.zshrc", "/z/.zlogin"]


def test_fish_reads_the_same_files_always() -> None:
    assert files("fish") == files("fish", login=True, interactive=True)
    assert files("fish", XDG_CONFIG_HOME="/c", XDG_DATA_DIRS="/d") == [
        ("/c/fish/fish_variables",),
        ("/c/fish/conf.d/*.fish",),
        ("/etc/fish/conf.d/*.fish",),
        ("/d/fish/vendor_conf.d/*.fish",),
        ("/etc/fish/config.fish",),
        ("/c/fish/config.fish",),
    ]


def test_tcsh_prefers_its_own_file() -> None:
    assert files("tcsh") == [("/etc/csh.cshrc",), ("/h/.tcshrc", "/h/.cshrc")]
    assert files("tcsh", login=True)[-1] == ("/h/.login",)


# Assignments


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A=1", [(1, "A")]),
        ("\n  A=1 B=2\n", [(2, "A"), (2, "B")]),
        ("export A=1 B='x y' C", [(1, "A"), (1, "B"), (1, "C")]),
        ("A=1 command", []),
        ("A=1; export A", [(1, "A")]),
        ("PATH+=:/x", [(1, "PATH")]),
        ("A[3]=x", [(1, "A")]),
        ("declare -x A=1", [(1, "A")]),
        ("declare -x A", [(1, "A")]),
        ("declare A", []),
        ("typeset -gx A=1", [(1, "A")]),
        ("readonly A=1", [(1, "A")]),
        ("local A=1", []),
        ("declare -f A; export -f B; export -p", []),
        ("unset A B; unset -f C", [(1, "A"), (1, "B")]),
        ("# A=1\nB=2 # C=3", [(2, "B")]),
        ("[ -d x ] && A=1 || export B=2", [(1, "A"), (1, "B")]),
        ("if true; then\n\tA=1\nelse B=2; fi", [(2, "A"), (3, "B")]),
        ("f() { A=1; }", [(1, "A")]),
        ("case x in a) A=1;; esac", [(1, "A")]),
        ("A='1\nB=2'\nC=3", [(1, "A"), (3, "C")]),
        ('A="1\nB=2"\nC=3', [(1, "A"), (3, "C")]),
        ('A="$(echo "x\nB=2")"\nC=3', [(1, "A"), (3, "C")]),
        ("A=$(B=2)\nC=`D=3`", [(1, "A"), (2, "C")]),
        ("export \\\n A=1\nB=2", [(1, "A"), (3, "B")]),
        ("cat <<EOF\nA=1\nEOF\nB=2", [(4, "B")]),
        ("cat <<-'E'\n\tA=1\n\tE\nB=2", [(4, "B")]),
        ("((x<<2))\nA=1", [(2, "A")]),
        ("cat <<<x\nA=1", [(2, "A")]),
        ("echo A=1", []),
        ("echo >\nA=1", [(2, "A")]),
        ("A=1 2>/dev/null", [(1, "A")]),
        ("export A=1 >&2 B=2 </dev/null", [(1, "A"), (1, "B")]),
        ("export A=1 2>/dev/null", [(1, "A")]),
        ("path=(/x)", [(1, "path")]),
        ("A=$'it\\'s'\nB=2", [(1, "A"), (2, "B")]),
        ("A=$'a\\\\'\nB=2", [(1, "A"), (2, "B")]),
        ("A=$(echo $'it\\'s')\nB=2", [(1, "A"), (2, "B")]),
        ("A=$(\n# it's\necho x)\nB=2", [(1, "A"), (4, "B")]),
        ("A=$(echo x#it)\nB=2", [(1, "A"), (2, "B")]),
        ("A=${#x}\nB=2", [(1, "A"), (2, "B")]),
        ("A=$(cat <<E\nit's (here\nE\n)\nB=2", [(1, "A"), (5, "B")]),
        ("A=$(cat <<-'E' <<F\n\tit's\n\tE\nit's\nF\n)\nB=2", [(1, "A"), (7, "B")]),
        ("A=$(cat <<<x)\nB=$((1<<2))\nC=3", [(1, "A"), (2, "B"), (3, "C")]),
        ("A=1\nexport A", [(1, "A")]),
        ("export A\nA=1", [(1, "A"), (2, "A")]),
        ("PATH=/x:$PATH\nexport PATH B", [(1, "PATH"), (2, "B")]),
    ],
)
def test_a_posix_shell_changes_a_variable_here(text: str, found: list[tuple[int, str]]) -> None:
    assert assignments(text, "bash") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("path=(/x\n$path)\nA=1", [(1, "PATH"), (3, "A")]),
        ("path+=(/x)", [(1, "PATH")]),
        ("typeset -U path", []),
        ("typeset -gx A=1", [(1, "A")]),
    ],
)
def test_zsh_has_lists_that_are_variables(text: str, found: list[tuple[int, str]]) -> None:
    assert assignments(text, "zsh") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("set -gx A 1 2", [(1, "A")]),
        ("set --export --global A 1", [(1, "A")]),
        ("  set A", [(1, "A")]),
        ("set -q A; or set -gx B 'it\\'s'\nset -x C 1", [(1, "B"), (2, "C")]),
        ("set -e A B", [(1, "A"), (1, "B")]),
        ("set -n; set -S A", []),
        ("fish_add_path /x", [(1, "PATH")]),
        ("set -U fish_user_paths /x $fish_user_paths", [(1, "PATH")]),
        ("SETUVAR fish_user_paths:/x", [(1, "PATH")]),
        ("set PATH[1] /x", [(1, "PATH")]),
        ("if status is-login\n  set -x A (date)\nend", [(2, "A")]),
        ("export A=1", [(1, "A")]),
        ("SETUVAR --export A:1", [(1, "A")]),
        ("# set -x A 1", []),
    ],
)
def test_fish_changes_a_variable_here(text: str, found: list[tuple[int, str]]) -> None:
    assert assignments(text, "fish") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("setenv A 1", [(1, "A")]),
        ("if ( $?x ) then\n setenv A 1\nendif", [(2, "A")]),
        ("unsetenv A", [(1, "A")]),
        ("set path = (/x $path)", [(1, "PATH")]),
        ("set path=(/x $path)", [(1, "PATH")]),
        ("set prompt = x", []),
    ],
)
def test_csh_changes_a_variable_here(text: str, found: list[tuple[int, str]]) -> None:
    assert assignments(text, "tcsh") == found


# Sources


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (". ~/.bashrc", [(1, "~/.bashrc")]),
        ('\n[ -r x ] && . "$HOME/.env file" arg', [(2, "$HOME/.env file")]),
        ("source a; builtin source b", [(1, "a"), (1, "b")]),
        ("echo . x # . y", []),
        (".", []),
    ],
)
def test_a_file_reads_another_one_here(text: str, found: list[tuple[int, str]]) -> None:
    assert sources(text) == found


# Any text

pieces = [
    "A=1",
    "export ",
    "set -gx ",
    "setenv ",
    "path=(",
    "<<E",
    "<<<",
    "E",
    "$(",
    "${",
    "&&",
    "\udcff",
    "é",
]
fragments = st.lists(st.sampled_from([*pieces, *"\\'\"`(){}\n \t\r#;>=-|\0"])).map("".join)


@quick
@given(text=st.text() | fragments, shell=st.sampled_from(SHELLS))
def test_no_text_is_an_error_and_lines_are_in_order(text: str, shell: str) -> None:
    last = text.count("\n") + 1
    for found in (assignments(text, shell), sources(text, shell)):
        lines = [line for line, _ in found]
        assert lines == sorted(lines)
        assert all(1 <= line <= last for line in lines)


def test_a_long_text_takes_no_longer_than_its_length_asks_for() -> None:
    # Were it quadratic, this would run into the deadline of the test.
    found = {
        piece: len(assignments(piece * 30_000, "zsh"))
        for piece in ("<<a\n", "$(", "'\n", '"$("', "path=(", "a=\\\n", "a=1\n")
    }
    assert found.pop("a=1\n") == 30_000
    assert max(found.values()) <= 1
