"""What the `sandbox` of a request means for its file work: `host.files`, or the same under a confinement."""

from __future__ import annotations

from ..errors import SandboxUnavailable
from ..host import files
from ..system import LINUX

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Protocol

    from ..host.lookup import CachedLookup
    from ..host.metadata import Metadata
    from ..host.sandbox.files import ConfinedFiles
    from ..host.sandbox.grounding import Bounds
    from ..protocol.sandbox import SandboxContext

    class Files(Protocol):
        """What is done to files. Everything may block, and raise OSError, Refused or FileFailed."""

        def open_read(self, path: str, follow: bool = True) -> tuple[int, os.stat_result]: ...
        def metadata(self, path: str, follow: bool = True) -> Metadata: ...
        def canonicalize(self, path: str) -> str: ...
        def scan_directory(self, path: str) -> tuple[list[str], list[tuple[str, bool, bool]]]: ...
        def describe_directory(self, path: str) -> list[files.Described]: ...
        def replacement(self, path: str, *, special: bool) -> files.Replacement: ...
        def update(self, path: str) -> files.Update: ...
        def write_file(self, path: str, data: Iterable[bytes], follow: bool = True) -> None: ...
        def create_directory(self, path: str, recursive: bool, follow: bool = True) -> None: ...
        def remove(self, path: str, recursive: bool, force: bool, follow: bool = True) -> None: ...
        def chmod(self, path: str, mode: int, follow: bool = True) -> None: ...
        def copy(self, source: str, destination: str, recursive: bool) -> None: ...
        def rename(self, source: str, destination: str, *, replace: bool) -> None: ...


_LONG = 4096  # characters of a path that the loop does not look at
_REMEMBERED = 64  # a client has one or two contexts
_known: dict[int, tuple[SandboxContext, object, Bounds | None]] = {}


def restricting(
    sandbox: SandboxContext,
    tmpdir: str | None,
    own: tuple[str, ...],
    *,
    strict_links: bool = False,
    protects: tuple[str, ...] = (),
) -> Bounds | None:
    """What bounds a request with a context, if that confines files at all; `own` are files of the server
    that nobody else may see, and `protects` names that nobody may write. Raises InvalidParams, Refused,
    SandboxUnavailable."""
    server = (tmpdir, own, strict_links, protects)
    known = _known.get(id(sandbox))  # the same object for the same words: `SandboxContext.decode`
    if known is not None and known[0] is sandbox and known[1] == server:
        return known[2]
    from ..core.permissions import bind_files
    from ..core.protecting import keeping
    from ..host.sandbox.grounding import Bounds

    confinement = keeping(bind_files(sandbox, tmpdir=tmpdir), protects)
    if confinement.files and not LINUX:
        from ..core.abilities import refusal

        raise SandboxUnavailable(refusal("sandbox"))
    bounds = Bounds(confinement, own, strict_links) if confinement.files else None
    if len(_known) >= _REMEMBERED:
        _known.clear()
    _known[id(sandbox)] = sandbox, server, bounds
    return bounds


def to_read(bounds: Bounds | None) -> Files:
    """For use in a thread: finding out what rules mean here looks at the disk. Raises FileFailed."""
    return PLAIN if bounds is None else within(bounds)


def to_write(bounds: Bounds | None) -> Files:
    """As `to_read`."""
    return PLAIN if bounds is None else within(bounds, writing=True)


def within(bounds: Bounds, *, writing: bool = False) -> ConfinedFiles:
    """Raises FileFailed."""
    from ..host.sandbox.files import ConfinedFiles

    return ConfinedFiles(bounds, writing=writing)


def known_by_heart(bounds: Bounds, cached: CachedLookup, path: str) -> Metadata | None:
    """What nobody has to look for: of a path without links, if it was found out a moment ago what may be
    seen. None otherwise."""
    from ..core.visibility import READ, WRITE
    from ..host.sandbox.grounding import remembered
    from ..host.sandbox.openat2 import ordinary_devices
    from ..host.sandbox.pinning import plain

    view = remembered(bounds) if len(path) < _LONG else None
    if view is None or path != plain(path) or ".." in path or view.look_at_file(path) not in (READ, WRITE):
        return None
    return cached.find_plain(path, ordinary_devices)


class _PlainFiles:
    """Files as they are."""

    open_read = staticmethod(files.open_read)
    metadata = staticmethod(files.metadata)
    canonicalize = staticmethod(files.canonicalize)
    scan_directory = staticmethod(files.scan_directory)
    describe_directory = staticmethod(files.describe_directory)
    write_file = staticmethod(files.write_file)
    create_directory = staticmethod(files.create_directory)
    remove = staticmethod(files.remove)
    chmod = staticmethod(files.chmod)
    copy = staticmethod(files.copy)

    def replacement(self, path: str, *, special: bool) -> files.Replacement:
        return files.Replacement(path, special=special)

    def update(self, path: str) -> files.Update:
        return files.Update(path)

    def rename(self, source: str, destination: str, *, replace: bool) -> None:
        from ..host.rename import rename

        rename(source, destination, replace=replace)


PLAIN: Files = _PlainFiles()
