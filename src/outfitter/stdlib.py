"""The C halves of standard modules without the Python around them: the only place that names private modules.

A name is looked up when it is first imported from here, so an importer pays for its own names alone. Where
an interpreter has no such private module, the public one takes its place: slower to import, otherwise the
same.

| names | the public module costs, before /readyz or the first command |
|---|---|
| OrderedDict, deque | 2.5 ms |
| heapify, heappop, heappush | 0.3 ms |
| JSON | 11 ms: it brings `re` |
| sha1, sha256, _compare_digest | 4 ms, and 3 MiB: `hashlib` and `hmac` bring OpenSSL |
| SIGUSR1, SIGUSR2, SIG_DFL, SIG_IGN, alarm, getsignal, pthread_sigmask, set_wakeup_fd, signal | 6 ms: enums |
| SIGCHLD | the same |
| pidfd_send_signal, which only Linux has | the same |
| AF_INET6, SOL_SOCKET, SO_REUSEADDR, getaddrinfo, inet_pton, socket, socketpair | 11 ms: `selectors`, enums |
| Empty, SimpleQueue | 6 ms: it brings `threading` |
| LockType, allocate_lock, get_ident, start_new_thread | 5 ms; `_thread` is documented, `threading` needs it |
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _operator import _compare_digest
    from _thread import LockType, allocate_lock, get_ident, start_new_thread
    from collections import OrderedDict, deque
    from collections.abc import Callable, Iterable
    from hashlib import sha1, sha256
    from heapq import heapify, heappop, heappush
    from json.encoder import encode_basestring_ascii
    from queue import Empty, SimpleQueue
    from signal import (
        SIG_DFL,
        SIG_IGN,
        SIGCHLD,
        SIGUSR1,
        SIGUSR2,
        alarm,
        getsignal,
        pidfd_send_signal,
        pthread_sigmask,
        set_wakeup_fd,
        signal,
    )
    from socket import AF_INET6, SO_REUSEADDR, SOL_SOCKET, getaddrinfo, inet_pton, socket, socketpair
    from typing import Any
else:
    _NAMES = {
        ("_collections", "collections"): ("OrderedDict", "deque"),
        ("_heapq", "heapq"): ("heapify", "heappop", "heappush"),
        ("_json", "json.encoder"): ("encode_basestring_ascii",),
        ("_queue", "queue"): ("Empty", "SimpleQueue"),
        ("_sha1", "hashlib"): ("sha1",),
        ("_sha2", "_sha256", "hashlib"): ("sha256",),  # the first since 3.12
        ("_signal", "signal"): (
            "SIGCHLD",
            "SIGUSR1",
            "SIGUSR2",
            "SIG_DFL",
            "SIG_IGN",
            "alarm",
            "getsignal",
            "pidfd_send_signal",
            "pthread_sigmask",
            "set_wakeup_fd",
            "signal",
        ),
        ("_socket", "socket"): (
            "AF_INET6",
            "SOL_SOCKET",
            "SO_REUSEADDR",
            "getaddrinfo",
            "inet_pton",
            "socket",
            "socketpair",
        ),
        ("_operator",): ("_compare_digest",),
        ("_thread",): ("LockType", "allocate_lock", "get_ident", "start_new_thread"),
    }
    # The modules that have a name: the first that exists is taken.
    HOMES = {name: homes for homes, names in _NAMES.items() for name in names}

    def __getattr__(name):
        for home in HOMES.get(name, ()):
            try:
                module = __import__(home, None, None, (name,))
            except ImportError:
                continue
            found = globals()[name] = getattr(module, name)
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def json_scanner(
    pairs: Callable[[list[tuple[str, Any]]], Any],
    integer: Callable[[str], Any],
    constant: Callable[[str], Any],
) -> Callable[[str, int], tuple[Any, int]]:
    """Gives the JSON value at a place of a text and where it ends. It raises StopIteration, ValueError."""
    try:
        from _json import make_scanner
    except ImportError:
        from json import JSONDecoder

        # Its `raw_decode` would turn StopIteration into another error.
        decoder: Any = JSONDecoder(object_pairs_hook=pairs, parse_int=integer, parse_constant=constant)
        return decoder.scan_once  # type: ignore[no-any-return]

    class Settings:
        strict = True
        object_hook = None
        object_pairs_hook = staticmethod(pairs)
        parse_float = float
        parse_int = staticmethod(integer)
        parse_constant = staticmethod(constant)
        memo: dict[str, str] = {}

    # Typed as if it took a decoder; it takes anything with these attributes.
    return make_scanner(Settings)  # type: ignore[arg-type]


def json_encoder(default: Callable[[object], object]) -> Callable[[object, int], Iterable[str]]:
    """Writes a value as compact JSON text in ASCII, in parts. The second argument is 0."""
    try:
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:
        from json import JSONEncoder

        encoder = JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":"), default=default)
        return lambda value, _: encoder.iterencode(value)
    return make_encoder(None, default, encode_basestring_ascii, None, ":", ",", False, False, False)
