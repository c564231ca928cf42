"""outfitter cp: what arrives, what is refused, and what a second attempt does."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from outfitter.cli.places import There
from outfitter.errors import RemoteProtocolError
from tests.client.peer import Peer, with_a_peer
from tests.support.machine import wait_until
from tests.support.servers import Server, serving

from .commandline import SECONDS, Terminal, User

MIB = 1 << 20


def cp(user: User, server: Server, *args: str) -> tuple[int, str]:
    done = user.run("cp", "--on", server.url, *args)
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every path below with its content; None for a folder."""
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = None if path.is_dir() else path.read_bytes()
    return found


@pytest.fixture
def there(any_server: Server) -> Path:
    """A folder of the executor."""
    folder = any_server.home / "there"
    folder.mkdir()
    return folder


# What arrives


@pytest.mark.parametrize("size", [0, 1, MIB, 5 * MIB + 3])
def test_file_arrives_there_and_back(size: int, user: User, any_server: Server, there: Path) -> None:
    data = os.urandom(size)
    (user.home / "a").write_bytes(data)
    assert cp(user, any_server, "a", f":{there}/b") == (0, "")
    assert (there / "b").read_bytes() == data
    assert cp(user, any_server, f":{there}/b", "c") == (0, "")
    assert (user.home / "c").read_bytes() == data


def test_tree_arrives_there_and_back(user: User, any_server: Server, there: Path) -> None:
    source = user.home / "tree"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "empty").mkdir()
    for number in range(30):
        (source / "deep" / f"{number} ü.txt").write_text(str(number))
    (source / "deep" / "er" / "big").write_bytes(os.urandom(2 * MIB + 1))
    assert cp(user, any_server, "-r", "tree", f":{there}/") == (0, "")
    assert tree(there / "tree") == tree(source)
    assert cp(user, any_server, "-r", f":{there}/tree", "back") == (0, "")
    assert tree(user.home / "back") == tree(source)


def test_file_with_the_longest_name_arrives_there_and_back(user: User, server: Server) -> None:
    name = "é" * 127  # 254 bytes, and a name has 255
    (user.home / name).write_text("x")
    (user.home / "there").mkdir()
    (user.home / "back").mkdir()
    assert cp(user, server, name, f":{user.home}/there") == (0, "")
    assert cp(user, server, f":{user.home}/there/{name}", "back/") == (0, "")
    assert tree(user.home / "there") == tree(user.home / "back") == {name: b"x"}


def test_tree_with_names_that_are_no_text_arrives_there_and_back(user: User, server: Server) -> None:
    source = user.home / "tree" / os.fsdecode(b"folder\xff")
    source.mkdir(parents=True)
    (source / os.fsdecode(b"a\xfe")).write_text("a")
    for _ in range(2):  # the second time nothing is left to do
        assert cp(user, server, "-r", "tree", f":{user.home}/there") == (0, "")
        assert cp(user, server, "-r", f":{user.home}/there", "back") == (0, "")
    assert tree(user.home / "there") == tree(user.home / "back") == tree(user.home / "tree")


def test_mode_is_kept_where_both_ends_can_tell_it(user: User, server: Server) -> None:
    (user.home / "run.sh").write_text("#!/bin/sh\n")
    (user.home / "run.sh").chmod(0o750)
    target = server.home / "run.sh"
    assert cp(user, server, "run.sh", f":{target}") == (0, "")
    assert target.stat().st_mode & 0o777 == 0o750
    assert cp(user, server, f":{target}", "back.sh") == (0, "")
    assert (user.home / "back.sh").stat().st_mode & 0o777 == 0o750


def test_executor_makes_no_setuid_file_here(user: User, server: Server) -> None:
    (server.home / "tool").write_text("#!/bin/sh\n")
    (server.home / "tool").chmod(0o6750)
    assert cp(user, server, f":{server.home / 'tool'}", "tool") == (0, "")
    assert (user.home / "tool").stat().st_mode & 0o7777 == 0o750


def test_nothing_else_is_left_beside_it(user: User, any_server: Server, there: Path) -> None:
    (user.home / "a").write_bytes(os.urandom(2 * MIB))
    assert cp(user, any_server, "a", f":{there}/a") == (0, "")
    assert cp(user, any_server, f":{there}/a", "b") == (0, "")
    assert [path.name for path in there.iterdir()] == ["a"]
    assert sorted(path.name for path in user.home.iterdir() if path.is_file()) == ["a", "b"]


