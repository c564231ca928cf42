"""Secrets: known by their names or their looks, and masked wherever they turn up."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outfitter.env.redact import SHORTEST_MASKED, Secrets, looks_secret, mask_pairs

quick = settings(deadline=None, max_examples=100)


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "my_secret",
        "PGPASSWORD",
        "MYSQL_PASSWD",
        "API_KEY",
        "OPENAI_APIKEY",
        "GH_PAT",
        "SENTRY_DSN",
    ],
)
def test_usual_names_of_secrets(name: str) -> None:
    assert Secrets().holds(name, "x")


@pytest.mark.parametrize("name", ["PATH", "KEYBOARD", "SSH_AUTH_SOCK", "KEY", "PATTERN", "MY_KEY_FILE"])
def test_usual_names_of_others(name: str) -> None:
    assert not Secrets().holds(name, "/x")


def test_a_user_can_add_names() -> None:
    assert Secrets(["internal_*"]).holds("INTERNAL_URL", "x")
    assert not Secrets().holds("INTERNAL_URL", "x")


@pytest.mark.parametrize(
    "value",
    [
        "postgres://user:pass@host/db",
        "https://:pass@host",
        "redis://user:p@ss@host:1/0",
        "https://pypi.org/simple https://user:pass@host/simple",
        "https://proxy.golang.org,https://user:pass@host,direct",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nxyz",
        "-----BEGIN PRIVATE KEY-----",
    ],
)
def test_some_values_look_secret(value: str) -> None:
    assert looks_secret(value) and Secrets().holds("A", value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "https://host/path",
        "https://user@host",
        "https://user:@host",
        "https://host:80/a@b:c",
        "https://host/simple https://user@host:80/simple",
        "git@host:repo",
        "-----BEGIN CERTIFICATE-----",
        "a:b@c",
    ],
)
def test_others_do_not(value: str) -> None:
    assert not looks_secret(value)


# Masking

letters = st.text(alphabet="ab", min_size=SHORTEST_MASKED, max_size=9)


@quick
@given(st.lists(st.sampled_from("abX") | letters, max_size=8).map("".join), st.lists(letters, max_size=3))
@example("aaaaaaaaa", ["aaaaaa", "aaaaaaa"])
@example("aaaaaabbbbbb", ["aaaaaab", "abbbbbb"])
def test_no_part_of_a_secret_stays(text: str, values: list[str]) -> None:
    covered = [False] * len(text)
    for value in values:
        for at in range(len(text)):
            if text.startswith(value, at):
                covered[at : at + len(value)] = [True] * len(value)
    told = mask_pairs(text, [("N", value) for value in values])
    plain = "".join(mark for mark, is_covered in zip(text, covered, strict=True) if not is_covered)
    assert told.replace("[secret:N]", "") == plain
    assert [value for value in values if value in told] == []


def test_a_mask_names_the_longest_that_starts_there() -> None:
    secrets = {"A": "abcdef", "B": "abcdefgh", "SHORT": "xyz"}
    assert mask_pairs("1 abcdefgh 2 abcdef 3 xyz", secrets.items()) == "1 [secret:B] 2 [secret:A] 3 xyz"


def test_a_mask_is_not_masked_again() -> None:
    assert (
        mask_pairs("a secret: hunter22", {"A": "hunter22", "B": "secret"}.items())
        == "a [secret:B]: [secret:A]"
    )


def test_text_without_secrets_stays() -> None:
    assert mask_pairs("nothing here", [("A", "hunter22")]) == "nothing here"
    assert mask_pairs("", [("A", "")]) == ""


def each_occurrence(text: str, secrets: list[tuple[str, str]]) -> str:
    """The rule, letter by letter: what lies in any occurrence goes, and the first to begin there is named."""
    begins: dict[int, list[tuple[int, str]]] = {}
    hidden = set()
    for name, value in secrets:
        for at in range(len(text)):
            if len(value) >= SHORTEST_MASKED and text.startswith(value, at):
                begins.setdefault(at, []).append((-len(value), name))
                hidden.update(range(at, at + len(value)))
    told, covered = "", 0
    for at, mark in enumerate(text):
        if at in begins:
            if at >= covered:
                told += f"[secret:{min(begins[at])[1]}]"
            covered = max(covered, at - min(begins[at])[0])
        if at not in hidden:
            told += mark
    return told


@given(
    st.text(alphabet="ab", max_size=40),
    st.lists(st.tuples(st.sampled_from("XYZ"), st.text(alphabet="ab", min_size=4, max_size=9)), max_size=5),
)
@example("a" * 40, [("X", "a" * 6), ("Y", "a" * 7)])
@example("abaabaabaaba", [("X", "abaaba")])
@example("aaaaaaaaaaaa", [("X", "aaaaaa")])
def test_values_that_overlap_with_themselves_are_masked_as_each_alone(
    text: str, secrets: list[tuple[str, str]]
) -> None:
    assert mask_pairs(text, secrets) == each_occurrence(text, secrets)
