"""The words for bubblewrap, as text: what is mounted, in which order."""

from __future__ import annotations

from typing import Any

import pytest

from outfitter.core.launch import Launch
from outfitter.errors import InvalidParams, LaunchFailed
from outfitter.host.sandbox import sandboxes
from outfitter.host.sandbox.arguments import Cover, Layout, arguments, can_enter, visible
from outfitter.host.sandbox.paths import Found, Hidden, Protected, Writable
from outfitter.host.sandbox.sandboxes import check_names, command, packed


def text(found: Found, **more: Any) -> str:
    members: dict[str, Any] = {"files": True, "isolated": True, "empty": "E", "secret": "S", **more}
    return " ".join(arguments(Layout(found, "/", {"A": "b"}, **members)))


def order(said: str, *parts: str) -> bool:
    places = [said.index(part) for part in parts]
    return places == sorted(places)


def test_read_only() -> None:
    assert text(Found(("/",))) == (
        "--die-with-parent --new-session --unshare-user --unshare-pid --unshare-ipc --unshare-uts "
        "--unshare-net --ro-bind / / "
        "--dev /dev --perms 1777 --size 268435456 --tmpfs /dev/shm "
        "--proc /proc --ro-bind /proc/sys /proc/sys --remount-ro /dev "
        "--cap-drop ALL --clearenv --setenv A b --chdir /"
    )


def test_the_deeper_is_mounted_later() -> None:
    found = Found(
        ("/",),
        (
            Writable("/w", "/w", protected=(Protected("/w/.git", True, True),)),
            Writable("/w/.git/x", "/w/.git/x"),
        ),
        (Hidden("/w/d", True, True), Hidden("/w/s", False)),
        None,
        ("/w/d/seen",),
    )
    said = text(found)
    assert order(said, "--bind /w /w", "--ro-bind /w/.git /w/.git", "--bind /w/.git/x /w/.git/x")
    hidden = ("--perms 111 --tmpfs /w/d", "--ro-bind /w/d/seen /w/d/seen", "--remount-ro /w/d")
    assert order(said, "--bind /w /w", *hidden)
    assert "--ro-bind S /w/s" in said


def test_a_protected_folder_that_is_missing_is_an_empty_one_of_the_sandboxs_own() -> None:
    protected = (
        Protected("/w/.git", True, True),
        Protected("/w/.aws", False, True),
        Protected("/w/f", False, False),
    )
    said = text(Found(("/",), (Writable("/w", "/w", protected=protected),)))
    assert order(said, "--bind /w /w", "--perms 555 --size 4096 --tmpfs /w/.aws")
    assert "--ro-bind /w/.git /w/.git" in said and "--ro-bind /w/f /w/f" in said
    assert said.count("/w/.aws") == 1


def test_a_hidden_folder_with_nothing_in_sight_cannot_be_entered() -> None:
    assert "--perms 000 --tmpfs /d --remount-ro /d" in text(Found(("/",), (), (Hidden("/d", True),)))


def test_what_was_opened_before_is_mounted_by_its_number() -> None:
    said = text(Found(("/",), (Writable("/w", "/w"), Writable("/v", "/v"))), pins=(("/w", 5),))
    assert "--bind-fd 5 /w" in said and "--bind /v /v" in said


def test_parts_of_the_file_system() -> None:
    found = Found(("/usr", "/etc"), (Writable("/w", "/w"),), links=(("/bin", "usr/bin"),))
    said = text(found, own=(Cover("/etc/own", False, True), Cover("/home/own", True, True)))
    parts = ("--tmpfs /", "--symlink usr/bin /bin", "--ro-bind /usr /usr", "--dev /dev", "--bind /w /w")
    assert order(said, *parts, "--remount-ro / ")
    assert "--ro-bind S /etc/own" in said and "/home/own" not in said


def test_everything_writable_leaves_the_kernels_settings_alone() -> None:
    said = text(Found((), (Writable("/", "/"),)), files=False, isolated=False)
    assert order(said, "--bind / /", "--dev-bind /dev /dev", "--proc /proc", "--ro-bind /proc/sys /proc/sys")
    assert "--ro-bind-try /sys /sys" in said and "--unshare-net" not in said and "--dev /dev" not in said


def test_covers_stand_below_and_above_what_may_be_written() -> None:
    startup = (Cover("/h/.profile", False), Cover("/etc/zsh", True))
    said = text(Found(("/",), (Writable("/h", "/h"),)), startup=startup, own=(Cover("/h/state", True, True),))
    assert order(said, "--ro-bind E /h/.profile", "--bind /h /h", "--perms 000 --size 4096 --tmpfs /h/state")
    assert "--perms 555 --size 4096 --tmpfs /etc/zsh" in said


def test_without_a_view_of_processes_there_is_nothing_to_see() -> None:
    said = text(Found(("/",)), proc=False)
    assert "--tmpfs /proc --remount-ro /proc" in said and "--proc" not in said and "/proc/sys" not in said


