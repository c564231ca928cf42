"""The program between a tool that makes an environment and the command: it applies the rules again.

It is started as a file, by a Python that reads nothing of its own: `program_words` says how. Its words are
those of `env.behind`, then the command. With a program in front of the tool (`ahead`), it tells that program
what it would have done.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells, and tools such as env, say it

_SIGINT, _SIGPIPE, _SIGXFSZ = 2, 13, 25

# The first word if somebody waits for a report; the descriptor follows.
REPORT = "report"


def program_words() -> list[str]:
    """The command line of this program, without its words."""
    return [sys.executable, "-I", "-S", "-X", "utf8", os.path.abspath(__file__)]


def main() -> None:
    sys.path.insert(
        0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    )
    from outfitter.env.behind import put_right

    as_started()
    report, words = _report(sys.argv[1:])
    env, command = put_right(os.environ, words)
    if report is None:
        become(command, env)
    from outfitter.env.report import encode

    umask = os.umask(0)
    with open(report, "wb") as file:
        file.write(encode(env, command, os.getcwd(), umask))


def _report(words: list[str]) -> tuple[int | None, list[str]]:
    """Where the program in front of the tool wants to be told of the environment, if it is there."""
    return (int(words[1]), words[2:]) if words[0] == REPORT else (None, words)


def as_started() -> None:
    """Undoes what Python does to signals and to the locale: what is executed would inherit it."""
    from outfitter.host.given import take_back
    from outfitter.stdlib import SIG_DFL, SIG_IGN, getsignal, signal

    if getsignal(_SIGINT) != SIG_IGN:
        signal(_SIGINT, SIG_DFL)
    signal(_SIGPIPE, SIG_DFL)
    signal(_SIGXFSZ, SIG_DFL)
    take_back()


def become(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Executes a command, or says why that cannot be."""
    try:
        os.execvpe(argv[0], list(argv), env)
    except OSError as error:
        text = f"outfitter: {argv[0]}: {error.strerror}\n"
        os.write(2, text.encode("utf-8", "surrogateescape"))
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


if __name__ == "__main__":
    main()
