"""What the environment of a command shall be: all members of a policy are required, none of a contract is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import InvalidParams
from outfitter.protocol.fields import Fields
from outfitter.protocol.wishes import ContractParams, EnvPolicyParams

texts = st.text(max_size=8)
policies = st.builds(
    EnvPolicyParams,
    st.sampled_from(["core", "all", "none"]),
    st.booleans(),
    st.lists(texts, max_size=3).map(tuple),
    st.dictionaries(texts, texts, max_size=3).map(lambda pairs: tuple(pairs.items())),
    st.lists(texts, max_size=3).map(tuple),
)
contracts = st.builds(
    ContractParams,
    st.sampled_from(["user", "model"]),
    st.lists(texts, max_size=2).map(tuple),
    st.sampled_from([None, "allow", "strip", "reject"]),
    st.sampled_from([None, "enforce", "repair", "report"]),
)
POLICY: dict[str, Any] = {
    "inherit": "all",
    "ignoreDefaultExcludes": True,
    "exclude": [],
    "set": {},
    "includeOnly": ["A"],
}


@settings(deadline=None, max_examples=50)
@given(policies)
def test_a_policy_survives_the_wire(policy: EnvPolicyParams) -> None:
    assert EnvPolicyParams.decode(Fields(policy.encode(), "ExecEnvPolicy")) == policy


def test_what_a_contract_does_not_say_is_left_to_the_executor() -> None:
    assert ContractParams.decode(Fields({}, "ContractParams")) == ContractParams("user", (), None, None)
    with pytest.raises(InvalidParams, match="unknown variant `nobody`"):
        ContractParams.decode(Fields({"author": "nobody"}, "ContractParams"))


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
