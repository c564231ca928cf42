"""Text of others on a person's terminal: it may have lines, and steers nothing."""

from __future__ import annotations


def plain(text: str) -> str:
    """Without what would move the cursor, change colours or turn the direction of reading.

    Names of folders, and what programs say, come from anywhere.
    """
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() or mark in "\n\t" else mark.encode("unicode_escape").decode()
        for mark in text
    )
