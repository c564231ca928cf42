"""Reports of a shell: only complete ones count; and what of them a command gets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.shell.snapshot import (
    MARKER,
    ListChange,
    Snapshot,
    difference,
    maintained,
    merge_lost,
    read_block,
    to_start_with,
    told,
    without_daemons,
    without_maintained,
)

quick = settings(deadline=None, max_examples=100)
BEGIN, END = b"__CAPTURE_BEGIN=n0\0", b"__CAPTURE_END=n0\0"


def report(*entries: bytes) -> bytes:
    return BEGIN + b"".join(entry + b"\0" for entry in entries) + END


# Reading a report


def test_report_is_read_as_bytes() -> None:
    found = read_block(report(b"A=1", b"E==a=b", b"N=a\nb\n", b"R=\xff", b"EMPTY=", b"U=\xc3\xa9"), "n0")
    assert found == {"A": "1", "E": "=a=b", "N": "a\nb\n", "R": "\udcff", "EMPTY": "", "U": "é"}


def test_report_of_nothing_is_complete() -> None:
    assert read_block(BEGIN + END, "n0") == {}


def test_what_is_no_variable_is_left_out_and_of_two_the_first_counts() -> None:
    assert read_block(report(b"nothing", b"=nameless", b"A=1", b"A=2", b""), "n0") == {"A": "1"}


def test_what_surrounds_a_report_does_not_count() -> None:
    block = b"garbage\0X=1\0no end" + report(b"A=1") + b"Y=1\0" + BEGIN
    assert read_block(block, "n0") == {"A": "1"}


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"A=1\0",
        b"A=1\0" + END,
        BEGIN + b"A=1\0",
        BEGIN + b"A=1\0" + END[:-1],
        BEGIN + b"A=" + END,  # a value that looks like the mark
        report(b"A=1").replace(b"n0", b"n1"),
        BEGIN + b"A=1\0" + END.replace(b"n0", b"n1"),
    ],
)
def test_incomplete_report_is_none(block: bytes) -> None:
    assert read_block(block, "n0") is None


names = st.text(st.characters(exclude_characters="=\0", codec="utf-8"), min_size=1)
texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@quick
@given(st.dictionaries(names, texts), st.binary(max_size=50), st.integers(min_value=0))
def test_report_survives_garbage_before_it_and_is_none_until_its_last_byte(
    values: dict[str, str], garbage: bytes, cut: int
) -> None:
    block = garbage + report(*(f"{name}={value}".encode() for name, value in values.items()))
    assert read_block(bytearray(block), "n0") == values
    assert read_block(block[: cut % len(block)], "n0") is None


@quick
@given(st.binary())
def test_no_bytes_are_an_error(block: bytes) -> None:
    assert read_block(block, "n0") is None


# What the shell starts with, and what it maintains


def test_shell_starts_without_guards_with_the_marker_and_with_a_home() -> None:
    base = {"A": "1", "__ETC_PROFILE_NIX_SOURCED": "1", "__HM_SESS_VARS_SOURCED": "1", "DIRENV_DIFF": "x"}
    assert to_start_with(base, "/home/me") == {"A": "1", "DIRENV_DIFF": "x", "HOME": "/home/me", MARKER: "1"}
    assert to_start_with({"HOME": "/elsewhere"}, "/home/me") == {"HOME": "/elsewhere", MARKER: "1"}


def test_names_that_a_shell_maintains_are_left_out() -> None:
    values = dict.fromkeys(
        ("PWD", "OLDPWD", "SHLVL", "_", "PS1", "USER", "LOGNAME", "HOST", MARKER, "A"), "1"
    )
    assert {
        shell: sorted(without_maintained(values, shell)) for shell in ("/bin/bash", "zsh", "fish", "tcsh")
    } == {
        "/bin/bash": ["A", "HOST", "LOGNAME", "USER"],
        "zsh": ["A", "HOST", "USER"],
        "fish": ["A", "HOST", "LOGNAME"],
        "tcsh": ["A"],
    }


def test_programs_that_have_ended_are_not_referred_to() -> None:
    base = {"SSH_AUTH_SOCK": "/old", "A": "1"}
    values = {"SSH_AUTH_SOCK": "/new", "SSH_AGENT_PID": "12", "DBUS_SESSION_BUS_PID": "13", "A": "2"}
    assert without_daemons(base, values, {13}.__contains__) == (
        {"SSH_AUTH_SOCK": "/old", "DBUS_SESSION_BUS_PID": "13", "A": "2"},
        ("SSH_AGENT_PID", "SSH_AUTH_SOCK"),
    )
    assert without_daemons(values, values, set().__contains__) == (values, ())
    odd = {"SSH_AGENT_PID": "none", "SSH_AUTH_SOCK": "/new"}
    assert without_daemons({}, odd, set().__contains__) == (odd, ())


# The difference


def test_difference_is_what_was_set_unset_and_done_to_lists() -> None:
    base = {"A": "1", "B": "1", "C": "1", "PATH": "/p:/usr/bin", "MANPATH": "/m"}
    captured = {"A": "1", "B": "2", "D": "", "PATH": "/usr/bin:/new", "PYTHONPATH": "/py:"}
    assert difference(base, captured, "bash") == Snapshot(
        "bash",
        {"B": "2", "D": ""},
        ("C", "MANPATH"),
        {
            "PATH": ListChange(("/p",), ("/usr/bin", "/new", "/p")),
            "PYTHONPATH": ListChange((), ("/py", "")),
        },
    )


def test_what_the_shell_does_by_itself_is_no_difference() -> None:
    for shell in ("bash", "zsh", "fish", "tcsh", "ksh", "dash"):
        own = dict.fromkeys(maintained(shell), "1")
        assert difference({}, own, shell) == difference(own, {}, shell) == Snapshot(shell, {}, (), {})


@pytest.mark.parametrize(
    "name",
    [
        "__ETC_PROFILE_NIX_SOURCED",
        "__NIXOS_SET_ENVIRONMENT_DONE",
        "__NIX_DARWIN_SET_ENVIRONMENT_DONE",
        "__HM_SESS_VARS_SOURCED",
        "__HM_ZSH_SESS_VARS_SOURCED",
        "PROFILEREAD",
        "DIRENV_DIFF",
        "DIRENV_WATCHES",
        "__MISE_ORIG_PATH",
        "MISE_SHELL",
        "CONDA_SHLVL",
        "CONDA_PROMPT_MODIFIER",
        "CONDA_PREFIX_1",
    ],
)
def test_guard_is_in_no_snapshot_and_its_effect_is(name: str) -> None:
    # S2
    found = difference({"PATH": "/bin"}, {name: "1", "PATH": "/tool:/bin", "TOOL": "1"}, "bash")
    assert (found.set, found.unset, list(found.lists)) == ({"TOOL": "1"}, (), ["PATH"])
    assert difference({name: "1"}, {}, "bash") == Snapshot("bash", {}, (), {})


@pytest.mark.parametrize("name", ["CONDA_PREFIX", "CONDA_DEFAULT_ENV", "NIX_PROFILES", "MISE_DATA_DIR"])
def test_what_tools_bring_is_kept(name: str) -> None:
    assert difference({}, {name: "x"}, "bash").set == {name: "x"}


@pytest.mark.parametrize("captured", [{}, {"PATH": "", "HOME": ""}, {"PATH": ":", "HOME": ""}])
def test_path_and_home_cannot_be_taken_away(captured: dict[str, str]) -> None:
    found = difference({"PATH": "/bin", "HOME": "/home/me"}, captured, "bash")
    assert (found.set, found.unset, found.lists) == ({}, (), {})


def test_other_lists_may_be_emptied() -> None:
    assert difference({"PYTHONPATH": "/a"}, {"PYTHONPATH": ""}, "bash").set == {"PYTHONPATH": ""}


def test_names_that_dash_drops_are_neither_unset_nor_set() -> None:
    base = {"A.B": "1", "BASH_FUNC_f%%": "() { :; }"}
    found = difference(base, {"BASH_FUNC_g%%": "() { :; }", "BASH_FUNC_f%%": "() { :; }"}, "dash")
    assert (found.set, found.unset) == ({}, ())


def test_snapshot_shows_names_and_no_values() -> None:
    found = difference({"GONE": "s3cret", "PATH": "/s3cret"}, {"NEW": "s3cret", "PATH": "/x"}, "bash")
    assert repr(found) == "Snapshot(shell='bash', set=['NEW'], unset=('GONE',), lists=['PATH'])"


variables = st.dictionaries(
    st.sampled_from(("A", "B", "PATH", "MANPATH", "HOME", "A.B", "PWD", "DIRENV_DIFF", "PROFILEREAD")),
    st.text(st.sampled_from("/ab:"), max_size=8),
)


@quick
@given(variables, variables)
def test_base_with_its_difference_is_what_was_captured(
    base: dict[str, str], captured: dict[str, str]
) -> None:
    found = difference(base, captured, "bash")
    left_out = {"A.B", "PWD", "DIRENV_DIFF", "PROFILEREAD"}
    left_out |= {name for name in ("PATH", "HOME") if not captured.get(name, "").strip(":")}
    result = {name: value for name, value in base.items() if name not in found.unset} | found.set
    for name, change in found.lists.items():
        result[name] = ":".join(change.segments[: len(change.segments) - len(change.lost)])
    assert {name: value for name, value in result.items() if name not in left_out} == {
        name: value for name, value in captured.items() if name not in left_out
    }
    assert difference(base, base, "bash") == Snapshot("bash", {}, (), {})


# Lists


def test_lost_segments_come_after_the_captured_ones_in_their_order() -> None:
    assert merge_lost(("/p", "/usr/bin/", "", "/q", "/p/"), ("/usr/bin", "/bin")) == (
        ("/usr/bin", "/bin", "/p", "/q"),
        ("/p", "/q"),
    )
    assert merge_lost(("/",), ("/bin",)) == (("/bin", "/"), ("/",))


segments = st.lists(st.sampled_from(("/a", "/a/", "/b", "/c", "", "d")), max_size=6)


@quick
@given(segments, segments)
def test_merging_keeps_what_was_captured_and_loses_nothing(base: list[str], captured: list[str]) -> None:
    merged, lost = merge_lost(base, captured)
    assert list(merged) == captured + list(lost)
    plain = {segment.rstrip("/") for segment in merged}
    assert {segment.rstrip("/") for segment in base if segment} <= plain
    assert merge_lost(base, merged) == (merged, ())


# What it said

SECRET = {"API_TOKEN": "0123456789abcdef"}


def test_secret_values_are_masked_and_bytes_are_shown() -> None:
    raw = b"say 0123456789abcdef twice 0123456789abcdef \xff end\n"
    assert told(raw, SECRET | {"A": "end"}, 100, cut=False) == (
        "say [secret:API_TOKEN] twice [secret:API_TOKEN] \ufffd end\n"
    )


def test_assignments_to_secret_names_are_cut_off() -> None:
    raw = b"++ export A=1 NEW_SECRET=hush hush\n+ B=2\nAPI_TOKEN=0123456789abcdef\n"
    assert told(raw, SECRET, 100, cut=False) == (
        "++ export A=1 NEW_SECRET=[secret]\n+ B=2\nAPI_TOKEN=[secret:API_TOKEN]\n"
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"9abcdef rest", " rest"),  # the beginning was cut off
        (b"0123456789abcdef rest", "[secret:API_TOKEN] rest"),
        (b"rest 0123456789", "rest [secret]"),  # it was ended in the middle
        (b"rest 012", "rest 012"),
        (b"3456789a", ""),
        (b"rest", "rest"),
        (b"", ""),
    ],
)
def test_parts_of_a_secret_at_the_edges_are_not_shown(raw: bytes, expected: str) -> None:
    assert told(raw, SECRET, 100, cut=True) == expected


def test_only_the_end_is_kept_and_masking_comes_first() -> None:
    assert told(b"x" * 50 + b"0123456789abcdef", SECRET, 10, cut=False) == "API_TOKEN]"


@quick
@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 40), st.binary(max_size=40))
def test_no_cut_lets_half_a_secret_through(before: bytes, start: int, end: int, after: bytes) -> None:
    secret = SECRET["API_TOKEN"]
    whole = before + secret.encode() + after
    raw = whole[start : len(whole) - end]
    shown = told(raw, SECRET, 1000, cut=start > 0)
    assert [
        at
        for at in range(9)
        if secret[at : at + 8] in shown and secret[at : at + 8].encode() not in before + after
    ] == []