def test_from_one_environment_to_another_by_name(user: User, server: Server, tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "other") as other:
        user.declare(
            f'[[environments]]\nid = "one"\nurl = "{server.url}"\n'
            f'[[environments]]\nid = "two"\nurl = "{other.url}"\n'
        )
        (server.home / "a").write_bytes(b"through here")
        done = user.run("cp", f"one:{server.home}/a", f"two:{other.home}/b")
        assert (done.returncode, done.stderr) == (0, b"")
        assert (other.home / "b").read_bytes() == b"through here"


def test_links_to_files_are_copied_as_files_and_others_told(user: User, server: Server) -> None:
    source = user.home / "tree"
    (source / "folder").mkdir(parents=True)
    (source / "file").write_text("x")
    (source / "link").symlink_to("file")
    (source / "around").symlink_to(".")
    (source / "nowhere").symlink_to("nonesuch")
    status, told = cp(user, server, "-r", "tree", f":{server.home}/copy")
    assert status == 1
    assert sorted(told.splitlines()) == [
        f"outfitter: {source}/around is a symbolic link to a directory: not copied",
        f"outfitter: {source}/nowhere is a broken symbolic link: not copied",
    ]
    assert tree(server.home / "copy") == {"file": b"x", "folder": None, "link": b"x"}


# What is refused


def test_file_is_not_replaced_without_force(user: User, any_server: Server, there: Path) -> None:
    (user.home / "a").write_text("new")
    (there / "a").write_text("old")
    status, told = cp(user, any_server, "a", f":{there}/a")
    assert (status, (there / "a").read_text()) == (1, "old")
    assert told.endswith("exists: add --force to replace it\n")
    assert cp(user, any_server, "-f", "a", f":{there}/a") == (0, "")
    assert (there / "a").read_text() == "new"


def test_what_is_no_file_is_not_replaced(user: User, any_server: Server, there: Path) -> None:
    (user.home / "a").write_bytes(b"new")
    for pipe, name in ((user.home / "pipe", "pipe"), (there / "pipe", f":{there / 'pipe'}")):
        os.mkfifo(pipe)
        status, told = cp(user, any_server, "--force", "a", name)
        assert (status, told.endswith("pipe is no file: it is not replaced\n")) == (1, True)
        assert pipe.is_fifo()


def test_folder_is_not_merged_without_force(user: User, server: Server) -> None:
    (user.home / "tree").mkdir()
    (user.home / "tree" / "new").write_text("n")
    (server.home / "tree").mkdir()
    (server.home / "tree" / "old").write_text("o")
    status, told = cp(user, server, "-r", "tree", f":{server.home}/")
    assert (status, "add --force to copy into it" in told) == (1, True)
    assert cp(user, server, "-rf", "tree", f":{server.home}/") == (0, "")
    assert tree(server.home / "tree") == {"new": b"n", "old": b"o"}


def test_mistakes_are_told(user: User, server: Server) -> None:
    (user.home / "folder").mkdir()
    (user.home / "file").write_text("x")
    cases = {
        ("nonesuch", f":{server.home}/x"): f"{user.home}/nonesuch does not exist",
        (f":{server.home}/nonesuch", "x"): "nonesuch does not exist",
        ("folder", f":{server.home}/x"): "is a directory: add --recursive to copy it",
        ("file", "mars:/x"): "no environment is named 'mars'",
        ("file", f"{server.url}:/x"): "is a URL: write --on URL for the server, and :PATH",
        ("/", f":{server.home}/"): "the root directory has no name to copy",
        ("-r", "", f":{server.home}/x"): "an empty text names no file",
        ("file", ""): "an empty text names no file",
    }
    for args, text in cases.items():
        status, told = cp(user, server, *args)
        assert (status, text in told) == (1, True), (args, told)
    done = user.run("cp", "file", ":/x")
    assert (done.returncode, b"add --on NAME or --on URL" in done.stderr) == (1, True)


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_executor_cannot_lead_out_of_what_is_copied_to(name: str) -> None:
    @with_a_peer()
    async def scenario(peer: Peer) -> None:
        listing = asyncio.ensure_future(There("build", peer.client).names("/srv/tree"))
        entry = {"fileName": name, "isDirectory": True, "isFile": False}
        peer.answer(await peer.request("fs/readDirectory"), {"entries": [entry]})
        with pytest.raises(RemoteProtocolError, match="which no directory can have"):
            await listing

    scenario()


def test_a_failure_names_the_destination_and_no_file_of_ours(user: User, server: Server) -> None:
    (user.home / "a").write_text("x")
    missing = f"{user.home}/nonesuch/b"
    for destination in (missing, f":{missing}"):
        code, said = cp(user, server, "a", destination)
        assert (code, said.startswith(f"outfitter: {missing}: No such file")) == (1, True), said


