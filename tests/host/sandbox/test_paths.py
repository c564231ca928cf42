"""A confinement, laid over real files: what has to be mounted, and what cannot be enforced."""

from __future__ import annotations

import contextlib
import os
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.core.permissions import DENY, PROTECTED, READ, WRITE, Confinement, Rule, canonical, covers
from outfitter.host.sandbox import paths
from outfitter.host.sandbox.paths import Found, Hidden, Protected, Writable, locate, look, match, settle
from outfitter.host.sandbox.refusal import Unenforceable


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A real folder."""
    return tmp_path.resolve()


def confinement(*rules: tuple[Path | str, str], **more: Any) -> Confinement:
    return Confinement(True, False, canonical([Rule(str(path), access) for path, access in rules]), **more)


def found(*rules: tuple[Path | str, str], **more: Any) -> Found:
    return look(confinement(*rules, **more))


def names(root: Path, *, but: tuple[str, ...] = ()) -> tuple[Protected, ...]:
    """What stays read-only below a root where nothing of it exists."""
    return tuple([Protected(f"{root}/{name}", False, True) for name in sorted(PROTECTED) if name not in but])


def refused(what: str, path: Path, link: Path) -> Found:
    return Found(
        refusal="error building bubblewrap command: Fatal error: cannot enforce sandbox "
        f"{what} path {path} because it crosses writable symlink {link}\n"
    )


# Where a path leads


def test_a_path_is_followed_part_by_part(here: Path) -> None:
    (here / "a/b").mkdir(parents=True)
    (here / "a/file").touch()
    (here / "to-a").symlink_to("a")
    (here / "a/up").symlink_to("../a/b")
    (here / "out").symlink_to(here / "a/../a/b")
    place = locate(f"{here}/to-a/./up/../b")
    assert (place.real, place.exists, place.is_dir) == (f"{here}/a/b", True, True)
    assert place.links == [(f"{here}/to-a", "a"), (f"{here}/a/up", "../a/b")]
    assert locate(f"{here}/out").real == f"{here}/a/b"
    for told in ("..", "/", ".", "b/..", "/usr/.."):
        (here / "a/turn").unlink(missing_ok=True)
        (here / "a/turn").symlink_to(told)
        place = locate(f"{here}/a/turn")
        assert (place.real, place.is_dir) == (os.path.realpath(here / "a/turn"), True)
    assert not locate(f"{here}/a/file").is_dir
    assert locate("/").real == locate("/../..").real == "/"


def test_what_is_missing_begins_somewhere(here: Path) -> None:
    (here / "dangling").symlink_to("gone/deeper")
    place = locate(f"{here}/dangling/x")
    assert (place.real, place.missing, place.exists) == (f"{here}/gone/deeper/x", f"{here}/gone", False)
    (here / "loop").symlink_to("loop")
    assert not locate(f"{here}/loop/x").exists
    (here / "file").touch()
    assert locate(f"{here}/file/x").missing == f"{here}/file/x"


# Reading


def test_the_whole_file_system_is_one_root(here: Path) -> None:
    assert found(("/", READ)) == Found(("/",))
    assert look(Confinement(False, True)) == Found(("/",), (Writable("/", "/"),))
    assert found() == Found()


def test_roots_are_real_and_links_on_the_way_are_told(here: Path) -> None:
    (here / "real/sub").mkdir(parents=True)
    (here / "link").symlink_to("real")
    assert found((here / "link", READ), (here / "gone", READ)) == Found(
        (f"{here}/real",), links=((f"{here}/link", "real"),)
    )
    # One that is seen anyway need not be made.
    assert found((here, READ), (here / "link/sub", READ)) == Found((str(here),))
    # Of two that lead to the same place, one.
    assert found((here / "link", READ), (here / "real", READ)).read_roots == (f"{here}/real",)


# Writing


def test_a_writable_root_keeps_its_protected_names(here: Path) -> None:
    (here / ".git").mkdir()
    (here / ".aws").touch()
    assert found(("/", READ), (here, WRITE)) == Found(
        ("/",),
        (
            Writable(
                str(here),
                str(here),
                False,
                (
                    Protected(f"{here}/.agents", False, True),
                    Protected(f"{here}/.aws", True, False),
                    Protected(f"{here}/.codex", False, True),
                    Protected(f"{here}/.git", True, True),
                ),
            ),
        ),
    )


def test_a_missing_root_is_passed_over_and_a_file_has_no_names(here: Path) -> None:
    (here / "file").touch()
    assert found((here / "gone", WRITE), (here / "file", WRITE)).writable == (
        Writable(f"{here}/file", f"{here}/file", True),
    )


def test_a_link_to_a_root_is_mounted_where_it_leads(here: Path) -> None:
    (here / "real").mkdir()
    (here / "link").symlink_to("real")
    assert found((here / "link", WRITE), (here / "link/x", READ)) == Found(
        (),
        (
            Writable(
                f"{here}/link",
                f"{here}/real",
                False,
                (*names(here / "real"), Protected(f"{here}/real/x", False, False)),
            ),
        ),
        links=((f"{here}/link", "real"),),
    )


def test_roots_come_shallow_first_and_each_once(here: Path) -> None:
    (here / "a/b").mkdir(parents=True)
    (here / "z").symlink_to("a/b")
    told = found((here / "a/b", WRITE), (here / "z", WRITE), (here, WRITE))
    assert [one.target for one in told.writable] == [str(here), f"{here}/a/b"]


def test_a_rule_of_its_own_lifts_a_protected_name_also_a_missing_one(here: Path) -> None:
    (here / ".git").mkdir()
    told = found((here, WRITE), (here / ".git", WRITE), (here / ".codex", WRITE))
    assert [one.target for one in told.writable] == [str(here), f"{here}/.git"]
    assert told.writable[0].protected == names(here, but=(".git", ".codex"))
    # Below the name it does not.
    told = found((here, WRITE), (here / ".aws/x", WRITE))
    assert told.writable[0].protected == (
        *names(here, but=(".git",)),
        Protected(f"{here}/.git", True, True),
    )


def test_what_is_read_only_below_a_root(here: Path) -> None:
    (here / "a/ro/w").mkdir(parents=True)
    told = found((here, WRITE), (here / "a/ro", READ), (here / "a/ro/w", WRITE), (here / "n1/n2", READ))
    assert told.writable == (
        Writable(
            str(here),
            str(here),
            False,
            (*names(here), Protected(f"{here}/n1", False, False), Protected(f"{here}/a/ro", True, True)),
        ),
        Writable(f"{here}/a/ro/w", f"{here}/a/ro/w", False, names(here / "a/ro/w")),
    )


def test_a_read_only_place_belongs_to_the_deepest_root_above_it(here: Path) -> None:
    (here / "sub/ro").mkdir(parents=True)
    told = found((here, WRITE), (here / "sub", WRITE), (here / "sub/ro", READ))
    assert told.writable[0].protected == names(here)
    assert told.writable[1].protected == (*names(here / "sub"), Protected(f"{here}/sub/ro", True, True))


def test_names_that_nobody_here_can_make_need_no_placeholder() -> None:
    def check() -> None:
        told = found(("/usr", WRITE), ("/usr/gone/deeper", DENY))
        assert (told.writable[0].protected, told.hidden) == ((), ())

    as_ordinary_user(check)


@pytest.mark.parametrize("mode", [0o000, 0o200, 0o500, 0o555])
def test_a_folder_that_its_owner_could_open_is_not_left_unprotected(mode: int) -> None:
    def check() -> None:
        with TemporaryDirectory() as scratch:
            ws = os.path.realpath(f"{scratch}/ws")
            os.mkdir(ws, mode)
            for told in (found((ws, WRITE)), found((scratch, WRITE), (f"{ws}/gone", DENY))):
                assert told.refusal is not None
                assert told.refusal.endswith(f"because nothing can be put there: chmod u+wx {ws}\n")
            # Where it may not be changed, there is nothing to refuse.
            assert found(("/", READ), (f"{ws}/gone", DENY)) == Found(("/",))
            os.chmod(ws, 0o700)

    as_ordinary_user(check)


def test_a_folder_that_its_owner_could_list_is_not_passed_over() -> None:
    def check() -> None:
        with TemporaryDirectory() as scratch:
            os.mkdir(f"{scratch}/closed", 0o000)
            told = found(("/", READ), globs=(f"{scratch}/**/*.env",))
            assert told.refusal is not None
            assert told.refusal.endswith(f"cannot list {scratch}/closed/: Permission denied\n")
            # What is somebody else's is closed to a command as well.
            assert found(("/", READ), globs=("/root/*.env", "/proc/1/*.env")).refusal is None

    as_ordinary_user(check)


def as_ordinary_user(check: Callable[[], None]) -> None:
    """Checks in a child, which is not root."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            check()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_repository_of_a_worktree_is_protected(here: Path) -> None:
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(here / "repo")]
    (here / "repo").mkdir()
    for words in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", "../wt"],
    ):
        subprocess.run([*git, *words], check=True, stderr=subprocess.DEVNULL)
    told = found((here, WRITE), (here / "wt", WRITE))
    kept = [one.path for one in told.writable[1].protected if one.exists]
    assert kept == [f"{here}/repo/.git", f"{here}/wt/.git", f"{here}/repo/.git/worktrees/wt"]
    # Where nothing else may be written, there is nothing to protect.
    assert [one.path for one in found((here / "wt", WRITE)).writable[0].protected if one.exists] == [
        f"{here}/wt/.git"
    ]
    # And a rule that allows it goes before.
    told = found((here, WRITE), (here / "wt", WRITE), (here / "repo/.git", WRITE))
    kept = [one.path for one in told.writable[1].protected if one.exists]
    assert f"{here}/repo/.git" not in kept


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: gone", "other: x", "gitdir: x\0y", "\xff"])
def test_a_pointer_that_leads_nowhere_protects_nothing_more(here: Path, text: str) -> None:
    (here / "wt").mkdir()
    (here / "wt/.git").write_text(text, encoding="latin-1")
    told = found((here, WRITE), (here / "wt", WRITE))
    assert [one.path for one in told.writable[1].protected if one.exists] == [f"{here}/wt/.git"]


