"""Whether a sandbox is the likely reason for a command's failure: a guess from what it left behind, and the
same one that clients know from the reference. They ask a person whether to run the command without a sandbox.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .output import Chunk

_WORDS = (
    b"operation not permitted",
    b"permission denied",
    b"read-only file system",
    b"seccomp",
    b"sandbox",
    b"landlock",
    b"failed to write file",
)
# Of shells: a wrong use, no permission to run, no such command. Output that has one of the words counts more.
_OTHER_REASONS = (2, 126, 127)
_KILLED_BY_FILTER = 128 + 31  # SIGSYS


def denied(exit_code: int, chunks: Collection[Chunk]) -> bool:
    """For a command that ran in a sandbox, from the output that is still retained: of each stream by itself,
    and of all in the order they came in."""
    if exit_code == 0:
        return False
    streams = {chunk.stream for chunk in chunks}
    texts = [b"".join([chunk.data for chunk in chunks])]
    if len(streams) > 1:
        texts += [b"".join([one.data for one in chunks if one.stream == stream]) for stream in streams]
    for text in texts:
        lower = text.lower()
        if any(word in lower for word in _WORDS):
            return True
    return exit_code not in _OTHER_REASONS and exit_code == _KILLED_BY_FILTER
