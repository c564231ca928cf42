"""What the reference does not have, each behind a capability: list, attach, resize, end of input, grace."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.machine import SECOND, alive, status, wait_until
from tests.support.servers import Server
from tests.support.wire import Message, Wire, b64, start_params


def write(process: str, data: bytes, write_id: str, **members: object) -> Message:
    return {"processId": process, "chunk": b64(data), "writeId": write_id, **members}


def wait_output(wire: Wire, process: str, text: bytes) -> None:
    """Waits until the output so far ends with this."""
    while not wire.output(process).endswith(text):
        wire.receive()


# process/list (X7)


def test_list_shows_every_process_and_no_command_line(wire: Wire) -> None:
    wire.start("done", ["/bin/sh", "-c", "echo secret-argument >&2; exit 3"])
    wire.closed("done")
    wire.start("runs", ["/bin/sleep", "60"], cwd="file:///usr", tty=True)
    done, runs = wire.call("process/list")["processes"]
    assert "secret-argument" not in str(done)
    assert alive(runs["pid"])
    for entry in (done, runs):
        assert entry.pop("startedAtMs") > 1_600_000_000_000
        assert entry.pop("pid") > 1
    assert [done, runs] == [
        {
            "processId": "done",
            "program": "/bin/sh",
            "cwd": "file:///tmp",
            "tty": False,
            "firstSeq": 1,
            "nextSeq": 4,
            "exited": True,
            "exitCode": 3,
            "closed": True,
            "droppedBytes": 0,
        },
        {
            "processId": "runs",
            "program": "/bin/sleep",
            "cwd": "file:///usr",
            "tty": True,
            "firstSeq": 1,
            "nextSeq": 1,
            "exited": False,
            "exitCode": None,
            "closed": False,
            "droppedBytes": 0,
        },
    ]


# process/attach (X7)


def test_attach_sends_the_same_events_again(wire: Wire) -> None:
    wire.start("p", ["/bin/sh", "-c", "echo out; echo err >&2; exit 5"])
    first = wire.closed("p")
    wire.notices.clear()
    state = wire.call("process/attach", {"processId": "p"})
    assert (state["exitCode"], state["closed"], state["nextSeq"]) == (5, True, len(first) + 1)
    assert wire.closed("p") == first


def test_attach_sends_only_what_comes_after_the_cursor(wire: Wire) -> None:
    wire.start("p", ["/bin/sh", "-c", "echo out; exit 5"])
    first = wire.closed("p")
    wire.notices.clear()
    wire.call("process/attach", {"processId": "p", "afterSeq": 1})
    assert wire.closed("p") == first[1:]


def test_attach_to_a_running_process_goes_on_with_live_events(wire: Wire) -> None:
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    wire.call("process/write", write("p", b"one", "1"))
    wait_output(wire, "p", b"one")
    wire.notices.clear()
    assert wire.call("process/attach", {"processId": "p"})["nextSeq"] == 2
    wire.call("process/write", write("p", b"two", "2", eof=True))
    wire.closed("p")
    assert wire.output("p") == b"onetwo"


def test_attach_sends_thousands_of_events(wire: Wire) -> None:
    # More pieces than the kernel takes in one call.
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    for number in range(700):
        wire.request("process/write", write("p", b"%d\n" % number, f"w{number}"))
        wire.until(lambda m, n=number: m["method"] == "process/output" and m["params"]["seq"] > n)  # type: ignore[misc]
    text, events = wire.output("p"), len(wire.notices)
    wire.notices.clear()
    wire.call("process/attach", {"processId": "p"})
    wait_output(wire, "p", b"699\n")
    assert (wire.output("p"), len(wire.notices)) == (text, events)


def test_attach_to_an_unknown_process_is_refused(wire: Wire) -> None:
    assert wire.error("process/attach", {"processId": "p"}) == {
        "code": -32600,
        "message": "unknown process id p",
        "data": {"error": "refused"},
    }


# process/resize (row 11)


SIZE = "stty size; read again; stty size"


def test_terminal_has_the_size_it_was_given_and_takes_a_new_one(wire: Wire) -> None:
    wire.start("p", ["/bin/sh", "-c", SIZE], tty=True, size={"rows": 50, "cols": 132})
    wait_output(wire, "p", b"50 132\r\n")
    assert wire.call("process/resize", {"processId": "p", "size": {"rows": 7, "cols": 9}}) == {}
    wire.call("process/write", write("p", b"\n", "1"))
    wire.closed("p")
    assert wire.output("p") == b"50 132\r\n\r\n7 9\r\n"


def test_terminal_is_24_by_80_when_nothing_is_said(wire: Wire) -> None:
    wire.start("p", ["/bin/stty", "size"], tty=True)
    wire.closed("p")
    assert wire.output("p") == b"24 80\r\n"


@pytest.mark.parametrize("size", [{"rows": 0, "cols": 1}, {"rows": 1, "cols": 65536}], ids=str)
def test_impossible_size_is_refused(size: Message, wire: Wire) -> None:
    error = wire.error("process/start", start_params("p", ["/bin/true"], tty=True, size=size))
    text = "terminal size must be between 1 and 65535 rows and columns"
    assert (error["code"], error["message"]) == (-32602, text)


def test_process_without_a_terminal_has_no_size(wire: Wire) -> None:
    wire.start("p", ["/bin/sleep", "60"])
    error = wire.error("process/resize", {"processId": "p", "size": {"rows": 5, "cols": 5}})
    assert (error["code"], error["message"]) == (-32600, "process p has no open terminal")


# process/hold

FLOOD = 1 << 20  # more than is on its way


def hold(wire: Wire, process: str, held: bool) -> None:
    assert wire.call("process/hold", {"processId": process, "held": held}) == {}


def test_held_process_says_nothing_and_the_others_go_on(wire: Wire) -> None:
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    hold(wire, "p", True)
    hold(wire, "p", True)  # it is, already
    wire.call("process/write", write("p", b"hidden\n", "1", eof=True))
    wire.start("q", ["/bin/echo", "hi"])
    wire.closed("q")
    # Its end is told, too.
    wire.until(lambda m: m["method"] == "process/exited" and m["params"]["processId"] == "p")
    assert (wire.output("q"), wire.output("p")) == (b"hi\n", b"")
    hold(wire, "p", False)
    wire.closed("p")
    assert wire.output("p") == b"hidden\n"
    hold(wire, "p", True)  # of an ended one: nothing
    hold(wire, "p", False)


def test_held_process_waits_and_loses_nothing(wire: Wire) -> None:
    wire.start("p", ["/bin/sh", "-c", f"read go; yes | head -c {4 * FLOOD}; echo end >&2"], pipeStdin=True)
    hold(wire, "p", True)
    wire.call("process/write", write("p", b"\n", "1"))
    assert wire.call("process/read", {"processId": "p", "afterSeq": 0, "waitMs": 300})["chunks"] == []
    hold(wire, "p", False)
    wire.closed("p")
    assert (len(wire.output("p", "stdout")), wire.output("p", "stderr")) == (4 * FLOOD, b"end\n")


def test_held_terminal_can_be_ended(wire: Wire) -> None:
    wire.start("p", ["/bin/cat", "/dev/zero"], tty=True)
    hold(wire, "p", True)
    assert wire.call("process/terminate", {"processId": "p"}) == {"running": True}
    assert wire.exit_code("p") == 137
    wire.closed("p")


def test_hold_ends_with_its_connection(server: Server) -> None:
    with Wire(server.url) as first:
        session_id = first.handshake()["sessionId"]
        first.start("p", ["/bin/cat"], pipeStdin=True)
        hold(first, "p", True)
        first.call("process/write", write("p", b"said\n", "1"))
    with Wire(server.url) as second:
        second.handshake(session_id)
        # Whether it was read before, or is now.
        read = {"processId": "p", "afterSeq": 0, "waitMs": int(1000 * SECOND)}
        assert [chunk["chunk"] for chunk in second.call("process/read", read)["chunks"]] == [b64(b"said\n")]
        second.call("process/terminate", {"processId": "p"})
        second.closed("p")


def test_unknown_process_is_not_held(wire: Wire) -> None:
    error = wire.error("process/hold", {"processId": "p", "held": True})
    assert (error["code"], error["message"]) == (-32600, "unknown process id p")


# End of input (rows 13, 14; X6)


def test_end_of_input_follows_the_last_bytes(wire: Wire) -> None:
    wire.start("p", ["/bin/cat"], pipeStdin=True)
    assert wire.call("process/write", write("p", b"all", "1", eof=True)) == {"status": "accepted"}
    wire.closed("p")
    assert wire.output("p") == b"all"


def test_write_after_the_end_of_input_is_told_so(wire: Wire) -> None:
    wire.start("p", ["/bin/sh", "-c", "cat; exec sleep 60"], pipeStdin=True)
    wire.call("process/write", write("p", b"", "1", eof=True))
    assert wire.call("process/write", write("p", b"x", "2")) == {"status": "stdinClosed"}
    # The end itself may be repeated: its answer may have been lost (X2).
    assert wire.call("process/write", write("p", b"", "1", eof=True)) == {"status": "accepted"}


def test_end_of_input_on_a_terminal_is_typed(wire: Wire) -> None:
    wire.start("p", ["/bin/cat"], tty=True)
    wire.call("process/write", write("p", b"line\n", "1", eof=True))
    wire.closed("p")
    assert wire.output("p").replace(b"\r\n", b"\n").count(b"line\n") == 2  # its echo, and what cat printed
    assert wire.exit_code("p") == 0


def test_write_to_a_command_that_exited_or_closed_its_input_is_told_so(wire: Wire) -> None:
    wire.start("gone", ["/bin/true"], pipeStdin=True)
    wire.closed("gone")
    assert wire.call("process/write", write("gone", b"x", "1")) == {"status": "stdinClosed"}
    wire.start("deaf", ["/bin/sh", "-c", "exec <&-; echo deaf; exec sleep 60"], pipeStdin=True)
    wait_output(wire, "deaf", b"deaf\n")
    assert wire.call("process/write", write("deaf", b"x", "1")) == {"status": "stdinClosed"}
    wire.start("none", ["/bin/sleep", "60"])
    assert wire.call("process/write", write("none", b"x", "1")) == {"status": "stdinClosed"}


# graceMs (row 4)


TRAP = "trap 'echo cleaning; exit 7' TERM; echo ready; while :; do sleep 0.05; done"


def test_grace_lets_a_trap_run(wire: Wire) -> None:
    wire.start("p", ["/bin/sh", "-c", TRAP])
    wait_output(wire, "p", b"ready\n")
    assert wire.call("process/terminate", {"processId": "p", "graceMs": 20_000}) == {"running": True}
    assert wire.exit_code("p") == 7
    wire.closed("p")
    assert wire.output("p", "stdout") == b"ready\ncleaning\n"


def test_grace_ends_in_a_kill(wire: Wire) -> None:
    wire.start("p", ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"])
    wait_output(wire, "p", b"ready\n")
    params = {"processId": "p", "graceMs": int(100 * SECOND)}
    assert wire.call("process/terminate", params) == {"running": True}
    assert wire.exit_code("p") == 137
    wire.closed("p")


def test_no_grace_is_a_kill_at_once(wire: Wire) -> None:
    wire.start("p", ["/bin/sh", "-c", TRAP])
    wait_output(wire, "p", b"ready\n")
    assert wire.call("process/terminate", {"processId": "p"}) == {"running": True}
    assert wire.exit_code("p") == 137
    wire.closed("p")
    assert wire.output("p") == b"ready\n"


def test_signal_that_ended_a_command_is_told(wire: Wire) -> None:
    for name, script, number in (("p", "kill -9 $$", 9), ("q", "exit 137", None)):
        wire.start(name, ["/bin/sh", "-c", script])
        wire.closed(name)
        told = [one["params"] for one in wire.notices if one["method"] == "process/exited"][-1]
        assert (told["exitCode"], told.get("signal")) == (137, number)
        read = wire.call("process/read", {"processId": name})
        assert (read["exitCode"], read.get("signal")) == (137, number)


def test_terminate_delivers_what_was_printed(wire: Wire) -> None:
    # Row 7.
    wire.start("p", ["/bin/sh", "-c", "head -c 60000 /dev/zero; kill -STOP $$"])
    [entry] = wire.call("process/list")["processes"]
    # All of it is printed, whoever has read it by now.
    wait_until(lambda: status(entry["pid"]).get("State", "")[:1] == "T", "the command has stopped")
    wire.call("process/terminate", {"processId": "p"})
    wire.closed("p")
    assert len(wire.output("p")) == 60_000
    assert not alive(entry["pid"])


# process/signal (row 12; X6)


def test_interrupt_reaches_the_foreground_job_of_a_terminal(wire: Wire) -> None:
    job = "trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done"
    shell = ["/bin/bash", "--norc", "-c", 'set -m; sh -c "$1"; echo status $?', "bash", job]
    wire.start("p", shell, tty=True)
    wait_output(wire, "p", b"ready\r\n")
    assert wire.call("process/signal", {"processId": "p", "signal": "interrupt"}) == {}
    wire.closed("p")
    assert wire.output("p") == b"ready\r\nstatus 9\r\n"


def test_interrupt_of_an_ended_command_is_nothing(wire: Wire) -> None:
    wire.start("p", ["/bin/true"])
    wire.closed("p")
    assert wire.call("process/signal", {"processId": "p", "signal": "interrupt"}) == {}


def test_child_ended_by_a_signal_reports_it_on_pipes_and_terminals_alike(wire: Wire) -> None:
    # Row 8.
    for tty in (False, True):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
            process = f"{number.name} {tty}"
            wire.start(process, ["/bin/sh", "-c", f"ulimit -c 0; kill -{number.value} $$"], tty=tty)
            assert wire.exit_code(process) == 128 + number


def test_terminal_keeps_program_and_directory_apart_from_their_reference_defects(
    server: Server, wire: Wire
) -> None:
    # Rows 9 and 10.
    missing = start_params("p", ["/bin/pwd"], tty=True, cwd="file:///nonesuch")
    error = wire.error("process/start", missing)
    assert (error["code"], error["data"]["errno"]) == (-32603, "ENOENT")
    assert "working directory" in error["data"]["reason"]
    wire.start("q", ["/bin/sh", "-c", "echo $0"], tty=True, arg0="renamed")
    wire.closed("q")
    # `sh -c` takes $0 from its arguments or its own name: the name is arg0.
    assert wire.output("q") == b"renamed\r\n"


def test_output_of_a_background_child_follows_the_exit(wire: Wire, tmp_path: Path) -> None:
    # X5: `exited` comes at once; the child's late output still arrives, numbered, before `closed`.
    os.mkfifo(tmp_path / "go")
    wire.start("p", ["/bin/sh", "-c", f"(read go <{tmp_path}/go; echo late) & exit 0"])
    assert wire.exit_code("p") == 0
    (tmp_path / "go").write_text("go\n")
    assert [notice["method"] for notice in wire.closed("p")] == [
        "process/exited",
        "process/output",
        "process/closed",
    ]
    assert wire.output("p") == b"late\n"


# Taking a session over (X8)


def test_session_is_taken_from_a_living_holder_only_when_asked(server: Server, wire: Wire) -> None:
    assert wire.call("environment/info")["capabilities"]["sessionTakeOver"] is True
    with Wire(server.url) as holder, Wire(server.url) as other, Wire(server.url) as third:
        session_id = holder.handshake()["sessionId"]
        holder.start("runs", ["/bin/cat"], pipeStdin=True)
        resume = {"clientName": "other", "resumeSessionId": session_id}
        assert other.error("initialize", resume)["code"] == -32010
        assert third.call("initialize", {**resume, "takeOver": True})["sessionId"] == session_id
        third.send({"method": "initialized", "params": {}})
        [runs] = third.call("process/list")["processes"]
        assert runs["processId"] == "runs" and alive(runs["pid"])
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                holder.receive()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4001
        assert closed.value.rcvd.reason == "another client has taken the session over"


def test_taking_over_a_session_that_nobody_holds_is_a_resume(server: Server) -> None:
    with Wire(server.url) as holder:
        session_id = holder.handshake()["sessionId"]
    resume = {"clientName": "other", "resumeSessionId": session_id, "takeOver": True}
    with Wire(server.url) as other:
        # The server notices the end of the first connection in its own time; taking over does not wait.
        assert other.call("initialize", resume)["sessionId"] == session_id


def test_unknown_session_cannot_be_taken_over(server: Server) -> None:
    resume = {"clientName": "other", "resumeSessionId": "00000000-0000-4000-8000-000000000000"}
    with Wire(server.url) as other:
        refused = other.error("initialize", {**resume, "takeOver": True})
        assert refused == other.error("initialize", resume)
