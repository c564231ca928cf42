"""environment/*: methods that take nothing, and questions about an environment."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import InvalidParams
from outfitter.protocol.environment import BaseParams, DiffParams, NoParams, ResolveParams
from outfitter.protocol.uri import parse
from tests.protocol.test_wishes import POLICY, contracts, policies, texts


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


questions = st.builds(
    ResolveParams,
    st.dictionaries(texts, texts, max_size=3),
    st.none() | policies,
    st.booleans(),
    st.none() | contracts,
    st.none() | st.just(parse("file:///srv/app")),
    st.sampled_from(["names", "values", "secrets"]),
    st.lists(texts, max_size=2).map(tuple),
    st.booleans(),
    st.none() | st.binary(max_size=4),
)


@settings(deadline=None, max_examples=50)
@given(questions)
def test_a_question_survives_the_wire(params: ResolveParams) -> None:
    assert ResolveParams.decode(params.encode()) == params


@settings(deadline=None, max_examples=50)
@given(questions, questions)
def test_a_comparison_survives_the_wire(a: ResolveParams, b: ResolveParams) -> None:
    assert DiffParams.decode(DiffParams(a, b).encode()) == DiffParams(a, b)


@pytest.mark.parametrize(
    "params",
    [
        BaseParams("client", 7, {"A": "1"}),
        BaseParams("merge", 7, {}),
        BaseParams("daemon", 7, None, b"key", {"A": "00ff"}),
    ],
)
def test_a_base_survives_the_wire_and_its_values_stay_out_of_logs(params: BaseParams) -> None:
    assert BaseParams.decode(params.encode()) == params
    assert "'1'" not in repr(params)


def test_a_daemons_own_base_takes_digests_and_no_values() -> None:
    with pytest.raises(InvalidParams, match=r"^missing field `digestKey`$"):
        BaseParams.decode({"rule": "daemon", "pid": 1, "env": {"A": "1"}})


def test_to_explain_needs_the_env_of_the_request() -> None:
    assert ResolveParams.decode({"env": {}}) == ResolveParams({}, None)
    with pytest.raises(InvalidParams, match=r"^missing field `env`$"):
        ResolveParams.decode({"envPolicy": POLICY})
