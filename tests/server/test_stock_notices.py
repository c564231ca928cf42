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
