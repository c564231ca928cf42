"""epoll's words for `selectors`, and a pipe in place of an eventfd: for a loop on any Unix."""

from __future__ import annotations

import errno
import os
import selectors

_IN, _PRI, _OUT = 0x001, 0x002, 0x004


class SelectorPoller:
    """Waits by kqueue, poll, or what else this system has; speaks as epoll does."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, eventmask: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)  # closed meanwhile, and the number is another's: epoll forgets
        try:
            self._selector.register(fd, _wanted(eventmask))
        except ValueError:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None

    def modify(self, fd: int, eventmask: int) -> None:
        if not eventmask & (_IN | _OUT):
            # Nothing is wanted for a while; what is not known is not waited for.
            if fd in self._selector.get_map():
                self._selector.unregister(fd)
        elif fd in self._selector.get_map():
            self._selector.modify(fd, _wanted(eventmask))
        else:
            self.register(fd, eventmask)

    def unregister(self, fd: int) -> None:
        try:
            self._selector.unregister(fd)
        except (KeyError, ValueError):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from None

    def poll(self, timeout: float = -1) -> list[tuple[int, int]]:
        ready = self._selector.select(None if timeout < 0 else timeout)
        return [(key.fd, _came(events)) for key, events in ready]

    def close(self) -> None:
        self._selector.close()


def _wanted(mask: int) -> int:
    return (selectors.EVENT_READ if mask & _IN else 0) | (selectors.EVENT_WRITE if mask & _OUT else 0)


def _came(events: int) -> int:
    return (_IN if events & selectors.EVENT_READ else 0) | (_OUT if events & selectors.EVENT_WRITE else 0)


class Wakeup:
    """What a thread wakes the loop with: `fd` can be read then. Raises OSError, ValueError when closed."""

    def __init__(self) -> None:
        self.fd, self._writing = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writing, False)

    def wake(self) -> None:
        try:
            os.write(self._writing, b"\0")
        except BlockingIOError:
            pass  # it is full of such words

    def woken(self) -> None:
        os.read(self.fd, 4096)

    def close(self) -> None:
        for fd in (self.fd, self._writing):
            if fd >= 0:
                os.close(fd)
        self.fd = self._writing = -1
