"""Listening sockets of ours inside the network namespace of a sandbox.

Nobody outside can connect to them, and inside they are the only way out: so a peer needs no password. A
process of ours opens them (`netopen`), which is kept: it costs about 8 MiB, and a request 2 ms.
"""

from __future__ import annotations

import os
from array import array

from ...core.launch import Launch
from ...errors import LaunchFailed
from ...stdlib import socket
from ..spawn import Stdio
from ..starter import packed, receive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..spawn import Spawner

_RIGHTS, _SOL_SOCKET, _AF_UNIX, _STREAM = 1, 1, 1, 1
_SECONDS = 20.0  # the helper is a Python that starts; more is a machine that does not move


class NetOpener:
    """The helper of one server, started with the first sandbox that needs it."""

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        self._socket: socket | None = None
        self.pid = 0

    def open(self, pid: int, places: Sequence[tuple[str, int]]) -> list[tuple[socket, int]]:
        """Sockets that listen at these places in the namespace of a process, each with its port; those of
        IPv6 only where there is any. Raises LaunchFailed."""
        try:
            namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise LaunchFailed(f"the sandbox has no network namespace: {error.strerror}") from None
        try:
            if os.path.samestat(os.fstat(namespace), os.stat("/proc/self/ns/net")):
                raise LaunchFailed("the sandbox has the network of the host")
            return self._ask(namespace, list(places))
        finally:
            os.close(namespace)

    def _ask(self, namespace: int, places: list[tuple[str, int]]) -> list[tuple[socket, int]]:
        for last in (False, True):
            try:
                if self._socket is None:
                    self._start()
                return self._request(namespace, places)
            except (EOFError, OSError) as error:
                # Somebody killed it.
                self.close()
                if last:
                    raise LaunchFailed(
                        f"the process that opens sockets in sandboxes ended: {error}"
                    ) from None
        raise AssertionError("unreachable")

    def _request(self, namespace: int, places: list[tuple[str, int]]) -> list[tuple[socket, int]]:
        assert self._socket is not None
        rights = [(_SOL_SOCKET, _RIGHTS, array("i", [namespace]))]
        self._socket.sendmsg([packed((places,))], rights)
        (why, opened), fds = receive(self._socket)
        if why:
            raise LaunchFailed(f"no socket can be opened in the sandbox: {why}")
        return [(socket(fileno=fd), port) for fd, (_, port) in zip(fds, opened, strict=True)]

    def _start(self) -> None:
        """Raises OSError, LaunchFailed."""
        from ...stdlib import socketpair
        from ..facts import own_program

        one, other = socketpair(_AF_UNIX, _STREAM, 0)
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
        ours.settimeout(_SECONDS)
        self._socket = ours

    def close(self) -> None:
        """The helper ends by itself when nobody asks any more; it is waited for, because it is our child."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.pid:
            try:
                os.kill(self.pid, 9)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError, PermissionError):
                pass
            self.pid = 0
