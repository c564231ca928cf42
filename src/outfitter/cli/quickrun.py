"""A plain `outfitter run` on this machine, without asyncio and click, which take longer than all the rest.

The same server on our own loop, the same messages, the same signals and statuses as `cli.run`. What needs
more (a terminal, a sandbox, JSON, a snapshot of a login shell) is left to that module.
"""

from __future__ import annotations

from ..errors import OutfitterError
from ..loop import EpollLoop
from ..protocol import jsonrpc
from ..protocol.process import StartParams
from ..protocol.session import InitializeParams
from ..protocol.wishes import ContractParams
from ..providers import inherited
from ..server.server import Server
from ..server.settings import ServerSettings
from ..transport.memory import pair
from .console import say
from .quickfollow import QuickRun, nothing, place, settle
from .statuses import INTERRUPTED, NOT_STARTED
from .wishes import from_here, launch_kind, wire_contract, wire_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .wishes import Flags

_ID = "1"  # the only process of the only session


def run(argv: Sequence[str], flags: Flags) -> int | None:
    """Runs the command; returns the exit status, or None if `cli.run` has to do it."""
    server = None
    try:
        loop = EpollLoop()
        loop.stall_seconds = float("inf")  # nobody else is served
        server = Server(loop, ServerSettings(), inherited.load(), retain=False, base="launcher")
        if server.contract.settings(None).snapshot != "none":
            settle()
            return None  # a login shell takes its time, which is not the loop's
        one = QuickRun(loop, argv, flags, _ID)
        near, far = pair(loop)
        one.wire, near.receiver = near, one
        server.connect(far)
        one.call("initialize", InitializeParams("outfitter").encode(), nothing)
        near.send(jsonrpc.notice("initialized", {}))
        one.start(_start_params(argv, flags))
        loop.run()
        return one.status
    except OutfitterError as error:
        say(str(error))
        return NOT_STARTED
    except KeyboardInterrupt:  # before there was a command to interrupt
        return INTERRUPTED
    finally:
        if server is not None:
            server.stop("the local executor is closed")


def _start_params(argv: Sequence[str], flags: Flags) -> StartParams:
    return StartParams(
        _ID,
        list(argv),
        place(from_here(flags["cwd"])),
        dict(flags["env"]),
        False,
        wire_policy(flags),
        True,
        contract=wire_contract(flags, launch_kind()) or ContractParams(),
    )
