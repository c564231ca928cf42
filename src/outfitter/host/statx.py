"""statx(2), for what `os.stat` does not tell: when a file was born, and whether asking would have blocked."""

from __future__ import annotations

import ctypes
import os
import struct

from ..record import replace
from .metadata import Metadata, of_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_EMPTY_PATH = 0x1000
_AT_STATX_DONT_SYNC = 0x4000
_BASIC_AND_BIRTH = 0x7FF | 0x800
_BIRTH = 0x800
_SYS_OPENAT2 = 437  # the same on every architecture
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_CACHED = 0x20  # Linux 5.12: fail with EAGAIN rather than look at a disk

# stx_mask, stx_mode, stx_size, stx_btime, stx_mtime (seconds, nanoseconds), and what lies between.
_FIELDS = struct.Struct("=I24xH10xQ32xqI20xqI")
_DEVICE = struct.Struct("=136xII")  # stx_dev_major, stx_dev_minor
_BUFFER_SIZE = 256


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = ctypes.CDLL(None, use_errno=True)
_statx: Callable[..., int] | None = getattr(_libc, "statx", None)
# For calls that cannot block: without giving way to other threads, and without keeping errno.
_quick = ctypes.PyDLL(None)
_syscall: Callable[..., int] = _quick.syscall
_OPENAT2, _CWD = ctypes.c_long(_SYS_OPENAT2), ctypes.c_long(_AT_FDCWD)
_FLAGS, _MASK = ctypes.c_int(_AT_EMPTY_PATH | _AT_STATX_DONT_SYNC), ctypes.c_uint(_BASIC_AND_BIRTH)


def statx_at(folder: int | None, path: str, *, follow: bool) -> Metadata:
    """What a name is. Raises OSError."""
    if _statx is None:  # an old C library
        return of_stat(os.stat(path, dir_fd=folder, follow_symlinks=follow))
    flags = 0 if follow else _AT_SYMLINK_NOFOLLOW
    buffer = ctypes.create_string_buffer(_BUFFER_SIZE)
    where = _AT_FDCWD if folder is None else folder
    if _statx(where, os.fsencode(path), flags, _BASIC_AND_BIRTH, buffer) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return _read(buffer)


class CachedLookup:
    """What fs/getMetadata tells, if the kernel knows it by heart.

    Safe on the loop: neither the lookup nor the answer ever waits for a disk or a network. One per loop: its
    buffer is used again and again.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(_BUFFER_SIZE)
        size = ctypes.c_size_t(ctypes.sizeof(_How))
        self._own = _How(os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, 0, _RESOLVE_CACHED)
        self._target = _How(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_CACHED)
        self._plain = _How(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_CACHED | _RESOLVE_NO_SYMLINKS)
        self._plain_args = (ctypes.byref(self._plain), size)
        self._own_args = (ctypes.byref(self._own), size)
        self._target_args = (ctypes.byref(self._target), size)
        # The root is always known; a kernel that does not find it so does not know such lookups.
        self._works = _statx is not None and self._stat(b"/", self._own_args) is not None

    def find(self, path: str) -> Metadata | None:
        """None when somebody would have to look."""
        if not self._works:
            return None
        raw = path.encode("utf-8", "surrogateescape")
        own = self._stat(raw, self._own_args)
        if own is None or not own.is_symlink:
            return own
        target = self._stat(raw, self._target_args)
        return None if target is None else replace(target, is_symlink=True)

    def find_plain(self, path: str, devices: Container[int]) -> Metadata | None:
        """The same for a path without links, if what it leads to is on one of these devices."""
        if not self._works:
            return None
        found = self._stat(path.encode("utf-8", "surrogateescape"), self._plain_args)
        if found is None or os.makedev(*_DEVICE.unpack_from(self._buffer)) not in devices:
            return None
        return found

    def _stat(self, path: bytes, how: tuple[object, object]) -> Metadata | None:
        fd = _syscall(_OPENAT2, _CWD, path, *how)
        if fd < 0:
            return None
        failed = _quick.statx(fd, b"", _FLAGS, _MASK, self._buffer)
        os.close(fd)
        return None if failed else _read(self._buffer)


def _read(raw: ctypes.Array[ctypes.c_char]) -> Metadata:
    mask, mode, size, born, born_ns, changed, changed_ns = _FIELDS.unpack_from(raw)
    created = born * 1000 + born_ns // 1_000_000 if mask & _BIRTH else 0
    return Metadata(
        mode, mode & 0o170000 == 0o120000, size, created, changed * 1000 + changed_ns // 1_000_000
    )
