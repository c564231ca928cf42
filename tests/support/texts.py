"""Which error texts are part of the protocol: those that the tables of its description quote.

Everything else an error says is decoder wording, where only the code counts.
"""

from __future__ import annotations

import re

URI = r"\S*"
ANY = r"[\s\S]*"

DOMAIN = [
    # dispatch and handshake
    r"exec-server stub does not implement `" + ANY + r"` yet",
    r"client must (call initialize|send initialized) before using [a-z ]+ methods",
    r"initialize may only be sent once per connection",
    r"unknown session id " + ANY,
    r"session " + ANY + r" is already attached to another connection",
    # path URIs
    r"invalid URI: relative URL without a base",
    r"unsupported path URI scheme `" + ANY + "`",
    r"query parameters are not allowed in path URIs",
    r"fragments are not allowed in path URIs",
    r"'" + URI + r"' is invalid on 'linux'",
    r"cwd URI `" + URI + r"` is not valid on this exec-server host: '" + URI + r"' is invalid on 'linux'",
    # processes
    r"process " + ANY + r" already exists",
    r"unknown process id " + ANY,
    r"process id " + ANY + r" is starting",
    r"process " + ANY + r" start was cancelled",
    r"argv must not be empty",
    r"shell snapshot scope must be non-empty and at most 256 bytes",
    r"writeId must not be empty",
    r"missing program for (pipe|PTY) spawn",
    r"(No such file or directory|Not a directory|Permission denied|Exec format error) \(os error \d+\)",
    r"Unable to spawn [\w.-]{1,64} because:\nNo viable candidates found in PATH \"[^\"]*\"",
    r"nul byte found in provided data",
    r"data provided contains a nul byte",
]
# Of fs/*: the words of the reference's C library, and its own. Other methods have them from elsewhere.
FILES = [
    r"("
    + "|".join(
        (
            "Bad file descriptor",
            "Directory not empty",
            "File exists",
            "File too large",
            "Filename too long",
            "Invalid argument",
            "Is a directory",
            "No such device or address",
            "Operation not permitted",
            "Read-only file system",
            "Symbolic link loop",
        )
    )
    + r") \(os error \d+\)",
    r"path `" + ANY + r"` is not a file",
    r"path is not a regular file",
    r"path contains a symbolic link",
    r"file is too large to read: limit is 536870912 bytes",
    r"recursive no-follow removal is unsupported",
    r"fs/readDirectory returned \d+ entries; limit is 50000",
    r"fs/copy requires recursive: true when sourcePath is a directory",
    r"fs/copy cannot copy a directory to itself or one of its descendants",
    r"fs/copy only supports regular files, directories, and symlinks",
    r"filesystem walk limits must be greater than zero",
    r"filesystem walk limits exceed maximums: depth=64, directories=10000, entries=50000",
    r"at most 128 file handles may be open per connection",
    r"file handle `" + ANY + r"` already exists",
    r"unknown file handle `" + ANY + "`",
    r"file handle ID must not exceed 32 bytes",
    r"file (read|write) block length must be between 1 and 1048576",
    r"file write range exceeds the signed 64-bit file offset limit",
]
PATTERN = re.compile("|".join(f"(?:{text})" for text in DOMAIN))
FILES_PATTERN = re.compile("|".join(f"(?:{text})" for text in (*DOMAIN, *FILES)))


def is_domain(text: str, method: str = "") -> bool:
    """Whether this error text, of this method, must be reproduced to the letter."""
    pattern = FILES_PATTERN if method.startswith("fs/") else PATTERN
    return pattern.fullmatch(text) is not None
