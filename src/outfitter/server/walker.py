"""The program that walks large trees: fs/walk's params on stdin, a line each; its results on stdout.

A result is a byte, its length in eight more, and the text: `+` the result's JSON, `!` the name of an error of
the operating system and its text. It ends with its input, or when nobody has asked for a while.
"""

from __future__ import annotations

import os
import signal

from ..errors import FileFailed
from ..host.files import failed
from ..host.walk import PLAIN, walk
from ..protocol.fileresults import walk_text
from ..protocol.filesystem import WalkParams
from ..protocol.uri import encode_name
from ..record import replace
from .limits import WALK_SECONDS, WALKER_IDLE_SECONDS
from .seenfiles import restricting, within
from .settings import OWN_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.walk import Walk
    from ..host.walk import Sight
    from ..protocol.sandbox import SandboxContext


def main() -> None:
    with open(0, "rb") as requests, open(1, "wb", buffering=0) as out:
        while True:
            signal.alarm(WALKER_IDLE_SECONDS)  # its default is the end
            line = requests.readline()
            if not line:
                return
            signal.alarm(0)
            params = WalkParams.read(line.decode())
            try:
                pieces, kind = pieces_of(walk_for(params, sight_for(params.sandbox))), b"+"
            except (OSError, FileFailed) as error:
                failure = failed(error) if isinstance(error, OSError) else error
                pieces, kind = [f"{failure.errno_name or ''} {failure}".encode()], b"!"
            _write(out.fileno(), kind + sum(map(len, pieces)).to_bytes(8, "big"))
            for piece in pieces:
                _write(out.fileno(), piece)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sight_for(sandbox: SandboxContext | None) -> Sight:
    """How a program of ours sees files for a request. Raises FileFailed."""
    if sandbox is None:
        return PLAIN
    own = os.environ.get(OWN_FILES, "")
    bounds = restricting(sandbox, os.environ.get("TMPDIR"), tuple(own.split("\n")) if own else ())
    return PLAIN if bounds is None else within(bounds)


def walk_for(params: WalkParams, sight: Sight, most: int | None = None) -> Walk:
    """The walk of a request; with `most`, of so many names at the most."""
    if most is not None and most < params.max_entries:
        params = replace(params, max_entries=most)
    return walk(params.path.local_path(), params.path.text, params, encode_name, WALK_SECONDS, sight)


def pieces_of(done: Walk) -> list[bytes]:
    """The result's JSON text, in pieces: one of megabytes costs more to allocate than to fill."""
    return walk_text(done.groups, done.errors, done.truncated)
