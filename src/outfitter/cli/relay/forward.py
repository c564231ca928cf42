"""outfitter forward: an executor whose commands another server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import SettingInvalid
from ...loop import EpollLoop
from ...relay.forwarding import Forwarding
from ...transport.address import parse_address
from ..serve import begin_log
from .remote import Remote
from .rendezvous import stop_on_signals

if TYPE_CHECKING:
    from ...relay.carrier import StreamTransport


def forward(flags: dict[str, Any]) -> int:
    """Forwards streams until it is told to end; returns the exit status. Raises SettingInvalid."""
    begin_log(flags)
    destination = parse_address(flags["connect"])
    if destination.socket_path is not None:
        raise SettingInvalid("--connect takes ws://HOST:PORT or wss://HOST:PORT")
    remote = Remote({**flags, "remote_transport": "noise", "aws_sigv4": False}, destination.text)
    loop = EpollLoop()
    failed: list[str] = []

    def give_up(why: str) -> None:
        failed.append(why)
        loop.stop()

    def begin(stream: StreamTransport) -> None:
        Forwarding(loop, stream, destination)

    executor = remote.executor(loop, begin, give_up)
    stop_on_signals(loop)
    executor.begin()
    loop.run()
    executor.stop("the forwarder is stopping")
    remote.check()
    if failed:
        raise SettingInvalid(failed[0])
    return 0
