"""A socket at a path: whose it is, what it replaces, and that nothing stays."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outfitter.errors import SettingInvalid
from outfitter.system import LINUX
from outfitter.transport import unix
from outfitter.transport.unix import UnixPlace, path_of
from tests.support.machine import SECOND
from tests.support.users import installed

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")

LONGEST = "/" + "x" * (106 if LINUX else 102)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir(0o700)
    return made


def listening_at(place: UnixPlace) -> contextlib.closing[Any]:
    return contextlib.closing(place.listen())


def refusal(place: UnixPlace) -> str:
    with pytest.raises(SettingInvalid) as raised:
        place.listen()
    return str(raised.value)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("unix:/run/x.sock", "/run/x.sock"),
        ("unix:///run/x.sock", "/run/x.sock"),
        ("unix:/run/../run//x.sock", "/run/x.sock"),
        ("unix:x.sock", f"{os.getcwd()}/x.sock"),
        (f"unix:{LONGEST}", LONGEST),
    ],
)
def test_path_of_a_url(url: str, path: str) -> None:
    assert path_of(url) == path


@pytest.mark.parametrize("url", ["unix:", "unix://", "unix://host/path", "unix:/a\0b", f"unix:{LONGEST}x"])
def test_url_without_a_path_is_refused(url: str) -> None:
    long = f"has {len(LONGEST) + 1} bytes, and a socket's path at most {len(LONGEST)}"
    with pytest.raises(SettingInvalid, match=rf"has no path|{long}"):
        path_of(url)


@pytest.mark.parametrize(("shared", "mode"), [(False, 0o600), (True, 0o666)])
def test_socket_is_the_owners_and_ends_with_the_server(folder: Path, shared: bool, mode: int) -> None:
    path = folder / "x.sock"
    place = UnixPlace(str(path), shared=shared)
    before = os.umask(0o027)
    try:
        with listening_at(place), socket.socket(socket.AF_UNIX) as client:
            assert (mode_of(path), path.is_socket(), place.url, place.local) == (
                mode,
                True,
                f"unix:{path}",
                True,
            )
            client.connect(str(path))
    finally:
        assert os.umask(before) == 0o027
    place.leave()
    assert not path.exists()
    place.leave()


def test_socket_that_was_left_behind_is_replaced(folder: Path) -> None:
    path = folder / "x.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    place = UnixPlace(str(path))
    with listening_at(place), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    place.leave()


def test_socket_of_a_living_server_is_not(folder: Path) -> None:
    path = folder / "x.sock"
    first = UnixPlace(str(path))
    with listening_at(first):
        inode = path.lstat().st_ino
        assert (
            refusal(UnixPlace(str(path))) == f"cannot listen on unix:{path}: a server already listens there"
        )
        assert path.lstat().st_ino == inode
    first.leave()


def test_server_whose_queue_is_full_is_a_living_one(folder: Path) -> None:
    path = folder / "x.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as client:
        busy.bind(str(path))
        busy.listen(0)
        client.connect(str(path))
        assert "a server already listens there" in refusal(UnixPlace(str(path)))


@pytest.mark.parametrize("kind", ["file", "folder", "link", "fifo"])
def test_nothing_but_a_socket_is_replaced(folder: Path, kind: str) -> None:
    path = folder / "x.sock"
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(folder / "elsewhere")
    else:
        os.mkfifo(path)
    before = path.lstat().st_ino
    text = f"cannot listen on unix:{path}: something else has this name; it is not replaced"
    assert refusal(UnixPlace(str(path))) == text
    assert path.lstat().st_ino == before


def test_socket_of_somebody_else_is_not_removed_at_the_end(folder: Path) -> None:
    path = folder / "x.sock"
    place = UnixPlace(str(path))
    with listening_at(place), socket.socket(socket.AF_UNIX) as other:
        path.unlink()
        other.bind(str(path))
        place.leave()
        assert path.is_socket()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o1777])
def test_folder_that_others_can_change_is_refused_with_the_remedy(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert refusal(UnixPlace(f"{folder}/x.sock")) == (
        f"other users can change {folder}, where the socket would be: make a folder of your own, as with "
        f"`mkdir -m 700 DIR`"
    )
    assert list(folder.iterdir()) == []


@as_root
def test_folder_of_another_user_is_refused(folder: Path) -> None:
    os.chown(folder, 65534, 65534)
    assert "other users can change" in refusal(UnixPlace(f"{folder}/x.sock"))


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_folder_below_one_that_others_can_change_is_refused_with_the_remedy(folder: Path, mode: int) -> None:
    below = folder / "one" / "two"
    below.mkdir(parents=True, mode=0o700)
    folder.chmod(mode)
    assert refusal(UnixPlace(f"{below}/x.sock")) == (
        f"other users can replace {below}, where the socket would be, because they can change {folder}: run "
        f"`chmod go-w {folder}` if it is yours, or make a folder in another place"
    )
    folder.chmod(mode | 0o1000)  # as /tmp is
    place = UnixPlace(f"{below}/x.sock")
    place.listen().close()
    place.leave()


def test_folder_behind_a_link_must_be_safe_as_well(folder: Path) -> None:
    loose = folder / "loose"
    (loose / "run").mkdir(parents=True, mode=0o700)
    (folder / "link").symlink_to(loose / "run")
    place = UnixPlace(f"{folder}/link/x.sock")
    place.listen().close()
    place.leave()
    loose.chmod(0o777)
    assert f"because they can change {loose}: " in refusal(place)


@as_root
def test_name_of_another_user_on_the_way_is_refused(folder: Path) -> None:
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (folder / "run").mkdir(mode=0o700)
    (shared / "link").symlink_to(folder / "run")
    place = UnixPlace(f"{shared}/link/x.sock")
    place.listen().close()
    place.leave()
    os.chown(shared / "link", 1234, 1234, follow_symlinks=False)  # who can make it another one
    assert f"because they can change {shared}/link: " in refusal(place)
    (shared / "own").mkdir(mode=0o700)
    (shared / "own" / "run").mkdir(mode=0o700)
    os.chown(shared / "own", 65534, 65534)
    assert f"because they can change {shared}/own: " in refusal(UnixPlace(f"{shared}/own/run/x.sock"))


@as_root
def test_in_a_namespace_of_users_what_is_roots_may_be_nobodys() -> None:
    script = (
        "import os, tempfile; from outfitter.transport.unix import UnixPlace\n"
        "assert (os.geteuid(), os.stat('/').st_uid) == (1234, 65534)\n"
        "with tempfile.TemporaryDirectory() as folder: UnixPlace(folder + '/x.sock').listen().close()\n"
    )
    python, place = installed()
    command = ["unshare", "--user", "--map-user=1234", python, "-c", script]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(place)}
    ran = subprocess.run(command, capture_output=True, text=True, user=1234, env=env, cwd="/")
    if "unshare failed" in ran.stderr:
        pytest.skip("this kernel gives ordinary users no namespaces")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_folder_that_is_missing_is_named(folder: Path) -> None:
    missing = folder / "missing"
    text = f"cannot listen on unix:{missing}/x.sock: {missing}: No such file or directory"
    assert refusal(UnixPlace(f"{missing}/x.sock")) == text


def test_folder_is_locked_while_a_socket_is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()

    def sleep(seconds: float) -> None:
        waits.set()
        time.sleep(seconds)

    monkeypatch.setattr(unix, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep))
    holding = os.open(folder, os.O_RDONLY)
    fcntl.flock(holding, fcntl.LOCK_EX)
    place = UnixPlace(f"{folder}/x.sock")
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(place.listen()))
    thread.start()
    assert waits.wait(10 * SECOND)
    assert (made, list(folder.iterdir())) == ([], [])
    os.close(holding)
    thread.join()
    made[0].close()
    place.leave()


def test_lock_that_somebody_keeps_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix, "_LOCK_SECONDS", 0.01)
    holding = os.open(folder, os.O_RDONLY)
    fcntl.flock(holding, fcntl.LOCK_EX)
    assert refusal(UnixPlace(f"{folder}/x.sock")) == (
        f"another program holds a lock on {folder}, where the socket would be: end it, or make a folder that "
        "nobody else can read, as with `mkdir -m 700 DIR`"
    )
    os.close(holding)
    assert list(folder.iterdir()) == []


def test_of_servers_that_start_at_once_one_listens(folder: Path) -> None:
    path = folder / "x.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    outcomes: list[object] = []
    start = threading.Barrier(8)

    def serve() -> None:
        start.wait()
        try:
            outcomes.append(UnixPlace(str(path)).listen())
        except SettingInvalid as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=serve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listening = [one for one in outcomes if not isinstance(one, str)]
    assert len(listening) == 1
    assert {one for one in outcomes if isinstance(one, str)} == {
        f"cannot listen on unix:{path}: a server already listens there"
    }
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    for one in listening:
        one.close()  # type: ignore[attr-defined]