def test_what_cannot_be_made_is_not_mounted() -> None:
    protected = (Protected("/w/.git", False, True),)
    found = Found(
        ("/",), (Writable("/w", "/w", protected=protected),), (Hidden("/w/x", False, exists=False),)
    )
    said = text(found, impossible=frozenset(["/w/.git", "/w/x"]))
    assert ".git" not in said and "/w/x" not in said


@pytest.mark.parametrize(
    ("path", "seen"),
    [("/", False), ("/r/x", True), ("/w", True), ("/r/d", False), ("/r/d/e", False), ("/r/d/o/x", True)],
)
def test_what_can_be_seen(path: str, seen: bool) -> None:
    found = Found(("/r",), (Writable("/w", "/w"),), (Hidden("/r/d", True),), None, ("/r/d/o",))
    assert visible(found, path) is seen


def test_folders_above_what_is_mounted_are_mounts_where_they_can_be_renamed() -> None:
    git = Protected("/w/a/b/.git", True, True)
    writable = (Writable("/w", "/w"), Writable("/w/a/b", "/w/a/b", protected=(git,)))
    hidden = (Hidden("/w/c/d/secret", False), Hidden("/r/x/y", False))
    found = Found(("/",), writable, hidden)
    layout = Layout(found, "/", {}, files=True, isolated=True, own=(Cover("/w/h/s/own", True, True),))
    words = arguments(layout)
    binds = [words[at + 1] for at, word in enumerate(words) if word == "--bind"]
    assert binds == ["/w", "/w/a", "/w/c", "/w/h", "/w/c/d", "/w/h/s", "/w/a/b"]


def test_a_startup_file_stays_covered_by_a_folder_that_only_stays_in_its_place() -> None:
    found = Found(("/",), (Writable("/", "/"), Writable("/h/w", "/h/w")))
    covers = (Cover("/h/.bashrc", False), Cover("/h/w/.bashrc", False), Cover("/etc/profile", False))
    said = text(found, own=(Cover("/h/s/own", True, True),), startup=covers)
    assert order(said, "E /etc/profile", "--bind /h /h", "E /h/.bashrc", "--tmpfs /h/s/own")
    assert order(said, "E /h/w/.bashrc", "--bind /h/w /h/w")


def test_what_the_kernel_has_is_never_the_hosts() -> None:
    found = Found(("/",), (Writable("/", "/"),), (Hidden("/dev/shm/a/b", False), Hidden("/proc/x/y", False)))
    words = arguments(Layout(found, "/", {}, files=True, isolated=True))
    assert [words[at + 1] for at, word in enumerate(words) if word == "--bind"] == ["/"]


def test_devices_are_read_only_when_what_is_mounted_there_is_in_its_place() -> None:
    found = Found(("/",), (Writable("/dev/fuse", "/dev/fuse", True),), (Hidden("/dev/kmsg", False),))
    last = ("--dev /dev", "--bind /dev/fuse", "--ro-bind S /dev/kmsg", "--remount-ro /dev ")
    assert order(text(found), *last)
    assert "--remount-ro /dev " not in text(Found(("/",), (Writable("/dev", "/dev"),)))


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/w", True),
        ("/d", False),
        *(("/dev", True), ("/dev/pts", True), ("/dev/shm", True), ("/devices", True)),
        *(("/dev/shm/x", False), ("/dev/mqueue", False), ("/dev/shm/w", True), ("/dev/shm/w/x", True)),
    ],
)
def test_which_folders_can_be_entered(path: str, there: bool) -> None:
    writable = (Writable("/", "/"), Writable("/dev/shm/w", "/dev/shm/w"))
    found = Found(("/",), writable, (Hidden("/d", True),))
    assert can_enter(found, path, files=True) is there
    assert can_enter(found, path, files=False) is (path != "/d")


def test_words_end_with_a_zero_byte_and_have_none() -> None:
    assert packed(["a", "\udcff"]) == b"a\0\xff\0"
    with pytest.raises(LaunchFailed, match="nul byte"):
        packed(["a", "b\0--bind\0/\0/"])


@pytest.mark.parametrize("name", ["", "A=B"])
def test_a_variable_that_cannot_be_set_is_named(name: str) -> None:
    check_names({"A": "=", "B%%": ""})
    with pytest.raises(LaunchFailed, match="Invalid argument") as caught:
        check_names({"A": "b", name: "c"})
    assert repr(name) in (caught.value.what or "")


def launch(argv0: str = "true", rows: int = 0) -> Launch:
    return Launch("true", [argv0, "x"], "/", {}, rows=rows, cols=rows)


def test_a_command() -> None:
    assert command(launch(), renames=False) == ["true", "x"]
    assert command(launch("other"), renames=True) == ["true", "x"]
    renamed = command(launch("other"), renames=False)
    assert renamed[-3:] == ["other", "true", "x"] and renamed[0].endswith("/bash")
    assert command(launch(rows=24), renames=True)[1:] == ["-c", "--", "true", "x"]


def test_no_other_name_without_bash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "_BASH", ("/no/bash",))
    with pytest.raises(InvalidParams, match="arg0 needs bubblewrap"):
        command(launch("other"), renames=False)


def test_no_control_of_a_terminal_without_setsid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "_SETSID", ("/no/setsid",))
    assert command(launch(rows=24), renames=True) == ["true", "x"]
