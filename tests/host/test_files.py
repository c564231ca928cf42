"""What is done to files: whole or not at all, never through a link that nobody asked to follow."""

from __future__ import annotations

import errno
import os
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outfitter.errors import FileFailed, Refused
from outfitter.host import files
from outfitter.host.portable import files as portable
from outfitter.record import replace
from tests.support.machine import SECOND, leave_socket, own_descriptors
from tests.support.tools import IN_CI

SOURCE = Path(files.__file__).resolve().parent.parent.parent
LARGE = 16 << 20
NOBODY = 65534


def read(path: Path | str, follow: bool = True) -> bytes:
    """All of a file, as a handle would read it."""
    fd, _ = files.open_read(str(path), follow)
    try:
        return files.read_block(fd, 0, LARGE + 1)
    finally:
        os.close(fd)


def write(path: Path | str, *pieces: bytes, follow: bool = True) -> None:
    files.write_file(str(path), pieces, follow)


def tree(root: Path) -> dict[str, str]:
    """Every name below, and what it is."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            what = f"{stat.S_IMODE(mode):o}"
            if stat.S_ISLNK(mode):
                what = f"-> {path.readlink()}"
            elif stat.S_ISREG(mode):
                what += f" {path.read_bytes()!r}"
            found[str(path.relative_to(root))] = what
    return found


def number_of(action: Callable[[], object]) -> str:
    """The name of the error with which the operating system refuses."""
    with pytest.raises(OSError) as caught:
        action()
    assert caught.value.errno is not None
    return errno.errorcode[caught.value.errno]


def needs_root() -> None:
    if os.geteuid() != 0:
        assert not IN_CI, "CI runs as root"
        pytest.skip("needs root: it mounts, or becomes somebody else")


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A folder with one of everything."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/inner").write_bytes(b"inner")
    (tmp_path / "to-file").symlink_to("file")
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    leave_socket(tmp_path / "socket")
    return tmp_path


@pytest.fixture(params=["nameless", "named"])
def temporaries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without O_TMPFILE, which not every file system has."""
    if request.param == "named":
        monkeypatch.setattr(files, "nameless", portable.nameless)


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that others than root can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


RUN = """
import errno, os, sys
sys.path.insert(0, sys.argv[1])
from outfitter.host import files, statx
os.setgroups([])
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[3]))
try:
    exec(sys.argv[2])
except OSError as error:
    print(errno.errorcode[error.errno])
else:
    print("done")
"""


def as_nobody(code: str) -> str:
    """What becomes of this when it is not root who does it: "done", or the name of the error."""
    needs_root()
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUN, str(SOURCE), code, str(NOBODY)],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.stdout.strip()


# Reading


def test_regular_file_is_read_and_told_what_it_is(places: Path) -> None:
    fd, found = files.open_read(str(places / "to-file"))
    assert (os.read(fd, 10), found.st_size) == (b"old", 3)
    assert not os.get_inheritable(fd)
    os.close(fd)


@pytest.mark.parametrize("name", ["folder", "to-folder", "fifo", "/dev/null", "/dev/zero"])
def test_what_is_no_regular_file_is_not_opened(places: Path, name: str) -> None:
    path = str(places / name)
    with pytest.raises(Refused, match=f"path `{path}` is not a file"):
        files.open_read(path)
    if not name.startswith("to-"):
        with pytest.raises(Refused, match="path is not a regular file"):
            files.open_read(path, follow=False)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("missing", "ENOENT"),
        ("dangling", "ENOENT"),
        ("loop", "ELOOP"),
        ("file/below", "ENOTDIR"),
        ("socket", "ENXIO"),
        ("n" * 256, "ENAMETOOLONG"),
    ],
)
def test_what_cannot_be_read_is_the_systems_error(places: Path, name: str, error: str) -> None:
    assert number_of(lambda: files.open_read(str(places / name))) == error


def test_file_of_proc_that_does_not_know_its_size_is_read_to_its_end() -> None:
    fd, found = files.open_read("/proc/self/status")
    assert found.st_size == 0
    whole = files.read_block(fd, 0, 1 << 20)
    assert whole.startswith(b"Name:") and whole.endswith(b"\n")
    assert files.read_block(fd, 5, 10) == whole[5:15]
    os.close(fd)


def test_block_beyond_the_end_is_short_until_the_file_has_grown(tmp_path: Path) -> None:
    path = tmp_path / "growing"
    path.write_bytes(b"12345")
    fd, _ = files.open_read(str(path))
    assert [files.read_block(fd, at, 4) for at in (0, 4, 5, 99)] == [b"1234", b"5", b"", b""]
    with path.open("ab") as growing:
        growing.write(b"6789")
    assert files.read_block(fd, 4, 4) == b"5678"
    os.close(fd)


