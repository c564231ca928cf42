"""Pipes before they are needed: taken once, never left behind, and no lack of descriptors is hidden."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

from outfitter.host.pipes import Pipes, let_go
from tests.support.machine import own_descriptors


def open_now() -> set[str]:
    return set(own_descriptors())


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    before = open_now()
    made = Pipes()
    yield made
    made.close()
    assert open_now() == before


def closed(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def test_ours_do_not_block_and_theirs_do(pipes: Pipes) -> None:
    pipes.prepare()
    out, out_theirs, error, error_theirs = pipes.take()
    assert [os.get_blocking(fd) for fd in (out, out_theirs, error, error_theirs)] == [
        False,
        True,
        False,
        True,
    ]
    assert not any(os.get_inheritable(fd) for fd in (out, out_theirs, error, error_theirs))
    os.write(out_theirs, b"out")
    os.write(error_theirs, b"error")
    assert (os.read(out, 10), os.read(error, 10)) == (b"out", b"error")
    closed(out, out_theirs, error, error_theirs)


def test_each_is_taken_once(pipes: Pipes) -> None:
    pipes.prepare()
    pipes.prepare()  # no second time
    first, second = pipes.take(), pipes.take()
    assert not set(first) & set(second)
    closed(*first, *second)


def test_where_none_can_be_opened_taking_says_so(pipes: Pipes) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, open_now())) + 1
    for free in (0, 2):  # not even one, and one of the two
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + free, limits[1]))
        held = []
        try:
            while True:  # what is free below
                held.append(os.dup(0))
        except OSError:
            pass
        closed(*held[len(held) - free :] if free else ())
        try:
            pipes.prepare()
            with pytest.raises(OSError, match="Too many open files"):
                pipes.take()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            closed(*held[: len(held) - free])


# Letting go


def test_all_are_let_go_though_one_was_closed_before(pipes: Pipes) -> None:
    ends = pipes.take()
    os.close(ends[1])
    with pytest.raises(OSError, match="Bad file descriptor"):
        let_go(*ends)
    for fd in ends:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_none_and_nothing_are_let_go(pipes: Pipes) -> None:
    let_go()
    let_go(-1)
