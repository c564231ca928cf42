"""The private pipe: where it is, who may open it, what it holds, and that nothing of it stays."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from outfitter.errors import HostUnsupported
from outfitter.host.privatefifo import READ_BYTES, PrivateFifo, remove_dead
from tests.support.machine import own_descriptors


def folder_of(fifo: PrivateFifo) -> Path:
    return Path(fifo.path).parent


# Where it is


def test_runtime_directory_comes_first_then_the_temporary_one_then_memory(tmp_path: Path) -> None:
    runtime, temporary = tmp_path / "run", tmp_path / "tmp"
    runtime.mkdir()
    temporary.mkdir()
    env = {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": f"{temporary}/"}
    with PrivateFifo(env) as fifo:
        assert folder_of(fifo).parent == runtime
    runtime.rmdir()
    with PrivateFifo(env) as fifo:
        assert folder_of(fifo).parent == temporary
    with PrivateFifo({}) as fifo:
        assert folder_of(fifo).parent == Path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp")


@pytest.mark.parametrize("name", ["a b", "a'b", "$HOME", "a;b", "é", "a\nb", "~"])
def test_folder_whose_name_needs_quoting_is_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with PrivateFifo({"XDG_RUNTIME_DIR": str(tmp_path / name), "TMPDIR": str(tmp_path)}) as fifo:
        assert folder_of(fifo).parent == tmp_path


def test_folder_where_others_can_rename_things_is_passed_over(tmp_path: Path) -> None:
    shared, sticky, file = tmp_path / "shared", tmp_path / "sticky", tmp_path / "file"
    for folder, mode in ((shared, 0o777), (sticky, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
    file.touch()
    for refused in (shared, file, tmp_path / "nonesuch", Path("relative")):
        with PrivateFifo({"XDG_RUNTIME_DIR": str(refused), "TMPDIR": str(sticky)}) as fifo:
            assert folder_of(fifo).parent == sticky


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another user's folder")
def test_folder_of_another_user_is_passed_over(tmp_path: Path) -> None:
    # As with sudo, which keeps XDG_RUNTIME_DIR.
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    with PrivateFifo({"XDG_RUNTIME_DIR": str(theirs), "TMPDIR": str(tmp_path)}) as fifo:
        assert folder_of(fifo).parent == tmp_path


def test_no_folder_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(HostUnsupported, match="set XDG_RUNTIME_DIR or TMPDIR"):
        PrivateFifo({})


def test_file_system_without_pipes_says_what_to_do_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "mkfifo", refused)
    with pytest.raises(HostUnsupported, match="set TMPDIR"):
        PrivateFifo({"TMPDIR": str(tmp_path)})
    assert os.listdir(tmp_path) == []


# Who may open it


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_only_this_user_may_enter_and_write_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        fifo = PrivateFifo({"TMPDIR": str(tmp_path)})
    finally:
        os.umask(before)
    with fifo:
        assert stat.S_IMODE(folder_of(fifo).stat().st_mode) == 0o700
        found = os.lstat(fifo.path)
        assert (stat.S_ISFIFO(found.st_mode), stat.S_IMODE(found.st_mode)) == (True, 0o600)
        assert (os.get_blocking(fifo.fd), os.get_inheritable(fifo.fd)) == (False, False)
        assert fifo.fileno() == fifo.fd


def test_two_have_nothing_in_common(tmp_path: Path) -> None:
    env = {"TMPDIR": str(tmp_path)}
    with PrivateFifo(env) as one, PrivateFifo(env) as other:
        assert folder_of(one) != folder_of(other)


# What it holds


def test_reader_sees_what_was_written_and_never_an_end(tmp_path: Path) -> None:
    with PrivateFifo({"TMPDIR": str(tmp_path)}) as fifo:
        assert fifo.read_available() == b""
        for text in (b"one", b"two"):
            with open(fifo.path, "wb") as file:  # does not wait for a reader
                file.write(text)
            assert fifo.read_available() == text
            assert fifo.read_available() == b""


def test_writers_one_after_the_other_are_read_together(tmp_path: Path) -> None:
    with PrivateFifo({"TMPDIR": str(tmp_path)}) as fifo:
        for text in (b"a\0", b"b\0", b"c\0"):
            with open(fifo.path, "wb") as file:
                file.write(text)
        assert fifo.read_available() == b"a\0b\0c\0"


def test_one_call_takes_no_more_than_its_bound(tmp_path: Path) -> None:
    stop = threading.Event()

    def flood(path: str) -> None:
        with open(path, "wb", buffering=0) as file:
            while not stop.is_set():
                file.write(b"x" * 65536)

    with PrivateFifo({"TMPDIR": str(tmp_path)}) as fifo:
        writer = threading.Thread(target=flood, args=(fifo.path,))
        writer.start()
        try:
            for _ in range(200):
                assert len(fifo.read_available()) <= READ_BYTES
        finally:
            stop.set()
            while writer.is_alive():
                fifo.read_available()
            writer.join()


# Its end


def test_close_removes_the_pipe_and_its_folder_and_may_come_twice(tmp_path: Path) -> None:
    before = own_descriptors()
    fifo = PrivateFifo({"TMPDIR": str(tmp_path)})
    assert os.listdir(tmp_path) != []
    fifo.close()
    fifo.close()
    assert (os.listdir(tmp_path), own_descriptors()) == ([], before)


def test_close_removes_what_somebody_made_of_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    with PrivateFifo({"TMPDIR": str(tmp_path)}) as fifo:
        os.unlink(fifo.path)
        os.makedirs(f"{fifo.path}/a/b")
        os.symlink(outside, f"{folder_of(fifo)}/link")
        (folder_of(fifo) / "file").write_text("x")
    assert os.listdir(tmp_path) == ["outside"]
    assert os.listdir(outside) == ["file"]


def test_close_does_not_mind_that_all_is_gone(tmp_path: Path) -> None:
    with PrivateFifo({"TMPDIR": str(tmp_path)}) as fifo:
        os.unlink(fifo.path)
        folder_of(fifo).rmdir()
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    env = {"TMPDIR": str(tmp_path)}
    dead = tmp_path / f"outfitter-{'0' * 16}"
    young = tmp_path / f"outfitter-{'1' * 16}"
    other = tmp_path / "outfitter-other"
    for folder in (dead, young, other):
        folder.mkdir()
        os.mkfifo(folder / "report")
    # Killed before there was a pipe, or after: the second one has something else in it.
    empty, used = tmp_path / f"outfitter-{'2' * 16}", tmp_path / f"outfitter-{'3' * 16}"
    empty.mkdir()
    used.mkdir()
    (used / "file").touch()
    with PrivateFifo(env) as fifo:
        for folder in (dead, other, empty, used, folder_of(fifo)):
            os.utime(folder, (1, 1))
        remove_dead(env)
        assert sorted(os.listdir(tmp_path)) == sorted(
            (young.name, other.name, used.name, folder_of(fifo).name)
        )
