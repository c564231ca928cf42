"""The program in front of a tool that makes environments: the tool sees files as they were checked.

The tool runs in a mount namespace where they are so, and starts the program behind it (`behind`), which
reports the environment instead of the command. Then this process becomes the command, outside of that
namespace: what a project's files look like in it is nothing to the command. Started as `behind` is.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

_CHANGED = 126  # as for a program that cannot be executed
_SIGKILL, _SIGTTOU = 9, 22
_PR_SET_PDEATHSIG = 1
_LARGEST = 1 << 25  # of a trusted file; far more than any provider reads


def program_words() -> list[str]:
    """The command line of this program, without its words."""
    return [sys.executable, "-I", "-S", "-X", "utf8", os.path.abspath(__file__)]


def main() -> None:
    sys.path.insert(
        0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    )
    from outfitter.env.ahead import told
    from outfitter.env.report import decode
    from outfitter.host.tools.behind import REPORT, as_started, become
    from outfitter.system import LINUX

    plan = told(sys.argv[1:])
    as_started()
    try:
        files = {path: checked(path, digest) for path, digest in plan.files.items()}
    except NotAsChecked as error:
        _fail(f"{error}. Nothing was run: try again.")
    if not LINUX:
        become([*plan.tool, *plan.rest], os.environ)  # nothing is frozen there (core.abilities, "frozen")
    report = os.memfd_create("report", 0)  # the tool, and what it starts, inherit it
    tool = [*plan.tool, REPORT, str(report), *plan.rest]
    status = _asked(plan.top, files, tool)
    said = os.pread(report, os.fstat(report).st_size, 0)
    os.close(report)
    if not said:
        _end(status)
    env, command, folder, mask = decode(said)
    _take_terminal()
    if folder != os.getcwd():
        os.chdir(folder)
    os.umask(mask)
    become(command, env)


class NotAsChecked(Exception):
    """A file is not what it was."""


def checked(path: str, digest: str) -> bytes | None:
    """What is at a path, if it is what was checked. Raises NotAsChecked."""
    from outfitter.env.ahead import ABSENT
    from outfitter.stdlib import sha256

    if digest == ABSENT:
        return None
    try:
        if path.endswith("/"):
            content = b"".join(os.fsencode(name) + b"\0" for name in sorted(os.listdir(path)))
        else:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                content = file.read(_LARGEST)
    except OSError as error:
        raise NotAsChecked(f"{path}: {error.strerror}") from None
    if sha256(content).hexdigest() != digest:
        raise NotAsChecked(f"{path} has changed since it was checked")
    return content


def _asked(top: str, files: Mapping[str, bytes | None], tool: Sequence[str]) -> int:
    """The status of the tool, which ran with its files frozen."""
    child = os.fork()
    if child == 0:
        try:
            _ask(top, files, tool)
        finally:
            os._exit(_CHANGED)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _ask(top: str, files: Mapping[str, bytes | None], tool: Sequence[str]) -> NoReturn:
    """Runs the tool, in the child; keeps what it has written."""
    from outfitter.errors import LaunchFailed
    from outfitter.host.mounts import Mounts
    from outfitter.host.tools.behind import become
    from outfitter.host.tools.freezing import FrozenFolder, NotFreezable
    from outfitter.host.tools.layout import layout

    cwd, parent = os.getcwd(), os.getppid()
    try:
        folder = FrozenFolder(top, *layout(top, files))
    except (NotFreezable, LaunchFailed) as error:
        _fail(f"the files of {top} cannot be frozen: {error}. Nothing was run: try again.")
    except OSError as error:
        _fail(
            f"the files of {top} cannot be frozen: {error.strerror}. Nothing was run: allow namespaces here, "
            'or write freeze = "off" under [providers] in your own config.toml.'
        )
    prctl = Mounts().libc.prctl
    prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
    os.chdir(cwd)
    child = os.fork()
    if child == 0:
        prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        become(tool, os.environ)
    os.chdir("/")
    _, status = os.waitpid(child, 0)
    if lost := folder.give_back():
        _say(f"what {tool[0]} wrote could not be kept: {', '.join(lost)}")
    _end(os.waitstatus_to_exitcode(status))


def _take_terminal() -> None:
    """A shell of the tool may have made itself the one that the terminal belongs to."""
    from outfitter.stdlib import SIG_DFL, SIG_IGN, signal

    signal(_SIGTTOU, SIG_IGN)
    try:
        os.tcsetpgrp(0, os.getpgrp())
    except OSError:
        pass  # it is no terminal, or not ours
    signal(_SIGTTOU, SIG_DFL)


def _end(status: int) -> NoReturn:
    """As the tool has ended."""
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 128 - status)


def _fail(text: str) -> NoReturn:
    _say(text)
    os._exit(_CHANGED)


def _say(text: str) -> None:
    os.write(2, f"outfitter: {text}\n".encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    main()
