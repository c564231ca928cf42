"""What a program behind a tool reports, and what somebody else may have written in its place."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.env.report import LARGEST, decode, encode

# Whatever an operating system has: bytes, of which those that are no UTF-8 are surrogates here.
TEXTS = st.binary(max_size=20).map(lambda data: os.fsdecode(data.replace(b"\0", b"")))
NAMES = TEXTS.map(lambda text: "N" + text.replace("=", ""))


@given(st.dictionaries(NAMES, TEXTS), st.lists(TEXTS), TEXTS, st.integers(0, 0o777))
def test_what_is_written_is_read(env: dict[str, str], command: list[str], folder: str, umask: int) -> None:
    assert decode(encode(env, command, f"/{folder}", umask)) == (env, command, f"/{folder}", umask)


@given(st.binary() | st.text("/\0=1277aé-").map(str.encode))
def test_anything_is_read_or_refused(data: bytes) -> None:
    try:
        env, command, folder, umask = decode(data)
    except ValueError:
        return
    assert folder.startswith("/") and 0 <= umask <= 0o777
    assert all(name and "\0" not in name + value for name, value in env.items())
    assert all("\0" not in word for word in command)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "folder"),
        (b"relative\x0022\x000", "folder"),
        (b"/\x0022", "folder"),
        (b"/\x0089\x000", "invalid literal"),
        (b"/\x001000\x000", "numbers"),
        (b"/\x00-1\x000", "numbers"),
        (b"/\x0022\x002\x00one", "numbers"),
        (b"/\x0022\x00-1\x00one", "numbers"),
        (b"/\x0022\x000\x00NAME", "without a name or a value"),
        (b"/\x0022\x000\x00=value", "without a name or a value"),
        (b"/\x0022\x000\x00A=" + b"x" * LARGEST, "more than"),
    ],
)
def test_what_cannot_be_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode(data)
