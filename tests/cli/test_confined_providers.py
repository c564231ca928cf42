"""Providers' tools in a sandbox, where the user's file says so."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sandboxes import elsewhere
from tests.support.tools import program

from .commandline import User


@pytest.fixture
def place() -> Iterator[Path]:
    """A project outside of /tmp."""
    with elsewhere() as folder:
        (folder / "work").mkdir()
        yield folder / "work"


@pytest.fixture
def confined(user: User) -> User:
    user.config.mkdir(parents=True)
    (user.config / "config.toml").write_text('[sandbox]\nproviders = "read-only"\n')
    return user


def test_direnv_reads_and_does_not_write(confined: User, place: Path) -> None:
    direnv = program("direnv")
    outside = place.parent / "outside"
    (place / ".envrc").write_text(f"export MADE=1\ntouch {outside} 2>/dev/null || export CLOSED=1\n")
    subprocess.run([direnv, "allow", str(place)], env=confined.env(), check=True)
    done = confined.run("run", "--cwd", str(place), "--", "sh", "-c", 'echo "$MADE $CLOSED"')
    assert (done.stdout, outside.exists()) == (b"1 1\n", False)
    (confined.config / "config.toml").write_text("")
    done = confined.run("run", "--cwd", str(place), "--", "sh", "-c", 'echo "$MADE $CLOSED"')
    assert (done.stdout, outside.exists()) == (b"1 \n", True)


def test_nix_is_refused_with_the_reason(confined: User, place: Path) -> None:
    (place / "shell.nix").write_text("{ }\n")
    (place / "outfitter.toml").write_text('[providers]\nuse = ["nix"]\n')
    confined.run("trust", "--yes", str(place))
    done = confined.run("run", "--cwd", str(place), "--", "true")
    assert done.returncode == 0
    assert "nix cannot run in a sandbox, because it talks to nix's daemon" in done.stderr.decode()
