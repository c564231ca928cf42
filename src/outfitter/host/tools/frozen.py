"""Tools that see trusted files as they were when they were checked, whoever changes them meanwhile.

A process of ours keeps a mount namespace (`freezing`) for one question to a provider, made with the first
tool that it starts. An answer that is remembered, or for which no tool runs, needs none: what makes one is
imported then.
"""

from __future__ import annotations

from ...core.launch import Launch
from ...errors import LaunchFailed
from ...system import LINUX
from ..spawn import Spawner, Stdio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..starters import Starter

# Of all files together: they go through one message of 8 MiB (`starter`). Manifests and locks are far less.
_MOST_BYTES = 6 << 20


class FrozenFiles:
    """Files by path, with what was read there; None for what was not there. A folder, with a slash at its
    end, has nothing in it but those files.

    Below `top` nothing that is done to folders and files changes them; others are safe from being written,
    and not from being replaced. `why` says why that cannot be, once a tool was started: then it was started
    without, unless that is `required`. `lost` is what a tool wrote and could not be kept.
    """

    def __init__(self, top: str, files: Mapping[str, bytes | None], *, required: bool = False) -> None:
        self.top = top
        self.files = files
        self._required = required
        self._starter: Starter | None = None
        self.why = ""
        self.lost = ""

    def spawn(self, spawner: Spawner, launch: Launch, stdio: Stdio, mark: int | None) -> int:
        """As `Spawner.spawn`. Raises LaunchFailed, also if the project is being changed."""
        if self._starter is None and not self.why:
            self._begin(spawner)
        if self.why and self._required:
            raise LaunchFailed(self.why, what=f"its files cannot be frozen: {self.why}")
        if self.why:
            return spawner.spawn(launch, stdio, mark)
        from ..starters import started

        return started(self._running, self.close, launch, stdio, mark, files=spawner.child_files)

    def _begin(self, spawner: Spawner) -> None:
        if not LINUX:
            from ...core.abilities import refusal

            self.why = refusal("frozen")
            return
        from .layout import layout

        entries, outside = layout(self.top, self.files)
        contents = [content for _, content, *_ in (*entries, *outside) if isinstance(content, bytes)]
        if sum(map(len, contents)) > _MOST_BYTES:
            self.why = f"its files have more than {_MOST_BYTES >> 20} MiB"
            return
        from ..starters import Starter
        from .freezing import REFUSED

        try:
            starter = Starter(spawner, "host.tools.freezing", (self.top, entries, outside))
        except (LaunchFailed, OSError) as error:
            self.why = f"the process that freezes them did not start: {error}"
            return
        try:
            why = starter.answer()
        except (EOFError, OSError) as error:
            why = f"the process that freezes them has ended: {error}"
        if not why:
            self._starter = starter
            return
        starter.close()
        if why.startswith(REFUSED):
            raise LaunchFailed(why, what=f"its files cannot be frozen: {why.removeprefix(REFUSED)}")
        self.why = why

    def _running(self) -> Starter:
        if self._starter is None:
            raise LaunchFailed("the process that starts tools has ended; try again")
        return self._starter

    def close(self) -> None:
        """Ends it, when nothing of the tools is left; what they wrote is in the real folder then."""
        starter, self._starter = self._starter, None
        if starter is None:
            return
        try:
            self.lost = starter.last_word()
        except (EOFError, OSError) as error:
            self.lost = f"all of it ({error})"
        finally:
            starter.close()
