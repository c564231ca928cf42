"""Descriptors are divided: commands and clients cannot take each other's, and some are never given away."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from outfitter.errors import Exhausted
from outfitter.host.descriptors import Descriptors


@pytest.fixture
def limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def of(files: int) -> Descriptors:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return Descriptors()


@pytest.mark.parametrize(
    ("files", "connections", "strangers", "rest"),
    [(256, 56, 14, 154), (1024, 224, 56, 616), (4096, 960, 240, 2640)],
)
@pytest.mark.usefixtures("limit")
def test_each_has_a_share_and_some_are_kept(files: int, connections: int, strangers: int, rest: int) -> None:
    found = of(files)
    assert (found.connections, found.strangers, found.limit) == (connections, strangers, rest)
    assert files - connections - strangers - rest == min(256, files // 8)


@pytest.mark.usefixtures("limit")
def test_what_is_spent_is_refused_until_it_is_given_back() -> None:
    descriptors = of(256)
    descriptors.take(150)
    with pytest.raises(Exhausted, match="have 150 of the 154 that are for them") as caught:
        descriptors.take(5)
    assert caught.value.errno_name == "EMFILE"
    descriptors.take(4)
    descriptors.give_back(5)
    descriptors.take(5)
    assert descriptors.held == 154


@pytest.mark.usefixtures("limit")
def test_what_is_open_already_counts_and_is_never_refused() -> None:
    descriptors = of(256)
    descriptors.adopt(200)
    with pytest.raises(Exhausted):
        descriptors.take(1)
    descriptors.give_back(200)
    assert descriptors.held == 0


@pytest.mark.usefixtures("limit")
def test_another_limit_is_measured_when_it_is_told() -> None:
    descriptors = of(256)
    descriptors.take(150)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    descriptors.measure()
    assert (descriptors.held, descriptors.limit) == (150, 616)
