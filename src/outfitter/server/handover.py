"""What a server has, written down for its next version, and made of that again.

The one module that knows all of it: sessions with their processes, overlays, the watchdog, what is to be
killed. Left out is what belongs to a connection (its client comes back and asks again), and what can be found
out again: answers of providers, the login shell's snapshot, caches.

Nothing is changed by writing it down: if the next version cannot be started, this one goes on. Every server
loads this module in time, and most never use it: what only the next version needs is imported by it.
"""

from __future__ import annotations

import os

from ..contract.base import Base
from ..core.handover import ids_of, ids_told, log_of, log_told, queue_of, queue_told
from ..core.session import FOREVER
from ..host.killing import kill_group
from ..host.process import DESCRIPTORS, Process
from ..log import fault
from ..protocol.process import Notices
from ..record import fields
from .session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..contract.contract import Contract
    from ..core.handover import Parcel, Received
    from ..core.snapshots import SnapshotCache
    from ..env.layer import Layer
    from ..host.sandbox.sandboxes import Sandboxes
    from ..host.watchdog import Watchdog
    from ..observe.observer import Observer
    from .network import ManagedNetwork
    from .services import Services
    from .session import Ending
    from .sessions import Sessions
    from .shells import ShellStart

    # A JSON value: its readers here know what they have written.
    Told = Any


def told(services: Services, parcel: Parcel) -> Told:
    """All that the next version needs to go on."""
    sessions = services.sessions
    return {
        "pid": os.getpid(),
        "several": sessions.sharing.several,
        "marks": [sessions.marks.prefix, sessions.marks._next_process],
        "draining": None if services.drain is None else [services.drain.since_ms, sessions.draining],
        "watchdog": _watchdog_told(sessions.watchdog, parcel),
        "childFiles": sessions.spawner.child_files,
        "doomed": sorted(sessions.trees.doomed),
        "sandboxes": _sandboxes_told(services.used_sandboxes, parcel),
        "ending": sorted(sessions.trees.ending),
        "others": [] if sessions._orphans is None else sorted(sessions._orphans.others),
        "sessions": [_session_told(sessions, one, parcel) for one in sessions._sessions.values()],
        "scopes": _scopes_told(services.environments.contract),
        "setups": _setups_told(services.environments.contract),
        "notices": list(services.environments._told),
        "said": sorted(services.environments._said),
        "observed": {} if services.observer is None else services.observer.leave(),
    }


def taken(services: Services, received: Received) -> None:
    """Makes a new server go on where the old one stopped. Its descriptors are open."""
    sessions, told = services.sessions, received.told
    if told["several"]:
        sessions.sharing.begin()
    _adopt_marks(sessions, told["marks"])
    _adopt_watchdog(sessions.watchdog, told["watchdog"])
    if told["childFiles"] is not None:
        soft, hard = told["childFiles"]
        sessions.spawner.child_files = (soft, hard)
    if told["sandboxes"] is not None:
        _adopt_sandboxes(services.sandboxes, told["sandboxes"])
    for one in told["sessions"]:
        try:
            _adopt_session(services, one, received)
        except Exception as error:
            # The others go on. Nobody could read or end its commands any more.
            fault("server", "a session was not taken over", error)
            sessions.end_number(one["number"])
    for number in told["ending"]:
        sessions.end_number(number)
    sessions.trees.kill_marks(told["doomed"])
    if sessions._orphans is not None:
        # Most children of this process are the last version's own.
        sessions._orphans.others = set(told.get("others", ()))
    sessions._expire_later()
    if told["scopes"]:
        _adopt_scopes(services.environments.contract, told["scopes"])
    # A version that came before these did not tell them.
    if told.get("setups"):
        services.environments.contract.setups.left.update(told["setups"])
    services.environments._told.update(dict.fromkeys(map(tuple, told.get("notices", ()))))
    services.environments._said.update(told.get("said", ()))
    if services.observer is not None:
        _observe_on(services.observer, sessions, told.get("observed", {}))
    since_ms, since = told["draining"] or (0, "")
    if services.drain is not None and since_ms:
        services.drain.go_on(since_ms, since)


# What all sessions share


def _adopt_marks(sessions: Sessions, told: Told) -> None:
    """Running commands carry the mark of the server that started them: this is that server now."""
    cgroups = sessions.trees._cgroups
    if cgroups is not None:
        cgroups.tidy()  # the group that it has made for itself
    sessions.marks.prefix, sessions.marks._next_process = told
    if cgroups is not None:
        cgroups.claim()
        sessions.watchdog._group = cgroups.root


