"""What an executor shows its registry: each rule of frames on standard input, and files."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from outfitter.errors import DialFailed, InvalidParams, SettingInvalid
from outfitter.relay import credentials
from outfitter.relay.credentials import (
    MAX_FRAME,
    CredentialFrame,
    FileCredential,
    StdinCredential,
    parse_frame,
)
from tests.support.machine import wait_until

FRAME: dict[str, Any] = {"version": 1, "environment_id": "box", "token": "opaque", "expires_at": 1893456000}


def line(**changes: Any) -> bytes:
    return json.dumps({k: v for k, v in {**FRAME, **changes}.items() if v is not None}).encode()


def test_a_frame_is_read_and_its_token_not_shown() -> None:
    frame = parse_frame(line(), "box")
    assert frame == CredentialFrame("opaque", 1893456000)
    assert "opaque" not in repr(frame)


@pytest.mark.parametrize(
    "bad",
    [
        *(line(**{name: None}) for name in FRAME),
        line(more=1),
        *(line(version=version) for version in (2, "1", True, 1.5)),
        *(line(expires_at=when) for when in ("1893456000", 1.5, True)),
        *(line(token=token) for token in ("", 7, "opa\nque", "größe")),
        *(line(environment_id=name) for name in ("other", "", 7)),
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"{",
        b"[" * 10_000,
    ],
)
def test_what_is_no_frame_is_refused_without_repeating_it(bad: bytes) -> None:
    with pytest.raises(InvalidParams) as caught:
        parse_frame(bad, "box")
    assert "opaque" not in str(caught.value)


def test_a_frame_may_have_sixteen_kibibytes_and_no_more() -> None:
    room = MAX_FRAME - len(line(token=""))
    assert parse_frame(line(token="x" * room), "box").token == "x" * room
    with pytest.raises(InvalidParams, match="16384 bytes at most"):
        parse_frame(line(token="x" * (room + 1)), "box")


class Pipe:
    """A credential at the end of a pipe; `why` is why it ended."""

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        self.source = os.fdopen(reading, "rb")
        self.now = 0.0
        self.why: list[str] = []
        self.ended = threading.Event()
        self.credential = StdinCredential(self.source, "box", lambda: self.now, self._end)

    def _end(self, why: str) -> None:
        self.why.append(why)
        self.ended.set()

    def write(self, data: bytes) -> None:
        os.write(self._writing, data)

    def close(self) -> None:
        os.close(self._writing)
        assert self.ended.wait(20)
        self.source.close()


def test_a_later_frame_takes_the_place_of_the_one_before_and_repairs_an_expired_one() -> None:
    pipe = Pipe()
    pipe.write(line(expires_at=100) + b"\r\n")
    pipe.credential.first()
    assert pipe.credential.headers() == {"Authorization": "Bearer opaque"}
    pipe.now = 100.0
    with pytest.raises(DialFailed, match="expired") as caught:
        pipe.credential.headers()
    assert caught.value.retryable
    pipe.write(line(token="fresh", expires_at=200) + b"\n")

    def repaired() -> bool:
        try:
            return pipe.credential.headers() == {"Authorization": "Bearer fresh"}
        except DialFailed:
            return False

    wait_until(repaired, "the new frame is used")
    assert pipe.why == []
    pipe.close()
    assert pipe.why == ["standard input, which brings the credentials, has ended"]


def test_one_malformed_frame_is_the_end() -> None:
    pipe = Pipe()
    pipe.write(line() + b"\n")
    pipe.credential.first()
    pipe.write(b"{\n")
    assert pipe.ended.wait(20)
    assert pipe.why == ["a credential frame is no JSON"]
    pipe.close()


@pytest.mark.parametrize("said", [b"{}\n", b"", b"x" * (MAX_FRAME + 10)])
def test_without_a_good_first_frame_nothing_begins(said: bytes) -> None:
    pipe = Pipe()
    if said:
        threading.Thread(target=pipe.write, args=(said,)).start()
        assert pipe.ended.wait(20)
    pipe.close()
    with pytest.raises(SettingInvalid):
        pipe.credential.first()


def test_the_first_frame_has_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    assert credentials.FIRST_SECONDS == 30.0
    monkeypatch.setattr(credentials, "FIRST_SECONDS", 0.05)
    pipe = Pipe()
    with pytest.raises(SettingInvalid, match="no credential came on standard input within"):
        pipe.credential.first()
    pipe.close()


def test_a_file_is_read_for_each_call(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    path.chmod(0o600)
    credential = FileCredential(str(path))
    assert credential.headers() == {"Authorization": "Bearer one"}
    path.write_text("two")
    assert credential.headers() == {"Authorization": "Bearer two"}


@pytest.mark.parametrize("text", [b"", b"\n", b"a\nb", b"\xff"])
def test_a_file_without_a_token_is_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(SettingInvalid):
        FileCredential(str(path))


def test_a_file_that_others_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    path.chmod(0o644)
    with pytest.raises(SettingInvalid, match="chmod"):
        FileCredential(str(path))
    with pytest.raises(SettingInvalid):
        FileCredential(str(tmp_path / "nothing"))
