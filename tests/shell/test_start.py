"""What is executed when a command is a shell, word by word; no shell is started here."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import LoginRejected, Refused
from outfitter.shell.bash import BASH
from outfitter.shell.call import Family
from outfitter.shell.csh import TCSH
from outfitter.shell.fish import FISH
from outfitter.shell.names import is_shell
from outfitter.shell.posix import SH
from outfitter.shell.start import Probe, Seen, ShellPlan, maintained, prepare, seen, unmarked, whole
from outfitter.shell.zsh import ZSH

SHELLS = ("bash", "sh", "dash", "ksh", "zsh", "fish", "tcsh", "csh")
quick = settings(deadline=None, max_examples=150)


def plan(
    *argv: str,
    login: str = "strip",
    startup: str = "enforce",
    program: str = "",
    probe: Any = None,  # a Probe
    **env: str,
) -> ShellPlan:
    made = prepare(
        program or argv[0],
        argv,
        login=login,
        startup=startup,
        env={"SHLVL": "1", **env},
        cwd="/w",
        probe=probe,
    )
    assert made is not None
    return made


def words(*argv: str, login: str = "strip", **env: str) -> list[str]:
    return plan(*argv, login=login, **env).argv


# Recognition


@pytest.mark.parametrize(
    "program", [*SHELLS, "/bin/bash", "/usr/local/bin/zsh", "./sh", "rbash", "ksh93", "mksh"]
)
def test_a_shell_is_known_by_its_base_name(program: str) -> None:
    assert is_shell(program)
    assert prepare(program, [program], login="strip", startup="enforce", env={}, cwd="/") is not None


@pytest.mark.parametrize("program", ["", "/", "bash/", "python", "bashful", "/bin/bash.sh", "BASH", "env"])
def test_other_programs_are_no_shells(program: str) -> None:
    assert not is_shell(program)
    assert prepare(program, [program], login="reject", startup="enforce", env={}, cwd="/") is None


# bash


@pytest.mark.parametrize(
    ("asked", "executed"),
    [
        ("bash -c T", "bash --noprofile --norc -c T"),
        ("/bin/bash -lc T", "/bin/bash --noprofile --norc -c T"),
        ("bash -l -c T", "bash --noprofile --norc -c T"),
        ("bash -euxlc T zero -l --login", "bash --noprofile --norc -euxc T zero -l --login"),
        ("bash --login -c T", "bash --noprofile --norc -c T"),
        ("bash -login -c T", "bash --noprofile --norc -c T"),
        ("bash +lc T", "bash --noprofile --norc +c T"),
        ("bash --norc -c T", "bash --noprofile --norc -c T"),
        ("bash --norc --noprofile -c T", "bash --norc --noprofile -c T"),
        ("bash --rcfile F --login -ic T", "bash --noprofile --norc --rcfile F -ic T"),
        ("bash --init-file -l -c T", "bash --noprofile --norc --init-file -l -c T"),
        ("bash -o posix -lc T", "bash --noprofile --norc -o posix -c T"),
        ("bash -lo posix -c T", "bash --noprofile --norc -o posix -c T"),
        ("bash -oO errexit extglob -lc T", "bash --noprofile --norc -oO errexit extglob -c T"),
        ("bash -O -l -c T", "bash --noprofile --norc -O -l -c T"),
        ("bash +o -l -c T", "bash --noprofile --norc +o -l -c T"),
        ("bash -c -l T", "bash --noprofile --norc -c T"),
        ("bash -c -- -l", "bash --noprofile --norc -c -- -l"),
        ("bash -c - -l", "bash --noprofile --norc -c - -l"),
        ("bash", "bash --noprofile --norc"),
        ("bash -i", "bash --noprofile --norc -i"),
        ("bash -l", "bash --noprofile --norc"),
        ("bash -ls a b", "bash --noprofile --norc -s a b"),
        ("bash script -l", "bash script -l"),
        ("bash -x -- -l", "bash -x -- -l"),
        ("bash -l script --login", "bash script --login"),
        ("bash -i script", "bash --noprofile --norc -i script"),
        ("bash --unheard-of -lc T", "bash --noprofile --norc --unheard-of -c T"),
        ("bash -c", "bash --noprofile --norc -c"),
        ("-bash -c T", "bash --noprofile --norc -c T"),
        ("-bash", "bash --noprofile --norc"),
        ("-", "bash --noprofile --norc"),
    ],
)
def test_bash_reads_no_file_and_is_no_login_shell(asked: str, executed: str) -> None:
    made = plan(*asked.split(), program="/bin/bash")
    assert made.argv == executed.split()
    assert not made.login
    assert made.changed == (asked != executed)


@pytest.mark.parametrize(
    ("asked", "executed"),
    [
        ("bash -lc T", "bash --noprofile --norc -lc T"),
        ("bash --login script", "bash --noprofile --norc --login script"),
        ("-bash", "-bash --noprofile --norc"),
    ],
)
def test_bash_can_be_a_login_shell_without_its_files(asked: str, executed: str) -> None:
    made = plan(*asked.split(), program="bash", login="allow")
    assert made.argv == executed.split()
    assert made.login
    assert made.notes == ("bash reads ~/.bash_logout if the command ends with `exit`",)


def test_what_would_make_bash_run_code_is_withheld_where_it_matters() -> None:
    env = {"BASH_ENV": "f", "ENV": "f", "PROMPT_COMMAND": "f", "PS1": "$(f)", "PS4": "`f`", "SHELLOPTS": "x"}
    assert plan("bash", "-c", "T", **env).withheld == ("BASH_ENV",)
    assert plan("bash", "script", **env).withheld == ("BASH_ENV",)
    assert plan("bash", **env).withheld == ("BASH_ENV", "PROMPT_COMMAND", "PS1")
    assert plan("bash", "-ic", "T", **env).withheld == ("BASH_ENV",)
    assert plan("bash", "--posix", "-ic", "T", **env).withheld == ("BASH_ENV", "ENV")
    assert plan("bash", "-ic", "T", **env, POSIXLY_CORRECT="").withheld == ("BASH_ENV", "ENV")
    assert plan("sh", "-ic", "T", program="bash", **env).withheld == ("BASH_ENV", "ENV")
    assert plan("bash", "-o", "posix", "-ic", "T", **env).withheld == ("BASH_ENV", "ENV")
    assert plan("bash", "--posix", "+o", "posix", "-ic", "T", **env).withheld == ("BASH_ENV",)
    assert plan("bash", "-o", "errexit", "-ic", "T", **env).withheld == ("BASH_ENV",)
    assert plan("bash", "-xc", "T", **env).withheld == ("BASH_ENV", "PS4")
    assert plan("bash", "-o", "xtrace", "-c", "T", **env).withheld == ("BASH_ENV", "PS4")
    traced = {**env, "SHELLOPTS": "braceexpand:xtrace"}
    assert plan("bash", "-c", "T", **traced).withheld == ("BASH_ENV", "PS4")


def test_a_prompt_that_runs_nothing_stays() -> None:
    assert plan("bash", "-x", PS1="\\u@\\h $x ${y}", PS4="+ ${LINENO}: ").withheld == ()


def test_the_environment_is_the_given_one_less_what_is_withheld() -> None:
    env = {"A": "1", "BASH_ENV": "f"}
    assert plan("bash", "-c", "T", **env).environment(env) == {"A": "1"}


def test_a_startup_file_named_by_a_flag_is_not_read() -> None:
    assert plan("bash", "--rcfile", "F", "-ic", "T").notes == ("F is not read, although a flag names it",)


# sh, dash, ksh


@pytest.mark.parametrize("shell", ["sh", "dash", "ksh"])
def test_posix_shells_are_never_login_shells_without_their_files(shell: str) -> None:
    note = f"{shell} is not started as a login shell: it would read /etc/profile and ~/.profile"
    for asked, executed in (
        (["-lc", "T", "-l"], ["-c", "T", "-l"]),
        (["-l", "-c", "T"], ["-c", "T"]),
        (["--login", "-c", "T"], ["-c", "T"]),
        (["-elo", "nounset", "-c", "T"], ["-eo", "nounset", "-c", "T"]),
    ):
        assert words(shell, *asked) == [shell, *executed]
        made = plan(shell, *asked, login="allow")
        assert (made.argv, made.login_asked, made.login, made.notes) == (
            [shell, *executed],
            True,
            False,
            (note,),
        )


def test_ksh_has_more_ways_to_ask_for_a_login_shell() -> None:
    assert words("ksh", "-o", "login_shell", "-c", "T") == ["ksh", "-c", "T"]
    assert words("ksh", "-ologin_shell", "-c", "T") == ["ksh", "-c", "T"]
    assert words("ksh", "-oerrexit", "-lc", "T") == ["ksh", "-oerrexit", "-c", "T"]


def test_env_is_withheld_from_a_dash_that_may_be_interactive() -> None:
    assert plan("dash", "-c", "T", ENV="f").withheld == ()
    assert plan("dash", "script", ENV="f").withheld == ()
    assert plan("dash", "-ic", "T", ENV="f").withheld == ("ENV",)
    assert plan("dash", ENV="f").withheld == ("ENV",)
    assert plan("dash", "-s", "a", ENV="f", PS1="`f`").withheld == ("ENV", "PS1")


@pytest.mark.parametrize("shell", ["sh", "ksh"])
def test_ksh_needs_an_env_not_to_read_its_default_and_sh_may_be_one(shell: str) -> None:
    assert plan(shell, "-c", "T", ENV="f").added == ()
    for flags in (["-ic", "T"], ["-s"], []):
        assert plan(shell, *flags, ENV="f").added == (("ENV", "/dev/null"),)


def test_a_ksh_can_be_told_to_read_it_although_it_is_not_interactive() -> None:
    for flags in (["-E", "-c", "T"], ["-o", "rc", "-c", "T"], ["--rc", "-c", "T"]):
        assert plan("ksh", *flags).added == (("ENV", "/dev/null"),)


# zsh


@pytest.mark.parametrize(
    ("asked", "executed"),
    [
        ("zsh -c T", "zsh -f -c T"),
        ("zsh -lc T -l", "zsh -f -c T -l"),
        ("zsh -ilc T", "zsh -f -ic T"),
        ("zsh --login -c T", "zsh -f -c T"),
        ("zsh -o login -c T", "zsh -f -c T"),
        ("zsh -oLOG_in -c T", "zsh -f -c T"),
        ("zsh +o no_login -c T", "zsh -f -c T"),
        ("zsh -fc T", "zsh -fc T"),
        ("zsh --no-rcs -c T", "zsh --no-rcs -c T"),
        ("zsh -f +f -c T", "zsh -f -c T"),
        ("zsh -f --rcs -o rcs +o NoRcs -c T", "zsh -f -c T"),
        ("zsh -eo shwordsplit -lc T", "zsh -f -eo shwordsplit -c T"),
        ("zsh -b -l", "zsh -f -b -l"),
        ("zsh script -l", "zsh -f script -l"),
        ("zsh", "zsh -f"),
        ("-zsh", "zsh -f"),
        ("zsh --emulate zsh -lc T", "zsh --emulate zsh -f -c T"),
        ("zsh --emulate sh -lc T", "zsh --emulate sh -c T"),
        ("sh -lc T", "sh -c T"),
    ],
)
def test_zsh_reads_no_file_of_the_user(asked: str, executed: str) -> None:
    made = plan(*asked.split(), program="zsh")
    assert made.argv == executed.split()
    assert not made.login
    assert ("zsh always reads /etc/zsh/zshenv" in made.notes) == ("-f" in executed or "rcs" in executed)


def test_zsh_can_be_a_login_shell_without_its_files() -> None:
    assert words("zsh", "-lc", "T", login="allow") == ["zsh", "-f", "-lc", "T"]
    assert plan("zsh", "-lc", "T", login="allow", ZDOTDIR="/z").withheld == ()


def test_zsh_as_sh_reads_env() -> None:
    assert plan("zsh", "--emulate", "ksh", "-ic", "T", ENV="f").withheld == ("ENV",)
    assert plan("zsh", "-ic", "T", ENV="f").withheld == ()


# fish


@pytest.mark.parametrize(
    ("asked", "executed"),
    [
        ("fish -c T", "fish --no-config -c T"),
        # fish goes on looking for options after the text.
        ("fish -lc T -l x -l", "fish --no-config -c T x -l"),
        ("fish -cl", "fish --no-config -cl"),
        ("fish --login --command=T", "fish --no-config --command=T"),
        ("fish --log --command T", "fish --no-config --command T"),
        ("fish --command -l", "fish --no-config --command -l"),
        ("fish -C -l -ic T", "fish --no-config -C -l -ic T"),
        ("fish --init-command=-l -ilc T", "fish --no-config --init-command=-l -ic T"),
        ("fish -Nc T", "fish -Nc T"),
        ("fish --no-config -c T", "fish --no-config -c T"),
        ("fish script -l", "fish --no-config script -l"),
        ("fish -- -l", "fish --no-config -- -l"),
        ("fish", "fish --no-config"),
        ("-fish", "fish --no-config"),
    ],
)
def test_fish_reads_no_file(asked: str, executed: str) -> None:
    assert plan(*asked.split(), program="fish").argv == executed.split()


def test_fish_can_be_a_login_shell_without_its_files() -> None:
    made = plan("fish", "-lc", "T", login="allow")
    assert (made.argv, made.login) == (["fish", "--no-config", "-lc", "T"], True)


@pytest.mark.parametrize(
    "asked", ["fish -c T", "fish -l -c T x", "fish -ic T", "fish --command T", "fish -cT", "fish --command=T"]
)
def test_fish_s_text_is_where_its_flag_says(asked: str) -> None:
    call = FISH.read(asked.split(), {})
    assert call.argv[call.text].endswith("T")
    assert call.operand < 0


def test_fish_without_the_text_that_its_flag_wants_has_none_of_another_word() -> None:
    call = FISH.read(["fish", "-i", "-c"], {})
    assert call.argv[call.text] == "-c"


# tcsh


@pytest.mark.parametrize(
    ("asked", "executed"),
    [
        ("tcsh -c T", "tcsh -f -c T"),
        ("tcsh -fc T", "tcsh -fc T"),
        ("tcsh -ec T", "tcsh -f -ec T"),
        ("tcsh -l", "tcsh -f"),
        ("tcsh -lc T", "tcsh -f -c T"),
        ("tcsh -c -l", "tcsh -f -c -l"),
        ("tcsh script -l", "tcsh -f script -l"),
        ("tcsh -b -l", "tcsh -f -b -l"),
        ("-tcsh -c T", "tcsh -f -c T"),
        ("tcsh", "tcsh -f"),
    ],
)
def test_tcsh_reads_no_file(asked: str, executed: str) -> None:
    assert plan(*asked.split(), program="tcsh").argv == executed.split()


@pytest.mark.parametrize(
    ("asked", "script"), [("tcsh script a", 1), ("tcsh -e script", 2), ("tcsh -c T", -1)]
)
def test_tcsh_runs_a_script_where_there_is_no_text(asked: str, script: int) -> None:
    call = TCSH.read(asked.split(), {})
    assert (call.operand, call.may_prompt) == (script, False)
    assert TCSH.read(["tcsh"], {}).may_prompt


def test_tcsh_is_a_login_shell_without_files_only_by_its_name() -> None:
    named = plan("-tcsh", "-c", "T", program="tcsh", login="allow")
    assert (named.argv, named.login) == (["-tcsh", "-f", "-c", "T"], True)
    flagged = plan("tcsh", "-l", login="allow")
    assert (flagged.argv, flagged.login) == (["tcsh", "-f"], False)
    assert flagged.notes == ("tcsh is not started as a login shell: -l cannot be combined with other flags",)


@pytest.mark.parametrize("startup", ["repair", "report"])
def test_tcsh_can_only_be_kept_from_its_files(startup: str) -> None:
    made = plan("tcsh", "-c", "T", startup=startup)
    assert (made.startup, made.argv) == ("enforce", ["tcsh", "-f", "-c", "T"])
    assert made.notes[0].endswith(f"its startup files are kept out instead ({startup} is not possible)")


# Login shells that are not allowed


@pytest.mark.parametrize(
    ("asked", "flag"),
    [
        ("bash -lc T", "-lc"),
        ("bash --login", "--login"),
        ("sh -l", "-l"),
        ("ksh --login -c T", "--login"),
        ("zsh -o login", "-o"),
        ("fish -il", "-il"),
        ("tcsh -l", "-l"),
        ("-zsh -c T", "-zsh"),
    ],
)
@pytest.mark.parametrize("startup", ["enforce", "repair", "report"])
def test_a_login_shell_is_rejected_with_the_word_that_asks_for_it(
    asked: str, flag: str, startup: str
) -> None:
    argv = asked.split()
    with pytest.raises(LoginRejected) as caught:
        plan(*argv, program=argv[0].lstrip("-"), login="reject", startup=startup)
    assert isinstance(caught.value, Refused)
    assert caught.value.slug == "login-rejected"
    assert f"`{flag}`" in str(caught.value)
    assert 'login = "strip"' in str(caught.value)


@pytest.mark.parametrize(
    "asked", ["bash -c -- -l", "zsh +l -c T", "fish -c -l", "tcsh -c -l", "bash script -l"]
)
def test_a_word_that_only_looks_like_the_flag_is_not_rejected(asked: str) -> None:
    assert not plan(*asked.split(), login="reject").login_asked


# Startup files that run


PROBE = Probe("/run/a 'probe'", "0123abcd")


@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "ksh", "zsh"])
@pytest.mark.parametrize("startup", ["repair", "report"])
def test_the_command_text_stands_on_lines_of_its_own(shell: str, startup: str) -> None:
    text = "cat <<E\n$0\nE\n# the end"
    made = plan(
        shell, "-lc", text, "zero", "a b", login="allow", startup=startup, probe=PROBE, SECRET="s3cret"
    )
    assert made.argv[:2] == [shell, "-lc"]
    assert made.argv[3:] == ["zero", "a b"]
    prefix, newline, rest = made.argv[2].partition("\n")
    assert (newline, rest) == ("\n", text)
    assert "s3cret" not in prefix
    assert (made.startup, made.login, made.probe, made.withheld) == (startup, True, True, ())


def test_fish_has_an_option_for_what_comes_before_the_command() -> None:
    made = plan("fish", "-C", "I", "-lc", "T", "a", startup="repair")
    assert (made.argv[:2], made.argv[3:]) == (["fish", "-C"], ["-C", "I", "-c", "T", "a"])
    assert made.notes == (
        "fish's exported universal variables stay: unsetting one would erase it permanently",
    )


@pytest.mark.parametrize("startup", ["repair", "report"])
@pytest.mark.parametrize("flags", [[], ["-i"], ["script", "a"], ["-s"]])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_without_a_command_text_the_files_are_kept_out(shell: str, flags: list[str], startup: str) -> None:
    if (shell, flags) == ("fish", ["-s"]):
        flags = ["-P"]
    made = plan(shell, *flags, startup=startup, probe=PROBE, BASH_ENV="f")
    quiet = plan(shell, *flags, BASH_ENV="f")
    assert made.startup == "enforce"
    assert (made.argv, made.withheld, made.probe) == (quiet.argv, quiet.withheld, False)
    assert len(made.notes) == len(quiet.notes) + 1


@pytest.mark.parametrize("asked", ["bash -c T", "bash -lc T", "sh -c T", "dash -lc T", "ksh -c T"])
def test_a_shell_that_reads_nothing_is_not_wrapped(asked: str) -> None:
    argv = asked.split()
    made = plan(*argv, startup="repair", probe=PROBE)
    assert made.argv == [argv[0], "-c", "T"]
    assert (made.startup, made.added, made.probe) == ("repair", (), False)


@pytest.mark.parametrize("env", [{"BASH_ENV": "f"}, {"SHLVL": "0"}, {"SHLVL": "x"}])
def test_a_plain_bash_may_read_something_after_all(env: dict[str, str]) -> None:
    assert plan("bash", "-c", "T", startup="repair", **env).added


def test_without_a_probe_a_report_changes_nothing() -> None:
    made = plan("zsh", "-c", "T", startup="report")
    assert (made.argv, made.added, made.changed) == (["zsh", "-c", "T"], (), False)


def test_login_is_stripped_before_files_are_read() -> None:
    assert plan("zsh", "-lc", "T", startup="report").argv == ["zsh", "-c", "T"]
    assert plan("-zsh", "-c", "T", program="zsh", startup="report").argv == ["zsh", "-c", "T"]


def test_no_part_of_the_carried_text_is_too_large_for_one_variable() -> None:
    for value in ("x" * 100_000, "'" * 100_000, "€" * 40_000, "\udcff" * 60_000):
        made = plan("zsh", "-c", "T", startup="repair", A=value, B=value, probe=PROBE)
        sizes = [len(f"{name}={text}".encode("utf-8", "surrogateescape")) for name, text in made.added]
        assert max(sizes) < 131_071
        assert all(f"${{{name}-}}" in made.argv[2] for name, _ in made.added)
        # Nothing is lost where it is cut.
        assert f"B={restored_quotes(value)}" in "".join(text for _, text in made.added)


def test_thousands_of_names_are_not_too_large_for_one_variable_either() -> None:
    env = {f"A_RATHER_LONG_NAME_{number}": "s3cret" for number in range(6000)}
    for few in (100, 6000):
        given = dict(list(env.items())[:few])
        made = plan("bash", "-lc", "T", login="allow", startup="repair", probe=PROBE, **given)
        assert max(len(f"{name}={text}") for name, text in made.added) < 131_071
        rare = dict(made.added).get("__OUTFITTER_RARE")
        assert (rare is None) == (few == 6000)
        # Names only.
        assert "s3cret" not in (rare or "")


def test_what_is_remembered_of_one_environment_is_not_taken_for_another() -> None:
    def text(cwd: str, **env: str) -> str:
        made = prepare(
            "/bin/bash", ["bash", "-lc", "T"], login="allow", startup="repair", env=env, cwd=cwd, probe=None
        )
        assert made is not None
        return "".join(value for _, value in made.added)

    texts = [
        text("/a", A="1"),
        text("/b", A="1"),
        text("/a", A="2"),
        text("/a", B="1"),
        text("/a", A="1", B="1"),
    ]
    assert len(set(texts)) == 5
    assert text("/a", A="1") == texts[0]
    for number in range(20):
        assert f"A='{number}'" in text("/a", A=str(number))


@pytest.mark.parametrize("startup", ["enforce", "repair", "report"])
@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "ksh", "zsh", "fish", "tcsh"])
def test_a_plan_that_is_remembered_is_the_one_that_is_made(shell: str, startup: str) -> None:
    for login in ("allow", "strip"):
        for text in ("true", "a b", "exit 3", "'\n", "\\", "\0", "T\0T"):
            for argv0 in (shell, "-" + shell, "a\0b"):
                one, more = (
                    plan(argv0, "-lc", text, *parameters, login=login, startup=startup, program=shell, A="1")
                    for parameters in ((), ("zero",))
                )
                # With a parameter it is not the usual form: it is never remembered.
                assert one.argv == [word for word in more.argv if word != "zero"]
                assert (one.added, one.withheld, one.notes) == (more.added, more.withheld, more.notes)


def restored_quotes(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def test_a_plan_shows_no_value_of_a_variable() -> None:
    made = plan("zsh", "-c", "T", startup="repair", TOKEN="s3cret")
    assert "s3cret" in dict(made.added)["__OUTFITTER_RESTORE"]
    assert "s3cret" not in repr(made)
    assert "__OUTFITTER_RESTORE" in repr(made)


@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "ksh", "zsh", "fish"])
def test_names_of_the_shell_and_names_it_cannot_have_are_not_restored(shell: str) -> None:
    env = {"A": "1", "PWD": "/x", "SHLVL": "7", "B.C": "2", "BASH_FUNC_f%%": "() { :; }", "é": "3"}
    made = plan(shell, "-l", "-c", "T", login="allow", startup="repair", **env)
    text = "".join(value for _, value in made.added)
    assert "A" in text
    assert "B.C" not in text
    assert "é" not in text
    assert "/x" not in text
    assert {"PWD", "SHLVL", "_"} <= maintained(shell)


# What the probe delivers


def test_a_complete_report_is_read() -> None:
    report = b"A=1\0B=x\ny=\xff\0__OUTFITTER_X=1\0__OUTFITTER_READONLY=B GONE \0__OUTFITTER_END=m\0"
    assert seen(report, "m") == Seen({"A": "1", "B": "x\ny=\udcff"}, ("B",))


@pytest.mark.parametrize(
    "report",
    [b"", b"\0", b"A=1\0", b"A=1\0__OUTFITTER_END=m", b"__OUTFITTER_END=n\0", b"__OUTFITTER_END=m\0A=1\0"],
)
def test_an_incomplete_report_is_none(report: bytes) -> None:
    assert seen(report, "m") is None


@pytest.mark.parametrize("after", [b"", b"x", b"\0__OUTFITTER_END=m\0", b"\0" * 100])
def test_a_report_is_whole_when_its_end_has_come_whatever_follows(after: bytes) -> None:
    report = b"A=1\0__OUTFITTER_END=m\0"
    assert whole(bytearray(report + after), "m") == report
    assert whole(bytearray(report[:-1]), "m") is None
    assert whole(bytearray(report + after), "n") is None


# Any words


texts = st.text(max_size=8)
bundles = [
    "-l",
    "-i",
    "-x",
    "-e",
    "-eux",
    "-il",
    "-o",
    "-O",
    "+o",
    "+e",
    "-f",
    "-C",
    "-s",
    "-b",
    "-N",
    "-",
    "+",
]
longs = ["--login", "--norc", "--rcfile", "--emulate", "--posix", "--rcs", "--x=y", "--"]
options = st.sampled_from([*bundles, *longs, "posix", "sh", "", "é"])


@quick
@given(
    shell=st.sampled_from(SHELLS),
    name=st.sampled_from(["", "-", "-sh", "bash"]),
    rest=st.lists(options | texts, max_size=6),
    login=st.sampled_from(["allow", "strip"]),
    startup=st.sampled_from(["enforce", "repair", "report"]),
    env=st.dictionaries(st.sampled_from(["A", "SHLVL", "ENV", "BASH_ENV", "PS1", "SHELLOPTS"]), texts),
)
def test_no_words_are_an_error(
    shell: str, name: str, rest: list[str], login: str, startup: str, env: dict[str, str]
) -> None:
    argv = [name or shell, *rest]
    made = prepare(shell, argv, login=login, startup=startup, env=env, cwd="/w", probe=PROBE)
    assert made is not None
    assert made.changed == (made.argv != argv)
    assert made.login <= made.login_asked
    if login == "strip":
        assert not made.login
        # Nothing is left that asks for it.
        again = prepare(shell, made.argv, login="reject", startup="enforce", env=env, cwd="/w")
        assert again is not None


@quick
@given(
    shell=st.sampled_from([shell for shell in SHELLS if shell != "fish"]),
    flags=st.lists(st.sampled_from(["-l", "-e", "-x", "-i", "-el", "-lx"]), max_size=4),
    bundle=st.sampled_from(["-c", "-lc", "-ec", "-exlc", "-ilc"]),
    text=texts,
    rest=st.lists(options | texts, max_size=4),
    login=st.sampled_from(["allow", "strip"]),
)
def test_text_and_parameters_are_what_was_asked_for(
    shell: str, flags: list[str], bundle: str, text: str, rest: list[str], login: str
) -> None:
    # A text that begins with a sign is one more flag, for all but csh.
    text = "t" + text
    argv = [shell, *flags, bundle, text, *rest]
    made = plan(*argv, login=login)
    if "csh" not in shell:
        assert made.argv[-1 - len(rest) :] == [text, *rest]
    for startup in ("repair", "report"):
        wrapped = plan(*argv, login=login, startup=startup, probe=PROBE)
        if "csh" not in shell:
            assert wrapped.argv[len(wrapped.argv) - len(rest) :] == rest
            assert wrapped.argv[-1 - len(rest)].endswith(text)


@pytest.mark.parametrize("family", [BASH, FISH, SH, ZSH], ids=lambda family: str(family.name))
def test_a_repair_goes_back_to_the_directory_that_was_asked_for(family: Family) -> None:
    [line] = [line for line in family.restore({}, "/a b")[0].split("\n") if "/a b" in line]
    assert line.endswith("-- '/a b'")
    assert line not in family.restore({}, "")[0]


def test_a_report_has_nothing_of_ours() -> None:
    assert " -u N -u __OUTFITTER_O -u __OUTFITTER_B " in BASH.probe("/fifo", "mark", ["N"])


def test_reports_that_differ_by_their_mark_alone_are_the_same_without_it() -> None:
    forms = ('declare -x OUTFITTER_MARK="{}"\ndeclare -x A="1"\n', "A=1\0OUTFITTER_MARK={}\0B=2\0")
    for form in forms:
        one, other = (unmarked(form.format(2**62 + number).encode()) for number in (1, 2))
        assert one == other
        assert b"A=" in one
    assert unmarked(b"A=1\0B=2\0") == b"A=1\0B=2\0"
