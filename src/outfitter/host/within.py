"""Where the tools that a thread starts are confined: by whoever asks a provider or runs a setup in it.

By thread, because providers start their tools themselves, those of other distributions too, and none of them
has to know. Commands of clients do not come this way.
"""

from __future__ import annotations

from ..stdlib import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..core.launch import Launch

    class Prepared(Protocol):
        """A launch in a sandbox; `started` and `ended` tell it when it was."""

        launch: Launch

        def started(self) -> None: ...
        def ended(self) -> None: ...

    Confine = Callable[[Launch], Prepared]

_by_thread: dict[int, Confine] = {}


class Within:
    """A block in which every tool that this thread starts is confined; None confines nothing."""

    def __init__(self, confine: Confine | None) -> None:
        self._confine = confine

    def __enter__(self) -> None:
        if self._confine is not None:
            _by_thread[get_ident()] = self._confine

    def __exit__(self, *_: object) -> None:
        _by_thread.pop(get_ident(), None)


class _Plain:
    """A launch as it is."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch

    def started(self) -> None:
        pass

    def ended(self) -> None:
        pass


def is_confined() -> bool:
    """Whether what this thread starts is confined."""
    return get_ident() in _by_thread


def prepared(launch: Launch) -> Prepared:
    """The launch as this thread is to start it. Raises LaunchFailed, SandboxUnavailable."""
    confine = _by_thread.pop(get_ident(), None)
    if confine is None:
        return _Plain(launch)
    try:
        return confine(launch)  # what it has to run for that is not confined itself
    finally:
        _by_thread[get_ident()] = confine
