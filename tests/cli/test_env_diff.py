"""outfitter env diff: any two environments, by name; 0 the same, 1 different, 2 trouble."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import Server, serving
from tests.support.tap import tapping

from .commandline import Completed, User
from .project import SECRETS, make, words

ALL = ("--tool", "nonesuch", "--layers", "all")


@pytest.fixture
def project(user: User) -> Path:
    return make(user)


def differences(done: Completed) -> list[dict[str, Any]]:
    assert done.stderr == b""
    told = json.loads(done.stdout)
    assert told["same"] is (done.returncode == 0)
    assert done.returncode == (1 if told["differences"] else 0)
    return list(told["differences"])


# Here


def test_same_places_are_the_same(user: User) -> None:
    done = user.run("env", "diff", "here", "local")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"here and local are the same\n", b"")


def test_directories_differ_by_their_projects(user: User, project: Path) -> None:
    done = user.run("env", "diff", ".", "./project", env=SECRETS)
    assert (done.returncode, done.stderr) == (1, b"")
    assert words(done.stdout) == [
        "from . to ./project: 3 differences",
        "- AWS_PROFILE",
        "+ CI",
        "~ PATH",
        f"+ {project}/bin",
    ]
    assert differences(user.run("env", "diff", "--json", "./project", "/", env=SECRETS)) == [
        {"name": "AWS_PROFILE", "kind": "added", "secret": False},
        {"name": "CI", "kind": "removed", "secret": False},
        {"name": "PATH", "kind": "changed", "secret": False, "segmentsRemoved": [f"{project}/bin"]},
    ]


def test_login_shell_is_a_place(user: User) -> None:
    for name in (".profile", ".bash_profile", ".zprofile"):  # whichever shell this account has
        (user.home / name).write_text("export ADDED=hush SOME_TOKEN=hush; unset PLAIN\n")
    done = user.run("env", "diff", "--json", "here", "login", env={"PLAIN": "hush", "PATH": "/usr/bin:/bin"})
    kinds = {one["name"]: (one["kind"], one["secret"]) for one in differences(done)}
    kinds.pop("PATH", None)  # the system's own profile may change it
    assert kinds == {
        "ADDED": ("added", False),
        "PLAIN": ("removed", False),
        "SOME_TOKEN": ("added", True),
    }
    assert b"hush" not in done.stdout


def test_login_shell_that_gives_no_answer_is_trouble(user: User) -> None:
    for name in (".profile", ".bash_profile", ".zprofile"):
        (user.home / name).write_text("exit 3\n")
    done = user.run("env", "diff", "here", "login")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"outfitter: the login shell gave no environment: ")


def test_values_are_told_when_asked_for_but_no_secret(user: User, project: Path) -> None:
    (project / "outfitter.toml").write_text(
        '[env]\nset = { PLAIN = "after", API_TOKEN = "hush-2", URL = "x-hush-token" }\n'
    )
    user.allow(project)
    done = user.run("env", "diff", "--values", "--json", ".", "./project", env=SECRETS)
    assert differences(done) == [
        {"name": "API_TOKEN", "kind": "changed", "secret": True},
        {"name": "PLAIN", "kind": "changed", "secret": False, "before": "hush-plain", "after": "after"},
        # Part of this one is somebody else's secret.
        {"name": "URL", "kind": "added", "secret": False, "after": "x-[secret:API_TOKEN]"},
    ]


# Elsewhere


def test_server_is_compared_without_a_value_that_travels(user: User, server: Server) -> None:
    env = {"PLACE": "here-hush", "SAME": "hush", "API_TOKEN": "hush", "PATH": "/only-here:/usr/bin"}
    with tapping(server.port) as tap:
        done = user.run("env", "diff", "--json", "here", tap.url, env=env)
        heard = [one.message for one in tap.heard]
    found = {one["name"]: one for one in differences(done)}
    assert found["PLACE"] == {"name": "PLACE", "kind": "changed", "secret": False}
    assert found["API_TOKEN"] == {"name": "API_TOKEN", "kind": "removed", "secret": True}
    assert found["HOME"]["kind"] == "changed"
    assert "/only-here" in found["PATH"]["segmentsRemoved"]
    assert "LANG" not in found
    # Neither ours nor theirs: their PLACE is "there".
    assert "hush" not in json.dumps(heard)
    assert '"there"' not in json.dumps(heard)


def test_server_is_the_same_as_itself_and_named_environments_are_places(user: User, server: Server) -> None:
    user.declare(f'default = "build"\n[[environments]]\nid = "build"\nurl = "{server.url}/?key=hush"\n')
    done = user.run("env", "diff", "build", "daemon")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"build and daemon are the same\n", b"")
    done = user.run("env", "diff", f"{server.url}/?key=hush", "here")
    assert done.returncode == 1
    assert b"hush" not in done.stdout + done.stderr


def test_values_of_a_server_are_told_when_asked_for_but_no_secret(user: User, tmp_path: Path) -> None:
    env = {"PLACE": "there", "API_TOKEN": "hush-there"}
    with serving("outfitter", tmp_path / "server", env=env) as server, tapping(server.port) as tap:
        args = ("env", "diff", "--values", "--json", "here", tap.url)
        done = user.run(*args, env={"PLACE": "here", "API_TOKEN": "hush-here"})
        heard = json.dumps([one.message for one in tap.heard])
    found = {one["name"]: one for one in differences(done)}
    assert found["PLACE"] == {
        "name": "PLACE",
        "kind": "changed",
        "secret": False,
        "before": "here",
        "after": "there",
    }
    assert found["API_TOKEN"] == {"name": "API_TOKEN", "kind": "changed", "secret": True}
    assert "hush" not in heard
    assert b"hush" not in done.stdout


# Locks


def test_lock_is_compared_with_here_and_with_directories(user: User, project: Path) -> None:
    assert user.run("env", "lock", "--cwd", "project", *ALL, env=SECRETS).returncode == 0
    done = user.run("env", "diff", "--cwd", "project", "lock", "here", env=SECRETS)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"lock and here are the same\n", b"")
    changed = {**SECRETS, "PLAIN": "other", "NEW": "hush", "API_TOKEN": "hush-2"}
    done = user.run("env", "diff", "--json", "project/outfitter.lock", "./project", env=changed)
    assert differences(done) == [
        {"name": "NEW", "kind": "added", "secret": False},
        {"name": "PLAIN", "kind": "changed", "secret": False},
    ]
    done = user.run("env", "diff", "--json", "--cwd", "project", "lock", "/", env=SECRETS)
    found = {one["name"]: one for one in differences(done)}
    assert found["PATH"]["segmentsRemoved"] == ["./bin"]


def test_locks_are_compared_with_each_other(user: User, project: Path) -> None:
    lock = ("env", "lock", "--cwd", "project", *ALL, "--file")
    for name, env in (("a.lock", SECRETS), ("b.lock", {**SECRETS, "NEW": "1"})):
        assert user.run(*lock, name, env=env).returncode == 0
    done = user.run("env", "diff", "a.lock", "b.lock")
    assert done.returncode == 1
    assert words(done.stdout)[1:] == ["+ NEW"]
    assert b"different salts" in done.stderr


# Trouble


@pytest.mark.parametrize(
    ("words_given", "reason"),
    [
        (("here", "nonesuch"), b"no environment is named 'nonesuch'"),
        (("here", "./nonesuch"), b"is not a directory"),
        (("here", "ws://127.0.0.1:1"), b"Connection refused"),
        (("here", "http://127.0.0.1:1"), b"ws://"),
        (("daemon", "here"), b"no default server is configured"),
        (("lock", "here"), b"run `outfitter env lock` to write it"),
        (("./environment", "here"), b"not valid JSON"),
        (("./environment", "ws://127.0.0.1:1"), b"a lock names directories of one machine"),
        (("here",), b"Usage"),
    ],
    ids=str,
)
def test_trouble_is_neither_same_nor_different(
    words_given: tuple[str, ...], reason: bytes, user: User
) -> None:
    (user.home / "environment").write_text("no lock")
    done = user.run("env", "diff", *words_given)
    assert (done.returncode, done.stdout) == (2, b"")
    assert reason in done.stderr


def test_server_that_cannot_tell_is_trouble(user: User, tmp_path: Path) -> None:
    with serving("codex", tmp_path / "server") as server:
        done = user.run("env", "diff", "here", server.url)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"does not offer `environmentExplain`" in done.stderr
