"""The program that walks large trees: fs/walk's params on stdin, a line each; its results on stdout.

A result is a byte, its length in eight more, and the text: `+` the result's JSON, `!` the name of an error of
the operating system and its text. It ends with its input, or when nobody has asked for a while.
"""

from __future__ import annotations

import os
import signal

from ..host.files import failed
from ..host.walk import walk
from ..protocol.filesystem import WalkParams
from ..protocol.jsontext import in_pieces, loads, quote
from ..protocol.uri import encode_name
from .limits import WALK_SECONDS, WALKER_IDLE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.walk import Walk


def main() -> None:
    with open(0, "rb") as requests, open(1, "wb", buffering=0) as out:
        while True:
            signal.alarm(WALKER_IDLE_SECONDS)  # its default is the end
            line = requests.readline()
            if not line:
                return
            signal.alarm(0)
            params = WalkParams.decode(loads(line.decode()))
            try:
                pieces, kind = pieces_of(walk_for(params)), b"+"
            except OSError as error:
                failure = failed(error)
                pieces, kind = [f"{failure.errno_name} {failure}".encode()], b"!"
            _write(out.fileno(), kind + sum(map(len, pieces)).to_bytes(8, "big"))
            for piece in pieces:
                _write(out.fileno(), piece)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def walk_for(params: WalkParams, most: int | None = None) -> Walk:
    """The walk of a request; with `most`, of so many names at the most."""
    if most is not None and most < params.max_entries:
        params = WalkParams(
            params.path,
            params.max_depth,
            params.max_directories,
            most,
            params.follow_directories,
            params.prune_hidden,
        )
    return walk(params.path.local_path(), params.path.text, params, encode_name, WALK_SECONDS)


def pieces_of(done: Walk) -> list[bytes]:
    """The result's JSON text, in pieces: one of megabytes costs more to allocate than to fill."""
    entries = in_pieces([_group_text(*group) for group in done.groups])
    errors = ",".join(f'{{"path":{quote(one)},"message":{quote(text)}}}' for one, text in done.errors)
    end = f'],"errors":[{errors}],"truncated":{"true" if done.truncated else "false"}}}'
    return [b'{"entries":[', *entries, end.encode()]


def _group_text(prefix: str, names: list[str], kind: str) -> str:
    """Entries of one folder and kind; what stands in a URI needs no quoting."""
    end = f'","kind":"{kind}"}}'
    start = f'{{"path":{quote(prefix)[:-1]}'
    return start + f"{end},{start}".join(names) + end
