"""Whose files are ours: those of the user whom this process serves, and root's.

With `--run-as` the process is root's and its files are the other user's (see `host.identity`).
"""

from __future__ import annotations

import os

# The other user's, set once by `host.identity`.
assumed: int | None = None


def own() -> int:
    """The user that commands run as, and to whom files belong that this process makes."""
    return os.geteuid() if assumed is None else assumed


def ours() -> tuple[int, int]:
    """The users who may have written what is ours to run: root, and the one that commands run as."""
    return 0, own()
