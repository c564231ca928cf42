"""What a client without a place for it hears about its environment: once per thread and cause, on stderr."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.contracts import Place
from tests.support.servers import Server, serving
from tests.support.wire import Wire, start_params

from .test_projects import set_up

NUMBERS = itertools.count(1)
POLICY = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    with serving("outfitter", place.home, env=place.environ()) as server:
        yield server


def streams(
    server: Server, place: Place, argv: list[str], thread: str | None = None, **more: object
) -> tuple[bytes, bytes]:
    """A command of a stock client on a connection of its own: its stdout and its stderr."""
    process = f"p{next(NUMBERS)}"
    metadata = {} if thread is None else {"metadata": {"threadId": thread}}
    params = start_params(process, argv, cwd=place.project.as_uri(), **metadata, **more)
    with Wire(server.url) as wire:
        wire.handshake()
        wire.call("process/start", {"envPolicy": POLICY, **params})
        wire.closed(process)
        return wire.output(process, "stdout"), wire.output(process, "stderr")


def test_a_setup_that_nobody_allowed_is_told_once_for_each_thread(server: Server, place: Place) -> None:
    place.says('[setup]\nrun = "true"\n')
    threads = [str(uuid.uuid4()) for _ in range(2)]
    told = [streams(server, place, ["echo", "hi"], thread) for thread in (*threads, *threads)]
    assert [out for out, _ in told] == [b"hi\n"] * 4
    assert [err.startswith(b"[outfitter] setup:") for _, err in told] == [True, True, False, False]
    assert f"outfitter trust {place.project}\n".encode() in told[0][1]
    assert [err for _, err in told[2:]] == [b"", b""]
    # Another cause is another word.
    place.write(place.project / ".envrc", "export A=1\n")
    assert b"[outfitter] direnv:" in streams(server, place, ["echo", "hi"], threads[0])[1]


def test_a_login_shell_that_cannot_be_kept_out_is_told(server: Server, place: Place) -> None:
    argv = ["sh", "-c", "bash -lc 'echo hi'"]
    thread = str(uuid.uuid4())
    out, err = streams(server, place, argv, thread)
    assert (out, err.count(b"[outfitter] ")) == (b"hi\n", 1)
    assert streams(server, place, argv, thread) == (b"hi\n", b"")
    # A client that says all of its environment is told, too.
    out, err = streams(server, place, argv, str(uuid.uuid4()), envPolicy=None)
    assert (out, err.count(b"[outfitter] ")) == (b"hi\n", 1)


def test_without_a_thread_the_session_is_one(server: Server, place: Place) -> None:
    place.says('[setup]\nrun = "true"\n')
    with Wire(server.url) as wire:
        wire.handshake()
        for process in ("a", "b"):
            params = start_params(process, ["true"], cwd=place.project.as_uri(), envPolicy=POLICY)
            wire.call("process/start", params)
            wire.closed(process)
        assert (b"[outfitter]" in wire.output("a"), wire.output("b")) == (True, b"")


def test_a_notice_is_output_like_any_other_and_can_be_read_again(server: Server, place: Place) -> None:
    place.says('[setup]\nrun = "true"\n')
    with Wire(server.url) as wire:
        wire.handshake()
        params = start_params("p", ["echo", "hi"], cwd=place.project.as_uri(), envPolicy=POLICY)
        wire.call("process/start", params)
        wire.closed("p")
        read = wire.call("process/read", {"processId": "p"})
        assert [(one["seq"], one["stream"]) for one in read["chunks"]] == [(1, "stderr"), (2, "stdout")]


def test_a_client_of_ours_hears_it_in_its_answer(server: Server, place: Place) -> None:
    place.says('[setup]\nrun = "true"\n')
    with Wire(server.url) as wire:
        wire.handshake()
        params = start_params("p", ["true"], cwd=place.project.as_uri(), contract={})
        [warning] = wire.call("process/start", params)["warnings"]
        wire.closed("p")
        assert ("setup" in warning, wire.output("p")) == (True, b"")


def as_stock(place: Place, process: str, thread: str, call: str) -> dict[str, object]:
    """A request as the stock client of 0.166.0 sends it."""
    return {
        "processId": process,
        "metadata": {"threadId": thread, "toolCallId": call},
        "argv": ["/bin/sh", "-lc", "echo hi"],
        "cwd": place.project.as_uri(),
        "envPolicy": {**POLICY, "exclude": ["CODEX_PERMISSION_PROFILE", "CODEX_VERSION"]},
        "env": {"CODEX_CI": "1", "CODEX_THREAD_ID": thread, "CODEX_TOOL_CALL_ID": call, "TERM": "dumb"},
        "tty": False,
        "pipeStdin": False,
        "arg0": None,
        "sandbox": None,
        "enforceManagedNetwork": False,
        "managedNetwork": None,
    }


def test_a_failed_setup_is_told_once_to_a_client_that_traces_its_requests(
    server: Server, place: Place
) -> None:
    set_up(place, "exit 3\n")
    thread = str(uuid.uuid4())
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": None}
    with Wire(server.url) as wire:
        wire.handshake()
        for process in ("a", "b"):
            params = as_stock(place, process, thread, f"call-{process}")
            answer = wire.answer(wire.request("process/start", params, trace=trace))
            assert answer["result"] == {"processId": process, "sandboxType": "none"}
            wire.closed(process)
        first, second = (wire.output(process, "stderr") for process in ("a", "b"))
        assert (first.startswith(b"[outfitter] setup"), first.count(b"\n"), second) == (True, 1, b"")
        assert b"status 3" in first


def test_a_thread_that_only_commands_are_told_of_is_a_thread(server: Server, place: Place) -> None:
    place.says('[setup]\nrun = "true"\n')
    threads = [str(uuid.uuid4()), str(uuid.uuid4()), "no-uuid"]
    told = [streams(server, place, ["true"], env={"CODEX_THREAD_ID": one})[1] for one in (*threads, *threads)]
    # Each of these is a session of its own, which is told where no thread is known.
    assert [err != b"" for err in told] == [True, True, True, False, False, True]


def test_where_notices_go_to_the_log_commands_say_nothing_but_their_own(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.user('[notices]\nstock = "log"\n')
    place.says('[setup]\nrun = "true"\n')
    with serving("outfitter", place.home, env=place.environ()) as server:
        assert streams(server, place, ["echo", "hi"], str(uuid.uuid4())) == (b"hi\n", b"")
        assert streams(server, place, ["echo", "hi"], str(uuid.uuid4())) == (b"hi\n", b"")
    assert (place.home / "outfitter.stderr").read_text().count("! setup:") == 1
