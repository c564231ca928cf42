"""What a pool may be told."""

from __future__ import annotations

import os
from typing import Any

import pytest

from outfitter.core.shape import Shape
from outfitter.errors import SettingInvalid
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
