"""What stands in the way of a sandbox, for every part of it."""

from __future__ import annotations


class Unenforceable(Exception):
    """A confinement that cannot be enforced on the files as they are; the text says why."""
