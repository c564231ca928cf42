"""The process that servers are copies of: it has loaded what they need, and does nothing else; Linux only.

Whoever asks for a server sends what it is started with, and the descriptors that it gets; the answer is its
process id, and a descriptor of it. No threads here: a copy would have but one of them.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import time
from importlib import import_module

from .. import stdlib
from ..host.given import replace
from ..record import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_MESSAGE_BYTES = 64
_DESCRIPTORS = 16  # of one request, at most
_FIRST = 5  # those that every request has: what it says, the report, and three streams
# What a server has loaded when its first command has ended; each brings along what it imports.
MODULES = (
    "cli.flags",
    "cli.main",
    "cli.serve",
    "contract.answers",
    "contract.config",
    "contract.layers",
    "contract.selection",
    "core.quotas",
    "env.fingerprint",
    "host.guard",
    "host.imports",
    "host.installkey",
    "host.memory",
    "pace",
    "providers.inherited",
    "providers.marks",
    "server.auth",
    "server.fence",
    "server.handlers.environment",
    "server.handlers.process",
    "server.handlers.session",
    "server.server",
    "server.shells",
    "server.tokens",
    "server.upgrading",
    "shell.bash",
    "shell.call",
    "shell.start",
    "transport.linuxpeer",
    "transport.listener",
    "transport.websocket",
)


def main(control: int) -> None:
    """Answers requests on this socket until its other end is closed."""
    asked = socket.socket(fileno=control)
    asked.set_inheritable(False)
    _load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our end is the socket's
    signal.signal(signal.SIGCHLD, _reap)
    try:
        asked.send(b"ready")
        while _answer(asked):
            pass
    except ConnectionError:
        pass  # nobody asks any more


def _answer(asked: socket.socket) -> bool:
    """Makes a copy for the next request; False if there is none."""
    said, given, _, _ = socket.recv_fds(asked, _MESSAGE_BYTES, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    pid, watched = _copy(asked, given) if len(given) >= _FIRST else (0, -1)
    for fd in given:
        os.close(fd)
    if not said:
        return False
    if not pid:
        asked.send(b"no")
        return True
    socket.send_fds(asked, [b"%d" % pid], [watched])
    os.close(watched)
    return True


def _load() -> None:
    gc.disable()
    for name in MODULES:
        import_module(f"outfitter.{name}")
    for name in ("_compare_digest", "sha1", "sha256"):
        getattr(stdlib, name)  # loaded when it is first used
    write_all()
    gc.collect()
    gc.freeze()  # no copy looks through these: a page that it wrote to would be its own


def _copy(asked: socket.socket, given: list[int]) -> tuple[int, int]:
    """The number of a copy, and a descriptor of it; 0 where the system refuses one."""
    try:
        pid = os.fork()
    except OSError:
        return 0, -1
    if not pid:
        _serve(asked, given)
    try:
        return pid, os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        return 0, -1


def _reap(number: int, frame: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass  # none is left


def _serve(asked: socket.socket, given: list[int]) -> NoReturn:
    """A server, as if it had been started with what the request says."""
    status, report = 1, given[1]
    try:
        asked.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        _become(given)
        from .main import main as outfitter

        status = outfitter()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(report, b"%d" % status)
        finally:
            os._exit(status)


def _become(given: list[int]) -> None:
    request, _, *streams = given[:_FIRST]
    held = given[_FIRST:]
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    told = json.loads(os.pread(request, os.fstat(request).st_size, 0))
    os.close(request)
    os.chdir(told["cwd"])
    replace(told["environ"])
    time.tzset()
    # The files that it is given have other numbers here.
    files = {f"/dev/fd/{there}": f"/dev/fd/{here}" for there, here in zip(told["holds"], held, strict=True)}
    sys.argv[1:] = [files.get(word, word) for word in told["words"]]
    sys.orig_argv[:] = told["started"]
