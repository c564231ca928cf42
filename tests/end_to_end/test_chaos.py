"""Crowds that are cut, frozen or flood; thousands of sessions; a soak; and peers that send anything.

Afterwards, descriptors, children and memory are where they began. The suite has small numbers;
OUTFITTER_CHAOS=1 (`make chaos`) has the large ones, and says how far it is.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outfitter.protocol.methods import METHODS
from outfitter.server.limits import WALKERS
from outfitter.system import LINUX
from tests.support.faults import leftover_children
from tests.support.machine import SECOND, alive, command, descriptors, peak_kib, resident_kib, wait_until
from tests.support.raw import Raw, frame
from tests.support.servers import Server, serving
from tests.support.session import Gone, Peer, Refusal, Scenes

DEEP = bool(os.environ.get("OUTFITTER_CHAOS"))
CROWDS = [10, 100, 1000] if DEEP else [10, 100]
SESSIONS = 10_000 if DEEP else 1000 if LINUX else 300  # the end of one takes a look by `ps` elsewhere
SOAK_SECONDS = 600 if DEEP else 20
# A heap is as large as it gets, 8 MiB more than after the first scenes, when some hundreds were played.
WARM_UP_SECONDS = 150 if DEEP else 20
FUZZ_ROUNDS = 20_000 if DEEP else 600
GROWN_KIB = 6 << 10  # that a server may have grown by: what it remembers of its last clients
LONG = 3600 if DEEP else 300

FLAGS = ("--session-retention", "0", "--process-retention", "0", "--max-sessions", "2000")


def listening(home: Path) -> str:
    """Where it listens: over TCP, if that is not looked up by `lsof`, once for each of a crowd."""
    return "ws://127.0.0.1:0" if LINUX else f"unix:{home}/s"


def tell(text: str) -> None:
    """Progress, for somebody who waits: under `make chaos`."""
    if DEEP:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.__stderr__, flush=True)


def assert_serves(server: Server) -> None:
    # A thousand clients that ask without end have their turns as well.
    with Peer(server, seconds=60 * SECOND) as peer:
        peer.start("p", ["/bin/echo", "hello"])
        assert peer.closed("p") == 0
        assert peer.output("p") == b"hello\n"


class Measured:
    """What a server had, and that it has no more later."""

    def __init__(self, server: Server, walkers: int = 0) -> None:
        """`walkers` are so many that are not there yet: each stays for a minute, with three descriptors."""
        self._server = server
        held, running = self.now()
        self.before = held + 3 * walkers, running + walkers
        self._memory = resident_kib(server.pid)

    def now(self) -> tuple[int, int]:
        """Descriptors, and children that run."""
        return descriptors(self._server.pid), len([*filter(alive, leftover_children(self._server.pid))])

    def is_as_before(self) -> bool:
        return all(now <= before for now, before in zip(self.now(), self.before, strict=True))

    def grown(self) -> int:
        return resident_kib(self._server.pid) - self._memory

    def assert_as_before(self, what: str) -> None:
        try:
            wait_until(self.is_as_before, what, 30 * SECOND)
        except AssertionError:
            pid = self._server.pid
            left = list(map(command, leftover_children(pid)))[:10]
            raise AssertionError(f"{what}: {self.now()} instead of {self.before}: {left}") from None
        # Orphans are reaped every five seconds, all others at once.
        wait_until(lambda: all(map(alive, leftover_children(self._server.pid))), f"{what}: all are reaped")
        tell(f"{what}: descriptors, children {self.now()}, before {self.before}; {self.grown()} KiB more")
        # What was freed in pieces is given back ten seconds later.
        wait_until(lambda: self.grown() < GROWN_KIB, f"{what}: its memory is free again", 30 * SECOND)


# Crowds


@contextmanager
def crowd(server: Server, count: int, how: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "tests.support.crowd", server.url, str(count), how]
    popen = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    try:
        assert popen.stdout is not None
        assert popen.stdout.readline() == "begun\n"
        yield popen
    finally:
        popen.kill()
        popen.wait()
        assert popen.stdout is not None
        popen.stdout.close()


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("count", CROWDS)
def test_crowd_that_is_cut_frozen_or_floods_leaves_nothing_and_nobody_waits(
    count: int, tmp_path: Path
) -> None:
    with serving("outfitter", tmp_path, *FLAGS, listen=listening(tmp_path)) as server:
        assert_serves(server)
        with crowd(server, count, "listen"):
            pass  # once, for what a server keeps of so many
        wait_until(lambda: len(leftover_children(server.pid)) == 0, "the first crowd is gone", 60 * SECOND)
        measured = Measured(server)
        with crowd(server, count, "listen"):
            assert_serves(server)
        measured.assert_as_before(f"{count} clients, cut")
        with crowd(server, count, "listen") as frozen:
            frozen.send_signal(signal.SIGSTOP)
            for _ in range(5):
                assert_serves(server)
        measured.assert_as_before(f"{count} clients, frozen")
        with crowd(server, count, "flood"):
            for _ in range(5):
                assert_serves(server)
        # Answers that nobody reads are held back: 4 MiB each at most, and what the kernel holds is not ours.
        assert peak_kib(server.pid) < (200 << 10) + count * (5 << 10)
        wait_until(measured.is_as_before, f"{count} clients, flooding: all is as before", 60 * SECOND)
        tell(f"{count} clients, flooding: peak {peak_kib(server.pid) >> 10} MiB")


# One after the other


@pytest.mark.timeout(LONG)
def test_thousands_of_sessions_leave_nothing_behind(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path, *FLAGS, listen=listening(tmp_path)) as server:
        for _ in range(SESSIONS // 10):
            assert_serves(server)
        measured = Measured(server)
        for number in range(1, SESSIONS + 1):
            assert_serves(server)
            if number % 1000 == 0:
                tell(f"{number} of {SESSIONS} sessions")
        measured.assert_as_before(f"{SESSIONS} sessions")


# For a while


@pytest.mark.timeout(LONG)
def test_soak_ends_where_it_began(tmp_path: Path) -> None:
    scenes = [Scenes(tmp_path / str(number)) for number in range(3)]
    for one in scenes:
        one.trust(tmp_path)
    flags = ("--session-retention", "1", "--process-retention", "0")
    with serving("outfitter", tmp_path, *flags, listen=listening(tmp_path)) as server:
        scenes[0].play("watch", server)  # an inotify instance stays
        played = [0] * len(scenes)
        failures: list[BaseException] = []

        def soak(number: int, seconds: float) -> None:
            chance = random.Random(number)
            until = time.monotonic() + seconds
            try:
                while time.monotonic() < until and not failures:
                    scenes[number].play(chance.choice(scenes[number].names), server)
                    played[number] += 1
            except BaseException as error:
                failures.append(error)

        def run(seconds: float) -> None:
            threads = [threading.Thread(target=soak, args=(n, seconds)) for n in range(len(scenes))]
            for thread in threads:
                thread.start()
            begun = time.monotonic()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(10)
                tell(f"soak: {time.monotonic() - begun:.0f} of {seconds} s, {sum(played)} scenes")
            if failures:
                raise failures[0]

        run(WARM_UP_SECONDS)
        # Sessions that wait for their clients end; a walker stays for a minute.
        wait_until(lambda: _settled(server), "the server has done what it does", 60 * SECOND)
        measured = Measured(server, walkers=WALKERS - len([*filter(alive, leftover_children(server.pid))]))
        run(SOAK_SECONDS)
        measured.assert_as_before(f"{sum(played)} scenes in {SOAK_SECONDS} s")


def _settled(server: Server) -> bool:
    before = descriptors(server.pid), leftover_children(server.pid)
    time.sleep(1.5 * SECOND)  # an absence has no event
    after = descriptors(server.pid), leftover_children(server.pid)
    return before == after and all(map(alive, after[1]))


# Anything


class Anything:
    """Makes up what a client may send: bytes, halves, and requests that are right, nearly right or wrong.

    Paths and commands are harmless ones: a request that is right is carried out.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self._paths = [f"file://{folder}/{name}" for name in ("", "a", "b", "a/c", "é", "%00", "x" * 300)]
        self._argvs = [["/bin/true"], ["/bin/cat"], ["/bin/echo", "x"], [], ["/nowhere"], ["/bin/sleep", "9"]]
        self._ids = ["p", "q", "", "w", "x" * 300, "\u0000", "é"]

    def _value(self, depth: int = 0) -> Any:
        chance = self._chance
        made: list[Callable[[], Any]] = [
            lambda: None,
            lambda: chance.random() < 0.5,
            lambda: chance.choice([0, 1, -1, 7, 1 << 31, 1 << 63, 1 << 70, 1.5, 1e308]),
            lambda: chance.choice(self._ids),
            lambda: chance.choice(["YWJj", "!", "=", "A" * 1000, "read", "replace", "report", "*", "(a+)+$"]),
        ]
        if depth < 3:
            made.append(lambda: [self._value(depth + 1) for _ in range(chance.randrange(4))])
            made.append(lambda: {chance.choice(self._ids): self._value(depth + 1) for _ in range(3)})
        return chance.choice(made)()

    def _params(self) -> Any:
        chance = self._chance
        if chance.random() < 0.1:
            return self._value()
        params: dict[str, Any] = {}
        for key in ("path", "sourcePath", "destinationPath", "cwd"):
            params[key] = chance.choice(self._paths)
        params["argv"] = chance.choice(self._argvs)
        params["env"] = {}
        for key in ("processId", "handleId", "watchId", "writeId", "scope", "producer", "id"):
            params[key] = chance.choice(self._ids)
        params |= {"tty": chance.random() < 0.2, "pipeStdin": chance.random() < 0.5}
        params |= {
            "chunk": "YWJj",
            "dataBase64": "YWJj",
            "pattern": "a",
            "offset": 0,
            "len": 10,
            "mode": "read",
        }
        params["options"] = {
            "maxDepth": 2, "maxDirectories": 10, "maxEntries": 10, "followDirectorySymlinks": False
        }  # fmt: skip
        params["recursive"] = params["force"] = True
        harmless = {"path", "sourcePath", "destinationPath", "cwd", "argv"}
        for _ in range(chance.randrange(3)):
            key = chance.choice(sorted(params.keys() - harmless))
            params[key] = self._value()
        for _ in range(chance.randrange(2)):
            params.pop(chance.choice(sorted(params)))
        return params

    def message(self) -> bytes:
        chance = self._chance
        message: Any = {
            "id": chance.choice([1, 2, 3, "x", -5, 1 << 62]),
            "method": chance.choice([*METHODS, "initialized", "nothing", ""]),
            "params": self._params(),
        }
        if chance.random() < 0.1:
            message.pop(chance.choice(sorted(message)))
        if chance.random() < 0.03:
            message = self._value()
        return json.dumps(message).encode()

    def sent(self) -> bytes:
        """What goes onto the socket."""
        chance = self._chance
        kind = chance.random()
        if kind < 0.8:
            return frame(self.message())
        if kind < 0.85:
            return frame(self.message(), first=chance.randrange(256))
        if kind < 0.9:
            return frame(chance.randbytes(chance.randrange(300)))
        if kind < 0.95:
            whole = frame(self.message())
            return whole[: chance.randrange(len(whole))]
        return chance.randbytes(chance.randrange(2000))


