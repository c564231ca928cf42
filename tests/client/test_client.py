"""The client against a peer that is written out message by message: order, answers, loss."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

import outfitter
from outfitter.client.connection import MAX_AHEAD
from outfitter.client.feed import Events
from outfitter.client.process import RemoteProcess
from outfitter.core.events import Exited, Output
from outfitter.errors import (
    InvalidParams,
    OutputLost,
    ProtocolError,
    RequestFailed,
    SessionExpired,
    SettingInvalid,
)
from tests.client.peer import INFO, Peer, events, with_a_peer
from tests.support.machine import SECOND
from tests.support.wire import b64


@with_a_peer(opened=False)
async def test_handshake_is_initialize_then_initialized(peer: Peer) -> None:
    opening = asyncio.ensure_future(peer.session.open())
    request = await peer.request("initialize")
    assert request["params"] == {"clientName": "outfitter", "resumeSessionId": None}
    peer.answer(request, {"sessionId": "s", "environmentInfo": INFO})
    await opening
    assert await peer.request("initialized") == {"method": "initialized", "params": {}}
    info = peer.client.info
    assert info is not None
    assert (peer.client.session_id, info.raw, info.shell_path) == ("s", INFO, "/bin/sh")


@with_a_peer(opened=False)
async def test_older_server_is_asked_for_its_info(peer: Peer) -> None:
    # X12
    opening = asyncio.ensure_future(peer.session.open())
    peer.answer(await peer.request("initialize"), {"sessionId": "s"})
    await peer.request("initialized")
    peer.answer(await peer.request("environment/info"), INFO)
    await opening
    assert peer.client.info is not None
    assert not peer.client.offers("processList")


@with_a_peer(opened=False)
async def test_where_an_executor_has_no_directory_ours_is_not_used(peer: Peer) -> None:
    """It may be another machine; and on this one, commands would run among somebody else's files."""
    opening = asyncio.ensure_future(peer.session.open())
    peer.answer(
        await peer.request("initialize"), {"sessionId": "s", "environmentInfo": {**INFO, "cwd": None}}
    )
    await opening
    for path in (None, "file"):
        with pytest.raises(SettingInvalid, match="working directory was removed: give an absolute path"):
            peer.client.resolve(path)
    with pytest.raises(SettingInvalid, match="working directory was removed"):
        await peer.client.run(["true"])
    assert peer.client.resolve("/srv/file").text == "file:///srv/file"


@with_a_peer(opened=False)
async def test_server_that_cannot_say_who_it_is_is_accepted(peer: Peer) -> None:
    # X12
    opening = asyncio.ensure_future(peer.session.open())
    peer.answer(await peer.request("initialize"), {"sessionId": "s"})
    await peer.request("initialized")
    peer.refuse(await peer.request("environment/info"), -32601)
    await opening
    assert peer.client.info is None


@with_a_peer()
async def test_answers_find_their_calls_in_any_order(peer: Peer) -> None:
    calls = [asyncio.ensure_future(peer.client.call(f"m{number}", None)) for number in range(5)]
    requests = [await peer.request(f"m{number}") for number in range(5)]
    assert [request["id"] for request in requests] == [2, 3, 4, 5, 6]
    for request in reversed(requests):
        peer.answer(request, request["method"])
    assert await asyncio.gather(*calls) == [f"m{number}" for number in range(5)]


async def ahead(peer: Peer, calls: int) -> list[asyncio.Future[object]]:
    """So many calls, when as many as may have been sent."""
    made = [asyncio.ensure_future(peer.client.call("m", None)) for _ in range(calls)]
    for _ in range(10):
        await asyncio.sleep(0)
    return made


