"""One endpoint: the handshake in its order, and requests that wait under an id of their own."""

from __future__ import annotations

import pytest

from outfitter.core.peer import GREETED, NEW, READY, WAITING_LIMIT, Peer
from outfitter.errors import Refused, RemoteProtocolError


def greeted() -> Peer:
    peer = Peer()
    peer.may_initialize()
    peer.greeted()
    return peer


def ready() -> Peer:
    peer = greeted()
    peer.initialized()
    return peer


def refusal(peer: Peer, family: str = "exec") -> str:
    with pytest.raises(Refused) as caught:
        peer.may_call(family)
    return str(caught.value)


def test_the_handshake_has_three_states() -> None:
    assert [Peer().state, greeted().state, ready().state] == [NEW, GREETED, READY]


@pytest.mark.parametrize("family", ["exec", "environment info"])
def test_a_call_before_its_time_is_told_what_is_missing(family: str) -> None:
    assert [refusal(Peer(), family), refusal(greeted(), family)] == [
        f"client must call initialize before using {family} methods",
        f"client must send initialized before using {family} methods",
    ]


def test_a_ready_peer_may_call() -> None:
    peer = ready()
    peer.may_call("exec")  # raises otherwise
    assert peer.state == READY


@pytest.mark.parametrize("peer", [greeted(), ready()], ids=["greeted", "ready"])
def test_initialize_succeeds_only_once(peer: Peer) -> None:
    with pytest.raises(Refused, match=r"^initialize may only be sent once per connection$"):
        peer.may_initialize()


def test_a_failed_initialize_may_be_tried_again() -> None:
    peer = Peer()
    peer.may_initialize()  # and the handler refused: `greeted` was never called
    peer.may_initialize()
    assert peer.state == NEW


def test_initialized_before_initialize_is_the_peers_fault() -> None:
    peer = Peer()
    with pytest.raises(RemoteProtocolError, match=r"^initialized before initialize$"):
        peer.initialized()
    assert peer.state == NEW


def test_initialized_again_changes_nothing() -> None:
    peer = ready()
    peer.initialized()
    assert peer.state == READY


# Waiting requests


def test_the_id_of_a_waiting_request_is_taken_until_it_is_answered() -> None:
    peer = ready()
    peer.wait(7)
    with pytest.raises(Refused) as caught:
        peer.may_reuse(7)
    assert str(caught.value) == "request id 7 is still in use: wait for its answer or choose another"
    peer.may_reuse("7")  # a string is another id
    peer.answered(7)
    peer.may_reuse(7)
    assert peer.waiting == set()


def test_an_answer_to_a_request_that_never_waited_is_fine() -> None:
    peer = ready()
    peer.answered("x")
    assert peer.waiting == set()


def test_no_more_requests_wait_than_the_bound() -> None:
    peer = ready()
    for ident in range(WAITING_LIMIT):
        peer.wait(ident)
    with pytest.raises(Refused) as caught:
        peer.wait("one more")
    assert str(caught.value) == (
        "1024 requests of this connection are waiting already; wait for one of them first"
    )
    assert len(peer.waiting) == WAITING_LIMIT
    peer.answered(0)
    peer.wait("one more")
