"""The policy step by step: what each keeps and drops, and the rule each verdict names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from outfitter.env.names import NEVER_INHERITED
from outfitter.env.origin import EXECUTOR, POLICY_SET
from outfitter.env.policy import CORE_NAMES, Policy, Verdict, apply

from . import oracle
from .strategies import policies, variables

quick = settings(deadline=None, max_examples=40)


def verdicts(policy: Policy, *names: str) -> list[Verdict]:
    return list(apply(policy, dict.fromkeys(names, "1")).verdicts.values())


def kept(name: str, rule: str) -> Verdict:
    return Verdict(name, True, EXECUTOR, rule)


def dropped(name: str, rule: str) -> Verdict:
    return Verdict(name, False, EXECUTOR, rule)


# Step 1


def test_all_inherits_everything() -> None:
    rule = 'envPolicy.inherit is "all"'
    assert verdicts(Policy("all"), "A", "b", "") == [kept("A", rule), kept("b", rule), kept("", rule)]


def test_none_inherits_nothing() -> None:
    rule = 'envPolicy.inherit is "none"'
    assert verdicts(Policy("none"), "PATH", "A") == [dropped("PATH", rule), dropped("A", rule)]


def test_core_inherits_eleven_names_in_any_case() -> None:
    names = [*oracle.CORE, *(name.lower() for name in oracle.CORE)]
    assert frozenset(oracle.CORE) == CORE_NAMES
    assert verdicts(Policy("core"), *names) == [kept(name, 'envPolicy.inherit is "core"') for name in names]


def test_core_inherits_nothing_else() -> None:
    rule = 'envPolicy.inherit is "core" and the name is not in its list'
    names = ("PATHS", "XPATH", "LC_TIME", "TERM", "PWD", "")
    assert verdicts(Policy("core"), *names) == [dropped(name, rule) for name in names]


# Step 2


def test_default_excludes_drop_what_looks_like_a_secret() -> None:
    assert verdicts(Policy("all"), "API_KEY", "monkey", "a_secret_b", "TOKENS", "KEEP", "TOKE_N") == [
        dropped("API_KEY", "default exclude *KEY*"),
        dropped("monkey", "default exclude *KEY*"),
        dropped("a_secret_b", "default exclude *SECRET*"),
        dropped("TOKENS", "default exclude *TOKEN*"),
        kept("KEEP", 'envPolicy.inherit is "all"'),
        kept("TOKE_N", 'envPolicy.inherit is "all"'),
    ]


def test_default_excludes_can_be_ignored() -> None:
    assert verdicts(Policy("all", ignore_default_excludes=True), "API_KEY") == [
        kept("API_KEY", 'envPolicy.inherit is "all"')
    ]


# Step 3


def test_exclude_drops_by_pattern_and_names_it_as_written() -> None:
    assert verdicts(Policy("all", exclude=("aws_*", "B")), "AWS_REGION", "b", "C") == [
        dropped("AWS_REGION", "envPolicy.exclude aws_*"),
        dropped("b", "envPolicy.exclude B"),
        kept("C", 'envPolicy.inherit is "all"'),
    ]


# Step 4


def test_set_overrides_and_is_not_excluded() -> None:
    policy = Policy("all", exclude=("A",), set=(("A", "2"), ("MY_KEY", "3"), ("B", "4")))
    inherited = apply(policy, {"B": "1"})
    assert inherited.values == {"A": "2", "MY_KEY": "3", "B": "4"}
    assert list(inherited.verdicts.values()) == [
        Verdict("B", True, POLICY_SET, "envPolicy.set"),
        Verdict("A", True, POLICY_SET, "envPolicy.set"),
        Verdict("MY_KEY", True, POLICY_SET, "envPolicy.set"),
    ]


# Step 5


def test_include_only_keeps_nothing_else_not_even_what_is_set() -> None:
    policy = Policy("all", set=(("A_SET", "2"), ("B_SET", "3")), include_only=("a*",))
    inherited = apply(policy, {"A": "1", "B": "1"})
    rule = "no pattern of envPolicy.includeOnly matches"
    assert inherited.values == {"A": "1", "A_SET": "2"}
    assert inherited.verdicts == {
        "A": kept("A", 'envPolicy.inherit is "all"'),
        "B": dropped("B", rule),
        "A_SET": Verdict("A_SET", True, POLICY_SET, "envPolicy.set"),
        "B_SET": Verdict("B_SET", False, POLICY_SET, rule),
    }


def test_include_only_of_an_empty_pattern_keeps_the_empty_name_alone() -> None:
    assert apply(Policy("all", include_only=("",)), {"A": "1", "": "2"}).values == {"": "2"}


def test_include_only_brings_nothing_back() -> None:
    policy = Policy("all", exclude=("B",), include_only=("*",))
    assert apply(policy, {"A": "1", "B": "2", "MY_KEY": "3"}).values == {"A": "1"}


# Step 6


@pytest.mark.parametrize("name", oracle.NEVER)
def test_credentials_of_the_executor_never_pass(name: str) -> None:
    policy = Policy("all", ignore_default_excludes=True, set=((name.lower(), "2"),), include_only=("*",))
    inherited = apply(policy, {name: "1", name.title(): "1"})
    assert inherited.values == {}
    assert inherited.verdicts == {
        name: dropped(name, "never passed to a command"),
        name.title(): dropped(name.title(), "never passed to a command"),
        name.lower(): Verdict(name.lower(), False, POLICY_SET, "never passed to a command"),
    }


def test_the_switch_of_the_executor_is_withheld_in_its_own_spelling_only() -> None:
    switch = oracle.OWN_SWITCH
    policy = Policy("all", set=((switch, "2"),))
    assert apply(policy, {switch: "1", switch.lower(): "1"}).values == {switch.lower(): "1"}


def test_the_names_that_never_pass_are_those_of_the_rules() -> None:
    assert frozenset(oracle.NEVER) == NEVER_INHERITED


# All of them together


@quick
@given(policies, variables)
def test_the_values_are_those_of_the_rules(policy: dict[str, Any], server: dict[str, str]) -> None:
    inherited = apply(Policy(**policy), server)
    assert inherited.values == oracle.inherited(
        server,
        policy["inherit"],
        policy["ignore_default_excludes"],
        policy["exclude"],
        dict(policy["set"]),
        policy["include_only"],
    )


@quick
@given(policies, variables)
def test_every_name_has_a_verdict_and_the_kept_ones_have_values(
    policy: dict[str, Any], server: dict[str, str]
) -> None:
    inherited = apply(Policy(**policy), server)
    assert set(inherited.verdicts) == set(server) | {name for name, _ in policy["set"]}
    assert [name for name, verdict in inherited.verdicts.items() if verdict.name != name] == []
    assert set(inherited.values) == {name for name, verdict in inherited.verdicts.items() if verdict.kept}
    assert [verdict for verdict in inherited.verdicts.values() if not verdict.rule] == []


@quick
@given(policies, variables)
def test_the_starting_variables_are_left_alone(policy: dict[str, Any], server: dict[str, str]) -> None:
    before = dict(server)
    compiled = Policy(**policy)
    first = apply(compiled, server)
    assert server == before
    assert apply(compiled, server).values == first.values  # and so is the policy
