"""A server that replaces itself keeps its commands: nothing is lost, doubled or left behind."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter.client.client import Client
from outfitter.client.process import RemoteProcess
from outfitter.core.events import Output
from outfitter.core.handover import FORMAT
from outfitter.errors import HostUnsupported, OutfitterError
from outfitter.host import cgroup
from tests.support.certificates import authority, server_pair
from tests.support.machine import (
    SECOND,
    alive,
    children,
    descriptors,
    resident_kib,
    status,
    wait_gone,
    wait_until,
)
from tests.support.raw import Raw
from tests.support.servers import Server, command, environment, serving
from tests.support.tools import missing
from tests.support.wire import Wire, b64, start_params

SECONDS = 100 * SECOND  # a scenario that takes longer has stuck
SOURCE = Path(outfitter.__file__).parent

# Prints numbered lines as fast as they are taken, until a file appears; then how many there were.
COUNTER = """
import os, sys
number = 0
while not os.path.exists(sys.argv[1]):
    for _ in range(1000):
        sys.stdout.write(f"line {number}\\n")
        number += 1
print(f"{number} lines", flush=True)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving("outfitter", tmp_path / "home") as server:
        yield server


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, SECONDS))


async def upgrade(client: Client, server: Server, outcome: str = "upgraded") -> dict[str, Any]:
    """Upgrades the server and waits until that is over."""
    before: dict[str, Any] = await client.call("server/upgrades", {}, repeat=True)
    os.kill(server.pid, signal.SIGUSR2)
    after: dict[str, Any] = await client.call("server/upgrades", {"after": before["count"]}, repeat=True)
    assert (after["count"], after["outcome"], after["pid"]) == (before["count"] + 1, outcome, server.pid), (
        after
    )
    return after


