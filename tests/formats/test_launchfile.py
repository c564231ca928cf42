"""Launch contracts in TOML: the same values as in Python, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.agents.autoskillit import CONTRACT
from outfitter.env.launches import DEFAULT, Kind, LaunchContract
from outfitter.errors import FileInvalid
from outfitter.formats.launchfile import parse_contract

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "autoskillit.toml"


def mistakes(text: str) -> list[str]:
    with pytest.raises(FileInvalid) as caught:
        parse_contract(text, "launch.toml")
    return [f"{one.line}: {one.text}" for one in caught.value.mistakes]


def test_example_says_the_same_as_the_module() -> None:
    assert parse_contract(EXAMPLE.read_text(), str(EXAMPLE)) == CONTRACT


def test_empty_file_has_the_kinds_that_ship() -> None:
    assert parse_contract("", "launch.toml") == LaunchContract("project", DEFAULT.kinds)


def test_projects_file_has_it_in_a_table() -> None:
    text = '[providers]\nuse = []\n[agents]\nname = "mine"\n[agents.kinds.skill]\nrequires = ["A"]\n'
    found = parse_contract(text, "outfitter.toml")
    assert (found.name, found.kind("skill")) == ("mine", Kind("skill", requires=("A",)))


def test_kind_like_another_has_its_rules_and_its_own_whatever_the_order() -> None:
    text = """
    [kinds.third]
    like = "second"
    forbids = ["X_*"]
    [kinds.second]
    like = "first"
    requires = ["B", "A"]
    set = { V = "two" }
    [kinds.first]
    requires = ["A"]
    may_be_empty = ["A"]
    set = { V = "one", W = "{kind} on {backend} by {contract}" }
    """
    found = parse_contract(text, "launch.toml")
    baseline = {"V": "two", "W": "{kind} on {backend} by {contract}"}
    third = Kind("third", requires=("A", "B"), forbids=("X_*",), baseline=baseline, may_be_empty=("A",))
    assert found.kind("third") == third
    assert found.baseline(third, "codex")["W"] == "third on codex by project"


def test_every_mistake_is_told_with_its_line() -> None:
    text = """
name = 3
privat = []
exclusive = ["A-B", "OK_*", "*"]
[kinds.skill]
like = "nobody"
requires = ["A", "1B"]
forbid = []
set = { "C D" = "x", E = "{home}", F = "{{kind}}" }
[kinds."a b"]
"""
    assert mistakes(text) == [
        "2: `name` must be a string, not an integer",
        "3: unknown field `privat`",
        "4: `A-B` is no name of a variable",
        "4: `` is no name of a variable",
        "6: no kind is called `nobody`",
        "7: `1B` is no name of a variable",
        "8: unknown field `forbid`",
        "9: `C D` is no name of a variable",
        "9: {home} stands for nothing",
        "10: `a b` is no name of a kind",
    ]


def test_enforced_kinds_must_exist() -> None:
    assert mistakes('enforce = ["skill", "truck"]') == ["1: no kind is called `truck`"]
    assert parse_contract('enforce = ["truck"]\n[kinds.truck]', "launch.toml").enforce == ("truck",)


def test_circle_of_kinds_is_refused() -> None:
    text = '[kinds.a]\nlike = "b"\n[kinds.b]\nlike = "a"\n'
    assert "2: this kind is like itself" in mistakes(text)
