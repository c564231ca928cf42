"""What a server hands over is all that it has: each attribute is handed over or named here as left behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outfitter.core.handover import Parcel, Received
from outfitter.core.output import OutputLog
from outfitter.core.stdin import StdinQueue, WriteIds
from outfitter.host.process import Process
from outfitter.host.unix import marked
from outfitter.loop import EpollLoop
from outfitter.protocol.jsontext import dumps, loads
from outfitter.protocol.network import NetworkProxy, ProxyRules
from outfitter.server import handover
from outfitter.server.network import ManagedNetwork
from outfitter.server.server import Server
from outfitter.server.session import Session
from outfitter.server.settings import ServerSettings
from outfitter.transport.memory import pair
from tests.support.machine import SECOND, wait_gone
from tests.support.wire import b64, start_params

# Of a process: what the new server brings itself, and what a process has only inside of a callback.
PROCESS_LEFT = {"_loop", "_owner", "_trees", "_set_back", "_discarded", "_done", "_late", "_left"}
# Of a session: what belongs to its connection, or to the server.
SESSION_LEFT = {
    "connection",
    "starting",  # an upgrade waits for them
    "held_bytes",  # and for what waits for them
    "lanes",  # of requests that end with their connection
    "_registry",
    "_loop",
    "_reads",
    "_writes",
    "_waiting_bytes",
    "_answering_writes",
    "_paused",
    "_held",
    "_catching_up",
    "_ended",
}
# Of all sessions: what the new server makes itself, of its settings.
SESSIONS_LEFT = {
    "loop",
    "pace",
    "settings",
    "observer",
    "_ending",  # killed already; their descriptors are closed with the old version
    "_limit",
    "_expiry",
    "_expires",
    "_freed",
    "_net_opener",  # a helper that is started again when it is needed
    "_orphans",
    "_others",
    "_shares",  # made with the logs
}


class Client:
    """A client in the same process, and the loop that runs its server."""

    def __init__(self, loop: EpollLoop, server: Server) -> None:
        self.loop = loop
        self.server = server
        self.messages: list[Any] = []
        ours, theirs = pair(loop)
        ours.receiver = self
        self._transport = ours
        server.connect(theirs)
        self._ids = iter(range(1, 1000))

    def message(self, data: Any) -> None:
        self.messages.append(loads(data if isinstance(data, str) else bytes(data).decode()))

    def drained(self) -> None:
        pass

    def lost(self, reason: str) -> None:
        pass

    def call(self, method: str, params: Any) -> Any:
        ident = next(self._ids)
        self._transport.send(dumps({"id": ident, "method": method, "params": params}).encode())
        self.until(lambda: any(one.get("id") == ident for one in self.messages))
        [answer] = [one for one in self.messages if one.get("id") == ident]
        assert "result" in answer, answer
        return answer["result"]

    def notify(self, method: str) -> None:
        self._transport.send(dumps({"method": method, "params": {}}).encode())

    def until(self, holds: Callable[[], bool]) -> None:
        """Runs the loop until it holds."""
        deadline = self.loop.time() + 20 * SECOND

        def look() -> None:
            assert self.loop.time() < deadline
            if holds():
                self.loop.stop()
            else:
                self.loop.call_later(0.001, look)

        self.loop._stopping = False
        self.loop.call_soon(look)
        self.loop.run()
        assert holds()


@pytest.fixture
def client(tmp_path: Any) -> Iterator[Client]:
    loop = EpollLoop()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    server = Server(loop, ServerSettings(), environment)
    client = Client(loop, server)
    client.call("initialize", {"clientName": "t", "environmentSummary": True})
    client.notify("initialized")
    try:
        yield client
    finally:
        server.stop()
        loop.close()


def handed_over(client: Client, tmp_path: Any) -> Server:
    """Another server that was given everything; it runs nothing yet."""
    parcel = Parcel()
    told = handover.told(client.server.services, parcel)
    received = Received(memoryview(b"".join(parcel.pieces(told))))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    other = Server(EpollLoop(), ServerSettings(), environment)
    handover.taken(other.services, received)
    return other


def alike(name: str, one: Any, other: Any) -> None:
    if isinstance(one, OutputLog):
        assert one.read(0, None) == other.read(0, None)
    elif isinstance(one, StdinQueue):
        assert list(map(bytes, one._chunks)) == list(map(bytes, other._chunks))
        assert (one.size, one.eof) == (other.size, other.eof)
    elif isinstance(one, WriteIds):
        assert one._ids == other._ids
    elif name == "_grace" and one is not None:
        assert other[0] == pytest.approx(one[0])
    elif name == "_linger":
        assert (one is None) == (other is None)
    else:
        assert one == other, name


def fill(client: Client) -> None:
    """A session with processes in every state."""
    client.call("environment/base", {"rule": "merge", "pid": 1, "env": {"MINE": "1"}})
    start = client.call
    start("process/start", start_params("cat", ["cat"], pipeStdin=True))
    client.call("process/write", {"processId": "cat", "chunk": b64(b"hello"), "writeId": "one"})
    proxy = ProxyRules(domains=(("*.a.test", "allow"),))
    network = {"networkProxy": NetworkProxy(proxy, 500).encode()}
    start("process/start", start_params("proxied", ["sleep", "1000"], **network))
    start("process/start", start_params("full", ["sleep", "1000"], pipeStdin=True))
    client.call("process/write", {"processId": "full", "chunk": b64(bytes(300_000)), "writeId": "a"})
    start("process/start", start_params("terminal", ["sh", "-c", "echo up; exec sleep 1000"], tty=True))
    start("process/start", start_params("ended", ["sh", "-c", "echo out; exit 3"]))
    alone = {"detached": {"forMs": None}}
    start("process/start", start_params("detached", ["sleep", "1000"], **alone))
    start("process/start", start_params("detached and ended", ["true"], **alone))
    start("process/start", start_params("patient", ["sh", "-c", "trap '' TERM; echo up; exec sleep 1000"]))
    client.until(lambda: _printed(client, "patient") and _printed(client, "terminal"))
    client.call("process/terminate", {"processId": "patient", "graceMs": 3_600_000})
    shell = {"contract": {"startup": "report", "login": "allow"}, "envPolicy": None}
    start("process/start", start_params("shell", ["bash", "-c", "echo up; exec sleep 1000"], **shell))
    client.until(lambda: _printed(client, "shell"))
    snapshot = {"shellSnapshot": {"scopeId": "s", "shell": {"name": "bash", "path": "/bin/bash"}}}
    start("process/start", start_params("snapshot", ["/bin/bash", "-lc", "exec sleep 1000"], **snapshot))
    client.until(lambda: sum(one.get("method") == "process/closed" for one in client.messages) == 2)


def _printed(client: Client, process: str) -> bool:
    return any(
        one.get("method") == "process/output" and one["params"]["processId"] == process
        for one in client.messages
    )


def test_everything_is_handed_over_or_named_here(client: Client, tmp_path: Any) -> None:
    fill(client)
    ours = client.server.services.sessions
    # As in an upgrade: nobody holds a session then, and commands are not read.
    [session] = ours._sessions.values()
    session.freeze()
    for connection in client.server.open_connections:
        connection.close(1012, "upgrade")
    other = handed_over(client, tmp_path)
    theirs = other.services.sessions
    try:
        [taken] = theirs._sessions.values()
        assert set(vars(session)) == set(vars(taken))
        _sessions_alike(ours, theirs)
        _session_alike(session, taken)
        assert sorted(taken.processes) == [
            "cat",
            "detached",
            "detached and ended",
            "ended",
            "full",
            "patient",
            "proxied",
            "shell",
            "snapshot",
            "terminal",
        ]
        for name, process in session.processes.items():
            assert all(hasattr(taken.processes[name], slot) for slot in Process.__slots__)
            for slot in set(Process.__slots__) - PROCESS_LEFT:
                alike(slot, getattr(process, slot), getattr(taken.processes[name], slot))
        assert theirs.pace.running == ours.pace.running == 8
    finally:
        for network in taken._networks.values():
            for sock, _ in network.proxy.listening:  # type: ignore[attr-defined]
                sock.detach()  # two servers have it, in this process
        theirs.loop.close()  # type: ignore[attr-defined]


def _session_alike(session: Session, taken: Session) -> None:
    simple = {
        "id",
        "number",
        "principal",
        "running",
        "summaries",
        "base",
        "frozen",
        "left",
        "client_name",
        "opened_ms",
        "detached_at",
        "operates",
        "fork",
    }
    by_process = {"processes", "_notices", "_shells", "_networks", "_closed", "_unattended", "_readable"}
    assert set(vars(session)) == simple | by_process | {"_forgetting", "snapshots"} | SESSION_LEFT
    assert session.snapshots is not None and taken.snapshots is not None
    assert len(session.snapshots.entries) == 1
    assert repr(taken.snapshots.entries) == repr(session.snapshots.entries)
    for name, entry in session.snapshots.entries.items():
        assert taken.snapshots.entries[name] == entry
    assert (taken._forgetting is None) == (session._forgetting is None)
    for name in simple:
        assert getattr(taken, name) == getattr(session, name), name
    assert list(taken.processes) == list(session.processes)
    for name in ("_notices", "_shells", "_networks"):
        assert [one.process_id for one in getattr(taken, name)] == [
            one.process_id for one in getattr(session, name)
        ]
    assert {one.process_id: seconds for one, seconds in taken._unattended.items()} == {
        one.process_id: seconds for one, seconds in session._unattended.items()
    }
    assert [(one.process_id, until) for one, (until, _) in taken._readable.items()] == [
        (one.process_id, until) for one, (until, _) in session._readable.items()
    ]
    assert [(at, one.process_id) for at, one in taken._closed] == [
        (at, one.process_id) for at, one in session._closed
    ]
    for mine, next_one in zip(session._networks.values(), taken._networks.values(), strict=True):
        assert isinstance(mine, ManagedNetwork)
        assert isinstance(next_one, ManagedNetwork)
        assert next_one.params == mine.params
        listening = [
            [(one.fileno(), kind) for one, kind in each.proxy.listening] for each in (mine, next_one)
        ]
        assert listening[0] == listening[1] != []
    for one, two in zip(session._shells.values(), taken._shells.values(), strict=True):
        for name, value in vars(one).items():
            if name not in ("_contract", "_loop", "_fifo"):
                assert getattr(two, name) == value, name
        if one._fifo is not None:
            assert two._fifo is not None
            for slot in type(one._fifo).__slots__:
                assert getattr(one._fifo, slot) == getattr(two._fifo, slot)


def _sessions_alike(ours: Any, theirs: Any) -> None:
    handed = {
        "sharing",
        "_book",
        "_sessions",
        "_numbers",
        "_budget",
        "_leaders",
        "descriptors",  # counted anew
        "draining",
        "marks",
        "spawner",
        "trees",
        "watchdog",
    }
    assert set(vars(ours)) == handed | SESSIONS_LEFT
    assert theirs._book._deadlines == ours._book._deadlines
    assert theirs._book._owners == ours._book._owners
    assert theirs.sharing.several == ours.sharing.several
    assert theirs.draining == ours.draining
    assert (theirs._numbers, theirs._leaders) == (ours._numbers, ours._leaders)
    assert (theirs._budget.used, theirs._budget.limit) == (ours._budget.used, ours._budget.limit)
    assert theirs.marks.new(5) == ours.marks.new(5)
    assert theirs.spawner.child_files == ours.spawner.child_files
    assert theirs.trees.doomed == ours.trees.doomed
    assert theirs.trees.ending == ours.trees.ending
    assert theirs.descriptors.held == ours.descriptors.held > 0
    for name in ("_pid", "_pidfd", "_pipe", "_group"):
        assert getattr(theirs.watchdog, name) == getattr(ours.watchdog, name)


# What says "up" has left the group of its command already.
OWN_SESSION = "setsid sh -c 'echo up; exec sleep 1000' & wait"


def test_what_was_to_be_killed_is_killed_by_the_next_version(
    client: Client, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outfitter.host.tree._SWEEP_SECONDS", 60)  # and not before the next version
    client.call("process/start", start_params("tree", ["sh", "-c", OWN_SESSION]))
    client.until(lambda: _printed(client, "tree"))
    client.call("process/terminate", {"processId": "tree"})
    doomed = set(client.server.services.sessions.trees.doomed)
    assert len(doomed) == 1
    other = handed_over(client, tmp_path)
    try:
        assert other.services.sessions.trees.doomed == doomed
    finally:
        other.services.loop.close()  # type: ignore[attr-defined]


def test_session_that_was_to_be_ended_is_ended_by_the_next_version(client: Client, tmp_path: Any) -> None:
    client.call("process/start", start_params("tree", ["sh", "-c", OWN_SESSION]))
    client.until(lambda: _printed(client, "tree"))
    ours = client.server.services.sessions
    [session] = ours._sessions.values()
    ours.end(session)
    assert ours.trees.ending == {session.number}
    # A loop that does not run has killed nobody: the setsid of the tree has its mark still.
    left = marked(lambda mark: ours.marks.is_ours(mark) and ours.marks.session_of(mark) == session.number)
    other = handed_over(client, tmp_path)
    theirs = other.services.sessions
    try:
        assert theirs.trees.ending == {session.number}
        second = Client(theirs.loop, other)  # type: ignore[arg-type]
        second.call("initialize", {"clientName": "second"})
        [new] = theirs._sessions.values()
        assert new.number != session.number
        second.until(lambda: theirs._numbers == {new.number})
        assert left
        wait_gone(left)
    finally:
        theirs.loop.close()  # type: ignore[attr-defined]


def test_what_the_version_before_did_not_tell_is_not_missed(client: Client, tmp_path: Any) -> None:
    environments = client.server.services.environments
    environments.news("me", "thread", ["told"])
    environments.say(["said"])
    other = handed_over(client, tmp_path)
    assert other.services.environments._told == environments._told == {("me", "thread", "told"): None}
    assert other.services.environments._said == {"said"}
    other.services.loop.close()  # type: ignore[attr-defined]
    parcel = Parcel()
    told = handover.told(client.server.services, parcel)
    for name in ("setups", "notices", "said"):
        del told[name]
    received = Received(memoryview(b"".join(parcel.pieces(told))))
    older = Server(EpollLoop(), ServerSettings(), {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    handover.taken(older.services, received)
    assert older.services.environments._told == {}
    older.services.loop.close()  # type: ignore[attr-defined]


def test_nothing_is_changed_by_writing_it_down(client: Client, tmp_path: Any) -> None:
    fill(client)
    before = handover.told(client.server.services, Parcel())
    assert handover.told(client.server.services, Parcel()) == before
    client.call("process/write", {"processId": "cat", "chunk": b64(b" again"), "writeId": "two"})
    client.until(lambda: b64(b" again") in str(client.messages))


def test_session_that_cannot_be_taken_over_does_not_stop_the_others(client: Client, tmp_path: Any) -> None:
    fill(client)
    second = Client(client.loop, client.server)
    second.call("initialize", {"clientName": "second"})
    for connection in client.server.open_connections:
        connection.close(1012, "upgrade")
    parcel = Parcel()
    told = handover.told(client.server.services, parcel)
    told["sessions"][0]["processes"] = [{}]
    told["sessions"][0]["number"] = 4000  # so that nothing of this one is killed
    received = Received(memoryview(b"".join(parcel.pieces(told))))
    other = Server(EpollLoop(), ServerSettings(), {"HOME": str(tmp_path)})
    try:
        handover.taken(other.services, received)
        assert list(other.services.sessions._sessions) == [told["sessions"][1]["id"]]
    finally:
        other.services.loop.close()  # type: ignore[attr-defined]


def test_ended_process_is_forgotten_in_its_time(client: Client, tmp_path: Any) -> None:
    fill(client)
    for connection in client.server.open_connections:
        connection.close(1012, "upgrade")
    parcel = Parcel()
    told = handover.told(client.server.services, parcel)
    [[deadline, _]] = told["sessions"][0]["closed"]
    assert deadline > client.loop.time()
    told["sessions"][0]["processes"] = [
        one for one in told["sessions"][0]["processes"] if one["id"] == "ended"
    ]
    told["sessions"][0] |= {"shells": {}, "networks": {}, "unattended": {}, "readable": []}
    told["watchdog"] = None
    told["sessions"][0]["closed"] = [[client.loop.time() + SECOND, "ended"]]
    received = Received(memoryview(b"".join(parcel.pieces(told))))
    loop = EpollLoop()
    other = Server(loop, ServerSettings(), {"HOME": str(tmp_path)})
    try:
        handover.taken(other.services, received)
        [session] = other.services.sessions._sessions.values()
        assert list(session.processes) == ["ended"]
        assert other.services.sessions._budget.used == 4
        Client(loop, other).until(lambda: not session.processes)
        assert other.services.sessions._budget.used == 0
    finally:
        loop.close()
