"""The program between a tool that makes an environment and the command: it applies the rules again.

It is started as a file, by a Python that reads nothing of its own: `program_words` says how. Its words are
those of `env.behind`, then the command.
"""

from __future__ import annotations

import os
import sys

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells, and tools such as env, say it


def program_words() -> list[str]:
    """The command line of this program, without its words."""
    return [sys.executable, "-I", "-S", "-X", "utf8", os.path.abspath(__file__)]


def main() -> None:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from outfitter.env.behind import put_right

    env, command = put_right(os.environ, sys.argv[1:])
    try:
        os.execvpe(command[0], command, env)
    except OSError as error:
        text = f"outfitter: {command[0]}: {error.strerror}\n"
        os.write(2, text.encode("utf-8", "surrogateescape"))
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


if __name__ == "__main__":
    main()
