"""What a client does when its connection breaks, message by message (spec 14.4, 14.5)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from outfitter import Completed
from outfitter.client.connect import _at_most, connect
from outfitter.core.events import Exited, Output
from outfitter.errors import (
    ConnectionLost,
    DialFailed,
    Disconnected,
    OutputLost,
    RequestFailed,
    SessionExpired,
)
from outfitter.protocol.session import LEFT, RESTARTING, RESTARTING_REASON, TAKEN_OVER
from tests.client.peer import ALL, Peer, events, with_a_peer
from tests.support.machine import SECOND
from tests.support.wire import Message, b64


def page(*chunks: tuple[int, bytes], next_seq: int, code: int | None = None, closed: bool = False) -> Any:
    return {
        "chunks": [{"seq": seq, "stream": "stdout", "chunk": b64(data)} for seq, data in chunks],
        "nextSeq": next_seq,
        "exited": code is not None,
        "exitCode": code,
        "closed": closed,
        "failure": None,
        "sandboxDenied": False,
    }


async def resumed(peer: Peer) -> None:
    """The handshake of a new connection for the old session."""
    request = await peer.request("initialize")
    assert request["params"] == {"clientName": "outfitter", "resumeSessionId": "s"}
    peer.answer(request, {"sessionId": "s"})
    await peer.request("initialized")


# Coming back


@with_a_peer(resumable=True)
async def test_lost_connection_is_resumed_and_what_was_missed_is_read(peer: Peer) -> None:
    # X1
    process, ident = await peer.started()
    peer.output(ident, 1, b"a")
    peer.output(ident, 2, b"b")
    peer.cut()
    await resumed(peer)
    read = await peer.request("process/read")
    assert read["params"] == {"processId": ident, "afterSeq": 2, "maxBytes": None, "waitMs": 0}
    peer.answer(read, page((3, b"c"), (4, b"d"), next_seq=5))
    peer.exited(ident, 5)
    peer.closed(ident, 6)
    pieces = [b"a", b"b", b"c", b"d"]
    assert await events(process) == [*(Output("stdout", piece) for piece in pieces), Exited(0)]
    await peer.until(lambda: peer.states == ["recovering", "connected"])


@with_a_peer(resumable=True)
async def test_event_that_is_pushed_and_read_comes_once(peer: Peer) -> None:
    process, ident = await peer.started()
    peer.cut()
    await resumed(peer)
    read = await peer.request("process/read")
    peer.output(ident, 2, b"b")
    peer.output(ident, 3, b"c")
    peer.answer(read, page((1, b"a"), (2, b"b"), next_seq=3))
    peer.exited(ident, 4, 9)
    peer.closed(ident, 5)
    assert await events(process) == [*(Output("stdout", piece) for piece in (b"a", b"b", b"c")), Exited(9)]


@with_a_peer(resumable=True)
async def test_a_proxy_that_restarts_does_not_say_what_was_done(peer: Peer) -> None:
    process, _ = await peer.started()
    signalling = asyncio.ensure_future(process.interrupt())
    await peer.request("process/signal")
    peer.far.close(RESTARTING, "Service Restart")
    with pytest.raises(Disconnected, match="Service Restart"):
        await signalling


@with_a_peer(resumable=True)
async def test_exit_and_close_that_were_missed_are_made_up(peer: Peer) -> None:
    process, _ = await peer.started()
    peer.cut()
    await resumed(peer)
    # The exit was number 2: late output of a descendant followed it.
    chunks = ((1, b"a"), (3, b"late"))
    peer.answer(await peer.request("process/read"), page(*chunks, next_seq=5, code=3, closed=True))
    assert await events(process) == [Output("stdout", b"a"), Exited(3), Output("stdout", b"late")]
    assert process.exit_code == 3


@with_a_peer(resumable=True)
async def test_gap_fails_that_process_and_no_other(peer: Peer) -> None:
    # X3
    lossy, lossy_id = await peer.started()
    other, other_id = await peer.started()
    peer.cut()
    await resumed(peer)
    for _ in range(2):
        read = await peer.request("process/read")
        mine = read["params"]["processId"] == lossy_id
        peer.answer(read, page((5, b"e"), next_seq=6) if mine else page((1, b"a"), next_seq=2))
    with pytest.raises(OutputLost) as raised:
        await lossy.wait()
    assert str(raised.value) == ("process events are no longer retained while recovering through sequence 5")
    assert (await peer.request("process/terminate"))["params"] == {"processId": lossy_id}
    peer.exited(other_id, 2)
    peer.closed(other_id, 3)
    assert await other.wait() == 0


@with_a_peer(resumable=True)
async def test_process_that_the_server_forgot_fails_alone(peer: Peer) -> None:
    process, _ = await peer.started()
    peer.cut()
    await resumed(peer)
    peer.refuse(await peer.request("process/read"), -32600, "unknown process id")
    with pytest.raises(OutputLost, match="unknown process id"):
        await process.wait()
    await peer.until(lambda: peer.states == ["recovering", "connected"])


@pytest.mark.parametrize(
    "odd, complaint",
    [
        ({"chunks": {}}, "invalid type: map, expected a sequence"),
        ({"chunks": [{"seq": 1, "stream": "stdin", "chunk": ""}]}, "unknown variant `stdin`"),
        ({"exitCode": "3"}, 'invalid type: string "3", expected i32'),
        ({"exitCode": True}, "invalid type: boolean `true`, expected i32"),
        ({"nextSeq": -1}, "invalid number"),
    ],
    ids=str,
)
def test_process_whose_events_cannot_be_read_fails_alone(odd: Message, complaint: str) -> None:
    @with_a_peer(resumable=True)
    async def scenario(peer: Peer) -> None:
        process, ident = await peer.started()
        peer.cut()
        await resumed(peer)
        peer.answer(await peer.request("process/read"), page(next_seq=1) | odd)
        with pytest.raises(OutputLost) as raised:
            await process.wait()
        assert str(raised.value).startswith(f"process {ident} can no longer be followed: {complaint}")
        await peer.until(lambda: peer.states == ["recovering", "connected"])

    scenario()


# Requests that were under way


@with_a_peer()
async def test_handle_is_shared_only_when_its_process_is_followed(peer: Peer) -> None:
    first, second, third = [asyncio.ensure_future(peer.client.attach("p")) for _ in range(3)]
    await peer.request("process/read")
    first.cancel()
    peer.refuse(await peer.request("process/read"), -32600, "unknown process id p")
    with pytest.raises(RequestFailed):
        await second
    peer.answer(await peer.request("process/read"), page((1, b"a"), next_seq=4, code=0, closed=True))
    process = await third
    assert await events(process) == [Output("stdout", b"a"), Exited(0, False)]


@with_a_peer()
async def test_output_of_an_ended_command_goes_with_the_block_that_an_error_ends(peer: Peer) -> None:
    """Whoever keeps the error keeps the handle: what waits there would hold back everybody else's."""

    async def look() -> None:
        async with process:
            while not process.closed:
                await asyncio.sleep(0)
            raise ValueError("seen enough")

    process, ident = await peer.started()
    peer.output(ident, 1, bytes(1000))
    peer.exited(ident, 2)
    peer.closed(ident, 3)
    with pytest.raises(ValueError, match="seen enough"):
        await look()
    assert peer.session.waiting == 0


