"""Who waits for whom: nobody for a long poll or a full stdin, every write for the one before it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine import alive, wait_gone
from tests.support.raw import Raw, frame
from tests.support.servers import Server, serving
from tests.support.wire import Message, Wire, b64, start_params

FOREVER_MS = 60_000
PIPE = 65536  # what a pipe holds
FULL = 8 << 20  # what a server queues for a stdin above that


@pytest.fixture(params=["1", "8"], ids=["concurrent-requests 1", "concurrent-requests 8"])
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Wire]:
    """The order of things is the same whatever the width (rows 1, 2, 3)."""
    with (
        serving("outfitter", tmp_path, "--concurrent-requests", request.param) as server,
        Wire(server.url) as wire,
    ):
        wire.handshake()
        yield wire


def write(process: str, data: bytes, write_id: str, **members: object) -> Message:
    return {"processId": process, "chunk": b64(data), "writeId": write_id, **members}


def answered_in_order(wire: Wire, idents: list[int]) -> list[int]:
    """The ids of these requests in the order in which their answers come."""
    came: list[int] = []
    while len(came) < len(idents):
        message = wire.receive()
        if message.get("id") in idents:
            came.append(message["id"])
    return came


# Long polls (row 3)


def test_control_requests_overtake_a_long_poll(wire: Wire) -> None:
    wire.start("p", ["/bin/sleep", "60"])
    poll = wire.request("process/read", {"processId": "p", "waitMs": FOREVER_MS})
    status = wire.request("environment/status")
    info = wire.request("environment/info")
    listed = wire.request("process/list")
    signal = wire.request("process/signal", {"processId": "nobody", "signal": "interrupt"})
    terminate = wire.request("process/terminate", {"processId": "p"})
    order = answered_in_order(wire, [poll, status, info, listed, signal, terminate])
    assert order == [status, info, listed, signal, terminate, poll]


def test_command_starts_and_ends_while_a_long_poll_waits(wire: Wire) -> None:
    wire.start("quiet", ["/bin/sleep", "60"])
    poll = wire.request("process/read", {"processId": "quiet", "waitMs": FOREVER_MS})
    wire.start("quick", ["/bin/echo", "done"])
    wire.closed("quick")
    assert wire.output("quick") == b"done\n"
    wire.call("process/terminate", {"processId": "quiet"})
    page = wire.answer(poll)["result"]
    assert (page["chunks"], page["exited"], page["exitCode"]) == ([], True, 137)


def test_long_poll_ends_with_the_first_output(wire: Wire) -> None:
    # Row 39: a wake-up is never missed.
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    for number in range(1, 200):
        poll = wire.request("process/read", {"processId": "p", "afterSeq": number - 1, "waitMs": FOREVER_MS})
        wire.request("process/write", write("p", b"x", f"w{number}"))
        page = wire.answer(poll)["result"]
        assert [chunk["seq"] for chunk in page["chunks"]] == [number]


def test_long_poll_returns_at_its_time(wire: Wire) -> None:
    wire.start("p", ["/bin/sleep", "60"])
    page = wire.call("process/read", {"processId": "p", "waitMs": 30})
    assert page == {
        "chunks": [],
        "nextSeq": 1,
        "exited": False,
        "exitCode": None,
        "closed": False,
        "failure": None,
        "sandboxDenied": False,
    }


def test_many_readers_of_one_process_are_all_answered(wire: Wire) -> None:
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    polls = [wire.request("process/read", {"processId": "p", "waitMs": FOREVER_MS}) for _ in range(50)]
    wire.call("process/write", write("p", b"news", "1"))
    pages = [wire.answer(poll)["result"]["chunks"] for poll in polls]
    assert pages == [[{"seq": 1, "stream": "stdout", "chunk": b64(b"news")}]] * 50


def test_longest_wait_is_accepted(wire: Wire) -> None:
    wire.start("p", ["/bin/sleep", "60"])
    poll = wire.request("process/read", {"processId": "p", "waitMs": 2**64 - 1})
    assert wire.call("environment/status") == {"status": "ready"}
    wire.call("process/terminate", {"processId": "p"})
    assert wire.answer(poll)["result"]["exitCode"] == 137


# Streams


def test_stream_beside_commands_is_whole_and_goes_on(server: Server) -> None:
    # It is set aside for each of them, and comes back for the next.
    with Wire(server.url) as streaming, Wire(server.url) as wire:
        streaming.handshake()
        wire.handshake()
        script = "seq 1 2000000 & seq 1 2000000 >&2; wait"
        streaming.start("stream", ["/bin/sh", "-c", script])
        reader = threading.Thread(target=streaming.closed, args=("stream", 60))
        reader.start()
        beside = 0
        while reader.is_alive():
            wire.start(f"p{beside}", ["/bin/echo", str(beside)])
            wire.closed(f"p{beside}")
            assert wire.output(f"p{beside}") == b"%d\n" % beside
            beside += 1
        reader.join()
    lines = b"".join(b"%d\n" % number for number in range(1, 2_000_001))
    assert streaming.output("stream", "stdout") == lines
    assert streaming.output("stream", "stderr") == lines
    numbers = [m["params"]["seq"] for m in streaming.notices if m["params"].get("processId") == "stream"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert beside > 5


# Blocked writes (rows 1, 15)


def test_control_requests_overtake_a_blocked_write(wire: Wire) -> None:
    wire.start("p", ["/bin/sleep", "60"], pipeStdin=True)
    assert wire.call("process/write", write("p", bytes(FULL + PIPE), "1")) == {"status": "accepted"}
    blocked = wire.request("process/write", write("p", b"more", "2"))
    status = wire.request("environment/status")
    assert answered_in_order(wire, [status]) == [status]
    assert wire.call("process/terminate", {"processId": "p"}) == {"running": True}
    assert wire.answer(blocked)["result"] == {"status": "stdinClosed"}


def test_pipelined_writes_arrive_in_order(wire: Wire) -> None:
    # Row 1: the reference reorders 30 of them in each of 10 trials.
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    for number in range(400):
        wire.request("process/write", write("p", b"%d\n" % number, f"w{number}"))
    wire.call("process/write", write("p", b"", "end", eof=True))
    wire.closed("p")
    assert wire.output("p") == b"".join(b"%d\n" % number for number in range(400))


def test_writes_that_wait_for_room_keep_their_order(wire: Wire) -> None:
    # A large one fills pipe and queue; the rest, of all sizes, waits behind it.
    wire.start("p", ["/bin/sh", "-c", "read go; exec cat"], pipeStdin=True)
    parts = [bytes([65 + number % 26]) * (number * 37 % 3000 + 1) for number in range(300)]
    wire.call("process/write", write("p", b"go\n" + b"." * (FULL + PIPE), "first"))
    idents = [wire.request("process/write", write("p", part, f"w{n}")) for n, part in enumerate(parts)]
    assert [wire.answer(ident)["result"] for ident in idents] == [{"status": "accepted"}] * len(parts)
    wire.call("process/write", write("p", b"", "end", eof=True))
    wire.closed("p")
    assert wire.output("p") == b"." * (FULL + PIPE) + b"".join(parts)


def test_thousand_small_writes_wait_for_a_slow_reader(wire: Wire) -> None:
    # They are all taken in one go when the command reads at last; that must not nest a thousand deep.
    wire.start("p", ["/bin/sh", "-c", "kill -STOP $$; exec cat >/dev/null"], pipeStdin=True)
    [listed] = wire.call("process/list")["processes"]
    wire.call("process/write", write("p", bytes(PIPE), "fill"))
    count = 128 + 1000
    idents = [wire.request("process/write", write("p", b"y", f"w{number}")) for number in range(count)]
    wire.call("environment/status")
    os.kill(listed["pid"], signal.SIGCONT)
    assert [wire.answer(ident)["result"] for ident in idents] == [{"status": "accepted"}] * count
    assert wire.call("process/write", write("p", b"", "end", eof=True)) == {"status": "accepted"}
    assert wire.exit_code("p") == 0


def test_too_many_waiting_writes_are_refused_with_the_reason(wire: Wire) -> None:
    # Row 29.
    wire.start("p", ["/bin/sleep", "60"], pipeStdin=True)
    wire.call("process/write", write("p", bytes(FULL + PIPE), "fill"))
    waiting = [wire.request("process/write", write("p", b"y", f"w{number}")) for number in range(1024)]
    error = wire.error("process/write", write("p", b"y", "one-more"))
    assert error["code"] == -32600
    assert error["message"].startswith("stdin of process p is full")
    wire.call("process/terminate", {"processId": "p"})
    assert [wire.answer(ident)["result"] for ident in waiting] == [{"status": "stdinClosed"}] * 1024


def test_writes_that_wait_are_answered_when_a_command_lets_go_of_its_terminal(wire: Wire) -> None:
    script = "stty raw -echo; echo ready; kill -STOP $$; exec sleep 60 </dev/null >/dev/null 2>&1"
    wire.start("p", ["/bin/sh", "-c", script], tty=True)
    wire.until(lambda m: m["method"] == "process/output")
    [listed] = wire.call("process/list")["processes"]
    wire.call("process/write", write("p", bytes(FULL + PIPE), "fill"))
    waiting = wire.request("process/write", write("p", b"y", "waits"))
    wire.call("environment/status")
    os.kill(listed["pid"], signal.SIGCONT)
    assert wire.answer(waiting)["result"] == {"status": "accepted"}
    assert wire.call("process/write", write("p", b"y", "next")) == {"status": "accepted"}


def test_same_write_id_twice_in_the_queue_is_written_once(wire: Wire) -> None:
    # X2
    wire.start("p", ["/bin/sh", "-c", "read go; exec cat"], pipeStdin=True)
    wire.call("process/write", write("p", b"go\n" + b"." * (FULL + PIPE), "first"))
    one = wire.request("process/write", write("p", b"once", "same"))
    two = wire.request("process/write", write("p", b"once", "same"))
    assert wire.answer(one)["result"] == wire.answer(two)["result"] == {"status": "accepted"}
    wire.call("process/write", write("p", b"", "end", eof=True))
    wire.closed("p")
    assert wire.output("p").strip(b".") == b"once"


# Starting and ending (row 2)


def test_pipelined_terminate_never_overtakes_its_start(wire: Wire) -> None:
    pids = []
    for number in range(30):
        start = wire.request("process/start", start_params(f"p{number}", ["/bin/sleep", "60"]))
        terminate = wire.request("process/terminate", {"processId": f"p{number}"})
        listing = wire.request("process/list")
        assert "result" in wire.answer(start)
        assert wire.answer(terminate)["result"] == {"running": True}
        pids += [entry["pid"] for entry in wire.answer(listing)["result"]["processes"]]
    wait_gone(pids)
    assert [pid for pid in pids if alive(pid)] == []


def test_pipelined_start_write_and_end_of_input_work_together(wire: Wire) -> None:
    wire.request("process/start", start_params("p", ["/bin/cat"], pipeStdin=True))
    wire.request("process/write", write("p", b"hello", "1"))
    wire.request("process/write", write("p", b" world", "2", eof=True))
    wire.closed("p")
    assert wire.output("p") == b"hello world"


def test_failed_start_frees_its_id(wire: Wire) -> None:
    # Row 30.
    error = wire.error("process/start", start_params("p", ["/nonesuch"]))
    assert error == {
        "code": -32603,
        "message": "No such file or directory (os error 2)",
        "data": {
            "error": "launch-failed",
            "errno": "ENOENT",
            "reason": "the program does not exist",
            "subject": "program",
        },
    }
    assert wire.start("p", ["/bin/true"]) == {"processId": "p", "sandboxType": "none"}


# Ids (row 28)


@pytest.mark.parametrize("ident", [7, "seven", -1, ""])
def test_id_of_a_waiting_request_is_refused_and_the_first_goes_on(ident: int | str, wire: Wire) -> None:
    wire.start("p", ["/bin/sleep", "60"])
    wire.send({"id": ident, "method": "process/read", "params": {"processId": "p", "waitMs": FOREVER_MS}})
    wire.send({"id": ident, "method": "environment/status"})
    refusal = wire.answer(ident)
    assert refusal["error"]["code"] == -32600
    assert refusal["error"]["message"].startswith(f"request id {ident!r} is still in use")
    wire.call("process/terminate", {"processId": "p"})
    assert wire.answer(ident)["result"]["exited"] is True
    wire.send({"id": ident, "method": "environment/status"})
    assert wire.answer(ident) == {"id": ident, "result": {"status": "ready"}}


def test_number_and_text_are_different_ids(wire: Wire) -> None:
    wire.start("p", ["/bin/sleep", "60"])
    wire.send({"id": 7, "method": "process/read", "params": {"processId": "p", "waitMs": FOREVER_MS}})
    wire.send({"id": "7", "method": "environment/status"})
    assert wire.receive() == {"id": "7", "result": {"status": "ready"}}


def test_too_many_waiting_requests_are_refused_with_the_reason(wire: Wire) -> None:
    # Row 29.
    wire.start("p", ["/bin/sleep", "60"])
    polls = [wire.request("process/read", {"processId": "p", "waitMs": FOREVER_MS}) for _ in range(1024)]
    error = wire.error("process/read", {"processId": "p", "waitMs": FOREVER_MS})
    assert error == {
        "code": -32600,
        "message": "1024 requests of this connection are waiting already; wait for one of them first",
        "data": {"error": "refused"},
    }
    assert wire.call("environment/status") == {"status": "ready"}
    wire.call("process/terminate", {"processId": "p"})
    assert {wire.answer(poll)["result"]["exitCode"] for poll in polls} == {137}


# Pipelines (row 40)


@pytest.mark.parametrize("method", ["environment/status", "environment/info", "process/list"])
def test_thousands_of_pipelined_requests_are_all_answered(method: str, server: Server) -> None:
    # The reference deadlocks at about a thousand; here they are sent before one answer is read.
    count = 3000
    with Raw(server) as raw:
        raw.handshake_unread()
        requests = b"".join(
            frame(json.dumps({"id": ident, "method": method}).encode()) for ident in range(100, 100 + count)
        )
        sender = threading.Thread(target=raw.socket.sendall, args=(requests,))
        sender.start()
        answered = []
        while len(answered) < count:
            _, payload = raw.frame()
            ident = json.loads(payload)["id"]
            if ident >= 100:
                answered.append(ident)
        sender.join()
    assert answered == list(range(100, 100 + count))


def test_pipeline_goes_on_while_output_floods(wire: Wire) -> None:
    wire.start("flood", ["/bin/sh", "-c", "head -c 20000000 /dev/zero"])
    idents = [wire.request("environment/status") for _ in range(1500)]
    answers = [wire.answer(ident) for ident in idents]
    assert answers == [{"id": ident, "result": {"status": "ready"}} for ident in idents]
    wire.closed("flood")
    assert len(wire.output("flood")) == 20_000_000


# Malformed messages (row 31) and fatal ones (row 20)


MALFORMED: list[tuple[str, int | str]] = [
    ("", -1),
    ("[]", -1),
    ("{", -1),
    ('{"id":7,"method":', 7),
    ('{"id":"seven","method":1}', "seven"),
    ('{"id":7,"method":"environment/status"} trailing', 7),
    ('{"id":1.5,"method":"environment/status"}', -1),
    ('{"id":null,"method":"environment/status"}', -1),
    ('{"id":7,"id":8,"method":"environment/status"}', -1),
    ('{"id":7,"method":"environment/status","trace":5}', 7),
]


@pytest.mark.parametrize(("text", "ident"), MALFORMED, ids=[text or "empty" for text, _ in MALFORMED])
def test_malformed_message_is_answered_with_its_id_and_without_our_address(
    text: str, ident: int | str, server: Server
) -> None:
    with Wire(server.url) as wire:
        wire.handshake()
        wire.send(text)
        answer = wire.receive()
        assert answer["id"] == ident
        assert answer["error"]["code"] == -32600
        assert answer["error"]["message"].startswith("failed to parse JSON-RPC message: ")
        assert answer["error"]["data"] == {"error": "malformed-message"}
        assert "127.0.0.1" not in answer["error"]["message"]
        assert wire.call("environment/status") == {"status": "ready"}


FATAL = [
    ('{"method":"process/nonesuch"}', "unknown notification `process/nonesuch`"),
    ('{"id":1,"result":{}}', "a response to a request that was never sent"),
    ('{"id":1,"error":{"code":1,"message":"no"}}', "a response to a request that was never sent"),
]


@pytest.mark.parametrize(("text", "reason"), FATAL, ids=[reason for _, reason in FATAL[:2]] + ["an error"])
def test_fatal_message_ends_the_connection_with_the_reason(text: str, reason: str, server: Server) -> None:
    with Wire(server.url) as wire:
        wire.handshake()
        wire.send(text)
        closed = wire.ended()
        assert closed.rcvd is not None
        assert (closed.rcvd.code, closed.rcvd.reason) == (1002, reason)


def test_initialized_before_initialize_ends_the_connection(server: Server) -> None:
    with Wire(server.url) as wire:
        wire.send({"method": "initialized"})
        closed = wire.ended()
        assert closed.rcvd is not None
        assert (closed.rcvd.code, closed.rcvd.reason) == (1002, "initialized before initialize")


def test_unknown_method_is_named(server: Server) -> None:
    with Wire(server.url) as wire:
        assert wire.error("process/kill") == {
            "code": -32601,
            "message": "exec-server stub does not implement `process/kill` yet",
            "data": {"error": "method-unknown"},
        }
