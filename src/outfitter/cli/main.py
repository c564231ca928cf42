"""The `outfitter` command: parse, dispatch, exit codes."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def main() -> int:
    """Runs the command line; returns the exit status."""
    try:
        status = _main()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and _is_nowhere():
            print("outfitter: the current directory no longer exists: change to another one", file=sys.stderr)
            return 1
        from errno import EDQUOT, EFBIG, ENOSPC, EPIPE

        if error.errno not in (ENOSPC, EDQUOT, EFBIG, EPIPE) or error.filename is not None:
            raise
        return _cannot_write(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()  # here, and not when the interpreter ends: then nobody could say what is wrong
    except OSError as error:
        return _cannot_write(error)
    return status


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _cannot_write(error: OSError) -> int:
    # The interpreter would try once more when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if not isinstance(error, BrokenPipeError):  # who does not read on (`| head`) knows
        print(f"outfitter: cannot write the output: {error.strerror}", file=sys.stderr)
    return 1


def _main() -> int:
    args = sys.argv[1:]
    if args in (["--version"], ["-V"]):
        return _version()
    if "LC_CTYPE" in os.environ:  # else there is nothing that Python may have set
        from ..host.given import take_back

        take_back()  # for servers that we start, and for those that are told of our environment
    _hear_of_children()
    quick = _quick(args) if args else None
    if quick is None:
        from .commands import run

        return run(args)
    from ..earlyerrors import OutfitterError

    try:
        status = quick()
        if status is None:
            from .commands import run

            return run(args)
        return status
    except OutfitterError as error:
        from ..plain import plain

        print(f"outfitter: {plain(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _hear_of_children() -> None:
    """Who ignores SIGCHLD leaves that to the programs that it starts, and the kernel then tells them of no
    child how it has ended."""
    from ..stdlib import SIG_DFL, SIG_IGN, SIGCHLD, getsignal, signal

    if getsignal(SIGCHLD) == SIG_IGN:
        signal(SIGCHLD, SIG_DFL)


def _version() -> int:
    from .. import VERSION

    try:
        sys.stdout.write(f"outfitter, version {VERSION}\n")
        sys.stdout.flush()
    except (OSError, AttributeError):  # nobody reads it
        return 1
    return 0


def _quick(args: list[str]) -> Callable[[], int | None] | None:
    """The way around click, for plain command lines of commands that must be quick; see cli.flags."""
    match args[0]:
        case "serve":
            return _quick_serve(args[1:])
        case "keep-slot" if len(args) == 5:  # what pools start on nodes, not for people
            return lambda: _keep_slot(args[1:])
        case "run" if None not in (sys.stdin, sys.stdout, sys.stderr):
            return _quick_run(args[1:])
        # Who asks for a completion, or has closed a stream, is not in a hurry.
        case "env" | "hook" if None not in (sys.stdin, sys.stdout, sys.stderr):
            return _quick_env(args[1:]) if args[0] == "env" else _quick_hook(args[1:])
    return None


def _keep_slot(args: list[str]) -> int:
    from ..pool.keep import main

    return main(args)


def _quick_serve(args: list[str]) -> Callable[[], int] | None:
    from .flags import REMOTE_ONLY, read_plain

    flags = read_plain(args)
    if flags is None or flags["remote"] is not None or any(flags[name] for name in REMOTE_ONLY):
        return None
    import gc

    gc.disable()  # what is loaded from here on stays; `server.listen` looks for garbage later
    from .serve import serve

    return lambda: serve(flags)


def _quick_run(args: list[str]) -> Callable[[], int | None] | None:
    import gc

    gc.disable()  # as above; a command that takes longer has it looked for
    from .flags import read_with_words
    from .runflags import RUN, is_plain, is_plain_elsewhere

    read = read_with_words(args, RUN, command=True)
    if read is not None:
        flags, argv = read
        if is_plain(argv, flags):
            from .quickrun import run

            return lambda: run(argv, flags)
        if is_plain_elsewhere(argv, flags):
            return lambda: _run_elsewhere(argv, flags)
        if argv and not flags["detach"] and flags["detach_for"] is None:
            from .run import run as run_anywhere

            gc.enable()
            return lambda: run_anywhere(argv, flags)
    gc.enable()
    return None


def _run_elsewhere(argv: list[str], flags: dict[str, Any]) -> int:
    from .quickon import run

    done = run(argv, flags)
    if isinstance(done, int):
        return done
    from .run import run as run_anywhere
    from .run import take_up

    return run_anywhere(argv, flags) if done is None else take_up(done)


def _quick_env(args: list[str]) -> Callable[[], int] | None:
    from .envflags import ENV, ENV_EXPLAIN
    from .flags import read_with_words

    is_explain = args[:1] == ["explain"]
    read = read_with_words(args[1:], ENV_EXPLAIN) if is_explain else read_with_words(args, ENV)
    if read is None:
        return None
    flags, words = read
    if flags["show_secrets"] and not flags["values"]:
        return None  # refused there
    if is_explain:
        from .env.explain import explain

        return lambda: explain(words, flags)
    if words:
        return None  # another command
    from .env.show import show

    return lambda: show(flags)


def _quick_hook(args: list[str]) -> Callable[[], int] | None:
    from .envflags import HOOK_CLAUDE, HOOK_CODEX
    from .flags import read_plain

    match args[:1]:
        case ["claude"]:
            flags = read_plain(args[1:], HOOK_CLAUDE)
            from .hook.claude import claude as hook
        case ["codex"]:
            flags = read_plain(args[1:], HOOK_CODEX)
            from .hook.codex import codex as hook
        case _:
            return None
    return None if flags is None else lambda: hook(flags)
