"""Requests that touch something in common run one after the other, in their order; others side by side."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.lanes import Claim, Lanes

PATHS = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/a/d", "/e", "\0h", "\0hh"]


def nothing() -> None:
    pass


def claim(looks: str = "", changes: str = "", makes: str = "") -> Claim:
    return Claim(tuple(looks.split()), tuple(changes.split()), nothing, tuple(makes.split()))


def related(one: str, other: str) -> bool:
    """Whether one name is the other or lies below it."""
    if "\0" in one + other:
        return one == other
    first, second = (path.rstrip("/").split("/") for path in (one, other))
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]


def must_wait(
    later: tuple[list[str], list[str], list[str]], earlier: tuple[list[str], list[str], list[str]]
) -> bool:
    looks, changes, _ = later
    their_looks, their_changes, their_makes = earlier
    pairs = [
        *((mine, theirs) for mine in looks + changes for theirs in their_changes + their_makes),
        *((mine, theirs) for mine in changes for theirs in their_looks),
    ]
    return any(related(*pair) for pair in pairs)


names = st.lists(st.sampled_from(PATHS), max_size=2)
requests = st.lists(st.tuples(names, names, st.lists(st.sampled_from(PATHS), max_size=1)), max_size=14)


@given(requests=requests, width=st.integers(1, 5), choices=st.lists(st.integers(0, 99), max_size=60))
def test_any_requests_keep_their_order_where_it_matters_and_all_run(
    requests: list[tuple[list[str], list[str], list[str]]], width: int, choices: list[int]
) -> None:
    lanes = Lanes(width)
    claims: list[Claim] = []
    running: list[int] = []
    finished: set[int] = set()
    chance = iter(choices)

    def began(number: int) -> None:
        for earlier in range(number):
            if must_wait(requests[number], requests[earlier]):
                assert earlier in finished, (number, earlier)
        running.append(number)
        assert len(running) <= width

    def finish(number: int) -> None:
        running.remove(number)
        finished.add(number)
        for ready in lanes.done(claims[number]):
            began(next(place for place, one in enumerate(claims) if one is ready))

    for number, (looks, changes, makes) in enumerate(requests):
        claims.append(Claim(tuple(looks), tuple(changes), nothing, tuple(makes)))
        if lanes.add(claims[-1]):
            began(number)
        while running and next(chance, 0) % 3 == 2:
            finish(running[next(chance, 0) % len(running)])
    while running:
        finish(running[next(chance, 0) % len(running)])
    assert finished == set(range(len(requests)))
    assert len(lanes) == 0


@given(requests=requests, looks=names)
def test_free_means_that_a_request_that_looks_could_run_now(
    requests: list[tuple[list[str], list[str], list[str]]], looks: list[str]
) -> None:
    lanes = Lanes(99)
    for mine, changes, makes in requests:
        lanes.add(Claim(tuple(mine), tuple(changes), nothing, tuple(makes)))
    waits = any(must_wait((looks, [], []), earlier) for earlier in requests)
    assert lanes.free(tuple(looks)) is not waits


def test_read_waits_for_the_write_before_it_and_not_for_another() -> None:
    lanes = Lanes(9)
    write, read, other = claim(changes="/a"), claim(looks="/a"), claim(looks="/b")
    assert [lanes.add(one) for one in (write, read, other)] == [True, False, True]
    assert lanes.done(write) == [read]


def test_write_waits_for_every_read_before_it() -> None:
    lanes = Lanes(9)
    one, two, write = claim(looks="/a"), claim(looks="/a/b"), claim(changes="/a")
    assert [lanes.add(each) for each in (one, two, write)] == [True, True, False]
    assert lanes.done(two) == []
    assert lanes.done(one) == [write]


def test_name_that_begins_alike_is_another_name() -> None:
    lanes = Lanes(9)
    assert lanes.add(claim(changes="/a"))
    assert lanes.add(claim(changes="/ab"))
    assert not lanes.add(claim(changes="/a/b"))


def test_who_comes_after_a_maker_of_folders_waits_but_the_maker_for_nobody() -> None:
    lanes = Lanes(9)
    assert lanes.add(claim(looks="/srv/other"))
    assert lanes.add(claim(changes="/srv/a/b/c", makes="/srv"))
    assert not lanes.add(claim(looks="/srv/a/d"))
    assert lanes.add(claim(looks="/elsewhere"))


def test_no_more_run_than_the_width_and_the_next_begins_with_the_first_end() -> None:
    lanes = Lanes(2)
    claims = [claim(looks=f"/{number}") for number in range(4)]
    assert [lanes.add(one) for one in claims] == [True, True, False, False]
    assert lanes.done(claims[1]) == [claims[2]]
    assert lanes.done(claims[0]) == [claims[3]]


def test_thousand_writes_of_one_path_run_one_after_the_other() -> None:
    lanes = Lanes(16)
    claims = [claim(changes="/a") for _ in range(1000)]
    assert [lanes.add(one) for one in claims] == [True] + [False] * 999
    for one, following in pairwise(claims):
        assert lanes.done(one) == [following]


# A client that loses its connection


@given(requests=requests, later=requests, width=st.integers(1, 5), choices=st.lists(st.integers(0, 99)))
def test_who_comes_back_waits_for_what_is_being_changed_and_all_run(
    requests: list[tuple[list[str], list[str], list[str]]],
    later: list[tuple[list[str], list[str], list[str]]],
    width: int,
    choices: list[int],
) -> None:
    lanes = Lanes(width)
    chance = iter(choices)
    wanted: dict[Claim, tuple[list[str], list[str], list[str]]] = {}
    running: list[Claim] = []
    finished: set[Claim] = set()

    def add(request: tuple[list[str], list[str], list[str]]) -> None:
        looks, changes, makes = request
        one = Claim(tuple(looks), tuple(changes), nothing, tuple(makes))
        wanted[one] = request
        if lanes.add(one):
            running.append(one)

    def end() -> None:
        one = running.pop(next(chance, 0) % len(running))
        finished.add(one)
        running.extend(lanes.done(one))

    for request in requests:
        add(request)
    for _ in range(next(chance, 0) % (len(requests) + 1)):
        if running:
            end()
    before = [one for one in wanted if one not in finished]
    old = list(running)
    running += lanes.abandon()
    assert len(running) - len(old) <= width
    for request in later:
        add(request)
    while running:
        for one in running:
            # Of those before, who only looked is waited for no more.
            earlier = (
                [two for two in before if two.holds and two not in finished] if one not in before else []
            )
            assert not any(must_wait(wanted[one], wanted[two]) for two in earlier)
        assert sum(one not in old for one in running) <= width
        end()
    assert finished == wanted.keys()
    assert len(lanes) == 0


def test_who_comes_back_has_the_whole_width() -> None:
    lanes = Lanes(2)
    stuck = [claim(changes=f"/{number}") for number in range(2)]
    assert [lanes.add(one) for one in stuck] == [True, True]
    assert lanes.abandon() == []
    write, other, third = claim(changes="/0"), claim(changes="/2"), claim(changes="/3")
    assert [lanes.add(one) for one in (write, other, third)] == [False, True, True]
    assert lanes.done(stuck[0]) == []
    assert lanes.done(other) == [write]


def test_who_comes_back_does_not_wait_for_a_walk_that_nobody_wants() -> None:
    lanes = Lanes(2)
    walk, removal = claim(looks="/a"), claim(changes="/a/b")
    assert [lanes.add(one) for one in (walk, removal)] == [True, False]
    assert lanes.abandon() == [removal]
    assert not lanes.add(claim(changes="/a/b"))
    assert lanes.add(claim(changes="/a/c"))
    assert lanes.done(walk) == []
