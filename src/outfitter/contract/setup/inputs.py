"""The files that a setup depends on: found by their patterns, compared by their content."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from hashlib import sha256

from ...errors import SettingInvalid
from ...record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# What is named beside a setup are locks and manifests: a few files, and read before the first command.
INPUT_FILES = 1000
INPUT_BYTES = 64 << 20
SCRIPT_BYTES = 16 << 20  # far more than people write
_MAGIC = frozenset("*?[")
_CHUNK = 1 << 20


@record
class Inputs:
    """`digests` has each file, from the folder on, with its content's digest, None for one that is not there.

    `watch` are the paths whose change can change that: the files, and the folders that wildcards look into.
    """

    digests: dict[str, str | None]
    watch: tuple[str, ...]


def find(folder: str, patterns: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The files that patterns stand for, from the folder on, and what to watch. Raises SettingInvalid."""
    files: dict[str, None] = {}
    watch: dict[str, None] = {}
    for pattern in patterns:
        found = [""]
        for part in pattern.split("/"):
            if part in ("", "."):
                continue
            if _MAGIC.isdisjoint(part):
                found = [_joined(path, part) for path in found]
                continue
            matching = []
            for path in found:
                inside = os.path.join(folder, path)
                watch[inside] = None
                matching += [_joined(path, name) for name in _names(inside) if _matches(name, part)]
            found = matching
            _refuse_many(len(found) + len(files))
        watch.update(dict.fromkeys(os.path.join(folder, path) for path in found))
        if not _MAGIC.isdisjoint(pattern):
            # One that is not there is missed only where it was named.
            found = [path for path in found if os.path.lexists(os.path.join(folder, path))]
        files.update(dict.fromkeys(found))
        _refuse_many(len(files))
    return sorted(files), tuple(watch)


def read(folder: str, patterns: Sequence[str]) -> Inputs:
    """What is in them now. Raises SettingInvalid."""
    files, watch = find(folder, patterns)
    left = INPUT_BYTES
    digests: dict[str, str | None] = {}
    for path in files:
        size, digests[path] = digest(os.path.join(folder, path), path, left)
        left -= size
    return Inputs(digests, watch)


def read_script(path: str, shown: str) -> bytes | None:
    """What is in a setup's script; None when it is not there. Raises SettingInvalid."""
    pieces: list[bytes] = []
    _, found = digest(path, shown, SCRIPT_BYTES, pieces)
    return None if found is None else b"".join(pieces)


def digest(
    path: str, shown: str, most: int = INPUT_BYTES, pieces: list[bytes] | None = None
) -> tuple[int, str | None]:
    """A file's size and the digest of its content, None when it is not there. Raises SettingInvalid.

    `pieces` gets the content itself.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return 0, None
    except OSError as error:
        raise SettingInvalid(f"[setup]: {shown} cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise SettingInvalid(f"[setup]: {shown} is not a file; for a directory, write {shown}/*")
        total, size = sha256(), 0
        while data := os.read(fd, _CHUNK):
            total.update(data)
            size += len(data)
            if pieces is not None:
                pieces.append(data)
            if size > most and pieces is not None:
                raise SettingInvalid(f"[setup]: {shown} is larger than {SCRIPT_BYTES >> 20} MiB")
            if size > most:
                raise SettingInvalid(
                    f"[setup]: the inputs are larger than {INPUT_BYTES >> 20} MiB: list fewer"
                )
    except OSError as error:
        raise SettingInvalid(f"[setup]: {shown} cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)
    return size, f"sha256:{total.hexdigest()}"


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


def _refuse_many(count: int) -> None:
    if count > INPUT_FILES:
        raise SettingInvalid(f"[setup]: more than {INPUT_FILES} inputs: list fewer")
