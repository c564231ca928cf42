"""Where configuration is found, how files are read, and when they are read again."""

from __future__ import annotations

import errno
import os
import pwd
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outfitter.contract import config, freshness
from outfitter.contract.config import (
    Configuration,
    codex_file,
    find_project_file,
    load,
    project_candidates,
    read_file,
    user_file,
)
from outfitter.contract.file import MAX_BYTES
from outfitter.contract.settings import FileSettings, Settings, Source
from outfitter.errors import FileInvalid, SettingInvalid

LOGIN = '[shell]\nlogin = "reject"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository: nothing above it is looked at."""
    path = tmp_path / "project"
    (path / ".git").mkdir(parents=True)
    return path


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "OUTFITTER_HOME": str(home), "CODEX_HOME": str(home / "codex")}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# Places


def test_user_file_is_where_the_variables_say() -> None:
    every = {"OUTFITTER_HOME": "/o", "XDG_CONFIG_HOME": "/x", "HOME": "/h"}
    assert user_file(every) == "/o/config.toml"
    assert user_file({**every, "OUTFITTER_HOME": ""}) == "/x/outfitter/config.toml"
    assert user_file({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == "/h/.config/outfitter/config.toml"


def test_codex_file_is_where_codex_has_it() -> None:
    assert codex_file({"CODEX_HOME": "/c", "HOME": "/h"}) == "/c/config.toml"
    assert codex_file({"HOME": "/h"}) == "/h/.codex/config.toml"


def test_without_home_the_files_are_in_the_home_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=f"/home/{uid}"))
    for environ in ({}, {"HOME": ""}):
        assert user_file(environ) == f"/home/{os.geteuid()}/.config/outfitter/config.toml"
        assert codex_file(environ) == f"/home/{os.geteuid()}/.codex/config.toml"


def test_a_user_without_any_home_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)  # as in a container that runs as any number
    with pytest.raises(SettingInvalid, match="set HOME, XDG_CONFIG_HOME or OUTFITTER_HOME"):
        user_file({})
    with pytest.raises(SettingInvalid, match="set HOME or CODEX_HOME"):
        codex_file({})


def test_what_a_user_has_set_holds_where_home_is_not_set(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(home)))
    text = '[sandbox]\nmode = "workspace-write"\nallow_write = ["~/cache"]\n'
    write(home / ".config/outfitter/config.toml", text)
    said = load({"PATH": "/usr/bin:/bin"}, None).user_sandbox
    assert said is not None and said.sandbox.writable == (f"{home}/cache",)


def test_nearest_file_upwards_is_the_projects(project: Path) -> None:
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    assert find_project_file(str(inner)) is None
    top = write(project / "outfitter.toml", "")
    assert find_project_file(str(inner)) == str(top)
    near = write(project / "a" / "outfitter.toml", "")
    assert find_project_file(str(inner)) == str(near)
    # Also from a directory that is not there (any more).
    assert find_project_file(str(inner / "gone")) == str(near)


@pytest.mark.parametrize("is_file", [False, True], ids=["repository", "worktree"])
def test_git_ends_the_search_after_its_folder(tmp_path: Path, is_file: bool) -> None:
    outside = write(tmp_path / "outfitter.toml", "")
    inner = tmp_path / "repository" / "src"
    inner.mkdir(parents=True)
    assert find_project_file(str(inner)) == str(outside)
    git = inner.parent / ".git"
    write(git, "gitdir: elsewhere\n") if is_file else git.mkdir()
    assert find_project_file(str(inner)) is None
    own = write(inner.parent / "outfitter.toml", "")
    assert find_project_file(str(inner)) == str(own)


def test_search_goes_up_from_the_folder_and_not_from_the_link_to_it(tmp_path: Path, project: Path) -> None:
    file = write(project / "outfitter.toml", "")
    (project / "src").mkdir()
    write(tmp_path / "outfitter.toml", "")
    link = tmp_path / "link"
    link.symlink_to(project / "src")
    assert find_project_file(str(link)) == str(file)