@pytest.mark.timeout(LONG)
def test_peer_that_sends_anything_hurts_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "played"
    folder.mkdir()
    seed = random.randrange(1 << 32) if DEEP else 15
    tell(f"seed {seed}")
    anything = Anything(folder, seed)
    chance = random.Random(seed)
    where = listening(tmp_path)
    with serving("outfitter", tmp_path, *FLAGS, listen=where) as server, Peer(server) as neighbour:
        _round(server, anything, chance)
        for number in range(FUZZ_ROUNDS):
            _round(server, anything, chance)
            if number % 20 == 0:
                neighbour.start(f"p{number}", ["/bin/true"])
                assert neighbour.closed(f"p{number}") == 0
                neighbour.notices.clear()
            if number % 1000 == 0:
                tell(f"{number} of {FUZZ_ROUNDS} peers that send anything")
        wait_until(lambda: descriptors(server.pid) < 40, "all of them are gone", 60 * SECOND)


def _round(server: Server, anything: Anything, chance: random.Random) -> None:
    """One connection: a handshake most often, then a few messages, then an end of some kind."""
    try:
        with Raw(server) as raw:
            if chance.random() < 0.9:
                raw.upgrade()
            if chance.random() < 0.8:
                raw.call_unread("initialize", {"clientName": "any"})
                raw.send({"method": "initialized"})
            for _ in range(chance.randrange(1, 12)):
                raw.socket.sendall(anything.sent())
            if chance.random() < 0.5:
                raw.socket.settimeout(0.01)
                raw.socket.recv(1 << 16)
    except (OSError, AssertionError, Gone, Refusal):
        pass  # the server had enough of it
