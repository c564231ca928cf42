"""fs/rename and fs/chmod, which the reference does not have, each behind a capability."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from tests.support.machine import SECOND
from tests.support.servers import Server
from tests.support.wire import Message, Wire


def rename(source: Path, destination: Path, **params: object) -> Message:
    return {"sourcePath": source.as_uri(), "destinationPath": destination.as_uri(), **params}


def mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_capabilities_name_what_is_there(wire: Wire) -> None:
    flags = wire.call("environment/info")["capabilities"]
    assert [flags[name] for name in ("fsWatchMissing", "fsRename", "fsChmod", "fsWatch", "fsSearch")] == [
        True
    ] * 5


# fs/rename


def test_rename(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    assert wire.call("fs/rename", rename(tmp_path / "a", tmp_path / "b")) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_rename_replaces_only_when_asked(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    for params in ({}, {"replace": False}, {"replace": None}):
        error = wire.error("fs/rename", rename(tmp_path / "a", tmp_path / "b", **params))
        assert (error["code"], error["message"], error["data"]["errno"]) == (
            -32603,
            "File exists (os error 17)",
            "EEXIST",
        )
    assert (tmp_path / "b").read_text() == "old"
    assert wire.call("fs/rename", rename(tmp_path / "a", tmp_path / "b", replace=True)) == {}
    assert (tmp_path / "b").read_text() == "new"


def test_one_of_many_gets_the_name(server: Server, tmp_path: Path) -> None:
    """Nobody's file is replaced, however many want the name at once."""
    won: list[int] = []

    def race(number: int) -> None:
        with Wire(server.url) as wire:
            wire.handshake()
            (tmp_path / str(number)).write_text(str(number))
            ready.wait(20 * SECOND)
            answer = wire.answer(wire.request("fs/rename", rename(tmp_path / str(number), tmp_path / "name")))
            if "result" in answer:
                won.append(number)

    ready = threading.Barrier(8)
    racers = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [(tmp_path / "name").read_text()] == [str(number) for number in won]
    assert len(list(tmp_path.iterdir())) == 8


@pytest.mark.parametrize(
    ("source", "destination", "code", "errno"),
    [
        ("none", "x", -32004, "ENOENT"),
        ("f", "none/x", -32004, "ENOENT"),
        ("d", "d/x", -32600, "EINVAL"),
        ("f/x", "y", -32603, "ENOTDIR"),
    ],
)
def test_rename_refusals(
    source: str, destination: str, code: int, errno: str, wire: Wire, tmp_path: Path
) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "d").mkdir()
    error = wire.error("fs/rename", rename(tmp_path / source, tmp_path / destination))
    assert (error["code"], error["data"]["errno"]) == (code, errno)


def test_rename_to_another_file_system_is_told(wire: Wire, tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("this machine has no second file system to write to")
    (tmp_path / "f").touch()
    error = wire.error("fs/rename", rename(tmp_path / "f", other / f"outfitter-{os.getpid()}"))
    assert (error["code"], error["message"], error["data"]["errno"]) == (
        -32603,
        "Cross-device link (os error 18)",
        "EXDEV",
    )


def test_requests_about_both_names_wait_for_a_rename(wire: Wire, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    requests = [
        wire.request("fs/writeFile", {"path": first.as_uri(), "dataBase64": "YQ=="}),
        wire.request("fs/rename", rename(first, second)),
        wire.request("fs/readFile", {"path": second.as_uri()}),
        wire.request("fs/readFile", {"path": first.as_uri()}),
    ]
    answers = [wire.answer(request) for request in requests]
    assert [answer.get("result") for answer in answers] == [{}, {}, {"dataBase64": "YQ=="}, None]


# fs/chmod


@pytest.mark.parametrize("follow", [True, False, None])
@pytest.mark.parametrize("bits", [0, 0o600, 0o4755, 0o7777])
def test_chmod(follow: bool | None, bits: int, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "d").mkdir()
    for name in "fd":
        params = {"path": (tmp_path / name).as_uri(), "mode": bits, "followSymlinks": follow}
        assert wire.call("fs/chmod", params) == {}
        assert mode(tmp_path / name) == bits


def test_chmod_of_a_link(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "f").touch(0o644)
    (tmp_path / "l").symlink_to("f")
    (tmp_path / "d").symlink_to(".")
    params = {"path": (tmp_path / "l").as_uri(), "mode": 0o600, "followSymlinks": False}
    error = wire.error("fs/chmod", params)
    assert (error["code"], error["message"]) == (-32600, "path contains a symbolic link")
    error = wire.error("fs/chmod", {**params, "path": (tmp_path / "d/f").as_uri()})
    assert (error["code"], error["message"]) == (-32603, "Not a directory (os error 20)")
    assert mode(tmp_path / "f") == 0o644
    wire.call("fs/chmod", {"path": (tmp_path / "l").as_uri(), "mode": 0o600})
    assert mode(tmp_path / "f") == 0o600


@pytest.mark.parametrize(
    ("params", "code"),
    [({"mode": 0o10000}, -32602), ({"mode": -1}, -32602), ({"mode": "600"}, -32602), ({}, -32602)],
    ids=str,
)
def test_impossible_modes_are_refused(params: Message, code: int, wire: Wire, tmp_path: Path) -> None:
    assert wire.error("fs/chmod", {"path": tmp_path.as_uri(), **params})["code"] == code


def test_chmod_of_nothing(wire: Wire, tmp_path: Path) -> None:
    for follow in (True, False):
        params = {"path": (tmp_path / "none").as_uri(), "mode": 0o600, "followSymlinks": follow}
        assert wire.error("fs/chmod", params)["code"] == -32004
