"""The C halves of standard modules: each is there, does what the public one does, and can be done without."""

from __future__ import annotations

import collections
import hashlib
import heapq
import hmac
import importlib
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from outfitter import stdlib

# Every name, and the public object that it stands for.
PUBLIC: dict[str, Any] = {
    "AF_INET6": socket.AF_INET6,
    "Empty": queue.Empty,
    "LockType": type(threading.Lock()),
    "OrderedDict": collections.OrderedDict,
    "SIGCHLD": signal.SIGCHLD,
    "SIGUSR1": signal.SIGUSR1,
    "SIGUSR2": signal.SIGUSR2,
    "SIG_DFL": signal.SIG_DFL,
    "SIG_IGN": signal.SIG_IGN,
    "SOL_SOCKET": socket.SOL_SOCKET,
    "SO_REUSEADDR": socket.SO_REUSEADDR,
    "SimpleQueue": queue.SimpleQueue,
    "_compare_digest": hmac.compare_digest,
    "alarm": signal.alarm,
    "allocate_lock": threading.Lock,
    "deque": collections.deque,
    "encode_basestring_ascii": json.encoder.encode_basestring_ascii,
    "get_ident": threading.get_ident,
    "getaddrinfo": socket.getaddrinfo,
    "getsignal": signal.getsignal,
    "heapify": heapq.heapify,
    "heappop": heapq.heappop,
    "heappush": heapq.heappush,
    "inet_pton": socket.inet_pton,
    "pthread_sigmask": signal.pthread_sigmask,
    "set_wakeup_fd": signal.set_wakeup_fd,
    "sha1": hashlib.sha1,
    "sha256": hashlib.sha256,
    "signal": signal.signal,
    "socket": socket.socket,
    "socketpair": socket.socketpair,
    "start_new_thread": threading.Thread,
}
LINUX_ALONE = ("pidfd_send_signal",)
PUBLIC |= {name: getattr(signal, name) for name in LINUX_ALONE if hasattr(signal, name)}


def test_every_name_has_a_public_counterpart() -> None:
    assert set(stdlib.HOMES) == {*PUBLIC, *LINUX_ALONE}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_name_is_taken_from_its_first_home(name: str) -> None:
    homes = [home for home in stdlib.HOMES[name] if importlib.util.find_spec(home) is not None]
    assert homes[0].startswith("_"), "no private module: starting takes longer than it should"
    assert getattr(stdlib, name) is getattr(importlib.import_module(homes[0]), name)


@pytest.mark.parametrize(
    "name",
    [
        "Empty",
        "OrderedDict",
        "SimpleQueue",
        "deque",
        "encode_basestring_ascii",
        "heapify",
        "heappop",
        "heappush",
        "pidfd_send_signal",
        "set_wakeup_fd",
    ],
)
def test_name_is_the_public_object_itself(name: str) -> None:
    assert getattr(stdlib, name) is PUBLIC[name]


@pytest.mark.parametrize("name", ["sha1", "sha256"])
@pytest.mark.parametrize("data", [b"", b"outfitter", bytes(range(256)) * 99])
def test_digest_is_the_public_one(name: str, data: bytes) -> None:
    assert getattr(stdlib, name)(data).hexdigest() == PUBLIC[name](data).hexdigest()


@pytest.mark.parametrize(("one", "other"), [(b"", b""), (b"a", b"a"), (b"a", b"b"), (b"a", b"ab")])
def test_digests_are_compared_as_by_the_public_function(one: bytes, other: bytes) -> None:
    assert stdlib._compare_digest(one, other) == hmac.compare_digest(one, other) == (one == other)


def test_socket_is_what_the_public_one_extends() -> None:
    assert issubclass(socket.socket, stdlib.socket)


def test_signals_are_set_and_read_as_by_the_public_functions() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    try:
        stdlib.signal(signal.SIGUSR1, stdlib.SIG_IGN)
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        signal.signal(signal.SIGUSR1, print)
        assert stdlib.getsignal(signal.SIGUSR1) is print
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_lock_is_a_public_one_and_a_thread_runs() -> None:
    done = stdlib.allocate_lock()
    assert isinstance(done, type(threading.Lock()))
    assert isinstance(done, stdlib.LockType)
    done.acquire()
    stdlib.start_new_thread(done.release, ())
    assert done.acquire(timeout=60)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'outfitter\.stdlib' has no attribute 'nothing'"):
        stdlib.nothing  # noqa: B018


# What a program prints that uses every name that can be done without. `signal` and `threading` are themselves
# built on their private halves, so these two are always there.
SCRIPT = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None
from outfitter import stdlib
from outfitter.protocol.jsontext import JsonError, dumps, loads, quote
print([stdlib.sha1(b"x").hexdigest(), stdlib.sha256(b"x").hexdigest()])
heap = [3, 1, 2]
stdlib.heapify(heap)
stdlib.heappush(heap, 0)
print([stdlib.heappop(heap) for _ in range(4)])
waiting = stdlib.SimpleQueue()
waiting.put(1)
print(waiting.get(timeout=1))
try:
    waiting.get(timeout=0)
except stdlib.Empty:
    print("empty")
print(list(stdlib.deque([1, 2, 3], 2)))
print(dumps({"a": [1, None, True, "\\u00e9\\n"], "b": {}}), quote('"\\u2028'))
for text in ('{"a":[1,2.5,"\\\\u00e9",{}]}', "9" * 70, "9" * 5000, "", "[1", '{"a":1,"a":2}', "[NaN]", "1 2",
             "[" * 128 + "]" * 128, "[" * 127 + "]" * 127, '"\\\\ud800"'):
    try:
        print(loads(text))
    except JsonError as error:
        print("refused:", error)
for value in (float("nan"), {1, 2}):
    try:
        print(dumps(value))
    except (TypeError, ValueError) as error:
        print(type(error).__name__)
"""


def test_everything_goes_on_without_the_private_modules() -> None:
    private = {home for homes in stdlib.HOMES.values() for home in homes if home.startswith("_")}
    # Without these the standard library does not start; `_socket`, `_collections` and `_operator` (`hmac`)
    # carry other modules.
    private -= {"_collections", "_operator", "_signal", "_socket", "_thread"}
    assert {"_heapq", "_json", "_queue", "_sha1", "_sha256", "_sha2"} == private

    def printed(*missing: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", SCRIPT, *missing], check=True, capture_output=True, text=True
        ).stdout

    usual = printed()
    assert usual.count("refused:") == 7
    assert printed(*sorted(private)) == usual


def test_only_the_module_that_is_wanted_is_imported() -> None:
    script = "import outfitter.stdlib, sys; before = set(sys.modules); from outfitter.stdlib import sha1\n"
    script += "print(len(set(sys.modules) - before), sha1.__module__)"
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert shown == "1 _sha1\n"
