"""Says what is waited for, once it takes its time: asyncio is not there where this is needed."""

from __future__ import annotations

import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_SECONDS = 1.0  # as a server does


@contextmanager
def patiently(what: str) -> Iterator[None]:
    """A line on stderr if what is done in this block is not over soon, and then less and less often."""
    from threading import Event, Thread

    over = Event()

    def tell() -> None:
        seconds = PATIENCE_SECONDS
        while not over.wait(seconds):
            print(f"outfitter: waiting for {what}", file=sys.stderr, flush=True)
            seconds *= 2

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
