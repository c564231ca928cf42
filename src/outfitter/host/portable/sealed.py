"""Copies in files of our own, in place of sealed memory: other users cannot change them, our own user can.

A server that is killed leaves a copy behind, in the folder for temporary files.
"""

from __future__ import annotations

import os
import shutil
import tempfile


def memory_file(name: str) -> int:
    """A descriptor of an empty file without a name, on the disk of temporary files. Raises OSError."""
    fd, path = tempfile.mkstemp(prefix=f"outfitter-{name}-")
    os.unlink(path)
    return fd


class Sealed:
    """A copy for one program, which calls it `path`. Raises OSError."""

    def __init__(self, data: bytes) -> None:
        self.descriptors: tuple[int, ...] = ()
        self._folder = tempfile.mkdtemp(prefix="outfitter-sealed-")  # nobody else may enter it
        self.path = f"{self._folder}/program"
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o500)
            with open(fd, "wb") as file:
                file.write(data)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
