"""openat2(2): opens a path only if no link is on the way. And which file systems the kernel makes up."""

from __future__ import annotations

import ctypes
import os

_SYS_OPENAT2 = 437  # the same on every architecture
_AT_FDCWD = -100
_NO_SYMLINKS = 0x04  # magic ones neither

# Here files tell of the process that reads them, or are switches: proc, sysfs, cgroup (both), debugfs,
# tracefs, securityfs, selinuxfs, bpf, configfs, efivarfs, pstore, binfmt_misc.
_KERNEL_MADE = frozenset(
    {
        0x9FA0,
        0x6265_6572,
        0x0027_E0EB,
        0x6367_7270,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0xF97C_FF8C,
        0xCAFE_4A11,
        0x6265_6570,
        0xDE5E_81E4,
        0x6165_676C,
        0x4249_4E4D,
    }
)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = ctypes.CDLL(None, use_errno=True)
_NUMBER, _CWD, _SIZE = ctypes.c_long(_SYS_OPENAT2), ctypes.c_long(_AT_FDCWD), ctypes.c_size_t(24)
_PATH = _How(os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _NO_SYMLINKS)
_PATH_ARG = ctypes.byref(_PATH)

#: Devices with ordinary files, as far as they are known; a few for each mount that clients use.
ordinary_devices: set[int] = set()
_KNOWN_DEVICES = 256


def pin_without_links(path: str) -> int:
    """A descriptor that only names what is at a path, be it a link; negative where that is not so simple:
    nothing is there, a link is on the way, the kernel is older than 5.6."""
    raw = path.encode("utf-8", "surrogateescape")
    return int(_libc.syscall(_NUMBER, _CWD, raw, _PATH_ARG, _SIZE))


def is_kernel_made(fd: int, device: int) -> bool:
    """Whether an open file, on a device, is of a file system that the kernel makes up."""
    if device in ordinary_devices and os.major(device):
        return False  # a disk: no other file system can have its number
    buffer = ctypes.create_string_buffer(256)  # struct statfs has 120 bytes; its first member is a long
    if _libc.fstatfs(fd, buffer) < 0:
        return True  # nobody knows what it is
    if int(ctypes.c_long.from_buffer(buffer).value) & 0xFFFF_FFFF in _KERNEL_MADE:
        return True
    if device not in ordinary_devices and len(ordinary_devices) < _KNOWN_DEVICES:
        ordinary_devices.add(device)
    return False
