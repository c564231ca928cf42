"""Snapshots of a session: which is used, when one is taken again, and how many are kept."""

from __future__ import annotations

from outfitter.core.snapshots import (
    ATTEMPTS,
    PAUSE_SECONDS,
    SNAPSHOTS,
    TOTAL_BYTES,
    SnapshotCache,
    Taken,
    start_of,
)
from outfitter.env.layer import SNAPSHOT, Layer, Operation
from outfitter.env.origin import SHELL_SNAPSHOT
from outfitter.shell.state import STATE_BYTES, ShellState


def layer(state: str = "applied", **values: str) -> Layer:
    return Layer(SNAPSHOT, "shell-snapshot", SHELL_SNAPSHOT, values, state=state)


def test_limits_are_the_references_but_for_the_sum() -> None:
    assert (SNAPSHOTS, ATTEMPTS, PAUSE_SECONDS, STATE_BYTES) == (16, 3, 1.0, 512 << 10)
    assert TOTAL_BYTES == 4 * STATE_BYTES


def test_what_has_arrived_is_found_and_nothing_else() -> None:
    cache, taken = SnapshotCache(), Taken(layer(A="1"), ShellState("f() { :; }\n"))
    assert cache.find("k", 0.0) is None
    cache.arrive("k", taken, 0.0)
    assert (cache.find("k", 0.0), cache.find("other", 0.0)) == (taken, None)


def test_a_shell_that_fails_is_asked_again_after_a_pause_and_not_for_ever() -> None:
    cache, failed = SnapshotCache(), Taken(layer("failed"))
    now = 0.0
    for _ in range(ATTEMPTS - 1):
        cache.arrive("k", failed, now)
        assert cache.find("k", now + PAUSE_SECONDS - 0.001) is failed
        now += PAUSE_SECONDS
        assert cache.find("k", now) is None
    cache.arrive("k", failed, now)
    assert cache.find("k", now + 1000 * PAUSE_SECONDS) is failed


def test_a_shell_that_answers_in_the_end_is_not_asked_again() -> None:
    cache, taken = SnapshotCache(), Taken(layer(A="1"))
    cache.arrive("k", Taken(layer("failed")), 0.0)
    cache.arrive("k", taken, 1.0)
    assert cache.find("k", 1000.0) is taken


def test_the_one_that_was_used_least_recently_is_forgotten() -> None:
    cache = SnapshotCache()
    for number in range(SNAPSHOTS):
        cache.arrive(str(number), Taken(layer(N=str(number))), 0.0)
    assert cache.find("0", 0.0) is not None
    cache.arrive("one more", Taken(layer(N="more")), 0.0)
    assert [cache.find(key, 0.0) is None for key in ("0", "1", "2")] == [False, True, False]
    assert len(cache.entries) == SNAPSHOTS


def test_large_ones_make_room_and_the_last_one_stays() -> None:
    cache, text = SnapshotCache(), "x" * (TOTAL_BYTES // 2)
    for key in "abc":
        cache.arrive(key, Taken(layer(A=key), ShellState(text)), 0.0)
    assert [cache.find(key, 0.0) is not None for key in "abc"] == [False, False, True]
    cache.arrive("d", Taken(layer(A="d" * TOTAL_BYTES)), 0.0)
    assert [cache.find(key, 0.0) is not None for key in "cd"] == [False, True]


def test_the_size_counts_all_texts() -> None:
    operations = [Operation("PATH", "replace", ("/a", "/bc"))]
    whole = Layer(SNAPSHOT, "s", SHELL_SNAPSHOT, {"AB": "cde"}, operations=operations)
    assert Taken(whole, ShellState("1234")).size == 5 + 5 + 4
    assert Taken(None).size == 0


def test_equal_snapshots_share_a_layer_so_that_what_was_made_of_it_is_known() -> None:
    cache, one, other = SnapshotCache(), layer(A="1"), layer(A="1")
    cache.arrive("k", Taken(one, ShellState("a\n")), 0.0)
    cache.arrive("l", Taken(other, ShellState("b\n")), 0.0)
    cache.arrive("m", Taken(layer(A="2")), 0.0)
    found = [cache.find(key, 0.0) for key in "klm"]
    assert [taken is not None and taken.layer is one for taken in found] == [True, True, False]
    assert found[1] == Taken(one, ShellState("b\n"))


def test_startup_files_see_of_a_request_what_decides_about_them() -> None:
    lower = {"HOME": "/h", "PATH": "/bin", "KEPT": "1"}
    env = {"HOME": "/other", "TERM": "dumb", "CODEX_TOOL_CALL_ID": "c1", "SECRET": "s"}
    expected = {"HOME": "/other", "TERM": "dumb", "KEPT": "1"}
    assert start_of(lower, env, ("PATH",)) == expected
    assert start_of({}, env, ()) == {"HOME": "/other", "TERM": "dumb"}
