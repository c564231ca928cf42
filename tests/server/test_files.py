"""Files through a server: whose turn it is, large answers, slow readers, handles and what is left of them."""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import fcntl
import json
import os
import platform
import random
import re
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter.host.workers import THREADS
from outfitter.server.limits import FILE_WIDTH
from tests.support.machine import PROC, SECOND, alive, descriptors, peak_kib, resident_kib, wait_until
from tests.support.pipes import piping
from tests.support.raw import Raw
from tests.support.servers import Server, serving
from tests.support.wire import Message, Wire, b64

MIB = 1 << 20
FLAT_KIB = 24 << 10  # what a large file may cost a server, however large it is
# Since glibc 2.43, the heap of a thread begins with a huge page on arm64; a connection keeps 16 threads busy.
if platform.machine() == "aarch64" and platform.libc_ver() >= ("glibc", "2.43"):
    FLAT_KIB += 16 * 2048


def content(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def path_of(path: Path) -> Message:
    return {"path": path.as_uri()}


def written(path: Path, data: bytes) -> Message:
    return {**path_of(path), "dataBase64": b64(data)}


def data_of(answer: Message) -> bytes:
    return base64.b64decode(answer["result"]["dataBase64"])


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server whose memory and descriptors are nobody else's."""
    (tmp_path / "home").mkdir()
    with serving("outfitter", tmp_path / "home") as server:
        with Wire(server.url) as wire:  # what it needs once, it has now
            wire.handshake()
            wire.call("fs/readFile", {"path": "file:///etc/passwd"})
            wire.start("p", ["/bin/true"])
            wire.closed("p")
        yield server


class Stuck:
    """A FIFO whose reader takes nothing: a write to it waits until `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.data = content(200_000)  # more than a pipe holds

    def write(self, wire: Wire) -> int:
        ident = wire.request("fs/writeFile", written(self.path, self.data))
        # It is stuck when the pipe is full.
        wait_until(lambda: self._waiting() >= 65536, "the write is stuck")
        return ident

    def _waiting(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, count)
        return count[0]

    def release(self) -> bytes:
        os.set_blocking(self._fd, True)
        with open(self._fd, "rb") as stream:
            return stream.read()


# Whose turn it is


def test_pipelined_write_and_read_of_one_path_keep_their_order(wire: Wire, tmp_path: Path) -> None:
    path = tmp_path / "file"
    asked = []
    for number in range(50):
        wire.request("fs/writeFile", written(path, b"%d" % number))
        asked.append(wire.request("fs/readFile", path_of(path)))
        wire.request("fs/remove", path_of(path))
    assert [data_of(wire.answer(ident)) for ident in asked] == [b"%d" % number for number in range(50)]


def test_pipelined_work_on_a_tree_is_done_in_its_order(wire: Wire, tmp_path: Path) -> None:
    folder = tmp_path / "a/b/c"
    wire.request("fs/createDirectory", path_of(folder))
    wire.request("fs/writeFile", written(tmp_path / "a/b/beside", b"x"))  # needs what was made on the way
    wire.request("fs/writeFile", written(folder / "file", b"x"))
    listed = wire.request("fs/readDirectory", path_of(tmp_path / "a/b"))
    wire.request(
        "fs/copy",
        {"sourcePath": folder.as_uri(), "destinationPath": (tmp_path / "d/e").as_uri(), "recursive": True},
    )
    wire.request("fs/remove", path_of(tmp_path / "a"))
    gone = wire.request("fs/getMetadata", path_of(folder))
    copied = wire.request("fs/readFile", path_of(tmp_path / "d/e/file"))
    names = [entry["fileName"] for entry in wire.answer(listed)["result"]["entries"]]
    assert names == ["beside", "c"]
    assert wire.answer(gone)["error"]["code"] == -32004
    assert data_of(wire.answer(copied)) == b"x"


def test_pipelined_life_of_a_handle_needs_no_waiting(wire: Wire, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    opened = {"handleId": "h", **path_of(path)}
    sent = [
        wire.request(method, params)
        for method, params in (
            ("fs/open", {**opened, "mode": "replace"}),
            ("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": b64(b"aaaa")}),
            ("fs/writeBlock", {"handleId": "h", "offset": 1, "chunk": b64(b"bb")}),
            ("fs/writeBlock", {"handleId": "h", "offset": 2, "chunk": b64(b"c")}),
            ("fs/close", {"handleId": "h"}),
            ("fs/open", opened),
            ("fs/readBlock", {"handleId": "h", "offset": 0, "len": 9}),
            ("fs/close", {"handleId": "h"}),
            ("fs/readBlock", {"handleId": "h", "offset": 0, "len": 9}),
            ("fs/open", {"handleId": "h", **path_of(tmp_path / "missing")}),
            ("fs/readBlock", {"handleId": "h", "offset": 0, "len": 9}),
            ("fs/open", opened),
            ("fs/close", {"handleId": "h"}),
        )
    ]
    answers = [wire.answer(ident) for ident in sent]
    assert answers[6]["result"] == {"chunk": b64(b"abca"), "eof": True}
    failed = [place for place, answer in enumerate(answers) if "error" in answer]
    assert failed == [8, 9, 10]
    assert [answers[place]["error"]["message"] for place in failed] == [
        "unknown file handle `h`",
        "No such file or directory (os error 2)",
        "unknown file handle `h`",
    ]


def test_failed_read_ends_its_handle_and_no_later_one_of_that_name(wire: Wire, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    opened = {"handleId": "h", **path_of(path)}
    wire.request("fs/open", opened)
    failed = wire.request("fs/readBlock", {"handleId": "h", "offset": 2**64 - 1, "len": 1})
    again = wire.request("fs/open", opened)
    assert wire.answer(failed)["error"]["code"] == -32600
    assert wire.answer(again)["result"] == {"handleId": "h"}
    for _ in range(20):
        assert wire.call("fs/readBlock", {"handleId": "h", "offset": 0, "len": 99})["chunk"] == b64(
            b"content"
        )


def test_request_that_is_stuck_holds_up_nobody_who_does_not_need_it(
    server: Server, wire: Wire, tmp_path: Path
) -> None:
    stuck = Stuck(tmp_path / "fifo")
    (tmp_path / "other").write_bytes(b"other")
    waiting = stuck.write(wire)
    behind = wire.request("fs/getMetadata", path_of(stuck.path))
    with Wire(server.url) as another:
        another.handshake()
        for one in (wire, another):
            assert one.call("environment/status") == {"status": "ready"}
            assert one.call("fs/getMetadata", path_of(tmp_path / "other"))["size"] == 5
            assert one.call("fs/readFile", path_of(tmp_path / "other")) == {"dataBase64": b64(b"other")}
            one.call("fs/writeFile", written(tmp_path / "new", b"new"))
            one.start("quick", ["/bin/echo", "done"])
            one.closed("quick")
        # Another connection does not even wait for that very name.
        assert another.call("fs/getMetadata", path_of(stuck.path))["isFile"] is False
    assert stuck.release() == stuck.data
    assert wire.answer(waiting)["result"] == {}
    assert wire.answer(behind)["result"]["isFile"] is False


def test_connection_with_all_its_file_work_stuck_still_has_processes_and_others_have_files(
    server: Server, wire: Wire, tmp_path: Path
) -> None:
    stuck = [Stuck(tmp_path / f"fifo-{number}") for number in range(16)]
    waiting = [one.write(wire) for one in stuck]
    behind = wire.request("fs/readFile", {"path": "file:///etc/passwd"})
    wire.start("quick", ["/bin/echo", "done"])
    wire.closed("quick")
    with Wire(server.url) as another:
        another.handshake()
        assert another.call("fs/readFile", {"path": "file:///etc/passwd"})["dataBase64"]
    for one in stuck:
        assert one.release() == one.data
    assert [wire.answer(ident)["result"] for ident in waiting] == [{}] * 16
    assert "result" in wire.answer(behind)


def test_who_takes_a_session_over_is_answered_behind_a_very_long_write_to_a_process(
    own: Server, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        first, second, *busy = [stack.enter_context(Wire(own.url)) for _ in range(2 + THREADS // FILE_WIDTH)]
        session = first.handshake()["sessionId"]
        first.start("p", ["/bin/sleep", "60"], pipeStdin=True)
        stuck = []
        for wire in busy:  # no thread is left that could decode the write
            wire.handshake()
            for _ in range(FILE_WIDTH):
                stuck.append(Stuck(tmp_path / f"fifo-{len(stuck)}"))
                stuck[-1].write(wire)
        first.request("process/write", {"processId": "p", "writeId": "w", "chunk": "QUJD" * (3 << 20)})
        for _ in range(50):  # turns of the server, each of which reads up to a megabyte of it
            busy[0].call("environment/status")
        second.call("initialize", {"clientName": "test", "resumeSessionId": session, "takeOver": True})
        second.send({"method": "initialized"})
        read = second.request("process/read", {"processId": "p"})
        assert second.call("environment/status") == {"status": "ready"}
        for one in stuck:
            one.release()
        assert second.answer(read)["result"]["chunks"] == []


def test_what_has_not_begun_when_its_connection_is_lost_is_not_done_later(
    own: Server, tmp_path: Path
) -> None:
    kept, removed = tmp_path / "kept", tmp_path / "removed"
    removed.touch()
    first = Wire(own.url)
    session = first.handshake()["sessionId"]
    stuck = [Stuck(tmp_path / f"fifo-{number}") for number in range(FILE_WIDTH)]
    for one in stuck:
        one.write(first)
    changes = [("fs/writeFile", written(kept, b"old")), ("fs/remove", {**path_of(removed), "force": True})]
    for method, params in changes:
        first.request(method, params)
    first.call("environment/status")
    first.close()
    with Wire(own.url) as second:
        second.handshake(session)
        for method, params in changes:  # as clients do that do not know whether it was done
            second.call(method, params)
        second.call("fs/writeFile", written(kept, b"new"))
        second.call("fs/writeFile", written(removed, b"new"))
        for one in stuck:
            assert one.release() == one.data
        # Their threads are back when as many others have been: what waited behind them has had its turn.
        asked = [second.request("fs/readFile", path_of(kept)) for _ in range(4 * FILE_WIDTH)]
        assert [data_of(second.answer(ident)) for ident in asked] == [b"new"] * len(asked)
        wait_until(lambda: descriptors(own.pid) < 2 * FILE_WIDTH, "the FIFOs are closed")
    assert (kept.read_bytes(), removed.read_bytes()) == (b"new", b"new")


def test_what_comes_over_the_next_connection_waits_for_what_is_still_being_changed(
    own: Server, tmp_path: Path
) -> None:
    folder, moved = tmp_path / "folder", tmp_path / "moved"
    folder.mkdir()
    first = Wire(own.url)
    session = first.handshake()["sessionId"]
    stuck = Stuck(folder / "fifo")
    stuck.write(first)
    first.close()
    with Wire(own.url) as second:
        second.handshake(session)
        move = {"sourcePath": folder.as_uri(), "destinationPath": moved.as_uri()}
        moving = second.request("fs/rename", move)
        second.call("fs/writeFile", written(tmp_path / "other", b"x"))
        assert folder.exists()
        assert stuck.release() == stuck.data
        assert second.answer(moving)["result"] == {}
    assert moved.exists()


def test_writes_that_wait_for_a_disk_are_bounded(own: Server, tmp_path: Path) -> None:
    size, count = 12 << 20, 24  # 400 MB of text
    data = content(size)
    with Wire(own.url) as wire, Wire(own.url) as another:
        wire.handshake()
        another.handshake()
        stuck = Stuck(tmp_path / "fifo")
        waiting = [stuck.write(wire)]

        def send() -> None:  # waits, too: the server does not read on
            waiting.extend(wire.request("fs/writeFile", written(stuck.path, data)) for _ in range(count))

        sending = threading.Thread(target=send)
        sending.start()
        before = resident_kib(own.pid)
        wait_until(lambda: resident_kib(own.pid) > before + (40 << 10), "some of it has come", 60.0)
        assert another.call("environment/status") == {"status": "ready"}
        assert stuck.release()[: len(stuck.data)] == stuck.data
        sending.join()
        assert len([wire.answer(ident) for ident in waiting]) == count + 1
    # 64 MiB wait, and a few messages more are under way; not all of them.
    assert peak_kib(own.pid) < before + 220 * 1024


def test_long_walk_holds_up_nobody(wire: Wire) -> None:
    options = {
        "maxDepth": 64,
        "maxDirectories": 10_000,
        "maxEntries": 50_000,
        "followDirectorySymlinks": False,
    }
    walk = wire.request("fs/walk", {"path": "file:///usr", "options": options})
    metadata = wire.request("fs/getMetadata", {"path": "file:///etc/passwd"})
    first = wire.receive()
    assert first["id"] == metadata
    assert len(wire.answer(walk)["result"]["entries"]) > 1000


def test_every_one_of_a_thousand_pipelined_requests_is_answered(wire: Wire, tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    asked = [
        (number, wire.request("fs/readFile", path_of(tmp_path / str(number % 10)))) for number in range(1000)
    ]
    assert all(data_of(wire.answer(ident)) == b"%d" % (number % 10) for number, ident in asked)


# Large answers


def test_large_file_is_streamed_in_flat_memory(own: Server, tmp_path: Path) -> None:
    data = content(64 * MIB)
    (tmp_path / "large").write_bytes(data)
    before = resident_kib(own.pid)
    with Wire(own.url) as wire:
        wire.handshake()
        assert data_of(wire.answer(wire.request("fs/readFile", path_of(tmp_path / "large")))) == data
    assert peak_kib(own.pid) - before < FLAT_KIB


def test_other_answers_follow_a_large_one_whole_and_in_order(own: Server, tmp_path: Path) -> None:
    # Together they are more than may wait for a slow reader: they must not wait for each other.
    large, medium = content(24 * MIB, 1), content(2 * MIB - 1, 2)
    (tmp_path / "large").write_bytes(large)
    (tmp_path / "medium").write_bytes(medium)
    with Wire(own.url) as wire:
        wire.handshake()
        wire.start("talk", ["/bin/sh", "-c", "seq 1 300000"])
        asked = [wire.request("fs/readFile", path_of(tmp_path / "large"))]
        for _ in range(6):
            asked.append(wire.request("fs/readFile", path_of(tmp_path / "medium")))
            asked.append(wire.request("environment/status"))
        asked.append(wire.request("fs/readFile", path_of(tmp_path / "large")))
        answers = {ident: wire.answer(ident) for ident in asked}
        wire.closed("talk")
        assert wire.output("talk") == "".join(f"{number}\n" for number in range(1, 300_001)).encode()
    assert data_of(answers[asked[0]]) == data_of(answers[asked[-1]]) == large
    assert all(data_of(answers[ident]) == medium for ident in asked[1:-1:2])
    assert all(answers[ident]["result"] == {"status": "ready"} for ident in asked[2:-1:2])


def test_two_large_files_at_once_are_told_apart(wire: Wire, tmp_path: Path) -> None:
    contents = [content(5 * MIB + number, number) for number in range(4)]
    for number, data in enumerate(contents):
        (tmp_path / str(number)).write_bytes(data)
    asked = [wire.request("fs/readFile", path_of(tmp_path / str(number))) for number in range(4)]
    assert [data_of(wire.answer(ident)) for ident in reversed(asked)] == contents[::-1]


BLOCK = 768 << 10


@pytest.mark.parametrize(
    "size", [2 * MIB, 2 * MIB + 1, 3 * BLOCK - 1, 3 * BLOCK, 3 * BLOCK + 1, 4 * BLOCK + 2]
)
def test_file_of_any_size_arrives_whole(wire: Wire, tmp_path: Path, size: int) -> None:
    data = content(size)
    (tmp_path / "file").write_bytes(data)
    assert data_of(wire.answer(wire.request("fs/readFile", path_of(tmp_path / "file")))) == data


@pytest.mark.parametrize("name", ["codex-environment", "another"])
def test_stock_client_is_told_before_an_answer_would_cost_it_its_connection(
    server: Server, tmp_path: Path, name: str
) -> None:
    # Row 18: it takes 64 MiB in a message, which are 48 MiB of a file.
    with (tmp_path / "large").open("wb") as large:
        large.truncate(48 * MIB + 1)
    with Wire(server.url) as wire:
        wire.call("initialize", {"clientName": name})
        wire.send({"method": "initialized"})
        answer = wire.answer(wire.request("fs/readFile", path_of(tmp_path / "large")))
        if name == "another":
            assert data_of(answer) == bytes(48 * MIB + 1)
        else:
            assert answer["error"]["code"] == -32600
            assert "fs/open and fs/readBlock" in answer["error"]["message"]
            opened = {"handleId": "h", **path_of(tmp_path / "large")}
            assert wire.call("fs/open", opened) == {"handleId": "h"}


def test_file_above_the_limit_is_refused_unread(wire: Wire, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as large:
        large.truncate(512 * MIB + 1)
    assert wire.error("fs/readFile", path_of(tmp_path / "large")) == {
        "code": -32600,
        "message": "file is too large to read: limit is 536870912 bytes",
        "data": {"error": "refused"},
    }


# Slow readers


def slow_reader(server: Server) -> Raw:
    raw = Raw(server, receive_buffer=4096)
    raw.handshake_unread()
    return raw


def held_back(server: Server) -> bool:
    """Whether the server has done all it can: it used no processor time for a while."""

    def spent() -> list[str]:
        return Path(f"{PROC}/{server.pid}/stat").read_text().rpartition(") ")[2].split()[11:13]

    before = spent()
    time.sleep(0.2 * SECOND)  # an absence has no event
    return spent() == before


def has_open(server: Server, path: Path) -> bool:
    for entry in Path(f"{PROC}/{server.pid}/fd").iterdir():
        try:
            if entry.readlink() == path:
                return True
        except FileNotFoundError:
            continue
    return False


def messages(raw: Raw) -> Iterator[bytes]:
    """Whole messages, put together again."""
    parts: list[bytes] = []
    while True:
        first, payload = raw.frame()
        assert first in (0x81, 0x01, 0x80, 0x00), hex(first)
        assert (first & 0x0F == 0) == bool(parts), "a message inside another"
        parts.append(payload)
        if first & 0x80:
            yield b"".join(parts)
            parts = []


def answers_of(raw: Raw, wanted: set[int]) -> dict[int, Message]:
    found: dict[int, Message] = {}
    for text in messages(raw):
        match = re.match(rb'\{"id":(\d+),', text)
        if match is not None and int(match[1]) in wanted:
            found[int(match[1])] = json.loads(text)
            if found.keys() == wanted:
                return found
    raise AssertionError("the messages ended")


def test_slow_reader_of_a_large_file_costs_little_and_can_still_end_a_process(
    own: Server, tmp_path: Path
) -> None:
    data = content(40 * MIB)
    (tmp_path / "large").write_bytes(data)
    before = resident_kib(own.pid)
    with slow_reader(own) as raw:
        pid_file = tmp_path / "pid"
        started = {
            "processId": "p",
            "argv": [
                "/bin/sh",
                "-c",
                f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60",
            ],
            "cwd": "file:///tmp",
            "env": {"PATH": "/usr/bin:/bin"},
            "tty": False,
        }
        raw.call_unread("process/start", started)
        wait_until(pid_file.exists, "the process runs")
        pid = int(pid_file.read_text())
        read = raw.call_unread("fs/readFile", path_of(tmp_path / "large"))
        wait_until(lambda: held_back(own), "the stream is held back")
        assert peak_kib(own.pid) - before < FLAT_KIB
        with Wire(own.url) as another:
            another.handshake()
            assert another.call("fs/getMetadata", path_of(tmp_path / "large"))["size"] == len(data)
            another.start("quick", ["/bin/echo", "done"])
            another.closed("quick")
        ended = raw.call_unread("process/terminate", {"processId": "p"})
        wait_until(lambda: not alive(pid), "the process is ended")
        answers = answers_of(raw, {read, ended})
    assert data_of(answers[read]) == data
    assert answers[ended]["result"] == {"running": True}


def test_slow_reader_who_asks_for_ever_more_costs_a_bounded_amount(own: Server, tmp_path: Path) -> None:
    data = content(3 * MIB)
    (tmp_path / "large").write_bytes(data)
    before = resident_kib(own.pid)
    with slow_reader(own) as raw:
        asked = {raw.call_unread("fs/readFile", path_of(tmp_path / "large")) for _ in range(15)}
        asked |= {raw.call_unread("fs/readFile", {"path": "file:///etc/passwd"}) for _ in range(60)}
        wait_until(lambda: held_back(own), "the streams are held back")
        assert peak_kib(own.pid) - before < FLAT_KIB
        answers = answers_of(raw, asked)
    assert sum(data_of(answer) == data for answer in answers.values()) == 15


@pytest.mark.parametrize("change", ["grows", "shrinks", "is replaced"])
def test_file_that_changes_while_it_is_sent_ends_all_the_same(
    server: Server, tmp_path: Path, change: str
) -> None:
    data = content(12 * MIB)
    path = tmp_path / "changing"
    path.write_bytes(data)
    with slow_reader(server) as raw:
        read = raw.call_unread("fs/readFile", path_of(path))
        wait_until(lambda: has_open(server, path), "the file is open")
        wait_until(lambda: held_back(server), "the stream is held back")
        if change == "grows":
            with path.open("ab") as growing:
                growing.write(content(12 * MIB, 1))
        elif change == "shrinks":
            os.truncate(path, 10 * MIB)
        else:
            with Wire(server.url) as wire:
                wire.handshake()
                wire.call("fs/writeFile", written(path, b"new"))
        status = raw.call_unread("environment/status")
        answers = answers_of(raw, {read, status})
    got = data_of(answers[read])
    assert got == data if change != "shrinks" else data.startswith(got) and len(got) < len(data)
    assert answers[status]["result"] == {"status": "ready"}


# What a connection leaves behind


def test_connection_lost_in_the_middle_of_large_files_leaves_no_descriptor(
    own: Server, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(content(20 * MIB))
    before = descriptors(own.pid)
    for _ in range(3):
        with slow_reader(own) as raw:
            for _ in range(4):
                raw.call_unread("fs/readFile", path_of(tmp_path / "large"))
            wait_until(lambda: descriptors(own.pid) > before + 3, "the files are open")
    wait_until(lambda: descriptors(own.pid) <= before, "everything is closed")


def test_connection_lost_with_open_handles_leaves_no_descriptor(own: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    before = descriptors(own.pid)
    for waits in (True, False):
        with Wire(own.url) as wire:
            wire.handshake()
            for number in range(100):
                mode = "replace" if number % 2 else "read"
                params = {"handleId": str(number), **path_of(tmp_path / "file"), "mode": mode}
                ident = wire.request("fs/open", params)
                if waits:
                    wire.answer(ident)
            wire.request("fs/writeBlock", {"handleId": "1", "offset": 0, "chunk": b64(b"new")})
            wire.abort()
    wait_until(lambda: descriptors(own.pid) <= before, "everything is closed")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert set(os.listdir(tmp_path)) == {"home", "file"}


def test_replacement_that_was_not_closed_never_was(own: Server, tmp_path: Path) -> None:
    # Row 22.
    path = tmp_path / "file"
    path.write_bytes(b"old")
    before = descriptors(own.pid)
    with Wire(own.url) as wire:
        wire.handshake()
        for name, target in (("w", path), ("n", tmp_path / "new")):
            wire.call("fs/open", {"handleId": name, **path_of(target), "mode": "replace"})
            wire.call("fs/writeBlock", {"handleId": name, "offset": 0, "chunk": b64(b"half")})
        assert path.read_bytes() == b"old"
        wire.abort()
    wait_until(lambda: descriptors(own.pid) <= before, "everything is closed")
    assert path.read_bytes() == b"old"
    assert set(os.listdir(tmp_path)) == {"home", "file"}


def test_replacement_that_was_closed_is_there_though_the_answer_was_never_read(
    own: Server, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    blocks = [b"%05d" % number for number in range(500)]
    with Wire(own.url) as wire:
        wire.handshake()
        wire.request("fs/open", {"handleId": "w", **path_of(path), "mode": "replace"})
        for number, block in enumerate(blocks):
            wire.request("fs/writeBlock", {"handleId": "w", "offset": 5 * number, "chunk": b64(block)})
        wire.request("fs/close", {"handleId": "w"})
        wire.send({"id": "last", "method": "environment/status"})
        wire.answer("last")  # it has been read, and so was what came before it
        wire.abort()
    wait_until(lambda: path.read_bytes() != b"old", "the replacement is there")
    assert path.read_bytes() == b"".join(blocks)


def test_handles_are_counted_for_each_connection(server: Server, wire: Wire, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")

    def opened(one: Wire, handle: str) -> Message:
        return one.answer(one.request("fs/open", {"handleId": handle, **path_of(path)}))

    for number in range(128):
        assert "result" in opened(wire, str(number))
    refusal = opened(wire, "one more")["error"]
    assert (refusal["code"], refusal["message"]) == (
        -32600,
        "at most 128 file handles may be open per connection",
    )
    with Wire(server.url) as another:
        another.handshake()
        assert "result" in opened(another, "0")
    wire.call("fs/close", {"handleId": "5"})
    assert "result" in opened(wire, "one more")


def test_pipelined_opens_above_the_limit_are_refused_and_no_others(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    asked = [
        wire.request("fs/open", {"handleId": str(number), **path_of(tmp_path / "file")})
        for number in range(150)
    ]
    assert sum("result" in wire.answer(ident) for ident in asked) == 128


def test_discarded_replacement_never_was(wire: Wire, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    wire.call("fs/open", {"handleId": "w", **path_of(path), "mode": "replace"})
    wire.call("fs/writeBlock", {"handleId": "w", "offset": 0, "chunk": b64(b"new")})
    assert wire.call("fs/close", {"handleId": "w", "discard": True}) == {}
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["file"])


# What ours adds


def test_refusal_names_the_error_for_programs(wire: Wire, tmp_path: Path) -> None:
    # Row 25.
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    names = {
        name: wire.error("fs/readFile", path_of(tmp_path / name))["data"]
        for name in ("missing", "loop", "file/below")
    }
    assert names == {
        "missing": {"error": "file-failed", "errno": "ENOENT"},
        "loop": {"error": "file-failed", "errno": "ELOOP"},
        "file/below": {"error": "file-failed", "errno": "ENOTDIR"},
    }


def test_name_that_is_not_utf8_can_be_read_by_the_uri_of_its_listing(wire: Wire, tmp_path: Path) -> None:
    # Row 26.
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_bytes(b"found")
    [entry] = wire.call("fs/readDirectory", path_of(tmp_path))["entries"]
    assert entry == {
        "fileName": "\ufffd",
        "uri": f"{tmp_path.as_uri()}/%FF",
        "isDirectory": False,
        "isFile": True,
    }
    assert wire.call("fs/readFile", {"path": entry["uri"]}) == {"dataBase64": b64(b"found")}


# Other ways than WebSocket


def test_stdio_carries_large_files_and_what_comes_behind_them(tmp_path: Path) -> None:
    large, medium = content(24 * MIB, 1), content(2 * MIB - 1, 2)
    (tmp_path / "large").write_bytes(large)
    (tmp_path / "medium").write_bytes(medium)
    with piping(tmp_path) as pipes:
        pipes.handshake()
        before = resident_kib(pipes.popen.pid)
        asked = [pipes.request("fs/readFile", path_of(tmp_path / "large"))]
        for _ in range(4):
            asked.append(pipes.request("fs/readFile", path_of(tmp_path / "medium")))
            asked.append(pipes.request("environment/status"))
        found: dict[int, Message] = {}
        while len(found) < len(asked):
            message = pipes.receive()
            found[message["id"]] = message
        text_kib = 4 * len(large) // 3 // 1024  # which is never there as a whole
        assert peak_kib(pipes.popen.pid) - before < text_kib
        pipes.end_input()
        assert pipes.exit_code() == 0
    assert data_of(found[asked[0]]) == large
    assert all(data_of(found[ident]) == medium for ident in asked[1::2])
    assert all(found[ident]["result"] == {"status": "ready"} for ident in asked[2::2])


def in_a_loop(scenario: Callable[[Path], Any]) -> Callable[[Path], None]:
    def test(tmp_path: Path) -> None:
        asyncio.run(asyncio.wait_for(scenario(tmp_path), 20 * SECOND))

    test.__name__ = scenario.__name__
    return test


@in_a_loop
async def test_local_server_has_files_of_any_size(tmp_path: Path) -> None:
    large = content(9 * MIB)
    async with outfitter.local() as client:
        await client.call("fs/writeFile", written(tmp_path / "large", large))
        read, status, small = await asyncio.gather(
            client.call("fs/readFile", path_of(tmp_path / "large")),
            client.call("environment/status", None),
            client.call("fs/readFile", {"path": "file:///etc/passwd"}),
        )
    text = read["dataBase64"]  # long ones are not read as JSON
    assert (base64.b64decode(text) if isinstance(text, str) else b"".join(text.decode())) == large
    assert status == {"status": "ready"}
    assert base64.b64decode(small["dataBase64"]) == Path("/etc/passwd").read_bytes()