class Reader:
    """Collects what a process prints, and tells when it has printed something."""

    def __init__(self, process: RemoteProcess) -> None:
        self.process = process
        self.text = b""
        self.exit: int | None = None
        self.failure: OutfitterError | None = None
        self._news = asyncio.Event()
        self._task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        parts = []
        try:
            async for event in self.process:
                if isinstance(event, Output):
                    parts.append(event.data)
                    if len(event.data) < 4096:
                        self.text += b"".join(parts)
                        parts.clear()
                else:
                    self.exit = event.code
                self._news.set()
        except OutfitterError as error:
            self.failure = error
        self.text += b"".join(parts)

    async def until(self, text: bytes) -> None:
        while text not in self.text:
            assert not self._task.done(), self.text[-200:]
            self._news.clear()
            waiting = asyncio.ensure_future(self._news.wait())
            await asyncio.wait((waiting, self._task), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    async def end(self) -> bytes:
        await self._task
        assert self.failure is None
        return self.text


# Nothing lost, nothing doubled


def test_ten_upgrades_under_a_stream_an_echo_and_a_terminal(server: Server, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    states: list[str] = []
    sizes: list[tuple[int, int]] = []

    async def echo(cat: Reader, over: asyncio.Event) -> int:
        """Writes line after line to a cat and reads each back, until it is over."""
        count = 0
        while not over.is_set():
            assert await cat.process.write(b"<%d>\n" % count) == "accepted"
            await cat.until(b"<%d>\n" % count)
            count += 1
        assert await cat.process.close_stdin() == "accepted"
        assert await cat.end() == b"".join(b"<%d>\n" % number for number in range(count))
        assert cat.exit == 0
        return count

    async def scenario() -> None:
        over = asyncio.Event()
        async with outfitter.connect(server.url, on_state=states.append) as client:
            stream = Reader(await client.start([sys.executable, "-c", COUNTER, str(stop)]))
            terminal = Reader(await client.start(["sh", "-c", "stty -echo; exec sh"], tty=(24, 80)))
            cat = Reader(await client.start(["cat"], stdin=True))
            echoing = asyncio.ensure_future(echo(cat, over))
            pids = {one.process_id: one.pid for one in await client.processes()}
            for number in range(10):
                await upgrade(client, server)
                await terminal.process.resize(30 + number, 100)
                await terminal.process.write(b"echo size: $(stty size)\n")
                await terminal.until(b"size: %d 100\r\n" % (30 + number))
                sizes.append((descriptors(server.pid), resident_kib(server.pid)))
                if number == 0:
                    first = stream.text.count(b"\n")
            assert {one.process_id: one.pid for one in await client.processes()} == pids
            stop.touch()
            over.set()
            printed = (await stream.end()).splitlines()
            assert await echoing > 10
            await terminal.process.write(b"exit 7\n")
            await terminal.end()
            assert (terminal.exit, stream.exit) == (7, 0)
        total = len(printed) - 1
        assert printed == [*(b"line %d" % number for number in range(total)), b"%d lines" % total]
        assert total > first  # it went on
        assert (states.count("recovering"), states.count("failed")) == (10, 0)
        for number in range(1, 11):
            assert terminal.text.count(b"size: %d 100" % (29 + number)) == 1

    run(scenario())
    # Nothing is left behind: as many descriptors after the last as after the first, and as much memory.
    assert sizes[-1][0] == sizes[0][0]
    assert sizes[-1][1] < sizes[0][1] + 4096


def test_what_ends_while_there_is_no_client_is_told_afterwards(server: Server, tmp_path: Path) -> None:
    """A command whose end comes in the middle of an upgrade: the kernel keeps it for the new version."""

    async def scenario() -> None:
        async with outfitter.connect(server.url) as client:
            # Each ends at its own moment around the upgrades, after printing more than a pipe holds.
            for number in range(5):
                script = f"read go; head -c 200000 /dev/zero; exit {number}"
                commands = [Reader(await client.start(["sh", "-c", script], stdin=True)) for _ in range(20)]
                over = asyncio.ensure_future(upgrade(client, server))
                for one in commands:
                    await one.process.write(b"\n")
                for one in commands:
                    assert (await one.end(), one.exit) == (bytes(200_000), number)
                await over

    run(scenario())


def test_starts_in_flight_are_done_once(server: Server, tmp_path: Path) -> None:
    """Commands that are started all the time, through upgrades: each ran once, and its caller knows."""
    done = tmp_path / "done"

    async def scenario() -> None:
        over = asyncio.Event()

        async def start_all_the_time(client: Client, who: int) -> int:
            count = 0
            while not over.is_set():
                script = f"echo {who}.{count} >> {done}; echo {count}"
                completed = await client.run(["sh", "-c", script])
                assert (completed.exit_code, completed.stdout) == (0, b"%d\n" % count)
                count += 1
            return count

        async with outfitter.connect(server.url) as one, outfitter.connect(server.url) as two:
            starting = [
                asyncio.ensure_future(start_all_the_time(c, n)) for n, c in enumerate((one, two, one))
            ]
            for _ in range(5):
                await upgrade(one, server)
            over.set()
            counts = await asyncio.gather(*starting)
        wanted = [f"{who}.{count}" for who in range(3) for count in range(counts[who])]
        assert sorted(done.read_text().split()) == sorted(wanted)

    run(scenario())


def test_input_that_waits_is_taken_once_and_in_order(server: Server, tmp_path: Path) -> None:
    """A command that does not read yet: what the server holds for it, and what waits for room, survives."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    data = b"".join(b"%015d\n" % number for number in range(12 << 16))  # 12 MiB: more than is queued

    async def scenario() -> None:
        async with outfitter.connect(server.url) as client:
            script = f"read go < {gate}; sha256sum"
            slow = Reader(await client.start(["sh", "-c", script], stdin=True))
            writing = asyncio.ensure_future(slow.process.write(data))
            for _ in range(3):
                await upgrade(client, server)
            assert not writing.done()
            with open(gate, "w") as opened:
                opened.write("\n")
            assert await writing == "accepted"
            await slow.process.close_stdin()
            assert await slow.end() == hashlib.sha256(data).hexdigest().encode() + b"  -\n"

    run(scenario())


def test_many_sessions_and_processes(server: Server) -> None:
    async def scenario() -> None:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(outfitter.connect(server.url)) for _ in range(50)]
            cats = [Reader(await one.start(["cat"], stdin=True)) for one in clients for _ in range(4)]
            before = descriptors(server.pid)
            for number in range(2):
                await upgrade(clients[0], server)
                await asyncio.gather(*(cat.process.write(b"after %d\n" % number) for cat in cats))
                await asyncio.gather(*(cat.until(b"after %d\n" % number) for cat in cats))
            assert descriptors(server.pid) <= before + 4  # what was opened in advance may differ
            await asyncio.gather(*(cat.process.close_stdin() for cat in cats))
            for cat in cats:
                assert (await cat.end(), cat.exit) == (b"after 0\nafter 1\n", 0)

    run(scenario())


# What else stays


def test_session_without_a_client_stays_and_its_time_goes_on(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "home", "--session-retention", "3600") as server:
        with Wire(server.url) as wire:
            session = wire.handshake()["sessionId"]
            wire.start("left", ["sh", "-c", "echo here; read go; echo gone"], pipeStdin=True)
            wire.until(lambda m: m["method"] == "process/output")
            wire.abort()
        with Wire(server.url) as other:
            other.handshake()
            count = other.call("server/upgrades", {})["count"]
            os.kill(server.pid, signal.SIGUSR2)
            closed = other.ended()
            assert closed.rcvd is not None
            assert closed.rcvd.code == 1012
            assert closed.rcvd.reason.startswith("the server restarts and keeps its commands")
        with Wire(server.url) as wire:
            assert wire.handshake(session)["sessionId"] == session
            assert wire.call("server/upgrades", {"after": count})["outcome"] == "upgraded"
            page = wire.call(
                "process/read", {"processId": "left", "afterSeq": 0, "maxBytes": None, "waitMs": 0}
            )
            assert [chunk["chunk"] for chunk in page["chunks"]] == [b64(b"here\n")]
            wire.call("process/write", {"processId": "left", "chunk": b64(b"\n"), "writeId": "1"})
            assert wire.exit_code("left") == 0


def test_write_that_was_applied_before_is_not_applied_again(server: Server) -> None:
    write = {"processId": "cat", "chunk": b64(b"once\n"), "writeId": "w"}
    with Wire(server.url) as wire:
        session = wire.handshake()["sessionId"]
        wire.start("cat", ["cat"], pipeStdin=True)
        assert wire.call("process/write", write)["status"] == "accepted"
        wire.until(lambda m: m["method"] == "process/output")
        os.kill(server.pid, signal.SIGUSR2)
        wire.ended()
    with Wire(server.url) as wire:
        wire.handshake(session)
        assert wire.call("process/write", write)["status"] == "accepted"
        assert wire.call("process/write", {**write, "chunk": b64(b"twice\n"), "writeId": "x"})
        page = {"processId": "cat", "afterSeq": 1, "maxBytes": None, "waitMs": 20_000}
        assert [one["chunk"] for one in wire.call("process/read", page)["chunks"]] == [b64(b"twice\n")]
        error = wire.error("process/start", {**_start("cat"), "argv": ["true"]})
        assert error["message"] == "process cat already exists"


def _start(process: str) -> dict[str, Any]:
    return {"processId": process, "argv": ["cat"], "cwd": "file:///tmp", "env": {}, "tty": False}


def test_ended_process_can_still_be_read(server: Server) -> None:
    with Wire(server.url) as wire:
        session = wire.handshake()["sessionId"]
        wire.start("short", ["sh", "-c", "echo out; echo err >&2; exit 3"])
        wire.closed("short")
        os.kill(server.pid, signal.SIGUSR2)
        wire.ended()
    with Wire(server.url) as wire:
        wire.handshake(session)
        page = wire.call("process/read", {"processId": "short", "afterSeq": 0, "maxBytes": None, "waitMs": 0})
        assert {one["stream"]: one["chunk"] for one in page["chunks"]} == {
            "stdout": b64(b"out\n"),
            "stderr": b64(b"err\n"),
        }
        assert (page["exited"], page["exitCode"], page["closed"]) == (True, 3, True)


def test_overlays_of_scopes_stay(server: Server) -> None:
    secret = "a value that is nowhere on a disk"

    async def scenario() -> None:
        async with outfitter.connect(server.url) as client:
            put = {"scope": "thread", "producer": "hook:one", "set": {"FROM_HOOK": secret, "LESS": "1"}}
            await client.call("environment/overlay/put", put)
            event = {"scope": "thread", "event": "fork", "to": "thread/child", "unset": ["LESS"]}
            await client.call("environment/overlay/event", event)
            before = [
                await client.call("environment/overlay/list", {"scope": s})
                for s in ("thread", "thread/child")
            ]
            await upgrade(client, server)
            after = [
                await client.call("environment/overlay/list", {"scope": s})
                for s in ("thread", "thread/child")
            ]
            assert after == before
            for scope, wanted in (("thread", f"{secret}, 1"), ("thread/child", f"{secret}, none")):
                contract = outfitter.EnvContract(scope=scope)
                text = "echo $FROM_HOOK, ${LESS:-none}"
                assert (
                    await client.run(["sh", "-c", text], contract=contract)
                ).stdout.decode().strip() == wanted

    run(scenario())


def test_secrets_of_a_setup_and_told_notices_stay(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "outfitter.toml").write_text(
        f"[setup]\nrun = 'echo >>{tmp_path}/runs; export A_TOKEN=hush-$(wc -l <{tmp_path}/runs)'\n"
    )
    home.mkdir()
    argv = [sys.executable, "-m", "outfitter", "trust", "--yes", str(project)]
    subprocess.run(argv, env=environment(home), check=True, capture_output=True, timeout=60 * SECOND)
    (project / ".envrc").write_text("export B=1\n")  # which nobody has allowed

    def of_a_stock_client(server: Server) -> bytes:
        policy = {
            "inherit": "all",
            "ignoreDefaultExcludes": True,
            "exclude": [],
            "set": {},
            "includeOnly": [],
        }
        thread = {"threadId": "0199d8aa-1111-7000-8000-000000000001"}
        with Wire(server.url) as wire:
            wire.handshake()
            params = start_params("p", ["true"], cwd=project.as_uri(), envPolicy=policy, metadata=thread)
            wire.call("process/start", params)
            wire.closed("p")
            return wire.output("p", "stderr")

    with serving("outfitter", home) as server:
        assert of_a_stock_client(server).count(b"[outfitter] ") == 1

        async def scenario() -> None:
            contract = outfitter.EnvContract()
            async with outfitter.connect(server.url) as client:
                for _ in range(3):
                    argv = ["sh", "-c", "echo $A_TOKEN"]
                    ran = await client.run(argv, cwd=str(project), contract=contract)
                    assert ran.stdout == b"hush-1\n"
                    for _ in range(2):
                        await upgrade(client, server)

        run(scenario())
        assert of_a_stock_client(server) == b""


def test_snapshots_of_shells_stay(server: Server) -> None:
    (server.home / ".bash_profile").write_text(
        "echo x >>~/count; export FROM=profile; greet() { echo hello; }\n"
    )
    policy = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}
    shell = {"scopeId": "s", "shell": {"name": "bash", "path": "/bin/bash"}}
    argv = ["/bin/bash", "-lc", "greet; echo $FROM"]

    async def scenario() -> None:
        async with outfitter.connect(server.url) as client:
            for number in range(2):
                params = start_params(f"p{number}", argv, envPolicy=policy, shellSnapshot=shell)
                await client.call("process/start", {**params, "env": {}})
                read: dict[str, Any] = {"closed": False}
                while not read["closed"]:
                    read = await client.call("process/read", {"processId": f"p{number}", "waitMs": 1000})
                printed = b"".join([base64.b64decode(one["chunk"]) for one in read["chunks"]])
                assert printed == b"hello\nprofile\n"
                if not number:
                    await upgrade(client, server)

    run(scenario())
    assert (server.home / "count").read_text() == "x\n"


def test_grace_goes_on(server: Server) -> None:
    """A command that has been asked to end, and ignores it, is killed by the next version in its time."""
    with Wire(server.url) as wire:
        session = wire.handshake()["sessionId"]
        wire.start("stubborn", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 60; done"])
        wire.until(lambda m: m["method"] == "process/output")
        wire.call("process/terminate", {"processId": "stubborn", "graceMs": 4000})
        os.kill(server.pid, signal.SIGUSR2)
        wire.ended()
    with Wire(server.url) as wire:
        wire.handshake(session)
        read = {"processId": "stubborn", "waitMs": 100}  # its time may be over before we are back
        wait_until(lambda: wire.call("process/read", read)["exited"], "the next version has killed it")
        assert wire.call("process/read", read)["exitCode"] == 137


def test_shell_that_reports_is_heard_by_the_next_version(server: Server, tmp_path: Path) -> None:
    """What a shell's startup files did is told with its exit, whichever version has read it."""
    (server.home / ".profile").write_text("export FROM_PROFILE=1\n")

    async def scenario() -> None:
        async with outfitter.connect(server.url, summaries=True) as client:
            contract = outfitter.EnvContract(login="allow", startup="report")
            shell = Reader(
                await client.start(["bash", "-lc", "echo up; read go"], stdin=True, contract=contract)
            )
            await shell.until(b"up\n")
            await upgrade(client, server)
            await shell.process.write(b"\n")
            await shell.end()
            told = shell.process.startup
            assert told["reported"] is True
            assert "FROM_PROFILE" in [one["name"] for one in told["changes"]]

    run(scenario())


def test_commands_do_not_see_the_upgrade(server: Server) -> None:
    """No descriptor, variable or limit of the handover reaches a command, before or after."""
    script = "ls -l /proc/self/fd | wc -l; env | sort; ulimit -n; grep SigBlk /proc/self/status"

    async def scenario() -> None:
        async with outfitter.connect(server.url) as client:
            cat = await client.start(["cat"], stdin=True)
            before = await client.run(["sh", "-c", script])
            await upgrade(client, server)
            assert await client.run(["sh", "-c", script]) == before
            await cat.terminate()

    run(scenario())


def test_orphans_are_adopted_and_ended_as_before(server: Server) -> None:
    async def scenario() -> int:
        async with outfitter.connect(server.url) as client:
            left = await client.run(["sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 & echo $!"])
            orphan = int(left.stdout)
            wait_until(lambda: status(orphan)["PPid"] == str(server.pid), "the server has adopted it")
            await upgrade(client, server)
            assert status(orphan)["PPid"] == str(server.pid)
            return orphan

    orphan = asyncio.run(scenario())
    server.popen.terminate()
    assert server.popen.wait(10) == 0
    wait_gone([orphan])


def test_control_groups_stay(tmp_path: Path) -> None:
    """A program that hides from its mark is still held by the group that an earlier version has made."""
    try:
        cgroup.check()
    except HostUnsupported as error:
        missing("a writable cgroup v2", f"run as root with cgroup2 mounted ({error})")
    hiding = "(setsid bash -c 'ulimit -R unlimited; echo $$; exec sleep 600' 2>/dev/null &); sleep 600"
    with serving("outfitter", tmp_path / "home", "--cgroup") as server:

        async def scenario() -> None:
            async with outfitter.connect(server.url) as client:
                process = Reader(await client.start(["bash", "-c", hiding]))
                await process.until(b"\n")
                mine = _server_group(process.process.pid)
                before = _groups(mine)
                assert len(before) == 1
                await upgrade(client, server)
                assert _groups(mine) == before
                assert (await client.run(["echo", "new"])).stdout == b"new\n"
                # The group of a command goes after its end was told.
                await asyncio.to_thread(wait_until, lambda: _groups(mine) == before, "its own is gone")
                await process.process.terminate()
                await process.end()
                await asyncio.to_thread(wait_gone, [int(process.text)])

        run(scenario())


def test_unix_socket_stays_and_goes_with_the_last_version(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    path = folder / "socket"
    with serving("outfitter", folder, listen=f"unix:{path}") as server:
        before = path.stat().st_ino

        async def scenario() -> None:
            async with outfitter.connect(server.url) as client:
                cat = Reader(await client.start(["cat"], stdin=True))
                await upgrade(client, server)
                await cat.process.write(b"kept\n")
                await cat.until(b"kept\n")

        run(scenario())
        assert path.stat().st_ino == before
    assert not path.exists()


def test_tls_clients_come_back_and_who_shakes_hands_is_sent_away(tmp_path: Path) -> None:
    """What a client has agreed with one process, no other can go on with: it dials again."""
    home = tmp_path / "home"
    with serving("outfitter", home, *server_pair().flags, listen="wss://127.0.0.1:0") as server:

        async def scenario() -> None:
            url = f"wss://localhost:{server.port}"
            async with outfitter.connect(url, ca=str(authority().file)) as client:
                cat = Reader(await client.start(["cat"], stdin=True))
                with socket.create_connection(("127.0.0.1", server.port), 20 * SECOND) as half:
                    half.sendall(b"\x16\x03")  # the beginning of a handshake
                    for number in range(2):
                        await upgrade(client, server)
                        await cat.process.write(b"%d\n" % number)
                    await cat.until(b"0\n1\n")
                    with contextlib.suppress(ConnectionError):
                        assert half.recv(1) == b""

        run(scenario())


def _server_group(pid: int | None) -> Path:
    """The group of the server that has started a command; others may have theirs beside it."""
    path = Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition("::")[2]
    return Path(cgroup.own_group()) / next(part for part in Path(path).parts if part.startswith("outfitter-"))


def _groups(server: Path) -> list[str]:
    """The groups of a server's commands."""
    return sorted(str(path) for path in server.glob("*/*") if path.is_dir())


# When it goes wrong


def test_kill_right_after_an_upgrade_leaves_nothing(server: Server) -> None:
    """The watchdog of the first version watches over the second."""
    with Wire(server.url) as wire:
        session = wire.handshake()["sessionId"]
        wire.start("tree", ["sh", "-c", "setsid sleep 1000 & echo $$ $!; wait"])
        said = wire.until(lambda m: m["method"] == "process/output")
        pids = [int(word) for word in wire.output("tree").split()]
        watchdogs = [pid for pid in children(server.pid) if pid not in pids]
        os.kill(server.pid, signal.SIGUSR2)
        wire.ended()
    with Wire(server.url) as wire:
        wire.handshake(session)
        assert said is not None
        assert all(map(alive, [*pids, *watchdogs]))
        server.popen.kill()
    wait_gone([*pids, *watchdogs])


def test_second_signal_while_it_starts_does_not_end_it(server: Server) -> None:
    async def scenario() -> None:
        async with outfitter.connect(server.url) as client:
            cat = Reader(await client.start(["cat"], stdin=True))
            before = await client.call("server/upgrades", {}, repeat=True)
            os.kill(server.pid, signal.SIGUSR2)
            asking = asyncio.ensure_future(
                client.call("server/upgrades", {"after": before["count"]}, repeat=True)
            )
            while not asking.done():
                os.kill(server.pid, signal.SIGUSR2)
                await asyncio.sleep(0)
            await cat.process.write(b"still here\n")
            await cat.until(b"still here\n")

    run(scenario())


def test_end_that_was_asked_for_meanwhile_comes(server: Server) -> None:
    with Wire(server.url) as wire:
        wire.handshake()
        wire.start("sleep", ["sleep", "1000"])
        [pid] = [one["pid"] for one in wire.call("process/list")["processes"]]
        os.kill(server.pid, signal.SIGUSR2)
        wire.ended()
        os.kill(server.pid, signal.SIGTERM)  # the new version is being executed, or starts
    assert server.popen.wait(20) == 0
    wait_gone([pid])


def test_signal_that_a_thread_takes_from_the_old_version_reaches_the_next_one(tmp_path: Path) -> None:
    """The main thread holds signals back before it is replaced; the others do not. A pipe of the audit log
    that nobody reads keeps the old version there."""
    pipe = tmp_path / "audit"
    os.mkfifo(pipe)
    log = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with serving("outfitter", tmp_path / "home", "--audit", str(pipe)) as server:
        with Wire(server.url) as wire:
            wire.handshake()
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(log, b"\n" * 4096)
            wire.start("sleep", ["sleep", "1000"])
            [pid] = [one["pid"] for one in wire.call("process/list")["processes"]]
            os.kill(server.pid, signal.SIGUSR2)
            wire.ended()
            wait_until(lambda: _has(server.pid, "SigBlk", signal.SIGTERM), "signals are held back")
            os.kill(server.pid, signal.SIGTERM)
            wait_until(lambda: not _has(server.pid, "ShdPnd", signal.SIGTERM), "a thread has taken it")
            with contextlib.suppress(BlockingIOError):
                while os.read(log, 1 << 16):
                    pass
        assert server.popen.wait(20 * SECOND) == 0
    os.close(log)
    wait_gone([pid])


def _has(pid: int, field: str, number: signal.Signals) -> bool:
    """Whether a set of signals of a process has this one; one that has ended has none."""
    return bool(int(status(pid).get(field, "0"), 16) >> (number - 1) & 1)


def test_server_that_is_ended_while_it_sends_clients_away_is_not_replaced(server: Server) -> None:
    """It waits for clients a little longer than for its next version: one that answers no close shows it."""
    with Raw(server) as raw, Raw(server) as other:
        for one in (raw, other):
            one.handshake_unread()
            one.frame()
        raw.call_unread("process/start", {**_start("sleep"), "argv": ["/bin/sleep", "1000"]})
        raw.frame()
        pids = children(server.pid)
        os.kill(server.pid, signal.SIGUSR2)
        assert raw.close_frame()[0] == other.close_frame()[0] == 1012
        os.kill(server.pid, signal.SIGTERM)
        os.kill(server.pid, signal.SIGUSR2)
        assert server.popen.wait(20 * SECOND) == 0
    wait_gone(pids)


def test_every_line_of_the_audit_log_is_written(tmp_path: Path) -> None:
    log = tmp_path / "audit"
    with serving("outfitter", tmp_path / "home", "--audit", str(log)) as server:
        with Wire(server.url) as wire:
            session = wire.handshake()["sessionId"]
            for number in range(200):
                wire.start(f"p{number}", ["/bin/true"])
            os.kill(server.pid, signal.SIGUSR2)
            wire.ended()
        with Wire(server.url) as wire:
            wire.handshake(session)
            wire.start("after", ["/bin/true"])
            wire.closed("after")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    started = [one["process"] for one in events if one["event"] == "command-started"]
    assert started == [*(f"p{number}" for number in range(200)), "after"]
    assert [one["event"] for one in events if one["event"].startswith("session-")] == [
        "session-opened",
        "session-resumed",
        "session-closed",
    ]


def test_commands_with_masked_startup_files_go_on(server: Server, tmp_path: Path) -> None:
    (tmp_path / "outfitter.toml").write_text('[shell]\ndescendants = "mask"\n')
    masked = {"env": {}, "cwd": tmp_path.as_uri(), "contract": {}, "pipeStdin": True}
    count = ["sh", "-c", "while read line; do wc -c </etc/profile; done"]
    with Wire(server.url) as wire:
        session = wire.handshake()["sessionId"]
        message = wire.answer(wire.request("process/start", {**_start("old"), "argv": count, **masked}))
        if message.get("error", {}).get("data") == {"error": "masks-unavailable"}:
            pytest.skip("this kernel gives ordinary users no namespaces")
        assert "result" in message, message
        os.kill(server.pid, signal.SIGUSR2)
        wire.ended()
    with Wire(server.url) as wire:
        wire.handshake(session)
        wire.call("process/start", {**_start("new"), "argv": count, **masked})
        for process in ("old", "new"):
            wire.call("process/write", {"processId": process, "chunk": b64(b"\n"), "writeId": "1"})
            wire.call("process/read", {"processId": process, "waitMs": 20_000})
            wire.until(lambda m, p=process: m["method"] == "process/output" and m["params"]["processId"] == p)
            assert wire.output(process) == b"0\n"
        # The one that kept the masks of the version before has ended, and is no zombie for long.
        wait_until(lambda: len(children(server.pid)) == 4, "two commands, a watchdog, and who keeps masks")


def test_server_that_drains_still_does_and_ends(server: Server) -> None:
    with Wire(server.url) as wire:
        session = wire.handshake()["sessionId"]
        since = wire.call("server/drain")["sinceMs"]
        os.kill(server.pid, signal.SIGUSR2)
        wire.ended()
    with Wire(server.url) as wire:
        wire.handshake(session)
        assert wire.call("server/drain") == {"sinceMs": since, "sessions": 1}
        with Wire(server.url) as other:
            assert other.error("initialize", {"clientName": "new"})["data"] == {"error": "draining"}
        wire.start("sleep", ["sleep", "1000"])
        wire.call("process/terminate", {"processId": "sleep"})
        wire.closed("sleep")
        wire.socket.close(4002)  # it has left
    assert server.popen.wait(20 * SECOND) == 0


@contextlib.contextmanager
def installation(tmp_path: Path, *args: str, without: str = "") -> Iterator[tuple[Server, Path]]:
    """A server that is started from a copy of the package, which a test may replace."""
    site = tmp_path / "site"
    shutil.copytree(SOURCE, site / "outfitter", ignore=shutil.ignore_patterns("__pycache__"))
    if without:
        (site / "outfitter" / without).unlink()
    env = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    with serving("outfitter", tmp_path / "home", *args, env=env) as server:
        yield server, site / "outfitter"


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new))


def raise_at_import(package: Path) -> None:
    with (package / "__init__.py").open("a") as file:
        file.write("\nraise RuntimeError('half an installation')\n")


def lose_a_module(package: Path) -> None:
    (package / "server" / "handover.py").unlink()


def want_another_format(package: Path) -> None:
    replace_in(package / "core" / "handover.py", f"\nFORMAT = {FORMAT}\n", f"\nFORMAT = {FORMAT + 1}\n")


def lose_a_flag(package: Path) -> None:
    replace_in(package / "cli" / "flags.py", '"--process-retention"', '"--other-retention"')


def vanish(package: Path) -> None:
    shutil.rmtree(package)


def test_files_that_change_before_all_is_loaded_are_noticed(tmp_path: Path) -> None:
    """Half of an old version and half of a new one would hand over what neither can read."""
    with installation(tmp_path, without="server/upgrading.py") as (server, _), Wire(server.url) as wire:
        wire.handshake()
        os.kill(server.pid, signal.SIGUSR2)
        told = wire.call("server/upgrades", {"after": 0})
        assert told["outcome"] == "refused"
        assert told["reason"].startswith("this version's own files have changed too early: ")
        assert wire.call("environment/status") == {"status": "ready"}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (raise_at_import, "RuntimeError: half an installation"),
        (lose_a_module, "ImportError: cannot import name 'handover' from 'outfitter.server'"),
        (want_another_format, f"it reads format {FORMAT + 1}, and this server writes {FORMAT}"),
        (lose_a_flag, "No such option '--process-retention'"),
    ],
)
def test_version_that_cannot_take_over_is_not_started(
    damage: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    with installation(tmp_path, "--process-retention", "20") as (server, package):

        async def scenario() -> None:
            states: list[str] = []
            async with outfitter.connect(server.url, on_state=states.append) as client:
                cat = Reader(await client.start(["cat"], stdin=True))
                await upgrade(client, server)
                damage(package)
                told = await upgrade(client, server, "refused")
                assert told["reason"].startswith("the new version cannot take over: ")
                assert reason in told["reason"]
                await cat.process.write(b"as before\n")
                await cat.until(b"as before\n")
                assert states == ["recovering", "connected"]  # by the first one

        run(scenario())
        log = (server.home / "outfitter.stderr").read_text()
        assert "no upgrade, this version goes on: the new version cannot take over: " in log
        (server.home / "outfitter.stderr").write_text("")


def test_new_version_is_loaded(tmp_path: Path) -> None:
    with installation(tmp_path) as (server, package):

        async def scenario() -> None:
            async with outfitter.connect(server.url) as client:
                cat = Reader(await client.start(["cat"], stdin=True))
                source = package / "__init__.py"
                source.write_text(
                    source.read_text().replace(f'VERSION = "{outfitter.VERSION}"', 'VERSION = "9.9"')
                )
                assert (await upgrade(client, server))["version"] == "9.9"
                info = await client.call("environment/info", None)
                assert info["executorVersion"].endswith("+outfitter.9.9")
                await cat.process.write(b"kept\n")
                await cat.until(b"kept\n")

        run(scenario())


def test_old_version_goes_on_if_the_new_one_cannot_be_executed(tmp_path: Path) -> None:
    """The new version says yes, and is gone in the next moment."""
    site = tmp_path / "site"
    shutil.copytree(SOURCE, site / "outfitter", ignore=shutil.ignore_patterns("__pycache__"))
    program = tmp_path / "outfitter"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom outfitter.cli.main import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    env = environment(tmp_path, {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"})
    with (tmp_path / "log").open("wb") as log:
        popen = subprocess.Popen(
            [program, "serve"], stdout=subprocess.PIPE, stderr=log, env=env, cwd=tmp_path
        )
    try:
        assert popen.stdout is not None
        server = Server("outfitter", popen, popen.stdout.readline().decode().strip(), tmp_path)

        async def scenario() -> None:
            states: list[str] = []
            async with outfitter.connect(server.url, on_state=states.append) as client:
                cat = Reader(await client.start(["cat"], stdin=True))
                await upgrade(client, server)
                states.clear()
                with (site / "outfitter" / "server" / "upgrading.py").open("a") as file:
                    file.write(f"\nos.chmod({str(program)!r}, 0)\n")
                fds = descriptors(server.pid)
                for _ in range(2):
                    program.chmod(0o755)
                    told = await upgrade(client, server, "refused")
                    assert told["reason"] == "the new version cannot be executed: Permission denied"
                    await cat.process.write(b"as before\n")
                await cat.until(b"as before\nas before\n")
                assert states == ["recovering", "connected"] * 2
                assert descriptors(server.pid) <= fds + 4
                inherited = f"/proc/{server.pid}/fdinfo"
                flags = [(Path(inherited) / fd).read_text() for fd in os.listdir(inherited) if int(fd) > 2]
                assert all(int(one.split("flags:")[1].split()[0], 8) & os.O_CLOEXEC for one in flags)
                program.chmod(0o755)
                replace_in(
                    site / "outfitter" / "server" / "upgrading.py", f"\nos.chmod({str(program)!r}, 0)\n", "\n"
                )
                await upgrade(client, server)
                await cat.process.write(b"and now\n")
                await cat.until(b"and now\n")

        run(scenario())
    finally:
        popen.terminate()
        assert popen.wait(20) == 0
        popen.stdout.close() if popen.stdout is not None else None
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_setup_that_runs_is_not_interrupted(tmp_path: Path) -> None:
    """A request that waits for a program of ours is answered first, then the upgrade goes on."""
    home = tmp_path / "home"
    home.mkdir()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (home / ".bash_profile").write_text(f"read go < {gate}\nexport FROM_PROFILE=1\n")
    with serving("outfitter", home, env={"SHELL": "/bin/bash"}) as server:

        async def scenario() -> None:
            async with outfitter.connect(server.url) as client:
                asking = asyncio.ensure_future(client.explain(login=True))
                over = asyncio.ensure_future(upgrade(client, server))
                # Served meanwhile.
                assert (await client.run(["echo", "hi"])).stdout == b"hi\n"
                assert not asking.done()
                with open(gate, "w") as opened:
                    opened.write("\n")
                assert "FROM_PROFILE" in str(await asking)
                await over

        run(scenario())


def test_stdio_server_refuses(tmp_path: Path) -> None:
    popen = subprocess.Popen(
        command("outfitter", "--listen", "stdio"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        cwd=tmp_path,
        text=True,
    )
    with popen:
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        popen.stdin.write('{"id": 1, "method": "initialize", "params": {"clientName": "t"}}\n')
        popen.stdin.flush()
        assert '"sessionId"' in popen.stdout.readline()
        popen.send_signal(signal.SIGUSR2)
        said = popen.stderr.readline()
        assert "no upgrade, this version goes on: a client on stdio could not come back" in said
        popen.stdin.write('{"method": "initialized"}\n{"id": 2, "method": "environment/status"}\n')
        popen.stdin.flush()
        assert '"ready"' in popen.stdout.readline()
        popen.stdin.close()
    assert popen.returncode == 0


# Clients


def test_client_that_does_not_read_is_cut_off_and_resumes(server: Server) -> None:
    """Its output waits; a request that it has not heard of may have been done, so nothing is promised."""
    with Raw(server, receive_buffer=4096) as raw:
        raw.handshake_unread()
        first, payload = raw.frame()
        assert first == 0x81
        session = json.loads(payload)["result"]["sessionId"]
        flood = {"processId": "flood", "argv": ["head", "-c", "30000000", "/dev/zero"]}
        raw.call_unread("process/start", {**_start("flood"), **flood, "env": {"PATH": "/usr/bin:/bin"}})
        wait_until(_stuck(server), "the flood waits for its reader", 40 * SECOND)
        with Wire(server.url) as other:
            other.handshake()
            os.kill(server.pid, signal.SIGUSR2)
            closed = other.ended()
            assert closed.rcvd is not None
            assert closed.rcvd.code == 1012
    with Wire(server.url) as wire:
        wire.handshake(session)
        assert wire.call("process/list")["processes"][0]["closed"] is False


def _stuck(server: Server) -> Callable[[], bool]:
    """Whether the server's `head` has begun and writes no more: it has written as much as many looks ago."""
    written: list[str] = []

    def looks_stuck() -> bool:
        for pid in children(server.pid):
            if status(pid).get("Name") == "head":
                written.append(Path(f"/proc/{pid}/io").read_text().split("wchar: ")[1].split()[0])
        return len(written) > 5 and len(set(written[-5:])) == 1 and int(written[-1]) > 1 << 20

    return looks_stuck


def test_who_connects_meanwhile_waits_and_is_served(server: Server) -> None:
    """A connection that has not said yet what it wants goes on with the next version."""
    with Raw(server) as slow, Wire(server.url) as wire:
        slow.socket.sendall(b"GET /readyz HTTP/1.1\r\nHost: ")
        wire.handshake()
        os.kill(server.pid, signal.SIGUSR2)
        wire.ended()
        with Raw(server) as quick:
            assert quick.request("GET /readyz HTTP/1.1", {"Host": "localhost"}).startswith(b"HTTP/1.1 200")
        slow.socket.sendall(b"localhost\r\n\r\n")
        assert slow.head().startswith(b"HTTP/1.1 200")


def test_short_retention_does_not_end_a_session_during_an_upgrade(tmp_path: Path) -> None:
    with serving("outfitter", tmp_path / "home", "--session-retention", "0") as server:

        async def scenario() -> None:
            async with outfitter.connect(server.url) as client:
                cat = Reader(await client.start(["cat"], stdin=True))
                await upgrade(client, server)
                await cat.process.write(b"kept\n")
                await cat.until(b"kept\n")

        run(scenario())
