"""What an executor of a pool is to have."""

from __future__ import annotations

import pytest

from outfitter.core.shape import Shape, size
from outfitter.errors import SettingInvalid


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (1, 1),
        ("4096", 4096),
        ("4GiB", 4 << 30),
        ("512 MiB", 512 << 20),
        ("1.5kib", 1536),
        ("2TiB", 2 << 40),
        ("10MB", 10**7),
        ("7B", 7),
    ],
)
def test_a_size_as_people_write_it(given: int | str, found: int) -> None:
    assert size("memory", given) == found


@pytest.mark.parametrize("given", ["", "GiB", "4G", "-1", 0, "1..2KB", "1e999B", "nan"])
def test_what_is_no_size_is_refused_with_its_name(given: int | str) -> None:
    with pytest.raises(SettingInvalid, match="memory"):
        size("memory", given)


@pytest.mark.parametrize(
    "wrong", [{"cpus": -1.0}, {"gpus": float("inf")}, {"memory": -5}, {"cpus": float("nan")}]
)
def test_a_shape_has_no_negative_parts(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingInvalid, match=next(iter(wrong))):
        Shape(**wrong)  # type: ignore[arg-type]


def test_equal_shapes_are_one_key() -> None:
    one = Shape(2, 4 << 30, labels={"zone": "a", "disk": "ssd"})
    same = Shape(2, 4 << 30, labels={"disk": "ssd", "zone": "a"})
    assert {one: 1}[same] == 1
    assert one != Shape(2, 4 << 30)


def test_a_shape_reads_as_words() -> None:
    assert str(Shape()) == "1 cpu"
    assert str(Shape(2, 4 << 30, 1, {"zone": "a"}, "image:1")) == "2 cpus, 4.0 GiB, 1 gpu, zone=a, image:1"
