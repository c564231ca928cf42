"""outfitter trust: shown first, allowed by content, and what is allowed holds for commands."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.machine import running, wait_gone, wait_until
from tests.support.tools import program

from .commandline import User

TELLS = """#!/bin/sh
echo '{"set": {"TOLD": "by the program"}}'
"""


@pytest.fixture
def project(user: User) -> Path:
    folder = user.home / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "outfitter.toml").write_text('[providers]\nuse = ["command"]\ncommand = ["./tells"]\n')
    (folder / "tells").write_text(TELLS)
    (folder / "tells").chmod(0o755)
    return folder


def told(user: User, project: Path) -> bytes:
    return user.run("run", "--cwd", str(project), "--", "sh", "-c", "echo ${TOLD-nothing}").stdout


def test_nothing_is_allowed_without_a_word(user: User, project: Path) -> None:
    done = user.run("trust", str(project))
    assert (done.returncode, done.stderr) == (1, b"outfitter: read the files, then add --yes\n")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"command  {project}  untrusted (outfitter)"
    assert f"  runs   {project}/tells" in lines
    assert any(line.startswith("  digest sha256:") for line in lines)
    assert told(user, project) == b"nothing\n"


def test_what_is_allowed_holds_until_it_is_edited(user: User, project: Path) -> None:
    assert user.run("trust", "--yes", str(project)).returncode == 0
    assert told(user, project) == b"by the program\n"
    assert user.run("trust", str(project)).returncode == 0
    (project / "tells").write_text(TELLS.replace("the program", "another"))
    assert told(user, project) == b"nothing\n"
    assert user.run("trust", str(project)).returncode == 1


def test_a_grant_is_taken_back(user: User, project: Path) -> None:
    user.run("trust", "--yes", str(project))
    [grant] = json.loads(user.run("trust", "--list", "--json").stdout)["grants"]
    assert (grant["provider"], grant["root"]) == ("command", str(project))
    assert user.run("trust", "--revoke", str(project)).returncode == 0
    assert told(user, project) == b"nothing\n"
    assert user.run("trust", "--list").stdout == b""


@pytest.mark.parametrize("names", [("link", "link"), ("link", "project"), ("project", "link")])
def test_a_grant_through_a_link_is_taken_back(user: User, project: Path, names: tuple[str, str]) -> None:
    (user.home / "link").symlink_to(project)
    granted, revoked = names
    assert user.run("trust", "--yes", granted).returncode == 0
    assert told(user, user.home / granted) == b"by the program\n"
    assert user.run("trust", "--revoke", revoked).returncode == 0
    assert told(user, user.home / granted) == b"nothing\n"
    assert user.run("trust", "--list").stdout == b""


def test_another_worktree_asks_again(user: User, project: Path) -> None:
    user.run("trust", "--yes", str(project))
    project.rename(project.with_name("elsewhere"))
    assert told(user, project.with_name("elsewhere")) == b"nothing\n"


def test_as_json_what_was_allowed_is_told_as_it_is_afterwards(user: User, project: Path) -> None:
    with (project / "outfitter.toml").open("a") as file:
        file.write('[env]\nset = { A = "1" }\n')
    done = user.run("trust", "--yes", "--json", str(project))
    entries = json.loads(done.stdout)["providers"]
    assert [(one["provider"], one["state"], one["grant"], one["why"]) for one in entries] == [
        ("command", "trusted", "", ""),
        ("project", "trusted", "", ""),
    ]
    assert json.loads(user.run("trust", "--json", str(project)).stdout)["providers"] == entries


def test_as_json_it_is_one_object(user: User, project: Path) -> None:
    done = user.run("trust", "--json", str(project))
    [entry] = json.loads(done.stdout)["providers"]
    assert {"provider": "command", "state": "untrusted", "by": "outfitter"}.items() <= entry.items()
    assert entry["runs"] == [[f"{project}/tells"]]
    assert done.returncode == 1


def test_a_tool_with_its_own_trust_is_allowed_there(user: User, project: Path) -> None:
    program("direnv")
    (project / "outfitter.toml").write_text('[providers]\nuse = ["direnv"]\n')
    (project / ".envrc").write_text("export TOLD=direnv\n")
    done = user.run("trust", "--yes", str(project))
    assert done.returncode == 1
    assert b"direnv keeps its own permissions; type: direnv allow" in done.stderr
    assert told(user, project) == b"nothing\n"


def test_without_a_provider_there_is_nothing_to_allow(user: User) -> None:
    done = user.run("trust")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"this project runs nothing and sets nothing" in done.stderr
    assert json.loads(user.run("trust", "--json").stdout) == {"providers": []}
    assert b"has allowed nothing here" in user.run("trust", "--revoke").stderr


def test_a_grant_can_be_taken_back_whatever_became_of_the_project(user: User, project: Path) -> None:
    file = project / "outfitter.toml"
    text = file.read_text()
    for change in (file.unlink, lambda: file.write_text("mistake"), lambda: shutil.rmtree(project)):
        file.write_text(text)
        assert user.run("trust", "--yes", str(project)).returncode == 0
        change()
        done = user.run("trust", "--revoke", str(project))
        assert (done.returncode, done.stderr) == (
            0,
            f"outfitter: command in {project} is no longer trusted\n".encode(),
        )
        assert user.run("trust", "--list").stdout == b""


def test_a_required_one_that_is_blocked_starts_nothing(user: User, project: Path) -> None:
    file = project / "outfitter.toml"
    file.write_text(file.read_text() + 'required = ["command"]\n')
    done = user.run("run", "--cwd", str(project), "--", "true")
    assert done.returncode == 125
    assert f"type: outfitter trust {project}".encode() in done.stderr


# Names that are meant for the terminal

ODD = "esc\x1b[2J\x1b]0;title\x07 \u202etxt\r; touch x"


@pytest.fixture
def odd(user: User, project: Path) -> Path:
    return project.rename(project.with_name(ODD))


@pytest.mark.parametrize("args", [("trust",), ("trust", "--yes"), ("run", "--", "true")], ids=str)
def test_a_name_steers_no_terminal(user: User, odd: Path, args: tuple[str, ...]) -> None:
    where = (str(odd),) if args[0] == "trust" else ()
    cwd = ("--cwd", str(odd)) if args[0] == "run" else ()
    done = user.run(args[0], *cwd, *args[1:], *where)
    told = (done.stdout + user.run("trust", "--list").stdout + done.stderr).decode()
    assert "esc\\x1b[2J" in told
    assert all(mark.isprintable() or mark == "\n" for mark in told)


def test_what_is_to_be_typed_is_one_word(user: User, odd: Path) -> None:
    done = user.run("run", "--cwd", str(odd), "--", "true")
    shown = ODD.encode("unicode_escape").decode()
    assert f"outfitter trust '{odd.parent}/{shown}'" in done.stderr.decode()


# Cut off


@pytest.mark.parametrize("args", [("run", "--cwd", "{}", "--", "true"), ("env", "--cwd", "{}")], ids=str)
def test_what_is_asked_ends_with_a_command_line_that_is_killed(
    user: User, project: Path, args: tuple[str, ...]
) -> None:
    seconds = f"60{os.getpid()}{len(args)}"
    (project / "tells").write_text(f"#!/bin/sh\nsetsid sleep {seconds} &\nexec sleep {seconds}\n")
    user.run("trust", "--yes", str(project))
    popen = user.start(*(word.replace("{}", str(project)) for word in args))
    wait_until(lambda: len(running(f"sleep {seconds}")) == 2, "it is asked")
    left = running(f"sleep {seconds}")
    popen.kill()
    popen.wait()
    wait_gone(left)


def test_each_effect_of_a_projects_files_is_a_line(user: User) -> None:
    folder = user.home / "clone"
    (folder / ".git").mkdir(parents=True)
    (folder / "outfitter.toml").write_text(
        '[env]\nset = { A = "1", API_TOKEN = "hush" }\nunset = ["LANG"]\nprepend = { PATH = ["bin"] }\n'
        '[overlays.more]\nset = { B = "2" }\n'
        '[providers]\nuse = ["dotenv"]\ndotenv = [".env"]\n'
    )
    (folder / ".env").write_text("C=hush\n")
    done = user.run("trust", str(folder))
    assert done.returncode == 1
    assert b"hush" not in done.stdout
    assert [line.split(None, 1)[1] for line in done.stdout.decode().splitlines() if "  does " in line] == [
        "sets C",
        "sets A=1",
        "sets API_TOKEN",
        "removes LANG",
        f"puts {folder}/bin in front of PATH",
        "sets B=2, with [overlays.more]",
    ]
    done = user.run("trust", "--yes", str(folder))
    assert (done.returncode, done.stderr.decode().splitlines()) == (
        0,
        [
            f"outfitter: what dotenv says is now set in {folder}, until that changes",
            f"outfitter: what project says is now set in {folder}, until that changes",
        ],
    )
    env = ("run", "--cwd", str(folder), "--", "sh", "-c", 'echo "$A $C"')
    assert user.run(*env).stdout == b"1 hush\n"
    (folder / ".env").write_text("C=other\n")
    assert user.run(*env).stdout == b"1 \n"
    assert user.run("trust", "--revoke", str(folder)).returncode == 0
    assert user.run(*env).stdout == b" \n"


def test_an_overlay_that_is_to_apply_without_being_asked_for_waits_again(user: User) -> None:
    folder = user.home / "clone"
    (folder / ".git").mkdir(parents=True)
    overlay = '[overlays.more]\nset = { B = "2" }\n'
    (folder / "outfitter.toml").write_text(overlay)
    assert user.run("trust", "--yes", str(folder)).returncode == 0
    command = ("run", "--cwd", str(folder), "--kind", "skill", "--", "sh", "-c", 'echo "$B"')
    assert user.run(*command).stdout == b"\n"
    (folder / "outfitter.toml").write_text(overlay + 'kinds = ["skill", "resume"]\n')
    assert user.run(*command).stdout == b"\n"
    done = user.run("trust", "--yes", str(folder))
    line = b"  does   sets B=2, with [overlays.more] and in every launch of kind skill, resume"
    assert line in done.stdout.splitlines()
    assert user.run(*command).stdout == b"2\n"
