"""The outfitter command: what becomes of output that cannot be written."""

from __future__ import annotations

import os

import pytest

from .commandline import SECONDS, User

PRINTING = (("ps",), ("--version",), ("help",), ("env",), ("completion", "bash"))


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_output_that_nobody_reads_is_no_news(words: tuple[str, ...], unbuffered: str, user: User) -> None:
    # outfitter ps | true
    reader, writer = os.pipe()
    os.close(reader)
    popen = user.start(*words, stdout=writer, env={"PYTHONUNBUFFERED": unbuffered})
    os.close(writer)
    assert popen.wait(SECONDS) in (0, 1)
    assert popen.stderr is not None
    assert popen.stderr.read() == b""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", PRINTING[2:], ids=" ".join)
def test_output_that_finds_no_room_is_told(words: tuple[str, ...], unbuffered: str, user: User) -> None:
    with open("/dev/full", "wb") as full:
        popen = user.start(*words, stdout=full.fileno(), env={"PYTHONUNBUFFERED": unbuffered})
    assert popen.wait(SECONDS) == 1
    assert popen.stderr is not None
    assert popen.stderr.read() == b"outfitter: cannot write the output: No space left on device\n"