def test_candidates_are_what_would_change_the_answer(project: Path) -> None:
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    paths = {
        str(folder / name) for folder in (inner, inner.parent, project) for name in ("outfitter.toml", ".git")
    }
    assert set(project_candidates(str(inner))) == paths
    write(inner.parent / "outfitter.toml", "")
    near = {str(inner / name) for name in ("outfitter.toml", ".git")}
    assert set(project_candidates(str(inner))) == near | {str(inner.parent / "outfitter.toml")}
    candidates = project_candidates("/")
    assert candidates == ["/outfitter.toml", "/.git"]


def test_file_that_somebody_else_put_in_a_public_folder_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = tmp_path / "public"
    inner = public / "mine"
    inner.mkdir(parents=True)
    file = write(public / "outfitter.toml", "")
    outside = write(tmp_path / "outfitter.toml", "")
    public.chmod(0o1777)
    assert find_project_file(str(inner)) == str(file)
    # Nobody but root can give files away, so it is us who become somebody else.
    monkeypatch.setattr(config.os, "geteuid", lambda: os.getuid() + 1)
    owner = file.stat().st_uid
    expected = file if owner == 0 else outside
    assert find_project_file(str(inner)) == str(expected)
    if owner == 0:  # then we can
        os.chown(file, 12345, -1)
        assert find_project_file(str(inner)) == str(outside)
    public.chmod(0o755)
    assert find_project_file(str(inner)) == str(file)


# Files


def told(path: Path, kind: str = "project") -> str:
    with pytest.raises(FileInvalid) as error:
        read_file(str(path), kind, None)
    return str(error.value).removeprefix(str(path))


def test_file_is_read_with_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "outfitter.toml", LOGIN)
    monkeypatch.chdir(tmp_path)
    said = FileSettings(str(path), "project", login="reject", lines={"shell.login": 2})
    assert read_file("outfitter.toml", "project", None) == said


def test_file_that_does_not_exist_is_none(tmp_path: Path) -> None:
    assert read_file(str(tmp_path / "x"), "project", None) is None
    file = write(tmp_path / "file", "")
    assert read_file(str(file / "x"), "project", None) is None


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "outfitter.toml"
    path.mkdir()
    assert told(path) == ": cannot be read: it is not a file; put a file in its place, or remove it"
    path.rmdir()
    os.mkfifo(path)
    assert told(path) == ": cannot be read: it is not a file; put a file in its place, or remove it"
    path.unlink()
    path.symlink_to("gone")
    assert told(path) == ": cannot be read: it is a broken symbolic link; correct or remove the link"
    path.unlink()
    path.symlink_to(path)
    assert told(path) == (
        ": cannot be read: too many levels of symbolic links; make it a readable file, or remove it"
    )
    path.unlink()
    path.write_bytes(b"# caf\xc3\xa9\n# caf\xe9\n")
    assert told(path) == ":2: not UTF-8; save the file as UTF-8"


def test_file_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path / "outfitter.toml", "#" * MAX_BYTES["project"])
    assert read_file(str(path), "project", None) == FileSettings(str(path), "project")
    write(path, "#" * (MAX_BYTES["project"] + 1))
    assert told(path) == ": cannot be read: it has more than 65536 bytes; make it shorter"
    assert read_file(str(path), "user", None) == FileSettings(str(path), "user")


def test_load_puts_all_files_together(home: Path, project: Path, environ: dict[str, str]) -> None:
    user = write(home / "config.toml", '[import]\ncodex = true\n[env]\nprepend = { PATH = ["~/bin"] }\n')
    codex = write(home / "codex" / "config.toml", "allow_login_shell = true\n")
    own = write(project / "outfitter.toml", LOGIN)
    settings = load(environ, str(project))
    assert settings.files == (
        (str(user), "user", True),
        (str(codex), "codex", True),
        (str(own), "project", True),
    )
    assert settings.sources["shell.login"] == Source(str(own), 2, "project")
    assert settings.user_env is not None
    assert settings.user_env.operations == (("PATH", "prepend", (f"{home}/bin",), 4),)
    outside = load(environ, None)
    assert outside.sources["shell.login"] == Source(str(codex), 1, "codex")