@with_a_peer()
async def test_output_of_a_process_goes_when_it_is_not_attached_to(peer: Peer) -> None:
    attaching = asyncio.ensure_future(peer.client.attach("p"))
    await peer.request("process/read")
    peer.output("p", 1, bytes(1000))
    while not peer.session.waiting:
        await asyncio.sleep(0)
    attaching.cancel()
    with pytest.raises(asyncio.CancelledError) as kept:
        await attaching
    assert (peer.session.waiting, kept.type) == (0, asyncio.CancelledError)


@with_a_peer(resumable=True)
async def test_write_is_sent_again_with_its_id(peer: Peer) -> None:
    # X2
    process, ident = await peer.started()
    writing = asyncio.ensure_future(process.write(b"once"))
    first = await peer.request("process/write")
    peer.cut()
    await resumed(peer)
    peer.answer(await peer.request("process/read"), page(next_seq=1))
    again = await peer.request("process/write")
    assert again["params"] == first["params"] == {"processId": ident, "chunk": b64(b"once"), "writeId": "1"}
    peer.answer(again, {"status": "accepted"})
    assert await writing == "accepted"


@with_a_peer(resumable=True)
async def test_start_is_never_sent_again_and_cleaned_up(peer: Peer) -> None:
    # X2
    starting = asyncio.ensure_future(peer.client.start(["x"], cwd="/"))
    ident = (await peer.request("process/start"))["params"]["processId"]
    peer.cut()
    with pytest.raises(Disconnected, match="the cable was pulled"):
        await starting
    await resumed(peer)
    # No process/read: whether it started is not known.
    cleaning = await peer.request("process/terminate")
    assert cleaning["params"] == {"processId": ident}
    # Cleaning up is repeated until it is answered.
    peer.cut()
    await resumed(peer)
    assert (await peer.request("process/terminate"))["params"] == {"processId": ident}


