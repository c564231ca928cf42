"""environment/*: methods that take nothing, and the policy whose members are all required."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import InvalidParams
from outfitter.protocol.environment import EnvPolicyParams, ExplainParams, NoParams
from outfitter.protocol.fields import Fields

texts = st.text(max_size=8)
policies = st.builds(
    EnvPolicyParams,
    st.sampled_from(["core", "all", "none"]),
    st.booleans(),
    st.lists(texts, max_size=3).map(tuple),
    st.dictionaries(texts, texts, max_size=3).map(lambda pairs: tuple(pairs.items())),
    st.lists(texts, max_size=3).map(tuple),
)
POLICY: dict[str, Any] = {
    "inherit": "all",
    "ignoreDefaultExcludes": True,
    "exclude": [],
    "set": {},
    "includeOnly": ["A"],
}


@pytest.mark.parametrize("params", [None, {}])
def test_no_params_are_null_or_an_empty_object(params: object) -> None:
    assert NoParams.decode(params) == NoParams()


@pytest.mark.parametrize(
    ("params", "name"),
    [({"a": 1}, "map"), ([], "sequence"), (0, "number"), (False, "boolean `false`"), ("", 'string ""')],
)
def test_anything_else_is_too_much(params: object, name: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        NoParams.decode(params)
    assert str(caught.value) == f"invalid type: {name}, expected unit"


@settings(deadline=None, max_examples=50)
@given(policies)
def test_a_policy_survives_the_wire(policy: EnvPolicyParams) -> None:
    assert EnvPolicyParams.decode(Fields(policy.encode(), "ExecEnvPolicy")) == policy


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(texts, texts, max_size=3), st.none() | policies, st.booleans())
def test_explain_params_survive_the_wire(
    env: dict[str, str], policy: EnvPolicyParams | None, tty: bool
) -> None:
    params = ExplainParams(env, policy, tty)
    assert ExplainParams.decode(params.encode()) == params


@pytest.mark.parametrize("name", sorted(POLICY))
def test_no_member_of_a_policy_may_be_missing_or_null(name: str) -> None:
    without = {key: value for key, value in POLICY.items() if key != name}
    with pytest.raises(InvalidParams, match=f"^missing field `{name}`$"):
        EnvPolicyParams.decode(Fields(without, "ExecEnvPolicy"))
    with pytest.raises(InvalidParams, match=r"^invalid type: null, expected "):
        EnvPolicyParams.decode(Fields({**POLICY, name: None}, "ExecEnvPolicy"))


@pytest.mark.parametrize("spelling", ["Core", "ALL", "", "inherit"])
def test_what_is_inherited_is_spelled_exactly(spelling: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        EnvPolicyParams.decode(Fields({**POLICY, "inherit": spelling}, "ExecEnvPolicy"))
    assert str(caught.value) == f"unknown variant `{spelling}`, expected one of `core`, `all`, `none`"


def test_to_explain_needs_the_env_of_the_request() -> None:
    assert ExplainParams.decode({"env": {}}) == ExplainParams({}, None, False)
    with pytest.raises(InvalidParams, match=r"^missing field `env`$"):
        ExplainParams.decode({"envPolicy": POLICY})
