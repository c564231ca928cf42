"""What the `sandbox` of a request means for its file work: `host.files`, or the same under a confinement."""

from __future__ import annotations

from ..core.permissions import bind_files
from ..host import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Protocol

    from ..core.permissions import Confinement
    from ..host.sandbox.files import ConfinedFiles
    from ..host.statx import CachedLookup, Metadata
    from ..protocol.sandbox import SandboxContext

    class Files(Protocol):
        """What is done to files. Everything may block, and raise OSError, Refused or FileFailed."""

        def open_read(self, path: str, follow: bool = True) -> tuple[int, os.stat_result]: ...
        def metadata(self, path: str, follow: bool = True) -> Metadata: ...
        def canonicalize(self, path: str) -> str: ...
        def scan_directory(self, path: str) -> tuple[list[str], list[tuple[str, bool, bool]]]: ...
        def replacement(self, path: str, *, special: bool) -> files.Replacement: ...
        def update(self, path: str) -> files.Update: ...
        def write_file(self, path: str, data: Iterable[bytes], follow: bool = True) -> None: ...
        def create_directory(self, path: str, recursive: bool, follow: bool = True) -> None: ...
        def remove(self, path: str, recursive: bool, force: bool, follow: bool = True) -> None: ...
        def chmod(self, path: str, mode: int, follow: bool = True) -> None: ...
        def copy(self, source: str, destination: str, recursive: bool) -> None: ...
        def rename(self, source: str, destination: str, *, replace: bool) -> None: ...


def restricting(sandbox: SandboxContext, tmpdir: str | None) -> Confinement | None:
    """The confinement of a context, if it confines files at all. Raises InvalidParams, Refused."""
    confinement = bind_files(sandbox, tmpdir=tmpdir)
    return confinement if confinement.files else None


def to_read(confinement: Confinement | None) -> Files:
    """For use in a thread: finding out what rules mean here looks at the disk. Raises FileFailed."""
    return PLAIN if confinement is None else within(confinement)


def to_write(confinement: Confinement | None) -> Files:
    return PLAIN if confinement is None else within(confinement, writing=True)


def within(confinement: Confinement, *, writing: bool = False) -> ConfinedFiles:
    """Raises FileFailed."""
    from ..host.sandbox.files import ConfinedFiles

    return ConfinedFiles(confinement, writing=writing)


def known_to_all(confinement: Confinement, cached: CachedLookup, path: str) -> Metadata | None:
    """What the kernel knows of a path by heart, where everything may be read; None otherwise."""
    if not confinement.reads_all:
        return None
    from ..host.sandbox.openat2 import ordinary_devices

    return cached.find_plain(path, ordinary_devices)


class _PlainFiles:
    """Files as they are."""

    open_read = staticmethod(files.open_read)
    metadata = staticmethod(files.metadata)
    canonicalize = staticmethod(files.canonicalize)
    scan_directory = staticmethod(files.scan_directory)
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
