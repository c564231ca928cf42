"""Where the tools that a thread starts are confined, and what files they see: by whoever asks a provider or
runs a setup in it.

By thread, because providers start their tools themselves, those of other distributions too, and none of them
has to know. Commands of clients do not come this way.
"""

from __future__ import annotations

from ...stdlib import get_ident
from ..pipes import let_go
from ..unix import usable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ...core.launch import Launch
    from ..sandbox.limits import Allowance
    from ..spawn import Spawner, Stdio
    from .frozen import FrozenFiles

    class Prepared(Protocol):
        """A launch in a sandbox; `started` and `ended` tell it when it was, the first also with 0 for a
        start that failed."""

        launch: Launch

        def started(self, pid: int) -> None: ...
        def ended(self) -> None: ...

    Confine = Callable[[Launch, bool], Prepared]  # with whether it starts among other mounts than ours


class Within:
    """A block in which every tool that this thread starts is confined, and sees `frozen` files as they are
    there; None for neither."""

    def __init__(self, confine: Confine | None, frozen: FrozenFiles | None = None) -> None:
        self.confine = confine
        self.frozen = frozen

    def __enter__(self) -> None:
        if self.confine is not None or self.frozen is not None:
            _by_thread[get_ident()] = self

    def __exit__(self, *_: object) -> None:
        _by_thread.pop(get_ident(), None)
        if self.frozen is not None:
            self.frozen.close()


_by_thread: dict[int, Within] = {}
# How much of the machine a sandbox of a tool may use, if an operator has said so. Set by a server.
allowance: Allowance | None = None


class _Plain:
    """A launch as it is."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch

    def started(self, pid: int) -> None:
        pass

    def ended(self) -> None:
        pass


def is_confined() -> bool:
    """Whether what this thread starts is confined."""
    within = _by_thread.get(get_ident())
    return within is not None and within.confine is not None


def started(
    spawner: Spawner,
    launch: Launch,
    stdio: Stdio,
    mark: int,
    *,
    ours: Sequence[int],
    theirs: Sequence[int],
    ourselves: bool = False,
) -> tuple[int, Prepared]:
    """The pid of a launch, as this thread is to start it, and what is to be told when it has ended.

    The ends of pipes that are `theirs` are closed, and `ours` too where nothing was started. Raises
    LaunchFailed, SandboxUnavailable, OSError.
    """
    try:
        ready = _prepared(launch)
    except BaseException:
        let_go(*ours, *theirs)
        raise
    pid = 0
    try:
        pid = _spawned(spawner, ready.launch, stdio, mark if usable() else None, ourselves=ourselves)
    except BaseException:
        let_go(*ours)
        ready.ended()
        raise
    finally:
        let_go(*theirs)
        ready.started(pid)
    return pid, ready


def _prepared(launch: Launch) -> Prepared:
    """The launch as this thread is to start it. Raises LaunchFailed, SandboxUnavailable."""
    within = _by_thread.pop(get_ident(), None)
    if within is None:
        return _Plain(launch)
    try:
        if within.confine is None:
            return _Plain(launch)
        # What it has to run for that is not confined itself.
        return within.confine(launch, within.frozen is not None)
    finally:
        _by_thread[get_ident()] = within


def _spawned(
    spawner: Spawner, launch: Launch, stdio: Stdio, mark: int | None, *, ourselves: bool = False
) -> int:
    """The pid of what was prepared. Raises LaunchFailed, OSError."""
    within = _by_thread.get(get_ident())
    if within is None or within.frozen is None or ourselves:
        return spawner.spawn(launch, stdio, mark, ourselves=ourselves)
    return within.frozen.spawn(spawner, launch, stdio, mark)