@with_a_peer(resumable=True)
async def test_start_that_is_given_up_is_cleaned_up(peer: Peer) -> None:
    starting = asyncio.ensure_future(peer.client.start(["x"], cwd="/"))
    request = await peer.request("process/start")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    cleaning = await peer.request("process/terminate")
    assert cleaning["params"] == {"processId": request["params"]["processId"]}
    peer.answer(cleaning, {"running": True})


@with_a_peer(resumable=True)
async def test_interrupt_is_not_sent_again(peer: Peer) -> None:
    process, _ = await peer.started()
    interrupting = asyncio.ensure_future(process.interrupt())
    await peer.request("process/signal")
    peer.cut()
    with pytest.raises(Disconnected):
        await interrupting
    await resumed(peer)
    peer.answer(await peer.request("process/read"), page(next_seq=1))
    await peer.until(lambda: peer.client.state == "connected")
    assert peer.requests == []


@with_a_peer(resumable=True)
async def test_terminate_is_sent_again_because_it_can_be(peer: Peer) -> None:
    process, ident = await peer.started()
    ending = asyncio.ensure_future(process.terminate())
    await peer.request("process/terminate")
    peer.cut()
    await resumed(peer)
    peer.answer(await peer.request("process/read"), page(next_seq=1))
    again = await peer.request("process/terminate")
    assert again["params"] == {"processId": ident}
    peer.answer(again, {"running": True})
    assert await ending is True


# New requests meanwhile


@with_a_peer(resumable=True)
async def test_command_ends_with_its_block_also_if_that_is_given_up(peer: Peer) -> None:
    async def block() -> None:
        async with peer.client.start(["x"], cwd="/"):
            peer.hang_up()
            await peer.until(lambda: peer.client.state == "recovering")

    running = asyncio.ensure_future(block())
    started = await peer.request("process/start")
    peer.answer(started, {"processId": started["params"]["processId"], "sandboxType": "none"})
    await peer.until(lambda: peer.dials > 1)  # the end of the block waits for a connection
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    peer.unreachable = False
    await resumed(peer)
    peer.answer(await peer.request("process/read"), page(next_seq=1))
    ended = await peer.request("process/terminate")
    assert ended["params"]["processId"] == started["params"]["processId"]
    peer.answer(ended, {"running": True})


@with_a_peer(resumable=True)
async def test_new_calls_wait_for_one_shared_way_back(peer: Peer) -> None:
    peer.unreachable = True
    peer.cut()
    await peer.until(lambda: peer.client.state == "recovering")
    calls = [asyncio.ensure_future(peer.client.call(f"m{number}", None)) for number in range(20)]
    await peer.until(lambda: peer.dials >= 3)
    assert not any(call.done() for call in calls)
    peer.unreachable = False
    await resumed(peer)
    for number in range(20):
        peer.answer(await peer.request(f"m{number}"), number)
    assert await asyncio.gather(*calls) == list(range(20))


