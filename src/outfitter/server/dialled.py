"""Runs a server that nobody dials: it dials a service, which brings clients."""

from __future__ import annotations

import sys

from ..earlyerrors import SettingInvalid
from ..log import warn
from ..stdlib import SIGUSR1, SIGUSR2
from .listen import (
    SIGHUP,
    SIGINT,
    SIGTERM,
    LazyServer,
    begun,
    fence_of,
    hang_up,
    limit,
    limits_line,
    on_signals,
    opener_of,
    run,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..loop import EpollLoop
    from ..observe.watchers import Watchers
    from ..transport.base import Serving
    from .settings import ServerSettings

    class Dialling(Protocol):
        """What keeps a connection to a service that brings clients. `heard`: when one said something."""

        @property
        def heard(self) -> float: ...

        def begin(self) -> None: ...
        def stop(self, reason: str) -> None: ...


def serve_remote(
    settings: ServerSettings,
    dial_out: Callable[[EpollLoop, Callable[[Serving], None], Callable[[str], None]], Dialling],
    watchers: Watchers | None = None,
    limited: Callable[[str], None] | None = None,
) -> int:
    """Serves what comes through a connection that we have dialled, until SIGTERM or SIGINT; returns the exit
    status. `dial_out` gets the loop, what to do with each connection, and whom to tell why it cannot go on.
    `limited` gets by what commands are limited, if they are; without it that is printed.

    Raises SettingInvalid, HostUnsupported.
    """
    by = limit(settings)
    if limited is not None:
        limited(by)
    else:
        sys.stdout.write(limits_line(by))
        sys.stdout.flush()
    loop = begun(settings)
    lazy = LazyServer(loop, settings, watchers=watchers, drains=lambda why: None)
    if watchers is not None:
        watchers.watch_loop(loop, opener_of(settings))
    failed: list[str] = []

    def give_up(why: str) -> None:
        failed.append(why)
        loop.stop()

    dialling = dial_out(loop, lambda transport: lazy.get().connect(transport), give_up)
    on_signals(
        loop,
        {
            SIGHUP: hang_up(loop.stop, [] if watchers is None else [watchers.observer.reopen]),
            SIGUSR1: lambda: lazy.get().drain("SIGUSR1"),
            SIGINT: loop.stop,
            SIGTERM: loop.stop,
            SIGUSR2: lambda: warn("server", "no upgrade, this version goes on: it was started with --remote"),
        },
    )
    dialling.begin()
    lazy.get()
    fence = fence_of(loop, settings, lambda: dialling.heard)
    if fence is not None:
        lazy.get().services.sessions.trees.held = fence.holds
    run(loop, settings)
    status = lazy.stop()
    dialling.stop("server is stopping")
    if watchers is not None:
        watchers.observer.close()
    if failed:
        raise SettingInvalid(failed[0])
    return status
