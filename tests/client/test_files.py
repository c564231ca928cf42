"""client.files, over every way to a server, and over a link that breaks."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import stat
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter import CapabilityMissing, Client, Disconnected, InvalidParams, RequestFailed
from outfitter.client import transfer
from outfitter.client.files import FolderEntry
from outfitter.client.openfile import BLOCK_BYTES, RemoteFile
from outfitter.errors import FileChanged
from outfitter.protocol.codes import NOT_FOUND
from tests.client.peer import Peer, with_a_peer
from tests.client.ways import NAMES, Way, opened
from tests.support.machine import SECOND
from tests.support.proxy import Cutter
from tests.support.servers import serving
from tests.support.wire import b64

SECONDS = 30 * SECOND
MIB = 1 << 20


@pytest.fixture(scope="module", params=NAMES)
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    with opened(request.param, tmp_path_factory.mktemp("home")) as way:
        yield way


def over_every_way(
    scenario: Callable[[Client, Way, Path], Coroutine[Any, Any, None]],
) -> Callable[[Way, Path], None]:
    async def run(way: Way, folder: Path) -> None:
        async with asyncio.timeout(SECONDS), way.connect() as client:
            await scenario(client, way, folder)

    def test(way: Way, tmp_path: Path) -> None:
        asyncio.run(run(way, tmp_path))

    test.__name__ = scenario.__name__
    return test


def as_listed(way: Way, path: Path) -> FolderEntry:
    """What there is at a path; the stock server tells no mode, and where links lead in the end."""
    found = path.stat() if path.exists() else path.lstat()
    times = (found.st_size, found.st_mtime_ns // 1_000_000)
    mode = stat.S_IMODE(found.st_mode) if way.ours else None
    target = None
    if path.is_symlink():
        target = os.readlink(path) if way.ours else str(path.resolve())
    return FolderEntry(
        path.name, str(path), path.is_dir(), path.is_file(), path.is_symlink(), *times, mode, target
    )


# Files


@over_every_way
async def test_long_line_is_one_line(client: Client, way: Way, folder: Path) -> None:
    long = "x" * (2 * MIB + 7)
    (folder / "a").write_text(f"{long}\nsecond\r\n{long}")
    assert await client.files.read_lines(folder / "a") == [long, "second", long]
    assert await client.files.read_lines(folder / "a", 1, 1) == ["second"]
    assert await client.files.read_lines(folder / "a", 2, 5) == [long]


@over_every_way
async def test_content_arrives_as_it_was_whatever_its_size(client: Client, way: Way, folder: Path) -> None:
    for size in (0, 1, MIB, 4 * MIB, 4 * MIB + 1, 9 * MIB + 7):
        data = os.urandom(size)
        await client.files.write(f"{folder}/a", data)
        assert (folder / "a").read_bytes() == data
        assert await client.files.read(f"{folder}/a") == data


@over_every_way
async def test_what_a_path_is_can_be_asked(client: Client, way: Way, folder: Path) -> None:
    (folder / "file").write_bytes(b"12345")
    (folder / "file").chmod(0o640)
    (folder / "link").symlink_to("file")
    info = await client.files.stat(f"{folder}/link")
    assert (info.is_file, info.is_directory, info.is_symlink, info.size) == (True, False, True, 5)
    assert info.mode == (0o640 if way.ours else None)
    assert info.modified_ms == (folder / "file").stat().st_mtime_ns // 1_000_000
    assert await client.files.canonicalize(f"{folder}/./link") == str((folder / "file").resolve())
    assert (await client.files.exists(f"{folder}/file"), await client.files.exists(f"{folder}/no")) == (
        True,
        False,
    )


@over_every_way
async def test_missing_file_is_not_found(client: Client, way: Way, folder: Path) -> None:
    for call in (client.files.read, client.files.stat, client.files.open, client.files.list):
        with pytest.raises(RequestFailed) as refused:
            await call(f"{folder}/nonesuch")
        assert refused.value.code == NOT_FOUND


@over_every_way
async def test_every_entry_is_listed_with_all_that_is_known_of_it(
    client: Client, way: Way, folder: Path
) -> None:
    (folder / "folder").mkdir()
    (folder / "file").write_bytes(b"12345")
    os.mkfifo(folder / "pipe")
    for name, target in (
        ("dangling", "nowhere"),
        ("link", "file"),
        ("loop", "loop"),
        ("up", "folder/../folder"),
    ):
        (folder / name).symlink_to(target)
    listed = await client.files.list(folder)
    names = ["dangling", "file", "folder", "link", "loop", "pipe", "up"]
    if not way.ours:  # which leaves them out
        names = [name for name in names if name not in ("dangling", "loop")]
    assert listed == [as_listed(way, folder / name) for name in names]
    kinds = {entry.name: entry.kind for entry in listed}
    assert (kinds["link"], kinds["up"], kinds["pipe"]) == ("symlink", "symlink", "other")


@over_every_way
async def test_folders_are_made_listed_walked_and_removed(client: Client, way: Way, folder: Path) -> None:
    files = client.files
    await files.make_directory(f"{folder}/t/sub")
    await files.write(f"{folder}/t/b ü%", b"x")
    listed = sorted(await files.list(f"{folder}/t"), key=lambda entry: entry.name)
    assert listed == [as_listed(way, folder / "t" / "b ü%"), as_listed(way, folder / "t" / "sub")]
    assert [entry.kind for entry in listed] == ["file", "directory"]
    walked = await files.walk(f"{folder}/t")
    assert (sorted(walked.entries), walked.errors, walked.truncated) == (
        [(f"{folder}/t/b ü%", "file"), (f"{folder}/t/sub", "directory")],
        [],
        False,
    )
    await files.copy(f"{folder}/t", f"{folder}/u", recursive=True)
    assert (folder / "u" / "b ü%").read_bytes() == b"x"
    with pytest.raises(RequestFailed):
        await files.remove(f"{folder}/t")  # not empty
    await files.remove(f"{folder}/t", recursive=True)
    with pytest.raises(RequestFailed):
        await files.remove(f"{folder}/t")
    await files.remove(f"{folder}/t", force=True)
    assert not (folder / "t").exists()


@over_every_way
async def test_relative_path_is_the_executors(client: Client, way: Way, folder: Path) -> None:
    here = await client.files.canonicalize(".")
    assert here == str(way.directory.resolve())


@over_every_way
async def test_blocks_can_be_read_and_written_anywhere(client: Client, way: Way, folder: Path) -> None:
    async with await client.files.open(f"{folder}/a", "replace") as file:
        await file.write_at(b"world", 6)
        await file.write_at(b"hello ", 0)
    assert (folder / "a").read_bytes() == b"hello world"
    async with await client.files.open(f"{folder}/a") as file:
        assert (await file.read_at(6, 100), await file.read_at(100, 1)) == (b"world", b"")
        assert [block async for block in file.blocks(6)] == [b"world"]


@over_every_way
async def test_file_that_is_given_up_is_not_replaced(client: Client, way: Way, folder: Path) -> None:
    (folder / "a").write_text("old")
    with pytest.raises(ZeroDivisionError):
        async with await client.files.open(f"{folder}/a", "replace") as file:
            await file.write_at(b"new", 0)
            raise ZeroDivisionError
    if way.ours:  # the reference truncates at once
        await client.files.write(f"{folder}/b", b"")  # behind it in the queue
        assert (folder / "a").read_text() == "old"


@over_every_way
async def test_many_files_at_once(client: Client, way: Way, folder: Path) -> None:
    await asyncio.gather(*(client.files.write(f"{folder}/{n}", str(n).encode()) for n in range(200)))
    read = await asyncio.gather(*(client.files.read(f"{folder}/{n}") for n in range(200)))
    assert read == [str(n).encode() for n in range(200)]


@over_every_way
async def test_handles_are_given_back(client: Client, way: Way, folder: Path) -> None:
    (folder / "a").write_text("x")
    for _ in range(300):  # a connection may have 128
        async with await client.files.open(f"{folder}/a") as file:
            assert await file.read_at(0) == b"x"


@over_every_way
async def test_what_a_server_lacks_is_told(client: Client, way: Way, folder: Path) -> None:
    (folder / "a").write_text("x")
    if way.ours:
        await client.files.rename(f"{folder}/a", f"{folder}/b")
        await client.files.chmod(f"{folder}/b", 0o600)
        async with await client.files.open(f"{folder}/b", "update") as file:
            await file.write_at(b"y", 1)
        assert (folder / "b").read_text() == "xy"
        assert (folder / "b").stat().st_mode & 0o777 == 0o600
        return
    for call in (
        client.files.rename(f"{folder}/a", f"{folder}/b"),
        client.files.chmod(f"{folder}/a", 0o600),
        client.files.open(f"{folder}/a", "update"),
    ):
        with pytest.raises(CapabilityMissing):
            await call


@over_every_way
async def test_text_is_found_in_a_tree(client: Client, way: Way, folder: Path) -> None:
    if not way.ours:
        with pytest.raises(CapabilityMissing):
            await client.files.search(str(folder), "x")
        return
    (folder / "sub").mkdir()
    (folder / "sub" / "a.txt").write_text("one\nneedle here\n")
    (folder / "b.py").write_text("needle\n")
    found = await client.files.search(str(folder), "need.e", include=["*.txt"])
    [match] = found.matches
    assert (match.line, match.column, match.text) == (2, 1, "needle here")
    assert match.path.endswith("/sub/a.txt") and not found.truncated


@over_every_way
async def test_changes_are_told_as_they_happen(client: Client, way: Way, folder: Path) -> None:
    if not way.ours:
        with pytest.raises(CapabilityMissing):
            await client.files.watch(str(folder))
        return
    async with await client.files.watch(str(folder)) as watch:
        (folder / "new").write_text("x")
        async for changes in watch:
            assert changes.changes == [((folder / "new").as_uri(), "created")]
            break
        (folder / "new").unlink()
        async for changes in watch:
            if (changes.changes[-1][1]) == "removed":
                break


def test_watch_goes_on_after_a_break_and_says_that_it_missed_something(tmp_path: Path) -> None:
    async def scenario(url: str) -> None:
        async with (
            asyncio.timeout(SECONDS),
            outfitter.connect(url) as client,
            await client.files.watch(str(tmp_path / "seen")) as watch,
        ):
            cutter.cut_all()
            seen = aiter(watch)
            assert (await anext(seen)).overflow
            (tmp_path / "seen" / "new").write_text("x")
            assert (await anext(seen)).changes == [((tmp_path / "seen" / "new").as_uri(), "created")]

    (tmp_path / "seen").mkdir()
    with serving("outfitter", tmp_path / "home") as server:
        cutter = Cutter(server)
        try:
            asyncio.run(scenario(cutter.url))
        finally:
            cutter.close()


@over_every_way
async def test_tree_with_a_link_to_a_directory_is_not_downloaded(
    client: Client, way: Way, folder: Path
) -> None:
    # Followed, one that leads back up would be the same files again and again.
    (folder / "tree" / "inner").mkdir(parents=True)
    (folder / "tree" / "inner" / "a").write_text("a")
    (folder / "link").symlink_to("tree")
    await client.download(f"{folder}/link", folder / "copy")  # the tree itself may be a link
    assert (folder / "copy" / "inner" / "a").read_text() == "a"
    (folder / "tree" / "inner" / "loop").symlink_to("..")
    with pytest.raises(InvalidParams, match="loop is a link to a directory"):
        await client.download(f"{folder}/tree", folder / "other")


def test_file_with_the_longest_name_is_downloaded_also_twice_at_once(tmp_path: Path) -> None:
    name = "n" * 255  # what a file system takes: nothing can stand behind it
    (tmp_path / name).write_bytes(b"x" * (2 * MIB))
    (tmp_path / "copy").mkdir()

    async def scenario() -> None:
        async with outfitter.local() as client:
            await asyncio.gather(*(client.download(tmp_path / name, tmp_path / "copy" / name) for _ in "ab"))

    asyncio.run(scenario())
    assert [one.name for one in (tmp_path / "copy").iterdir()] == [name]
    assert (tmp_path / "copy" / name).read_bytes() == b"x" * (2 * MIB)


def test_file_that_is_being_downloaded_is_private(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret")
    (tmp_path / "key").chmod(0o640)
    modes: list[int] = []

    def seen(*args: Any, **named: Any) -> Any:
        file = open(*args, **named)  # noqa: SIM115 - whoever asked for it closes it
        modes.append(stat.S_IMODE(os.stat(file.fileno()).st_mode))
        return file

    async def scenario() -> None:
        async with outfitter.local() as client:
            await client.download(tmp_path / "key", tmp_path / "copy")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "open", seen, raising=False)
        asyncio.run(scenario())
    assert modes == [0o600]
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o640


def test_download_makes_no_setuid_file_here(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "a").chmod(0o6751)

    async def scenario() -> None:
        async with outfitter.local() as client:
            await client.download(tmp_path / "a", tmp_path / "b")

    asyncio.run(scenario())
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o751


@over_every_way
async def test_tree_goes_to_a_uri_and_comes_from_one(client: Client, way: Way, folder: Path) -> None:
    # What a URI would take for something else, and a name that reads as an encoded one.
    names = ["a%20b", "a b", "what?", "#1"]
    (folder / "tree" / "x y").mkdir(parents=True)
    for name in names:
        (folder / "tree" / "x y" / name).write_text(name)
    await client.upload(folder / "tree", f"file://{folder}/over%20there/")
    await client.download(f"file://{folder}/over%20there", folder / "back")
    for copy in ("over there", "back"):
        found = {one.name: one.read_text() for one in (folder / copy / "x y").iterdir()}
        assert found == {name: name for name in names}


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.parametrize("times", [1, 2])  # the files of a tree: twice, when another one has ended first
@pytest.mark.parametrize("direction", ["upload", "download"])
def test_copy_that_is_cancelled_while_a_file_is_opened_here_leaves_nothing(
    direction: str, times: int, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("a")
    entered, may_go_on = threading.Event(), threading.Event()

    def slow_open(*args: Any, **named: Any) -> Any:
        entered.set()
        may_go_on.wait(SECONDS)
        return open(*args, **named)

    async def scenario() -> None:
        async with outfitter.local() as client:
            copying = asyncio.ensure_future(getattr(client, direction)(tmp_path / "a", tmp_path / "b"))
            await asyncio.to_thread(entered.wait, SECONDS)
            for _ in range(times):
                copying.cancel()
                await asyncio.wait([copying], timeout=0.01)
            may_go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await copying

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "open", slow_open, raising=False)
        asyncio.run(scenario())
    gc.collect()
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_name_that_is_no_text_goes_there_and_back(tmp_path: Path) -> None:
    name = os.fsdecode(b"b\xff\xfe")

    async def scenario() -> None:
        async with outfitter.local() as client:
            await client.files.write(f"{tmp_path}/{name}", b"x")
            [entry] = await client.files.list(str(tmp_path))
            assert await client.files.read(entry.path) == b"x"
            [(walked, _)] = (await client.files.walk(str(tmp_path))).entries
            assert walked == f"{tmp_path}/{name}"

    asyncio.run(scenario())


def test_tree_with_a_name_that_is_no_text_is_downloaded_with_that_name(tmp_path: Path) -> None:
    names = [os.fsdecode(name) for name in (b"b\xfe", b"b\xff")]  # shown as text they would be the same
    (tmp_path / "tree").mkdir()
    for name in names:
        (tmp_path / "tree" / name).write_text(name, errors="surrogateescape")

    async def scenario() -> None:
        async with outfitter.local() as client:
            await client.download(tmp_path / "tree", tmp_path / "copy")

    asyncio.run(scenario())
    for name in names:
        assert (tmp_path / "copy" / name).read_text(errors="surrogateescape") == name


# A link that breaks


@pytest.mark.parametrize("kind", ["outfitter", "codex"])
def test_large_files_survive_a_breaking_link(kind: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    data = os.urandom(24 * MIB)
    states: list[str] = []

    async def scenario(url: str) -> None:
        async with outfitter.connect(url, on_state=states.append) as client:
            async with asyncio.timeout(SECONDS):
                (tmp_path / "a").write_bytes(data)
                assert await client.files.read(f"{tmp_path}/a") == data
                cutter.budget = 60 * MIB
                await client.files.write(f"{tmp_path}/b", data)

    with serving(kind, tmp_path / "home") as server:
        cutter = Cutter(server)
        cutter.budget = chance.randrange(6 * MIB, 12 * MIB)
        try:
            asyncio.run(scenario(cutter.url))
        finally:
            cutter.close()
    assert (tmp_path / "b").read_bytes() == data
    assert states.count("recovering") >= 2


def opening(peer: Peer, size: int, modified: int) -> dict[str, Any]:
    return {
        "isDirectory": False,
        "isFile": True,
        "isSymlink": False,
        "size": size,
        "createdAtMs": 1,
        "modifiedAtMs": modified,
    }


@with_a_peer(resumable=True)
async def test_read_goes_on_in_the_same_file_only(peer: Peer) -> None:
    starting = asyncio.ensure_future(peer.client.files.open("/a"))
    first = await peer.request("fs/open")
    peer.answer(first, {"handleId": "f1"})
    peer.answer(await peer.request("fs/getMetadata"), opening(peer, 10, 5))
    file = await starting
    reading = asyncio.ensure_future(file.read_at(3, 4))
    await peer.request("fs/readBlock")
    peer.cut()
    await peer.greet()
    again = await peer.request("fs/open")
    assert again["params"]["path"] == "file:///a"
    peer.answer(again, {"handleId": again["params"]["handleId"]})
    peer.answer(await peer.request("fs/getMetadata"), opening(peer, 10, 5))
    block = await peer.request("fs/readBlock")
    assert block["params"] == {"handleId": again["params"]["handleId"], "offset": 3, "len": 4}
    peer.answer(block, {"chunk": b64(b"3456"), "eof": False})
    assert await reading == b"3456"
    reading = asyncio.ensure_future(file.read_at(7, 4))
    await peer.request("fs/readBlock")
    peer.cut()
    await peer.greet()
    once_more = await peer.request("fs/open")
    peer.answer(once_more, {"handleId": once_more["params"]["handleId"]})
    peer.answer(await peer.request("fs/getMetadata"), opening(peer, 10, 6))
    with pytest.raises(FileChanged):
        await reading


async def opened_by(peer: Peer, modified: int) -> None:
    """The file is opened, and found as it was modified then."""
    asked = await peer.request("fs/open")
    peer.answer(asked, {"handleId": asked["params"]["handleId"]})
    peer.answer(await peer.request("fs/getMetadata"), opening(peer, 10, modified))


@with_a_peer(resumable=True)
async def test_read_that_is_given_up_leads_nobody_into_another_file(peer: Peer) -> None:
    starting = asyncio.ensure_future(peer.client.files.open("/a"))
    await opened_by(peer, 5)
    file = await starting
    reading = asyncio.ensure_future(file.read_at(0, 4))
    await peer.request("fs/readBlock")
    peer.cut()
    await peer.greet()
    asked = await peer.request("fs/open")
    peer.answer(asked, {"handleId": asked["params"]["handleId"]})
    await peer.request("fs/getMetadata")  # it is not known yet whether the file is the same
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    closed = await peer.request("fs/close")
    assert closed["params"]["handleId"] == asked["params"]["handleId"]
    peer.answer(closed, {})
    for _ in range(2):  # and once it was told, it stays so
        reading = asyncio.ensure_future(file.read_at(4, 4))
        peer.refuse(await peer.request("fs/readBlock"), NOT_FOUND)
        await opened_by(peer, 6)
        with pytest.raises(FileChanged):
            await reading
        peer.answer(await peer.request("fs/close"), {})


@with_a_peer(resumable=True)
async def test_reads_that_wait_for_a_connection_share_the_file_that_is_opened_again(peer: Peer) -> None:
    starting = asyncio.ensure_future(peer.client.files.open("/a"))
    await opened_by(peer, 5)
    file = await starting
    peer.cut()
    await peer.until(lambda: peer.client.state == "recovering")
    readings = [asyncio.ensure_future(file.read_at(place, 1)) for place in (0, 1)]
    await peer.greet()
    first, second = [await peer.request("fs/readBlock") for _ in readings]
    peer.refuse(first, NOT_FOUND)
    await opened_by(peer, 5)
    again = await peer.request("fs/readBlock")
    peer.refuse(second, NOT_FOUND)  # the handle of the lost connection, too
    peer.answer(again, {"chunk": b64(b"0"), "eof": False})
    peer.answer(await peer.request("fs/readBlock"), {"chunk": b64(b"1"), "eof": False})
    assert await asyncio.gather(*readings) == [b"0", b"1"]


@with_a_peer(resumable=True)
async def test_file_that_is_opened_as_soon_as_there_is_a_connection_is_written(peer: Peer) -> None:
    peer.offer("fileWriteStreaming")
    peer.hang_up()
    await peer.until(lambda: peer.dials > 1)
    starting = asyncio.ensure_future(peer.client.files.open("/a", "replace"))
    await asyncio.sleep(0)
    peer.unreachable = False
    await peer.greet()
    peer.answer(await peer.request("fs/open"), {"handleId": "f1"})
    closing = asyncio.ensure_future((await starting).close())
    peer.answer(await peer.request("fs/close"), {})
    await closing


async def ten_bytes(peer: Peer) -> RemoteFile:
    """A file of ten bytes, open for reading."""
    starting = asyncio.ensure_future(peer.client.files.open("/a"))
    peer.answer(await peer.request("fs/open"), {"handleId": "f1"})
    peer.answer(await peer.request("fs/getMetadata"), opening(peer, 10, 5))
    return await starting


@with_a_peer(resumable=True)
async def test_read_that_waited_for_the_next_connection_waits_for_the_file_too(peer: Peer) -> None:
    file = await ten_bytes(peer)
    under_way = asyncio.ensure_future(file.read_at(0, 5))
    await peer.request("fs/readBlock")
    peer.cut()
    await peer.until(lambda: peer.client.state != "connected")
    later = asyncio.ensure_future(file.read_at(5, 5))
    await peer.greet()
    await peer.until(lambda: len(peer.requests) == 2)
    again, early = sorted(peer.requests, key=lambda one: str(one["method"]))
    assert (again["method"], early["method"]) == ("fs/open", "fs/readBlock")
    peer.requests.clear()
    peer.refuse(early, NOT_FOUND, "unknown file handle `f1`")
    peer.answer(again, {"handleId": again["params"]["handleId"]})
    peer.answer(await peer.request("fs/getMetadata"), opening(peer, 10, 5))
    for _ in range(2):
        block = await peer.request("fs/readBlock")
        assert block["params"]["handleId"] == again["params"]["handleId"]
        start = block["params"]["offset"]
        peer.answer(block, {"chunk": b64(b"0123456789"[start : start + 5]), "eof": False})
    assert await asyncio.gather(under_way, later) == [b"01234", b"56789"]


@with_a_peer(resumable=True)
async def test_nobody_reads_another_file_that_took_the_name(peer: Peer) -> None:
    file = await ten_bytes(peer)
    reading = [asyncio.ensure_future(file.read_at(place, 5)) for place in (0, 5)]
    for _ in reading:
        await peer.request("fs/readBlock")
    peer.cut()
    await peer.greet()
    opening_again = await peer.request("fs/open")
    peer.answer(opening_again, {"handleId": opening_again["params"]["handleId"]})
    asked = await peer.request("fs/getMetadata")
    reading.append(asyncio.ensure_future(file.read_at(0, 10)))  # before it is known which file it is
    peer.refuse(await peer.request("fs/readBlock"), NOT_FOUND, "unknown file handle `f1`")
    peer.answer(asked, opening(peer, 10, 6))
    closed = 0
    while closed < len(reading):
        await peer.until(lambda: bool(peer.requests))
        request = peer.requests.pop(0)
        closed += request["method"] == "fs/close"
        peer.answer(request, opening(peer, 10, 6) if request["method"] == "fs/getMetadata" else {})
        assert request["method"] != "fs/readBlock"
    for one in reading:
        with pytest.raises(FileChanged):
            await one


@with_a_peer(resumable=True)
async def test_file_whose_opening_is_cut_is_opened_on_the_next_connection(peer: Peer) -> None:
    reading = asyncio.ensure_future(peer.client.files.read("/a", limit=4))
    await peer.request("fs/open")
    peer.cut()
    await peer.greet()
    again = await peer.request("fs/open")
    peer.answer(again, {"handleId": again["params"]["handleId"]})
    peer.answer(await peer.request("fs/getMetadata"), opening(peer, 4, 5))
    await peer.request("fs/readBlock")
    peer.cut()
    await peer.greet()
    await peer.request("fs/open")
    peer.cut()  # while it is opened once more
    await peer.greet()
    once_more = await peer.request("fs/open")
    peer.answer(once_more, {"handleId": once_more["params"]["handleId"]})
    peer.answer(await peer.request("fs/getMetadata"), opening(peer, 4, 5))
    peer.answer(await peer.request("fs/readBlock"), {"chunk": b64(b"1234"), "eof": True})
    assert await reading == b"1234"


@with_a_peer()
async def test_file_that_nobody_gets_is_closed(peer: Peer) -> None:
    for cancelled in (True, False):
        starting = asyncio.ensure_future(peer.client.files.open("/a"))
        opened = await peer.request("fs/open")
        peer.answer(opened, {"handleId": opened["params"]["handleId"]})
        asked = await peer.request("fs/getMetadata")
        if cancelled:
            starting.cancel()
        else:
            peer.refuse(asked, NOT_FOUND)  # it was removed meanwhile
        with pytest.raises((asyncio.CancelledError, RequestFailed)):
            await starting
        closed = await peer.request("fs/close")
        assert closed["params"]["handleId"] == opened["params"]["handleId"]
        peer.answer(closed, {})


@with_a_peer()
async def test_file_whose_opening_is_given_up_is_not_replaced(peer: Peer) -> None:
    peer.offer("fileWriteStreaming")
    starting = asyncio.ensure_future(peer.client.files.write("/a", b"x" * (5 * MIB)))
    opened = await peer.request("fs/open")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    closed = await peer.request("fs/close")
    assert closed["params"] == {"handleId": opened["params"]["handleId"], "discard": True}
    peer.answer(closed, {})


@with_a_peer()
async def test_file_whose_close_is_given_up_is_closed_all_the_same(peer: Peer) -> None:
    peer.offer("fileWriteStreaming")
    starting = asyncio.ensure_future(peer.client.files.write("/a", b"x" * (5 * MIB)))
    opened = await peer.request("fs/open")
    peer.answer(opened, {"handleId": opened["params"]["handleId"]})
    for _ in range(4):  # as many as are under way at a time
        last = await peer.request("fs/writeBlock")
    peer.answer(last, {})
    await peer.request("fs/writeBlock")  # the fifth and last: now it waits for all of them
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    closed = await peer.request("fs/close")
    assert closed["params"] == {"handleId": opened["params"]["handleId"], "discard": True}
    peer.answer(closed, {})


@with_a_peer()
async def test_watch_that_nobody_gets_is_ended(peer: Peer) -> None:
    peer.offer("fsWatch")
    starting = asyncio.ensure_future(peer.client.files.watch("/a"))
    watched = await peer.request("fs/watch")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    ended = await peer.request("fs/unwatch")
    assert ended["params"] == {"watchId": watched["params"]["watchId"]}
    peer.answer(ended, {})


@with_a_peer(resumable=True)
async def test_watch_that_waits_for_a_connection_is_set_up_once(peer: Peer) -> None:
    peer.offer("fsWatch")
    peer.cut()
    await peer.until(lambda: peer.client.state == "recovering")
    starting = asyncio.ensure_future(peer.client.files.watch("/a"))
    await peer.greet()
    peer.answer(await peer.request("fs/watch"), {})
    watch = await starting
    watch.close()
    peer.answer(await peer.request("fs/unwatch"), {})


@with_a_peer(resumable=True)
async def test_close_on_another_connection_is_no_success(peer: Peer) -> None:
    # The server answers {} for a handle that it does not know: nothing was written.
    peer.offer("fileWriteStreaming")
    starting = asyncio.ensure_future(peer.client.files.open("/a", "replace"))
    peer.answer(await peer.request("fs/open"), {"handleId": "f1"})
    file = await starting
    peer.cut()
    await peer.greet()
    await peer.until(lambda: peer.client.state == "connected")
    with pytest.raises(Disconnected, match="before the file was written"):
        await file.close()


@with_a_peer(resumable=True)
async def test_upload_that_loses_its_connection_begins_the_file_again(peer: Peer) -> None:
    peer.offer("fileWriteStreaming")
    with tempfile.NamedTemporaryFile() as source:
        source.write(bytes(BLOCK_BYTES) + b"rest")
        source.flush()
        sending = asyncio.ensure_future(peer.client.upload(source.name, "/copy"))
        peer.answer(await peer.request("fs/open"), {})
        peer.answer(await peer.request("fs/writeBlock"), {})
        await peer.request("fs/writeBlock")
        peer.cut()
        await peer.greet()
        peer.answer(await peer.request("fs/open"), {})
        places = []
        for _ in range(2):
            block = await peer.request("fs/writeBlock")
            places.append((block["params"]["offset"], block["params"]["chunk"]))
            peer.answer(block, {})
        assert places == [(0, b64(bytes(BLOCK_BYTES))), (BLOCK_BYTES, b64(b"rest"))]
        peer.answer(await peer.request("fs/close"), {})
        await sending
