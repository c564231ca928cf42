"""Two machines on one: network namespaces joined by a cable, each with a loopback of its own.

A namespace belongs to a thread: what runs in one, with the sockets it opens and the processes it starts, is
on that machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_numbers = itertools.count(1)


class Machine:
    """One end of the cable, with an address of its own."""

    def __init__(self, namespace: str, address: str) -> None:
        self._namespace = namespace
        self.address = address

    def run(self, work: Callable[[], T]) -> T:
        """Does this on the machine, in a thread; what it raises is raised here."""
        results: list[T] = []
        errors: list[BaseException] = []

        def there() -> None:
            try:
                self._enter()
                results.append(work())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=there)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def _enter(self) -> None:
        fd = os.open(f"/run/netns/{self._namespace}", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(fd, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(fd)


@contextlib.contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Both, connected; skips the test where that is not permitted."""
    number = next(_numbers)
    names = [f"outfitter-{os.getpid()}-{number}{end}" for end in "ab"]
    addresses = ("192.0.2.1", "192.0.2.2")  # of the block for documentation: nobody's
    made: list[str] = []
    try:
        for name in names:
            _ip("netns", "add", name)
            made.append(name)
        cable = [f"of{os.getpid() % 100_000}{end}{number}" for end in "ab"]
        _ip("link", "add", cable[0], "netns", names[0], "type", "veth", "peer", cable[1], "netns", names[1])
        for name, device, address in zip(names, cable, addresses, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", device)
            _ip("-n", name, "link", "set", device, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield Machine(names[0], addresses[0]), Machine(names[1], addresses[1])
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def _ip(*args: str) -> None:
    try:
        done = subprocess.run(["ip", *args], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("`ip` is not installed (Debian: apt-get install iproute2)")
    if done.returncode:
        pytest.skip(f"network namespaces are not permitted here: ip {' '.join(args)}: {done.stderr.strip()}")
