"""From the executor's variables to a command's: the request wins, and nothing is lost silently."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.env.origin import EXECUTOR, POLICY_SET, REQUEST, TERMINAL
from outfitter.env.policy import Policy, Verdict
from outfitter.env.resolve import inherit, resolve

from . import oracle
from .strategies import policies, variables

quick = settings(deadline=None, max_examples=40)
shells = st.none() | st.just("/bin/sh")
some_policy = st.none() | policies


def resolved(
    policy: dict[str, Any] | None, server: dict[str, str], request: dict[str, str], shell: str | None
) -> Any:
    return resolve(inherit(None if policy is None else Policy(**policy), server), request, shell)


@quick
@given(some_policy, variables, variables, shells)
def test_the_values_are_those_of_the_rules(
    policy: dict[str, Any] | None, server: dict[str, str], request: dict[str, str], shell: str | None
) -> None:
    start: dict[str, str] = {}
    if policy is not None:
        start = oracle.inherited(
            server,
            policy["inherit"],
            policy["ignore_default_excludes"],
            policy["exclude"],
            dict(policy["set"]),
            policy["include_only"],
        )
    assert resolved(policy, server, request, shell).values == oracle.resolved(start, request, shell)


@quick
@given(some_policy, variables, variables, shells)
def test_the_verdicts_explain_exactly_the_values(
    policy: dict[str, Any] | None, server: dict[str, str], request: dict[str, str], shell: str | None
) -> None:
    outcome = resolved(policy, server, request, shell)
    verdicts = outcome.verdicts()
    assert set(outcome.values) == {verdict.name for verdict in verdicts if verdict.kept}
    assert [verdict.name for verdict in verdicts] == sorted({verdict.name for verdict in verdicts})
    assert [verdict for verdict in verdicts if not verdict.rule] == []
    known = set(request) | (set() if policy is None else set(server) | {name for name, _ in policy["set"]})
    assert known <= {verdict.name for verdict in verdicts}


@quick
@given(some_policy, variables, variables, shells)
def test_what_never_passes_appears_in_no_casing(
    policy: dict[str, Any] | None, server: dict[str, str], request: dict[str, str], shell: str | None
) -> None:
    outcome = resolved(policy, server, request, shell)
    assert [name for name in outcome.values if oracle.never_passes(name)] == []


@quick
@given(policies, variables, variables)
def test_the_request_wins_unfiltered(
    policy: dict[str, Any], server: dict[str, str], request: dict[str, str]
) -> None:
    values = resolved(policy, server, request, None).values
    passing = {name: value for name, value in request.items() if not oracle.never_passes(name)}
    assert {name: values[name] for name in passing} == passing


def test_without_a_policy_nothing_is_inherited() -> None:
    outcome = resolve(inherit(None, {"PATH": "/bin"}), {"A": "1"})
    assert outcome.values == {"A": "1"}
    assert outcome.verdicts() == [Verdict("A", True, REQUEST, "the request's env wins")]


def test_the_history_of_each_layer_is_told() -> None:
    policy = Policy("all", exclude=("D",), set=(("B", "2"), ("C", "2")))
    outcome = resolve(inherit(policy, dict.fromkeys("ABCD", "1")), {"C": "3", "D": "3"})
    assert outcome.values == {"A": "1", "B": "2", "C": "3", "D": "3"}
    assert outcome.verdicts() == [
        Verdict("A", True, EXECUTOR, 'envPolicy.inherit is "all"'),
        Verdict("B", True, POLICY_SET, "envPolicy.set", EXECUTOR),
        Verdict("C", True, REQUEST, "the request's env wins", POLICY_SET),
        Verdict("D", True, REQUEST, "the request's env wins"),  # nothing of D was left to replace
    ]


@pytest.mark.parametrize("name", oracle.NEVER)
def test_a_request_cannot_bring_a_credential_in(name: str) -> None:
    outcome = resolve(inherit(None, {}), {name.lower(): "1"})
    assert outcome.values == {}
    assert outcome.verdicts() == [Verdict(name.lower(), False, REQUEST, "never passed to a command")]


# Terminals


def test_a_terminal_gets_a_shell_where_nothing_set_one() -> None:
    outcome = resolve(inherit(None, {}), {}, "/bin/sh")
    assert outcome.values == {"SHELL": "/bin/sh"}
    assert outcome.verdicts() == [Verdict("SHELL", True, TERMINAL, "a terminal's shell needs SHELL")]


def test_an_inherited_or_given_shell_stays() -> None:
    from_executor = resolve(inherit(Policy("core"), {"SHELL": "/bin/zsh"}), {}, "/bin/sh")
    from_request = resolve(inherit(None, {}), {"SHELL": ""}, "/bin/sh")
    assert [from_executor.values, from_request.values] == [{"SHELL": "/bin/zsh"}, {"SHELL": ""}]
    assert [from_executor.verdicts(), from_request.verdicts()] == [
        [Verdict("SHELL", True, EXECUTOR, 'envPolicy.inherit is "core"')],
        [Verdict("SHELL", True, REQUEST, "the request's env wins")],
    ]


def test_an_excluded_shell_is_replaced_for_a_terminal() -> None:
    outcome = resolve(inherit(Policy("none"), {"SHELL": "/bin/zsh"}), {}, "/bin/sh")
    assert outcome.values == {"SHELL": "/bin/sh"}
    assert outcome.verdicts() == [Verdict("SHELL", True, TERMINAL, "a terminal's shell needs SHELL")]


def test_pipes_get_no_shell() -> None:
    assert resolve(inherit(Policy("none"), {"SHELL": "/bin/zsh"}), {}).values == {}


def test_a_shell_in_other_letters_is_another_variable() -> None:
    assert resolve(inherit(None, {}), {"shell": "x"}, "/bin/sh").values == {"shell": "x", "SHELL": "/bin/sh"}
