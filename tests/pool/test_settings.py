"""What a pool may be told."""

from __future__ import annotations

import os
from typing import Any

import pytest

import outfitter.sync
from outfitter.core.shape import Shape
from outfitter.errors import SettingInvalid
from outfitter.pool.pool import Pool
from outfitter.pool.settings import settle, shape_of, stands_by


def test_this_machine_has_as_many_executors_as_cores() -> None:
    assert settle("local", {}).bounds.size == os.cpu_count()


def test_another_engine_must_be_told_how_many() -> None:
    with pytest.raises(SettingInvalid, match="needs `size`"):
        settle("ray", {})
    assert settle("ray", {"size": 4}).bounds.size == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 0},
        {"size": 5000},
        {"warm": -1},
        {"size": 2, "warm": 3},
        {"idle": 0},
        {"start_timeout": float("nan")},
        {"queue_timeout": -1},
        {"limits": "some"},
        {"home": "there"},
        {"setup": "make deps"},
        {"memory": "much"},
        {"cpus": -2},
    ],
    ids=str,
)
def test_what_cannot_be_used_is_named(wrong: Any) -> None:
    name = list(wrong)[-1]
    with pytest.raises(SettingInvalid, match=f"^{name}"):
        settle("local", wrong)


@pytest.mark.parametrize("wrong", ["limit", "sise", "memroy"])
def test_an_argument_that_there_is_not_is_refused(wrong: str) -> None:
    given: Any = {wrong: "required"}
    with pytest.raises(
        TypeError, match=rf"^Pool\(\) got an unexpected keyword argument '{wrong}': did you mean"
    ):
        Pool("local", **given)
    with pytest.raises(TypeError, match=rf"^lease\(\) got an unexpected keyword argument '{wrong}'"):
        Pool("local").lease(**given)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        outfitter.sync.Pool("local", **given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": "3"},
        {"size": 2.5},
        {"warm": 0.5},
        {"idle": None},
        {"cpus": "2"},
        {"queue_timeout": "5"},
        {"relay": 3},
        {"labels": "zone=a"},
        {"labels": {"zone": ["a"]}},
        {"env": "A=1"},
        {"env": {"A": 1}},
        {"env": {"": "a"}},
        {"env": {"A=B": "a"}},
        {"env": {"A": "a\0"}},
    ],
    ids=str,
)
def test_an_argument_of_another_kind_is_named(wrong: Any) -> None:
    with pytest.raises(SettingInvalid, match=f"^{next(iter(wrong))}: "):
        Pool("local", **wrong)


@pytest.mark.parametrize("wrong", [{"group": ["a"]}, {"cpus": "1"}, {"labels": [1]}, {"name": 3}], ids=str)
def test_an_argument_of_a_lease_of_another_kind_is_named(wrong: Any) -> None:
    pool = Pool("local", size=1, queue_timeout=None)
    pool.lease(queue_timeout=None)
    with pytest.raises(SettingInvalid, match=f"^{next(iter(wrong))}: "):
        pool.lease(**wrong)


def test_a_value_that_cannot_be_used_is_not_told() -> None:
    with pytest.raises(SettingInvalid) as caught:
        Pool("local", env={"TOKEN": "s3cret\0"})
    assert "s3cret" not in str(caught.value)


def test_a_lease_has_of_the_pool_what_it_does_not_say() -> None:
    default = Shape(2, 4 << 30, 1, {"zone": "a"}, "image:1")
    assert shape_of({}, default) == default
    assert shape_of({"cpus": 8, "memory": "1GiB"}, default) == Shape(8, 1 << 30, 1, {"zone": "a"}, "image:1")


def test_variables_of_a_pool_are_in_no_text() -> None:
    assert "s3cret" not in repr(settle("local", {"env": {"TOKEN": "s3cret"}}))


def test_who_has_a_server_stand_by() -> None:
    small, large = Shape(memory=1 << 29), Shape(memory=1 << 30)
    said = [
        stands_by(settle("local", wishes), shape)
        for wishes in ({}, {"standby": True})
        for shape in (small, large)
    ]
    assert said == [False, True, True, True]
    assert not stands_by(settle("local", {"standby": False}), large)