@pytest.mark.parametrize("shared", [False, True])
def test_a_pointer_through_a_link_that_can_be_turned_is_refused(here: Path, shared: bool) -> None:
    (here / "dir/repo").mkdir(parents=True)
    (here / "link").symlink_to("dir")
    (here / ".git").write_text(f"gitdir: {'dir' if shared else 'link'}/repo\n")
    if shared:
        (here / "dir/repo/commondir").write_text(f"{here}/link/shared\n")
    told = found((here, WRITE))
    path = here / "link" / ("shared" if shared else "repo")
    assert told == refused("read-only", path, here / "link")
    # Elsewhere nobody who is confined can turn it.
    (here / "inner").mkdir()
    (here / "inner/.git").write_text("gitdir: ../link/repo\n")
    assert found((here / "inner", WRITE)).refusal is None


def test_a_fifo_in_place_of_a_pointer_is_no_trap(here: Path) -> None:
    os.mkfifo(here / ".git")
    assert [one.path for one in found((here, WRITE)).writable[0].protected if one.exists] == [f"{here}/.git"]


# Hiding


def test_what_is_hidden(here: Path) -> None:
    (here / "dir/open").mkdir(parents=True)
    (here / "file").touch()
    told = found(
        ("/", READ),
        (here / "dir", DENY),
        (here / "dir/open", WRITE),
        (here / "file", DENY),
        (here / "gone", DENY),
    )
    assert told.hidden == (Hidden(f"{here}/dir", True, True), Hidden(f"{here}/file", False))
    assert found((here, WRITE), (here / "n1/n2", DENY)).hidden == (Hidden(f"{here}/n1", False, exists=False),)


