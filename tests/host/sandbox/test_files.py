"""File operations under a confinement: what is done, what is refused and how; no descriptor is left over."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outfitter.core.permissions import DENY, READ, WRITE, Confinement, Rule
from outfitter.errors import FileFailed, Refused
from outfitter.host.sandbox import grounding, openat2, pinning
from outfitter.host.sandbox.files import ConfinedFiles
from outfitter.host.sandbox.grounding import Bounds, remembered
from outfitter.host.statx import CachedLookup


@pytest.fixture(autouse=True)
def descriptors_are_closed() -> Iterator[None]:
    before = os.listdir("/proc/self/fd")
    yield
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    (work / ".git").mkdir(parents=True)
    (work / ".git" / "config").write_text("old")
    (work / "sub" / "deep").mkdir(parents=True)
    (work / "sub" / "deep" / "file").write_text("deep")
    (work / "file").write_text("text")
    (work / "secret").mkdir()
    (work / "secret" / "key").write_text("key")
    (work / "token").write_text("token")
    outside = tmp_path.resolve() / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    (work / "to-file").symlink_to("file")
    (work / "to-outside").symlink_to(outside)
    (work / "to-token").symlink_to(work / "token")
    return work


def confinement(rules: dict[Path | str, str], *globs: str) -> Confinement:
    found = sorted((str(path), access) for path, access in rules.items())
    return Confinement(True, False, tuple(Rule(*one) for one in found), globs)


def to_read(rules: dict[Path | str, str], *globs: str) -> ConfinedFiles:
    return ConfinedFiles(Bounds(confinement(rules, *globs)), writing=False)


def to_write(work: Path, *globs: str, strict_links: bool = False) -> ConfinedFiles:
    """The usual: all may be read, the work may be written, and two of its names are denied."""
    rules: dict[Path | str, str] = {"/": READ, work: WRITE, work / "secret": DENY, work / "token": DENY}
    return ConfinedFiles(Bounds(confinement(rules, *globs), (), strict_links), writing=True)


def read(files: ConfinedFiles, path: Path | str, follow: bool = True) -> bytes:
    fd, _ = files.open_read(str(path), follow)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def refused(act: Callable[[], object]) -> str:
    """The name of the error, or the words of a refusal."""
    try:
        act()
    except OSError as error:
        assert error.errno is not None
        return errno.errorcode[error.errno]
    except (Refused, FileFailed) as error:
        return str(error)
    pytest.fail("it was done")


# Reading


def test_what_may_be_read_is_read_by_any_name(work: Path) -> None:
    files = to_read({work: READ})
    assert read(files, work / "file") == b"text"
    assert read(files, work / "to-file") == b"text"
    assert read(files, f"{work}//sub/./deep/../deep/file") == b"deep"
    assert files.canonicalize(str(work / "to-file")) == str(work / "file")
    assert files.metadata(str(work / "file")).size == 4
    assert files.metadata(str(work / "to-file")).is_symlink


def test_what_is_hidden_is_not_there(work: Path) -> None:
    files, outside = to_read({work: READ}), work.parent / "outside"
    for path in (outside, outside / "file", work / "to-outside", work / "to-outside" / "file", "/etc/passwd"):
        assert refused(lambda path=path: files.open_read(str(path))) == "ENOENT"  # type: ignore[misc]
        assert refused(lambda path=path: files.metadata(str(path))) == "ENOENT"  # type: ignore[misc]
        assert refused(lambda path=path: files.canonicalize(str(path))) == "ENOENT"  # type: ignore[misc]
    plain, others = files.scan_directory(str(work))
    assert plain == ["file", "token"]
    assert [name for name, *_ in others] == [".git", "secret", "sub", "to-file", "to-token"]
    described = {name: target for name, *_, target in files.describe_directory(str(work))}
    assert list(described) == sorted([*plain, *(name for name, *_ in others)])
    assert (described["file"], described["to-file"]) == (None, os.readlink(work / "to-file"))
    assert files.scan_directory(str(work.parent)) == ([], [("work", True, False)])
    assert files.metadata(str(work.parent)).mode == stat.S_IFDIR | 0o755


def test_what_is_denied_cannot_be_opened_by_any_name(work: Path) -> None:
    files = to_read({"/": READ, work / "secret": DENY, work / "token": DENY})
    root = f"/proc/self/root{work}/token"
    for path in (work / "token", work / "to-token", work / "secret" / "key", work / "secret" / "none", root):
        assert refused(lambda path=path: files.open_read(str(path))) == "EACCES"  # type: ignore[misc]
    assert refused(lambda: files.scan_directory(str(work / "secret"))) == "EACCES"
    told = files.metadata(str(work / "token"))
    assert (told.mode, told.size, told.modified_ms) == (stat.S_IFREG, 0, 0)
    [token] = [rest for name, *rest in files.describe_directory(str(work)) if name == "token"]
    assert token == [False, True, False, 0, 0, 0, None]


def test_a_pattern_masks_files_and_links_that_match(work: Path) -> None:
    (work / "sub" / ".env").write_text("key")
    (work / "link.env").symlink_to("file")
    (work / "folder.env").mkdir()
    files = to_read({"/": READ}, f"{work}/**/*.env")
    assert refused(lambda: files.open_read(str(work / "sub" / ".env"))) == "EACCES"
    assert refused(lambda: files.open_read(str(work / "link.env"))) == "EACCES"
    assert files.scan_directory(str(work / "folder.env")) == ([], [])
    assert read(files, work / "file") == b"text"


def test_a_pattern_masks_files_of_a_folder_that_a_link_leads_to(work: Path) -> None:
    link = work.parent / "link"
    link.symlink_to("work")
    for pattern in (f"{link}/**/fil?", f"{link}/sub/deep/*"):
        for files in (to_read({"/": READ}, pattern), to_write(work, pattern)):
            for way in (link, work):
                with pytest.raises(PermissionError):
                    read(files, way / "sub" / "deep" / "file")
                assert read(files, way / ".git" / "config") == b"old"
    files = to_write(work, f"{link}/**/fil?")
    assert refused(lambda: files.rename(f"{work}/sub", f"{work}/moved", replace=False)) == "EBUSY"


def test_a_pattern_that_begins_at_the_root_is_refused() -> None:
    assert "use a pattern with a non-root directory prefix" in refused(lambda: to_read({"/": READ}, "/**/x"))


def test_without_links_a_link_is_in_the_way(work: Path) -> None:
    files = to_read({"/": READ})
    assert read(files, work / "file", follow=False) == b"text"
    assert refused(lambda: files.open_read(str(work / "to-file"), False)) == "ELOOP"
    assert refused(lambda: files.open_read(str(work / "to-outside" / "file"), False)) == "ENOTDIR"
    assert refused(lambda: files.metadata(str(work / "to-file"), False)) == "path contains a symbolic link"


def test_links_in_a_circle_end(work: Path) -> None:
    (work / "one").symlink_to("two")
    (work / "two").symlink_to("one")
    files = to_read({"/": READ})
    assert refused(lambda: files.open_read(str(work / "one"))) == "ELOOP"
    assert refused(lambda: files.open_read(str(work / "one" / "x"))) == "ELOOP"


def test_a_path_that_is_too_long_is_not_looked_at(work: Path) -> None:
    files = to_read({"/": READ})
    path = f"{work}{'/x' * 1_000_000}"
    assert refused(lambda: files.open_read(path)) == "ENAMETOOLONG"
    assert refused(lambda: files.is_link(path) or files.open_read(path, False)) == "ENAMETOOLONG"
    assert refused(lambda: to_write(work).write_file(path, [b"x"])) == "ENAMETOOLONG"
    (work / "self").symlink_to(".")
    assert refused(lambda: files.open_read(f"{work}{'/self' * 50}/file")) == "ELOOP"


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/1/environ", "/proc/version", "/sys/kernel/notes", "/dev/fd/0"]
)
def test_files_that_the_kernel_makes_are_never_read(path: str) -> None:
    files = to_read({"/": READ})
    assert refused(lambda: files.open_read(path)) == "EACCES"
    assert refused(lambda: files.metadata(path)) == "EACCES"
    assert refused(lambda: files.scan_directory("/proc")) == "EACCES"
    assert files.metadata("/proc").is_directory


def test_devices_fifos_and_sockets_are_not_opened(work: Path) -> None:
    os.mkfifo(work / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(work / "socket"))
    files = to_read({"/": READ})
    assert refused(lambda: files.open_read("/dev/zero")) == "path `/dev/zero` is not a file"
    assert refused(lambda: files.open_read(f"{work}/fifo")) == f"path `{work}/fifo` is not a file"
    assert refused(lambda: files.open_read(f"{work}/socket")) == "ENXIO"
    assert refused(lambda: files.open_read(f"{work}/sub")) == f"path `{work}/sub` is not a file"
    writing = to_write(work)
    assert refused(lambda: writing.write_file(f"{work}/fifo", [b""])) == f"path `{work}/fifo` is not a file"
    assert refused(lambda: writing.update(f"{work}/fifo")) == f"path `{work}/fifo` is not a file"


def test_what_is_the_servers_own_is_hidden_from_all(work: Path) -> None:
    bounds = Bounds(confinement({"/": READ, work: WRITE}), (str(work / "token"), str(work / "none")))
    for writing in (False, True):
        files = ConfinedFiles(bounds, writing=writing)
        assert refused(lambda files=files: files.open_read(str(work / "token"))) == "EACCES"  # type: ignore[misc]
        assert read(files, work / "file") == b"text"
    ConfinedFiles(bounds, writing=True).write_file(str(work / "none"), [b"x"])


def test_an_old_kernel_walks_name_by_name(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinning, "pin_without_links", lambda path: -1)
    files = to_read({work: READ})
    assert read(files, work / "to-file") == b"text"
    assert read(files, f"{work}/sub/../file") == b"text"
    assert refused(lambda: files.open_read(f"{work}/to-outside/file")) == "ENOENT"
    assert files.scan_directory("/")[1] != []


# Remembering


def test_a_view_is_used_again_until_a_path_of_a_rule_is_another_one(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grounding, "_SECONDS", 1000.0)
    bounds = Bounds(confinement({work / "sub": READ}))
    assert remembered(bounds) is None
    first = ConfinedFiles(bounds, writing=False)
    assert ConfinedFiles(bounds, writing=False).view is first.view is remembered(bounds)
    (work / "sub").rename(work / "moved")
    assert remembered(bounds) is first.view
    again = ConfinedFiles(bounds, writing=False)
    assert again.view is not first.view
    assert refused(lambda: again.stat(str(work / "moved"))) == "ENOENT"
    monkeypatch.setattr(grounding, "_SECONDS", -1.0)
    grounding._known.clear()
    ConfinedFiles(bounds, writing=False)
    assert remembered(bounds) is None


def test_metadata_is_known_by_heart_on_devices_that_were_looked_at(work: Path) -> None:
    path, cached = str(work / "file"), CachedLookup()
    to_read({"/": READ}).metadata(path)
    os.stat(path)
    known = cached.find_plain(path, openat2.ordinary_devices)
    assert known is None or known.size == 4  # a kernel before 5.12 does not tell
    assert cached.find_plain(path, ()) is None
    assert cached.find_plain(str(work / "to-file"), openat2.ordinary_devices) is None
    assert cached.find_plain("/proc/version", openat2.ordinary_devices) is None


# Writing


def test_what_may_be_written_is_written(work: Path) -> None:
    files = to_write(work)
    files.write_file(str(work / "file"), [b"ne", b"w"])
    files.write_file(str(work / "made"), [b"made"])
    files.create_directory(str(work / "x" / "y"), True)
    files.create_directory(str(work / "x"), True)
    update = files.update(str(work / "made"))
    update.write_at(b"X", 1)
    update.commit()
    files.update(str(work / "updated")).commit()
    files.chmod(str(work / "made"), 0o600)
    files.rename(str(work / "made"), str(work / "x" / "moved"), replace=False)
    assert (work / "file").read_text() == "new"
    assert (work / "x" / "moved").read_text() == "mXde"
    assert (work / "x" / "moved").stat().st_mode & 0o777 == 0o600
    files.remove(str(work / "x"), True, False)
    files.remove(str(work / "x"), True, True)
    assert not (work / "x").exists()


@pytest.mark.parametrize(
    "name",
    ["outside/file", "outside/new", "work/.git/config", "work/.git/new", "work/.codex/x", "work/.codex",
     "work/to-outside/file", "work/to-outside/new"],
)  # fmt: skip
def test_what_may_not_be_written_is_on_a_read_only_file_system(work: Path, name: str) -> None:
    files, path = to_write(work), str(work.parent / name)
    assert refused(lambda: files.write_file(path, [b"x"])) == "EROFS"
    assert refused(lambda: files.update(path)) == "EROFS"
    if not os.path.exists(path):
        assert refused(lambda: files.create_directory(path, True)) == "EROFS"
    assert refused(lambda: files.copy(str(work / "file"), path, False)) == "EROFS"
    assert refused(lambda: files.rename(str(work / "file"), path, replace=True)) == "EROFS"
    assert (work / "file").read_text() == "text"
    assert (work.parent / "outside" / "file").read_text() == "outside"


def test_what_is_there_but_read_only_stays(work: Path) -> None:
    files, git = to_write(work), work / ".git"
    for path in (git, git / "config", work.parent / "outside" / "file"):
        assert refused(lambda path=path: files.remove(str(path), True, True)) == "EROFS"  # type: ignore[misc]
        assert refused(lambda path=path: files.chmod(str(path), 0o777)) == "EROFS"  # type: ignore[misc]
    assert refused(lambda: files.create_directory(str(git), False)) == "EEXIST"
    assert refused(lambda: files.create_directory(str(work / ".agents"), False)) == "EEXIST"
    assert refused(lambda: files.create_directory(str(work / ".agents"), True)) == "EROFS"
    files.create_directory(str(git), True)


def test_what_is_denied_is_neither_written_nor_copied_nor_removed(work: Path) -> None:
    files, token, inner = to_write(work), str(work / "token"), str(work / "secret" / "new")
    assert refused(lambda: files.write_file(token, [b"x"])) == "EROFS"
    assert refused(lambda: files.write_file(token, [b"x"], False)) == "EACCES"
    assert refused(lambda: files.update(token)) == "EACCES"
    assert refused(lambda: files.write_file(inner, [b"x"])) == "EACCES"
    assert refused(lambda: files.create_directory(inner, True)) == "EACCES"
    assert refused(lambda: files.copy(token, str(work / "copy"), False)) == "EACCES"
    assert refused(lambda: files.copy(str(work / "secret"), str(work / "copy"), True)) == "EACCES"
    assert refused(lambda: files.remove(token, True, True)) == "EBUSY"
    assert refused(lambda: files.remove(str(work / "secret"), True, True)) == "EACCES"
    assert refused(lambda: files.chmod(token, 0o777)) == "EACCES"
    assert refused(lambda: files.rename(token, str(work / "copy"), replace=True)) == "EBUSY"


def test_nothing_is_removed_or_moved_of_a_folder_in_which_something_must_stay(work: Path) -> None:
    rules: dict[Path | str, str] = {"/": READ, work.parent: WRITE, work / ".git": READ, work / "sub": WRITE}
    files = ConfinedFiles(Bounds(confinement(rules)), writing=True)
    assert refused(lambda: files.remove(str(work), True, True)) == "EROFS"
    assert refused(lambda: files.rename(str(work), f"{work}2", replace=False)) == "EROFS"
    (work / ".git" / "config").unlink()
    (work / ".git").rmdir()
    assert refused(lambda: files.remove(str(work), True, True)) == "EBUSY"  # sub is a root of its own
    assert refused(lambda: files.remove(str(work / "sub"), True, True)) == "EBUSY"
    (work.parent / "new").mkdir()
    assert refused(lambda: files.rename(f"{work.parent}/new", str(work), replace=True)) == "EBUSY"
    assert (work / "file").exists()


def test_a_folder_with_a_file_that_a_pattern_masks_stays(work: Path) -> None:
    (work / "sub" / ".env").write_text("key")
    files = to_write(work, f"{work}/**/*.env")
    assert refused(lambda: files.remove(str(work / "sub"), True, True)) == "EBUSY"
    assert refused(lambda: files.rename(str(work / "sub"), str(work / "moved"), replace=True)) == "EBUSY"
    assert refused(lambda: files.copy(str(work / "sub"), str(work / "copy"), True)) == "EACCES"
    assert refused(lambda: files.write_file(str(work / "sub" / ".env"), [b"x"])) == "EROFS"
    files.write_file(str(work / "new.env"), [b"x"])  # nothing was there to be masked
    assert (work / "sub" / "deep" / "file").exists()


def test_a_file_that_is_a_root_is_written_where_it_is(work: Path) -> None:
    files = ConfinedFiles(Bounds(confinement({"/": READ, work / "file": WRITE})), writing=True)
    number = (work / "file").stat().st_ino
    files.write_file(str(work / "file"), [b"new"])
    assert ((work / "file").read_text(), (work / "file").stat().st_ino) == ("new", number)
    assert refused(lambda: files.remove(str(work / "file"), False, False)) == "EROFS"
    assert refused(lambda: files.write_file(str(work / "other"), [b"x"])) == "EROFS"


def test_nobody_gets_a_program_that_runs_as_the_servers_user(work: Path) -> None:
    files = to_write(work)
    assert refused(lambda: files.chmod(str(work / "file"), 0o4755)) == "EPERM"
    (work / "file").chmod(0o6755)
    files.write_file(str(work / "file"), [b"#!"])
    assert (work / "file").stat().st_mode & 0o7777 == 0o755
    (work / "file").chmod(0o4755)
    files.copy(str(work / "file"), str(work / "copy"), False)
    assert (work / "copy").stat().st_mode & 0o7777 == 0o755
    (work / "sub").chmod(0o2755)
    files.copy(str(work / "sub"), str(work / "copied"), True)
    assert (work / "copied").stat().st_mode & 0o7777 == 0o755


def test_a_file_with_other_names_is_written_unless_strict(work: Path) -> None:
    os.link(work.parent / "outside" / "file", work / "hard")
    strict = to_write(work, strict_links=True)
    for act in (
        lambda: strict.write_file(str(work / "hard"), [b"x"]),
        lambda: strict.update(str(work / "hard")),
        lambda: strict.chmod(str(work / "hard"), 0o777),
    ):
        assert refused(act) == "EPERM"
    strict.write_file(str(work / "file"), [b"one name"])
    to_write(work).write_file(str(work / "hard"), [b"written"])
    assert (work.parent / "outside" / "file").read_text() == "written"


def test_a_folder_that_moves_while_its_file_is_replaced_is_not_written(work: Path) -> None:
    with to_write(work).replacement(str(work / "sub" / "new")) as replacement:
        replacement.write(b"x")
        (work / "sub").rename(work / "moved")
        assert refused(replacement.commit) == "ESTALE"
    assert sorted(os.listdir(work / "moved")) == ["deep"]


def test_a_protected_name_that_is_a_link_is_refused(work: Path) -> None:
    (work / ".codex").symlink_to("sub")
    crosses = f"cannot enforce sandbox read-only path {work}/.codex because it crosses writable symlink"
    assert crosses in refused(lambda: to_write(work))
    assert read(to_read({"/": READ, work: WRITE}), work / ".codex" / "deep" / "file") == b"deep"


def test_the_git_folder_of_a_worktree_is_protected(work: Path) -> None:
    (work / "sub" / ".git").write_text(f"gitdir: {work}/sub/deep\n")
    files = ConfinedFiles(Bounds(confinement({"/": READ, work / "sub": WRITE})), writing=True)
    assert refused(lambda: files.write_file(str(work / "sub" / "deep" / "file"), [b"x"])) == "EROFS"
    files.write_file(str(work / "sub" / "other"), [b"x"])


# Copies


def test_a_tree_is_copied_with_its_links_as_links(work: Path) -> None:
    files = to_write(work)
    (work / "sub" / "link").symlink_to("../../outside/file")
    os.mkfifo(work / "sub" / "fifo")
    files.copy(str(work / "sub"), str(work / "new" / "copy"), True)
    copied = work / "new" / "copy"
    assert sorted(os.listdir(copied)) == ["deep", "link"]
    assert (copied / "deep" / "file").read_text() == "deep"
    assert os.readlink(copied / "link") == "../../outside/file"
    files.copy(str(work / "to-file"), str(work / "to-file-2"), False)
    assert os.readlink(work / "to-file-2") == "file"
    assert refused(lambda: files.copy(str(work / "to-file"), str(work / "to-file-2"), False)) == "EEXIST"
    files.copy(str(work / "file"), str(work / "to-file"), False)  # the same file by another name
    assert (work / "to-file").is_symlink()


def test_copies_that_make_no_sense_are_refused(work: Path) -> None:
    files = to_write(work)
    os.mkfifo(work / "fifo")
    itself = "fs/copy cannot copy a directory to itself or one of its descendants"
    assert refused(lambda: files.copy(str(work / "sub"), str(work / "x"), False)).endswith("is a directory")
    assert refused(lambda: files.copy(str(work / "sub"), str(work / "sub" / "x" / "y"), True)) == itself
    assert "regular files" in refused(lambda: files.copy(str(work / "fifo"), str(work / "x"), True))
    assert refused(lambda: files.copy(str(work / "none"), str(work / "x"), True)) == "ENOENT"
    assert refused(lambda: files.copy(str(work / "sub"), str(work / "file"), True)) == "EEXIST"
