"""Which files of a worktree git tracks, read from its index: git itself is not run.

The index may be a stranger's (an unpacked archive has one): whatever is in it, the answer is yes or no. Where
it cannot be told, it is yes, which only makes us ask a person.
"""

from __future__ import annotations

import os

from .files import is_repository, read, upwards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST = 256 << 20  # the index of a repository with two million files
_SHA1, _SHA256 = 20, 32  # bytes of a name of an object
_TIMES = 40  # bytes of an entry before that: times, numbers and sizes
_EXTENDED = 0x4000
_LONG = 0xFFF  # a name of this length or more ends where its NUL is
_LONGEST = 8192  # bytes of a name: twice what Linux has
_WHOLE_NAMES = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")
# How the extensions begin that say: the rest is in another file, or some entries are folders. The first byte
# of an extension's length follows its name; it is 0 in every index that is smaller than this.
_ELSEWHERE, _SPARSE, _SMALL = b"link\0", b"sdir\0", 1 << 24


class UnreadableIndex(ValueError):
    """The index is not in a form that is known here."""


def tracks(path: str) -> bool:
    """Whether git tracks something at or below an absolute path. Where that cannot be told, it does."""
    for folder in upwards(os.path.dirname(path)):
        git = os.path.join(folder, ".git")
        if is_repository(folder):
            return _tracks(_index_of(git), os.path.relpath(path, folder))
    return False


def _index_of(git: str) -> str:
    """Where the index is; in a linked worktree or a submodule, `.git` is a file that names the folder."""
    if os.path.isdir(git):
        return os.path.join(git, "index")
    text = (read(git, 16 << 10) or b"").decode("utf-8", "surrogateescape")
    named = text.removeprefix("gitdir:").strip() if text.startswith("gitdir:") else ""
    if not named or "\0" in named:
        return ""
    folder = os.path.join(os.path.dirname(git), named)
    return os.path.join(folder, "index") if os.path.isdir(folder) else ""


def _tracks(index: str, wanted: str) -> bool:
    try:
        if index:
            os.lstat(index)
    except FileNotFoundError:
        return False  # nothing was ever added
    except OSError:
        return True  # another user's repository, into which we may not look
    data = read(index, _LARGEST) if index else None
    if data is None:
        return True
    if _cannot_name(data, os.fsencode(wanted)):
        return False
    try:
        found, shared = names(data)
        if _among(found, os.fsencode(wanted)):
            return True
        if not shared:
            return False
        # Most entries are in another file, which has no further one.
        data = read(os.path.join(os.path.dirname(index), f"sharedindex.{shared}"), _LARGEST)
        return data is None or _among(names(data)[0], os.fsencode(wanted))
    except UnreadableIndex:
        return True


def _cannot_name(data: bytes, wanted: bytes) -> bool:
    """Whether it can be told without reading the entries, which takes 2 µs each, that none is at or below a
    path: in the usual forms their names stand there as they are, and in no other file."""
    return (
        data[:8] in _WHOLE_NAMES
        and len(data) < _SMALL
        and not any(mark in data for mark in (wanted, _ELSEWHERE, _SPARSE))
    )


def _among(found: list[bytes], wanted: bytes) -> bool:
    below = wanted + b"/"
    # A sparse index has whole folders, with a slash at their end, in place of what is in them.
    return any(
        one == wanted or one.startswith(below) or (one.endswith(b"/") and wanted.startswith(one))
        for one in found
    )


def names(data: bytes) -> tuple[list[bytes], str]:
    """The paths in an index, and the name of the shared index that it is a part of, or "".

    Raises UnreadableIndex.
    """
    # Which hash a repository has is in its configuration; here it is the one with which all adds up.
    for size in (_SHA1, _SHA256):
        try:
            place, found = 12, []
            for name, after in _entries(data, size):
                found.append(name)
                place = after
            shared = _shared(data, place, size)
        except (UnreadableIndex, IndexError, ValueError):
            continue
        if shared or all(found):
            return found, shared
    raise UnreadableIndex


def _entries(data: bytes, size: int) -> Iterator[tuple[bytes, int]]:
    """Each path, and where the next entry begins."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise UnreadableIndex
    place, before = 12, b""
    for _ in range(count):
        at = place + _TIMES + size
        flags = data[at] << 8 | data[at + 1]
        start = at + (4 if flags & _EXTENDED else 2)
        length = flags & _LONG
        if version == 4:
            cut, start = _varint(data, start)
            end = data.index(b"\0", start, start + _LONGEST)
            if cut > len(before):
                raise UnreadableIndex
            name = before[: len(before) - cut] + data[start:end]
            place = end + 1
        else:
            end = start + length if length < _LONG else data.index(b"\0", start, start + _LONGEST)
            name = data[start:end]
            place += (end - place + 8) // 8 * 8
        # The length is in the entry as well, which tells one hash from another.
        if data[end] or b"\0" in name or (length != len(name) if length < _LONG else len(name) < _LONG):
            raise UnreadableIndex
        yield name, place
        before = name


def _shared(data: bytes, place: int, size: int) -> str:
    """What the extensions behind the entries say; they, and a checksum, are the rest."""
    shared, end = "", len(data) - size
    while place < end:
        length = int.from_bytes(data[place + 4 : place + 8], "big")
        if data[place : place + 4] == b"link":
            shared = data[place + 8 : place + 8 + size].hex()
        place += 8 + length
    if place != end:
        raise UnreadableIndex
    return shared if shared.strip("0") else ""


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Git's number of variable length, and where it ends."""
    byte = data[place]
    value = byte & 0x7F
    while byte & 0x80:
        place += 1
        byte = data[place]
        value = ((value + 1) << 7) | (byte & 0x7F)
        if value > _LONGEST:
            raise UnreadableIndex
    return value, place + 1
