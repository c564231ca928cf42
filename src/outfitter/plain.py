"""Text of others in front of a person: nothing in it hides, and it steers no terminal.

Names of folders, and what programs say, come from anywhere.
"""

from __future__ import annotations


def plain(text: str, keep: str = "\n\t") -> str:
    """Text in which all is spelled out that would move the cursor, change colours or turn the direction of
    reading; `keep` may stay as it is."""
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() or mark in keep else mark.encode("unicode_escape").decode()
        for mark in text
    )


def is_text(value: str) -> bool:
    """Whether text can be written as UTF-8: what was none comes along as lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def unbroken(text: str, instead: str = "?") -> str:
    """Text on one line: `instead` stands for each character that cannot be printed."""
    return "".join(mark if mark.isprintable() else instead for mark in text)
