"""A provider's tool: which version it is, and what to say when it does not do what it should."""

from __future__ import annotations

import os

from ..host.tools.tool import TAIL_BYTES, run_tool
from ..shell.snapshot import told
from .base import Resolution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..host.tools.tool import Ran
    from .base import Context

_TAIL = 4 << 10  # characters of stderr, for the report: the last lines tell what went wrong
_VERSION_SECONDS = 5.0
# By program and by what it was when it was asked: a version costs a process.
_versions: dict[tuple[str, int, int], str] = {}


def tail(ran: Ran, known: Mapping[str, str], raw: bytes | None = None) -> str:
    """The end of what a tool wrote to stderr, or of `raw` instead, without the secrets of `known`."""
    return told(ran.stderr if raw is None else raw, known, _TAIL, cut=len(ran.stderr) >= TAIL_BYTES)


def without(raw: bytes, noise: str) -> bytes:
    """What a tool printed without the lines that have `noise` in them; all of it where that is empty."""
    return b"\n".join(line for line in raw.split(b"\n") if not noise or noise.encode() not in line)


def version(path: str, env: Mapping[str, str], mark: int | None = None, ask: str = "--version") -> str:
    """The first number that a tool prints for `ask`; "" when there is none. Asked outside of projects."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    key = (path, found.st_ino, found.st_mtime_ns)
    known = _versions.get(key)
    if known is None:
        ran = run_tool([path, ask], "/", env, timeout=_VERSION_SECONDS, mark=mark)
        words = ran.stdout.decode("utf-8", "replace").split()
        known = next((word for word in words if word[:1].isdigit() and "." in word), "")
        if ran.outcome == "exited":  # else a busy machine would have no version for ever
            _versions[key] = known
    return known


def failed(
    ran: Ran, context: Context, what: str, watch: Sequence[str] = (), *, noise: str = "", producer: str = ""
) -> Resolution:
    """A tool that gave nothing usable: `what` says what to do about it. Lines with `noise` are not shown."""
    if ran.outcome == "timeout":
        what = f"it did not finish within {ran.seconds:.0f} s; {what}"
    elif ran.outcome == "too-large":
        what = f"it printed more than an environment can contain; {what}"
    elif ran.outcome == "not-started":
        what = f"{ran.failure}; {what}"
    said = tail(ran, context.env, without(ran.stderr, noise))
    return Resolution("failed", note=what, stderr_tail=said, watch=watch, producer=producer)
