"""Whether an environment is the user's own: made on this machine by a tool that the user ran.

Such an environment may go in front of PATH without a person's word. One that came with a repository, or that
belongs to another user, may not.
"""

from __future__ import annotations

import os
import stat

from ..host.uids import ours
from .gitindex import tracks


def is_own(folder: str, *parts: str) -> bool:
    """Whether a folder and these parts of it belong to this user or to root, and git tracks nothing of it.

    Where anybody may put files into a folder among them, it is not.
    """
    us = ours()
    try:
        for part in ("", *parts):
            path = os.path.join(folder, part)
            found = os.lstat(path)
            if found.st_uid not in us:
                return False
            # An interpreter may be linked from anywhere; a folder of programs must be ours where it leads to.
            real = os.stat(path) if stat.S_ISLNK(found.st_mode) else found
            if stat.S_ISDIR(real.st_mode) and (real.st_uid not in us or real.st_mode & stat.S_IWOTH):
                return False
    except OSError:
        return False
    # By all names: a link to a folder of the repository is no way around.
    paths = {os.path.abspath(folder), os.path.realpath(folder), os.path.realpath(f"{folder}/bin")}
    return not any(map(tracks, paths))
