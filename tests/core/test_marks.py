"""Marks: one number from which server, session and process can be told."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.core.marks import FLAG, NONCE_BITS, SESSION_NUMBERS, Marks

quick = settings(deadline=None, max_examples=60)
nonces = st.integers(0, (1 << NONCE_BITS) - 1)
sessions = st.integers(0, SESSION_NUMBERS - 1)


@quick
@given(nonces, sessions)
def test_a_mark_tells_its_server_and_its_session(nonce: int, session: int) -> None:
    marks = Marks(nonce)
    mark = marks.new(session)
    assert marks.is_ours(mark)
    assert marks.session_of(mark) == session


@quick
@given(nonces, nonces, sessions)
def test_servers_differ_by_their_nonce(nonce: int, other: int, session: int) -> None:
    assert Marks(other).is_ours(Marks(nonce).new(session)) is (nonce == other)


@quick
@given(nonces, sessions)
def test_a_mark_looks_like_no_limit_at_all(nonce: int, session: int) -> None:
    mark = Marks(nonce).new(session)
    assert FLAG <= mark < 2 * FLAG


def test_marks_of_one_session_are_all_different() -> None:
    marks = Marks(5)
    assert len({marks.new(3) for _ in range(10_000)}) == 10_000


def test_ordinary_limits_are_nobodys_mark() -> None:
    assert [Marks(0).is_ours(value) for value in (0, 1024, (1 << 62) - 1, (1 << 63) - 1)] == [False] * 4
