"""Servers as copies of one process that has loaded their code, not with an interpreter each; Linux only.

`cli.copying` is that process. A copy takes a third of the processor time of a server that starts by itself,
and 5.7 MiB of its own instead of 7.4. The template takes as much as a server, so that it is worth it where
servers follow each other quickly, and one stands by for the other. While it loads, and if it is not there any
more, servers start by themselves.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

from ..host.memoryfiles import memory_file
from ..log import warn
from ..system import LINUX
from .child import own_words, ready, script

if TYPE_CHECKING:
    from .child import Child, Start

# It costs as much as two servers to start, so whoever needs no more than these does without.
_ALONE = 2
_ANSWER_SECONDS = 10.0  # a copy takes 2 ms
_ANSWER_BYTES = 64
_LOOK_SECONDS = 1.0  # until what a template held is let go when it was killed
NO = b"no"  # in place of a number
_ENDED = "the process that servers are copies of has ended"


class Template:
    """Makes servers, as soon as it is worth it. For any thread."""

    def __init__(self) -> None:
        self._asked = 0
        self._given_up = not LINUX
        self._ready = False
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def copy(self, start: Start) -> Child | None:
        """A server; None if it has to start by itself. Raises OSError where neither would do."""
        with self._one_at_a_time:
            self._asked += 1
            if self._given_up or self._asked <= _ALONE:
                return None
            try:
                control = self._control or self._begin()
                return _copied(control, start) if self._is_ready(control) else None
            except ConnectionError as error:
                self._give_up(error)
                return None
            except _Unanswered as asked:
                self._give_up(asked)
                # With the same streams, a second server would be taken for the first.
                if asked.has_made_one():
                    raise OSError(errno.ECHILD, _ENDED) from None
                return None

    def _give_up(self, error: Exception) -> None:
        warn("pool", "servers start by themselves from now on: %s", error)
        self._end()  # it cannot answer later, either
        self._given_up = True

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        ours.settimeout(_ANSWER_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                script(f"from outfitter.cli.copying import main; main({theirs.fileno()})"),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        return ours

    def _is_ready(self, control: socket.socket) -> bool:
        """Whether it has loaded everything. Raises ConnectionError if it has ended."""
        if not self._ready and ready(control.fileno(), 0):
            if not control.recv(_ANSWER_BYTES):
                raise ConnectionError(_ENDED)
            self._ready = True
        return self._ready

    def close(self) -> None:
        """Its servers go on."""
        with self._one_at_a_time:
            self._given_up = True
            self._end()

    def _end(self) -> None:
        """Its end is the socket's."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(_ANSWER_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._control = self._process = None


class _Unanswered(Exception):
    """A template was asked and has not answered: it may have made a copy, which holds the other end of
    `report`."""

    def __init__(self, why: Exception, report: int) -> None:
        super().__init__(str(why))
        self._report = report

    def has_made_one(self) -> bool:
        """Whether there is a copy, once the template has ended. Ask once."""
        try:
            return not ready(self._report, _LOOK_SECONDS) or bool(os.read(self._report, _ANSWER_BYTES))
        finally:
            os.close(self._report)


def _copied(control: socket.socket, start: Start) -> Child | None:
    """A new copy; None if it could not make one. Raises OSError, _Unanswered."""
    told = {
        "words": start.words,
        "started": [*own_words(start.holds), *start.words],
        "cwd": start.cwd,
        "environ": dict(start.environ),
        "holds": start.holds,
    }
    request = memory_file("pool-request")  # variables may be secrets, and more than fits into a message
    try:
        with open(request, "w", encoding="ascii", closefd=False) as file:
            json.dump(told, file)
        os.lseek(request, 0, os.SEEK_SET)
        report, theirs = os.pipe()
        try:
            socket.send_fds(control, [b"copy"], [request, theirs, *start.streams, *start.holds])
            said, watched, _, _ = socket.recv_fds(control, _ANSWER_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
            if not said:
                raise ConnectionError(_ENDED)
        except (ConnectionError, TimeoutError) as error:
            raise _Unanswered(error, report) from None
        except BaseException:
            os.close(report)
            raise
        finally:
            os.close(theirs)
    finally:
        os.close(request)
    if watched:
        return _Copied(int(said), watched[0], report)
    os.close(report)
    if said != NO:  # it has made one, and we have no descriptor left for it
        os.kill(int(said), signal.SIGKILL)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return None  # whoever starts a server by itself will be told why


class _Copied:
    """A server that is a child of the template. It says itself with which status it ends; one that has not
    was killed."""

    def __init__(self, pid: int, watched: int, report: int) -> None:
        self.pid = pid
        self._watched = watched
        self._report = report
        self._status: int | None = None
        self._reading = threading.Lock()

    def wait(self, seconds: float) -> int | None:
        if self._status is None and ready(self._watched, seconds):
            with self._reading:
                if self._status is None:
                    said = os.read(self._report, _ANSWER_BYTES)
                    self._status = int(said) if said else -signal.SIGKILL
        return self._status

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self._watched, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended
        ready(self._watched, _ANSWER_SECONDS)

    def __del__(self) -> None:
        os.close(self._watched)  # nobody waits for it any more
        os.close(self._report)
