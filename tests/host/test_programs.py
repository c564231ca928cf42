"""What the files of programs are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outfitter.host.programs import Programs, account
from outfitter.shell.look import Looked

ENV = {"PATH": "/usr/bin:/bin"}


def script(path: Path, line: bytes) -> str:
    path.write_bytes(line + b"\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"#!/bin/sh", ("/bin/sh",)),
        (b"#! /bin/bash -l", ("/bin/bash", "-l")),
        (b"#!/bin/bash\t-e -l ", ("/bin/bash", "-e -l")),  # one word, as the kernel has it
        (b"#!/usr/bin/env -S a  b", ("/usr/bin/env", "-S a  b")),
        (b"#!", ()),
    ],
)
def test_a_script_s_first_line_is_two_words(tmp_path: Path, line: bytes, words: tuple[str, ...]) -> None:
    path = script(tmp_path / "x", line)
    assert Programs().look(path, ENV, "/") == Looked(path, "x", interpreter=words)


def test_a_program_is_looked_for_where_the_child_looks(tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (tmp_path / "true").mkdir()  # a folder is no program
    path = script(bin_ / "x", b"#!/bin/sh")
    programs = Programs()
    found = Looked(path, "x", interpreter=("/bin/sh",))
    assert programs.look("x", {"PATH": f"{tmp_path}:{bin_}"}, "/") == found
    assert programs.look("x", {"PATH": "bin"}, str(tmp_path)) == Looked(
        "bin/x", "x", interpreter=("/bin/sh",)
    )
    assert programs.look("./x", ENV, str(bin_)) == Looked("./x", "x", interpreter=("/bin/sh",))
    assert programs.look("true", {"PATH": f"{tmp_path}:/bin"}, "/") is not None
    for gone in ("x", "/nowhere", "a\0b", "./x"):
        assert programs.look(gone, ENV, "/") is None


def test_what_was_found_is_looked_at_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    env = {"PATH": f"{first}:{second}"}
    programs = Programs()

    def found() -> tuple[str, tuple[str, ...]] | None:
        looked = programs.look("x", env, "/")
        return None if looked is None else (looked.path, looked.interpreter)

    last = script(second / "x", b"#!/bin/sh")
    assert found() == found() == (last, ("/bin/sh",))
    script(second / "x", b"#!/bin/bash")  # another content
    assert found() == (last, ("/bin/bash",))
    before = script(first / "x", b"#!/bin/dash")  # one in front of it
    assert found() == found() == (before, ("/bin/dash",))
    (first / "x").chmod(0o644)  # which may not be executed any more
    assert found() == found() == (last, ("/bin/bash",))
    (second / "x").unlink()
    assert found() is None
    (first / "x").chmod(0o755)
    assert found() == (before, ("/bin/dash",))
    # By its path, a file is what it is, whoever may execute it.
    (first / "x").chmod(0o644)
    assert found() is None
    assert programs.look(before, env, "/") == Looked(before, "x", interpreter=("/bin/dash",))
    assert found() is None


def test_only_a_shell_a_script_and_what_starts_others_concern_us(tmp_path: Path) -> None:
    os.symlink("/bin/bash", tmp_path / "other")
    os.symlink("/usr/bin/env", tmp_path / "also")
    programs = Programs()

    def concerns(name: str) -> bool:
        found = programs.look(name, ENV, "/")
        assert found is not None
        return found.concerns

    for name in ("env", "nice", str(tmp_path / "other"), str(tmp_path / "also")):
        assert concerns(name), name
    assert concerns(script(tmp_path / "x", b"#!/usr/bin/python3"))
    for name in ("true", "/bin/ls"):
        assert not concerns(name), name
    assert programs.look(str(tmp_path), ENV, "/") is None


def test_the_account_is_ours() -> None:
    found = account()
    assert found.uid == os.getuid()
    assert found.is_meant(found.name)
    assert found.is_meant(f"#{found.uid}")
    assert not found.is_meant("nobody else")
