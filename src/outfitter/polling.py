"""What waits for descriptors, and what wakes it: epoll and an eventfd, or what every Unix has.

Both kinds have epoll's words and numbers, since the loop that uses them was written for epoll.
"""

from __future__ import annotations

import os
import select

from .system import LINUX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Poller(Protocol):
        """epoll's methods. All raise OSError."""

        def register(self, fd: int, eventmask: int, /) -> None: ...
        def modify(self, fd: int, eventmask: int, /) -> None: ...
        def unregister(self, fd: int, /) -> None: ...
        def poll(self, timeout: float = -1, /) -> list[tuple[int, int]]: ...
        def close(self) -> None: ...


__all__ = ["Wakeup", "poller"]

if LINUX:

    def poller() -> Poller:
        return select.epoll()

    class Wakeup:
        """What a thread wakes the loop with: `fd` can be read then. Raises OSError; ValueError if closed."""

        def __init__(self) -> None:
            self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

        def wake(self) -> None:
            os.eventfd_write(self.fd, 1)

        def woken(self) -> None:
            os.eventfd_read(self.fd)

        def close(self) -> None:
            fd, self.fd = self.fd, -1
            if fd >= 0:
                os.close(fd)

else:
    from .anypoll import SelectorPoller, Wakeup  # type: ignore[assignment]

    def poller() -> Poller:
        return SelectorPoller()
