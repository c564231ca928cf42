"""What tests of sandboxes share."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def elsewhere() -> Iterator[Path]:
    """A scratch directory that is not below /tmp, which the usual profile makes writable."""
    path = Path(tempfile.mkdtemp(prefix="outfitter-", dir="/var/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