def test_import_of_a_file_by_its_path(home: Path, environ: dict[str, str]) -> None:
    user = write(home / "config.toml", '[import]\ncodex = "other.toml"\n')
    with pytest.raises(FileInvalid) as error:
        load(environ, None)
    assert str(error.value) == (
        f"{user}:2: `import.codex` names a file that does not exist; correct the path, or write codex = true"
    )
    write(home / "other.toml", "allow_login_shell = false\n")
    assert load(environ, None).login == "reject"
    # One that Codex does not have either is no mistake.
    write(user, "[import]\ncodex = true\n")
    assert load(environ, None).files[1] == (str(home / "codex" / "config.toml"), "codex", False)
    write(user, "[import]\ncodex = false\n")
    assert len(load(environ, None).files) == 1


def test_mistakes_of_all_files_are_told_at_once(home: Path, project: Path, environ: dict[str, str]) -> None:
    write(home / "config.toml", "[import]\ncodex = true\n")
    write(home / "codex" / "config.toml", "allow_login_shell = 1\n")
    write(project / "outfitter.toml", "x = 1\n[daemon]\n")
    with pytest.raises(FileInvalid) as error:
        load(environ, str(project))
    places = [(mistake.file, mistake.line) for mistake in error.value.mistakes]
    theirs = str(project / "outfitter.toml")
    assert places == [(str(home / "codex" / "config.toml"), 1), (theirs, 1), (theirs, 2)]


def test_without_a_home_there_is_no_user_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    settings = load({}, str(project))
    assert (settings.files, settings.login) == ((), "strip")


