"""Every system call of a server fails in turn; nobody dies, waits for ever or leaves anything behind.

A scene (`tests.support.session`) is played once to count the server's calls, then once for each call that is
to fail. After each fault the server lives, another session's command runs, and descriptors and children are
where they were. By default a sample of the calls fails, the first and the last ones of each kind;
OUTFITTER_CHAOS=1 (`make chaos`) has them all fail, with every error that each can have.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from outfitter.contract.providers import AGAIN_SECONDS
from tests.support import faults as support
from tests.support.faults import ERRORS, Faults, leftover_children
from tests.support.machine import PROC, SECOND, alive, children, descriptors, wait_until
from tests.support.servers import Server, has_fault, serving
from tests.support.session import Gone, Peer, Refusal, Scenes

DEEP = bool(os.environ.get("OUTFITTER_CHAOS"))
# Of each kind, so many of the first and the last calls fail. A look at the process table takes thousands,
# which are all alike.
FIRST, LAST = (150, 50) if DEEP else (3, 1)
LONG = 3600 if DEEP else 300  # hundreds of faults in one test, each with a command of somebody else
LINGERING_SECONDS = 8 * SECOND
WATCHDOG_TRIES = 10
TOGETHER = 8  # servers that wait at once

SCENES = sorted(name[len("_play_") :] for name in dir(Scenes) if name.startswith("_play_"))


class Stage:
    """A server that can be made to fail, somebody else's session on it, and what it had when nothing ran."""

    def __init__(self, server: Server, faults: Faults, scenes: Scenes, retention: int) -> None:
        self.server = server
        self._retention = retention
        self.faults = faults
        self.scenes = scenes
        self._log = server.home / "outfitter.stderr"
        self._said = 0
        self.neighbour = Peer(server)
        self._commands = 0
        faults.watch(server.pid)
        for _ in range(2):
            for name in SCENES:
                if name != "resume" or retention:
                    scenes.play_to_the_end(name, server)
        self._descriptors = self._children = 0
        wait_until(self._settled, "the server has done what it does")
        self._descriptors, self._children = descriptors(server.pid), len(leftover_children(server.pid))

    def _settled(self) -> bool:
        """Whether nothing changes any more: sessions have expired, what was ended is gone and reaped."""
        before = descriptors(self.server.pid), leftover_children(self.server.pid)
        time.sleep((self._retention + 0.2) * SECOND)  # an absence has no event
        after = descriptors(self.server.pid), leftover_children(self.server.pid)
        return before == after and all(map(alive, after[1]))

    def counts(self, scene: str) -> dict[str, int]:
        """How many calls of each kind the scene takes."""
        self.faults.count()
        self.scenes.play_to_the_end(scene, self.server)
        self._as_before("no fault")
        return self.faults.counts

    def fail(self, scene: str, kind: str, nth: int, error: int) -> str | None:
        """Plays a scene with one fault in it: what went wrong that must not."""
        what = f"{scene}: {kind} {nth} fails with {support.name(error)}"
        self.faults.arm(kind, nth, error)
        try:
            self.scenes.play(scene, self.server)
        except TimeoutError:
            self.faults.disarm()
            return f"{what}: its client waits for ever"
        self.faults.disarm()
        if self.server.popen.poll() is not None:
            return f"{what}: the server has ended"
        try:
            self._commands += 1
            self.neighbour.start(f"p{self._commands}", ["/bin/true"])
            assert self.neighbour.closed(f"p{self._commands}") == 0
            self.neighbour.notices.clear()
        except (TimeoutError, Gone, Refusal) as error_:
            return f"{what}: another session is not served: {error_!r}"
        try:
            self._as_before(what)
        except AssertionError as difference:
            return str(difference)
        said = self._log.read_bytes()[self._said :].decode(errors="replace")
        self._said += len(said.encode())
        return f"{what}: a fault of ours:\n{said[-1500:]}" if has_fault(said) else None

    def _as_before(self, what: str) -> None:
        def is_so() -> bool:
            pid = self.server.pid
            return descriptors(pid) <= self._descriptors and len(running_children(pid)) <= self._children

        try:
            wait_until(is_so, what, LINGERING_SECONDS)
        except AssertionError:
            before, children = self._descriptors, self._children
            self._descriptors = descriptors(self.server.pid)  # what follows is not its fault
            self._children = len(running_children(self.server.pid))
            held = sorted(
                os.readlink(f"{PROC}/{self.server.pid}/fd/{fd}") for fd in _numbers(self.server.pid)
            )
            raise AssertionError(
                f"{what}: left behind: {len(held)} descriptors instead of {before}, "
                f"{self._children} children instead of {children}: {held}"
            ) from None

    def assert_all_reaped(self) -> None:
        """Orphans are reaped every five seconds, all others at once."""
        wait_until(
            lambda: len(leftover_children(self.server.pid)) <= self._children, "all are reaped", 12 * SECOND
        )

    def close(self) -> None:
        self.neighbour.close()
        self.faults.close()


def running_children(pid: int) -> list[int]:
    return list(filter(alive, leftover_children(pid)))


def _numbers(pid: int) -> list[str]:
    return [fd for fd in os.listdir(f"{PROC}/{pid}/fd") if os.path.lexists(f"{PROC}/{pid}/fd/{fd}")]