def _watchdog_told(watchdog: Watchdog, parcel: Parcel) -> Told:
    if not watchdog.pid:
        return None
    return [watchdog.pid, parcel.keep(watchdog._pidfd), parcel.keep(watchdog._pipe)]


def _adopt_watchdog(watchdog: Watchdog, told: Told) -> None:
    if told is not None:
        watchdog._pid, watchdog._pidfd, watchdog._pipe = told
        assert watchdog._loop is not None
        watchdog._loop.add_reader(watchdog._pidfd, watchdog._died)


# Sandboxes


def _sandboxes_told(sandboxes: Sandboxes | None, parcel: Parcel) -> Told:
    if sandboxes is None:
        return None
    running = sandboxes.running.items()
    for _, one in running:
        if one.held:
            kill_group(one.outer)  # it would run without what it waits for
    held = sandboxes.placeholders.held.items()
    return {
        "held": {
            path: [parcel.keep(note), count, parcel.keep(folder)] for path, (note, count, folder) in held
        },
        "running": [
            [
                mark,
                one.outer,
                one.inner,
                parcel.keep(one.info),
                one.told.decode(),
                list(one.placeholders),
                one.on_the_network,
            ]
            for mark, one in running
        ],
        "landlocked": list(sandboxes.by_landlock),
    }


def _adopt_sandboxes(sandboxes: Sandboxes, told: Told) -> None:
    sandboxes.placeholders.held.update(told["held"])
    for mark, *known in told["running"]:
        sandboxes.adopt(mark, *known)
    sandboxes.by_landlock.update(told.get("landlocked", ()))  # which an older version does not tell


# Sessions


def _session_told(sessions: Sessions, session: Session, parcel: Parcel) -> Told:
    base = session.base
    return {
        "id": session.id,
        "number": session.number,
        "principal": session.principal,
        # The clock is the machine's: it goes on for the next version.
        "deadline": _told(sessions._book.deadline(session.id)),
        "frozen": session.frozen,
        "left": session.left,
        "client": session.client_name,
        "openedMs": session.opened_ms,
        "detachedAt": session.detached_at,
        "operates": session.operates,
        "fork": session.fork,
        "summaries": session.summaries,
        "snapshots": _snapshots_told(session.snapshots),
        "base": None if base is None else _fields(base),
        "processes": [_process_told(one, parcel) for one in session.processes.values()],
        "closed": [[deadline, process.process_id] for deadline, process in session._closed],
        "unattended": {one.process_id: _told(seconds) for one, seconds in session._unattended.items()},
        "readable": [[until, process.process_id] for process, (until, _) in session._readable.items()],
        "shells": {
            process.process_id: _shell_told(shell, parcel) for process, shell in session._shells.items()
        },
        "networks": {
            process.process_id: _network_told(one, parcel) for process, one in session._networks.items()
        },
    }


def _adopt_session(services: Services, told: Told, received: Received) -> None:
    sessions = services.sessions
    session = Session(told["id"], told["number"], told["principal"], sessions)
    sessions.sharing.seen(session.principal)
    session.frozen = told["frozen"]
    session.left = told["left"]
    session.client_name = told["client"]
    session.opened_ms = told["openedMs"]
    session.detached_at = told["detachedAt"]
    session.operates = told["operates"]
    session.fork = told["fork"]
    session.summaries = told["summaries"]
    session.base = _base_of(told["base"])
    session.snapshots = _snapshots_of(told.get("snapshots"))  # of a version that has them
    for one in told["processes"]:
        process = _process_of(one, received, sessions, session)
        session.processes[process.process_id] = process
        if not process.closed:
            session.running += 1
            sessions.descriptors.adopt(DESCRIPTORS, session.principal)
            session._notices[process] = Notices(process.process_id)
        if not process.exited:
            sessions._leaders.add(process.pid)
            sessions.pace.started()
    for process_id, shell in told["shells"].items():
        start = session._shells[session.processes[process_id]] = _shell_of(services, shell, received)
        start.listen(sessions.loop)
    for process_id, network in told["networks"].items():
        process = session.processes[process_id]
        session._networks[process] = _network_of(services, session, process_id, network)
    for deadline, process_id in told["closed"]:
        session._closed.append((deadline, session.processes[process_id]))
    for process_id, seconds in told["unattended"].items():
        session._unattended[session.processes[process_id]] = _time(seconds)
    for until, process_id in told["readable"]:
        process = session.processes[process_id]
        left = max(0.0, until - sessions.loop.time())
        session._readable[process] = (until, sessions.loop.call_later(left, session._forget, process))
    sessions._book.adopt(session.id, session.principal, _time(told["deadline"]))
    sessions._sessions[session.id] = session
    sessions._numbers.add(session.number)
    session._forget_due()


