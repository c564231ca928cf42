"""What a command text starts, as far as it can be seen."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.shell.chain import visible
from outfitter.shell.look import Looked, mentions_shell, starts_file
from outfitter.shell.texts import LONGEST, commands, quotable, quoted, simple_words
from outfitter.shell.wrappers import Account

ENV = {"SHELL": "/bin/bash", "SHLVL": "1", "PATH": "/usr/bin:/bin"}


def ann() -> Account:
    return Account("ann", 1000, "/bin/bash")


def codes(text: str) -> list[str]:
    return [flag.code for flag in visible(text, ENV, ann)]


@pytest.mark.parametrize(
    "text",
    [
        "exec bash -lc 'echo hi'",
        "bash --login",
        "cd x && bash -l script",
        "(cd x; bash -ilc y)",
        "echo $(bash -lc env)",
        "echo `sh -l`",
        'echo "$(sh -l)"',
        "A=1 B=2 bash -lc x",
        "if true; then bash -l; fi",
        "while bash -l; do :; done",
        "! bash -l",
        "{ bash -l; }",
        "x | bash -l",
        "x & bash -l",
        "env -i bash -lc x",
        "nice -n5 timeout 5 bash -lc x",
        "$SHELL -l",
        '"${SHELL}" -lc x',
        "exec -l bash",
        "exec -a -bash bash",
        "bash -c 'sh -c \"bash -lc x\"'",
        "eval 'bash -l'",
        "\\bash -l",
        "'bash' -l",
        "/usr/local/bin/zsh -l",
        "fish --login",
        "cat <(bash -l)",
        "cat <<E\nx\nE\nbash -l",
        "echo a\\\n; bash -l",
        "sudo -u ann -i",
        "su -l ann",
    ],
)
def test_a_login_shell_in_a_text_is_seen(text: str) -> None:
    assert "login-shell" in codes(text)


@pytest.mark.parametrize(
    "text",
    [
        "echo bash -l",
        "git commit -m 'use bash -l'",
        "cat <<EOF\nbash -l\nEOF",
        "cat <<-'EOF'\n\tbash -l\n\tEOF",
        "# bash -l",
        "bash -c 'echo -l'",
        "bash script.sh -l",
        "ls x.sh -l",
        "npm run bash:login -- -l",
        "echo $((1 + 2))",
        "cat < bash -l",
        "grep -rl bash src",
        "sh -c 'ls -l'",
        "nice bash -c true",
        "bash -c 'env' -l",
        "echo hush -l",
        "",
        "'",
        "$(",
        "<<",
        "`",
        "bash",
    ],
)
def test_what_starts_no_login_shell_has_no_flag(text: str) -> None:
    assert codes(text) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("zsh -c x", "startup-files"),
        ("fish -c x", "startup-files"),
        ("bash -ic x", "startup-files"),
        (". ~/.profile", "startup-files"),
        ("source /etc/profile && x", "startup-files"),
        ("sudo make install", "other-user"),
        ("su bob -c x", "other-user"),
        ("sudo -u ann true", "new-environment"),
        ("timeout --unheard-of 5 su", "unknown-option"),
    ],
)
def test_what_else_leaves_the_contract_is_flagged(text: str, code: str) -> None:
    assert codes(text) == [code]


def test_a_shell_that_is_told_to_read_nothing_has_no_flag() -> None:
    assert codes("zsh -f -c x; fish --no-config -c x; bash --norc -ic x; tcsh -f -c x") == []


def test_a_text_that_nobody_has_written_is_not_read() -> None:
    assert codes("bash -l;" + "x" * LONGEST) == ["unseen"]


def test_a_flag_says_no_more_than_the_words_it_is_about() -> None:
    [flag] = visible("bash -lc 'curl -H hush' hush", ENV, ann)
    assert flag.what == "the command text starts a login shell (`bash -lc`)"


FILES = {
    "./login": Looked("./login", "login", interpreter=("/bin/bash", "-l")),
    "/srv/split": Looked("/srv/split", "split", interpreter=("/usr/bin/env", "-S bash -l")),
    "./zsh-script": Looked("./zsh-script", "zsh-script", interpreter=("/usr/bin/env", "zsh")),
    "./innocent": Looked("./innocent", "innocent", shell="bash"),
    "./plain": Looked("./plain", "plain", interpreter=("/bin/sh",)),
    "./outer": Looked("./outer", "outer", interpreter=("./login",)),
    "./loop": Looked("./loop", "loop", interpreter=("./loop",)),
}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("./login", "login-shell"),
        ("make && ./login now", "login-shell"),
        ("cd x\n./login", "login-shell"),
        ("A=1 ./login", "login-shell"),
        ("nice -n 5 ./login", "login-shell"),
        ("if ./login; then :; fi", "login-shell"),
        ("echo $(./login)", "login-shell"),
        ("exec /srv/split", "login-shell"),
        ("./outer", "login-shell"),
        ("./innocent -lc x", "login-shell"),
        ("./zsh-script", "startup-files"),
        ("./plain; ./absent; cat ./login; ./loop", ""),
    ],
)
def test_a_script_that_a_text_starts_is_known_by_its_first_line(text: str, code: str) -> None:
    assert [flag.code for flag in visible(text, ENV, ann, FILES.get)] == ([code] if code else [])


def test_paths_that_are_no_commands_need_no_reading() -> None:
    for text in ("ls /tmp", "sed -n 1,5p src/a.py | grep x", "git add -A -- a/b", "true", "cc --x=./a"):
        assert not starts_file(text), text


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="bash -lc'\"\\$(){}<>;&|#\n`=xEOF", max_size=60))
def test_any_text_can_be_looked_at(text: str) -> None:
    list(commands(text))
    visible(text, ENV, ann)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(alphabet="ab -l=$", min_size=1, max_size=6), min_size=1, max_size=5))
def test_the_words_of_a_quoted_command_are_its_words(words: list[str]) -> None:
    assert list(commands(shlex.join(["x", *words]))) == [["x", *words]]


def test_the_quick_look_lets_nothing_pass_that_has_a_flag() -> None:
    for text in ("bash -l", "exec -l x", "a;zsh", "x/fish", "$SHELL -l", ". ~/.bashrc", "sudo x", "(su)"):
        assert mentions_shell(text), text
    for text in ("git push", "bash x.sh", "ls *.sh -l", "npm publish", "result=1", "subtle", "a bash"):
        assert not mentions_shell(text), text


@pytest.mark.parametrize(
    "text", ["bash -lc 'a b'", "x", 'nice "a b" c', "a  b\tc", "a'b c'd", 'x ""', "a+b:c,d/e@f"]
)
def test_the_words_of_a_plain_command_are_what_a_shell_makes_of_them(text: str) -> None:
    words = simple_words(text)
    assert words is not None
    script = f'printf "%s\\0" {text}'
    printed = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
    assert printed.decode().split("\0")[:-1] == words
    assert quotable(words)
    assert simple_words(quoted(words)) == words


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a; b",
        "a $B",
        "a `b`",
        'a "$B"',
        "a *",
        "~/x",
        "A=1 b",
        "a > b",
        "a\nb",
        "'a",
        "a \\ b",
        "a # b",
    ],
)
def test_any_other_text_is_no_plain_command(text: str) -> None:
    assert simple_words(text) is None