def sample(count: int) -> list[int]:
    """Which calls of `count` fail."""
    if count <= FIRST + LAST:
        return list(range(1, count + 1))
    return [*range(1, FIRST + 1), *range(count - LAST + 1, count + 1)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = support.library(tmp_path_factory.mktemp("library"))
    if found is None:
        pytest.skip("needs a C compiler (cc)")
    return found


@contextlib.contextmanager
def staged(home: Path, library: Path, retention: int) -> Iterator[Stage]:
    scenes = Scenes(home)
    scenes.trust(home)
    faults = Faults(home, library)
    flags = ("--session-retention", str(retention), "--process-retention", "0")
    with serving("outfitter", home, *flags, env=faults.env) as server:
        stage = Stage(server, faults, scenes, retention)
        yield stage
        stage.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[Stage]:
    # Sessions end with their connection, so that nobody has to wait for them.
    with staged(tmp_path_factory.mktemp("home"), library, 0) as stage:
        yield stage


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene != "resume"])
def test_no_failing_call_hurts_more_than_its_own_request(scene: str, stage: Stage) -> None:
    assert_bears(stage, scene)


@pytest.mark.timeout(LONG)
def test_no_failing_call_hurts_more_than_its_own_request_when_sessions_wait(
    tmp_path: Path, library: Path
) -> None:
    with staged(tmp_path, library, 1) as stage:
        assert_bears(stage, "resume")


def assert_bears(stage: Stage, scene: str) -> None:
    wrong = []
    for kind, count in stage.counts(scene).items():
        errors = ERRORS[kind]
        for place, nth in enumerate(sample(count)):
            for error in errors if DEEP else errors[place % len(errors) :][:1]:
                found = stage.fail(scene, kind, nth, error)
                if found is not None:
                    wrong.append(found)
                    if len(wrong) > 20 or stage.server.popen.poll() is not None:
                        pytest.fail("\n".join(wrong))
    assert not wrong, "\n".join(wrong)
    stage.assert_all_reaped()


# The first time: modules are loaded, threads and processes started.

FIRST_USE = ["files", "provider", "search", "shell", "terminal", "walk", "watch"]
FIRST_USE_KINDS = ("open", "opendir", "pthread_create", "mmap")
if DEEP:
    FIRST_USE_KINDS += ("stat", "memfd_create", "inotify", "pipe", "pidfd_open")


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("scene", FIRST_USE)
def test_failure_at_first_use_is_not_remembered(scene: str, tmp_path: Path, library: Path) -> None:
    scenes = Scenes(tmp_path)
    scenes.trust(tmp_path)
    with fresh(tmp_path, library) as (server, faults), Peer(server):
        faults.count()
        scenes.play_to_the_end(scene, server)
        counts = faults.counts
    cases = [(kind, nth) for kind in FIRST_USE_KINDS for nth in first_uses(counts[kind])]
    for begin in range(0, len(cases), TOGETHER):
        with contextlib.ExitStack() as stack:
            failed = []
            for kind, nth in cases[begin : begin + TOGETHER]:
                server, faults = stack.enter_context(fresh(tmp_path, library))
                with Peer(server) as neighbour:
                    faults.arm(kind, nth, ERRORS[kind][0])
                    scenes.play(scene, server)
                    faults.disarm()
                    neighbour.start("p", ["/bin/true"])
                    assert neighbour.closed("p") == 0, (kind, nth)
                failed.append((kind, nth, server))
            # A provider that was refused is looked at again after a while.
            until = time.monotonic() + (2 * AGAIN_SECONDS if scene == "provider" else 0)
            for kind, nth, server in failed:
                while (error := played_again(scenes, scene, server)) is not None:
                    if time.monotonic() > until:
                        pytest.fail(f"{scene}: after {kind} {nth} has failed once: {error!r}")


@contextlib.contextmanager
def fresh(home: Path, library: Path) -> Iterator[tuple[Server, Faults]]:
    """A server that has done nothing yet, and can be made to fail."""
    faults = Faults(Path(mkdtemp(dir=home)), library)
    with serving("outfitter", home, "--session-retention", "0", env=faults.env) as server:
        faults.watch(server.pid)
        yield server, faults
    faults.close()


def played_again(scenes: Scenes, scene: str, server: Server) -> Exception | None:
    try:
        scenes.play_to_the_end(scene, server)
    except (Gone, Refusal, TimeoutError) as error:
        return error
    return None


def first_uses(count: int) -> list[int]:
    if DEEP:
        return sample(count)
    return [1] if 0 < count < 8 else sorted({1, count // 2}) if count else []


# The watchdog


@pytest.mark.parametrize("kind", ["pipe", "open", "posix_spawn", "pidfd_open"])
def test_watchdog_that_cannot_be_started_is_started_later(kind: str, tmp_path: Path, library: Path) -> None:
    faults = Faults(tmp_path, library)
    with serving("outfitter", tmp_path, env=faults.env) as server, Peer(server) as peer:
        # Nobody has to ask for a command first.
        wait_until(lambda: bool(watchdogs(server.pid)), "it is there")
        faults.watch(server.pid)
        for _ in range(WATCHDOG_TRIES):
            gone = watchdogs(server.pid)
            faults.arm(kind, 1, ERRORS[kind][0])
            os.kill(gone[0], 9)
            # Another one is there before the last of the calls that it takes.
            wait_until(
                lambda gone=gone: (
                    _refused(tmp_path) or (faults.has_failed and watchdogs(server.pid) not in ([], gone))
                ),
                "either",
            )
            assert faults.disarm()
            if _refused(tmp_path):
                break  # otherwise the fault hit something else that the server did in that moment
        assert _refused(tmp_path)
        assert watchdogs(server.pid) == []
        peer.start("p", ["/bin/true"])
        assert peer.closed("p") == 0
        assert len(watchdogs(server.pid)) == 1
        assert leftover_children(server.pid) == []
    faults.close()


def watchdogs(pid: int) -> list[int]:
    return [child for child in children(pid) if b"outfitter-watchdog" in _words(child)]


def _words(pid: int) -> bytes:
    try:
        return Path(f"{PROC}/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def _refused(home: Path) -> bool:
    return "the watchdog was not started" in (home / "outfitter.stderr").read_text()
