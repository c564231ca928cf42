"""What bubblewrap is told, written while it starts: it takes 0.7 ms until it reads, and we need as long to
find out what it is to mount.

It reads three descriptors, one after the other: a pipe, from which nothing ever comes, so that it waits until
we close our end; the words; and the filter of system calls. The filter is written last. Where we end or fail
before that, bubblewrap finds an empty one, and starts nothing: the kernel takes no empty filter.
"""

from __future__ import annotations

import os

from ..pipes import let_go
from .bubblewrap import fill, memory


class Sheet:
    """`theirs` are bubblewrap's descriptors, `opened` all of them: when they are closed, it reads. Raises
    OSError."""

    def __init__(self) -> None:
        self.opened = [*os.pipe2(os.O_CLOEXEC)]
        try:
            self._words = memory()
            self.opened.append(self._words)
            self._filter = memory()
            self.opened.append(self._filter)
        except BaseException:
            let_go(*self.opened)
            raise
        self.theirs = (self.opened[0], self._words, self._filter)

    def words(self, first: int) -> list[str]:
        """How bubblewrap is told of them, the first of which has this number."""
        return ["--args", str(first), "--args", str(first + 1), "--seccomp", str(first + 2)]

    def write(self, words: bytes, filter_: bytes) -> None:
        """Raises OSError."""
        fill(self._words, words)
        fill(self._filter, filter_)