@with_a_peer(resumable=True)
async def test_status_does_not_wait(peer: Peer) -> None:
    peer.unreachable = True
    peer.cut()
    await peer.until(lambda: peer.client.state == "recovering")
    with pytest.raises(Disconnected) as raised:
        await peer.client.status()
    assert str(raised.value) == "exec-server environment is recovering"


# Attempts that fail


@with_a_peer(resumable=True)
async def test_session_that_is_still_attached_is_asked_for_again(peer: Peer) -> None:
    peer.cut()
    peer.refuse(await peer.request("initialize"), -32010, "session s is already attached")
    await resumed(peer)
    await peer.until(lambda: peer.client.state == "connected")


@with_a_peer(resumable=True)
async def test_connection_that_breaks_again_while_catching_up_is_tried_again(peer: Peer) -> None:
    process, ident = await peer.started()
    peer.output(ident, 1, b"a")
    peer.cut()
    await resumed(peer)
    await peer.request("process/read")
    peer.cut()
    await resumed(peer)
    read = await peer.request("process/read")
    assert read["params"]["afterSeq"] == 1
    peer.answer(read, page((2, b"b"), next_seq=5, code=0, closed=True))
    assert await events(process) == [Output("stdout", b"a"), Output("stdout", b"b"), Exited(0)]
    await peer.until(lambda: peer.states == ["recovering", "connected"])


@with_a_peer(resumable=True)
async def test_session_that_is_gone_fails_everything_at_once_with_one_text(peer: Peer) -> None:
    process, _ = await peer.started()
    waiting = asyncio.ensure_future(process.wait())
    writing = asyncio.ensure_future(process.write(b"x"))
    await peer.request("process/write")
    peer.cut()
    peer.refuse(await peer.request("initialize"), -32600, "unknown session id s")
    text = "the cable was pulled; failed to resume exec-server session: unknown session id s (code -32600)"
    for attempt in (waiting, writing, peer.client.call("m", None), peer.client.start(["x"])):
        with pytest.raises(SessionExpired) as raised:
            await attempt
        assert str(raised.value) == text
    assert (peer.states, peer.dials) == (["recovering", "failed"], 2)


@with_a_peer(resumable=True, recovery_timeout=0.5 * SECOND)
async def test_time_that_is_up_fails_everything_with_one_text(peer: Peer) -> None:
    process, _ = await peer.started()
    peer.hang_up()
    errors = []
    for attempt in (process.wait(), peer.client.call("m", None)):
        with pytest.raises(SessionExpired) as raised:
            await attempt
        errors.append(str(raised.value))
    assert set(errors) == {
        "the cable was pulled; failed to resume exec-server session: recovery timed out after "
        f"{0.5 * SECOND:g}s (last attempt: nobody is there)"
    }


@with_a_peer(resumable=True)
async def test_fault_while_coming_back_fails_who_waits_and_names_its_kind(peer: Peer) -> None:
    process, _ = await peer.started()
    waiting = [asyncio.ensure_future(work) for work in (process.wait(), peer.client.call("m", None))]
    await peer.request("m")
    peer.broken = True
    peer.cut()
    for work in (*waiting, peer.client.call("m", None)):
        with pytest.raises(ConnectionLost):
            await work
    assert str(peer.client.failed) == "the cable was pulled; failed to resume: RuntimeError"
    assert (peer.states, peer.dials) == (["recovering", "failed"], 2)


@with_a_peer(resumable=True)
async def test_server_that_resumes_another_session_is_not_believed(peer: Peer) -> None:
    peer.cut()
    peer.answer(await peer.request("initialize"), {"sessionId": "another"})
    await peer.until(lambda: peer.client.state == "failed")
    assert "a different session" in str(peer.client.failed)
    await peer.until(lambda: len(peer.reasons) == 2)  # the second connection has ended, too


