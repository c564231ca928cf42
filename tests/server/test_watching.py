"""News of files: fs/watchMissing beside the reference, fs/watch on real trees, and their ends."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from outfitter.core.peer import WAITING_LIMIT
from outfitter.server.limits import CHANGES, WATCHED_FOLDERS, WATCHES
from outfitter.system import LINUX
from tests.support.machine import PROC, SECOND, exchange, stop, wait_until
from tests.support.servers import Server, serving
from tests.support.tools import codex_binary
from tests.support.wire import Message, Wire

QUIET = (0.15 if LINUX else 0.5) * SECOND  # how long nothing comes when nothing will
QUEUE = int(Path(f"{PROC}/sys/fs/inotify/max_queued_events").read_text()) if LINUX else 0


def run(command: str, folder: Path) -> None:
    assert os.system(f"cd '{folder}' && {command}") == 0


@contextlib.contextmanager
def frozen(server: Server) -> Iterator[None]:
    """What is done meanwhile happens at once, as far as the server can tell."""
    stop(server.pid)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def news(wire: Wire, method: str) -> list[Message]:
    """The notices of this kind that came, and those that come within a moment."""
    deadline = time.monotonic() + QUIET
    with contextlib.suppress(TimeoutError):
        while True:
            wire.receive(max(0.0, deadline - time.monotonic()))
    return [notice["params"] for notice in wire.notices if notice["method"] == method]


def kernel_watches(server: Server) -> int:
    """How many folders the server watches, by the kernel's count."""
    total = 0
    for entry in Path(f"{PROC}/{server.pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            total += sum(line.startswith("inotify ") for line in entry.read_text().splitlines())
    return total


# fs/watchMissing, the same on both servers


@pytest.fixture(scope="module", params=["outfitter", "codex"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "codex" and not codex_binary().exists():
        pytest.skip("the reference is not installed")
    with serving(request.param, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture
def peer(either: Server) -> Iterator[Wire]:
    with Wire(either.url) as wire:
        wire.handshake()
        yield wire


def watch_missing(
    wire: Wire, number: int, folder: Path, missing: list[str], present: str | None = None
) -> bool:
    params = {
        "watchId": number,
        "missing": [(folder / name).as_uri() for name in missing],
        "present": None if present is None else (folder / present).as_uri(),
    }
    watching: bool = wire.call("fs/watchMissing", params)["watching"]
    return watching


def fired(wire: Wire, number: int) -> None:
    """Waits for the notice of a watch, which must be the only one."""
    wire.until(lambda m: m["method"] == "fs/missingChanged")
    assert news_of_missing(wire) == [number]


def news_of_missing(wire: Wire) -> list[int]:
    return [params["watchId"] for params in news(wire, "fs/missingChanged")]


# What is there before, what is missing, what is present, what happens then.
FIRES = {
    "a file": ("true", ["a"], None, "touch a"),
    "a folder": ("true", ["a"], None, "mkdir a"),
    "a link to nowhere": ("true", ["a"], None, "ln -s nowhere a"),
    "a FIFO": ("true", ["a"], None, "mkfifo a"),
    "renamed to it": ("touch b", ["a"], None, "mv b a"),
    "there for a moment": ("true", ["a"], None, "touch a; rm a"),
    "one of many": ("true", [f"m{number}" for number in range(64)], None, "touch m63"),
    "a folder above": ("true", ["a/b/c"], None, "mkdir a"),
    "a file above": ("true", ["a/b/c"], None, "touch a"),
    "the other one's folder": ("true", ["a", "b/c"], None, "mkdir b"),
    "folder removed": ("mkdir p", ["p/x"], None, "rmdir p"),
    "folder renamed": ("mkdir p", ["p/x"], None, "mv p q"),
    "folder changed its mode": ("mkdir p", ["p/x"], None, "chmod 700 p"),
    "folder's folder renamed": ("mkdir -p g/p", ["g/p/x"], None, "mv g h"),
    "folder's folder touched": ("mkdir -p g/p", ["g/p/x"], None, "touch g"),
    "present modified": ("touch p", ["a"], "p", "echo x > p"),
    "present touched": ("touch p", ["a"], "p", "touch p"),
    "present changed its mode": ("touch p", ["a"], "p", "chmod 600 p"),
    "present removed": ("touch p", ["a"], "p", "rm p"),
    "present renamed": ("touch p", ["a"], "p", "mv p q"),
    "present replaced": ("touch p q", ["a"], "p", "mv q p"),
    "present folder removed": ("mkdir p", ["a"], "p", "rmdir p"),
    "present folder renamed": ("mkdir p", ["a"], "p", "mv p q"),
    "present folder's folder renamed": ("mkdir -p g/p", ["a"], "g/p", "mv g h"),
    "present is its folder": ("mkdir p", ["p/a"], "p", "touch p/a"),
    "a long name below": ("true", ["y/" + "x" * 256], None, "mkdir y"),
    "dots on the way": ("mkdir p", ["p/../a"], None, "touch a"),
}
QUIETLY = {
    "a neighbour": ("true", ["a"], None, "touch b; echo x > b; mv b c; rm c"),
    "a neighbour of a folder": ("mkdir -p g/p", ["g/p/x"], None, "touch g/x g/y"),
    "a neighbour of present": ("touch p", ["a"], "p", "touch q; chmod 600 q; rm q"),
    "present read": ("echo x > p", ["a"], "p", "cat p; : >> p"),
    "present got another name": ("touch p", ["a"], "p", "ln p q"),
    "inside the present folder": ("mkdir p; touch p/x", ["a"], "p", "touch p/y; echo x > p/x; rm p/x"),
    "inside its folder": ("mkdir p; touch p/b", ["p/a"], "p", "touch p/c; rm p/b"),
}
REFUSED = {
    "nothing": ("true", [], None),
    "65 paths": ("true", [f"m{number}" for number in range(65)], None),
    "it exists": ("touch a", ["a"], None),
    "one of them exists": ("touch a", ["b", "a"], None),
    "a link to nowhere exists": ("ln -s nowhere a", ["a"], None),
    "below a file": ("touch f", ["f/x"], None),
    "below a link": ("mkdir r; ln -s r l", ["l/x"], None),
    "far below a link": ("mkdir -p r/p; ln -s r l", ["l/p/x"], None),
    "below a link to nowhere": ("ln -s r l", ["l/x"], None),
    "present is missing": ("true", ["a"], "p"),
    "present is missing, too": ("true", ["a"], "a"),
    "present is a link": ("touch t; ln -s t p", ["a"], "p"),
    "present is below a link": ("mkdir r; touch r/f; ln -s r l", ["a"], "l/f"),
    "too long a name": ("true", ["x" * 256], None),
    "the root": ("true", ["/"], None),
    "in /proc": ("true", ["/proc/self/nonesuch"], None),
}


@pytest.mark.parametrize("case", FIRES)
def test_what_is_waited_for_is_told_once(case: str, peer: Wire, tmp_path: Path) -> None:
    before, missing, present, then = FIRES[case]
    run(before, tmp_path)
    assert watch_missing(peer, 1, tmp_path, missing, present)
    run(then, tmp_path)
    fired(peer, 1)


@pytest.mark.parametrize("case", QUIETLY)
def test_what_is_not_waited_for_is_not_told(case: str, peer: Wire, tmp_path: Path) -> None:
    before, missing, present, then = QUIETLY[case]
    run(before, tmp_path)
    assert watch_missing(peer, 1, tmp_path, missing, present)
    run(then, tmp_path)
    assert news_of_missing(peer) == []


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_waited_for_is_not_watched(case: str, peer: Wire, tmp_path: Path) -> None:
    before, missing, present = REFUSED[case]
    run(before, tmp_path)
    assert not watch_missing(peer, 1, tmp_path, missing, present)


@pytest.mark.parametrize("uri", ["file://elsewhere/x", "file:///C:/x"])
def test_paths_of_other_systems_are_not_watched(uri: str, peer: Wire) -> None:
    assert peer.call("fs/watchMissing", {"watchId": 1, "missing": [uri]}) == {"watching": False}
    present = {"watchId": 2, "missing": ["file:///nonesuch"], "present": uri}
    assert peer.call("fs/watchMissing", present) == {"watching": False}


def test_it_is_told_once_and_never_again(peer: Wire, tmp_path: Path) -> None:
    assert watch_missing(peer, 5, tmp_path, ["f", "g"])
    run("touch f g; rm f; touch f", tmp_path)
    fired(peer, 5)


def test_numbers_grow(peer: Wire, tmp_path: Path) -> None:
    answers = [watch_missing(peer, number, tmp_path, ["a"]) for number in (0, 5, 5, 4, 6, 2**64 - 1)]
    assert answers == [False, True, False, False, True, True]
    run("touch a", tmp_path)
    fired(peer, 2**64 - 1)


def test_an_old_number_leaves_the_watch_alone(peer: Wire, tmp_path: Path) -> None:
    assert watch_missing(peer, 5, tmp_path, ["f"])
    assert not watch_missing(peer, 5, tmp_path, ["g"])
    assert not watch_missing(peer, 3, tmp_path, ["h"])
    run("touch g h; touch f", tmp_path)
    fired(peer, 5)


def test_the_newest_watch_replaces_the_one_before(peer: Wire, tmp_path: Path) -> None:
    assert watch_missing(peer, 1, tmp_path, ["a"])
    assert watch_missing(peer, 2, tmp_path, ["b"])
    run("touch a; touch b", tmp_path)
    fired(peer, 2)


@pytest.mark.parametrize(
    ("missing", "present"), [([], None), (["there"], None), (["there/x"], None), (["b"], "none")], ids=str
)
def test_a_new_number_ends_the_old_watch_even_when_it_cannot_be_watched(
    missing: list[str], present: str | None, peer: Wire, tmp_path: Path
) -> None:
    run("touch there", tmp_path)
    assert watch_missing(peer, 1, tmp_path, ["a"])
    assert not watch_missing(peer, 2, tmp_path, missing, present)
    assert not watch_missing(peer, 2, tmp_path, ["b"])  # the number is used up
    run("touch a", tmp_path)
    assert news_of_missing(peer) == []


def test_numbers_begin_anew_with_a_connection_and_no_watch_is_resumed(either: Server, tmp_path: Path) -> None:
    with Wire(either.url) as first:
        session = first.handshake()["sessionId"]
        assert watch_missing(first, 9, tmp_path, ["a"])
    with Wire(either.url) as second:
        wait_until(
            lambda: (
                "result"
                in second.answer(
                    second.request("initialize", {"clientName": "test", "resumeSessionId": session})
                )
            ),
            "the session is free",
        )
        second.send({"method": "initialized", "params": {}})
        assert watch_missing(second, 1, tmp_path, ["b"])
        run("touch a", tmp_path)
        assert news_of_missing(second) == []
        run("touch b", tmp_path)
        fired(second, 1)


# fs/watchMissing, ours alone


def test_nothing_is_missed_between_the_look_and_the_watch(wire: Wire, tmp_path: Path) -> None:
    # Created while it is being armed: either it was there already, or it is told.
    for number in range(1, 200):
        path = tmp_path / str(number)
        params = {"watchId": number, "missing": [path.as_uri()], "present": None}
        begun = threading.Thread(target=path.touch)
        request = wire.request("fs/watchMissing", params)
        begun.start()
        if wire.answer(request)["result"]["watching"]:
            wire.until(lambda m, n=number: m["params"].get("watchId") == n)  # type: ignore[misc]
        begun.join()


def test_the_answer_comes_before_the_news(wire: Wire, tmp_path: Path) -> None:
    for number in range(1, 100):
        path = tmp_path / str(number)
        request = wire.request("fs/watchMissing", {"watchId": number, "missing": [path.as_uri()]})
        path.touch()
        while (message := wire.receive()).get("id") != request:
            assert message["params"]["watchId"] < number
        if wire.answer(request)["result"]["watching"]:
            wire.until(lambda m, n=number: m["params"].get("watchId") == n)  # type: ignore[misc]


def test_requests_in_a_row_are_taken_in_their_order(wire: Wire, tmp_path: Path) -> None:
    uri = (tmp_path / "a").as_uri()
    requests = [
        wire.request("fs/writeFile", {"path": uri, "dataBase64": "YQ=="}),
        wire.request("fs/watchMissing", {"watchId": 1, "missing": [uri]}),
        wire.request("fs/remove", {"path": uri}),
        wire.request("fs/watchMissing", {"watchId": 2, "missing": [uri]}),
        wire.request("fs/watchMissing", {"watchId": 3, "missing": [uri]}),
    ]
    answers = [wire.answer(request)["result"] for request in requests]
    assert answers == [{}, {"watching": False}, {}, {"watching": True}, {"watching": True}]
    (tmp_path / "a").touch()
    fired(wire, 3)


def test_one_instance_serves_all_connections_and_is_left_empty(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "home") as server:
        with contextlib.ExitStack() as stack:
            for number in range(5):
                wire = stack.enter_context(Wire(server.url))
                wire.handshake()
                assert watch_missing(wire, 1, tmp_path, [f"m{number}"])
                wire.call("fs/watch", {"watchId": "w", "path": tmp_path.as_uri()})
            links = [os.readlink(path) for path in Path(f"{PROC}/{server.pid}/fd").iterdir()]
            assert links.count("anon_inode:inotify") == 1
            assert kernel_watches(server) > 0
        wait_until(lambda: kernel_watches(server) == 0, "nothing is watched any more")


# fs/watch


class Watched:
    """A folder that is watched, and what was told of it."""

    def __init__(self, wire: Wire, folder: Path, **params: Any) -> None:
        self.wire = wire
        self.folder = folder
        self.watch_id = f"watch {folder.name}"
        answer = wire.call(
            "fs/watch", {"watchId": self.watch_id, "path": folder.as_uri(), "debounceMs": 20, **params}
        )
        assert answer == {"watching": True}

    def notices(self) -> list[Message]:
        told = [n["params"] for n in self.wire.notices if n["method"] == "fs/changed"]
        return [params for params in told if params["watchId"] == self.watch_id]

    def told(self) -> list[tuple[str, str]]:
        """All changes so far: path relative to the folder, and kind."""
        changes = [change for params in self.notices() for change in params["changes"]]
        prefix = self.folder.as_uri()
        assert all(change["path"].startswith(prefix) for change in changes)
        return [(unquote(change["path"][len(prefix) + 1 :]), change["kind"]) for change in changes]

    def wait(self, path: str, kind: str) -> list[tuple[str, str]]:
        """Waits until this is told; returns what was told by then."""
        while (path, kind) not in self.told():
            self.wire.receive()
        return self.told()

    def settled(self) -> list[tuple[str, str]]:
        """Makes and removes a file after everything else, and waits for it: all before is told then."""
        mark = self.folder / f"settled-{len(self.notices())}"
        mark.touch()
        self.wait(mark.name, "created")
        mark.unlink()
        self.wait(mark.name, "removed")
        return [change for change in self.told() if not change[0].startswith("settled-")]

    def forget(self) -> None:
        self.wire.notices.clear()


@pytest.fixture
def watched(wire: Wire, tmp_path: Path) -> Watched:
    (tmp_path / "d/in").mkdir(parents=True)
    (tmp_path / "d/f").write_text("f")
    (tmp_path / "g").write_text("g")
    return Watched(wire, tmp_path)


# One after the other, each told before the next begins.
STEPS: list[tuple[str, list[tuple[str, str]]]] = [
    ("touch new", [("new", "created")]),
    ("echo x > g", [("g", "modified")]),
    ("chmod 600 g", [("g", "modified")]),
    ("rm g", [("g", "removed")]),
    ("mv new old", [("new", "removed"), ("old", "created")]),
    ("touch d/in/deep", [("d/in/deep", "created")]),
    ("mv d/f old", [("d/f", "removed"), ("old", "modified")]),
    ("mkdir e", [("e", "created")]),
    ("touch e/x", [("e/x", "created")]),
    ("ln -s /tmp e/link", [("e/link", "created")]),
    ("mkfifo fifo", [("fifo", "created")]),
    ("mv e d/e", [("e", "removed"), ("d/e", "created"), ("d/e/link", "created"), ("d/e/x", "created")]),
    ("touch d/e/y", [("d/e/y", "created")]),
    ("rm -r d", [("d", "removed")]),
]


def test_changes_are_told_as_they_are_made(watched: Watched, server: Server) -> None:
    for command, expected in STEPS:
        with frozen(server):
            run(command, watched.folder)
        told = watched.settled()
        # A folder's content comes in no particular order, and may be told before the folder that goes.
        within = [change for change in told if change[0].startswith("d/") and command == "rm -r d"]
        assert sorted(set(told) - set(within)) == sorted(expected), command
        watched.forget()


def test_two_files_that_change_places_stay(watched: Watched, server: Server, tmp_path: Path) -> None:
    with frozen(server):
        exchange(tmp_path / "g", tmp_path / "d/f")
        exchange(tmp_path / "d/f", tmp_path / "g")
    watched.wait("g", "modified")
    watched.wait("d/f", "modified")
    watched.forget()
    run("echo x > g; echo x > d/f", tmp_path)
    assert sorted(watched.settled()) == [("d/f", "modified"), ("g", "modified")]


def test_two_folders_that_change_places_stay_and_are_watched(watched: Watched, tmp_path: Path) -> None:
    run("mkdir e; touch e/x", tmp_path)
    watched.wait("e/x", "created")
    watched.forget()
    exchange(tmp_path / "e", tmp_path / "d/in")
    watched.wait("d/in/x", "created")
    run("touch e/new d/in/new", tmp_path)
    watched.wait("e/new", "created")
    watched.wait("d/in/new", "created")
    assert applied({"e", "e/x", "d", "d/f", "d/in", "g"}, watched.settled()) == tree(tmp_path)


def test_one_that_took_a_place_and_went_on_is_gone(watched: Watched, server: Server, tmp_path: Path) -> None:
    with frozen(server):
        run("mv d/f g; mv g h; mv h g; rm g", tmp_path)
    watched.wait("g", "removed")
    assert applied({"d", "d/f", "d/in", "g"}, watched.settled()) == {"d", "d/in"}


def test_what_comes_and_goes_in_between_is_not_told(wire: Wire, server: Server, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("old")
    watched = Watched(wire, tmp_path)
    with frozen(server):
        run("touch gone; rm gone; mkdir d; touch d/x; rm -r d", tmp_path)
        # As an editor saves.
        run("echo new > .kept.swp; mv .kept.swp kept; touch last", tmp_path)
    assert watched.wait("last", "created") == [("kept", "modified"), ("last", "created")]
    assert len(watched.notices()) == 1


def test_a_file_that_is_written_here_is_told_without_its_makings(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("old")
    watched = Watched(wire, tmp_path, debounceMs=int(300 * SECOND))
    for name in ("kept", "new"):
        wire.call("fs/writeFile", {"path": (tmp_path / name).as_uri(), "dataBase64": "YQ=="})
    assert watched.wait("new", "created") == [("kept", "modified"), ("new", "created")]


def test_what_was_in_a_new_folder_before_it_was_watched_is_told(watched: Watched, tmp_path: Path) -> None:
    expected = set()
    for number in range(20):
        deep = f"n{number}/a/b/c"
        (tmp_path / deep).mkdir(parents=True)
        (tmp_path / deep / "f").touch()
        parts = [*deep.split("/"), "f"]
        expected |= {("/".join(parts[:place]), "created") for place in range(1, len(parts) + 1)}
    watched.wait("n19/a/b/c/f", "created")
    assert set(watched.settled()) == expected


def test_a_folder_moved_in_is_told_with_its_content_and_watched(
    watched: Watched, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    run("mkdir -p tree/in; touch tree/in/f", outside)
    os.rename(outside / "tree", watched.folder / "tree")
    watched.wait("tree/in/f", "created")
    run("echo x > tree/in/f; touch tree/in/g", watched.folder)
    watched.wait("tree/in/g", "created")
    os.rename(watched.folder / "tree", outside / "tree")
    told = watched.wait("tree", "removed")
    watched.forget()
    run("touch tree/in/h", outside)
    assert watched.settled() == []
    assert {path for path, _ in told} == {"tree", "tree/in", "tree/in/f", "tree/in/g"}


def test_links_are_not_followed(wire: Wire, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (tmp_path / "link").symlink_to(outside)
    watched = Watched(wire, tmp_path)
    (outside / "f").touch()
    assert watched.settled() == []


def test_a_link_to_the_folder_itself_is_a_way_to_it(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    watched = Watched(wire, tmp_path / "link")
    (tmp_path / "real/f").touch()
    assert watched.wait("f", "created") == [("f", "created")]


def test_one_folder_without_those_below(wire: Wire, server: Server, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    watched = Watched(wire, tmp_path, recursive=False)
    with frozen(server):
        run("touch d/x f; mkdir e; touch e/x; rm -r d", tmp_path)
    came, went = [("f", "created"), ("e", "created")], [("d", "removed")]
    # When something went nobody knows who only looks.
    assert watched.settled() == ([*came, *went] if LINUX else [*went, *came])


def test_one_file_however_it_is_saved(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    wire.call("fs/watch", {"watchId": "file", "path": (tmp_path / "f").as_uri(), "debounceMs": 0})
    for command, kind in [
        ("echo x >> f", "modified"),
        ("touch other; echo x > tmp; mv tmp f", "modified"),
        ("rm f", "removed"),
        ("echo x > f", "created"),
    ]:
        run(command, tmp_path)
        wire.until(lambda m, k=kind: m["params"]["changes"] and m["params"]["changes"][0]["kind"] == k)  # type: ignore[misc]
        told = {c["path"] for n in news(wire, "fs/changed") for c in n["changes"]}
        assert told == {(tmp_path / "f").as_uri()}
        wire.notices.clear()


def test_patterns_are_neither_told_nor_watched(wire: Wire, server: Server, tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"node_modules/p{number}").mkdir(parents=True)
    before = kernel_watches(server)
    watched = Watched(wire, tmp_path, ignore=["node_modules/", "*.pyc", "!kept.pyc"])
    assert kernel_watches(server) - before == 1
    with frozen(server):
        run("touch a.pyc kept.pyc node_modules/p1/x; mkdir -p d/node_modules", tmp_path)
        run("touch d/node_modules/y d/z", tmp_path)
    assert set(watched.settled()) == {("kept.pyc", "created"), ("d", "created"), ("d/z", "created")}


def test_odd_names_are_told_as_uris(wire: Wire, tmp_path: Path) -> None:
    Watched(wire, tmp_path)
    os.close(os.open(os.fsencode(tmp_path) + b"/sp ace%\xff", os.O_CREAT))
    notice = wire.until(lambda m: m["method"] == "fs/changed")
    assert notice["params"]["changes"] == [{"path": tmp_path.as_uri() + "/sp%20ace%25%FF", "kind": "created"}]


@pytest.mark.parametrize("end", ["rm -r w", "mv w elsewhere"])
def test_the_end_of_what_is_watched_is_told_last(
    end: str, wire: Wire, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "w/d").mkdir(parents=True)
    before = kernel_watches(server)
    watched = Watched(wire, tmp_path / "w")
    run(end, tmp_path)
    assert watched.wait("", "removed")[-1] == ("", "removed")
    wait_until(lambda: kernel_watches(server) == before, "nothing of it is watched any more")
    watched.forget()
    run("mkdir -p w; touch w/x", tmp_path)
    assert news(wire, "fs/changed") == []
    assert wire.call("fs/unwatch", {"watchId": watched.watch_id}) == {}


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file, behind what is mounted there."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    folder = tmp_path / "mounted"
    folder.mkdir()
    (folder / "behind").touch()
    if subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=False).returncode != 0:
        pytest.skip("this root may not mount")
    (folder / "in/deep").mkdir(parents=True)
    yield folder
    subprocess.run(["umount", folder], check=False, capture_output=True)


def test_what_was_mounted_is_told_as_gone_and_what_it_hid_is_watched(wire: Wire, mounted: Path) -> None:
    watched = Watched(wire, mounted.parent)
    subprocess.run(["umount", mounted], check=True)
    watched.wait("mounted/behind", "created")
    run("touch new", mounted)
    watched.wait("mounted/new", "created")
    known = {"mounted", "mounted/in", "mounted/in/deep"}
    assert applied(known, watched.settled()) == tree(mounted.parent)


def test_debounce_collects_from_the_first_change_on(wire: Wire, tmp_path: Path) -> None:
    watched = Watched(wire, tmp_path, debounceMs=int(300 * SECOND))
    begun = time.monotonic()
    number = 0
    while not watched.notices():
        number += 1
        (tmp_path / str(number)).touch()
        with contextlib.suppress(TimeoutError):
            wire.receive(0.01 * SECOND)
    # It never got quiet, and was told all the same.
    assert 0.3 * SECOND <= time.monotonic() - begun < 3 * SECOND
    assert len(watched.told()) > 5


def test_unwatch_ends_it_and_frees_the_name(wire: Wire, server: Server, tmp_path: Path) -> None:
    before = kernel_watches(server)
    watched = Watched(wire, tmp_path)
    assert wire.call("fs/unwatch", {"watchId": watched.watch_id}) == {}
    assert wire.call("fs/unwatch", {"watchId": watched.watch_id}) == {}
    (tmp_path / "x").touch()
    assert news(wire, "fs/changed") == []
    wait_until(lambda: kernel_watches(server) == before, "it is not watched any more")
    again = Watched(wire, tmp_path)
    (tmp_path / "y").touch()
    assert again.wait("y", "created") == [("y", "created")]


def test_watch_and_unwatch_in_one_breath(wire: Wire, server: Server, tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"d{number}").mkdir()
    before = kernel_watches(server)
    params = {"watchId": "w", "path": tmp_path.as_uri()}
    requests = [
        wire.request(method, params if method == "fs/watch" else {"watchId": "w"})
        for _ in range(10)
        for method in ("fs/watch", "fs/unwatch")
    ]
    answers = [wire.answer(request) for request in requests]
    # One that begins before the last has ended has its name still.
    assert answers[0]["result"] == {"watching": True}
    assert answers[-1]["result"] == {}
    wait_until(lambda: kernel_watches(server) == before, "nothing of it is watched any more")


def test_two_watches_of_one_folder_are_two(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    outer = Watched(wire, tmp_path)
    inner = Watched(wire, tmp_path / "d")
    (tmp_path / "d/x").touch()
    outer.wait("d/x", "created")
    inner.wait("x", "created")
    wire.call("fs/unwatch", {"watchId": outer.watch_id})
    (tmp_path / "d/y").touch()
    inner.wait("y", "created")
    assert outer.told() == [("d/x", "created")]


REFUSALS: list[tuple[str, Callable[[Path], Message], int, str]] = [
    ("missing", lambda d: {"path": (d / "none").as_uri()}, -32004, "No such file or directory (os error 2)"),
    ("/proc", lambda d: {"path": "file:///proc/self"}, -32600, "the kernel generates these files"),
    (
        "name",
        lambda d: {"path": d.as_uri(), "watchId": "n" * 65},
        -32600,
        "watch ID must not exceed 64 bytes",
    ),
    ("debounce", lambda d: {"path": d.as_uri(), "debounceMs": 10_001}, -32602, "`debounceMs` must be"),
    ("patterns", lambda d: {"path": d.as_uri(), "ignore": ["x"] * 65}, -32602, "`ignore` takes 64 patterns"),
]


@pytest.mark.parametrize(
    ("params", "code", "text"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
def test_refusals(
    params: Callable[[Path], Message], code: int, text: str, wire: Wire, tmp_path: Path
) -> None:
    error = wire.error("fs/watch", {"watchId": "w", **params(tmp_path)})
    assert (error["code"], error["message"][: len(text)]) == (code, text)
    assert wire.call("fs/watch", {"watchId": "w", "path": tmp_path.as_uri()}) == {"watching": True}


def test_a_name_is_taken_once_and_there_are_so_many(wire: Wire, tmp_path: Path) -> None:
    for number in range(WATCHES):
        wire.call("fs/watch", {"watchId": str(number), "path": tmp_path.as_uri()})
    taken = wire.error("fs/watch", {"watchId": "7", "path": tmp_path.as_uri()})
    assert (taken["code"], taken["message"]) == (-32600, "watch `7` already exists")
    many = wire.error("fs/watch", {"watchId": "more", "path": tmp_path.as_uri()})
    assert (many["code"], many["message"]) == (-32600, "at most 64 watches may be open per connection")
    wire.call("fs/unwatch", {"watchId": "7"})
    wire.call("fs/watch", {"watchId": "more", "path": tmp_path.as_uri()})


# Bounds


def many_folders(root: Path, count: int) -> None:
    for number in range(count):
        if number % 100 == 0:
            (root / str(number // 100)).mkdir(parents=True)
        else:
            (root / str(number // 100) / str(number)).mkdir()


def test_a_name_is_free_when_too_many_requests_wait(wire: Wire, tmp_path: Path) -> None:
    wire.start("waits", ["/bin/cat"], pipeStdin=True)
    read = {"processId": "waits", "afterSeq": 0, "waitMs": 60_000}
    waiting = [wire.request("process/read", read) for _ in range(WAITING_LIMIT)]
    watch = {"watchId": "w", "path": tmp_path.as_uri()}
    assert "requests of this connection are waiting" in wire.error("fs/watch", watch)["message"]
    wire.call("process/terminate", {"processId": "waits"})
    for ident in waiting:
        wire.answer(ident)
    assert wire.call("fs/watch", watch) == {"watching": True}


def test_too_large_a_tree_is_refused_and_one_that_grows_too_large_is_told(
    wire: Wire, server: Server, tmp_path: Path
) -> None:
    before = kernel_watches(server)
    many_folders(tmp_path / "tree", WATCHED_FOLDERS)
    error = wire.error("fs/watch", {"watchId": "w", "path": (tmp_path / "tree").as_uri()})
    assert error["code"] == -32600
    assert error["message"].startswith(f"this tree has more than {WATCHED_FOLDERS} directories")
    wait_until(lambda: kernel_watches(server) == before, "nothing of it is watched")
    shutil.rmtree(tmp_path / "tree/0")
    watched = Watched(wire, tmp_path / "tree")
    assert kernel_watches(server) - before == WATCHED_FOLDERS - 99
    many_folders(tmp_path / "tree/more", 100)
    while not any(params["overflow"] for params in watched.notices()):
        wire.receive()
    wait_until(lambda: kernel_watches(server) - before == WATCHED_FOLDERS, "it is watched as far as it goes")
    watched.forget()
    # From now on something may be missing in every notice.
    (tmp_path / "tree/f").touch()
    while not watched.told():
        wire.receive()
    assert all(params["overflow"] for params in watched.notices())
    assert watched.told() == [("f", "created")]


def test_more_changes_than_can_be_told_are_told_as_such(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for number in range(CHANGES + 1):
        (tmp_path / "many" / str(number)).touch()
    (tmp_path / "tree").mkdir()
    watched = Watched(wire, tmp_path / "tree")
    os.rename(tmp_path / "many", tmp_path / "tree/many")
    notice = wire.until(lambda m: m["params"]["overflow"])["params"]
    assert notice["changes"] == []
    watched.forget()
    (tmp_path / "tree/last").touch()
    notice = wire.until(lambda m: m["method"] == "fs/changed")["params"]
    assert (watched.told(), notice["overflow"]) == ([("last", "created")], False)


@pytest.mark.skipif(QUEUE > 100_000, reason="this machine keeps too many events to lose some")
def test_events_that_the_kernel_lost_are_told_and_the_tree_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    (folder / "d").mkdir(parents=True)
    with serving("outfitter", tmp_path / "home") as server, Wire(server.url) as wire:
        wire.handshake()
        watched = Watched(wire, folder)
        with frozen(server):
            for _ in range(QUEUE):
                (folder / "f").touch()
                (folder / "f").unlink()
            shutil.rmtree(folder / "d")
            (folder / "new/deep").mkdir(parents=True)
        while not any(params["overflow"] for params in watched.notices()):
            wire.receive()
        watched.forget()
        # What appeared in the dark is watched now.
        (folder / "new/deep/x").touch()
        watched.wait("new/deep/x", "created")
        wait_until(lambda: kernel_watches(server) == 3, "what is gone is not watched")


def test_a_slow_reader_gets_all_changes_or_is_told_to_look(wire: Wire, tmp_path: Path) -> None:
    watched = Watched(wire, tmp_path, debounceMs=0)
    # Fill what is on its way to a peer that does not read.
    wire.start("flood", ["/bin/sh", "-c", "head -c 20000000 /dev/zero"])
    for number in range(20):
        for name in range(200):
            (tmp_path / f"{number}-{name}").touch()
    wire.closed("flood")
    while len(watched.told()) < 4000 and not any(params["overflow"] for params in watched.notices()):
        wire.receive()


# A tree that several change at once


def tree(root: Path) -> set[str]:
    return {
        os.path.relpath(os.path.join(here, name), root)
        for here, folders, files in os.walk(root)
        for name in folders + files
    }


def play(root: Path, outside: Path, seed: int, steps: int) -> None:
    """Makes, removes and renames files and folders at random."""
    chance = random.Random(seed)
    for step in range(steps):
        folders = [str(root), *(os.path.join(here, one) for here, inner, _ in os.walk(root) for one in inner)]
        path = os.path.join(chance.choice(folders), chance.choice("abcdefgh"))
        elsewhere = os.path.join(outside, f"{seed}-{step}")
        with contextlib.suppress(OSError):
            match chance.randrange(8):
                case 0 | 1:
                    Path(path).write_text("x")
                case 2 | 3:
                    os.makedirs(os.path.join(path, chance.choice("xyz"), chance.choice("xyz")))
                case 4:
                    os.rename(path, os.path.join(chance.choice(folders), chance.choice("abcdefgh")))
                case 5:
                    os.unlink(path)
                case 6:
                    shutil.rmtree(path)
                case 7 if chance.random() < 0.5:
                    os.rename(path, elsewhere)
                case _:
                    os.makedirs(os.path.join(elsewhere, "in/side"))
                    os.rename(elsewhere, path)


@pytest.mark.parametrize("debounce", [0, 5, 50])
def test_who_applies_all_changes_knows_the_tree(debounce: int, wire: Wire, tmp_path: Path) -> None:
    root, outside = tmp_path / "tree", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    play(root, outside, 1000 + debounce, 40)
    known = tree(root)
    watched = Watched(wire, root, debounceMs=debounce)
    players = [
        threading.Thread(target=play, args=(root, outside, debounce * 10 + number, 120))
        for number in range(4)
    ]
    for player in players:
        player.start()
    for player in players:
        player.join()
    told = watched.settled()
    # New folders are looked into in the background; that is the last that comes.
    while (known_now := applied(known, told)) != tree(root):
        wire.receive()
        told = [change for change in watched.told() if not change[0].startswith("settled-")]
    assert known_now == tree(root)
    assert not any(params["overflow"] for params in watched.notices())


def applied(known: set[str], told: list[tuple[str, str]]) -> set[str]:
    known = set(known)
    for path, kind in told:
        if kind == "removed":
            known = {one for one in known if one != path and not one.startswith(path + "/")}
        else:
            known.add(path)
    return known
