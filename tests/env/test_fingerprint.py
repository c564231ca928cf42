"""Fingerprints: equal for the same, different for anything else, and telling nothing."""

from __future__ import annotations

import hmac
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.env.fingerprint import contract_fp, env_fp, value_digest
from outfitter.env.layer import Layer, Operation
from outfitter.env.origin import EXECUTOR
from outfitter.env.policy import Policy
from outfitter.env.resolve import Rules, resolve

quick = settings(deadline=None, max_examples=60)
KEY = b"k" * 32
texts = st.text(alphabet=st.sampled_from("A1:\u00e9\udcff"), max_size=3)
maps = st.dictionaries(texts, texts, max_size=4)


@quick
@given(maps, maps)
def test_two_environments_have_one_fingerprint_exactly_when_they_are_the_same(
    one: dict[str, str], other: dict[str, str]
) -> None:
    assert (env_fp(KEY, one) == env_fp(KEY, other)) is (one == other)


@quick
@given(maps, st.randoms(use_true_random=False))
def test_order_does_not_count(values: dict[str, str], chance: random.Random) -> None:
    pairs = list(values.items())
    chance.shuffle(pairs)
    assert env_fp(KEY, dict(pairs)) == env_fp(KEY, values)


def test_a_boundary_between_name_and_value_counts() -> None:
    assert len({env_fp(KEY, {"AB": "C"}), env_fp(KEY, {"A": "BC"}), env_fp(KEY, {"A": "B", "C": ""})}) == 3


def test_what_shells_keep_does_not_count() -> None:
    assert env_fp(KEY, {"A": "1", "PWD": "/x", "SHLVL": "3", "_": "y"}) == env_fp(KEY, {"A": "1"})
    assert env_fp(KEY, {"A": "1", "ID": "7"}, ["ID"]) == env_fp(KEY, {"A": "1"})


def test_another_key_gives_another_fingerprint() -> None:
    assert env_fp(b"other", {"A": "1"}) != env_fp(KEY, {"A": "1"})
    assert value_digest(b"other", "A", "1") != value_digest(KEY, "A", "1")


def test_another_process_gives_the_same() -> None:
    program = (
        "from outfitter.env.fingerprint import env_fp, value_digest;"
        "print(env_fp(b'k' * 32, {'B': '2', 'A': '1'}), value_digest(b'k' * 32, 'A', '1'))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.split() == [env_fp(KEY, {"A": "1", "B": "2"}), value_digest(KEY, "A", "1")]


@quick
@given(st.tuples(texts, texts), st.tuples(texts, texts))
def test_a_digest_stands_for_a_name_and_its_value(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (value_digest(KEY, *one) == value_digest(KEY, *other)) is (one == other)


# Of the inputs


def fingerprint(policy: Policy | None = None, rules: Rules | None = None, **layer: Any) -> str:
    said: dict[str, Any] = {"level": 3, "id": "project", "origin": EXECUTOR, "values": {"A": "1"}} | layer
    outcome = resolve([Layer(**said)], [policy or Policy("all")], None, (), rules)
    return contract_fp(KEY, outcome)


def test_the_same_inputs_have_the_same_fingerprint() -> None:
    assert fingerprint() == fingerprint()
    assert fingerprint(cost_ms=3.5) == fingerprint()  # how long it took is no input


def test_every_input_counts() -> None:
    operation = Operation("PATH", "prepend", ("/x",))
    others = [
        fingerprint(),
        fingerprint(level=4),
        fingerprint(id="other"),
        fingerprint(producer="direnv 2.32.1"),
        fingerprint(state="stale"),
        fingerprint(digest="sha256:1"),
        fingerprint(root="/p"),
        fingerprint(unset=["B"]),
        fingerprint(operations=[operation]),
        fingerprint(operations=[operation, operation]),
        fingerprint(Policy("core")),
        fingerprint(Policy("all", name="other")),
        fingerprint(Policy("all", set=(("A", "2"),))),
        fingerprint(rules=Rules(tidy=False)),
        fingerprint(rules=Rules(total=7)),
        fingerprint(rules=Rules(allow_from=frozenset(["L3"]))),
        fingerprint(rules=Rules(list_names=frozenset(["PATH"]))),
        fingerprint(rules=Rules(allow_code_loading={"project": frozenset(["BASH_ENV"])})),
    ]
    assert len(set(others)) == len(others)


@pytest.mark.parametrize("size", [0, 1, 32, 63, 64, 65, 200])
def test_digests_are_those_of_hmac(size: int) -> None:
    key = bytes(range(size))
    told = hmac.new(key, b"4:NAME5:value", "sha256").hexdigest()
    assert env_fp(key, {"NAME": "value"}) == told
    assert value_digest(key, "NAME", "value") == told[:32]
