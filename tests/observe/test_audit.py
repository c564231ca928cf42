"""The audit log: one JSON object per line, whatever clients say and whatever the disk does."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import select
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outfitter.errors import SettingInvalid
from outfitter.observe import audit
from outfitter.observe.audit import Audit
from outfitter.observe.observer import StartedCommand
from tests.support.machine import wait_until

PROCESS: Any = SimpleNamespace(process_id="p1", pid=4711)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def untimed(path: Path) -> list[dict[str, Any]]:
    found = lines(path)
    for one in found:
        one.pop("time", None)
    return found


def test_event_is_one_line_with_who_and_when(tmp_path: Path) -> None:
    log = Audit(str(tmp_path / "audit"))
    log.happened(
        "session-opened", "uid:1000", "127.0.0.1:4242", "c46d0dd6-272c-4a44-a92a-d2817cc3e648", client="x"
    )
    log.happened("refused", "", "", "", reason="no")
    log.close()
    first, second = lines(tmp_path / "audit")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "event": "session-opened",
        "principal": "uid:1000",
        "peer": "127.0.0.1:4242",
        "session": "c46d0dd6",  # too little to resume it
        "client": "x",
    }
    del second["time"]
    assert second == {"event": "refused", "principal": None, "peer": None, "session": None, "reason": "no"}


def test_file_is_private_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    for number in (1, 2):
        log = Audit(str(path))
        log.happened("one", "", "", "", number=number)
        log.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one["number"] for one in lines(path)] == [1, 2]


@pytest.mark.parametrize("commands", ["digest", "full"])
def test_command_is_told_by_digest_or_in_full(commands: str, tmp_path: Path) -> None:
    argv = ["/bin/curl", "-H", "Authorization: secret", "x" * 5000]
    log = Audit(str(tmp_path / "audit"), commands)
    log.started(StartedCommand("uid:1", "memory", "s", PROCESS, argv, "/srv"))
    log.started(StartedCommand("uid:1", "memory", "s", PROCESS, ["a"] * 300, "/srv"))
    log.close()
    first, second = untimed(tmp_path / "audit")
    expected = {
        "event": "command-started",
        "principal": "uid:1",
        "peer": "memory",
        "session": "s",
        "process": "p1",
        "pid": 4711,
        "program": "curl",
        "sha256": hashlib.sha256("\0".join(argv).encode()).hexdigest(),
    }
    if commands == "full":
        expected |= {"argv": [*argv[:3], "x" * 4096 + "…"], "cwd": "/srv"}
        assert second["argv"] == [*["a"] * 256, "…"]
    else:
        assert b"secret" not in (tmp_path / "audit").read_bytes()
    assert first == expected


def test_what_clients_say_cannot_break_or_forge_a_line(tmp_path: Path) -> None:
    evil = 'x\n{"event": "forged"}\r\x1b[2J\u202e\u2028'
    log = Audit(str(tmp_path / "audit"), "full")
    log.happened("session-opened", evil, evil, "", client=evil)
    log.started(StartedCommand(evil, "", "", PROCESS, [evil], evil))
    log.close()
    raw = (tmp_path / "audit").read_bytes()
    assert raw.count(b"\n") == 2
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f-\xff]", raw)
    assert [one["principal"] for one in lines(tmp_path / "audit")] == [evil, evil]


def test_file_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingInvalid, match=r"cannot open --audit .*/nowhere/audit: No such file"):
        Audit(str(tmp_path / "nowhere" / "audit"))
    os.mkfifo(tmp_path / "fifo")  # nobody reads it: waiting would be for ever
    with pytest.raises(SettingInvalid, match="cannot open"):
        Audit(str(tmp_path / "fifo"))


def test_it_goes_on_in_a_new_file_after_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = Audit(str(path))
    log.happened("one", "", "", "")
    wait_until(lambda: path.stat().st_size > 0, "the first line is there")
    path.rename(tmp_path / "audit.1")
    log.happened("two", "", "", "")
    log.reopen()
    log.happened("three", "", "", "")
    log.close()
    assert [one["event"] for one in lines(tmp_path / "audit.1")] == ["one", "two"]
    assert [one["event"] for one in lines(path)] == ["three"]


def test_new_file_that_cannot_be_opened_leaves_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    log = Audit(str(folder / "audit"))
    folder.rename(tmp_path / "moved")
    log.reopen()
    log.happened("one", "", "", "")
    log.close()
    assert [one["event"] for one in lines(tmp_path / "moved" / "audit")] == ["one"]
    assert "the audit log goes on in the file that was open" in caplog.text


def test_full_disk_is_told_once_and_the_log_says_what_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, real = tmp_path / "audit", tmp_path / "real"
    path.symlink_to("/dev/full")
    log = Audit(str(path))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            log.happened("lost", "", "", "")
        path.unlink()
        path.symlink_to(real)
        log.reopen()
        log.happened("kept", "", "", "")
        log.happened("kept", "", "", "")
        log.close()
    told = [one.getMessage() for one in caplog.records]
    assert len(told) == 1
    assert "cannot be written: No space left on device; the server goes on" in told[0]
    assert [(one["event"], one.get("lines")) for one in lines(real)] == [
        ("audit-lost", 3),
        ("kept", None),
        ("kept", None),
    ]


def test_disk_that_takes_nothing_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody reads stands for a disk that hangs."""
    monkeypatch.setattr(audit, "_WAITING_BYTES", 1 << 14)
    fifo = tmp_path / "audit"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    log = Audit(str(fifo))
    os.set_blocking(log._fd, True)
    for number in range(5000):  # some 600 kB: more than the pipe takes and more than may wait
        log.happened("one", "", "", "", number=number)
    assert log._waiting < (1 << 14) + 4096
    os.set_blocking(reading, True)
    got: list[bytes] = []

    def read() -> None:
        while data := os.read(reading, 65536):
            got.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    log.close()
    os.close(log._fd)
    reader.join()
    os.close(reading)
    found = [json.loads(line) for line in b"".join(got).splitlines()]
    lost = sum(one.get("lines", 0) for one in found) + log._lost
    numbers = [one["number"] for one in found if one["event"] == "one"]
    assert lost > 0
    assert len(numbers) + lost == 5000
    assert numbers == sorted(numbers)


