"""The guess whether a sandbox made a command fail: each line of its description."""

from __future__ import annotations

import pytest

from outfitter.core.denial import denied
from outfitter.core.output import Chunk

WORDS = [
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "seccomp",
    "sandbox",
    "landlock",
    "failed to write file",
]


def chunks(*said: tuple[bytes, bytes]) -> list[Chunk]:
    return [Chunk(number, stream, data) for number, (stream, data) in enumerate(said, 1)]


def err(text: str) -> list[Chunk]:
    return chunks((b"stderr", text.encode()))


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("stream", [b"stdout", b"stderr", b"pty"])
def test_a_word_in_any_stream_tells(word: str, stream: bytes) -> None:
    assert denied(1, chunks((stream, f"x: {word.upper()}\n".encode())))
    assert denied(1, chunks((stream, word.capitalize().encode())))
    assert not denied(1, chunks((stream, word[:-1].encode())))


def test_a_command_that_succeeds_was_not_denied() -> None:
    assert not denied(0, err("Permission denied"))


@pytest.mark.parametrize("code", [2, 126, 127])
def test_the_words_count_more_than_the_exit_code_of_a_shell(code: int) -> None:
    assert denied(code, err("sh: Permission denied"))
    assert not denied(code, err("sh: no such thing"))


@pytest.mark.parametrize(
    ("code", "expected"), [(159, True), (1, False), (137, False), (130, False), (101, False)]
)
def test_without_a_word_only_the_filters_signal_tells(code: int, expected: bool) -> None:
    assert denied(code, []) is expected
    assert denied(code, err("Couldn't connect to server")) is expected


def test_a_word_may_come_in_pieces() -> None:
    assert denied(1, chunks((b"stderr", b"Read-only fi"), (b"stderr", b"le system")))
    # Of its own stream, while another one speaks.
    assert denied(1, chunks((b"stderr", b"Read-only fi"), (b"stdout", b"hello"), (b"stderr", b"le system")))
    # Of both, in the order in which it came.
    assert denied(1, chunks((b"stdout", b"perm"), (b"stderr", b"ission denied")))
    assert not denied(1, chunks((b"stdout", b"perm"), (b"stderr", b" "), (b"stderr", b"ission denied")))


def test_output_may_be_a_view_and_no_text() -> None:
    assert denied(1, [Chunk(1, b"stdout", memoryview(b"\xff\xfe permission denied"))])
    assert not denied(1, [Chunk(1, b"stdout", b"\xff\xfe")])
