"""Tools for which files stay as they were checked, whatever is done to them outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from outfitter.core.launch import Launch
from outfitter.errors import LaunchFailed
from outfitter.host.spawn import Spawner, Stdio
from outfitter.host.starters import Starter
from outfitter.host.tools.freezing import REFUSED
from outfitter.host.tools.frozen import FrozenFiles
from outfitter.host.tools.layout import layout
from tests.support.machine import wait_until
from tests.support.users import NOBODY, installed

ENV = {"PATH": "/usr/bin:/bin"}


class Project:
    """A folder with trusted files in it, and a tool that waits until something was done to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top = folder / "project"
        self.waiting, self.go = folder / "waiting", folder / "go"
        for path in (self.waiting, self.go):
            os.mkfifo(path)
        self.write("app/config", "good")
        self.write("app/data", "data")
        self.write("other/deep/file", "deep")
        self.write("beside", "beside")
        self.files: dict[str, bytes | None] = {
            str(self.top / "app/config"): b"good",
            str(self.top / "app/absent"): None,
        }

    def write(self, name: str, text: str) -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(
        self, script: str, meanwhile: Callable[[], object] = lambda: None, cwd: str = "app", lost: str = ""
    ) -> str:
        """What a tool prints that waits for what is done outside; then the namespace is gone."""
        frozen = FrozenFiles(str(self.top), self.files)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        text = f"echo >{self.waiting}; read x <{self.go}; {script}"
        launch = Launch("sh", ["sh", "-c", text], str(self.top / cwd), ENV)
        try:
            pid = frozen.spawn(Spawner(), launch, Stdio(-1, writing, writing), None)
            os.close(writing)
            self.waiting.read_text()
            if frozen.why:
                pytest.skip(frozen.why)
            meanwhile()
            self.go.write_text("\n")
            with open(reading, "rb", closefd=False) as file:
                said = file.read().decode()
            os.waitpid(pid, 0)
        finally:
            os.close(reading)
            frozen.close()
        assert frozen.lost == lost
        return said


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def renamed_onto(project: Project) -> None:
    project.write("new", "evil").rename(project.top / "app/config")


def written(project: Project) -> None:
    project.write("app/config", "evil")


def made_anew(project: Project) -> None:
    (project.top / "app/config").unlink()
    project.write("app/config", "evil")


def linked(project: Project) -> None:
    (project.top / "app/config").unlink()
    (project.top / "app/config").symlink_to(project.write("evil", "evil"))


def folder_swapped(project: Project) -> None:
    (project.top / "app").rename(project.top / "away")
    project.write("app/config", "evil")
    project.write("app/absent", "evil")


def added(project: Project) -> None:
    project.write("app/absent", "evil")


@pytest.mark.parametrize("swap", [renamed_onto, written, made_anew, linked, folder_swapped, added])
def test_what_is_done_outside_changes_nothing(project: Project, swap: Callable[[Project], None]) -> None:
    script = f"cat config absent {project.top}/app/config {project.top}/app/absent 2>/dev/null"
    assert project.run(script, lambda: swap(project)) == "goodgood"
    assert "evil" in (project.top / "app/absent" if swap is added else project.top / "app/config").read_text()


def test_files_are_found_through_links(project: Project) -> None:
    (project.top / "app/config").rename(project.top / "other/real")
    (project.top / "app/config").symlink_to("../link")
    (project.top / "link").symlink_to(project.top / "other/real")

    def swap() -> None:
        evil = project.write("evil", "evil")
        for name in ("app/config", "link"):
            (project.top / name).unlink()
            (project.top / name).symlink_to(evil)
        os.replace(project.write("evil2", "evil"), project.top / "other/real")

    assert project.run("cat config; readlink config", swap) == "good../link\n"


def test_a_file_outside_cannot_be_written_meanwhile(project: Project) -> None:
    outside = project.folder / "outside"
    outside.write_text("good")
    project.files[str(outside)] = b"good"
    assert project.run(f"cat {outside}; echo x >>{outside}", lambda: outside.write_text("evil")) == (
        f"goodsh: 1: cannot create {outside}: Read-only file system\n"
    )
    assert outside.read_text() == "evil"


def test_what_a_tool_writes_is_kept(project: Project) -> None:
    script = """
        echo a >new; mkdir -p made/deep; echo b >made/deep/file; ln -s new link; echo c >../other/deep/file
        echo d >data; echo e >between; mv between ../beside; rm -f ../gone; echo f >absent; cat made/deep/file
    """
    gone = project.write("gone", "x")
    assert project.run(script) == "b\n"
    read = {name: (project.top / name).read_text() for name in ("app/new", "app/made/deep/file", "app/link")}
    assert read == {"app/new": "a\n", "app/made/deep/file": "b\n", "app/link": "a\n"}
    others = ("other/deep/file", "app/data", "beside", "app/absent")
    assert [(project.top / name).read_text() for name in others] == ["c\n", "d\n", "e\n", "f\n"]
    assert not gone.exists()
    assert sorted(os.listdir(project.top)) == ["app", "beside", "other"]