def test_what_nobody_sees_is_not_hidden(here: Path) -> None:
    (here / "a/b").mkdir(parents=True)
    assert found((here / "a/b", DENY), (here / "a", DENY)).hidden == ()
    assert found((here, READ), (here / "a/b", DENY), (here / "a", DENY)).hidden == (
        Hidden(f"{here}/a", True),
    )


def test_a_link_that_nobody_can_change_hides_what_it_leads_to(here: Path) -> None:
    (here / "real").mkdir()
    (here / "link").symlink_to("real")
    assert found(("/", READ), (here / "link", DENY)).hidden == (Hidden(f"{here}/real", True),)


def test_matches_are_hidden_and_where_they_lead(here: Path) -> None:
    (here / "target").touch()
    for name in (".env", "a.env", "sub/b.env", "c.txt"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).touch()
    (here / "link.env").symlink_to("target")
    (here / "gone.env").symlink_to("nothing")
    told = found(("/", READ), globs=(f"{here}/**/*.env",))
    assert [one.path for one in told.hidden] == [
        f"{here}/.env",
        f"{here}/a.env",
        f"{here}/target",
        f"{here}/sub/b.env",
    ]
    # One that is read by a rule of its own, too.
    told = found((here / "a.env", READ), globs=(f"{here}/*.env",))
    assert (told.read_roots, told.hidden) == ((f"{here}/a.env",), (Hidden(f"{here}/a.env", False),))


