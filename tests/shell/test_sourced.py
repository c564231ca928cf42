"""What a script did, told as a layer can carry it; and what it prints, without secrets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.env.layer import BASE, SETUP, Layer
from outfitter.env.origin import Origin
from outfitter.env.redact import Secrets
from outfitter.env.resolve import Rules, Stack
from outfitter.shell.sourced import MaskedLines, ScriptChanges, changes

HERE = Origin("test", "here")
NOTHING = ScriptChanges({}, (), ())


def test_a_list_variable_is_told_as_operations_and_the_rest_as_values() -> None:
    before = {"PATH": "/usr/bin:/bin", "A": "1", "B": "2", "HOME": "/h"}
    after = {"PATH": "/srv/bin:/usr/bin:/bin", "A": "new", "HOME": "/h", "C": "3"}
    said = changes(before, after)
    assert (said.set, said.unset) == ({"A": "new", "C": "3"}, ("B",))
    assert [(one.variable, one.op, one.values) for one in said.operations] == [
        ("PATH", "prepend", ("/srv/bin",))
    ]


def test_more_names_may_be_lists() -> None:
    [one] = changes({"CP": "/a"}, {"CP": "/a:/b"}, frozenset(("CP",))).operations
    assert (one.variable, one.op, one.values) == ("CP", "append", ("/b",))


@pytest.mark.parametrize(
    "name", ["PWD", "OLDPWD", "SHLVL", "_", "OUTFITTER_WORKTREE", "__OUTFITTER_X", "OWN"]
)
def test_what_is_not_the_scripts_to_say_is_left_out(name: str) -> None:
    assert changes({name: "1"}, {name: "2"}, ignore=["OWN"]) == NOTHING
    assert changes({}, {name: "2"}, ignore=["OWN"]) == NOTHING
    assert changes({name: "1"}, {}, ignore=["OWN"]) == NOTHING


def test_a_name_that_shells_drop_is_no_change() -> None:
    assert changes({"a.b": "1", "c-d": "1"}, {"a.b": "2", "BASH_FUNC_f%%": "() { :; }"}) == NOTHING


NAMES = st.sampled_from(["A", "B", "C_D", "E1", "PATH", "MANPATH"])
TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0:"), max_size=8)
ENTRIES = st.lists(st.sampled_from(["/a", "/b", "/c", "/d"]), min_size=1, max_size=4, unique=True).map(
    ":".join
)


@st.composite
def environments(draw: st.DrawFn) -> dict[str, str]:
    names = draw(st.sets(NAMES))
    return {"PATH": "/z"} | {
        name: draw(ENTRIES if name.endswith("PATH") else TEXTS) for name in sorted(names)
    }


@given(environments(), environments())
def test_put_on_what_it_started_from_it_gives_what_it_left(
    before: dict[str, str], after: dict[str, str]
) -> None:
    said = changes(before, after)
    layers = [
        Layer(BASE, "base", HERE, before),
        Layer(SETUP, "setup", HERE, said.set, unset=said.unset, operations=said.operations),
    ]
    assert Stack(layers, (), Rules()).values == after


# Output while it runs


def passed_on(chunks: list[bytes], known: dict[str, str]) -> list[str]:
    heard: list[str] = []
    lines = MaskedLines(known, Secrets(), heard.append)
    for chunk in chunks:
        lines.feed(chunk)
    lines.finish()
    return heard


def test_lines_are_passed_on_whole_and_without_secrets() -> None:
    known = {"API_TOKEN": "s3cret-value", "PLAIN": "plain-value"}
    chunks = [b"one s3cr", b"et-value plain-value\ntw", b"o\nOTHER_TOKEN=xyz\n\nend s3cret-value"]
    assert passed_on(chunks, known) == [
        "one [secret:API_TOKEN] plain-value",
        "two",
        "OTHER_TOKEN=[secret]",
        "",
        "end [secret:API_TOKEN]",
    ]


def test_a_secret_of_several_lines_is_known_by_each() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nabcdefghij\nklmnopqrst\n-----END PRIVATE KEY-----"
    heard = "\n".join(passed_on([f"{line}\n".encode() for line in key.split("\n")], {"DEPLOY_KEY": key}))
    assert "abcdefghij" not in heard
    assert "klmnopqrst" not in heard


def test_a_line_without_end_is_not_waited_for() -> None:
    heard = passed_on([b"x" * 50_000, b"y" * 50_000], {})
    assert "".join(heard) == "x" * 50_000 + "y" * 50_000


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_every_byte_comes_through_once(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    chunks = [data[start:end] for start, end in pairwise(places)]
    whole = data.decode("utf-8", "replace")
    heard = passed_on(chunks, {})
    wanted = whole.split("\n")
    if wanted[-1] == "":
        wanted.pop()
    assert heard == wanted
