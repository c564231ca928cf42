"""What stands in the way of a sandbox, for every part of it."""

from __future__ import annotations


class Unenforceable(Exception):
    """A confinement that cannot be enforced on the files as they are; the text says why."""


class TooWide(Unenforceable):
    """A pattern for which more names would be looked at than `limit`, below `folder`."""

    def __init__(self, folder: str, limit: int) -> None:
        super().__init__(f"unreadable glob expansion for {folder} looked at more than {limit} paths")
        self.folder = folder
        self.limit = limit


def refusal(why: Unenforceable) -> str:
    """What a command says instead of running: the reference's words."""
    return f"error building bubblewrap command: Fatal error: {why}\n"
