"""Listening sockets of ours inside the network namespace of a sandbox.

Nobody outside can connect to them, and inside they are the only way out: so a peer needs no password. A
process of ours opens them (`netopen`), which is kept: it costs about 8 MiB, and a request 2 ms.
"""

from __future__ import annotations

import marshal
import os

from ...core.launch import Launch
from ...errors import LaunchFailed
from ...stdlib import socket, socketpair
from ..spawn import Stdio
from .netopen import receive, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...loop import Loop
    from ..spawn import Spawner

    # Sockets, each with its port; or why there are none.
    Opened = Callable[[list[tuple[socket, int]], str], None]

_UNIX, _SEQPACKET = 1, 5


class _Wanted:
    """What somebody waits for."""

    __slots__ = ("again", "done", "namespace", "places")

    def __init__(self, namespace: int, places: list[tuple[str, int]], done: Opened) -> None:
        self.namespace = namespace
        self.places = places
        self.done = done
        self.again = True  # whether another helper may be asked, if this one ends


class NetOpener:
    """The helper of one server, started with the first sandbox that needs it."""

    def __init__(self, loop: Loop, spawner: Spawner) -> None:
        self._loop = loop
        self._spawner = spawner
        self._socket: socket | None = None
        self._asked = 0
        self._open: dict[int, _Wanted] = {}
        self.pid = 0

    def open(self, pid: int, places: Sequence[tuple[str, int]], done: Opened) -> None:
        """Has sockets listen at these places in the namespace of a process, those of IPv6 only where there is
        any. `done` is called later, once. Raises LaunchFailed."""
        try:
            namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise LaunchFailed(f"the sandbox has no network namespace: {error.strerror}") from None
        if os.path.samestat(os.fstat(namespace), os.stat("/proc/self/ns/net")):
            os.close(namespace)
            raise LaunchFailed("the sandbox has the network of the host")
        self._ask(_Wanted(namespace, list(places), done))

    def _ask(self, wanted: _Wanted) -> None:
        self._asked += 1
        number = self._asked
        self._open[number] = wanted
        try:
            if self._socket is None:
                self._socket = self._started()
                self._loop.add_reader(self._socket.fileno(), self._answered)
            send(self._socket, (number, wanted.places), [wanted.namespace])
        except (OSError, LaunchFailed):
            self._loop.call_soon(self._not_asked, number, self._socket)

    def _not_asked(self, number: int, helper: socket | None) -> None:
        """A question has not reached the helper, or there is none."""
        if helper is not None and helper is self._socket:
            self._lost()
        elif (wanted := self._open.pop(number, None)) is not None:  # else its end was heard before
            self._ask_again(wanted)

    def _started(self) -> socket:
        """Raises OSError, LaunchFailed."""
        from ..facts import own_program

        one, other = socketpair(_UNIX, _SEQPACKET, 0)
        ours, theirs = socket(fileno=one.detach()), socket(fileno=other.detach())
        try:
            null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            try:
                argv = own_program("host.sandbox.netopen")
                launch = Launch(argv[0], argv, "/", self._spawner.for_ourselves)
                self.pid = self._spawner.spawn(launch, Stdio(theirs.fileno(), null, null))
            finally:
                os.close(null)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        return ours

    def _answered(self) -> None:
        assert self._socket is not None
        try:
            data, fds = receive(self._socket)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._lost()
            return
        number, why, ports = marshal.loads(data)
        sockets = [(socket(fileno=fd), port) for fd, port in zip(fds, ports, strict=False)]
        if not why and len(sockets) < len(ports):
            why = "no descriptors are left"
        wanted = self._open.pop(number, None)
        if wanted is None or why:
            for sock, _ in sockets:
                sock.close()
            sockets = []
        if wanted is not None:
            os.close(wanted.namespace)
            wanted.done(sockets, why)

    def _lost(self) -> None:
        """Somebody killed the helper: another one is asked, once."""
        waiting, self._open = self._open, {}
        self.close()
        for wanted in waiting.values():
            self._ask_again(wanted)

    def _ask_again(self, wanted: _Wanted) -> None:
        if wanted.again:
            wanted.again = False
            self._ask(wanted)
        else:
            os.close(wanted.namespace)
            wanted.done([], "the process that opens them has ended")

    def close(self) -> None:
        """The helper ends by itself when nobody asks any more; it is waited for, because it is our child."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self.pid:
            try:
                os.kill(self.pid, 9)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError, PermissionError):
                pass
            self.pid = 0
        for wanted in self._open.values():
            os.close(wanted.namespace)
        self._open.clear()
