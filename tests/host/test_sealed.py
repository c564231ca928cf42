"""A sealed copy runs as its file would, and nobody changes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.host.sealed import PATH, seal
from outfitter.host.tools.tool import Ran, run_tool
from tests.support.machine import SECOND, own_descriptors

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    before = own_descriptors()
    yield
    assert own_descriptors() == before


def run(data: bytes, *argv: str, program: str = PATH) -> Ran:
    fd = seal(data)
    try:
        return run_tool(argv, "/", ENV, timeout=20 * SECOND, program=program, descriptors=(fd,))
    finally:
        os.close(fd)


def test_nobody_can_change_it() -> None:
    fd = seal(b"#!/bin/sh\necho ours\n")
    try:
        for change in (
            lambda: os.write(fd, b"x"),
            lambda: os.ftruncate(fd, 0),
            lambda: os.ftruncate(fd, 100),
            lambda: os.close(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_TRUNC)),
        ):
            with pytest.raises(PermissionError):
                change()
        assert os.pread(fd, 100, 0) == b"#!/bin/sh\necho ours\n"
    finally:
        os.close(fd)


def test_a_script_runs_by_its_first_line() -> None:
    ran = run(b'#!/bin/sh\necho "$0 $1"; cat "$0"\n', "tool", "a b")
    assert (ran.code, ran.stdout) == (0, f'{PATH} a b\n#!/bin/sh\necho "$0 $1"; cat "$0"\n'.encode())


def test_a_script_runs_by_a_program_that_looks_for_its_interpreter() -> None:
    assert run(b"#!/usr/bin/env sh\necho found\n", "tool").stdout == b"found\n"


def test_an_interpreter_reads_it() -> None:
    assert run(b"echo read $1\n", "/bin/sh", PATH, "it", program="/bin/sh").stdout == b"read it\n"


def test_a_binary_runs_and_has_the_name_that_it_is_given() -> None:
    shell = Path("/bin/sh").resolve().read_bytes()
    assert run(shell, "/some/name", "-c", 'echo "$0"').stdout == b"/some/name\n"


def test_what_cannot_run_is_told() -> None:
    ran = run(b"#!/nonexistent/interpreter\n", "tool")
    assert (ran.outcome, ran.stdout) == ("not-started", b"")