@with_a_peer(resumable=False)
async def test_carrier_that_cannot_be_dialled_again_fails_at_once(peer: Peer) -> None:
    peer.cut()
    await peer.until(lambda: peer.client.state == "failed")
    assert (peer.states, peer.dials, str(peer.client.failed)) == (["failed"], 1, "the cable was pulled")


# Old generations


@with_a_peer(resumable=True)
async def test_late_news_of_an_old_connection_is_not_heard(peer: Peer) -> None:
    process, ident = await peer.started()
    old = peer.far
    # The client loses the connection for a reason of its own, so that the old far end lives on.
    peer.say({"method": "process/output", "params": {"processId": ident}})
    await resumed(peer)
    read = await peer.request("process/read")
    late = peer.notice("process/exited", processId=ident, seq=1, exitCode=1, sandboxDenied=False)
    old.send(late)
    peer.answer(read, page(next_seq=1))
    peer.exited(ident, 1, 0)
    peer.closed(ident, 2)
    assert await process.wait() == 0


@pytest.mark.parametrize(
    "notice",
    [
        {"method": "process/output", "params": {"seq": 1, "stream": "stdout", "chunk": "aGk="}},
        {"method": "process/output", "params": {"processId": "p", "seq": 1, "stream": "x", "chunk": ""}},
        {"method": "process/output", "params": {"processId": "p", "seq": 1, "stream": "pty", "chunk": "!"}},
        {"method": "process/exited", "params": {"processId": "p", "seq": 1, "exitCode": None}},
        {"method": "process/closed", "params": {"processId": "p", "seq": -1}},
        {"method": "process/closed", "params": []},
    ],
    ids=str,
)
def test_notice_that_cannot_be_read_starts_a_recovery(notice: Message) -> None:
    # Spec 14.1: it may have been output, and the session still has it.
    @with_a_peer(resumable=True)
    async def scenario(peer: Peer) -> None:
        peer.say(notice)
        await resumed(peer)
        await peer.until(lambda: peer.client.state == "connected")
        assert len(peer.reasons) == 1 and peer.reasons[0].startswith("unreadable message: ")

    scenario()


@with_a_peer(resumable=True)
async def test_session_that_another_client_took_over_is_not_taken_back(peer: Peer) -> None:
    # X8
    peer.cut(TAKEN_OVER)
    await peer.until(lambda: peer.client.state == "failed")
    assert (peer.states, peer.dials) == (["failed"], 1)


# Leaving


async def code_at_the_end(peer: Peer) -> int | None:
    await peer.client.aclose()
    await peer.until(lambda: bool(peer.reasons))
    return peer.far.close_code


@with_a_peer(opened=False)
async def test_client_whose_close_is_cancelled_is_closed_all_the_same(peer: Peer) -> None:
    await peer.opened((*ALL, "sessionLeave"))
    await peer.started()
    waiting = asyncio.ensure_future(peer.client.status())
    await peer.request("environment/status")
    closing = asyncio.ensure_future(peer.client.aclose())
    await peer.request("process/terminate")  # which is never answered
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(SessionExpired):
        await waiting
    await peer.until(lambda: bool(peer.reasons))
    assert (peer.client.state, peer.far.close_code) == ("failed", LEFT)


@with_a_peer()
async def test_client_that_is_being_closed_begins_nothing_more(peer: Peer) -> None:
    """Nobody would end it: a session in which something is kept goes on."""
    process, _ = await peer.started()
    process.keep()
    other, _ = await peer.started()
    closing = asyncio.ensure_future(peer.client.aclose())
    terminate = await peer.request("process/terminate")
    with pytest.raises(SessionExpired, match="the client is closed"):
        await other.wait()
    with pytest.raises(SessionExpired, match="the client is closed"):
        await peer.client.run(["again"], cwd="/")
    peer.answer(terminate, {"running": True})
    await closing
    assert "process/start" not in [one["method"] for one in peer.requests]


