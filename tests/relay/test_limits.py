"""How much of the service anybody may have."""

from __future__ import annotations

import resource

import pytest

from outfitter.relay.limits import (
    MAX_API_CONNECTIONS,
    MAX_SOCKETS,
    MAX_TUNNELS,
    RelayRoom,
    raise_file_limit,
    room,
)
from outfitter.transport.attempts import PENDING


@pytest.mark.parametrize("files", [0, 1, 64, 100, 256, 1024, 4096, 65536, 1 << 20])
def test_all_together_never_take_more_files_than_there_are(files: int) -> None:
    found = room(files)
    taken = found.sockets + found.api + 2 * found.tunnels + 2 * found.strangers
    assert min(found.sockets, found.api, found.tunnels, found.strangers) >= 1
    assert taken + 64 <= max(files, 64 + 6)


def test_a_usual_limit_is_mostly_for_sockets_and_a_large_one_is_not_used_up() -> None:
    assert room(1024) == RelayRoom(1024, sockets=600, api=120, tunnels=60, strangers=60)
    assert room(1 << 20) == RelayRoom(1 << 20, MAX_SOCKETS, MAX_API_CONNECTIONS, MAX_TUNNELS, PENDING)


def test_the_soft_limit_becomes_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        assert raise_file_limit() == min(hard, 1 << 20)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
