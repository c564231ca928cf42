"""What path_helper(8) of macOS makes of PATH: its own folders first, then those that were there before.

/etc/zprofile and /etc/profile run it in every login shell. So what a parent had put first comes last.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def folders(*texts: str) -> list[str]:
    """The folders in /etc/paths and in the files of /etc/paths.d, one per line, each once."""
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return list(dict.fromkeys(line for line in lines if line))


def moved_back(path: str, own: Sequence[str]) -> list[str]:
    """The entries that were in front of one of path_helper's own, and are behind it afterwards."""
    before = [entry for entry in path.split(":") if entry]
    last = max((place for place, entry in enumerate(before) if entry in own), default=-1)
    return [entry for place, entry in enumerate(before) if place < last and entry not in own]
