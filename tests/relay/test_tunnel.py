"""A tunnel between two services: what it holds of a connection that does not read is bounded."""

from __future__ import annotations

import socket

from outfitter.loop import EpollLoop
from outfitter.relay.tunnel import Tunnel

MUCH = 32 << 20  # more than all buffers on the way
QUIET = 20  # rounds in which nothing more is taken


def pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


def test_a_tunnel_holds_little_for_a_harness_that_does_not_read() -> None:
    loop = EpollLoop()
    (near, harness), (far, service) = pair(), pair()
    over: list[Tunnel] = []
    tunnel = Tunnel(loop, near, far, b"said before", over.append)
    taken = rounds = 0
    came = bytearray()
    piece = bytes(range(256)) * 256

    def fill() -> None:
        nonlocal taken, rounds
        rounds += 1
        try:
            while taken < MUCH:
                taken += service.send(piece[taken % len(piece) :])
                rounds = 0
        except BlockingIOError:
            pass
        if taken < MUCH and rounds < QUIET:
            loop.call_later(0.005, fill)
        else:
            loop.stop()

    def read() -> None:
        came.extend(harness.recv(1 << 20))
        if len(came) >= taken:
            loop.stop()

    loop.call_soon(fill)
    loop.run()
    assert taken < MUCH
    assert service.recv(100) == b"said before"
    loop.add_reader(harness.fileno(), read)
    loop.run()
    assert came == (piece * (taken // len(piece) + 1))[:taken]
    loop.remove_reader(harness.fileno())
    tunnel.close()
    assert over == [tunnel]
    harness.close()
    service.close()


def test_what_an_end_has_sent_before_it_closed_arrives() -> None:
    loop = EpollLoop()
    (near, harness), (far, service) = pair(), pair()
    over: list[Tunnel] = []
    tunnel = Tunnel(loop, near, far, b"", over.append)
    taken = 0
    came = bytearray()

    def fill() -> None:
        """More than the harness's socket takes, and then the end."""
        nonlocal taken
        while taken < 600_000:
            try:
                taken += service.send(bytes(600_000 - taken))
            except BlockingIOError:
                loop.call_soon(fill)
                return
        service.close()
        wait()

    def wait() -> None:
        """Until the tunnel has seen the end."""
        if tunnel._back._reading:
            loop.call_soon(wait)
        else:
            loop.add_reader(harness.fileno(), read)

    def read() -> None:
        data = harness.recv(1 << 20)
        came.extend(data)
        if not data:
            loop.stop()

    loop.call_soon(fill)
    loop.run()
    assert (len(came), over) == (taken, [tunnel])
    loop.remove_reader(harness.fileno())
    harness.close()
