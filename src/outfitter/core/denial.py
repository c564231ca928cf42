"""Whether a command in a sandbox probably failed because of it: a guess, the same as the reference's."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .output import Chunk

_WORDS = (
    *(b"operation not permitted", b"permission denied", b"read-only file system", b"seccomp", b"sandbox"),
    *(b"landlock", b"failed to write file"),
)
_NOT = (2, 126, 127)
_SIGSYS = 159


def denied(exit_code: int, chunks: Iterable[Chunk]) -> bool:
    """What it printed comes first, then its exit code."""
    if exit_code == 0:
        return False
    said = b"".join([bytes(chunk.data) for chunk in chunks]).lower()
    if any([word in said for word in _WORDS]):
        return True
    return exit_code not in _NOT and exit_code == _SIGSYS
