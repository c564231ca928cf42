"""outfitter env lock and check: drift is noticed, and no value is written down."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from outfitter.cli.env import lockfile
from outfitter.cli.env.output import write_whole
from tests.support.machine import terminal

from .commandline import User
from .project import FILE, SECRETS, make, words

NO_TOOLS = ("--tool", "nonesuch")
ALL = (*NO_TOOLS, "--layers", "all")


@pytest.fixture
def project(user: User) -> Path:
    return make(user)


def tool(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_lock_is_beside_the_projects_file_and_check_finds_it(user: User, project: Path) -> None:
    (project / "sub").mkdir()
    done = user.run("env", "lock", "--cwd", "project/sub", *ALL, env=SECRETS)
    assert (done.returncode, done.stderr) == (0, b"")
    lock = project / "outfitter.lock"
    assert done.stdout.decode() == f"{lock}: 8 variables, 0 tools\n"
    told = json.loads(user.run("env", "lock", "--json", "--cwd", "project", *ALL, env=SECRETS).stdout)
    assert (told["file"], len(told["variables"]), told["tools"]) == (str(lock), 8, [])
    for folder in ("project", "project/sub"):
        done = user.run("env", "check", "--cwd", folder, env=SECRETS)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"same as {lock}\n".encode(), b"")


@pytest.mark.parametrize("there", [True, False])
def test_link_of_the_project_does_not_lead_the_lock_out_of_it(user: User, project: Path, there: bool) -> None:
    profile, lock = user.home / ".profile", project / "outfitter.lock"
    if there:
        profile.write_text("mine\n")
    lock.symlink_to("../.profile")
    done = user.run("env", "lock", "--cwd", "project", *ALL)
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"{lock} is a link to {profile}, out of the project: remove it" in done.stderr.decode()
    assert (profile.read_text() if there else profile.exists()) == ("mine\n" if there else False)
    lock.unlink()
    lock.symlink_to("locks/own")
    (project / "locks").mkdir()
    assert user.run("env", "lock", "--cwd", "project", *ALL).returncode == 0
    assert lock.is_symlink() and lock.is_file()


def test_without_a_project_it_is_in_the_directory(user: User) -> None:
    assert user.run("env", "lock", *ALL).returncode == 0
    assert (user.home / "outfitter.lock").is_file()
    assert user.run("env", "lock", "--file", "other.lock", *ALL).returncode == 0
    assert user.run("env", "check", "--file", "other.lock").returncode == 0


def test_no_value_is_written(user: User, project: Path) -> None:
    user.run("env", "lock", "--cwd", "project", *ALL, env=SECRETS)
    text = (project / "outfitter.lock").read_text()
    assert "API_TOKEN" in text
    assert "hush" not in text
    assert str(user.home) not in text
    assert json.loads(text)["variables"]["API_TOKEN"] == {"layer": "L0", "id": "base", "secret": True}


def test_drift_is_told_by_name(user: User, project: Path) -> None:
    user.run("env", "lock", "--cwd", "project", *ALL, env=SECRETS)
    changed = {**SECRETS, "PLAIN": "hush-other", "NEW": "hush", "PATH": "/new:/usr/bin"}
    del changed["API_TOKEN"]
    done = user.run("env", "check", "--cwd", "project", env=changed)
    assert (done.returncode, done.stderr) == (1, b"")
    title, *lines = words(done.stdout)
    assert title == f"differs from {project}/outfitter.lock:"
    assert lines[0] == "variable API_TOKEN: missing"
    assert lines[1] == "variable NEW: added"
    assert lines[2].startswith("variable PATH: changed (")
    assert "+/new" in lines[2]
    assert lines[3] == "variable PLAIN: changed"
    assert b"hush" not in done.stdout
    told = json.loads(user.run("env", "check", "--cwd", "project", "--json", env=changed).stdout)
    assert told["lock"] == f"{project}/outfitter.lock"
    assert told["same"] is False
    assert told["drift"][0] == {"subject": "variable", "kind": "missing", "name": "API_TOKEN", "detail": ""}


def test_a_lock_of_the_project_holds_on_another_machine(user: User, project: Path) -> None:
    tool(project / "bin", "python3", "echo Python of the project")
    (project / "outfitter.toml").write_text(
        FILE + '[setup]\nrun = "export ROOT=$PWD; PATH=$PWD/more:$PATH"\n'
    )
    user.run("trust", "--yes", "project")
    done = user.run("env", "lock", "--cwd", "project", env=SECRETS)
    # On a busy machine people are told what they wait for.
    said = [line for line in done.stderr.splitlines() if b": waiting for the setup of " not in line]
    assert (done.returncode, said) == (0, [])
    told = json.loads((project / "outfitter.lock").read_text())
    assert told["covers"] == ["L3", "L4"]
    assert (sorted(told["variables"]), told["tools"]) == (
        ["CI", "PATH", "ROOT"],
        {"python3": "Python of the project"},
    )
    assert told["variables"]["PATH"]["segments"] == ["./more", "./bin"]
    # Another home, another folder, another environment, and a user with wishes of his own.
    home = user.home / "elsewhere" / "home"
    shutil.copytree(project, home / "work" / "checkout")
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text('[env]\nset = { MINE = "1" }\n')
    other = {
        "HOME": str(home),
        "PLAIN": "other",
        "PATH": "/usr/bin:/bin",
        "OUTFITTER_HOME": str(home / "config"),
    }
    here = ("--cwd", str(home / "work" / "checkout"))
    blocked = user.run("env", "check", *here, env=other)
    assert b"applied, now blocked" in blocked.stdout
    user.run("trust", "--yes", here[1], env=other)
    done = user.run("env", "check", *here, env=other)
    assert (done.returncode, done.stdout) == (0, f"same as {here[1]}/outfitter.lock\n".encode())
    (home / "work" / "checkout" / "outfitter.toml").write_text(FILE.replace('"1"', '"2"'))
    user.run("trust", "--yes", here[1], env=other)
    assert b"variable CI: changed" in user.run("env", "check", *here, env=other).stdout


def test_a_lock_of_half_an_environment_says_what_is_missing(user: User, project: Path) -> None:
    (project / "outfitter.toml").write_text('[setup]\nrun = "export A=1; exit 3"\n')
    done = user.run("env", "lock", "--cwd", "project")
    assert (done.returncode, b" is blocked: not trusted: " in done.stderr) == (0, True)
    user.run("trust", "--yes", "project")
    done = user.run("env", "lock", "--json", "--cwd", "project")
    assert (done.returncode, b" has failed: it ended with status 3; " in done.stderr) == (0, True)
    assert json.loads(done.stdout)["variables"] == []


def test_what_a_killed_process_with_our_pid_has_left_is_in_nobody_s_way(tmp_path: Path) -> None:
    path = tmp_path / "outfitter.lock"
    (tmp_path / f"outfitter.lock.{os.getpid()}.new").touch()
    write_whole(str(path), b"whole")
    assert path.read_bytes() == b"whole"


def test_layers_and_names_can_be_chosen(user: User, project: Path) -> None:
    args = ("env", "lock", "--cwd", "project", *NO_TOOLS, "--layers", "project", "--layers", "L0")
    done = user.run(*args, "--only", "P*", env=SECRETS)
    assert done.stdout.decode() == f"{project}/outfitter.lock: 2 variables, 0 tools\n"
    told = json.loads((project / "outfitter.lock").read_text())
    assert (told["covers"], told["only"], sorted(told["variables"])) == (
        ["L0", "L3", "L4"],
        ["P*"],
        ["PATH", "PLAIN"],
    )
    assert user.run("env", "check", "--cwd", "project", env={**SECRETS, "NEW": "1"}).returncode == 0
    assert user.run("env", "check", "--cwd", "project", env={**SECRETS, "PLAIN": "2"}).returncode == 1
    done = user.run("env", "lock", "--layers", "L7")
    assert (done.returncode, b"choose project, all, or one of L0" in done.stderr) == (1, True)


def test_a_project_without_layers_is_told(user: User) -> None:
    done = user.run("env", "lock")
    assert (done.returncode, b"add --layers all" in done.stderr) == (0, True)


def test_new_lock_of_the_same_environment_is_the_same_file(user: User, project: Path) -> None:
    user.run("env", "lock", "--cwd", "project", *ALL, env=SECRETS)
    before = (project / "outfitter.lock").read_bytes()
    user.run("env", "lock", "--cwd", "project", *ALL, env=SECRETS)
    assert (project / "outfitter.lock").read_bytes() == before


def test_version_of_a_tool_is_its_first_line_in_the_contracts_environment(user: User, project: Path) -> None:
    tool(project / "bin", "some-tool", 'echo; echo "tool 1 $CI"; echo more')
    tool(project / "bin", "silent", "exit 3")
    tool(project / "bin", "child", "sleep 600 & echo 7")
    args = ("--tool", "some-tool", "--tool", "silent", "--tool", "child", "--tool", "nonesuch")
    done = user.run("env", "lock", "--cwd", "project", *args)
    assert done.returncode == 0
    tools = json.loads((project / "outfitter.lock").read_text())["tools"]
    assert tools == {"some-tool": "tool 1 1", "silent": "(prints nothing)", "child": "7"}
    tool(project / "bin", "some-tool", "echo tool 2")
    (project / "bin" / "silent").unlink()
    done = user.run("env", "check", "--cwd", "project")
    assert done.returncode == 1
    assert words(done.stdout)[1:] == [
        "tool silent: missing ((prints nothing))",
        "tool some-tool: tool-version (tool 1 1, now tool 2)",
    ]


@pytest.mark.parametrize("entry", ["bin", "bin/", "bin/../bin", "link"])
def test_no_program_of_a_project_runs_that_nobody_has_allowed(user: User, entry: str) -> None:
    project = user.home / "strange"
    (project / ".git").mkdir(parents=True)
    (project / "bin").mkdir()
    (project / "link").symlink_to("bin")
    ran = user.home / "ran"
    for name in ("cargo", "own"):
        tool(project / "bin", name, f"echo $0 >> {ran}; echo 1.0")
    (project / "outfitter.toml").write_text(f'[env]\nappend = {{ PATH = ["{entry}"] }}\n')
    lock = ("env", "lock", "--cwd", "strange", "--tool", "own", "--tool", "./bin/own")
    refused = user.run(*lock)
    assert refused.returncode == 0
    assert b"was not asked for its version: to allow that, type: outfitter trust " in refused.stderr
    told = json.loads((project / "outfitter.lock").read_text())
    assert told["tools"] == {}
    told["tools"] = {"own": "1.0", "./bin/own": "1.0", f"{project}/bin/own": "1.0"}
    (project / "outfitter.lock").write_text(json.dumps(told))
    assert user.run("env", "check", "--cwd", "strange").returncode == 1
    assert user.run("env", "lock", "--cwd", "strange").returncode == 0
    assert not ran.exists()
    assert user.run("trust", "--yes", str(project)).returncode == 0
    assert user.run(*lock).stderr == b""
    assert json.loads((project / "outfitter.lock").read_text())["tools"] == {"own": "1.0"}


def test_missing_or_broken_lock_is_neither_drift_nor_not(user: User) -> None:
    done = user.run("env", "check")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"run `outfitter env lock` to write it" in done.stderr
    lock = user.home / "outfitter.lock"
    for data in (b"", b"{}", b"\xff", b'{"version": 99}'):
        lock.write_bytes(data)
        done = user.run("env", "check")
        assert (done.returncode, done.stdout) == (2, b"")
        assert str(lock).encode() in done.stderr
    lock.unlink()
    lock.mkdir()
    assert user.run("env", "check").returncode == 2
    lock.rmdir()
    os.mkfifo(lock)  # nobody writes to it
    assert user.run("env", "check").returncode == 2


def test_lock_may_come_through_a_pipe(user: User) -> None:
    assert user.run("env", "lock", *ALL).returncode == 0
    reading, writing = os.pipe()
    with open(writing, "wb") as pipe:
        pipe.write((user.home / "outfitter.lock").read_bytes())
    lockfile.read(f"/dev/fd/{reading}", named=True)
    os.close(reading)


def test_lock_that_cannot_be_written_is_an_error(user: User) -> None:
    done = user.run("env", "lock", "--file", "nonesuch/outfitter.lock", *ALL)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"cannot write" in done.stderr


@pytest.mark.parametrize("words", [("env", "lock", *ALL, "--file"), ("env", "explain", "--html")])
def test_what_is_no_file_is_not_replaced_by_one(user: User, words: tuple[str, ...]) -> None:
    os.mkfifo(user.home / "pipe")
    done = user.run(*words, "pipe")
    assert done.returncode == 1
    assert done.stderr.startswith(b"outfitter: cannot write ")
    assert done.stderr.endswith(b"pipe: It is not a file\n")
    assert (user.home / "pipe").is_fifo()


def test_drift_says_what_nobody_has_allowed_here(user: User, project: Path) -> None:
    user.run("env", "lock", "--cwd", "project", *NO_TOOLS)
    copied = user.home / "copied"
    shutil.copytree(project, copied)
    done = user.run("env", "check", "--cwd", "copied")
    assert done.returncode == 1
    assert f"type: outfitter trust {copied}\n".encode() in done.stderr


def test_what_a_project_has_in_the_place_of_its_lock_is_not_waited_for(user: User, project: Path) -> None:
    lock = project / "outfitter.lock"
    with terminal() as name:
        lock.symlink_to(name)
        done = user.run("env", "check", "--cwd", "project")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"outfitter: cannot read {lock}: It is a device, not a file\n"
