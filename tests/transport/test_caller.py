"""Who is at the other end of a connection: real sockets, real processes of other users."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.system import LINUX
from outfitter.transport import linuxpeer
from outfitter.transport.caller import SocketCaller, peers, source_of
from tests.support.tools import missing

OTHER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@contextlib.contextmanager
def connected(
    host: str = "127.0.0.1", family: int = socket.AF_INET
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's socket, and the server's end of it."""
    with socket.socket(family) as listening:
        listening.bind((host, 0))
        listening.listen()
        with socket.create_connection(listening.getsockname()[:2]) as client:
            accepted, _ = listening.accept()
            with accepted:
                yield client, accepted


def end_of(sock: socket.socket) -> tuple[str, int]:
    return sock.getsockname()[:2]


def test_owner_of_a_connection_on_this_machine_is_known() -> None:
    with connected() as (client, accepted):
        who = SocketCaller(accepted)
        assert (who.uid(), who.host, who.address) == (
            os.geteuid(),
            "127.0.0.1",
            f"127.0.0.1:{end_of(client)[1]}",
        )


def test_owner_over_ipv6_is_known() -> None:
    with connected("::1", socket.AF_INET6) as (client, accepted):
        who = SocketCaller(accepted)
        assert (who.uid(), who.host, who.address) == (os.geteuid(), "::1", f"[::1]:{end_of(client)[1]}")


def test_ipv4_inside_ipv6_is_ipv4() -> None:
    with contextlib.ExitStack() as stack:
        listening = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        stack.enter_context(listening)
        client = stack.enter_context(socket.create_connection(("127.0.0.1", listening.getsockname()[1])))
        accepted = stack.enter_context(listening.accept()[0])
        who = SocketCaller(accepted)
        port = client.getsockname()[1]
        assert (who.uid(), who.host, who.address) == (os.geteuid(), "127.0.0.1", f"127.0.0.1:{port}")


def test_unix_socket_has_credentials() -> None:
    one, two = socket.socketpair()
    with one, two:
        who = SocketCaller(one)
        assert (who.uid(), who.address) == (os.geteuid(), f"uid {os.geteuid()} on a unix socket")


@as_root
def test_other_user_on_a_unix_socket_is_told_apart() -> None:
    """Root's number is zero, as is much else that a kernel says."""
    os.setegid(4321)
    os.seteuid(1234)
    try:
        one, two = socket.socketpair()
    finally:
        os.seteuid(0)
        os.setegid(0)
    with one, two:
        assert SocketCaller(one).uid() == 1234


