"""Says what is waited for, once it takes its time: asyncio is not there where this is needed."""

from __future__ import annotations

import sys

from ..plain import plain
from ..stdlib import allocate_lock, start_new_thread

PATIENCE_SECONDS = 1.0  # as a server does


class patiently:
    """Around what may take its time: a line on stderr if it is not over soon, then less and less often."""

    def __init__(self, what: str) -> None:
        self._what = what
        # Locked until it is over, and until nothing more is said.
        self._over, self._silent = allocate_lock(), allocate_lock()

    def __enter__(self) -> None:
        self._over.acquire()
        self._silent.acquire()
        start_new_thread(self._tell, ())

    def __exit__(self, *_: object) -> None:
        self._over.release()
        self._silent.acquire()

    def _tell(self) -> None:
        seconds = PATIENCE_SECONDS
        while not self._over.acquire(timeout=seconds):
            print(f"outfitter: waiting for {plain(self._what)}", file=sys.stderr, flush=True)
            seconds *= 2
        self._silent.release()
