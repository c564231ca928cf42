"""A tree that is watched from inside a confinement: nothing is told of what cannot be seen there."""

from __future__ import annotations

from ...core.visibility import LEADS, READ, WRITE
from .files import ConfinedFiles, SeenFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

    from .grounding import Bounds


class SeenTree:
    """One tree; paths are relative to its root, which is "". What the rules mean is found out with the first
    look, in a thread, and holds as long as the watch."""

    _files: ConfinedFiles

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._real = ""  # where the root is

    def stat(self, path: str) -> os.stat_result:
        """The first look. Raises OSError, FileFailed."""
        self._files = ConfinedFiles(self._bounds, writing=False)
        return self._files.stat(path)

    def open(self, root: str, path: str) -> SeenFolder:
        """A folder of the tree; only the root may be a link. Raises OSError."""
        if path:
            return SeenFolder(self._files, f"{self._real}/{path}", follow=False)
        folder = SeenFolder(self._files, root)
        self._real = folder.path.rstrip("/")
        return folder

    def tells(self, path: str, is_folder: bool) -> bool:
        """Whether something that happens to a name may be told."""
        view, real = self._files.view, f"{self._real}/{path}"
        look = view.look(real) if is_folder else view.look_at_file(real)
        return look in (READ, WRITE, LEADS)