@pytest.fixture(params=["sock_diag", "/proc"] if LINUX else ["lsof"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """All ways to ask the kernel, each alone: where netlink is not allowed, its socket cannot be opened."""
    name: str = request.param
    if name == "/proc":
        monkeypatch.setattr(linuxpeer, "_asking", None)
        monkeypatch.setattr(linuxpeer, "_AF_NETLINK", 9999)
    elif name == "sock_diag":
        linuxpeer.get_ready()
        if linuxpeer._asking is None:
            missing("a kernel with sock_diag", "load it, and allow AF_NETLINK sockets")
        monkeypatch.setattr(linuxpeer, "_look_up", lambda *ends: (None, 0))
    return name


@as_root
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_other_user_is_told_apart(way: str, host: str) -> None:
    with connected(host, socket.AF_INET6 if ":" in host else socket.AF_INET) as (client, accepted):
        assert SocketCaller(accepted).uid() == 0
        os.fchown(client.fileno(), OTHER, OTHER)  # whose the socket is, is whose its inode is
        assert SocketCaller(accepted).uid() == OTHER


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_each_way_knows_the_owner_and_the_number_of_a_socket(way: str, host: str) -> None:
    with connected(host, socket.AF_INET6 if ":" in host else socket.AF_INET) as (client, accepted):
        assert peers().owner(end_of(client), end_of(accepted))[0] == os.geteuid()
        if LINUX:
            assert SocketCaller(accepted).socket_number() == os.fstat(client.fileno()).st_ino


def test_owner_who_speaks_ipv4_with_a_socket_for_ipv6_is_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_INET6) as client:
        client.connect(("::ffff:127.0.0.1", listening.getsockname()[1]))
        accepted, _ = listening.accept()
        with accepted:
            assert SocketCaller(accepted).uid() == os.geteuid()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connection_whose_process_has_left_has_no_owner(way: str, host: str) -> None:
    """The kernel shows such a socket as root's."""
    with connected(host, socket.AF_INET6 if ":" in host else socket.AF_INET) as (client, accepted):
        client.close()
        assert SocketCaller(accepted).uid() is None


def test_half_of_a_connection_has_no_owner(way: str) -> None:
    """Its process lives, but it can close the other half at any time, and then it would be root's."""
    with connected() as (client, accepted):
        client.shutdown(socket.SHUT_WR)
        assert SocketCaller(accepted).uid() is None


def test_addresses_of_one_network_are_one_source() -> None:
    assert [source_of(host) for host in ("192.0.2.1", "::1")] == ["192.0.2.1", "::1"]
    assert source_of("2001:db8::1") == source_of("2001:db8::2:3:4:5") == "2001:0db8:0000:0000::/64"
    assert source_of("2001:db8:0:1::1") == "2001:0db8:0000:0001::/64"


def test_connection_that_was_reset_has_no_owner(way: str) -> None:
    with connected() as (client, accepted):
        who = SocketCaller(accepted)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert who.uid() is None
        gone = SocketCaller(accepted)
        assert (gone.uid(), gone.address) == (None, "a closed connection")


def test_port_of_a_connection_that_was_reset_may_belong_to_another(way: str) -> None:
    """The pair of addresses is the same, the connection is not."""
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as stack:
        here = listening.getsockname()

        def again() -> tuple[SocketCaller, socket.socket]:
            first = socket.create_connection(here)
            accepted, _ = listening.accept()
            stack.enter_context(accepted)
            who, end = SocketCaller(accepted), first.getsockname()
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            first.close()
            second = stack.enter_context(socket.socket())
            second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                second.bind(end)
                second.connect(here)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                return again()  # another program was quicker
            return who, second

        who, second = again()
        assert peers().owner(end_of(second), here)[0] == os.geteuid()
        assert who.uid() is None


def test_listener_on_the_same_port_is_nobody(way: str) -> None:
    """Without a connection, the kernel answers with the socket that listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert peers().owner(listening.getsockname(), ("127.0.0.1", 1)) == (None, 0)


def test_connection_that_no_process_has_accepted_is_nobodys(way: str) -> None:
    """The kernel shows such a socket as root's, though it is connected."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(listening.getsockname()))
        assert peers().owner(listening.getsockname(), end_of(client)) == (None, 0)


class Ends:
    """A socket with these addresses, which no machine has."""

    family = socket.AF_INET

    def __init__(self, ours: str, theirs: str) -> None:
        self._ours, self._theirs = ours, theirs

    def getsockname(self) -> tuple[str, int]:
        return self._ours, 1

    def getpeername(self) -> tuple[str, int]:
        return self._theirs, 2


@pytest.mark.parametrize(
    ("theirs", "here"),
    [("192.0.2.1", True), ("127.0.0.9", True), ("192.0.2.2", False), ("2001:db8::1", False)],
)
def test_kernel_is_asked_about_addresses_of_this_machine_alone(
    theirs: str, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine's address may be in use here too, behind a router."""
    monkeypatch.setattr(peers(), "owner", lambda *ends: (1234, 5678))
    who = SocketCaller(Ends("192.0.2.1", theirs))  # type: ignore[arg-type]
    assert (who.uid(), who.socket_number()) == ((1234, 5678) if here else (None, None))


@as_root
def test_user_of_another_namespace_is_not_known() -> None:
    """Seen from a namespace with one user, everybody else has the same number."""
    reading, writing = os.pipe()
    with connected() as (client, accepted):
        os.fchown(client.fileno(), 1234, 1234)
        pid = os.fork()
        if pid == 0:  # whatever happens, the child does not go on as pytest
            said = b"no namespaces"
            try:
                inside = _unshare_user()
                linuxpeer._asking = None  # opened before, in the namespace outside
                if inside:
                    said = repr((SocketCaller(accepted).uid(),)).encode()
            finally:
                os.write(writing, said)
                os._exit(0)
        os.waitpid(pid, 0)
    os.close(writing)
    said = os.read(reading, 100)
    os.close(reading)
    if said == b"no namespaces":
        pytest.skip("user namespaces are not allowed here")
    assert said == b"(None,)"


def _unshare_user() -> bool:
    import ctypes

    if ctypes.CDLL(None).unshare(0x10000000) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text("0 0 1")
    return True