def test_handle_keeps_the_file_that_it_was_opened_on(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    fd, _ = files.open_read(str(path))
    write(path, b"new")
    assert (files.read_block(fd, 0, 9), path.read_bytes()) == (b"old", b"new")
    os.close(fd)


def test_names_of_any_bytes_are_read_and_written(tmp_path: Path) -> None:
    for raw in (b"\xff\xfe", b"\xc3\xbc", b"a b%?#\\\n", b"n" * 255):
        path = os.fsdecode(os.fsencode(tmp_path) + b"/" + raw)
        write(path, raw)
        write(path, raw, b" again")
        assert read(path) == raw + b" again"
    assert len(os.listdir(tmp_path)) == 4


# Links on the way


NOT_FOLLOWED: dict[str, Callable[[str], object]] = {
    "open_read": lambda path: files.open_read(path, follow=False),
    "metadata": lambda path: files.metadata(path, follow=False),
    "write_file": lambda path: files.write_file(path, [b"x"], follow=False),
    "create_directory": lambda path: files.create_directory(path, recursive=True, follow=False),
    "create one directory": lambda path: files.create_directory(path, recursive=False, follow=False),
    "remove": lambda path: files.remove(path, recursive=True, force=True, follow=False),
    "remove one": lambda path: files.remove(path, recursive=False, force=False, follow=False),
}


@pytest.mark.parametrize("operation", NOT_FOLLOWED)
@pytest.mark.parametrize("below", ["inner", "new", "new/er"])
def test_link_in_the_middle_is_not_followed(places: Path, operation: str, below: str) -> None:
    before = tree(places)
    assert number_of(lambda: NOT_FOLLOWED[operation](f"{places}/to-folder/{below}")) == "ENOTDIR"
    assert tree(places) == before


@pytest.mark.parametrize("operation", NOT_FOLLOWED)
@pytest.mark.parametrize("name", ["to-file", "to-folder", "dangling", "loop"])
def test_link_at_the_end_is_not_followed(places: Path, operation: str, name: str) -> None:
    before = tree(places)
    with pytest.raises((OSError, Refused)) as caught:
        NOT_FOLLOWED[operation](f"{places}/{name}")
    told = caught.value
    if operation in ("open_read", "write_file"):
        assert isinstance(told, OSError) and told.errno == errno.ELOOP
    elif operation == "create_directory":
        assert isinstance(told, OSError) and told.errno == errno.ENOTDIR
    elif operation == "create one directory":
        assert isinstance(told, OSError) and told.errno == errno.EEXIST
    else:
        assert str(told) == "path contains a symbolic link"
    assert tree(places) == before


def test_everything_works_without_following_where_there_is_no_link(tmp_path: Path) -> None:
    root = f"{tmp_path.resolve()}/made"
    files.create_directory(f"{root}/a/b", recursive=True, follow=False)
    files.create_directory(f"{root}/a/b", recursive=True, follow=False)
    files.create_directory(f"{root}/c", recursive=False, follow=False)
    write(f"{root}/a/b/file", b"one", follow=False)
    write(f"{root}/a/b/file", b"two", follow=False)
    assert read(f"{root}/a/b/file", follow=False) == b"two"
    assert files.metadata(f"{root}/a/b/file", follow=False).size == 3
    files.remove(f"{root}/a/b/file", recursive=False, force=False, follow=False)
    files.remove(root, recursive=True, force=False, follow=False)
    assert os.listdir(tmp_path) == []
    files.remove(root, recursive=True, force=True, follow=False)
    assert number_of(lambda: files.remove(root, True, False, follow=False)) == "ENOENT"


# What a name is


def test_metadata_tells_of_the_target_and_that_there_is_a_link(places: Path) -> None:
    os.utime(places / "file", ns=(0, 1_600_000_000_123_456_789))
    own, by_link = (files.metadata(str(places / name)) for name in ("file", "to-file"))
    assert (own.is_file, own.is_directory, own.is_symlink, own.size) == (True, False, False, 3)
    assert own.modified_ms == 1_600_000_000_123
    assert by_link.is_symlink
    by_link = replace(by_link, is_symlink=False)
    assert by_link == own


def test_birth_is_told_whether_links_are_followed_or_not(places: Path) -> None:
    path = str(places.resolve() / "file")
    born = files.metadata(path).created_ms
    assert born == files.metadata(path, follow=False).created_ms
    assert abs(born - (places / "fifo").stat().st_ctime * 1000) < 60_000 * SECOND


def test_metadata_of_special_files_is_neither(places: Path) -> None:
    for path in (places / "fifo", places / "socket", Path("/dev/null")):
        found = files.metadata(str(path))
        assert (found.is_file, found.is_directory) == (False, False)


def test_listing_is_sorted_and_shows_what_links_lead_to(places: Path) -> None:
    (places / "thru").symlink_to("file/x")
    (places / "to-null").symlink_to("/dev/null")
    others = [
        ("fifo", False, False),
        ("folder", True, False),
        ("socket", False, False),
        ("to-file", False, True),
        ("to-folder", True, False),
        ("to-null", False, False),
    ]
    assert files.scan_directory(str(places)) == (["file"], others)
    assert number_of(lambda: files.scan_directory(str(places / "file"))) == "ENOTDIR"


def test_details_are_those_of_each_entry_and_of_what_links_lead_to(places: Path) -> None:
    for path in list(places.iterdir()):
        if path.name not in ("file", "folder", "fifo"):
            path.unlink()
    (places / "file").write_bytes(b"12345")
    (places / "file").chmod(0o640)
    os.utime(places / "file", ns=(0, 1_700_000_000_123_456_789))
    (places / "dangling").symlink_to("nowhere")
    (places / "loop").symlink_to("loop")
    (places / "thru").symlink_to("file/x")
    (places / "link").symlink_to("./file")
    (places / "up").symlink_to("folder")
    found = {name: rest for name, *rest in files.describe_directory(str(places))}
    assert list(found) == ["dangling", "fifo", "file", "folder", "link", "loop", "thru", "up"]
    told = [5, 1_700_000_000_123, 0o640]
    assert found["file"] == [False, True, False, *told, None]
    assert found["link"] == [False, True, True, *told, "./file"]
    for name, target in (("dangling", "nowhere"), ("loop", "loop"), ("thru", "file/x")):
        own = (places / name).lstat()
        assert found[name] == [False, False, True, len(target), own.st_mtime_ns // 1_000_000, 0o777, target]
    assert (found["folder"][:3], found["up"][:3]) == ([True, False, False], [True, False, True])
    assert (found["fifo"][:3], found["up"][-1]) == ([False, False, False], "folder")
    assert number_of(lambda: files.describe_directory(str(places / "file"))) == "ENOTDIR"


def test_listing_above_the_limit_says_how_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_LISTED", 5)
    for number in range(5):
        (tmp_path / str(number)).touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    assert files.scan_directory(str(tmp_path)) == (["0", "1", "2", "3", "4"], [])
    (tmp_path / "link").symlink_to("0")
    (tmp_path / "more").touch()
    with pytest.raises(FileFailed, match=r"^fs/readDirectory returned 7 entries; limit is 5$"):
        files.scan_directory(str(tmp_path))
    with pytest.raises(FileFailed, match=r"^fs/readDirectory returned 8 entries; limit is 5$"):
        files.describe_directory(str(tmp_path))


def test_canonical_path_has_no_links_and_must_exist(places: Path) -> None:
    assert files.canonicalize(f"{places}/to-folder/inner") == f"{places.resolve()}/folder/inner"
    (places / "dot").symlink_to("file/.")
    (places / "slash").symlink_to("file/")
    (places / "up").symlink_to("file/../folder")
    missing = (("dangling", "ENOENT"), ("loop", "ELOOP"))
    for name, error in (*missing, *((name, "ENOTDIR") for name in ("file/x", "dot", "slash", "up"))):
        assert number_of(lambda name=name: files.canonicalize(f"{places}/{name}")) == error


def test_refusal_of_the_system_has_the_references_words_and_a_name() -> None:
    told = files.failed(OSError(errno.ELOOP, "whatever"))
    assert (str(told), told.errno_name) == ("Symbolic link loop (os error 40)", "ELOOP")
    told = files.failed(OSError("without a number"))
    assert (str(told), told.errno_name) == ("I/O error (os error 5)", "EIO")


# Writing


@pytest.mark.usefixtures("temporaries")
class TestWriting:
    def test_content_is_replaced_and_nothing_else_is_left(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        write(path, b"one")
        write(path, b"two ", b"", b"three")
        assert tree(tmp_path) == {"file": "644 b'two three'"}
        write(path)
        assert tree(tmp_path) == {"file": "644 b''"}

    def test_new_file_gets_its_mode_from_the_umask(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            write(tmp_path / "file", b"x")
        finally:
            os.umask(before)
        assert tree(tmp_path) == {"file": "640 b'x'"}

    def test_mode_owner_and_attributes_stay(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        path.chmod(0o2751)
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
            path.chmod(0o6751)  # taken away by the change of owner
        try:
            os.setxattr(path, "user.colour", b"blue")
        except OSError:
            pytest.skip("this file system has no extended attributes")
        before = path.stat()
        write(path, b"new")
        after = path.stat()
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        assert after.st_ino != before.st_ino
        assert os.getxattr(path, "user.colour") == b"blue"

    def test_file_with_other_names_keeps_them(self, tmp_path: Path) -> None:
        (tmp_path / "one").write_bytes(b"old and long")
        (tmp_path / "two").hardlink_to(tmp_path / "one")
        write(tmp_path / "two", b"new")
        assert tree(tmp_path) == {"one": "644 b'new'", "two": "644 b'new'"}
        assert (tmp_path / "one").samefile(tmp_path / "two")

    def test_links_stay_and_what_they_lead_to_is_replaced_or_made(self, places: Path) -> None:
        (places / "to-link").symlink_to("to-file")
        (places / "deep").symlink_to("folder/new")
        for name in ("to-link", "dangling", "deep"):
            write(places / name, name.encode())
        found = tree(places)
        assert {name: found[name] for name in ("to-link", "to-file", "dangling", "deep")} == {
            "to-link": "-> to-file",
            "to-file": "-> file",
            "dangling": "-> nowhere",
            "deep": "-> folder/new",
        }
        assert {name: found[name] for name in ("file", "nowhere", "folder/new")} == {
            "file": "644 b'to-link'",
            "nowhere": "644 b'dangling'",
            "folder/new": "644 b'deep'",
        }

    def test_what_cannot_be_written_stays_as_it_was(self, places: Path) -> None:
        before = tree(places)
        for name, error in (
            ("folder", "EISDIR"),
            ("to-folder", "EISDIR"),
            ("missing/file", "ENOENT"),
            ("file/below", "ENOTDIR"),
            ("loop", "ELOOP"),
            ("fifo", "ENXIO"),
            ("socket", "ENXIO"),
            ("n" * 256, "ENAMETOOLONG"),
            ("", "EISDIR"),
        ):
            assert (name, number_of(lambda name=name: write(f"{places}/{name}", b"x"))) == (name, error)
        assert tree(places) == before

    def test_names_of_every_length_have_room_for_a_temporary(self, tmp_path: Path) -> None:
        for name in ("n", "n" * 199, "n" * 200, "n" * 201, "n" * 255, "é" * 127 + "n"):
            write(tmp_path / name, b"old")
        for path in list(tmp_path.iterdir()):
            write(path, b"new")
        assert sorted(tree(tmp_path).values()) == ["644 b'new'"] * 6

    def test_nothing_happens_without_a_commit(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        with files.Replacement(str(path)) as replacement:
            replacement.write(b"half")
            assert path.read_bytes() == b"old"
        with files.Replacement(str(tmp_path / "new")) as replacement:
            replacement.write(b"half")
        assert tree(tmp_path) == {"file": "644 b'old'"}

    def test_blocks_go_where_they_are_told_and_gaps_are_zeros(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"an old content that is longer")
        with files.Replacement(str(path)) as replacement:
            for data, offset in ((b"6789", 6), (b"01", 0), (b"X", 7)):
                replacement.write_at(data, offset)
            replacement.commit()
        assert path.read_bytes() == b"01\0\0\0\x006X89"

    def test_two_replacements_at_once_end_with_the_last_committed(self, tmp_path: Path) -> None:
        path = str(tmp_path / "file")
        with files.Replacement(path) as one, files.Replacement(path) as two:
            one.write(b"one")
            two.write(b"two")
            two.commit()
            one.commit()
        assert tree(tmp_path) == {"file": "644 b'one'"}

    def test_readers_see_the_old_content_or_the_new_and_nothing_between(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"0" * 300_000)
        seen: set[bytes] = set()
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                content = path.read_bytes()
                seen.add(content[:1] if content == content[:1] * 300_000 else content[:50])

        readers = [threading.Thread(target=look) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(1, 200):
            write(path, b"%d" % (number % 10) * 150_000, b"%d" % (number % 10) * 150_000)
        over.set()
        for reader in readers:
            reader.join()
        assert seen <= {b"%d" % number for number in range(10)}
        assert len(seen) > 1

    def test_concurrent_writers_leave_the_content_of_one_of_them(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        contents = {bytes((letter,)) * 200_000 for letter in b"abcdefgh"}
        bad: list[bytes] = []
        together = threading.Barrier(len(contents))

        def keep_writing(content: bytes) -> None:
            together.wait()
            for _ in range(12):
                write(path, content)
                there = path.read_bytes()
                if there not in contents:
                    bad.append(there[:50])

        writers = [threading.Thread(target=keep_writing, args=(content,)) for content in contents]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert not bad
        assert path.read_bytes() in contents
        assert os.listdir(tmp_path) == ["file"]


def test_no_descriptor_is_left_open_however_it_ends(places: Path) -> None:
    def attempt(name: str) -> None:
        try:
            write(places / name, b"x")
        except (OSError, Refused):
            pass

    before = len(own_descriptors())
    for name in ("file", "new", "to-file", "folder", "fifo", "loop", "missing/x", "dangling"):
        attempt(name)
    for name in ("file", "to-folder", "loop", "missing/x", "folder"):
        for operation in NOT_FOLLOWED.values():
            try:
                result = operation(f"{places}/{name}")
                if isinstance(result, tuple):
                    os.close(result[0])
            except (OSError, Refused):
                pass
    assert len(own_descriptors()) == before


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("missing/../new", "ENOENT"),
        ("new/.", "ENOENT"),
        ("missing/new", "ENOENT"),
        ("new/", "EISDIR"),
        ("folder/new/", "EISDIR"),
        ("to-slash", "EISDIR"),
    ],
)
@pytest.mark.parametrize("operation", ["write", "copy"])
def test_link_that_the_kernel_follows_nowhere_makes_no_file(
    places: Path, target: str, error: str, operation: str
) -> None:
    (places / "to-slash").symlink_to("new/")
    (places / "link").symlink_to(target)
    before = tree(places)
    with pytest.raises(OSError) as expected:
        os.open(places / "link", os.O_WRONLY | os.O_CREAT, 0o666)
    assert errno.errorcode[expected.value.errno or 0] == error

    def make() -> None:
        if operation == "write":
            write(f"{places}/link", b"new")
        else:
            files.copy(f"{places}/file", f"{places}/link", recursive=False)

    assert number_of(make) == error
    assert tree(places) == before


@pytest.mark.parametrize("target", ["new", "./new", "folder/../new", "to-folder/../new", "dangling-too"])
def test_link_to_what_is_not_there_yet_makes_it(places: Path, target: str) -> None:
    (places / "dangling-too").symlink_to("new")
    (places / "link").symlink_to(target)
    write(f"{places}/link", b"made")
    assert (places / "new").read_bytes() == b"made"
    assert os.readlink(places / "link") == target


def test_fifo_gets_everything_that_its_reader_takes(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    data = bytes(range(256)) * 2000  # far more than a pipe holds
    taken: list[bytes] = []
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)

    def take() -> None:
        comes = select.poll()
        comes.register(reading, select.POLLIN)
        comes.poll()  # without a writer it would be at its end
        with open(reading, "rb") as stream:
            taken.append(stream.read())

    reader = threading.Thread(target=take)
    reader.start()
    write(fifo, data)
    reader.join()
    assert taken == [data]


def test_reader_of_a_fifo_that_leaves_is_an_error(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    leaving = threading.Timer(0.05 * SECOND, os.close, [reading])
    leaving.start()
    assert number_of(lambda: write(fifo, bytes(1 << 20))) == "EPIPE"
    leaving.join()


def test_reader_of_a_fifo_that_takes_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(files, "_TAKER_SECONDS", 0.01)
    assert number_of(lambda: write(fifo, bytes(1 << 20))) == "EAGAIN"
    os.close(reading)


def test_limits_are_the_documented_ones() -> None:
    assert (files.MAX_READ, files.MAX_LISTED, files._TAKER_SECONDS) == (512 << 20, 50_000, 30.0)


def test_device_is_written_and_stays_what_it_is() -> None:
    before = os.stat("/dev/null")
    write("/dev/null", b"x")
    files.copy(__file__, "/dev/null", recursive=False)
    after = os.stat("/dev/null")
    assert (after.st_mode, after.st_uid, after.st_rdev) == (before.st_mode, before.st_uid, before.st_rdev)
    assert number_of(lambda: write("/dev/full", b"x")) == "ENOSPC"


def test_name_that_only_the_kernel_can_follow_does_not_mean_the_file_that_it_shows(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "file (deleted)"
    other.write_bytes(b"other")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        path.unlink()
        if not os.path.exists(f"/proc/self/fd/{fd}"):
            pytest.skip("descriptors have no such names here")
        write(f"/proc/self/fd/{fd}", b"new")
        assert (os.pread(fd, 9, 0), other.read_bytes()) == (b"new", b"other")
    finally:
        os.close(fd)


@pytest.mark.parametrize("old", [True, False])
def test_file_of_another_mount_namespace_is_written_there(tmp_path: Path, old: bool) -> None:
    needs_root()
    here = tmp_path / "file"
    here.write_bytes(b"here")
    made = f"touch '{here}'; " if old else ""
    script = f"mount -t tmpfs none '{tmp_path}' && {made}echo ready && read -r line"
    with subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as inside:
        assert inside.stdin is not None and inside.stdout is not None
        if not inside.stdout.readline():
            pytest.skip("this root may not mount")
        there = f"/proc/{inside.pid}/root{here.resolve()}"
        write(there, b"there")
        assert (read(there), here.read_bytes()) == (b"there", b"here")
        inside.stdin.close()


def test_name_that_only_the_kernel_can_follow_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("w+b") as opened:
        path.unlink()
        write(f"/proc/self/fd/{opened.fileno()}", b"to the nameless")
        assert opened.read() == b"to the nameless"
    reading, writing = os.pipe()
    write(f"/proc/self/fd/{writing}", b"to the pipe")
    assert os.read(reading, 99) == b"to the pipe"
    os.close(reading)
    os.close(writing)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["fifo", "socket", "/dev/null", "folder"])
def test_replacement_may_be_asked_to_take_regular_files_only(places: Path, name: str) -> None:
    with pytest.raises((OSError, Refused)) as caught:
        files.Replacement(str(places / name), special=False)
    assert (
        str(caught.value)
        == {
            "fifo": "[Errno 6] No such device or address: 'fifo'",
            "socket": "[Errno 6] No such device or address: 'socket'",
            "/dev/null": "path `/dev/null` is not a file",
            "folder": "[Errno 21] Is a directory",
        }[name]
    )


# Writing what is not ours to replace


def test_file_that_may_be_written_in_a_folder_that_may_not(everybodys: Path) -> None:
    needs_root()
    path = everybodys / "file"
    path.write_bytes(b"old and longer")
    path.chmod(0o666)
    before = path.stat()
    assert as_nobody(f"files.write_file({str(path)!r}, [b'new'])") == "done"
    after = path.stat()
    assert (path.read_bytes(), after.st_ino, after.st_uid) == (b"new", before.st_ino, before.st_uid)
    assert as_nobody(f"files.write_file({str(everybodys / 'new')!r}, [b'new'])") == "EACCES"
    assert os.listdir(everybodys) == ["file"]


def test_file_of_somebody_else_keeps_its_owner(everybodys: Path) -> None:
    needs_root()
    everybodys.chmod(0o1777)  # as /tmp: a new file could be made, but not take the place of the old
    path = everybodys / "file"
    path.write_bytes(b"old")
    path.chmod(0o666)
    assert as_nobody(f"files.write_file({str(path)!r}, [b'new'])") == "done"
    assert (path.read_bytes(), path.stat().st_uid) == (b"new", 0)
    assert os.listdir(everybodys) == ["file"]


def test_file_that_may_not_be_written_is_not_replaced_either(everybodys: Path) -> None:
    needs_root()
    everybodys.chmod(0o777)
    path = everybodys / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    assert as_nobody(f"files.write_file({str(path)!r}, [b'new'])") == "EACCES"
    assert tree(everybodys) == {"file": "444 b'old'"}
    os.chown(path, NOBODY, NOBODY)
    assert as_nobody(f"files.write_file({str(path)!r}, [b'new'])") == "EACCES"
    assert as_nobody(f"files.write_file({str(everybodys / 'new')!r}, [b'new'])") == "done"
    assert tree(everybodys) == {"file": "444 b'old'", "new": "644 b'new'"}


def test_what_may_not_be_reached_is_refused(everybodys: Path) -> None:
    needs_root()
    secret = everybodys / "secret"
    secret.mkdir(0o700)
    (secret / "file").write_bytes(b"secret")
    for code in (
        f"files.open_read({str(secret / 'file')!r})",
        f"files.open_read({str(secret / 'file')!r}, False)",
        f"files.metadata({str(secret / 'file')!r})",
        f"files.scan_directory({str(secret)!r})",
        f"files.write_file({str(secret / 'file')!r}, [b'x'])",
        f"files.remove({str(secret)!r}, True, True)",
        f"files.remove({str(secret / 'file')!r}, True, True)",
        f"files.copy({str(secret / 'file')!r}, '/tmp/never', False)",
        f"files.create_directory({str(secret / 'x')!r}, True)",
    ):
        assert (code, as_nobody(code)) == (code, "EACCES")
    assert tree(everybodys) == {"secret": "700", "secret/file": "644 b'secret'"}


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A file that is a mount, as /etc/hosts is in a container."""
    needs_root()
    (tmp_path / "elsewhere").write_bytes(b"old and longer")
    (tmp_path / "here").touch()
    done = subprocess.run(["mount", "--bind", tmp_path / "elsewhere", tmp_path / "here"], check=False)
    if done.returncode != 0:
        pytest.skip("this root may not mount")
    yield tmp_path / "here"
    subprocess.run(["umount", tmp_path / "here"], check=True)


@pytest.mark.usefixtures("temporaries")
def test_file_that_is_a_mount_is_filled_in_place(mounted: Path) -> None:
    write(mounted, b"new")
    elsewhere = mounted.with_name("elsewhere")
    assert (mounted.read_bytes(), elsewhere.read_bytes()) == (b"new", b"new")
    with files.Replacement(str(mounted)) as replacement:
        replacement.write_at(b"x" * 10, 0)
        assert elsewhere.read_bytes() == b"new"
        replacement.commit()
    assert elsewhere.read_bytes() == b"x" * 10
    assert sorted(os.listdir(mounted.parent)) == ["elsewhere", "here"]


def test_name_that_cannot_be_given_to_another_file_is_filled_and_no_descriptor_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    path = tmp_path / "file"
    path.write_bytes(b"old and longer")
    identity, before = path.stat().st_ino, len(own_descriptors())
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", busy)
        write(path, b"new")
    assert (path.read_bytes(), path.stat().st_ino) == (b"new", identity)
    assert os.listdir(tmp_path) == ["file"]
    assert len(own_descriptors()) == before


def test_file_that_is_written_as_it_is_leaves_no_descriptor(places: Path) -> None:
    before = len(own_descriptors())
    update = files.Update(str(places / "file"))
    update.write_at(b"X", 1)
    update.commit()
    update.discard()
    with pytest.raises(Refused):
        files.Update("/dev/null")
    assert len(own_descriptors()) == before


# Full disks and sudden deaths


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    needs_root()
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False)
    if done.returncode != 0:
        pytest.skip("this root may not mount")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.usefixtures("temporaries")
def test_full_disk_leaves_the_old_content_and_nothing_else(small_disk: Path) -> None:
    # Row 41.
    path = small_disk / "file"
    path.write_bytes(b"old" * 100_000)
    assert number_of(lambda: write(path, bytes(400_000), bytes(400_000))) == "ENOSPC"
    assert number_of(lambda: write(small_disk / "new", bytes(2 << 20))) == "ENOSPC"
    (small_disk.parent / "source").write_bytes(bytes(1 << 20))
    assert number_of(lambda: files.copy(f"{small_disk.parent}/source", str(path), False)) == "ENOSPC"
    assert path.read_bytes() == b"old" * 100_000
    assert os.listdir(small_disk) == ["file"]
    write(path, b"fits")
    assert path.read_bytes() == b"fits"


@pytest.mark.usefixtures("temporaries")
def test_full_disk_while_blocks_are_written_leaves_the_old_content(small_disk: Path) -> None:
    path = small_disk / "file"
    path.write_bytes(b"old")
    with files.Replacement(str(path)) as replacement:
        replacement.write_at(bytes(500_000), 0)
        assert number_of(lambda: replacement.write_at(bytes(1 << 20), 500_000)) == "ENOSPC"
    assert path.read_bytes() == b"old"
    assert os.listdir(small_disk) == ["file"]


HALF = """
import sys
sys.path.insert(0, sys.argv[1])
from outfitter.host import files
replacement = files.Replacement(sys.argv[2])
replacement.write(bytes(8 << 20))
print("half", flush=True)
sys.stdin.read()
"""


def test_block_that_could_not_be_written_keeps_the_old_content_until_it_is_written(small_disk: Path) -> None:
    path, ballast = small_disk / "file", small_disk / "ballast"
    path.write_bytes(b"old")
    half = b"x" * (512 << 10)
    ballast.write_bytes(b"x" * (256 << 10))
    with files.Replacement(str(path)) as replacement:
        replacement.write_at(half, 0)
        assert number_of(lambda: replacement.write_at(half, len(half))) == "ENOSPC"
        assert number_of(replacement.commit) == "ENOSPC"
        assert path.read_bytes() == b"old"
        ballast.unlink()
        replacement.write_at(half[:-8192], len(half))
        replacement.commit()
    assert path.read_bytes() == half + half[:-8192]


def test_hopeless_replacement_remembers_no_more_than_it_has_to(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes, offset: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "write_at", full)
    path = places / "file"
    with files.Replacement(str(path)) as replacement:
        for offset in range(1000):
            assert number_of(lambda offset=offset: replacement.write_at(b"x", offset)) == "ENOSPC"
        assert len(replacement._missing) <= files._MOST_MISSING + 1
        assert number_of(replacement.commit) == "ENOSPC"
    assert path.read_bytes() == b"old"


def test_block_that_no_file_can_have_leaves_the_others_alone(places: Path) -> None:
    path = places / "file"
    with files.Replacement(str(path)) as replacement:
        replacement.write_at(b"new", 0)
        assert number_of(lambda: replacement.write_at(b"x", -2)) == "EINVAL"
        replacement.commit()
    assert path.read_bytes() == b"new"


def test_writer_that_is_killed_half_way_leaves_the_old_content_and_no_other_name(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with child(HALF, path) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.kill()
    assert tree(tmp_path) == {"file": "644 b'old'"}


AGAIN_AND_AGAIN = f"""
import sys
sys.path.insert(0, sys.argv[1])
from outfitter.host import files
for number in range(1000):
    files.write_file(sys.argv[2], [b"%d" % (number % 10) * {LARGE}])
    print("written", flush=True)
"""


def test_writer_that_is_killed_at_any_time_leaves_one_whole_content_and_at_most_one_temporary(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"9" * LARGE)
    for written in range(4):
        with child(AGAIN_AND_AGAIN, path) as writer:
            assert writer.stdout is not None
            for _ in range(written):
                writer.stdout.readline()
            writer.kill()
        content = path.read_bytes()
        assert content == content[:1] * LARGE
        strays = [name for name in os.listdir(tmp_path) if name != "file"]
        assert len(strays) <= 1
        assert all(name.startswith(".file.outfitter-") for name in strays)
        for name in strays:
            (tmp_path / name).unlink()


def child(code: str, path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-c", code, str(SOURCE), str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


# Folders


def test_folders_are_made_with_their_parents_and_may_exist(places: Path) -> None:
    files.create_directory(f"{places}/a/b/c", recursive=True)
    files.create_directory(f"{places}/a/b/c", recursive=True)
    files.create_directory(f"{places}/to-folder/d", recursive=True)
    files.create_directory(f"{places}/to-folder", recursive=True)
    assert (places / "a/b/c").is_dir()
    assert (places / "folder/d").is_dir()
    files.create_directory(f"{places}/e", recursive=False)
    for name, recursive, error in (
        ("e", False, "EEXIST"),
        ("x/y", False, "ENOENT"),
        ("file", True, "EEXIST"),
        ("file/x", True, "ENOTDIR"),
        ("dangling", True, "EEXIST"),
        ("dangling/x", True, "EEXIST"),
        ("loop/x", True, "ELOOP"),
    ):
        made = number_of(
            lambda name=name, recursive=recursive: files.create_directory(f"{places}/{name}", recursive)
        )
        assert (name, made) == (name, error)
    assert number_of(lambda: files.create_directory("/", recursive=False)) == "EEXIST"
    files.create_directory("/", recursive=True)
    files.create_directory("/", recursive=True, follow=False)


def test_folder_that_cannot_be_made_where_everything_else_exists_is_no_endless_loop() -> None:
    assert number_of(lambda: files.create_directory("/proc/none", recursive=True)) == "ENOENT"
    assert number_of(lambda: files.create_directory("/proc/none/x", recursive=True)) == "ENOENT"


@pytest.mark.parametrize("follow", [True, False])
def test_folders_are_made_as_deep_as_a_path_can_be(tmp_path: Path, follow: bool) -> None:
    deep = f"{tmp_path.resolve()}" + "/d" * 1800
    files.create_directory(deep, recursive=True, follow=follow)
    assert Path(deep).is_dir()
    files.remove(f"{tmp_path}/d", recursive=True, force=False)


def test_folders_made_by_many_at_once_are_there_for_all(tmp_path: Path) -> None:
    together = threading.Barrier(6)
    failures: list[OSError] = []

    def make() -> None:
        for number in range(40):
            together.wait()
            try:
                files.create_directory(f"{tmp_path}/{number}/a/b/c", recursive=True)
            except OSError as error:
                failures.append(error)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# Removing


def test_names_are_removed_and_what_links_lead_to_stays(places: Path) -> None:
    (places / "folder/to-file").symlink_to("../file")
    (places / "folder/up").symlink_to("..")
    for name in ("to-file", "to-folder", "dangling", "loop", "fifo", "socket", "folder"):
        files.remove(f"{places}/{name}", recursive=True, force=False)
    assert tree(places) == {"file": "644 b'old'"}


@pytest.mark.parametrize("recursive", [True, False])
def test_force_is_about_what_is_not_there_and_nothing_else(places: Path, recursive: bool) -> None:
    before = tree(places)
    for name in ("missing", "missing/x", "dangling/x"):
        files.remove(f"{places}/{name}", recursive, force=True)
        assert number_of(lambda name=name: files.remove(f"{places}/{name}", recursive, False)) == "ENOENT"
    for name, error in (("file/x", "ENOTDIR"), ("loop/x", "ELOOP")):
        assert number_of(lambda name=name: files.remove(f"{places}/{name}", recursive, True)) == error
    if not recursive:
        assert number_of(lambda: files.remove(f"{places}/folder", False, True)) == "ENOTEMPTY"
    assert tree(places) == before


def test_the_root_is_not_emptied_before_it_is_found_that_it_cannot_go() -> None:
    for path in ("/", "//"):
        for follow in (True, False):
            assert (
                number_of(lambda path=path, follow=follow: files.remove(path, True, True, follow)) == "EBUSY"
            )


def test_tree_of_any_depth_is_removed_with_few_descriptors(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "deep")
    fd = os.open(tmp_path / "deep", os.O_RDONLY)
    for level in range(5000):
        os.mkdir("d", dir_fd=fd)
        if level % 100 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
            os.mkdir("z", dir_fd=fd)
            os.symlink("..", "link", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(128, hard), hard))
    try:
        files.remove(f"{tmp_path}/deep", recursive=True, force=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.listdir(tmp_path) == []


def test_wide_tree_is_removed(tmp_path: Path) -> None:
    for outer in range(30):
        for inner in range(30):
            (tmp_path / f"wide/{outer}/{inner}").mkdir(parents=True)
            (tmp_path / f"wide/{outer}/{inner}/file").touch()
    files.remove(f"{tmp_path}/wide", recursive=True, force=False)
    assert os.listdir(tmp_path) == []


def test_link_swapped_in_during_removal_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "a").mkdir(parents=True)
    (outside / "a/precious").write_bytes(b"precious")
    current: list[Path] = []
    over = threading.Event()
    swaps = 0

    def swap() -> None:
        # The same name is by turns a folder that is being removed and a link to another of its shape.
        nonlocal swaps
        while not over.is_set():
            try:
                root = current[-1]
                os.rename(root / "x", root / "away")
                os.symlink(outside, root / "x")
                os.unlink(root / "x")
                os.rename(root / "away", root / "x")
                swaps += 1
            except (OSError, IndexError):
                pass  # it is not there yet, or not any more

    roots = [tmp_path / f"root-{number}" for number in range(100)]
    for root in roots:
        (root / "x/a/b").mkdir(parents=True)
        for name in range(10):
            (root / f"x/a/{name}").touch()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that the two really take turns
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number, root in enumerate(roots):
            current.append(root)
            try:
                files.remove(str(root), recursive=True, force=True, follow=bool(number % 2))
            except OSError:
                pass  # the tree changed under our hands
    finally:
        over.set()
        swapper.join()
        sys.setswitchinterval(before)
    assert swaps > 0
    assert tree(outside) == {"a": "755", "a/precious": "644 b'precious'"}


def test_two_who_remove_the_same_tree_are_both_content(tmp_path: Path) -> None:
    failures: list[OSError] = []
    together = threading.Barrier(3)

    def take_away() -> None:
        for number in range(20):
            together.wait()
            try:
                files.remove(f"{tmp_path}/{number}", recursive=True, force=True)
            except OSError as error:
                failures.append(error)

    for number in range(20):
        for inner in range(20):
            (tmp_path / f"{number}/{inner}/deep").mkdir(parents=True)
            (tmp_path / f"{number}/{inner}/deep/file").touch()
    threads = [threading.Thread(target=take_away) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert os.listdir(tmp_path) == []


# Copying


def test_copy_has_content_and_mode_and_the_old_one_is_replaced(places: Path) -> None:
    (places / "file").chmod(0o4751)
    files.copy(f"{places}/file", f"{places}/new", recursive=False)
    (places / "old").write_bytes(b"older and longer")
    files.copy(f"{places}/file", f"{places}/old", recursive=True)
    files.copy(f"{places}/file", f"{places}/dangling", recursive=False)
    found = tree(places)
    assert [found[name] for name in ("new", "old", "nowhere")] == ["4751 b'old'"] * 3


def test_copy_of_a_large_file_and_of_one_without_a_size(tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * 5
    (tmp_path / "large").write_bytes(data)
    files.copy(f"{tmp_path}/large", f"{tmp_path}/copy", recursive=False)
    assert (tmp_path / "copy").read_bytes() == data
    files.copy("/proc/self/cmdline", f"{tmp_path}/proc", recursive=False)
    assert (tmp_path / "proc").read_bytes() == Path("/proc/self/cmdline").read_bytes()


@pytest.mark.parametrize("destination", ["file", "to-file", "hard"])
def test_copy_onto_itself_changes_nothing(places: Path, destination: str) -> None:
    # Row 37.
    (places / "hard").hardlink_to(places / "file")
    before = tree(places)
    files.copy(f"{places}/file", f"{places}/{destination}", recursive=False)
    assert tree(places) == before


def test_link_is_copied_as_a_link_and_only_where_nothing_is(places: Path) -> None:
    for name in ("to-file", "to-folder", "dangling", "loop"):
        files.copy(f"{places}/{name}", f"{places}/{name}-2", recursive=False)
        assert (places / f"{name}-2").readlink() == (places / name).readlink()
        assert number_of(lambda name=name: files.copy(f"{places}/{name}", f"{places}/file", True)) == "EEXIST"


def test_folder_is_copied_only_when_asked_for_and_not_into_itself(places: Path) -> None:
    before = tree(places)
    (places / "into").symlink_to("folder")
    with pytest.raises(Refused, match="requires recursive: true"):
        files.copy(f"{places}/folder", f"{places}/new", recursive=False)
    for inside in ("folder", "folder/new", "folder/new/er", "to-folder/new", "into"):
        with pytest.raises(Refused, match="to itself or one of its descendants"):
            files.copy(f"{places}/folder", f"{places}/{inside}", recursive=True)
    (places / "into").unlink()
    assert tree(places) == before


@pytest.mark.parametrize("name", ["fifo", "socket", "/dev/null"])
def test_special_file_is_not_copied(places: Path, name: str) -> None:
    with pytest.raises(Refused, match="only supports regular files, directories, and symlinks"):
        files.copy(str(places / name), f"{places}/new", recursive=True)
    assert not (places / "new").exists()


def test_folders_merge_and_what_is_special_in_them_is_left_out(tmp_path: Path) -> None:
    source, destination = tmp_path / "from", tmp_path / "to"
    (source / "both/only-from").mkdir(parents=True)
    (source / "both/file").write_bytes(b"from")
    (source / "both/file").chmod(0o600)
    (source / "link").symlink_to("both/file")
    os.mkfifo(source / "fifo")
    (destination / "both/only-to").mkdir(parents=True)
    (destination / "both/file").write_bytes(b"to, and longer")
    (destination / "extra").write_bytes(b"extra")
    files.copy(str(source), str(destination), recursive=True)
    assert tree(destination) == {
        "both": "755",
        "both/only-from": "755",
        "both/only-to": "755",
        "both/file": "600 b'from'",
        "link": "-> both/file",
        "extra": "644 b'extra'",
    }


def test_folders_of_a_copy_have_the_modes_of_their_originals(everybodys: Path) -> None:
    needs_root()
    source = everybodys / "from"
    (source / "read-only/inner").mkdir(parents=True)
    (source / "read-only/inner/file").write_bytes(b"x")
    (source / "read-only/inner").chmod(0o555)
    (source / "read-only").chmod(0o555)
    (source / "private").mkdir(0o700)
    os.chown(source / "private", NOBODY, NOBODY)
    everybodys.chmod(0o777)
    # Not as root, whom no mode stops.
    assert as_nobody(f"files.copy({str(source)!r}, {str(everybodys / 'to')!r}, True)") == "done"
    assert tree(everybodys / "to") == {
        "read-only": "555",
        "read-only/inner": "555",
        "read-only/inner/file": "644 b'x'",
        "private": "700",
    }
    assert as_nobody(f"files.copy({str(source)!r}, {str(everybodys / 'deep/er/to')!r}, True)") == "done"
    assert tree(everybodys / "deep/er/to") == tree(everybodys / "to")


@pytest.mark.parametrize(
    ("source", "destination", "error"),
    [
        ("missing", "new", "ENOENT"),
        ("file", "missing/new", "ENOENT"),
        ("file", "folder", "EISDIR"),
        ("file", "file/new", "ENOTDIR"),
        ("file", "loop", "ELOOP"),
        ("file", "fifo", "ENXIO"),
        ("folder", "file", "EEXIST"),
        ("folder", "file/new", "ENOTDIR"),
        ("folder", "dangling", "EEXIST"),
    ],
)
def test_copy_that_cannot_be_made_leaves_everything_as_it_was(
    places: Path, source: str, destination: str, error: str
) -> None:
    before = tree(places)
    assert number_of(lambda: files.copy(f"{places}/{source}", f"{places}/{destination}", True)) == error
    assert tree(places) == before


def test_signal_does_not_cut_a_write_short(tmp_path: Path) -> None:
    # A write that a signal interrupts returns early, and the rest must follow.
    def ring(*_: object) -> None:
        pass

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        write(tmp_path / "file", bytes(LARGE))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (tmp_path / "file").stat().st_size == LARGE
