"""Commands for which files look empty, in the whole tree below them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outfitter.core.launch import Launch
from outfitter.errors import LaunchFailed, MasksUnavailable
from outfitter.host.masks import Masks, check, existing
from outfitter.host.spawn import Spawner, Stdio
from tests.support.machine import wait_until
from tests.support.users import NOBODY, installed

MARK = (1 << 62) + 12345
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}


@pytest.fixture
def masks(tmp_path: Path) -> Iterator[Masks]:
    try:
        check((str(tmp_path),))
    except MasksUnavailable as error:
        pytest.skip(str(error))
    masks = Masks(Spawner())
    yield masks
    masks.close()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "file").write_text("hush")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_text("hush")
    return str(tmp_path / "file"), str(tmp_path / "folder")


class Ran:
    """One command, run to its end."""

    def __init__(self, masks: Masks, argv: list[str], masked: tuple[str, ...], **more: object) -> None:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            env = {**ENV, **more.get("env", {})}  # type: ignore[dict-item]
            launch = Launch(argv[0], argv, str(more.get("cwd", "/")), env, masks=masked)
            self.pid = masks.spawn(launch, Stdio(-1, writing, writing), MARK)
        finally:
            os.close(writing)
        with open(reading, "rb") as file:
            self.output = file.read()
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_files_and_folders_look_empty_and_cannot_be_written(masks: Masks, files: tuple[str, str]) -> None:
    file, folder = files
    script = f'cat {file}; ls -A {folder}; sh -c "cat {file}"; echo x >{file}; echo x >{folder}/x; echo end'
    said = Ran(masks, ["sh", "-c", script], files).output.decode().splitlines()
    assert [line.rpartition(": ")[2] for line in said] == ["Read-only file system"] * 2 + ["end"]
    assert Path(file).read_text() == "hush"  # for everybody else they are as they were
    assert os.listdir(folder) == ["inner"]


def test_a_command_is_as_any_other(masks: Masks, files: tuple[str, str], tmp_path: Path) -> None:
    code = (
        "import os, resource, signal;"
        "print(os.getppid(), os.getsid(0) == os.getpid(), os.getcwd(), os.environ['GIVEN'],"
        "resource.getrlimit(resource.RLIMIT_RTTIME)[0], sorted(os.listdir('/proc/self/fd'))[:3],"
        "signal.getsignal(signal.SIGXFSZ) == signal.SIG_DFL, os.getuid(), os.getgid())"
    )
    ran = Ran(masks, [sys.executable, "-I", "-c", code], files, cwd=tmp_path, env={"GIVEN": "ä\n"})
    me = f"{os.getpid()} True {tmp_path} ä\n {MARK} ['0', '1', '2']"
    # Python itself ignores SIGXFSZ in this child.
    assert ran.output.decode() == f"{me} False {os.getuid()} {os.getgid()}\n"
    assert Ran(masks, ["sh", "-c", "exit 7"], files).status == 7
    assert Ran(masks, ["sh", "-c", "kill -PIPE $$; exit 1"], files).status == -13


def test_nothing_of_ours_is_open_in_a_command(masks: Masks, files: tuple[str, str]) -> None:
    listed = Ran(masks, ["ls", "/proc/self/fd"], files).output.split()
    assert listed == [b"0", b"1", b"2", b"3"]  # the last is ls's own


def test_descriptors_keep_their_order(masks: Masks, files: tuple[str, str], tmp_path: Path) -> None:
    one, other = os.pipe(), os.pipe()
    try:
        os.write(one[1], b"one\n")
        os.write(other[1], b"other\n")
        script = "read a <&3; read b <&4; echo $a $b >&1"
        out = tmp_path / "out"
        with out.open("wb") as file:
            launch = Launch("sh", ["sh", "-c", script], "/", ENV, masks=files, descriptors=(one[0], other[0]))
            pid = masks.spawn(launch, Stdio(-1, file.fileno(), file.fileno()))
            os.waitpid(pid, 0)
        assert out.read_text() == "one other\n"
    finally:
        for fd in (*one, *other):
            os.close(fd)


def test_a_large_environment_arrives_whole(masks: Masks, files: tuple[str, str]) -> None:
    env = {f"N{number}": "x" * 100_000 for number in range(10)}
    ran = Ran(masks, ["sh", "-c", 'echo "$N9" | wc -c'], files, env=env)
    assert ran.output.strip() == b"100001"


@pytest.mark.parametrize(
    ("launch", "code", "subject"),
    [
        (Launch("not-there", ["x"], "/", ENV), "ENOENT", "program"),
        (Launch("/not/there", ["x"], "/", ENV), "ENOENT", "program"),
        (Launch("true", ["true"], "/not/there", ENV), "ENOENT", "cwd"),
        (Launch("/etc", ["x"], "/", ENV), "EACCES", "program"),
    ],
)
def test_what_cannot_be_started_is_an_error_as_ever(
    masks: Masks, files: tuple[str, str], launch: Launch, code: str, subject: str
) -> None:
    with open(os.devnull, "wb") as null:
        stdio = Stdio(-1, null.fileno(), null.fileno())
        with pytest.raises(LaunchFailed) as plain:
            Spawner().spawn(launch, stdio)
        masked = Launch(launch.program, launch.argv, launch.cwd, launch.env, masks=files)
        with pytest.raises(LaunchFailed) as caught:
            masks.spawn(masked, stdio)
    assert str(caught.value) == str(plain.value)
    assert (caught.value.errno_name, caught.value.subject) == (code, subject)


def test_a_namespace_is_made_once_and_again_when_somebody_ends_it(
    masks: Masks, files: tuple[str, str]
) -> None:
    Ran(masks, ["true"], files)
    [helper] = masks.pids
    Ran(masks, ["true"], files)
    assert masks.pids == [helper]
    os.kill(helper, 9)
    assert Ran(masks, ["cat", files[0]], files).output == b""
    assert helper not in masks.pids
    for number in range(6):
        Ran(masks, ["true"], files[: 1 + number % 2])
    assert len(masks.pids) == 2


def test_closing_leaves_no_process_and_no_folder(masks: Masks, files: tuple[str, str]) -> None:
    before = _folders()
    Ran(masks, ["true"], files)
    [helper] = masks.pids
    masks.close()
    assert not Path(f"/proc/{helper}").exists()
    new = _folders() - before
    # Another test may be making a namespace just now, and takes its folder away.
    wait_until(lambda: not new & _folders(), "the folder is gone")


def _folders() -> set[str]:
    return {name for name in os.listdir("/tmp") if name.startswith("outfitter-mask-")}


def test_a_file_that_was_replaced_is_masked_for_the_next_command(
    masks: Masks, files: tuple[str, str], tmp_path: Path
) -> None:
    file, folder = files
    assert Ran(masks, ["cat", file], files).output == b""
    [before] = masks.pids
    (tmp_path / "new").write_text("from an editor")
    (tmp_path / "new").rename(file)
    os.rename(folder, f"{folder}.old")
    os.rename(f"{folder}.old", folder)
    assert Ran(masks, ["sh", "-c", f"cat {file}; ls -A {folder}"], files).output == b""
    # Also where nothing tells that: a folder above it is another one.
    os.rename(tmp_path, f"{tmp_path}.old")
    os.mkdir(tmp_path)
    (tmp_path / "file").write_text("from a swap")
    assert Ran(masks, ["cat", file], files).output == b""
    assert masks.pids == [before]


def renamed_onto(file: Path, link: Path) -> None:
    for text in ("from an editor", "and once more"):
        (file.parent / "new").write_text(text)
        (file.parent / "new").rename(file)


def made_anew(file: Path, link: Path) -> None:
    file.unlink()
    file.write_text("from an editor")


def linked_elsewhere(file: Path, link: Path) -> None:
    (link.parent / "new").symlink_to(file.parent / "other")
    (link.parent / "new").rename(link)


@pytest.mark.parametrize("replace", [renamed_onto, made_anew, linked_elsewhere])
def test_a_file_that_is_replaced_while_a_command_runs_is_masked_for_it_again(
    masks: Masks, files: tuple[str, str], tmp_path: Path, replace: Callable[[Path, Path], None]
) -> None:
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(files[0])
    (tmp_path / "other").write_text("from elsewhere")
    for name in ("waiting", "go"):
        os.mkfifo(tmp_path / name)
    # The command itself waits for the mask: it comes, without another command.
    wait = f"until cmp -s {link} /dev/null; do :; done"
    script = f"echo >{tmp_path}/waiting; read x <{tmp_path}/go; {wait}; cat {link}"
    out = tmp_path / "out"
    with out.open("wb") as output:
        launch = Launch("sh", ["sh", "-c", script], "/", ENV, masks=(str(link),))
        pid = masks.spawn(launch, Stdio(-1, output.fileno(), output.fileno()))
    (tmp_path / "waiting").read_text()
    replace(Path(files[0]), link)
    (tmp_path / "go").write_text("\n")
    assert os.waitpid(pid, 0)[1] == 0
    assert out.read_bytes() == b""
    assert link.read_text() != ""  # for everybody else it is as it is


def test_what_is_not_there_is_not_masked(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.symlink("nowhere", tmp_path / "b")
    assert existing([f"{tmp_path}/{name}" for name in "abc"]) == (f"{tmp_path}/a",)


ORDINARY = """\
import os
from outfitter.core.launch import Launch
from outfitter.host.masks import Masks
from outfitter.host.spawn import Spawner, Stdio
argv = ["sh", "-c", "wc -c </etc/passwd; id -u; umount /etc/passwd"]
launch = Launch("sh", argv, "/", {"PATH": "/usr/bin:/bin"}, masks=("/etc/passwd",))
os.waitpid(Masks(Spawner()).spawn(launch, Stdio(-1, 1, 1)), 0)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
def test_an_ordinary_user_can_have_them_too() -> None:
    python, place = installed()
    done = subprocess.run(
        [python, "-c", ORDINARY],
        capture_output=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PYTHONPATH": str(place), "PATH": ENV["PATH"]},
        check=False,
    )
    if b"MasksUnavailable" in done.stderr:
        pytest.skip("this kernel gives ordinary users no namespaces")
    lines = done.stdout.decode().splitlines()
    assert lines[:2] == ["0", str(NOBODY)], done
    # It cannot be taken away again.
    assert "must be superuser" in lines[2] or "not permitted" in lines[2]


def test_where_the_kernel_forbids_it_the_error_says_what_to_do(masks: Masks) -> None:
    code = "from outfitter.host.masks import check; check(('/etc/passwd',))"
    script = 'echo 0 >/proc/sys/user/max_mnt_namespaces; exec "$@"'
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script, "sh", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**ENV, "PYTHONPATH": ":".join(path for path in sys.path if path)},
        check=False,
    )
    said = done.stderr.splitlines()[-1]
    assert said.startswith('outfitter.errors.MasksUnavailable: descendants = "mask" does not work'), done
    assert "(unshare: " in said
    assert 'write descendants = "flag" under [shell]' in said