@with_a_peer()
async def test_the_reference_is_not_asked_more_than_it_has_room_for(peer: Peer) -> None:
    calls = await ahead(peer, MAX_AHEAD + 2)
    assert len(peer.requests) == MAX_AHEAD
    slow = ("http/request", "process/read")  # who may wait for long is not in the way
    waiting = [asyncio.ensure_future(peer.client.call(method, None)) for method in slow]
    await peer.until(lambda: len(peer.requests) == MAX_AHEAD + 2)
    calls.pop().cancel()  # one that was not sent
    for _ in range(MAX_AHEAD // 2):
        peer.answer(await peer.request("m"), 1)
    await peer.until(lambda: len(peer.requests) == MAX_AHEAD // 2 + 3)
    for request in peer.requests:
        peer.answer(request, 1)
    assert await asyncio.gather(*calls, *waiting) == [1] * (MAX_AHEAD + 3)
    last = asyncio.ensure_future(peer.client.call("last", None))
    await peer.until(lambda: peer.requests[-1]["method"] == "last")
    peer.answer(peer.requests[-1], 1)
    assert await last == 1


@with_a_peer()
async def test_what_nobody_waits_for_takes_the_references_room_until_it_is_answered(peer: Peer) -> None:
    for call in await ahead(peer, MAX_AHEAD):
        call.cancel()
    [next_one] = await ahead(peer, 1)
    assert len(peer.requests) == MAX_AHEAD
    for _ in range(MAX_AHEAD // 2):
        peer.answer(await peer.request("m"), 1)
    await peer.until(lambda: len(peer.requests) == MAX_AHEAD // 2 + 1)
    peer.answer(peer.requests[-1], 2)
    assert await next_one == 2


@with_a_peer()
async def test_who_waits_for_room_is_told_that_the_connection_is_lost(peer: Peer) -> None:
    calls = await ahead(peer, MAX_AHEAD + 1)
    peer.cut()
    assert {type(one) for one in await asyncio.gather(*calls, return_exceptions=True)} == {SessionExpired}


@with_a_peer(opened=False)
async def test_a_server_of_ours_is_asked_everything_at_once(peer: Peer) -> None:
    await peer.opened(["sessionLeave"])
    calls = await ahead(peer, MAX_AHEAD + 1)
    assert len(peer.requests) == MAX_AHEAD + 1
    for request in peer.requests:
        peer.answer(request, 1)
    assert await asyncio.gather(*calls) == [1] * (MAX_AHEAD + 1)


@with_a_peer()
async def test_refusal_keeps_code_text_and_data(peer: Peer) -> None:
    call = asyncio.ensure_future(peer.client.call("m", None))
    request = await peer.request("m")
    peer.say({"id": request["id"], "error": {"code": -32099, "message": "no", "data": {"why": 1}}})
    with pytest.raises(RequestFailed) as raised:
        await call
    refused = raised.value
    assert (refused.code, refused.message, refused.data) == (-32099, "no", {"why": 1})


@with_a_peer()
async def test_data_of_a_refusal_that_is_no_object_is_only_among_its_arguments(peer: Peer) -> None:
    call = asyncio.ensure_future(peer.client.call("m", None))
    request = await peer.request("m")
    peer.say({"id": request["id"], "error": {"code": -32099, "message": "no", "data": ["why"]}})
    with pytest.raises(RequestFailed) as raised:
        await call
    assert (raised.value.data, raised.value.args) == (None, (-32099, "no", ["why"]))


@with_a_peer()
async def test_answer_that_nobody_waits_for_is_ignored(peer: Peer) -> None:
    call = asyncio.ensure_future(peer.client.call("first", None))
    request = await peer.request("first")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    peer.answer(request, "late")
    peer.say({"id": 999, "result": "never asked"})
    again = asyncio.ensure_future(peer.client.call("second", None))
    peer.answer(await peer.request("second"), "fine")
    assert await again == "fine"


@with_a_peer()
async def test_request_of_the_server_is_refused_not_dropped(peer: Peer) -> None:
    for number, method in enumerate(("network/policyRequest", "something/else")):
        peer.say({"id": number, "method": method, "params": {}})
        while not peer.requests:
            await asyncio.sleep(0)
        text = f"exec-server client does not implement `{method}` yet"
        assert peer.requests.pop() == {"error": {"code": -32601, "message": text}, "id": number}


@with_a_peer()
async def test_unreadable_message_ends_the_connection_with_the_reason(peer: Peer) -> None:
    peer.say(b"{nonsense")
    while not peer.reasons:
        await asyncio.sleep(0)
    assert peer.reasons[0].startswith("unreadable message: ")
    with pytest.raises(SessionExpired):
        await peer.client.call("m", None)


@with_a_peer()
async def test_loss_fails_every_call_and_every_process(peer: Peer) -> None:
    process, ident = await peer.started()
    peer.output(ident, 1, b"seen")
    call = asyncio.ensure_future(peer.client.call("m", None))
    await peer.request("m")
    peer.cut()
    with pytest.raises(SessionExpired, match="the cable was pulled"):
        await call
    seen: list[Output | Exited] = []
    with pytest.raises(SessionExpired):
        async for event in process:
            seen.append(event)
    assert seen == [Output("stdout", b"seen")]  # what came before is not lost
    with pytest.raises(SessionExpired):
        await peer.client.call("later", None)


# Odd answers


@pytest.mark.parametrize("odd", [None, [], "ready", {}, {"status": 1, "running": 1}], ids=str)
def test_answer_that_cannot_be_read_is_an_error(odd: Any) -> None:
    @with_a_peer()
    async def scenario(peer: Peer) -> None:
        process, _ = await peer.started()
        calls: dict[str, Coroutine[Any, Any, object]] = {
            "environment/status": peer.client.status(),
            "process/write": process.write(b"x"),
            "process/terminate": process.terminate(),
            "process/list": peer.client.processes(),
            "environment/explain": peer.client.explain(),
        }
        for method, call in calls.items():
            waiting = asyncio.ensure_future(call)
            peer.answer(await peer.request(method), odd)
            with pytest.raises(ProtocolError, match=f"the server's answer to `{method}` is unusable: "):
                await waiting
        assert peer.client.state == "connected"

    scenario()


@pytest.mark.parametrize("odd", [None, [], {}, {"warnings": "x"}, {"warnings": None}], ids=str)
def test_command_is_started_though_the_answer_is_odd(odd: Any) -> None:
    @with_a_peer()
    async def scenario(peer: Peer) -> None:
        starting = asyncio.ensure_future(peer.client.start(["x"], cwd="/"))
        request = await peer.request("process/start")
        peer.answer(request, odd)
        process = await starting
        assert (process.warnings, process.environment) == ([], None)
        peer.exited(process.process_id, 1, 4)
        peer.closed(process.process_id, 2)
        assert await process.wait() == 4

    scenario()


# Events


@with_a_peer()
async def test_events_are_put_in_order_and_doubles_dropped(peer: Peer) -> None:
    # X1: a replay after a resume overlaps what was pushed.
    process, ident = await peer.started()
    peer.closed(ident, 5)
    peer.output(ident, 3, b"c")
    peer.output(ident, 1, b"a")
    peer.output(ident, 1, b"a")
    peer.exited(ident, 4, 7)
    peer.output(ident, 2, b"b")
    peer.output(ident, 2, b"b")
    assert await events(process) == [
        Output("stdout", b"a"),
        Output("stdout", b"b"),
        Output("stdout", b"c"),
        Exited(7),
    ]
    assert process.exit_code == 7


@with_a_peer()
async def test_output_may_precede_the_answer_to_its_start(peer: Peer) -> None:
    starting = asyncio.ensure_future(peer.client.start(["x"], cwd="/"))
    request = await peer.request("process/start")
    ident = request["params"]["processId"]
    peer.output(ident, 1, b"quick")
    peer.exited(ident, 2)
    peer.closed(ident, 3)
    peer.answer(request, {"processId": ident, "sandboxType": "none"})
    assert await events(await starting) == [Output("stdout", b"quick"), Exited(0)]


@pytest.mark.parametrize("env", [{"A=B": "1"}, {"": "1"}, {"A\0": "1"}, {"A": "1\0"}])
def test_a_variable_that_no_command_can_be_given_is_refused(env: dict[str, str]) -> None:
    @with_a_peer()
    async def scenario(peer: Peer) -> None:
        refused = r"env: .*(name of a variable|value of A contains a NUL)"
        with pytest.raises(InvalidParams, match=refused):
            peer.client.start(["x"], env=env)
        with pytest.raises(InvalidParams, match=refused):
            await peer.client.explain(env=env)
        assert peer.requests == []

    scenario()


@with_a_peer()
async def test_an_event_that_did_not_come_is_read_once(peer: Peer) -> None:
    # X3
    process, ident = await peer.started()
    peer.output(ident, 1, b"a")
    peer.output(ident, 3, b"c")
    peer.output(ident, 4, b"d")
    read = await peer.request("process/read")
    assert read["params"]["afterSeq"] == 1
    chunks = [{"seq": seq, "stream": "stdout", "chunk": b64(data)} for seq, data in ((2, b"b"), (3, b"c"))]
    known = {"exited": False, "exitCode": None, "closed": False, "failure": None, "sandboxDenied": False}
    peer.answer(read, {"chunks": chunks, "nextSeq": 4, **known})
    peer.exited(ident, 5)
    peer.closed(ident, 6)
    pieces = [b"a", b"b", b"c", b"d"]
    assert await events(process) == [*(Output("stdout", piece) for piece in pieces), Exited(0)]
    assert peer.requests == []


@with_a_peer()
async def test_an_exit_that_did_not_come_is_read(peer: Peer) -> None:
    process, ident = await peer.started()
    peer.closed(ident, 2)
    known = {"exited": True, "exitCode": 3, "closed": True, "failure": None, "sandboxDenied": False}
    peer.answer(await peer.request("process/read"), {"chunks": [], "nextSeq": 3, **known})
    assert await process.wait() == 3


@pytest.mark.parametrize("again", [False, True])
def test_an_event_that_is_not_retained_is_an_error(again: bool) -> None:
    @with_a_peer()
    async def scenario(peer: Peer) -> None:
        process, ident = await peer.started()
        peer.output(ident, 2, b"b")
        read = await peer.request("process/read")
        if again:
            peer.refuse(read, -32600, "unknown process id")
        else:
            chunks = [{"seq": 2, "stream": "stdout", "chunk": b64(b"b")}]
            known = {"exited": False, "exitCode": None, "closed": False, "failure": None}
            peer.answer(read, {"chunks": chunks, "nextSeq": 3, "sandboxDenied": False, **known})
        with pytest.raises(OutputLost):
            await process.wait()

    scenario()


@with_a_peer()
async def test_hole_that_is_never_filled_is_an_error_not_silence(peer: Peer) -> None:
    # X3
    process, ident = await peer.started()
    for seq in range(2, 4100):
        peer.output(ident, seq, b"x")
    with pytest.raises(OutputLost, match="event 1 did not come"):
        await process.wait()


@with_a_peer()
async def test_notices_of_strangers_are_ignored(peer: Peer) -> None:
    peer.output("nobody", 1, b"x")
    peer.say({"method": "process/unheardOf", "params": {"processId": "nobody"}})
    peer.say({"method": "fs/missingChanged", "params": {"watchId": 1}})
    process, ident = await peer.started()
    peer.exited(ident, 1)
    peer.closed(ident, 2)
    assert await process.wait() == 0


@with_a_peer()
async def test_writes_are_numbered_and_never_reuse_a_number(peer: Peer) -> None:
    # X2
    process, ident = await peer.started()
    seen = []
    for data, eof in ((b"one", False), (b"two", False), (b"", True)):
        call = asyncio.ensure_future(process.close_stdin() if eof else process.write(data))
        request = await peer.request("process/write")
        seen.append(request["params"])
        peer.answer(request, {"status": "accepted"})
        assert await call == "accepted"
    assert seen == [
        {"processId": ident, "chunk": b64(b"one"), "writeId": "1"},
        {"processId": ident, "chunk": b64(b"two"), "writeId": "2"},
        {"processId": ident, "chunk": "", "writeId": "3", "eof": True},
    ]


@with_a_peer()
async def test_reader_that_does_not_read_holds_the_connection_back(peer: Peer) -> None:
    process, ident = await peer.started()
    size, count = 1 << 20, 20
    for seq in range(1, count + 1):
        peer.output(ident, seq, bytes(size))
    peer.exited(ident, count + 1)
    peer.closed(ident, count + 2)
    for _ in range(100):
        await asyncio.sleep(0)
    waiting = peer.far.buffered
    assert waiting > 8 * size  # the peer still has more than half of it
    total = 0
    async for event in process:
        if isinstance(event, Output):
            total += len(event.data)
    assert (total, peer.far.buffered) == (size * count, 0)


MIB = 1 << 20


async def flooded(peer: Peer) -> tuple[RemoteProcess, str, RemoteProcess]:
    """A process that nobody reads, which the client has just asked to hold, and one that says nothing."""
    peer.offer("processHold")
    quiet, _ = await peer.started()
    process, ident = await peer.started()
    for seq in range(1, 10):
        peer.output(ident, seq, bytes(MIB))
    assert await told(peer) == (ident, True)
    return process, ident, quiet


async def told(peer: Peer) -> tuple[str, bool]:
    """What the client has told to hold, or not."""
    request = await peer.request("process/hold")
    peer.answer(request, {})
    assert list(request["params"]) == ["processId", "held"]
    return request["params"]["processId"], request["params"]["held"]


@with_a_peer()
async def test_process_that_nobody_reads_is_held_alone(peer: Peer) -> None:
    process, ident, _quiet = await flooded(peer)
    # Others go on, and are held only if they have more than a little waiting.
    other, other_ident = await peer.started()
    peer.output(other_ident, 1, bytes(256 << 10))
    assert await anext(aiter(other)) == Output("stdout", bytes(256 << 10))
    peer.output(other_ident, 2, bytes((256 << 10) + 1))
    assert await told(peer) == (other_ident, True)
    assert await anext(aiter(other)) == Output("stdout", bytes((256 << 10) + 1))
    assert await told(peer) == (other_ident, False)
    # Read down to half of what may wait, it comes again.
    output = aiter(process)
    for _ in range(4):
        await anext(output)
    assert (peer.session.waiting, peer.requests) == (5 * MIB, [])
    await anext(output)
    assert await told(peer) == (ident, False)
    for _ in range(4):
        await anext(output)
    assert (peer.session.waiting, peer.requests) == (0, [])


@with_a_peer()
async def test_server_that_cannot_hold_a_process_is_not_asked_to(peer: Peer) -> None:
    _quiet, _ = await peer.started()
    process, ident = await peer.started()
    for seq in range(1, 10):
        peer.output(ident, seq, bytes(MIB))
    for _ in range(100):
        await asyncio.sleep(0)
    assert (peer.session.waiting, peer.session.held, peer.requests) == (9 * MIB, True, [])
    output = aiter(process)
    for _ in range(9):
        await anext(output)
    assert (peer.session.held, peer.requests) == (False, [])


@with_a_peer()
async def test_process_that_is_alone_is_held_back_by_not_reading_on(peer: Peer) -> None:
    """Which costs no request: its own reader may just be slow."""
    peer.offer("processHold")
    _process, ident = await peer.started()
    for seq in range(1, 21):
        peer.output(ident, seq, bytes(MIB))
    for _ in range(100):
        await asyncio.sleep(0)
    assert (peer.session.waiting, peer.requests) == (9 * MIB, [])
    # Somebody else is there: now it is held.
    starting = asyncio.ensure_future(peer.client.start(["x"], cwd="/"))
    request = await peer.request("process/start")
    assert await told(peer) == (ident, True)
    peer.answer(request, {"processId": request["params"]["processId"], "sandboxType": "none"})
    await starting


@with_a_peer()
async def test_much_that_nobody_reads_is_not_in_the_way_of_a_call(peer: Peer) -> None:
    _process, ident, quiet = await flooded(peer)
    for seq in range(10, 56):
        peer.output(ident, seq, bytes(MIB))
    peer.exited(quiet.process_id, 1)
    peer.closed(quiet.process_id, 2)
    peer.output(ident, 56, bytes(MIB))  # it is alone now, and the connection is not read on
    for _ in range(300):
        await asyncio.sleep(0)
    assert (quiet.closed, peer.session.held, peer.session.waiting) == (True, True, 56 * MIB)
    await peer.started()


@with_a_peer()
async def test_watch_is_company(peer: Peer) -> None:
    peer.offer("processHold")
    peer.offer("fsWatch")
    watching = asyncio.ensure_future(peer.client.files.watch("/"))
    peer.answer(await peer.request("fs/watch"), {"watchId": "w"})
    await watching
    _process, ident = await peer.started()
    for seq in range(1, 10):
        peer.output(ident, seq, bytes(MIB))
    assert await told(peer) == (ident, True)


@with_a_peer()
async def test_held_processes_that_send_on_hold_the_connection_back_at_last(peer: Peer) -> None:
    process, ident, _quiet = await flooded(peer)
    for seq in range(10, 80):
        peer.output(ident, seq, bytes(MIB))
    for _ in range(300):
        await asyncio.sleep(0)
    assert not process.closed
    assert 64 * MIB < peer.session.waiting < 66 * MIB


@with_a_peer()
async def test_end_of_a_held_process_needs_no_more_words(peer: Peer) -> None:
    process, ident, _quiet = await flooded(peer)
    peer.exited(ident, 10)
    peer.closed(ident, 11)
    while not process.closed:
        await asyncio.sleep(0)
    assert len(await events(process)) == 10
    asking = asyncio.ensure_future(peer.client.status())
    peer.answer(await peer.request("environment/status"), {"status": "ready"})
    assert await asking == "ready"


@with_a_peer()
async def test_output_that_is_discarded_is_not_held(peer: Peer) -> None:
    process, ident, _quiet = await flooded(peer)
    process.discard()
    assert await told(peer) == (ident, False)


@with_a_peer()
async def test_process_that_is_left_to_itself_is_not_held(peer: Peer) -> None:
    process, ident, _quiet = await flooded(peer)
    peer.exited(ident, 10)
    process._feed.linger(0)
    assert await told(peer) == (ident, False)


@with_a_peer()
async def test_process_that_cannot_be_followed_is_not_held(peer: Peer) -> None:
    process, ident, _quiet = await flooded(peer)
    process._feed.fail(OutputLost("a hole"))
    assert await told(peer) == (ident, False)


@with_a_peer(resumable=True)
async def test_new_connection_hears_what_is_held(peer: Peer) -> None:
    process, ident, quiet = await flooded(peer)
    peer.cut()
    request = await peer.request("initialize")
    peer.answer(request, {"sessionId": "s"})
    await peer.request("initialized")
    none = {"chunks": [], "exited": False, "exitCode": None, "closed": False, "failure": None}
    for _ in (process, quiet):
        read = await peer.request("process/read")
        peer.answer(read, {**none, "nextSeq": read["params"]["afterSeq"] + 1})
    assert await told(peer) == (ident, True)
    assert peer.requests == []


@with_a_peer()
async def test_discarded_output_is_neither_kept_nor_waited_for(peer: Peer) -> None:
    process, ident = await peer.started()
    size, count = 1 << 20, 20
    for seq in range(1, count + 1):
        peer.output(ident, seq, bytes(size))
    await peer.until(lambda: peer.far.buffered > 8 * size)
    process.discard()
    for seq in range(count + 1, 2 * count + 1):
        peer.output(ident, seq, bytes(size))
    peer.exited(ident, 2 * count + 1, 3)
    peer.closed(ident, 2 * count + 2)
    assert await events(process) == [Exited(3)]
    assert peer.session.waiting == 0


@with_a_peer()
async def test_run_that_lingers_counts_from_an_exit_that_came_with_the_answer(peer: Peer) -> None:
    running = asyncio.ensure_future(peer.client.run(["x"], cwd="/", linger=0))
    request = await peer.request("process/start")
    ident = request["params"]["processId"]
    peer.answer(request, {"processId": ident, "sandboxType": "none"})
    peer.exited(ident, 1, 3)  # and never closed
    assert (await running).exit_code == 3


@with_a_peer()
async def test_exit_that_has_come_is_not_discarded_with_the_output(peer: Peer) -> None:
    process, ident = await peer.started()
    peer.output(ident, 1, b"x")
    peer.exited(ident, 2, 3)
    peer.closed(ident, 3)
    while not process.closed:
        await asyncio.sleep(0)
    process.discard()
    assert await events(process) == [Exited(3)]


@with_a_peer()
async def test_listener_that_fails_ends_nobody_s_connection(peer: Peer) -> None:
    def fails(told: object) -> None:
        raise ValueError("of the caller")

    starting = asyncio.ensure_future(peer.client.start(["x"], cwd="/", on_waiting=fails, on_network=fails))
    request = await peer.request("process/start")
    ident = request["params"]["processId"]
    peer.say({"method": "environment/waiting", "params": {"processId": ident, "what": "a setup"}})
    peer.answer(request, {"processId": ident, "sandboxType": "none"})
    process = await starting
    peer.exited(ident, 1, 3)
    peer.closed(ident, 2)
    assert await events(process) == [Exited(3)]


@with_a_peer()
async def test_a_start_that_failed_says_why(peer: Peer) -> None:
    starting = asyncio.ensure_future(peer.client.start(["nosuch"], cwd="/"))
    data = {"error": "launch-failed", "reason": "`nosuch` was not found in the command's PATH"}
    peer.refuse(await peer.request("process/start"), -32603, "No such file or directory (os error 2)", data)
    with pytest.raises(RequestFailed) as raised:
        await starting
    assert str(raised.value) == (
        "No such file or directory (os error 2): `nosuch` was not found in the command's PATH (code -32603)"
    )


def test_events_that_ctrl_c_came_before_leave_in_silence() -> None:
    made = Events.__new__(Events)
    made.__del__()  # of one whose `__init__` has not run
    assert not made._reads


@with_a_peer()
async def test_output_of_a_handle_that_nobody_has_holds_nothing_up(peer: Peer) -> None:
    process, ident = await peer.started()
    peer.output(ident, 1, b"x" * 1000)
    peer.exited(ident, 2)
    peer.closed(ident, 3)
    while not process.closed:
        await asyncio.sleep(0)
    assert peer.session.waiting == 1000  # it may still be read
    del process
    while peer.session.waiting:
        await asyncio.sleep(0)
    starting = asyncio.ensure_future(peer.client.start(["x"], cwd="/"))
    request = await peer.request("process/start")
    peer.output(request["params"]["processId"], 1, b"x" * 1000)  # it overtakes the answer
    while not peer.session.waiting:
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert peer.session.waiting == 0


def test_commands_that_are_started_and_forgotten_leave_the_client_usable() -> None:
    async def main() -> None:
        async with outfitter.local() as client:
            for _ in range(12):  # more than the client holds of output that nobody has read
                await client.start(["head", "-c", "1000000", "/dev/zero"])
                while client._session.processes and not client._session.held:
                    await asyncio.sleep(0)
            assert (await client.run(["echo", "hi"])).text == "hi\n"

    asyncio.run(asyncio.wait_for(main(), 30 * SECOND))


def test_client_of_another_loop_says_so() -> None:
    """Nothing would ever wake who waits in this one."""
    with asyncio.Runner() as first, asyncio.Runner() as second:
        client = first.run(outfitter.open_local())
        for work in (client.run(["true"]), client.files.exists("/"), client.aclose()):
            with pytest.raises(outfitter.OutfitterError, match="another asyncio loop"):
                second.run(work)
        assert first.run(client.run(["echo", "hi"])).text == "hi\n"
        first.run(client.aclose())


@with_a_peer()
async def test_write_that_the_close_overtakes_does_not_blame_the_command(peer: Peer) -> None:
    process, ident = await peer.started()
    writing = asyncio.ensure_future(process.write("text"))
    write = await peer.request("process/write")
    closing = asyncio.ensure_future(peer.client.aclose())
    end = await peer.request("process/terminate")
    assert end["params"]["processId"] == ident
    peer.answer(write, {"status": "stdinClosed"})
    peer.answer(end, {"running": True})
    with pytest.raises(outfitter.SessionExpired, match="closed"):
        await writing
    await closing
