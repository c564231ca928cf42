"""Room for what runs on the whole server, shared between principals."""

from __future__ import annotations

from outfitter.core.quotas import Quota, Sharing
from outfitter.loop import EpollLoop
from outfitter.server.room import Room


class Waiting:
    """The searches of a connection, of which one more wants to begin."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.told = 0

    def start(self) -> None:
        self.told += 1


def test_none_of_several_principals_takes_all_and_who_waits_is_told() -> None:
    loop = EpollLoop()
    room = Room(loop, Quota(3, Sharing(True)))
    alice, bob, gone = Waiting("alice"), Waiting("bob"), Waiting("alice")
    entered = [room.enter(one) for one in (alice, alice, alice, gone, bob, bob)]
    assert entered == [True, True, False, False, True, False]
    room.forget(gone)
    room.leave("alice")
    loop.call_soon(loop.stop)
    loop.run()
    assert (alice.told, bob.told, gone.told) == (1, 1, 0)
    assert [room.enter(one) for one in (bob, alice)] == [False, False]
    assert room.enter(Waiting("carol"))
    loop.close()


def test_the_only_principal_may_have_all() -> None:
    loop = EpollLoop()
    room = Room(loop, Quota(3, Sharing()))
    alice = Waiting("alice")
    assert [room.enter(alice) for _ in range(4)] == [True, True, True, False]
    loop.close()
