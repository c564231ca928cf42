"""Files of export lines, read without a shell: what is taken is what bash exports, all else is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outfitter.env.layer import Operation
from outfitter.errors import OverlayRefused
from outfitter.formats.dotenv import LineMistake
from outfitter.formats.envfile import MOST_MADE, parse
from tests.support.tools import program

BASE = {"HOME": "/home/me", "PATH": "/usr/bin:/bin", "WORD": "w o'r\"d$", "EMPTY": ""}


def bash(text: str, folder: Path, base: dict[str, str] = BASE) -> dict[str, str]:
    """What bash exports after a file, as the importer understands it: lines without `export` count too."""
    file = folder / "file"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    script = 'set -a; . "$1" >/dev/null; exec /usr/bin/env -0'
    done = subprocess.run(
        [program("bash"), "--noprofile", "--norc", "-c", script, "bash", str(file)],
        env={**base, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (text, done.stderr)
    pairs = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return dict(pair.split("=", 1) for pair in pairs)


def refused(text: str) -> list[tuple[int, str]]:
    return [(mistake.line, mistake.what) for mistake in parse(text, BASE).mistakes]


# O11


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("export A=b", {"A": "b"}),
        ('declare -x A="b c"', {"A": "b c"}),
        ("A=b\nB=c\n", {"A": "b", "B": "c"}),
        ("A='b $HOME' B=\"$HOME/b\"", {"A": "b $HOME", "B": "/home/me/b"}),
        ('A="\\$HOME \\" \\\\ \\` \\n"', {"A": '$HOME " \\ ` \\n'}),
        ("A=\\$HOME\\ x", {"A": "$HOME x"}),
        ("A=$'a\\tb\\'c\\x41\\101\\u00e9\\n'", {"A": "a\tb'cAA\u00e9\n"}),
        ("A=$'\\303\\251'", {"A": "\u00e9"}),
        ("A=a B=$A", {"A": "a", "B": "a"}),
        ("A=a\nexport A=b B=$A", {"A": "b", "B": "a"}),
        ("A='two\nlines'\nB=c", {"A": "two\nlines", "B": "c"}),
        ("A=b # a comment\n  # another\n\n", {"A": "b"}),
        ("A=#b\nB=b#c", {"A": "#b", "B": "b#c"}),
        ("A=${HOME}x B=$EMPTY C=", {"A": "/home/mex", "B": "", "C": ""}),
        ('A=$ B=a$/b C="$"', {"A": "$", "B": "a$/b", "C": "$"}),
        ("A=* B=a=b C=a:b", {"A": "*", "B": "a=b", "C": "a:b"}),
        ("export A\nexport", {}),
    ],
)
def test_lines_mean_what_bash_makes_of_them(text: str, expected: dict[str, str], tmp_path: Path) -> None:
    read = parse(text, BASE)
    assert (read.values, read.mistakes) == (expected, [])
    exported = bash(text, tmp_path)
    assert {name: exported[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("A=$(date)", "`$(` runs a command"),
        ("A=`date`", "a backtick runs a command"),
        ('A="`date`"', "a backtick runs a command"),
        ("A=b; B=c", "`;` starts another command"),
        ("A=b && B=c", "`&` starts another command"),
        ("A=b | cat", "`|` is a pipe"),
        ("A=b > file", "`>` is a redirection"),
        ("A=b < file", "`<` is a redirection"),
        ("A=(1 2)", "`(` starts a function, a subshell or an array"),
        ("f() { A=b; }", "`(` starts a function, a subshell or an array"),
        ("A=$((1+1))", "`$(` runs a command"),
        ("A=$[1+1]", "after `$`, only $NAME and ${NAME} are supported"),
        ("A=${B:-c}", "`${...}` is only supported as ${NAME}"),
        ("A=$1", "after `$`, only $NAME and ${NAME} are supported"),
        ("A=$RANDOM", "$RANDOM is a variable of bash itself"),
        ("A=$PWD", "$PWD is a variable of bash itself"),
        ("UID=5", "UID is a variable of bash itself"),
        ("A=$NOTHING", "$NOTHING has no value here"),
        ("echo A=b", "it is a command, and commands are not run"),
        ("A=b echo", "it is a command, and commands are not run"),
        ("A = b", "it is a command, and commands are not run"),
        ("A+=b", "the text before the `=` is not a name (letters, digits and `_`)"),
        ("A[1]=b", "the text before the `=` is not a name (letters, digits and `_`)"),
        ("export -n A", "only names and NAME=value may follow `export`"),
        ("declare -i A=1", "`declare` is only supported as `declare -x NAME=value`"),
        ("unset -f A", "only names of variables may follow `unset`"),
        ("A=~/x", "only a shell expands `~`: write $HOME"),
        ("A=/x:~/y", "only a shell expands `~`: write $HOME"),
        ("export A={b,c}", "`{` may expand to several words: put the value in quotes"),
        ("A=b\r\n", "the line contains a carriage return: save the file with Unix line ends"),
        ("A='b", "the closing ' is missing"),
        ('A="b', 'the closing " is missing'),
        ("A=b\\", "a `\\` at its end: write it on one line"),
        ("A=b\0c", "the line contains a NUL"),
        ("A=$'\\0'", "an escape stands for no character"),
        ("A=$'\\c'", "an escape in $'...' is not supported"),
        ("A=b A=c", "a name is listed twice: write two lines"),
        ("LANG=C\nA=$'\\u00e9'", "this character depends on the locale, which the file has changed"),
    ],
)
def test_everything_else_is_refused_by_line(text: str, told: str) -> None:
    read = parse(f"FIRST=1\n{text}", BASE)
    line = 3 if text.startswith("LANG") else 2
    assert read.mistakes == [LineMistake(line, told)]
    assert "A" not in read.values


def test_a_refused_line_leaves_the_rest() -> None:
    read = parse("A=1\nB=$(date)\nC=3\n", BASE)
    assert (read.values, [str(one) for one in read.mistakes]) == (
        {"A": "1", "C": "3"},
        ["line 2: `$(` runs a command"],
    )
    assert read.contribution("file:x").names == ["A", "C"]


def test_strict_refuses_the_whole_file() -> None:
    with pytest.raises(OverlayRefused) as caught:
        parse("A=hush\nB=$(date)\n").contribution("file:/x", strict=True)
    assert caught.value.rejected == ("line 2: `$(` runs a command",)
    assert "hush" not in str(caught.value)


def test_what_a_refused_line_may_have_changed_is_not_relied_on() -> None:
    assert refused("A=$(date)\nB=$A\nA=1\nC=$A") == [
        (1, "`$(` runs a command"),
        (2, "$A may have been changed in line 1, which was refused"),
    ]


def test_a_line_that_only_assigns_changes_nothing_else() -> None:
    read = parse('A=1\nB="if $A $NOTHING"\nC=$A\nD=$B', BASE)
    assert (read.values, [str(one) for one in read.mistakes]) == (
        {"A": "1", "C": "1"},
        [
            "line 2: $NOTHING has no value here",
            "line 4: $B may have been changed in line 2, which was refused",
        ],
    )


@pytest.mark.parametrize(
    "opening", ["if true", "for x in 1", "cat <<EOF", "return 0", "source x", "f() {", "cmd &&", "set -u"]
)
def test_lines_that_depend_on_a_refused_one_are_refused_too(opening: str) -> None:
    read = parse(f"A=1\n{opening}\n# not this\nexport B=2\n\nC=3", BASE)
    assert [mistake.line for mistake in read.mistakes] == [2, 4, 6]
    assert read.mistakes[1].what == "its meaning depends on line 2, which was refused"
    assert read.values == {"A": "1"}


def test_quotes_of_a_refused_command_are_not_read_as_lines() -> None:
    assert parse("echo 'one\nexport A=2\n'\nB=3", BASE).values == {"B": "3"}


def test_unset_is_not_the_same_as_empty() -> None:
    # O12
    read = parse("export A=1\nunset A\nexport B=", BASE)
    contribution = read.contribution("file:x")
    assert (contribution.unset, contribution.values) == (("A",), {"B": ""})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('export PATH="/x:$PATH"', [Operation("PATH", "prepend", ("/x",))]),
        ("PATH=$PATH:/y:/z", [Operation("PATH", "append", ("/y", "/z"))]),
        (
            "PATH=$HOME/b:${PATH}:/z",
            [Operation("PATH", "prepend", ("/home/me/b",)), Operation("PATH", "append", ("/z",))],
        ),
        ("PATH=/a:$PATH\nPATH=/b:$PATH", [Operation("PATH", "prepend", ("/b", "/a"))]),
    ],
)
def test_a_list_that_is_added_to_is_an_operation(
    text: str, expected: list[Operation], tmp_path: Path
) -> None:
    read = parse(text, BASE)
    assert (list(read.contribution("file:x").operations), read.values) == (expected, {})
    assert read.exact["PATH"] == bash(text, tmp_path)["PATH"]
    without = parse(text, {"HOME": "/home/me"})  # whatever a command has there
    assert list(without.contribution("file:x").operations) == expected


@pytest.mark.parametrize(
    "text", ["PATH=/x$PATH", "PATH=/x::$PATH", "PATH=/x", "A=/x:$PATH", "PATH=$PATH:$PATH"]
)
def test_any_other_value_of_a_list_is_one(text: str, tmp_path: Path) -> None:
    read = parse(text, BASE)
    exported = bash(text, tmp_path)
    assert (read.values, read.operations) == ({name: exported[name] for name in read.values}, {})
    assert len(read.values) == 1


def test_a_reader_that_shows_itself_shows_no_values() -> None:
    assert "hush" not in repr(parse("A=hush"))


def test_values_that_are_made_of_themselves_do_not_grow_without_end() -> None:
    read = parse("A=1234567890\n" + "A=$A$A\n" * 100)
    assert read.values == {}
    assert read.mistakes[0].what == "the value is larger than a program can get"


def test_many_values_do_not_grow_without_end_either() -> None:
    # Ten bytes of the file would be a hundred thousand of memory.
    read = parse(f"A={'x' * 130_000}\n" + "".join(f"B{number}=$A$Z\n" for number in range(2000)), {"Z": "z"})
    assert sum(map(len, read.values.values())) <= MOST_MADE
    assert read.mistakes[-1].what == "all values of this file together are too large to keep"


@pytest.mark.parametrize(
    "text",
    [
        "A=old\nA=$(date)",
        "A=old\nA+=new",
        "export A=old\n[ -d / ] && export A=new",
        "A=old\nunset 'A'",
        "A=old\nread A </dev/null",
        "A=old\nprintf -v A new",
        "unset A\nexport A=~",
        "A=old\nif true; then\nA=new\nfi",
        "A=(1 2)\nexport A=old",
        "A[1]=2\nA=old",
        "mapfile A </dev/null\nA=old",
    ],
)
def test_a_value_that_a_refused_line_changes_is_no_value(text: str) -> None:
    # No value, and it is told: a wrong one would not be.
    read = parse(text, BASE)
    assert read.mistakes
    assert read.contribution("file:x").names == []


@pytest.mark.parametrize("text", ["unset $N", "export $N=2", 'export "$N=3"', "read $N", "let $N=5"])
def test_a_name_that_only_a_shell_knows_may_be_any(text: str) -> None:
    assert parse(f"A=1\nN=A\n{text}\nB=$A", BASE).values.keys() == {"A", "N"}


@pytest.mark.parametrize(
    "text", ['export X="$(brew --prefix a=$b)/bin:$PATH"', "X=`date`", "export X=${Y:-$Z}", "echo $A"]
)
def test_an_ordinary_refused_line_leaves_the_lines_behind_it(text: str) -> None:
    assert parse(f"A=1\n{text}\nB=2", BASE).values == {"A": "1", "B": "2"}


@pytest.mark.parametrize(
    "text",
    [
        "A=" + "x" * 400_000,
        "A='" + "x" * 400_000 + "'",
        "".join(f"A{number}=1 B{number}=2\n" for number in range(20_000)),
        "A=" + "${B}" * 100_000,
        "A=$(date)\n" * 30_000,
        "A='\n" * 50_000,
    ],
    ids=["plain", "quoted", "names", "references", "refused", "quotes"],
)
def test_large_files_are_read_in_a_moment(text: str) -> None:
    # Each would take minutes if it took the square of its length; the deadline of a test is the limit.
    read = parse(text, {"B": ""})
    assert read.lines or read.mistakes


# Against the real one

_TEXT = st.text(st.sampled_from("ab1 _-./:=~#$\"'\\`*?[]{}!%@,\n\té\u20ac^"), max_size=8)
_VALUE = st.one_of(
    _TEXT,
    _TEXT.map(lambda text: "'" + text.replace("'", "") + "'"),
    _TEXT.map(lambda text: f'"{text}"'),
    _TEXT.map(lambda text: f"$'{text}'"),
    st.sampled_from(
        ["$A", "${B}", "$HOME", '"$WORD"', "$'\\x41\\n'", "\\$A", "/x:$PATH", "$PATH:/y", "$'\\351'"]
    ),
)
_VALUES = st.lists(_VALUE, min_size=1, max_size=3).map("".join)
_NAME = st.sampled_from(["A", "B", "PATH", "C_1"])
_ASSIGNMENT = st.builds("{}={}".format, _NAME, _VALUES)
_LINE = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["", "export ", "declare -x ", "  "]), _ASSIGNMENT),
    st.lists(_ASSIGNMENT, min_size=2, max_size=3).map(" ".join),
    st.lists(_ASSIGNMENT, min_size=2, max_size=3).map(lambda words: "export " + " ".join(words)),
    st.builds("unset {}".format, st.sampled_from(["A", "B"])),
    st.builds("{} # {}".format, _ASSIGNMENT, st.text(st.sampled_from("ab '\"`$("), max_size=4)),
)


@settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(st.lists(_LINE, min_size=1, max_size=4).map("\n".join))
def test_what_is_accepted_is_what_bash_exports(tmp_path: Path, text: str) -> None:
    read = parse(text, BASE)
    if read.mistakes:
        return
    exported = bash(text, tmp_path)
    assert {name: exported.get(name) for name in read.exact} == read.exact


@given(st.text(max_size=200))
def test_anything_can_be_read(text: str) -> None:
    read = parse(text, BASE)
    assert all(1 <= mistake.line <= text.count("\n") + 1 for mistake in read.mistakes)