@with_a_peer()
async def test_command_that_has_ended_when_the_client_is_closed_keeps_its_output(peer: Peer) -> None:
    running = asyncio.ensure_future(peer.client.run(["x"], cwd="/"))
    request = await peer.request("process/start")
    ident = request["params"]["processId"]
    peer.answer(request, {"processId": ident, "sandboxType": "none"})
    peer.output(ident, 1, b"all of it")
    peer.exited(ident, 2)
    peer.closed(ident, 3)
    await asyncio.sleep(0)  # all of that has come; whoever waits for the answer is the next to run
    await peer.client.aclose()
    assert await running == Completed(0, b"all of it", b"")


@with_a_peer(opened=False)
async def test_client_that_is_closed_says_that_it_will_not_come_back(peer: Peer) -> None:
    await peer.opened((*ALL, "sessionLeave"))
    assert await code_at_the_end(peer) == LEFT


@with_a_peer(opened=False)
async def test_client_that_keeps_a_command_may_come_back(peer: Peer) -> None:
    await peer.opened((*ALL, "sessionLeave"))
    process, ident = await peer.started()
    process.keep()
    peer.exited(ident, 1)  # also when the command has ended meanwhile: somebody wants to read it
    peer.closed(ident, 2)
    while not process.closed:
        await asyncio.sleep(0)
    assert await code_at_the_end(peer) == 1000


@with_a_peer(opened=False)
async def test_client_of_somebody_else_s_session_does_not_give_it_up(peer: Peer) -> None:
    opening = asyncio.ensure_future(peer.session.open("s"))
    await peer.greet((*ALL, "sessionLeave"))
    await opening
    assert await code_at_the_end(peer) == 1000


@with_a_peer()
async def test_server_that_does_not_know_the_code_is_not_sent_it(peer: Peer) -> None:
    assert await code_at_the_end(peer) == 1000


# Nothing is heard


def look(peer: Peer) -> None:
    """The time for a look at what is quiet has come."""
    assert peer.session._looking is not None
    peer.session._looking.cancel()
    peer.session._look()


@with_a_peer(resumable=True)
async def test_an_end_that_was_never_told_is_found_out(peer: Peer) -> None:
    process, ident = await peer.started()
    peer.output(ident, 1, b"a")
    peer.exited(ident, 2, 3)
    heard = aiter(process)
    assert [await anext(heard), await anext(heard)] == [Output("stdout", b"a"), Exited(3)]
    look(peer)  # it has said something since the last one
    look(peer)
    read = await peer.request("process/read")
    assert (read["params"]["processId"], read["params"]["afterSeq"]) == (ident, 2)
    look(peer)  # while it is asked, nobody asks again
    peer.answer(read, page(next_seq=4, code=3, closed=True))
    assert [one async for one in heard] == []
    assert peer.requests == []
    assert peer.session.processes == {}


@with_a_peer(resumable=True)
async def test_exit_and_end_that_were_never_told_are_found_out(peer: Peer) -> None:
    process, _ = await peer.started()
    for _ in range(2):
        look(peer)
    read = await peer.request("process/read")
    peer.answer(read, page((1, b"a"), next_seq=4, code=3, closed=True))
    assert await events(process) == [Output("stdout", b"a"), Exited(3)]


@with_a_peer(resumable=True)
async def test_quiet_process_is_asked_less_and_less_often(peer: Peer) -> None:
    process, ident = await peer.started()
    asked = []
    for number in range(140):
        look(peer)
        await asyncio.sleep(0)
        if peer.session._cleaning:
            asked.append(number)
            peer.answer(await peer.request("process/read"), page(next_seq=1))
            await asyncio.gather(*peer.session._cleaning)
    assert asked == [1, 3, 7, 15, 31, 63, 95, 127]
    # News make it a talker again.
    peer.output(ident, 1, b"a")
    assert await anext(aiter(process)) == Output("stdout", b"a")
    for _ in range(2):
        look(peer)
    peer.answer(await peer.request("process/read"), page(next_seq=4, code=0, closed=True))
    assert await process.wait() == 0


