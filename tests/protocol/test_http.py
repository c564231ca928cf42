"""Answers of http/request, as they are written by hand and as they are read."""

from __future__ import annotations

import json

import pytest

from outfitter.protocol.http import BodyNotice, RequestResult

HEADERS = [("content-type", 'text/plain; charset="utf-8"'), ("x", "\\")]


@pytest.mark.parametrize("size", [0, 1, 2048, 2049, 100_000])
def test_an_answer_is_written_as_it_is_encoded_whatever_its_size(size: int) -> None:
    result = RequestResult(207, HEADERS, (bytes(range(256)) * 400)[:size])
    wire = result.wire()
    assert isinstance(wire, str) == (size <= 2048)
    text = wire if isinstance(wire, str) else b"".join(wire).decode()
    assert json.loads(text) == result.encode()
    assert RequestResult.decode(result.encode()) == result


@pytest.mark.parametrize("error", [None, 'it "broke"'])
def test_a_notice_is_written_as_it_is_encoded(error: str | None) -> None:
    notice = BodyNotice('r"1', 3, b"\xff\x00", error is not None, error)
    assert json.loads(notice.message()) == {"method": "http/request/bodyDelta", "params": notice.encode()}
