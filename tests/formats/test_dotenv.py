"""`.env` files: what all readers agree on is read, what they do not is refused, each with its line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.formats.dotenv import DIALECTS, DotenvEntry, LineMistake, parse

quick = settings(deadline=None, max_examples=300)


def values(text: str, dialect: str = "literal", **known: str) -> dict[str, str]:
    entries, mistakes = parse(text, dialect, known)
    assert mistakes == []
    return {entry.name: entry.value for entry in entries}


def lines(text: str, dialect: str = "literal") -> list[int]:
    return [mistake.line for mistake in parse(text, dialect)[1]]


# What the files of `strict`, the dialect of who has chosen none, have in common with `literal`.


@pytest.mark.parametrize("dialect", ["strict", "literal"])
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=", ""),
        ("A=x", "x"),
        ("A = x ", "x"),
        ("export A=x", "x"),
        ("  export\tA=x", "x"),
        ("A=two words", "two words"),
        ("A=x # comment", "x"),
        ("A= # comment", ""),
        ("A=it's", "it's"),
        ("A=a=b", "a=b"),
        ("A=x `touch ran`", "x `touch ran`"),
        ("A='x # $B \\n'", "x # $B \\n"),
        ("A='$(touch ran)'", "$(touch ran)"),
        ('A="a\\nb"', "a\nb"),
        ("A='x' # comment", "x"),
        ("A=''", ""),
        ('A=""', ""),
        ('A="x # y"', "x # y"),
        ('A="two\nlines"', "two\nlines"),
        ("A='two\nlines'\n", "two\nlines"),
        ("\ufeffA=x\r\n", "x"),
        ("A=\udcff", "\udcff"),
    ],
)
def test_what_is_clear_is_read(line: str, value: str, dialect: str) -> None:
    assert values(line, dialect) == {"A": value}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=$(touch ran)", "$(touch ran)"),
        ("A=$B ${B} ${B:-c}", "$B ${B} ${B:-c}"),
        ("A=${B}/y", "${B}/y"),
        ("A=C:\\x", "C:\\x"),
        ("A=$$", "$$"),
        ("A='${B}'", "${B}"),
        ("A='a\\\\b'", "a\\\\b"),
        ('A="a\\tb"', "a\tb"),
        ('A="a\\rb"', "a\rb"),
        ('A="a\\"b"', 'a"b'),
        ('A="a\\\\b"', "a\\b"),
        ('A="a\\$b"', "a$b"),
        ('A="x ${B} $(touch ran)"', "x ${B} $(touch ran)"),
        ('A="$1"', "$1"),
        ("A=p$!x", "p$!x"),
        ('A=-Dname="a b"', '-Dname="a b"'),
        ("A=x'y'z", "x'y'z"),
        ("A='C:\\dir\\'", "C:\\dir\\"),
    ],
)
def test_what_readers_read_differently_is_refused_unless_a_dialect_is_chosen(line: str, value: str) -> None:
    assert values(line, "literal") == {"A": value}
    entries, [mistake] = parse(f"B=1\n{line}\n")
    assert entries == [DotenvEntry("B", "1", 1)]
    assert mistake.line == 2
    assert mistake.what.endswith("or choose a dialect with `dotenv_dialect`")


@pytest.mark.parametrize(
    "line",
    [
        "A",
        "just words",
        "=x",
        "1A=x",
        "A-B=x",
        "A.B=x",
        "Ä=x",
        "export =x",
        "unset A B=x",
        "A=abc#def",
        "A=#ff0000",
        "A=# comment",
        "A=`cmd`",
        'A="x',
        "A='x",
        'A="x"y',
        'A="x"#y',
        "A='it\\'s'",
        'A="C:\\dir"',
        "A=x\\",
        "A=\0",
        "A=x\r\r",
        "A=1\rB=2",
        'A="x\ry"',
        "A='x\ry'",
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_not_is_refused(line: str, dialect: str) -> None:
    entries, mistakes = parse(f"B=1\n{line}\n", dialect)
    assert entries == [DotenvEntry("B", "1", 1)]
    assert [mistake.line for mistake in mistakes] == [2]


def test_all_mistakes_are_told_at_once_with_their_lines() -> None:
    text = "# a file\nA=1\nno equals\n\nB='two\nlines'\nC=a#b\n  # more\nD=\"\\q\"\nE=1"
    entries, mistakes = parse(text, "literal")
    assert [(entry.name, entry.line) for entry in entries] == [("A", 2), ("B", 5), ("E", 10)]
    assert mistakes == [
        LineMistake(3, "the `=` is missing"),
        LineMistake(7, "some programs start a comment at the `#`: put the value in quotes"),
        LineMistake(9, 'only \\n, \\r, \\t, \\", \\\\ and \\$ may follow a backslash here: double it'),
    ]


def test_mistakes_and_entries_do_not_show_values() -> None:
    entries, mistakes = parse("A=hunter2\nhunter2\nB=hunter2#x\nC='hunter2\n")
    assert "hunter2" not in f"{entries!r} {mistakes!r} {[str(one) for one in mistakes]}"
    assert len(mistakes) == 3


def test_the_last_of_two_counts() -> None:
    assert values("A=1\nA=2\n") == {"A": "2"}


# Braces


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A=${B}", "base"),
        ('A="<${B}>"', "<base>"),
        ("A='${B}'", "${B}"),
        ('A="\\${B}"', "${B}"),
        ("A=$B", "$B"),
        ("A=${NONE:-d}", "d"),
        ("A=${B:-d}", "base"),
        ("A=${EMPTY:-d}", "d"),
        ("A=${EMPTY}", ""),
        ("C=1\nA=${C}${C}", "11"),
        ("A=$(x)", "$(x)"),
    ],
)
def test_braces_are_expanded_where_asked_for(text: str, wanted: str) -> None:
    assert values(text, "expand-braces", B="base", EMPTY="")["A"] == wanted


def test_references_cannot_double_a_value_for_ever() -> None:
    lines = ["A0=xxxxxxxx", *(f"A{line}=${{A{line - 1}}}${{A{line - 1}}}" for line in range(1, 24))]
    entries, mistakes = parse("\n".join(lines), "expand-braces")
    assert sum(len(entry.value) for entry in entries) < 8 << 20
    why = "references make more of this file than an environment can have: use fewer"
    assert mistakes[0] == LineMistake(len(entries) + 1, why)


def test_what_was_expanded_is_not_expanded_again() -> None:
    assert values("A=${B}", "expand-braces", B="${HOME} $(x)") == {"A": "${HOME} $(x)"}


@pytest.mark.parametrize("value", ["${NONE}", "${B", "${B:?x}", "${}", "${B/x/y}", "${1}"])
def test_other_braces_are_refused(value: str) -> None:
    assert lines(f"A={value}\n", "expand-braces") == [1]
    assert lines(f'A="{value}"\n', "expand-braces") == [1]


# Anything


@quick
@given(st.text(alphabet="AB=#'\"\\`$ {}\n\t\rx:-", max_size=40), st.sampled_from(DIALECTS))
def test_any_text_is_read_or_refused(text: str, dialect: str) -> None:
    entries, mistakes = parse(text, dialect)
    last = text.count("\n") + 1
    assert all(1 <= line <= last for line in [one.line for one in entries] + [one.line for one in mistakes])
    assert [one.line for one in entries] == sorted(one.line for one in entries)


@quick
@given(
    st.dictionaries(
        st.sampled_from(["A", "B_1", "c"]), st.text(max_size=20).filter(lambda text: "\0" not in text)
    )
)
def test_what_is_quoted_comes_back(wanted: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        for mark, escape in (("\\", "\\\\"), ('"', '\\"'), ("$", "\\$"), ("\n", "\\n"), ("\r", "\\r")):
            value = value.replace(mark, escape)
        return f'"{value}"'

    text = "".join(f"{name}={quoted(value)}\n" for name, value in wanted.items())
    assert values(text) == values(text, "expand-braces") == wanted


def test_a_large_file_is_read_in_one_go() -> None:
    assert len(parse("A=1\n" * 20_000)[0]) == 20_000
    assert len(parse("A\n" * 20_000)[1]) == 20_000
