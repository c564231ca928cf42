"""The `outfitter` command: parse, dispatch, exit codes."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line; returns the exit status."""
    args = sys.argv[1:]
    if args[:1] == ["serve"]:
        # The quick way to a listening server; see cli.flags.
        from .flags import read_plain

        flags = read_plain(args[1:])
        if flags is not None and not flags["exit_on_stdin_close"]:
            from ..errors import OutfitterError
            from .serve import serve

            try:
                return serve(flags)
            except OutfitterError as error:
                print(f"outfitter: {error}", file=sys.stderr)
                return 1
    from .commands import run

    return run(args)
