"""Exports: what the reader has afterwards is byte for byte what was exported, or the name is reported."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outfitter.env.export import FORMATS, export
from outfitter.errors import SettingInvalid
from tests.support.tools import program

# Hundreds of values in one process each time: few examples are many.
batches = settings(
    deadline=None,
    max_examples=3,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
quick = settings(deadline=None, max_examples=100)

marks = st.sampled_from(
    [
        *"'\"\\$`\n\r\t !#;&|*?~[]{}()<>=:%^-aZ\x01\x7f\x1b",
        *("\\\\", "\\'", "${A}", "$(exit 3)", "`exit 3`", "\\n"),
        *"\u00e9\u20ac\U0001f600\u2018\u2019\ue000\uf600",
        *("\udcff", "\udc81", "\udc88", "\udcc3"),
    ]
)
texts = st.lists(marks, max_size=8).map("".join) | st.text(
    alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6
)
many_values = st.lists(texts, min_size=100, max_size=200)


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def is_text(value: str) -> bool:
    return raw(value).decode("utf-8", "replace") == value


SHELLS = {
    "dash": ["dash"],
    "sh": ["sh"],
    "bash": ["bash", "--noprofile", "--norc"],
    "zsh": ["zsh", "-f"],
    "fish": ["fish", "--no-config"],
}
SHELL_FORMATS = [(shell, "fish" if shell == "fish" else "shell") for shell in SHELLS] + [("bash", "claude")]


def read_by(shell: str, text: str, home: Path, **env: str) -> dict[bytes, bytes]:
    """The environment of what a shell starts after it has read the text."""
    name, *flags = SHELLS[shell]
    script = home / "export"
    script.write_bytes(raw(text))
    command = f". {script}; exec /usr/bin/env -0" if shell != "fish" else f"source {script}; /usr/bin/env -0"
    found = subprocess.run(
        [program(name), *flags, "-c", command],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), **env},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert found.stderr == b""
    pairs = [entry.partition(b"=") for entry in found.stdout.split(b"\0") if entry]
    return {variable: value for variable, _, value in pairs}


@pytest.mark.parametrize(("shell", "format"), SHELL_FORMATS)
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@batches
@given(values=many_values)
def test_a_shell_has_exactly_the_bytes(
    shell: str, format: str, locale: str, values: list[str], tmp_path: Path
) -> None:
    variables = {f"V_{number}": value for number, value in enumerate(values)}
    text, left_out = export(variables, format)
    assert left_out == []
    found = read_by(shell, text, tmp_path, LC_ALL=locale)
    assert {name: found[raw(name)] for name in variables} == {
        name: raw(text) for name, text in variables.items()
    }


@pytest.mark.parametrize(("shell", "format"), SHELL_FORMATS)
def test_a_shell_takes_away_what_it_should(shell: str, format: str, tmp_path: Path) -> None:
    text, left_out = export({"A": "1", "B": "2"}, format, unset=["B", "C", "NOT_THERE", "PWD", "a-b"])
    assert [name for name, _ in left_out] == ["PWD", "a-b"]
    found = read_by(shell, text, tmp_path, B="old", C="old", D="old")
    assert {name: found.get(name) for name in (b"A", b"B", b"C", b"D")} == {
        b"A": b"1",
        b"B": b"2",  # a value counts more than its removal
        b"C": None,
        b"D": b"old",
    }


OWN_NAMES = {
    "bash": "compgen -v",
    "zsh": "print -l ${(k)parameters}",
    "dash": "set",
    "fish": "set --names",
}


@pytest.mark.parametrize("shell", OWN_NAMES)
@pytest.mark.parametrize("value", ["abc", "7", "/x:/y", "-1", "", "x[$(kill -9 $$)]"])
def test_no_shell_makes_something_else_of_a_name_that_it_knows(
    shell: str, value: str, tmp_path: Path
) -> None:
    name, *flags = SHELLS[shell]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    listed = subprocess.run(
        [program(name), *flags, "-c", OWN_NAMES[shell]], env=env, capture_output=True, text=True, check=True
    ).stdout
    names = {line.partition("=")[0] for line in listed.splitlines()}
    assert len(names) > 5
    # A locale, or a file for fish's history, that cannot be used is complained about, and exported.
    complaints = ("LC_", "LANG", "fish_history")
    variables = {name: value for name in names if not name.startswith(complaints)}
    text, left_out = export(variables, "fish" if shell == "fish" else "shell")
    expected = {raw(name): raw(value) for name in variables if name not in dict(left_out)}
    found = read_by(shell, text, tmp_path)
    assert {name: found.get(name) for name in expected} == expected
    assert b"PATH" in expected or value == ""


def test_numbers_of_shells_are_numbers_or_nothing() -> None:
    text, left_out = export(
        {"HISTSIZE": "1000", "OPTIND": "x[$(id)]", "TMOUT": "007", "SAVEHIST": ""}, "shell"
    )
    assert text == "export HISTSIZE='1000'\n"
    assert [name for name, _ in left_out] == ["OPTIND", "SAVEHIST", "TMOUT"]


def test_fish_does_not_get_an_empty_entry_of_path() -> None:
    text, left_out = export({"PATH": "/a:", "MANPATH": "/m:"}, "fish")
    assert text == "set -gx MANPATH '/m:'\n"
    assert left_out == [("PATH", "fish turns an empty entry into the current directory")]


# JSON


@quick
@given(st.dictionaries(st.text(max_size=3), texts, max_size=4))
def test_json_has_what_is_text(values: dict[str, str]) -> None:
    text, left_out = export(values, "json", unset=["GONE"])
    plain = {name: value for name, value in values.items() if is_text(name + value)}
    assert json.loads(text.encode()) == {"GONE": None, **plain}
    assert [name for name, _ in left_out] == sorted(set(values) - set(plain))


def test_json_is_one_variable_to_a_line() -> None:
    assert export({"B": "\u00e9", "A": "x\ny"}, "json") == ('{\n  "A": "x\\ny",\n  "B": "\u00e9"\n}\n', [])
    assert export({}, "json") == ("{\n}\n", [])


# PowerShell. There is none here to ask: this reads its single-quoted strings as its tokenizer does.


def powershell_reads(text: str) -> dict[str, str]:
    quotes = "'\u2018\u2019\u201a\u201b"
    found = {}
    at = 0
    while at < len(text):
        assert text.startswith("$env:", at)
        equals = text.index(" = ", at)
        name = text[at + 5 : equals]
        at = equals + 3
        assert text[at] in quotes
        at += 1
        value = ""
        while True:
            if text[at] in quotes:
                at += 1
                if text[at : at + 1] not in quotes or at >= len(text):
                    break
            value += text[at]
            at += 1
        assert text[at] == "\n"
        at += 1
        found[name] = value
    return found


@quick
@given(st.lists(texts, max_size=5))
def test_powershell_has_what_is_text(values: list[str]) -> None:
    variables = {f"V_{number}": value for number, value in enumerate(values)}
    text, left_out = export(variables, "powershell")
    assert powershell_reads(text) == {
        name: value for name, value in variables.items() if value and is_text(value)
    }
    assert [name for name, _ in left_out] == [
        name for name, value in sorted(variables.items()) if not value or not is_text(value)
    ]


def test_powershell_takes_away_with_null() -> None:
    assert export({}, "powershell", unset=["A"]) == ("$env:A = $null\n", [])


# dotenv: two readers that differ where real ones do.


def dotenv_reads(text: str, *, undoes_escapes: bool) -> dict[str, str]:
    found = {}
    at = 0
    while at < len(text):
        equals = text.index("=", at)
        name = text[at:equals]
        at = equals + 1
        quote = text[at]
        if quote in "'\"":
            end = text.index(quote + "\n", at + 1)
            value = text[at + 1 : end]
            assert quote not in value and "\n" not in value  # some read line by line
            at = end + 2
            if quote == '"':
                value = value.replace("\\n", "\n")
            if undoes_escapes:
                assert quote == "'" or not set("\\$`").intersection(value)
                value = value.replace("\\\\", "\\").replace("\\'", "'")
                assert "${" not in value
        else:
            end = text.index("\n", at)
            value = text[at:end]
            assert value == value.strip() and "#" not in value
            at = end + 1
        found[name] = value
    return found


@quick
@given(st.lists(texts, max_size=5))
def test_dotenv_has_what_its_readers_agree_on(values: list[str]) -> None:
    variables = {f"V_{number}": value for number, value in enumerate(values)}
    text, left_out = export(variables, "dotenv")
    expected = {name: value for name, value in variables.items() if name not in dict(left_out)}
    assert dotenv_reads(text, undoes_escapes=True) == expected
    assert dotenv_reads(text, undoes_escapes=False) == expected


def test_dotenv_line_by_line() -> None:
    values = {"A": "plain/1", "B": "two words # $X", "C": "it's", "D": "x\ny", "E": "", "F": "C:\\temp"}
    assert export(values, "dotenv", unset=["G"]) == (
        "A=plain/1\nB='two words # $X'\nC=\"it's\"\nD=\"x\\ny\"\nE=''\nF='C:\\temp'\n",
        [("G", "this format cannot remove a variable")],
    )
    for value in ("it's $5", "two\n$5", "\\\\host", "${A}", "end\\", "x\r", "\udcff"):
        assert export({"A": value}, "dotenv")[0] == ""


# GitHub


def github_reads(text: str) -> dict[str, str]:
    """As the runner's EnvFileKeyValuePairs: a heredoc up to the line that is the delimiter."""
    found = {}
    lines = text.split("\n")
    at = 0
    while at < len(lines) - 1:
        name, heredoc, end = lines[at].partition("<<")
        assert heredoc and "=" not in name
        last = lines.index(end, at + 1)
        found[name] = "\n".join(lines[at + 1 : last])
        at = last + 1
    return found


