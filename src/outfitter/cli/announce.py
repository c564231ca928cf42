"""The first line of a command that runs until it is stopped, for the program that has started it (--json)."""

from __future__ import annotations

import os
import sys

from .. import VERSION
from ..protocol.jsontext import dumps  # a server loads it anyway, and somebody waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def announce(where: Mapping[str, object], limited: str = "") -> None:
    """Says where it is, and which process: between it and its caller may be a shell or another launcher."""
    told = {**where, "pid": os.getpid(), "version": VERSION}
    if limited:
        told["limits"] = limited
    tell(told)


def tell(line: Mapping[str, object]) -> None:
    """One object on a line of its own, at once: somebody waits for it."""
    if sys.stdout is not None:  # else it was closed: nobody wants to know
        sys.stdout.write(f"{dumps(line)}\n")
        sys.stdout.flush()
