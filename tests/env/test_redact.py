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