def test_a_trusted_file_that_its_tool_rewrites_is_kept_unless_others_changed_it(project: Project) -> None:
    project.run("echo tool >config")
    assert (project.top / "app/config").read_text() == "tool\n"
    project.write("app/config", "good")
    project.run("echo tool >config", lambda: written(project))
    assert (project.top / "app/config").read_text() == "evil"


def test_what_a_tool_touches_or_lets_run_stays_so(project: Project) -> None:
    # if [ requirements.txt -nt .stamp ]; then pip install ...; touch .stamp; fi
    beside, config = project.top / "beside", project.top / "app/config"
    os.utime(beside, ns=(0, 0))
    before = config.stat()
    project.run("touch -d @1000000000 ../beside config; chmod 755 data")
    assert (beside.read_text(), beside.stat().st_mtime) == ("beside", 1_000_000_000)
    assert (project.top / "app/data").stat().st_mode & 0o777 == 0o755
    assert config.stat().st_mtime_ns == before.st_mtime_ns  # what is trusted is as it was when it was checked


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_has_no_half_of_a_folder(tmp_path: Path) -> None:
    # An .envrc would take half of a virtual environment for one that is made.
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=False)
    if done.returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        project = Project(disk)
        project.run("mkdir made; for i in 1 2 3; do head -c 999999 /dev/zero >made/$i; done", lost="app/made")
        project.run("head -c 3000000 /dev/zero >large", lost="app/large")
        assert sorted(os.listdir(project.top / "app")) == ["config", "data"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_with_a_pipe_is_kept_without_it_and_that_is_told(project: Project) -> None:
    project.run("mkdir made; echo a >made/file; mkfifo made/pipe", lost="app/made")
    assert os.listdir(project.top / "app/made") == ["file"]


def test_what_was_not_touched_keeps_its_identity(project: Project) -> None:
    names = ("app/config", "app/data", "beside")
    before = [(project.top / name).stat() for name in names]
    assert project.run("cat config data ../beside; : >>data") == "gooddatabeside"
    after = [(project.top / name).stat() for name in names]
    assert [(one.st_ino, one.st_mtime_ns) for one in after] == [
        (one.st_ino, one.st_mtime_ns) for one in before
    ]


def test_nothing_starts_when_a_file_has_gone(project: Project) -> None:
    shutil.rmtree(project.top / "app")
    with pytest.raises(LaunchFailed, match="has gone"):
        project.run("true")


def test_files_that_are_too_large_are_not_frozen(project: Project) -> None:
    project.files[str(project.top / "app/config")] = b"x" * (7 << 20)
    frozen = FrozenFiles(str(project.top), project.files)
    pid = frozen.spawn(Spawner(), Launch("true", ["true"], "/", ENV), Stdio(-1, 1, 2), None)
    assert os.waitpid(pid, 0)[1] == 0
    assert frozen.why == "its files have more than 6 MiB"


def test_nothing_is_left_behind(project: Project) -> None:
    project.run("true")
    begun = project.waiting.stat().st_ctime_ns

    def left() -> list[str]:
        """Tests beside this one have some for a moment."""
        names = [f"/tmp/{name}" for name in os.listdir("/tmp") if name.startswith("outfitter-freeze-")]
        return [path for path in names if os.path.exists(path) and os.stat(path).st_ctime_ns > begun]

    wait_until(lambda: not left(), "folders of namespaces go away")


def test_nothing_comes_into_a_closed_folder(project: Project) -> None:
    project.write("app/conf.d/one", "good")
    project.files |= {str(project.top / "app/conf.d/one"): b"good", f"{project.top}/app/conf.d/": None}

    def swap() -> None:
        project.write("app/conf.d/two", "evil")
        renamed_onto(project)

    assert project.run("cat conf.d/*; echo mine >conf.d/three", swap) == "good"
    assert sorted(os.listdir(project.top / "app/conf.d")) == ["one", "three", "two"]


@pytest.mark.parametrize("folder", ["app/", ""])
def test_a_folder_of_which_the_names_count_shows_no_others(project: Project, folder: str) -> None:
    (project.top / f"{folder}link").symlink_to("made")
    (project.top / f"{folder}made").mkdir()
    kept = sorted(os.listdir(project.top / folder))
    project.files[f"{project.top}/{folder}"] = "".join(f"{name}\0" for name in kept).encode()
    project.write(f"{folder}between", "evil")  # after it was looked at, and before the tool is there

    def swap() -> None:
        project.write(f"{folder}evil", "evil")
        renamed_onto(project)

    script = f"cat config; cd {project.top}/{folder}; echo mine >new; echo more >link/file; ls -A"
    said = project.run(script, swap)
    assert said == "good" + "".join(f"{name}\n" for name in sorted([*kept, "new"]))
    assert sorted(os.listdir(project.top / folder)) == sorted([*kept, "between", "evil", "new"])
    assert (project.top / f"{folder}made/file").read_text() == "more\n"


def test_a_file_that_came_before_the_tool_is_not_there(project: Project) -> None:
    project.write("app/absent", "evil")
    assert project.run("cat config; ls") == "goodconfig\ndata\n"


def test_a_project_that_changes_meanwhile_is_no_reason_to_do_without(project: Project) -> None:
    project.files |= {f"{project.top}/app/": b"config\0data\0", f"{project.top}/app/data/": None}
    with pytest.raises(LaunchFailed, match="refused: data: Not a directory"):
        project.run("true")


def test_what_is_one_thing_and_then_another_is_refused(project: Project) -> None:
    entries = [("app", None, 0), ("app/config", b"good", 0o644)]  # not there, and then with a file in it
    starter = Starter(Spawner(), "host.tools.freezing", (str(project.top), entries, []))
    try:
        why = starter.answer()
    finally:
        starter.close()
    if "unshare" in why:
        pytest.skip(why)
    assert why == f"{REFUSED}File exists"


def test_files_elsewhere_need_no_overlay(project: Project) -> None:
    outside = project.folder / "outside"
    outside.write_text("good")
    project.files = {str(outside): b"good"}
    assert project.run(f"cat {outside}; echo x >made", lambda: outside.write_text("evil")) == "good"
    assert (project.top / "app/made").read_text() == "x\n"


def test_a_loop_of_links_is_nothing_to_freeze(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    entries, outside = layout(str(tmp_path), {str(tmp_path / "a"): None})
    assert (sorted(entries), outside) == ([("a", "b", 0), ("b", "a", 0)], [])


ORDINARY = """\
import os, sys
from outfitter.core.launch import Launch
from outfitter.host.tools.freezing import REFUSED
from outfitter.host.tools.frozen import FrozenFiles
from outfitter.host.spawn import Spawner, Stdio
from outfitter.host.starters import Starter
top = sys.argv[1]
frozen = FrozenFiles(top, {top + "/file": b"good", top + "/absent": None})
def run(script):
    launch = Launch("sh", ["sh", "-c", script], top, {"PATH": "/usr/bin:/bin"})
    os.waitpid(frozen.spawn(Spawner(), launch, Stdio(-1, 1, 1), None), 0)
run("id -u")
os.rename(top + "/new", top + "/file")
open(top + "/absent", "w").write("evil")
run("cat file inner/file; echo; cat absent; umount . && echo evil; echo mine >made; echo own >inner/file")
frozen.close()
print(frozen.why, frozen.lost, open(top + "/made").read())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
def test_an_ordinary_user_has_it_too() -> None:
    python, place = installed()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        top = Path(folder) / "top"
        for name, text in (("file", "good"), ("new", "evil"), ("inner/file", " inner")):
            (top / name).parent.mkdir(exist_ok=True)
            (top / name).write_text(text)
        subprocess.run(["chown", "-R", str(NOBODY), top], check=True)
        done = subprocess.run(
            [python, "-c", ORDINARY, top],
            capture_output=True,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={"PYTHONPATH": str(place), "PATH": ENV["PATH"], "LC_ALL": "C"},
            check=False,
        )
        kept = (top / "inner/file").read_text()
    said = done.stdout.decode()
    if "unshare" in said.splitlines()[-1]:
        pytest.skip("this kernel gives ordinary users no namespaces")
    first, second, *_ = said.splitlines()
    assert (first, second, "evil" in said, kept) == (str(NOBODY), "good inner", False, "own\n"), done
    assert said.endswith("  mine\n\n"), done


def test_where_the_kernel_forbids_it_the_tool_runs_and_the_reason_is_told(project: Project) -> None:
    code = (
        "import os; from outfitter.core.launch import Launch;"
        "from outfitter.host.tools.frozen import FrozenFiles;"
        "from outfitter.host.spawn import Spawner, Stdio;"
        f"frozen = FrozenFiles({str(project.top)!r}, {project.files!r});"
        "pid = frozen.spawn(Spawner(), Launch('echo', ['echo', 'ran'], '/', {}), Stdio(-1, 1, 1), None);"
        "os.waitpid(pid, 0); print(frozen.why)"
    )
    script = 'echo 0 >/proc/sys/user/max_mnt_namespaces; exec "$@"'
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script, "sh", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**ENV, "PYTHONPATH": ":".join(path for path in sys.path if path)},
        check=False,
    )
    assert done.stdout == "ran\nunshare: No space left on device\n", done
