"""Who holds a session: the table of the module, row by row and in any order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from outfitter.core.session import FOREVER, SessionBook
from outfitter.errors import Refused, SessionAttached

RETENTION = 30.0


def book(limit: int = 10) -> SessionBook:
    return SessionBook(limit)


def test_a_new_session_is_attached_to_its_creator() -> None:
    sessions = book()
    sessions.create("s", "A", "me")
    assert (sessions.holder("s"), sessions.next_deadline(), len(sessions), sessions.held) == ("A", None, 1, 1)


def test_an_attached_session_cannot_be_resumed() -> None:
    sessions = book()
    sessions.create("s", "A", "me")
    with pytest.raises(SessionAttached, match=r"^session s is already attached to another connection$"):
        sessions.resume("s", "B", "me", 0.0)
    assert sessions.holder("s") == "A"


def test_a_detached_session_waits_until_its_deadline() -> None:
    sessions = book()
    sessions.create("s", "A", "me")
    assert sessions.detach("s", "A", 130.0) is True
    assert (sessions.holder("s"), sessions.next_deadline()) == (None, 130.0)
    assert (len(sessions), sessions.held) == (1, 0)


def test_a_resumed_session_has_no_deadline() -> None:
    sessions = book()
    sessions.create("s", "A", "me")
    sessions.detach("s", "A", 130.0)
    sessions.resume("s", "B", "me", 129.9)
    assert (sessions.holder("s"), sessions.next_deadline(), sessions.expire(1000.0)) == ("B", None, [])


@pytest.mark.parametrize("now", [130.0, 130.1, 1e9])
def test_a_session_past_its_deadline_is_unknown_even_before_it_is_swept(now: float) -> None:
    sessions = book()
    sessions.create("s", "A", "me")
    sessions.detach("s", "A", 130.0)
    with pytest.raises(Refused, match=r"^unknown session id s$"):
        sessions.resume("s", "B", "me", now)
    assert sessions.expire(now) == ["s"]
    assert len(sessions) == 0


def test_a_session_nobody_knows_is_unknown() -> None:
    with pytest.raises(Refused, match=r"^unknown session id x$"):
        book().resume("x", "A", "me", 0.0)


def test_only_the_holder_detaches() -> None:
    sessions = book()
    sessions.create("s", "A", "me")
    assert [sessions.detach("s", "B", 0.0), sessions.detach("x", "A", 0.0), sessions.holder("s")] == [
        False,
        False,
        "A",
    ]


def test_a_late_detach_of_an_old_holder_changes_nothing() -> None:
    sessions = book()
    sessions.create("s", "A", "me")
    sessions.detach("s", "A", 30.0)
    sessions.resume("s", "B", "me", 1.0)
    assert (sessions.detach("s", "A", 32.0), sessions.holder("s")) == (False, "B")


def test_sessions_expire_at_their_own_time() -> None:
    sessions = book()
    for name, now in (("a", 0.0), ("b", 10.0), ("c", 20.0)):
        sessions.create(name, name, "me")
        sessions.detach(name, name, now + RETENTION)
    found = [(sessions.expire(now), sessions.next_deadline()) for now in (29.9, 30.0, 45.0, 99.0)]
    assert found == [([], 30.0), (["a"], 40.0), (["b"], 50.0), (["c"], None)]


def test_the_limit_counts_attached_and_detached_sessions() -> None:
    sessions = book(limit=2)
    sessions.create("a", "A", "me")
    sessions.create("b", "B", "me")
    sessions.detach("b", "B", 30.0)
    with pytest.raises(Refused) as caught:
        sessions.create("c", "C", "me")
    assert str(caught.value) == (
        "this exec-server already keeps 2 sessions; close one, or start it with a larger --max-sessions"
    )
    sessions.expire(30.0)
    sessions.create("c", "C", "me")
    assert len(sessions) == 2


@pytest.mark.parametrize("detached", [True, False])
def test_a_forgotten_session_is_gone(detached: bool) -> None:
    sessions = book()
    sessions.create("s", "A", "me")
    if detached:
        sessions.detach("s", "A", 0.0)
    sessions.forget("s")
    sessions.forget("s")
    assert (len(sessions), sessions.holder("s"), sessions.next_deadline()) == (0, None, None)


def test_who_was_left_first_comes_first() -> None:
    sessions = book()
    for name in "abc":
        sessions.create(name, name, "me")
    for name in "cab":
        sessions.detach(name, name, 30.0)
    sessions.resume("a", "A", "me", 0.0)
    sessions.detach("a", "A", 10.0)
    assert sessions.detached() == ["c", "b", "a"]


@pytest.mark.parametrize("attached", [True, False])
def test_another_principal_s_session_is_unknown(attached: bool) -> None:
    sessions = book()
    sessions.create("s", "A", "alice")
    if not attached:
        sessions.detach("s", "A", 30.0)
    with pytest.raises(Refused) as theirs:
        sessions.resume("s", "B", "bob", 1.0)
    with pytest.raises(Refused) as nobodys:
        sessions.resume("x", "B", "bob", 1.0)
    assert (type(theirs.value), str(theirs.value)) == (Refused, str(nobodys.value).replace(" x", " s"))


def test_a_session_that_waits_for_ever_does_not_expire() -> None:
    sessions = book()
    sessions.create("s", "A", "me")
    sessions.detach("s", "A", FOREVER)
    assert (sessions.next_deadline(), sessions.expire(1e18)) == (None, [])
    sessions.postpone("s", 50.0)
    assert (sessions.next_deadline(), sessions.expire(49.9), sessions.expire(50.0)) == (50.0, [], ["s"])


class BookAgainstTable(RuleBasedStateMachine):
    """Each session is a state: who holds it, or until when it waits."""

    names = st.sampled_from(["s1", "s2", "s3", "s4"])
    holders = st.sampled_from(["A", "B", "C"])

    def __init__(self) -> None:
        super().__init__()
        self.book = SessionBook(3)
        self.state: dict[str, tuple[str, str | float]] = {}
        self.now = 0.0

    @rule(seconds=st.sampled_from([0.0, 1.0, 29.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(name=names, holder=holders)
    def create(self, name: str, holder: str) -> None:
        if name in self.state:
            return  # ids are unguessable and never repeat
        if len(self.state) >= 3:
            with pytest.raises(Refused):
                self.book.create(name, holder, "me")
        else:
            self.book.create(name, holder, "me")
            self.state[name] = ("attached", holder)

    @rule(name=names, holder=holders)
    def detach(self, name: str, holder: str) -> None:
        deadline = self.now + RETENTION
        detached = self.book.detach(name, holder, deadline)
        assert detached == (self.state.get(name) == ("attached", holder))
        if detached:
            self.state[name] = ("detached", deadline)

    @rule(name=names, more=st.sampled_from([0.0, 5.0, 100.0, FOREVER]))
    def postpone(self, name: str, more: float) -> None:
        self.book.postpone(name, self.now + more)
        if self.state.get(name, ("", 0.0))[0] == "detached":
            self.state[name] = ("detached", self.now + more)

    @rule(name=names, holder=holders)
    def others_have_no_such_session(self, name: str, holder: str) -> None:
        with pytest.raises(Refused, match=f"^unknown session id {name}$") as caught:
            self.book.resume(name, holder, "you", 0.0)
        assert type(caught.value) is Refused

    @rule(name=names, holder=holders)
    def resume(self, name: str, holder: str) -> None:
        kind, value = self.state.get(name, ("unknown", 0.0))
        if kind == "attached":
            with pytest.raises(SessionAttached):
                self.book.resume(name, holder, "me", self.now)
        elif kind == "detached" and isinstance(value, float) and self.now < value:
            self.book.resume(name, holder, "me", self.now)
            self.state[name] = ("attached", holder)
        else:
            with pytest.raises(Refused, match=f"^unknown session id {name}$"):
                self.book.resume(name, holder, "me", self.now)

    @rule()
    def expire(self) -> None:
        over = [
            name
            for name, (kind, value) in self.state.items()
            if kind == "detached" and isinstance(value, float) and value <= self.now
        ]
        assert sorted(self.book.expire(self.now)) == sorted(over)
        for name in over:
            del self.state[name]

    @rule(name=names)
    def forget(self, name: str) -> None:
        self.book.forget(name)
        self.state.pop(name, None)

    @invariant()
    def agree(self) -> None:
        holders = {name: value for name, (kind, value) in self.state.items() if kind == "attached"}
        deadlines = [value for kind, value in self.state.values() if kind == "detached"]
        assert len(self.book) == len(self.state)
        assert {name: self.book.holder(name) for name in ("s1", "s2", "s3", "s4")} == {
            name: holders.get(name) for name in ("s1", "s2", "s3", "s4")
        }
        first = min((value for value in deadlines if value != FOREVER), default=None)
        assert self.book.next_deadline() == first
        assert set(self.book.detached()) == set(self.state) - set(holders)


TestBookAgainstTable = BookAgainstTable.TestCase
TestBookAgainstTable.settings = settings(deadline=None, max_examples=30, stateful_step_count=30)