# What cannot be enforced


@pytest.mark.parametrize(("access", "what"), [(READ, "read-only"), (DENY, "deny-read")])
def test_a_rule_through_a_link_that_can_be_changed(here: Path, access: str, what: str) -> None:
    (here / "sub").mkdir()
    (here / "link").symlink_to("sub")
    path = here / "link/x"
    assert found(("/", READ), (here, WRITE), (path, access)) == refused(what, path, here / "link")
    with pytest.raises(Unenforceable, match=f"cannot enforce sandbox {what} path"):
        settle(confinement((here, WRITE), (path, access)))


@pytest.mark.parametrize("name", PROTECTED)
def test_a_protected_name_that_is_a_link(here: Path, name: str) -> None:
    (here / name).symlink_to("elsewhere")
    assert found(("/", READ), (here, WRITE)) == refused("read-only", here / name, here / name)


@pytest.fixture(params=[0, 256], ids=["many", "few"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether what matches is looked at again."""
    monkeypatch.setattr(paths, "_FEW", request.param)
    return bool(request.param)


def test_what_was_matched_before_the_look_is_hidden(here: Path, few: bool) -> None:
    for name in ("ws/.env", "ws/sub/b.env", "hidden", "target"):
        (here / name).parent.mkdir(exist_ok=True, parents=True)
        (here / name).touch()
    (here / "link.env").symlink_to("target")
    said = confinement(
        ("/", READ), (here / "ws", WRITE), (here / "hidden", DENY), globs=(f"{here}/**/*.env",)
    )
    matched = match(said)
    assert (matched.found is None) is few
    told = look(said, matched)
    assert told == look(said)
    hidden = ["hidden", "target", "ws/.env", "ws/sub/b.env"]
    assert [one.path for one in told.hidden] == [f"{here}/{name}" for name in hidden]


def test_rules_are_looked_at_after_the_match(here: Path, few: bool) -> None:
    (here / "ws").mkdir()
    (here / "ws/a.env").touch()
    said = confinement((here / "ws", WRITE), (here / "ws/kept", READ), globs=(f"{here}/ws/*.env",))
    matched = match(said)
    (here / "ws/kept").symlink_to("elsewhere")  # by another command
    assert look(said, matched) == refused("read-only", here / "ws/kept", here / "ws/kept")


def test_few_names_are_looked_at_after_the_match(here: Path) -> None:
    for name in ("a.env", "b.env"):
        (here / name).touch()
    said = confinement((here, WRITE), globs=(f"{here}/*.env",))
    matched = match(said)
    (here / "a.env").unlink()
    assert [one.path for one in look(said, matched).hidden] == [f"{here}/b.env"]
    (here / "b.env").unlink()
    (here / "b.env").symlink_to("/etc/hostname")
    assert look(said, matched) == refused("deny-read", here / "b.env", here / "b.env")


def test_what_was_refused_by_the_match_stays_so(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_FEW", 0)
    (here / "a.env").symlink_to("/etc/hostname")
    said = confinement((here, WRITE), globs=(f"{here}/*.env",))
    assert look(said, match(said)) == refused("deny-read", here / "a.env", here / "a.env")


def test_a_match_that_is_a_link_which_can_be_changed(here: Path) -> None:
    (here / "a.env").symlink_to("/etc/hostname")
    link = here / "a.env"
    assert found((here, WRITE), globs=(f"{here}/*.env",)) == refused("deny-read", link, link)


def test_a_root_behind_a_link_that_can_be_changed_is_not_opened(here: Path) -> None:
    (here / "ws/inside").mkdir(parents=True)
    (here / "outside").mkdir()
    (here / "ws/out").symlink_to("../outside")
    (here / "ws/in").symlink_to("inside")
    ws = here / "ws"
    assert found((ws, WRITE), (ws / "out", WRITE)) == refused("writable", ws / "out", ws / "out")
    # Nor a protected name.
    (ws / ".git").mkdir()
    (ws / "cache").symlink_to(".git")
    assert found((ws, WRITE), (ws / "cache", WRITE)) == refused("writable", ws / "cache", ws / "cache")
    # One that leads to what may be written anyway opens nothing.
    assert [one.target for one in found((ws, WRITE), (ws / "in", WRITE)).writable] == [
        f"{ws}",
        f"{ws}/inside",
    ]


def test_a_pattern_without_a_folder_in_front_is_refused(here: Path) -> None:
    assert found(("/", READ), globs=("/**/*.env",)).refusal == (
        "error building bubblewrap command: Fatal error: unreadable glob `/**/*.env` cannot be safely "
        "expanded; use a pattern with a non-root directory prefix\n"
    )


# Settled


def test_settled_rules_are_for_real_paths(here: Path) -> None:
    (here / "real/sub").mkdir(parents=True)
    (here / "link").symlink_to("real")
    told = settle(
        confinement(("/", READ), (here / "link", WRITE), (here / "link/sub", DENY), (here / "no", WRITE))
    )
    assert told.rules == (
        Rule("/", READ),
        Rule(f"{here}/real", WRITE),
        Rule(f"{here}/real/sub", DENY),
    )
    open_files = Confinement(False, True)
    assert settle(open_files) is open_files


# Both ways of saying it agree

NAMES = ("a", "b", ".git")
places = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
trees = st.lists(st.tuples(places, st.none() | places | st.just("..")), max_size=8)
rulings = st.lists(st.tuples(st.just("") | places, st.sampled_from([READ, WRITE, DENY])), max_size=6)


@settings(deadline=None, max_examples=40)
@given(trees, rulings, st.sampled_from([READ, DENY]))
def test_what_is_mounted_is_what_the_settled_rules_say(
    tree: list[tuple[str, str | None]], rulings: list[tuple[str, str]], rest: str
) -> None:
    with TemporaryDirectory() as scratch:
        # Links upwards lead out of the tree, and nothing may be made outside of the scratch folder.
        root = f"{os.path.realpath(scratch)}/one/two/three/four"
        os.makedirs(root)
        for name, link in tree:
            with contextlib.suppress(OSError):
                os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
                os.mkdir(f"{root}/{name}") if link is None else os.symlink(link, f"{root}/{name}")
        rules = [(f"{root}/{name}".rstrip("/"), access) for name, access in rulings]
        asked = confinement(("/", rest), *rules)
        told = look(asked)
        try:
            settled = settle(asked)
        except Unenforceable:
            assert told.refusal is not None
            return
        if told.refusal is not None:
            return  # a protected name that is a link
        for folder, folders, files in os.walk(root):
            for path in (folder, *[f"{folder}/{name}" for name in (*folders, *files)]):
                if not os.path.islink(path):
                    assert mounted(told, path) == settled.access(path), path


def mounted(told: Found, path: str) -> str:
    """What can be done with a path where all of this is mounted."""
    mounts = [(one, READ) for one in told.read_roots]
    for one in told.writable:
        mounts += [(one.target, WRITE), *[(each.path, READ) for each in one.protected if each.exists]]
    mounts += [(one.path, DENY) for one in told.hidden if one.exists]
    above = [
        (where.count("/") if where != "/" else 0, access) for where, access in mounts if covers(where, path)
    ]
    # Of two at the same place the stricter one is mounted later.
    deepest = max([depth for depth, _ in above], default=-1)
    last = [access for depth, access in above if depth == deepest]
    if DENY in last or not last:
        return DENY
    return READ if READ in last else WRITE