def test_a_failure_of_a_tree_names_its_destination(user: User, server: Server) -> None:
    (user.home / "tree").mkdir()
    for destination in ("/proc/tree", ":/proc/tree"):
        code, said = cp(user, server, "-r", "tree", destination)
        assert (code, said.startswith("outfitter: /proc/tree: ")) == (1, True), said


def test_file_with_a_colon_in_its_name_is_a_file(user: User, server: Server) -> None:
    (user.home / "a:b").write_text("x")
    assert cp(user, server, "a:b", f":{server.home}/c") == (0, "")
    assert (server.home / "c").read_text() == "x"


# Going on


def partials(folder: Path) -> list[Path]:
    return list(folder.glob(".*.partial"))


@pytest.mark.parametrize("direction", ["there", "back"])
def test_copy_that_was_killed_goes_on(direction: str, user: User, server: Server) -> None:
    size = 192 * MIB
    up = direction == "there"
    source, folder = (user.home, server.home) if up else (server.home, user.home)
    with (source / "big").open("wb") as file:
        for number in range(size // MIB):
            file.write(number.to_bytes(4, "big") * (MIB // 4))
    args = ("big", f":{server.home}/copy") if up else (f":{server.home}/big", "copy")
    running = user.start("cp", "--on", server.url, *args)
    wait_until(lambda: any(one.stat().st_size > 8 * MIB for one in partials(folder)), "some of it", SECONDS)
    running.send_signal(signal.SIGKILL)
    running.wait()
    [partial] = partials(folder)
    assert not (folder / "copy").exists()
    # A mark in what was copied shows that it is not copied again; the hash tells, as it must.
    with partial.open("r+b") as file:
        file.write(b"not what it was")
    status, told = cp(user, server, *args)
    assert (status, "changed on the way (wrong hash)" in told) == (1, True)
    assert partials(folder) == []
    assert cp(user, server, *args) == (0, "")
    assert (folder / "copy").read_bytes() == (source / "big").read_bytes()


def test_source_that_was_changed_is_copied_from_the_start(user: User, server: Server) -> None:
    (user.home / "a").write_bytes(b"1" * (2 * MIB))
    stale = server.home / ".copy.0123456789ab.partial"
    stale.write_bytes(b"x" * MIB)
    assert cp(user, server, "a", f":{server.home}/copy") == (0, "")
    assert (server.home / "copy").read_bytes() == b"1" * (2 * MIB)
    assert stale.read_bytes() == b"x" * MIB  # whose it is, is not known


def plant_large(folder: Path) -> None:
    """A tree with a few files that are quick to copy, and one that is not."""
    (folder / "sub").mkdir(parents=True)
    for name in ("a", "b", "sub/c"):
        (folder / name).write_bytes(name.encode() * 1000)
    with (folder / "sub" / "large").open("wb") as file:
        for number in range(96):
            file.write(number.to_bytes(4, "big") * (MIB // 4))


@pytest.mark.parametrize(
    ("number", "slash", "direction"),
    [(signal.SIGINT, "", "there"), (signal.SIGKILL, "/", "there"), (signal.SIGKILL, "", "back")],
)
def test_tree_whose_copy_was_ended_goes_on_in_the_same_place(
    number: signal.Signals, slash: str, direction: str, user: User, server: Server
) -> None:
    up = direction == "there"
    source, folder = (user.home, server.home / "w") if up else (server.home, user.home / "w")
    plant_large(source / "tree")
    target = folder / "tree"
    # By the name that it is to have, or into a folder.
    given = f"{folder}/" if slash else f"{target}"
    args = ("-r", "tree", f":{given}") if up else ("-r", f":{server.home}/tree", given)
    running = user.start("cp", "--on", server.url, *args)
    wait_until(
        lambda: any(one.stat().st_size > 8 * MIB for one in partials(target / "sub")), "some of it", SECONDS
    )
    running.send_signal(number)
    running.wait()
    assert not (target / "sub" / "large").exists()
    status, told = cp(user, server, *args)
    assert (status, told) == (0, "")
    assert tree(target) == tree(source / "tree")
    assert [one.name for one in folder.iterdir()] == ["tree"]  # no mark is left
    # Once it is whole, there is nothing to do, however often.
    for _ in range(2):
        assert cp(user, server, *args) == (0, "")
        assert tree(target) == tree(source / "tree")
        assert [one.name for one in folder.iterdir()] == ["tree"]


def test_tree_on_a_stock_server_goes_on_in_the_same_place(
    user: User, any_server: Server, there: Path
) -> None:
    plant_large(user.home / "tree")
    args = ("-r", "tree", f":{there}/copy")
    running = user.start("cp", "--on", any_server.url, *args)
    wait_until(lambda: (there / "copy" / "a").exists(), "some of it", SECONDS)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert cp(user, any_server, *args) == (0, "")
    assert tree(there / "copy") == tree(user.home / "tree")
    assert [one.name for one in there.iterdir()] == ["copy"]


def test_tree_that_goes_on_replaces_nothing_that_differs(user: User, server: Server) -> None:
    plant_large(user.home / "tree")
    args = ("-r", "tree", f":{server.home}/copy")
    running = user.start("cp", "--on", server.url, *args)
    copied = server.home / "copy"
    wait_until(lambda: partials(copied / "sub") and (copied / "a").exists(), "some of it", SECONDS)
    running.send_signal(signal.SIGKILL)
    running.wait()
    (copied / "a").write_bytes(b"of somebody else")
    status, told = cp(user, server, *args)
    assert (status, told.endswith(f"{copied}/a exists: add --force to replace it\n")) == (1, True)
    assert (copied / "a").read_bytes() == b"of somebody else"
    assert cp(user, server, "-f", *args) == (0, "")
    assert tree(copied) == tree(user.home / "tree")


def test_another_tree_does_not_go_on_where_one_has_begun(user: User, server: Server) -> None:
    plant_large(user.home / "tree")
    (user.home / "other").mkdir()
    (user.home / "other" / "x").write_text("x")
    running = user.start("cp", "--on", server.url, "-r", "tree", f":{server.home}/copy")
    wait_until(lambda: bool(partials(server.home / "copy" / "sub")), "some of it", SECONDS)
    running.send_signal(signal.SIGKILL)
    running.wait()
    status, told = cp(user, server, "-r", "other", f":{server.home}/copy")
    shown = f"{server.url}:{server.home}/copy"
    said = (
        f"outfitter: {shown} exists and is not the same: add --force to copy into it, or write {shown}/ for"
    )
    assert (status, told) == (1, f"{said} {shown}/other\n")
    assert cp(user, server, "-r", "other", f":{server.home}/copy/") == (0, "")
    assert tree(server.home / "copy" / "other") == {"x": b"x"}
    assert not (server.home / "copy" / "x").exists()


@pytest.mark.parametrize("given", ["tree", "copy", ".", "..", "", "w/..", "new/"])
def test_a_tree_that_is_copied_again_is_never_copied_into_itself(
    given: str, user: User, any_server: Server, there: Path
) -> None:
    source = there / "tree"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_text("x")
    (source / "empty").mkdir()
    where = user.home / "here"
    (where / "w").mkdir(parents=True)
    destination = f"{where}/{given}"
    for _ in range(3):
        assert cp(user, any_server, "-r", f":{source}", destination) == (0, "")
    at = Path(os.path.normpath(destination)) / ("" if given in ("tree", "copy") else "tree")
    assert tree(at) == {"empty": None, "sub": None, "sub/file": b"x"}
    # What differs needs a word, and is mended in the same place.
    (source / "sub" / "file").write_text("y")
    (source / "more").mkdir()
    status, told = cp(user, any_server, "-r", f":{source}", destination)
    assert (status, "exists and is not the same: add --force" in told) == (1, True)
    assert cp(user, any_server, "-rf", f":{source}", destination) == (0, "")
    assert tree(at) == {"empty": None, "more": None, "sub": None, "sub/file": b"y"}


@pytest.mark.parametrize("change", ["folder", "content", "kind"])
def test_a_tree_is_the_same_only_if_all_of_it_is(change: str, user: User, server: Server) -> None:
    (user.home / "tree" / "sub").mkdir(parents=True)
    (user.home / "tree" / "file").write_text("x")
    copy = server.home / "copy"
    assert cp(user, server, "-r", "tree", f":{copy}") == (0, "")
    if change == "folder":
        (copy / "sub").rmdir()
    else:
        (copy / "file").unlink()
        (copy / "file").mkdir() if change == "kind" else (copy / "file").write_text("y")
    before = tree(copy)
    status, told = cp(user, server, "-r", "tree", f":{copy}")
    assert (status, "exists and is not the same" in told, tree(copy)) == (1, True, before)


# What is shown


def test_progress_is_shown_on_a_terminal(user: User, server: Server, screen: Terminal) -> None:
    (user.home / "a").write_bytes(bytes(3 * MIB))
    running = screen.start(user, "cp", "--on", server.url, "a", f":{server.home}/a")
    status, shown = screen.rest(running)
    assert (status, b"100%" in shown, b"3.1 MB of 3.1 MB" in shown) == (0, True, True), shown
    (server.home / "a").unlink()
    screen.shown = b""
    quiet = screen.start(user, "cp", "-q", "--on", server.url, "a", f":{server.home}/a")
    assert screen.rest(quiet) == (0, b"")
