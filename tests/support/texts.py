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
PATTERN = re.compile("|".join(f"(?:{text})" for text in DOMAIN))


def is_domain(text: str) -> bool:
    """Whether this error text must be reproduced to the letter."""
    return PATTERN.fullmatch(text) is not None
