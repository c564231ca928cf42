"""Secrets in the kernel's keyring: for processes of the same user, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from outfitter.host import keyring
from tests.support.machine import KEYRING

NAME = f"outfitter:test:{os.getpid()}"
NOBODY = 65534
ASK = "import sys; from outfitter.host import keyring; print(keyring.find(sys.argv[1]))"


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    keyring.forget(NAME)


def elsewhere(**more: int) -> str:
    """What another process finds."""
    args = [sys.executable, "-c", ASK, NAME]
    return subprocess.run(args, capture_output=True, text=True, check=True, **more).stdout.strip()  # type: ignore[call-overload, no-any-return]


@KEYRING
def test_another_process_of_the_user_finds_what_was_kept() -> None:
    assert keyring.keep(NAME, b"first", 60)
    assert keyring.keep(NAME, b"one\0two", 60)
    assert keyring.find(NAME) == b"one\0two"
    assert elsewhere() == repr(b"one\0two")
    keyring.forget(NAME)
    assert keyring.find(NAME) is None
    assert elsewhere() == "None"


@KEYRING
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_user_does_not() -> None:
    assert keyring.keep(NAME, b"secret", 60)
    pid = os.fork()
    if pid == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os._exit(0 if keyring.find(NAME) is None else 1)
    assert os.waitpid(pid, 0)[1] == 0


@KEYRING
def test_what_is_too_large_is_not_kept_and_nothing_older_stays() -> None:
    assert keyring.keep(NAME, b"old", 60)
    assert not keyring.keep(NAME, b"x" * (keyring.LARGEST + 1), 60)
    assert keyring.find(NAME) is None
    assert keyring.keep(NAME, b"x" * keyring.LARGEST, 60)
    assert keyring.find(NAME) == b"x" * keyring.LARGEST


def test_a_machine_without_keyrings_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "_NUMBERS", {})
    assert not keyring.keep(NAME, b"secret", 60)
    assert keyring.find(NAME) is None
    keyring.forget(NAME)