@quick
@given(st.lists(texts, max_size=5))
def test_github_has_what_is_text(values: list[str]) -> None:
    variables = {f"V_{number}": value for number, value in enumerate(values)}
    text, left_out = export(variables, "github")
    assert github_reads(text) == {name: value for name, value in variables.items() if is_text(value)}
    assert export(variables, "github") == (text, left_out)


def test_a_value_cannot_end_its_own_heredoc() -> None:
    inner, _ = export({"A": "x"}, "github")
    assert github_reads(export({"A": inner, "B": inner}, "github")[0]) == {"A": inner, "B": inner}


def test_github_keeps_its_own() -> None:
    text, left_out = export({"GITHUB_SHA": "x", "RUNNER_OS": "x", "NODE_OPTIONS": "x"}, "github", unset=["A"])
    assert text == ""
    assert [name for name, _ in left_out] == ["A", "GITHUB_SHA", "NODE_OPTIONS", "RUNNER_OS"]


# All of them


@pytest.mark.parametrize("format", FORMATS)
def test_an_odd_name_is_reported_and_does_no_harm(format: str) -> None:
    odd = ["A-B", "A;id", "1A", "A\nB", "", "a b", "$(id)", "BASH_FUNC_x%%", "\u00e9", "\udcff"]
    text, left_out = export(dict.fromkeys([*odd, "GOOD"], "1"), format)
    if format == "json":
        assert [name for name, _ in left_out] == ["\udcff"]
    else:
        assert [name for name, _ in left_out] == sorted(odd)
        assert "GOOD" in text and "id" not in text
    assert [why for _, why in left_out if not why] == []


@pytest.mark.parametrize("format", FORMATS)
def test_the_order_of_variables_does_not_count(format: str) -> None:
    values = {"B": "2", "A": "1", "C": "3"}
    assert export(values, format) == export(dict(sorted(values.items())), format)


def test_claude_reads_what_a_shell_reads() -> None:
    assert export(dict(os.environ), "claude") == export(dict(os.environ), "shell")


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingInvalid) as caught:
        export({}, "xml")
    assert str(caught.value) == f"`xml` is not an export format; use one of {', '.join(FORMATS)}"
