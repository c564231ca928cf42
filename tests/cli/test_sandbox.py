"""outfitter sandbox explain: what a sandbox means here, and whose word each line is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.sandboxes import elsewhere

from .commandline import User


@pytest.fixture
def place() -> Iterator[Path]:
    """A workspace outside of /tmp."""
    with elsewhere() as folder:
        (folder / "work").mkdir()
        yield folder / "work"


def rows(user: User, place: Path, *args: str) -> list[tuple[str, str, str]]:
    done = user.run("sandbox", "explain", "--json", "--cwd", str(place), *args)
    assert (done.returncode, done.stderr) == (0, b"")
    told: dict[str, Any] = json.loads(done.stdout)
    return [(row["access"], row["what"], row["from"]) for row in told["rows"] if row["access"] != "masked"]


def test_flags_are_told_apart_from_what_is_always_so(user: User, place: Path) -> None:
    (place / "out").mkdir()
    (place / "a.env").touch()
    mode = "--sandbox workspace-write"
    found = rows(
        user,
        place,
        *("--sandbox", "workspace-write", "--allow-write", "/etc", "--allow-write", "/nonesuch"),
        *("--deny-read", "*.env", "--allow-domain", "PyPI.org", "--sandbox-protect", ".idea"),
    )
    assert ("readable", "/", mode) in found
    assert ("writable", str(place), mode) in found
    assert ("writable", "/etc", "--allow-write") in found
    assert ("missing", "/nonesuch", "--allow-write") in found
    assert ("protected", f"{place}/.git", "always") in found
    assert ("protected", f"{place}/.idea", "--sandbox-protect") in found
    assert ("hidden", f"{place}/*.env", "--deny-read") in found
    assert ("hidden", f"{place}/a.env", "--deny-read") in found
    assert ("network", "pypi.org", "--allow-domain") in found
    limits = [(what.partition(" ")[0], by) for access, what, by in found if access == "limit"]
    assert len(limits) == 2 and {by for _, by in limits} == {"outfitter serve"}


def test_files_are_named_with_their_lines(user: User, place: Path) -> None:
    user.config.mkdir(parents=True)
    mine, theirs = user.config / "config.toml", place / "outfitter.toml"
    mine.write_text(
        '[sandbox]\nmode = "workspace-write"\nallow_write = ["/etc"]\nallow_domain = ["*.org"]\n'
        'protect = [".claude/commands"]\n'
    )
    theirs.write_text(
        '[sandbox]\nmode = "workspace-write"\nallow_domain = ["pypi.org"]\ndeny_read = [".env"]\n'
        'protect = ["**/hooks", ".claude/commands"]\n'
    )
    (place / "sub/hooks").mkdir(parents=True)
    (place / ".env").touch()
    found = rows(user, place)
    assert ("writable", str(place), f"{mine}:2") in found
    assert ("taken away", "/etc", f"{theirs}:2") in found
    assert ("network", "pypi.org", f"{theirs}:3") in found
    assert ("hidden", f"{place}/.env", f"{theirs}:4") in found
    assert ("protected", f"{place}/.claude", f"{mine}:5") in found
    assert ("protected", f"{place}/sub/hooks", f"{theirs}:5") in found


def test_a_project_hides_the_same_whatever_its_directory_is_called(user: User, place: Path) -> None:
    project = place / "a[1]{x,y}"
    (project / "secrets").mkdir(parents=True)
    (project / "sub").mkdir()
    (project / "sub/.env").touch()
    settings = project / "outfitter.toml"
    settings.write_text('[sandbox]\ndeny_read = [\n"secrets",\n"*.env"]\n')
    found = rows(user, project, "--sandbox", "read-only")
    assert ("hidden", f"{project}/secrets", f"{settings}:3") in found
    assert ("hidden", f"{project}/sub/.env", f"{settings}:4") in found


def test_what_a_protected_name_stands_for_is_told_with_whose_word_it_is(user: User, place: Path) -> None:
    for folder in ("module", "repository/a"):
        (place / folder).mkdir(parents=True)
    (place / "module/.git").write_text("gitdir: ../.git/modules/module")
    flags = ("--sandbox-protect", "**/.git/hooks", "--sandbox-protect", "**/a/b/c")
    found = rows(user, place, "--sandbox", "workspace-write", *flags)
    assert ("protected", f"{place}/module/.git", "--sandbox-protect") in found
    assert ("protected", f"{place}/repository/a/b", "--sandbox-protect") in found


def test_the_table_is_for_people_and_says_which_program_starts(user: User, place: Path) -> None:
    done = user.run("sandbox", "explain", "--cwd", str(place), "--sandbox", "read-only", "--", "sh")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"read-only in {place}"
    assert lines[2].split() == ["ACCESS", "WHAT", "FROM"]
    assert ["network", "nothing", "--sandbox", "read-only"] in [line.split() for line in lines]
    assert lines[-1].startswith("sh is /")
    assert lines[-1].endswith("which it may read")
    done = user.run("sandbox", "explain", "--cwd", str(place), "--", "nonesuch-program")
    assert done.stdout.decode().splitlines()[-1] == "nonesuch-program: not found"


def test_the_program_that_is_named_is_the_one_that_would_start(user: User, place: Path) -> None:
    for folder in ("one", "two"):
        (place / folder).mkdir()
        (place / folder / "tool").write_text("#!/bin/sh\n")
        (place / folder / "tool").chmod(0o755)
    (place / "link").symlink_to("one")

    def named(program: str, *flags: str) -> str:
        path = {"PATH": f"{place}/one:{place}/two:/usr/bin:/bin"}
        flags = ("--cwd", str(place), "--sandbox", "read-only", *flags)
        done = user.run("sandbox", "explain", *flags, "--", program, env=path)
        return done.stdout.decode().splitlines()[-1]

    one, two = f"tool is {place}/one/tool, which it may ", f"tool is {place}/two/tool, which it may "
    assert named("tool") == one + "read"
    # What a link hides, or lets be written, is where the link leads.
    assert named("tool", "--deny-read", "link") == two + "read"
    assert named("tool", "--deny-read", "*/to?l") == one + "not read: it cannot start"
    assert named("tool", "--allow-write", "link") == one + "write"
    assert named("tool", "--allow-write", "link", "--deny-read", "/**/x").startswith("error building")


def test_without_a_sandbox_it_says_so(user: User, place: Path) -> None:
    done = user.run("sandbox", "explain", "--cwd", str(place))
    assert done.stdout.decode().startswith(f"commands in {place} are not confined: add --sandbox")
    assert rows(user, place) == [
        ("readable", "/", "default"),
        ("writable", "/", "default"),
        ("network", "everything", "default"),
    ]


def test_what_cannot_be_enforced_is_an_error(user: User, place: Path) -> None:
    (place / "inner").mkdir()
    (place / ".git").symlink_to("inner")
    done = user.run("sandbox", "explain", "--cwd", str(place), "--sandbox", "workspace-write")
    assert done.returncode == 1
    assert "crosses writable symlink" in done.stdout.decode()
    done = user.run("sandbox", "explain", "--sandbox", "read-only", "--deny-read", "/**/key")
    assert done.returncode == 1
    assert "cannot be safely expanded" in done.stdout.decode()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--allow-write", "/x"], "--allow-write is about a sandbox: add --sandbox workspace-write"),
        (["--allow-domain", "x.org"], "--allow-domain is about a sandbox"),
        (["--deny-read", "x"], "--deny-read is about a sandbox"),
        (["--sandbox", "full-access", "--allow-write", "/x"], "--allow-write changes nothing"),
        (["--sandbox", "read-only", "--allow-domain", "http://x.org"], "is not a domain"),
        (["--sandbox", "strict"], "is not one of"),
    ],
)
def test_flags_that_make_no_sense_are_refused(user: User, args: list[str], said: str) -> None:
    done = user.run("sandbox", "explain", *args)
    assert done.returncode != 0
    assert said in done.stderr.decode()
