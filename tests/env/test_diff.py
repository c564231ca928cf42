"""Two environments compared: complete, reversible, and silent about values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.env.diff import VariableChange, diff, diff_digests, encode
from outfitter.env.fingerprint import value_digest
from outfitter.env.lists import LIST_NAMES
from outfitter.env.names import SHELL_MAINTAINED
from outfitter.env.redact import Secrets
from outfitter.record import replace

from .strategies import settings_of_a_layer

quick = settings(deadline=None, max_examples=100)


def compare(
    a: dict[str, str], b: dict[str, str], ignore: frozenset[str] = SHELL_MAINTAINED
) -> list[VariableChange]:
    return diff(a, b, list_names=LIST_NAMES, secrets=Secrets(), ignore=ignore)


def apply(differences: list[VariableChange], values: dict[str, str]) -> dict[str, str]:
    """The environment after the differences."""
    after = {one.name: one.after for one in differences}
    return {name: value for name, value in {**values, **after}.items() if value is not None}


def reverse(differences: list[VariableChange]) -> list[VariableChange]:
    """What turns `b` back into `a`."""
    kinds = {"added": "removed", "removed": "added", "changed": "changed"}
    return [
        replace(
            one,
            kind=kinds[one.kind],
            segments_added=one.segments_removed,
            segments_removed=one.segments_added,
            before=one.after,
            after=one.before,
        )
        for one in differences
    ]


@quick
@given(settings_of_a_layer, settings_of_a_layer)
def test_a_difference_can_be_applied_and_taken_back(a: dict[str, str], b: dict[str, str]) -> None:
    changes = compare(a, b, frozenset())
    assert apply(changes, a) == b
    assert apply(reverse(changes), b) == a
    assert reverse(changes) == compare(b, a, frozenset())
    assert (changes == []) is (a == b)
    assert [one.name for one in changes] == sorted(one.name for one in changes)


@quick
@given(settings_of_a_layer, settings_of_a_layer)
def test_digests_tell_the_same_names(a: dict[str, str], b: dict[str, str]) -> None:
    def digests(values: dict[str, str]) -> dict[str, str | None]:
        return {name: value_digest(b"key", name, value) for name, value in values.items()}

    told = [(one.name, one.kind) for one in diff_digests(digests(a), digests(b))]
    assert told == [(one.name, one.kind) for one in compare(a, b)]


def test_each_kind() -> None:
    a = {"GONE": "1", "SAME": "1", "OTHER": "1", "PWD": "/a", "MY_TOKEN": "1"}
    b = {"NEW": "2", "SAME": "1", "OTHER": "2", "PWD": "/b", "MY_TOKEN": "2"}
    changes = compare(a, b)
    assert changes == [
        VariableChange("GONE", "removed", before="1"),
        VariableChange("MY_TOKEN", "changed", secret=True, before="1", after="2"),
        VariableChange("NEW", "added", after="2"),
        VariableChange("OTHER", "changed", before="1", after="2"),
    ]
    assert repr(changes[1]) == "VariableChange(~MY_TOKEN)"


@pytest.mark.parametrize(
    ("before", "after", "added", "removed", "moved"),
    [
        ("/a:/b", "/x:/a:/b", ("/x",), (), False),
        ("/a:/b", "/b", (), ("/a",), False),
        ("/a:/b", "/b:/a", (), (), True),
        ("/a:/b:/c", "/c:/x:/a", ("/x",), ("/b",), True),
        ("/a:/a", "/a", (), ("/a",), False),
        ("/a:", "/a", (), ("",), False),
        (None, "/a:/b", ("/a", "/b"), (), False),
        ("/a", None, (), ("/a",), False),
    ],
)
def test_a_list_is_compared_entry_by_entry(
    before: str | None, after: str | None, added: tuple[str, ...], removed: tuple[str, ...], moved: bool
) -> None:
    a = {} if before is None else {"PATH": before}
    b = {} if after is None else {"PATH": after}
    (change,) = compare(a, b)
    assert (change.segments_added, change.segments_removed, change.moved) == (added, removed, moved)


def test_a_secret_without_a_digest_is_there_or_not() -> None:
    a, b = {"A_KEY": None, "B_KEY": None, "C": "d1"}, {"A_KEY": None, "C": None, "D_KEY": None}
    assert diff_digests(a, b) == [
        VariableChange("B_KEY", "removed", secret=True),
        VariableChange("D_KEY", "added", secret=True),
    ]


# Telling


def test_what_is_told_depends_on_what_was_asked_for() -> None:
    a = {"PATH": "/a:/b", "A": "old-value", "MY_TOKEN": "old-token"}
    b = {"PATH": "/b:/x/new-token:/a", "A": "new-value of new-token", "MY_TOKEN": "new-token"}
    changes = compare(a, b)
    hidden = Secrets().among(a) + Secrets().among(b)
    path = {
        "name": "PATH",
        "kind": "changed",
        "secret": False,
        "segmentsAdded": ["/x/[secret:MY_TOKEN]"],
        "moved": True,
    }
    assert [encode(one, hidden=hidden) for one in changes] == [
        {"name": "A", "kind": "changed", "secret": False},
        {"name": "MY_TOKEN", "kind": "changed", "secret": True},
        path,
    ]
    assert [encode(one, "values", hidden) for one in changes] == [
        {
            "name": "A",
            "kind": "changed",
            "secret": False,
            "before": "old-value",
            "after": "new-value of [secret:MY_TOKEN]",
        },
        {"name": "MY_TOKEN", "kind": "changed", "secret": True},
        {**path, "before": "/a:/b", "after": "/b:/x/[secret:MY_TOKEN]:/a"},
    ]
    assert encode(changes[1], "secrets", hidden) == {
        "name": "MY_TOKEN",
        "kind": "changed",
        "secret": True,
        "before": "old-token",
        "after": "new-token",
    }


@quick
@given(
    st.dictionaries(
        st.sampled_from(["A", "PATH", "MY_KEY", "\udcff"]), st.sampled_from(["", "/v1:/v2", "\udc80"])
    ),
    st.dictionaries(st.sampled_from(["A", "PATH", "MY_KEY", "\udcff"]), st.sampled_from(["", "/v3:/v1"])),
    st.sampled_from(["names", "values", "secrets"]),
)
def test_what_is_told_is_json_and_has_the_values_only_when_asked(
    a: dict[str, str], b: dict[str, str], show: str
) -> None:
    for one in compare(a, b):
        told = json.loads(json.dumps(encode(one, show)).encode())
        assert ("before" in told) is (
            one.before is not None and show != "names" and (show, one.secret) != ("values", True)
        )
        if one.name == "MY_KEY" and show != "secrets":
            assert "/v" not in json.dumps(told)