def test_nothing_slow_is_imported_until_there_is_a_file(project: Path, tmp_path: Path) -> None:
    script = (
        "import sys; before = set(sys.modules)\n"
        "from outfitter.contract.config import Configuration\n"
        f"Configuration({{'HOME': {str(tmp_path)!r}}}).settings({str(project)!r})\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    slow = {"tomllib", "json", "re", "typing", "enum", "dataclasses", "difflib", "outfitter.toml"}
    assert slow & set(done.stdout.split()) == set()


# Again and again


def test_same_object_while_nothing_changes(home: Path, project: Path, environ: dict[str, str]) -> None:
    write(home / "config.toml", "")
    write(project / "outfitter.toml", LOGIN)
    (project / "a" / "b").mkdir(parents=True)
    configuration = Configuration(environ)
    settings = configuration.settings(str(project))
    write(project / "a" / "other", "not of interest")
    # All directories of a project share one.
    for folder in (project, project / "a", project / "a" / "b", project):
        assert configuration.settings(str(folder)) is settings
    assert configuration.version == 0


def change(path: Path, text: str) -> None:
    write(path, text)


def replace(path: Path, text: str) -> None:
    os.replace(write(path.with_suffix(".new"), text), path)


@pytest.mark.parametrize("rewrite", [change, replace])
def test_change_is_noticed_at_once_however_it_is_made(
    project: Path, environ: dict[str, str], rewrite: object
) -> None:
    file = write(project / "outfitter.toml", LOGIN)
    configuration = Configuration(environ)
    # In the same tick of the clock and with as many bytes.
    for startup, login in (("repair", "reject"), ("report", "strip "), ("repair", "reject")) * 20:
        text = (
            f'[shell]\nlogin = "{login.strip()}"\nstartup = "{startup}"\n#{" " * (6 - len(login.strip()))}\n'
        )
        rewrite(file, text)  # type: ignore[operator]
        assert configuration.settings(str(project)).login == login.strip()
    assert configuration.version > 1


def test_file_that_is_touched_but_says_the_same_is_no_change(project: Path, environ: dict[str, str]) -> None:
    file = write(project / "outfitter.toml", LOGIN)
    configuration = Configuration(environ)
    settings = configuration.settings(str(project))
    os.utime(file)
    assert configuration.settings(str(project)) is settings
    assert configuration.version == 0


def test_what_comes_and_goes_is_noticed(home: Path, project: Path, environ: dict[str, str]) -> None:
    configuration = Configuration(environ)
    inner = project / "a"
    inner.mkdir()

    def login() -> str:
        return configuration.settings(str(inner)).login

    assert login() == "strip"
    write(project / "outfitter.toml", LOGIN)
    assert login() == "reject"
    write(inner / "outfitter.toml", "")
    assert login() == "strip"
    (inner / "outfitter.toml").unlink()
    assert login() == "reject"
    (inner / ".git").mkdir()
    assert login() == "strip"
    (inner / ".git").rmdir()
    assert login() == "reject"
    (project / "outfitter.toml").unlink()
    assert login() == "strip"
    write(home / "config.toml", "[import]\ncodex = true\n")
    assert login() == "strip"
    write(home / "codex" / "config.toml", "allow_login_shell = true\n")
    assert login() == "allow"
    (home / "config.toml").unlink()
    assert login() == "strip"
    assert configuration.version == 9


def test_link_that_leads_elsewhere_now_is_noticed(
    tmp_path: Path, project: Path, environ: dict[str, str]
) -> None:
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    write(other / "outfitter.toml", LOGIN)
    link = tmp_path / "link"
    link.symlink_to(project)
    configuration = Configuration(environ)
    assert configuration.settings(str(link)).login == "strip"
    link.unlink()
    link.symlink_to(other)
    assert configuration.settings(str(link)).login == "reject"


def test_mistake_is_told_until_it_is_mended(project: Path, environ: dict[str, str]) -> None:
    file = write(project / "outfitter.toml", "x = 1\n")
    configuration = Configuration(environ)
    for _ in range(2):
        with pytest.raises(FileInvalid, match=r"outfitter.toml:1: unknown field `x`"):
            configuration.settings(str(project))
    write(file, LOGIN)
    assert configuration.settings(str(project)).login == "reject"


def test_memory_is_bounded(project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MAX_DIRECTORIES", 8)
    write(project / "outfitter.toml", LOGIN)
    configuration = Configuration(environ)
    folders = [project / str(number) for number in range(20)]
    for folder in folders:
        write(folder / "outfitter.toml", "")
    found = [configuration.settings(str(folder)) for folder in folders]
    assert all(isinstance(settings, Settings) for settings in found)
    assert len(configuration._seen) == 8
    assert len(configuration._files) <= 8
    assert configuration.settings(str(folders[-1])) is found[-1]
    assert configuration.settings(str(folders[0])).login == "strip"


def test_warm_call_reads_nothing(
    home: Path, project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "config.toml", "")
    write(project / "outfitter.toml", LOGIN)
    configuration = Configuration(environ)
    monkeypatch.setattr(freshness, "TICK_NS", 0)  # as if the files were old
    settings = configuration.settings(str(project))

    def refused(*args: object) -> int:
        raise AssertionError("a file was opened")

    monkeypatch.setattr(config.os, "open", refused)
    assert configuration.settings(str(project)) is settings
    # Nor does a new directory of the same project read them again.
    assert configuration.settings(str(project / ".git")) is settings


@pytest.mark.parametrize("exists", [False, True])
def test_lack_of_descriptors_is_no_mistake_and_not_remembered(
    exists: bool, home: Path, project: Path, environ: dict[str, str]
) -> None:
    if exists:
        write(home / "config.toml", LOGIN)
    configuration = Configuration(environ)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(FileInvalid) as raised:
            configuration.settings(str(project))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert str(raised.value) == f"{home}/config.toml: cannot be read: too many open files; try again"
    assert configuration.settings(str(project)).login == ("reject" if exists else Settings().login)


# Of the folder, the first look is whether it is still the same one.
@pytest.mark.parametrize(("failing", "spared"), [("outfitter.toml", 0), ("project", 1), (".git", 0)])
def test_a_look_that_the_machine_cannot_do_is_not_remembered(
    failing: str, spared: int, project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project
    if failing == ".git":
        folder = project / "below"
        folder.mkdir()
    write(project / "outfitter.toml", LOGIN)
    configuration = Configuration(environ)
    real = os.stat
    looks: list[str] = []

    def look(path: str, *args: Any, **more: Any) -> os.stat_result:
        if os.path.basename(path) == failing:
            looks.append(path)
            if len(looks) > spared:
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return real(path, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", look)
        with pytest.raises(FileInvalid, match="cannot be read: cannot allocate memory; try again"):
            configuration.settings(str(folder))
    assert configuration.settings(str(folder)).login == "reject"
