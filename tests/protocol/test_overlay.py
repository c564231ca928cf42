"""Params of environment/overlay/*: producers' words are not read here, everything around them is."""

from __future__ import annotations

from typing import Any

import pytest

from outfitter.env.lifecycle import EVENTS as LIFECYCLE
from outfitter.errors import InvalidParams
from outfitter.protocol.fields import Fields
from outfitter.protocol.overlay import EVENTS, DropParams, EventParams, ListParams, PutParams
from outfitter.protocol.wishes import ContractParams

PUT: dict[str, Any] = {"scope": "s", "producer": "hook:h"}


def test_words_of_a_producer_come_through_as_they_are() -> None:
    told = {"set": {"A": 1, "B": None}, "sett": {}, "unset": "A"}
    params = PutParams.decode({**PUT, **told, "strict": True, "merge": True, "order": ["hook:h"]})
    assert params == PutParams("s", "hook:h", told, strict=True, merge=True, order=("hook:h",))
    assert PutParams.decode(params.encode()) == params


def test_params_show_no_values() -> None:
    assert "hush" not in repr(PutParams("s", "user", {"set": {"A": "hush"}}))


@pytest.mark.parametrize(
    "params",
    [
        PutParams("s", "user", {}),
        ListParams("s"),
        DropParams("s", "user"),
        DropParams("s", None),
        DropParams("s", "user", ("A",)),
        EventParams("s", "clear"),
        EventParams("s", "fork", "t", ("A",), True),
    ],
    ids=repr,
)
def test_what_is_written_is_read_again(params: Any) -> None:
    assert type(params).decode(params.encode()) == params


@pytest.mark.parametrize(
    ("decode", "params", "told"),
    [
        (PutParams.decode, {"scope": "s"}, "missing field `producer`"),
        (PutParams.decode, {**PUT, "strict": 1}, "expected a boolean"),
        (PutParams.decode, {**PUT, "order": "x"}, "expected a sequence"),
        (ListParams.decode, {}, "missing field `scope`"),
        (DropParams.decode, {"scope": "s", "producer": "user", "names": [1]}, "expected a string"),
        (EventParams.decode, {"scope": "s", "event": "sleep"}, "unknown variant `sleep`"),
        (EventParams.decode, {"scope": "s", "event": "fork", "to": 1}, "expected a string"),
        (EventParams.decode, {"scope": "s", "event": "fork", "hideSecrets": "x"}, "expected a boolean"),
    ],
)
def test_what_is_around_them_is_checked(decode: Any, params: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidParams, match=told):
        decode(params)


def test_events_are_those_of_the_life_cycle() -> None:
    assert EVENTS == LIFECYCLE


def test_a_command_names_its_session_and_its_overlays() -> None:
    # O10
    params = ContractParams(scope="s", overlays=("rocm", "msvc"))
    assert params.encode() == {"author": "user", "scope": "s", "overlays": ["rocm", "msvc"]}
    assert ContractParams.decode(Fields(params.encode(), "ContractParams")) == params
    assert ContractParams.decode(Fields({}, "ContractParams")) == ContractParams()