def _told(seconds: float | None) -> float | None:
    """A time; None for one that never comes, for which JSON has no number."""
    return None if seconds is None or seconds == FOREVER else seconds


def _time(told: float | None) -> float:
    return FOREVER if told is None else told


def _base_of(told: Told) -> Base | None:
    return None if told is None else Base(**told)


# Snapshots of shells: to take them again would run startup files once more, which may have changed


def _snapshots_told(snapshots: SnapshotCache | None) -> Told:
    if snapshots is None:
        return None
    snapshots.settle()
    return [
        [key, _layer_told(taken.layer), None if taken.left is None else _fields(taken.left), failures, rests]
        for key, (taken, failures, rests) in snapshots.entries.items()
    ]


def _snapshots_of(told: Told) -> SnapshotCache | None:
    if told is None:
        return None
    from ..core.snapshots import SnapshotCache, Taken
    from ..shell.state import ShellState

    snapshots = SnapshotCache()
    for key, layer, left, failures, rests in told:
        taken = Taken(_layer_of(layer), None if left is None else ShellState(**left))
        snapshots.entries[key] = (taken, failures, rests)
    return snapshots


_LAYER = ("values", "unset", "producer", "state", "note", "cost_ms", "asked")


def _layer_told(layer: Layer | None) -> Told:
    if layer is None:
        return None
    operations = [[one.variable, one.op, one.values] for one in layer.operations]
    return {**{name: getattr(layer, name) for name in _LAYER}, "operations": operations}


def _layer_of(told: Told) -> Layer | None:
    if told is None:
        return None
    from ..core.snapshots import ASKED_ID
    from ..env.layer import SNAPSHOT, Layer, Operation
    from ..env.origin import SHELL_SNAPSHOT

    operations = [Operation(name, op, tuple(values)) for name, op, values in told["operations"]]
    said = {name: told[name] for name in _LAYER}
    return Layer(
        SNAPSHOT, ASKED_ID, SHELL_SNAPSHOT, **{**said, "unset": tuple(told["unset"])}, operations=operations
    )


def _fields(value: object) -> Told:
    return {name: getattr(value, name) for name in fields(value)}


# Processes


def _process_told(process: Process, parcel: Parcel) -> Told:
    return {
        "id": process.process_id,
        "argv0": process.argv0,
        "cwd": process.cwd,
        "tty": process.tty,
        "sandboxed": process.sandboxed,
        "mark": process.mark,
        "pid": process.pid,
        "startedMs": process.started_ms,
        "killedBy": process.killed_by,
        "pidfd": parcel.keep(process._pidfd),
        "fds": [parcel.keep(fd) for fd in process._fds],
        "stdin": parcel.keep(process._stdin),
        "queue": queue_told(process._queue, parcel),
        "writes": ids_told(process.writes),
        "log": log_told(process.log, parcel),
        "paused": process._paused,
        "heldToTheEnd": process._held_to_the_end,
        "widened": process._widened,
        "terminated": process._terminated,
        "lingers": process._linger is not None,
        "killAt": None if process._grace is None else process._grace[0],
    }


def _process_of(told: Told, received: Received, sessions: Sessions, session: Session) -> Process:
    """The process again, watched again; what happened to it meanwhile is found at once."""
    process = Process.__new__(Process)
    process.process_id = told["id"]
    process.argv0 = told["argv0"]
    process.cwd = told["cwd"]
    process.tty = told["tty"]
    process.sandboxed = told["sandboxed"]
    process.mark = told["mark"]
    process.pid = told["pid"]
    process.started_ms = told["startedMs"]
    process.killed_by = told.get("killedBy")
    process.writes = ids_of(told["writes"])
    process.log = log_of(told["log"], received, sessions.budget_of(session.principal))
    process._loop = sessions.loop
    process._trees = sessions.trees
    process._owner = session
    process._pidfd = told["pidfd"]
    process._fds = told["fds"]
    process._streams = (b"pty",) if process.tty else (b"stdout", b"stderr")
    process._stdin = told["stdin"]
    process._queue = queue_of(told["queue"], received)
    process._writing = False
    process._paused = told["paused"]
    process._held_to_the_end = told["heldToTheEnd"]
    process._widened = told["widened"]
    process._terminated = told["terminated"]
    process._discarded = False
    process._set_back = -1
    process._done = []
    process._linger = None
    process._late = None
    process._left = False
    process._grace = None
    process.go_on(told["lingers"], told["killAt"])
    return process


