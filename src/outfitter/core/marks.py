"""The number that all descendants of a process carry: server, session and process in one.

It is left in a resource limit that children inherit (`host.tree` says which and why), so it must look
like "practically unlimited": above 2^62. Where there is no such limit, a variable has it (`env.names.MARK`).
The parts, from the top: the flag, 28 bits of the server's nonce, 12 of the session, 22 of the process.
"""

from __future__ import annotations

FLAG = 1 << 62
NONCE_BITS = 28
NONCE_SHIFT = 34
_SESSION_SHIFT = 22
SESSION_NUMBERS = 1 << (NONCE_SHIFT - _SESSION_SHIFT)
# For what belongs to no session: it is ended with the server.
NO_SESSION = SESSION_NUMBERS - 1
_PROCESS_NUMBERS = 1 << _SESSION_SHIFT


class Marks:
    """The marks of one server. Two servers on a machine differ by their nonce."""

    __slots__ = ("_next_process", "prefix")

    def __init__(self, nonce: int) -> None:
        self.prefix = (FLAG >> NONCE_SHIFT) | nonce  # the upper part of every mark of this server
        self._next_process = 0

    def new(self, session: int) -> int:
        """A mark for the next process of the session with this number."""
        self._next_process = (self._next_process + 1) % _PROCESS_NUMBERS
        return (self.prefix << NONCE_SHIFT) | (session << _SESSION_SHIFT) | self._next_process

    def is_ours(self, mark: int) -> bool:
        return mark >> NONCE_SHIFT == self.prefix

    def session_of(self, mark: int) -> int:
        return (mark >> _SESSION_SHIFT) % SESSION_NUMBERS
