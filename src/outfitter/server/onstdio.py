"""Runs a server for one client, over stdin and stdout."""

from __future__ import annotations

import sys

from ..log import warn
from ..stdlib import SIGUSR1, SIGUSR2
from ..transport.stdio import StdioTransport
from .listen import (
    SIGHUP,
    SIGINT,
    SIGTERM,
    LazyServer,
    begun,
    fence_of,
    limit,
    limits_line,
    on_signals,
    run,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..observe.watchers import Watchers
    from .settings import ServerSettings


def serve_stdio(settings: ServerSettings, watchers: Watchers | None = None) -> int:
    """Serves one connection over stdin and stdout; its end is ours."""
    sys.stderr.write(limits_line(limit(settings)))  # stdout is the client's
    loop = begun(settings)
    # A pipe cannot be dialled again: no session outlives it. Whoever holds it has started us for itself.
    lazy = LazyServer(loop, settings, retain=False, left=loop.stop, base="launcher", watchers=watchers)
    if watchers is not None:
        watchers.watch_loop(loop)
    transport = StdioTransport(loop, 0, 1)
    lazy.get().connect(transport)
    # There is nothing to reload, and a terminal that is gone takes its pipe along.
    ending = dict.fromkeys((SIGHUP, SIGINT, SIGTERM), loop.stop)
    on_signals(loop, {**ending, SIGUSR1: _drain, SIGUSR2: _refuse_upgrade})
    transport.begin()
    fence = fence_of(loop, settings, lambda: transport.heard)
    if fence is not None:
        lazy.get().services.sessions.trees.held = fence.holds
    run(loop, settings)
    status = lazy.stop()
    if watchers is not None:
        watchers.observer.close()
    return status


def _drain() -> None:
    """It takes no other client as it is, and ends with the one that it has."""


def _refuse_upgrade() -> None:
    warn("server", "no upgrade, this version goes on: a client on stdio could not come back")