@with_a_peer(resumable=True)
async def test_process_that_a_server_forgot_in_silence_fails(peer: Peer) -> None:
    process, _ = await peer.started()
    for _ in range(2):
        look(peer)
    peer.refuse(await peer.request("process/read"), -32600, "unknown process id")
    with pytest.raises(OutputLost, match="unknown process id"):
        await process.wait()


@with_a_peer(resumable=True)
async def test_nobody_is_asked_without_a_connection(peer: Peer) -> None:
    await peer.started()
    peer.unreachable = True
    peer.cut()
    await peer.until(lambda: peer.states == ["recovering"])
    for _ in range(4):
        look(peer)
    assert not peer.session._cleaning


# Given up


class Lost(SessionExpired):
    """What somebody knows who watches the executor by other means."""


@with_a_peer(resumable=True)
async def test_a_client_that_is_given_up_raises_that_error_everywhere(peer: Peer) -> None:
    process, _ = await peer.started()
    waiting = asyncio.ensure_future(process.wait())
    calling = asyncio.ensure_future(peer.client.call("m", None, repeat=True))
    await peer.request("m")
    error = Lost("its node is gone")
    peer.client.fail(error)
    for one in (waiting, calling, asyncio.ensure_future(peer.client.call("m", None))):
        with pytest.raises(Lost) as raised:
            await one
        assert raised.value is error
    assert (peer.client.failed, peer.states) == (error, ["failed"])
    assert peer.requests == []


@with_a_peer(resumable=True)
async def test_who_waits_for_a_recovery_is_told_when_it_is_given_up(peer: Peer) -> None:
    peer.hang_up()
    await peer.until(lambda: peer.states == ["recovering"])
    calling = asyncio.ensure_future(peer.client.call("m", None))
    await asyncio.sleep(0)
    peer.client.fail(Lost("its node is gone"))
    with pytest.raises(Lost):
        await calling


@with_a_peer()
async def test_what_is_known_later_takes_the_place_of_a_plain_loss(peer: Peer) -> None:
    peer.cut()
    await peer.until(lambda: peer.states == ["failed"])
    peer.client.fail(Lost("its node is gone"))
    with pytest.raises(Lost):
        await peer.client.call("m", None)


def test_an_address_that_refuses_so_many_times_in_a_row_is_given_up() -> None:
    answers: list[DialFailed | None] = [_refused(), _refused(), DialFailed("late", retryable=True)]
    answers += [_refused(), None, _refused(), _refused(), _refused()]

    async def dial() -> Any:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    async def scenario() -> list[bool | None]:
        counted, found = _at_most(3, dial), []
        while answers:
            try:
                await counted()
                found.append(None)
            except DialFailed as error:
                found.append(error.retryable)
        return found

    assert asyncio.run(scenario()) == [True, True, True, True, None, True, True, False]


def _refused() -> DialFailed:
    return DialFailed("cannot connect", retryable=True, refused=True)


def test_a_port_at_which_nobody_listens_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    async def scenario() -> DialFailed:
        with pytest.raises(DialFailed) as raised:
            await connect(f"ws://127.0.0.1:{port}", max_refusals=1)
        return raised.value

    failed = asyncio.run(scenario())
    assert (failed.refused, failed.retryable) == (True, False)


@with_a_peer(resumable=True, opened=False)
async def test_handshake_that_a_restarting_server_has_not_answered_is_made_again(peer: Peer) -> None:
    opening = asyncio.ensure_future(peer.session.open())
    await peer.request("initialize")
    peer.far.close(RESTARTING, RESTARTING_REASON)
    await peer.greet()
    await opening
    assert peer.client.state == "connected"


@with_a_peer(resumable=True, opened=False)
async def test_handshake_is_not_made_a_third_time(peer: Peer) -> None:
    opening = asyncio.ensure_future(peer.session.open())
    for _ in range(2):
        await peer.request("initialize")
        peer.far.close(RESTARTING, RESTARTING_REASON)
    with pytest.raises(DialFailed, match="lost during the handshake"):
        await opening
