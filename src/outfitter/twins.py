"""The docstring of an async call, as its twin in `outfitter.sync` has it. Nothing is imported for it."""

from __future__ import annotations

_WORDS = (
    ("async with await ", "with "),
    ("async with", "with"),
    ("async for ", "for "),
    ("await ", ""),
    (".aclose()", ".close()"),
    ("outfitter.connect(", "outfitter.sync.connect("),
    ("outfitter.local(", "outfitter.sync.local("),
    ("outfitter.open(", "outfitter.sync.open("),
    ("outfitter.open_local(", "outfitter.sync.open_local("),
    ("outfitter.Transcript(", "outfitter.sync.Transcript("),
    ("anext(aiter(", "next(iter("),
)


def in_plain_calls(text: str) -> str:
    """Text, and the examples in it, without asyncio."""
    for word, instead in _WORDS:
        text = text.replace(word, instead)
    return text
