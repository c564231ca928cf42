"""A plain `outfitter run` goes without click and asyncio, and does the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outfitter.cli.flags import read_with_words
from outfitter.cli.runflags import RUN, is_plain, not_text

from .commandline import OUTFITTER, User

HEAVY = {
    *("asyncio", "click", "collections", "dataclasses", "enum", "json", "logging", "pathlib", "re", "shlex"),
    *("ssl", "typing"),
}


def imported(user: User, *args: str, first: str = "") -> set[str]:
    """The modules of one command line at its end; `first` is done before it."""
    code = (
        f"{first}import sys; sys.argv[1:] = sys.argv[2:]; from outfitter.cli.main import main; main();"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "outfitter", *args],
        cwd=user.home,
        env=user.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return set(done.stderr.decode().split())


def plain(args: list[str]) -> tuple[dict[str, Any], list[str]]:
    read = read_with_words(args, RUN, command=True)
    assert read is not None
    return read


def test_plain_run_imports_no_heavy_module(user: User) -> None:
    found = imported(user, "run", "--env", "A=1", "--", "true")
    assert found & HEAVY == set()
    assert "outfitter.cli.quickrun" in found


def test_plain_run_in_a_project_of_python_imports_none_either(user: User) -> None:
    (user.home / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "0"\n')
    (user.home / ".tool-versions").write_text("nodejs 20.0.0\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", user.home / ".venv"], check=True)
    found = imported(user, "run", "--", "true")
    assert found & HEAVY == set()
    assert "outfitter.providers.venv" in found


def test_plain_run_in_a_project_that_was_allowed_imports_none_either(user: User) -> None:
    (user.home / ".env").write_text("A=1\n")
    (user.home / "outfitter.toml").write_text('[providers]\ndotenv = [".env"]\n\n[env]\nset = { B = "2" }\n')
    assert user.run("trust", "--yes").returncode == 0
    found = imported(user, "run", "--", "sh", "-c", '[ "$A$B" = 12 ]')
    assert found & HEAVY == set()
    assert "outfitter.contract.trust" in found


def test_version_imports_nothing_else(user: User) -> None:
    assert {one for one in imported(user, "-V") if one.startswith("outfitter")} == {
        "outfitter",
        "outfitter.cli",
        "outfitter.cli.main",
    }


def test_both_spellings_of_the_version_say_the_same(user: User) -> None:
    assert user.run("-V").stdout == user.run("--version").stdout


@pytest.mark.parametrize(
    ("args", "argv"),
    [
        (["ls", "--", "-l"], ["ls", "--", "-l"]),
        (["--", "ls", "--env", "A=1"], ["ls", "--env", "A=1"]),
        (["--cwd", "/", "--", "--odd"], ["--odd"]),
        (["--timeout=3", "sleep", "9"], ["sleep", "9"]),
    ],
)
def test_command_begins_where_click_sees_it(args: list[str], argv: list[str]) -> None:
    assert plain(args)[1] == argv


@pytest.mark.parametrize(
    "args",
    [
        ["--tty"],
        ["--json"],
        ["--explain"],
        ["--detach"],
        ["--detach-for", "0"],
        ["--on", "local"],
        ["--sandbox", "read-only"],
        ["--from", "client"],
        ["--token-file", "x"],
        ["--detach-keys", "none"],
    ],
)
def test_what_needs_more_is_not_plain(
    args: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OUTFITTER_HOME", str(tmp_path))
    flags, argv = plain([*args, "--", "true"])
    assert not is_plain(argv, flags)
    flags, argv = plain(["--", "true"])
    assert is_plain(argv, flags)
    assert not is_plain([], flags)


def test_file_of_environments_may_name_another_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OUTFITTER_HOME", str(tmp_path))
    (tmp_path / "environments.toml").write_text("")
    flags, argv = plain(["--", "true"])
    assert not is_plain(argv, flags)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--", "a", "b\udcff"], "argument 1"),
        (["--", "\udcff"], "the name of the program"),
        (["--env", "A=\udcff", "--", "a"], "--env A"),
        (["--unset", "\udcff", "--", "a"], "a value of --unset"),
        (["--cwd", "\udcff", "--", "a"], "--cwd"),
        (["--", "a", "é"], None),
    ],
)
def test_what_is_not_utf8_is_named(args: list[str], told: str | None) -> None:
    flags, argv = plain(args)
    assert not_text(argv, flags) == told


def test_argument_that_is_not_utf8_is_an_error_of_its_own(user: User) -> None:
    done = subprocess.run(
        [*(one.encode() for one in OUTFITTER), b"run", b"--", b"echo", b"a", b"\xff"],
        cwd=user.home,
        env=user.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"argument 2 is not UTF-8" in done.stderr


def test_input_of_a_file_and_of_a_pipe_is_the_commands(user: User) -> None:
    data = os.urandom(300_000)
    assert user.run("run", "--", "cat", input=data).stdout == data
    path = user.home / "data"
    path.write_bytes(data)
    with path.open("rb") as file:
        done = subprocess.run(
            [*OUTFITTER, "run", "--", "cat"], cwd=user.home, env=user.env(), stdin=file, capture_output=True
        )
    assert (done.returncode, done.stdout) == (0, data)


def test_slow_reader_gets_all_of_it_in_order(user: User) -> None:
    """Its pipe is full before it reads."""
    running = user.start("run", "--", "seq", "200000")
    assert running.stdout is not None
    assert running.stdout.read() == b"".join(b"%d\n" % one for one in range(1, 200_001))
    assert running.wait() == 0
