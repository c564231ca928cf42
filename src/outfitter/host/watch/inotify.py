"""inotify(7): what the kernel says about changes in folders. Reading never blocks.

An event is a plain tuple: the watch's number, its bits, and the name in the folder ("" for the folder
itself). The kernel keeps a bounded queue; when it is full, one event of `OVERFLOW` and number -1 stands for
all that was lost. The number of a watch is not used again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from ...errors import FileFailed
from ..files import failed
from ..pipes import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Event = tuple[int, int, str]

MODIFY, ATTRIB = 0x002, 0x004
MOVED_FROM, MOVED_TO = 0x040, 0x080
CREATE, DELETE = 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
UNMOUNT, OVERFLOW, IGNORED = 0x2000, 0x4000, 0x8000
ISDIR = 0x4000_0000
_ONLYDIR, _EXCL_UNLINK, _MASK_ADD = 0x0100_0000, 0x0400_0000, 0x2000_0000
_NONBLOCK, _CLOEXEC = 0x800, 0x80000

# About a thousand events: some milliseconds of work, then others get their turn.
_READ_SIZE = 32 << 10
_LONGEST = 16 + 256  # an event with the longest name
_HEAD = struct.Struct("=iIII")  # watch, bits, cookie, length of the name

# File systems that nobody watches over: their changes come from the kernel itself, or from other machines.
_KERNEL_MADE = frozenset({0x9FA0, 0x6265_6572})  # proc, sysfs
_SHARED = frozenset(
    {
        0x6969,  # nfs
        0x517B,  # smb
        0xFF53_4D42,  # cifs
        0xFE53_4D42,  # smb2
        0x6573_5546,  # fuse, virtiofs
        0x0102_1997,  # 9p
        0x00C3_6400,  # ceph
        0x5346_414F,  # afs
        0x6B41_4653,  # afs in the kernel
        0x7375_7245,  # coda
        0x0BD0_0BD0,  # lustre
        0x7461_636F,  # ocfs2
        0x0116_1970,  # gfs2
        0x786F_4256,  # vboxsf
        0xBACB_ACBC,  # vmhgfs
    }
)


class Inotify:
    """One instance. Raises FileFailed when it cannot be had."""

    def __init__(self) -> None:
        libc = _libc()
        self._add: Callable[..., int] = libc.inotify_add_watch
        self._remove: Callable[..., int] = libc.inotify_rm_watch
        self.fd: int = libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        if self.fd < 0:
            number = ctypes.get_errno()
            if number == errno.EMFILE:
                raise FileFailed(
                    "this user has no inotify instance left: raise /proc/sys/fs/inotify/max_user_instances",
                    "EMFILE",
                )
            raise failed(OSError(number, os.strerror(number)))

    def add(self, folder: int, bits: int, path: str = "") -> int:
        """Watches an open folder and returns the watch's number; the same one for the same folder, with the
        bits of both. Raises OSError, and FileFailed when the user has no watch left."""
        # By its descriptor, not its `path`: nothing on the way there can be exchanged any more, without a
        # wait for a disk.
        place = b"/proc/self/fd/%d" % folder
        watch = self._add(self.fd, place, bits | _ONLYDIR | _EXCL_UNLINK | _MASK_ADD)
        if watch >= 0:
            return watch
        number = ctypes.get_errno()
        if number == errno.ENOSPC:
            raise FileFailed(
                "this user cannot watch more directories: raise /proc/sys/fs/inotify/max_user_watches",
                "ENOSPC",
            )
        raise OSError(number, os.strerror(number))

    def remove(self, watch: int) -> None:
        """Ends a watch; one that has ended by itself is fine."""
        self._remove(self.fd, watch)

    def read(self) -> tuple[list[Event], bool]:
        """What happened, oldest first, and whether there may be more; nothing when nothing did."""
        try:
            data = os.read(self.fd, _READ_SIZE)
        except BlockingIOError:
            return [], False
        return parse(data), len(data) > _READ_SIZE - _LONGEST

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        let_go(fd)


def parse(data: bytes) -> list[Event]:
    """The events in what was read. That a file was modified is told once: two that are written in turns fill
    the kernel's queue with nothing else."""
    events: list[Event] = []
    told: set[bytes] = set()
    unpack, size = _HEAD.unpack_from, _HEAD.size
    place, end = 0, len(data)
    while place < end:
        watch, bits, _, length = unpack(data, place)
        begin, place = place, place + size + length
        if bits & _AGAIN:
            event = data[begin:place]
            if event in told:
                continue
            told.add(event)
        name = os.fsdecode(data[begin + size : place].rstrip(b"\0")) if length else ""
        events.append((watch, bits, name))
    return events


_AGAIN = MODIFY | ATTRIB  # what may be said twice without meaning more


def tells_nothing(folder: int) -> bool:
    """Whether an open folder is of a file system that the kernel makes up, where nothing is ever reported."""
    return _kind(folder) in _KERNEL_MADE


def tells_all(folder: int) -> bool:
    """Whether changes in an open folder can come from this machine alone, so that all are reported."""
    return _kind(folder) not in _KERNEL_MADE | _SHARED


def _kind(folder: int) -> int:
    """The magic number of a file system, as statfs(2) tells it; 0 when it does not."""
    buffer = ctypes.create_string_buffer(256)  # struct statfs has 120 bytes; its first member is a long
    if _libc().fstatfs(folder, buffer) < 0:
        return 0
    return int(ctypes.c_long.from_buffer(buffer).value) & 0xFFFF_FFFF


def _libc() -> ctypes.CDLL:
    if not _loaded:
        _loaded.append(ctypes.CDLL(None, use_errno=True))
    return _loaded[0]


_loaded: list[ctypes.CDLL] = []