# Shells that report what their startup files did


def _shell_told(shell: ShellStart, parcel: Parcel) -> Told:
    fifo, plan = shell._fifo, shell._plan
    return {
        "plan": {name: getattr(plan, name) for name in fields(plan)}
        | {"flags": [[flag.code, flag.what] for flag in plan.flags]},
        "given": dict(shell._given),
        "told": shell._told,
        "asked": shell._asked,
        "mark": shell._mark,
        "outcome": shell._outcome,
        "fifo": None if fifo is None else [parcel.keep(fifo.fd), fifo._folder, fifo.path],
        "data": None if shell._data is None else parcel.put(bytes(shell._data)),
    }


def _shell_of(services: Services, told: Told, received: Received) -> ShellStart:
    from ..host.privatefifo import PrivateFifo
    from ..shell.start import ContractFlag, ShellPlan
    from .shells import ShellStart

    said = told["plan"]
    flags = [ContractFlag(*flag) for flag in said["flags"]]
    plan = ShellPlan(**{**said, "added": tuple(map(tuple, said["added"])), "flags": flags})
    shell = ShellStart(plan, told["given"], services.environments.contract, None, told["told"])
    shell._asked = told["asked"]
    shell._mark = told["mark"]
    shell._outcome = told["outcome"]
    shell._data = None if told["data"] is None else bytearray(received.bytes(told["data"]))
    if told["fifo"] is not None:
        fifo = shell._fifo = PrivateFifo.__new__(PrivateFifo)
        fifo.fd, fifo._folder, fifo.path = told["fifo"]
    return shell


# Proxies: what passed through them ends, and their clients may connect again


def _network_told(network: Ending, parcel: Parcel) -> Told:
    from .network import ManagedNetwork

    assert isinstance(network, ManagedNetwork)
    listening = [[parcel.keep(sock.fileno()), kind] for sock, kind in network.proxy.listening]
    return {"params": network.params.encode(), "listening": listening, "outside": network.is_outside}


def _network_of(services: Services, session: Session, process_id: str, told: Told) -> ManagedNetwork:
    from ..protocol.network import NetworkProxy
    from .network import ManagedNetwork

    network = ManagedNetwork(services, session, process_id, NetworkProxy.decode(told["params"]))
    network.adopt(told["listening"], outside=told.get("outside", False))  # of a version that says so
    return network


# Overlays of scopes


def _scopes_told(contract: Contract) -> Told:
    if "overlays" not in contract.__dict__:
        return []
    from ..env.overlay import encode

    return [
        {
            "principal": principal,
            "scope": name,
            "owner": one.owner,
            "parent": one.overlay.parent,
            "withheld": sorted(one.overlay.withheld),
            "contributions": [[each.producer, encode(each)] for each in one.overlay.contributions],
            "missing": {producer: list(names) for producer, names in one.missing.items()},
        }
        for (principal, name), one in contract.overlays.scopes._scopes.items()
    ]


def _adopt_scopes(contract: Contract, told: Told) -> None:
    from ..contract.overlays import _Scope
    from ..env.overlay import Overlay, read

    for one in told:
        contributions = [read(producer, said)[0] for producer, said in one["contributions"]]
        overlay = Overlay(contributions, id=one["scope"], parent=one["parent"]).withholding(one["withheld"])
        scope = _Scope(overlay, one["owner"], one.get("missing"))
        contract.overlays.scopes._scopes[one["principal"], one["scope"]] = scope


# What watchers have begun


def _observe_on(observer: Observer, sessions: Sessions, told: Told) -> None:
    for session in sessions._sessions.values():
        for process in session.processes.values():
            left = told.get(str(process.mark))
            if left is not None:
                observer.take(process, left)


# What setups export and no file has


def _setups_told(contract: Contract) -> Told:
    return contract.setups.secrets if "setups" in contract.__dict__ else {}
