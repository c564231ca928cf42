"""The fuzzers run and find nothing; run them longer from `fuzz/` after changing a parser."""

from __future__ import annotations

from fuzz import envelope, frames, http1


def test_hostile_messages_are_read_or_malformed() -> None:
    assert envelope.run(seed=1, seconds=60, examples=1000) == 1000


def test_hostile_streams_are_read_or_refused() -> None:
    assert frames.run(seed=1, seconds=60, examples=150) == 150


def test_hostile_answers_are_read_or_refused() -> None:
    assert http1.run(seed=1, seconds=60, examples=2000) == 2000