def test_line_that_was_torn_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_PIPE_SECONDS", 0.01)
    fifo = tmp_path / "audit"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 4096)
    log = Audit(str(fifo))
    log.happened("torn", "x" * 4096, "y" * 4096, "")  # more than there is room for
    wait_until(lambda: log._failing, "it was torn")
    got = os.read(reading, 65536)
    log.happened("whole", "", "", "")
    log.close()
    got += os.read(reading, 65536)
    os.close(log._fd)
    os.close(reading)
    torn, *others = got.splitlines()
    assert torn.startswith(b'{"time"')
    assert [json.loads(line)["event"] for line in others] == ["audit-lost", "whole"]


def test_machine_without_room_for_a_thread_loses_lines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    log = Audit(str(tmp_path / "audit"))
    with monkeypatch.context() as patched:
        patched.setattr(audit, "start_new_thread", none)
        log.happened("lost", "", "", "")
        log.close()
    log.happened("kept", "", "", "")
    log.close()
    assert [(one["event"], one.get("lines")) for one in lines(tmp_path / "audit")] == [
        ("audit-lost", 1),
        ("kept", None),
    ]


def test_what_comes_after_a_close_is_written_as_well(tmp_path: Path) -> None:
    """A server closes it before it is replaced, and goes on if it is not."""
    audit = Audit(str(tmp_path / "log"))
    for number in range(3):
        audit.happened("tested", "", "", "", number=number)
        audit.close()
        written = [json.loads(line)["number"] for line in (tmp_path / "log").read_text().splitlines()]
        assert written == list(range(number + 1))


def test_what_comes_while_the_disk_hangs_at_a_close_is_written_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close does not wait for ever; whoever goes on after it loses nothing."""
    monkeypatch.setattr(audit, "_CLOSE_SECONDS", 0.01)
    log, hangs = Audit(str(tmp_path / "log")), threading.Event()
    write = log._write
    monkeypatch.setattr(log, "_write", lambda data: hangs.wait() and write(data))
    log.happened("one", "", "", "")
    log.close()
    log.close()
    log.happened("two", "", "", "")
    hangs.set()
    wait_until(lambda: not log._running, "all is written")
    log.happened("three", "", "", "")
    monkeypatch.undo()
    log.close()
    assert [one["event"] for one in lines(tmp_path / "log")] == ["one", "two", "three"]


def test_lines_that_were_lost_last_are_told_at_the_close(tmp_path: Path) -> None:
    path, real = tmp_path / "audit", tmp_path / "real"
    path.symlink_to("/dev/full")
    log = Audit(str(path))
    log.happened("lost", "", "", "")
    wait_until(lambda: log._lost == 1, "it is lost")
    path.unlink()
    path.symlink_to(real)
    log.reopen()
    log.close()
    assert lines(real) == [{"event": "audit-lost", "lines": 1}]


@pytest.mark.parametrize("by", ["the same process", "the next process"])
def test_line_that_was_torn_spoils_no_other_in_a_file_that_is_opened_again(by: str, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = Audit(str(path))
    log.happened("whole", "", "", "")
    log.close()
    with path.open("ab") as file:
        file.write(b'{"event":"to')  # all that the disk had room for
    if by == "the same process":
        log.reopen()
    else:
        log = Audit(str(path))
    log.happened("whole", "", "", "")
    log.reopen()
    log.happened("whole", "", "", "")
    log.close()
    first, torn, second, third = path.read_bytes().splitlines()
    assert torn == b'{"event":"to'
    assert [json.loads(line)["event"] for line in (first, second, third)] == ["whole"] * 3


def test_reader_of_a_pipe_that_is_slow_for_a_moment_gets_every_line(tmp_path: Path) -> None:
    fifo = tmp_path / "audit"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(fifo, os.O_WRONLY)
    log = Audit(str(fifo))
    for number in range(2000):
        log.happened("one", "", "", "", number=number)
    wait_until(lambda: not select.select([], [writing], [], 0)[1], "the pipe is full")
    os.close(writing)
    os.set_blocking(reading, True)
    got: list[bytes] = []

    def read() -> None:
        while data := os.read(reading, 65536):
            got.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    log.close()
    os.close(log._fd)
    reader.join()
    os.close(reading)
    assert [json.loads(line).get("number") for line in b"".join(got).splitlines()] == list(range(2000))
