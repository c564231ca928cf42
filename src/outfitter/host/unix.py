"""How children are started, watched and found here: Linux's own way, or one that every Unix has.

Both kinds offer the same few names, and the choice is made once. `outfitter.core.abilities` tells what is
weaker where.
"""

from __future__ import annotations

from ..system import LINUX

if LINUX:
    from .descendants import (
        KILL_MARKED,
        adopt_orphans,
        below,
        children,
        kill_marked,
        kill_session_members,
        marked,
        runs,
        usable,
    )
    from .exits import kill_watched, reap_watched, waitpid, watch_exit
    from .spawn import Spawner
else:
    from .portable.descendants import (
        KILL_MARKED,
        adopt_orphans,
        below,
        children,
        kill_marked,
        kill_session_members,
        marked,
        runs,
        usable,
    )
    from .portable.exits import kill_watched, reap_watched, waitpid, watch_exit
    from .portable.spawn import Spawner

__all__ = [
    "KILL_MARKED",
    "Spawner",
    "adopt_orphans",
    "below",
    "children",
    "kill_marked",
    "kill_session_members",
    "kill_watched",
    "marked",
    "reap_watched",
    "runs",
    "usable",
    "waitpid",
    "watch_exit",
]
