"""The records of commands that run elsewhere: who holds them, what is kept, what is ignored."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from outfitter.cli.records import Records, Started, state_home
from outfitter.errors import SettingInvalid
from tests.support.machine import PROC, status, wait_until


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records({"OUTFITTER_HOME": str(tmp_path)})


def add(records: Records, **more: str) -> Started:
    return records.add("build", "session", "process", "sh", more, tty=False)


def file_of(started: Started, home: Path) -> Path:
    return home / "state" / "commands" / f"{started.id}.json"


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


# Where


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"OUTFITTER_HOME": "/o", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/o/state"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/outfitter"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/outfitter"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/outfitter"),
    ],
    ids=str,
)
def test_state_is_kept_where_the_variables_say(environ: dict[str, str], folder: str) -> None:
    assert state_home(environ) == folder


def test_state_home_without_a_home_is_the_accounts() -> None:
    assert state_home({}).endswith("/.local/state/outfitter")


# What


def test_record_is_read_back_as_it_was_written(records: Records, tmp_path: Path) -> None:
    started = add(records, codex_home="relative", token_file="/t", tls_ca="/ca", tls_cert="c", tls_key="/k")
    assert records.all() == [started]
    assert (started.codex_home, started.token_file) == (os.path.abspath("relative"), "/t")
    assert (started.tls_ca, started.tls_cert, started.tls_key) == ("/ca", os.path.abspath("c"), "/k")
    path = file_of(started, tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    records.remove(started)
    records.remove(started)  # somebody was faster
    assert records.all() == []


def test_oldest_is_first(records: Records, tmp_path: Path) -> None:
    first, second = add(records), add(records)
    change(file_of(first, tmp_path), started=second.started + 1)
    assert [one.id for one in records.all()] == [second.id, first.id]


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b"{}", b'"text"', b"\xff", b"[" * 100_000],
    ids=["empty", "torn", "list", "null", "no fields", "string", "no Unicode", "deep"],
)
def test_file_that_is_no_record_is_ignored(text: bytes, records: Records, tmp_path: Path) -> None:
    started = add(records)
    file_of(started, tmp_path).with_name("other.json").write_bytes(text)
    file_of(started, tmp_path).with_name("note.txt").write_text("not ours")
    assert records.all() == [started]


@pytest.mark.parametrize(
    "fields",
    [{"started": "x"}, {"holder": "x"}, {"on": 1}, {"id": "../../x"}, {"tty": None}, {"more": 1}],
    ids=str,
)
def test_record_with_a_field_of_another_kind_is_ignored(
    fields: dict[str, object], records: Records, tmp_path: Path
) -> None:
    good, bad = add(records), add(records)
    change(file_of(bad, tmp_path), **fields)
    assert records.all() == [good]


def test_record_that_nobody_asked_about_for_a_week_is_removed(records: Records, tmp_path: Path) -> None:
    held, left, recent = add(records), add(records), add(records)
    records.leave(left)
    records.leave(recent)
    for started, days in ((held, 8), (left, 8), (recent, 6)):
        then = time.time() - days * 86_400
        os.utime(file_of(started, tmp_path), (then, then))
    assert {one.id for one in records.all()} == {held.id, recent.id}
    assert not file_of(left, tmp_path).exists()


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    records = Records({"OUTFITTER_HOME": str(tmp_path)})
    assert records.all() == []
    with pytest.raises(SettingInvalid, match=r"cannot write .*\.json: Not a directory"):
        add(records)


# Who


def test_record_is_held_by_its_process_until_it_is_left(records: Records) -> None:
    started = add(records)
    assert (started.held, started.holder) == (True, os.getpid())
    records.leave(started)
    assert records.all()[0].held is False
    records.take(records.all()[0])
    assert records.all()[0].held is True


def test_pid_that_is_used_again_holds_nothing(records: Records, tmp_path: Path) -> None:
    started = add(records)
    change(file_of(started, tmp_path), holder_since="1")
    assert records.all()[0].held is False


def test_process_that_has_ended_holds_nothing(records: Records, tmp_path: Path) -> None:
    started = add(records)
    popen = subprocess.Popen(["sleep", "60"])
    try:
        since = Path(f"{PROC}/{popen.pid}/stat").read_text().rpartition(")")[2].split()[19]
        change(file_of(started, tmp_path), holder=popen.pid, holder_since=since)
        assert records.all()[0].held is True
        os.kill(popen.pid, signal.SIGKILL)
        wait_until(lambda: status(popen.pid).get("State", "")[:1] == "Z", "it is dead, and not reaped")
        assert records.all()[0].held is False
    finally:
        popen.kill()
        popen.wait()
    assert records.all()[0].held is False


def test_process_that_cannot_be_looked_at_may_still_run(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a descriptor, `outfitter ps` took every server for ended, and forgot the commands.
    started = records.add("build", "session", "process", "sh", {}, tty=False, server=os.getpid())

    def exhausted(*_: object, **more: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("outfitter.cli.records.open", exhausted, raising=False)
    assert (started.server_ended, started.held) == (False, True)
    later = records.add("build", "session", "process", "sh", {}, tty=False, server=os.getpid())
    monkeypatch.undo()
    assert (later.server_ended, later.held) == (False, True)


# Finding


def test_empty_id_is_no_beginning_of_one(records: Records) -> None:
    # `outfitter kill "$UNSET"` ended the only command.
    started = add(records)
    assert records.find(None) == started
    with pytest.raises(SettingInvalid, match=f"no command has the ID ''; known: {started.id}"):
        records.find("")


def test_command_is_found_by_its_id_or_the_beginning_of_it(records: Records) -> None:
    with pytest.raises(SettingInvalid, match="no commands are running"):
        records.find(None)
    first = add(records)
    assert records.find(None) == records.find(first.id) == records.find(first.id[:3]) == first
    second = add(records)
    with pytest.raises(SettingInvalid, match=f"choose one of: {first.id}, {second.id}"):
        records.find(None)
    with pytest.raises(SettingInvalid, match=f"no command has the ID 'zz'; known: {first.id}"):
        records.find("zz")
    assert records.find(second.id) == second
    with pytest.raises(SettingInvalid, match="no commands are running"):
        records.find(None, "elsewhere")
