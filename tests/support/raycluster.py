"""A Ray cluster on this machine: a head without room, and nodes that can be killed and frozen, as processes.

All listen on 127.0.0.1. Ray takes that for a mistake and puts the machine's public address in its place,
unless it believes that it cannot have clusters, as on Windows: the variable below.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
os.environ[LOOPBACK] = "0"  # before anybody imports ray, which looks at it once


class RayNode:
    """One node: a process that has started it, and everything below that."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @property
    def pids(self) -> list[int]:
        """All processes of the node, its servers and their commands included."""
        if self._popen.returncode is not None:
            return []
        found, parents = [self._popen.pid], _children()
        for pid in found:
            found += parents.get(pid, [])
        return found

    def named(self, part: str) -> list[int]:
        """Those in whose command line this stands."""
        return [pid for pid in self.pids if part in _command(pid)]

    def freeze(self) -> None:
        """Everything at once, until nobody new appears: no process sees another one's end."""
        self._frozen: list[int] = []
        while set(pids := self.pids) - set(self._frozen):
            self._frozen = pids
            self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        for pid in self._frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self) -> None:
        """As if the machine lost its power."""
        self.freeze()
        self._send(signal.SIGKILL)
        with self._popen:
            pass


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found.setdefault(parent(int(entry.name)), []).append(int(entry.name))
    return found


def _command(pid: int | str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def _is(pid: str, part: str, folder: str) -> bool:
    """Whether this stands in its command line, and that there or in its environment: a server has none that
    can be read."""
    try:
        words = _command(pid)
        return part in words and (
            folder in words or folder.encode() in Path(f"/proc/{pid}/environ").read_bytes()
        )
    except OSError:
        return False


# `ray start` refuses several nodes where it believes that it cannot have clusters; its own parts do not.
_NODE = """
import contextlib, json, os, signal, sys
from ray._private.node import Node
from ray._private.parameter import RayParams
given = json.loads(sys.argv[1])
node = Node(RayParams(**given), head="gcs_address" not in given, shutdown_at_exit=False, spawn_reaper=False)
print("address", node.gcs_address, flush=True)
def reap(*_):  # as init does: the workers of a raylet look whether it is there, and a zombie is
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
signal.signal(signal.SIGCHLD, reap)
sys.stdin.read()
"""


class RayCluster:
    def __init__(self, folder: str, environ: dict[str, str]) -> None:
        self.folder = folder
        self._environ = environ
        self.address = ""
        self._named = 0
        self.head = self._start("head", num_cpus=0, include_dashboard=False, temp_dir=folder)
        self.nodes: list[RayNode] = []

    def add(self, cpus: int) -> RayNode:
        self._named += 1
        name = f"node{self._named}"
        more = {"node_manager_port": 0, "include_log_monitor": False}
        node = self._start(name, gcs_address=self.address, num_cpus=cpus, **more)
        self.nodes.append(node)
        return node

    def replace(self, node: RayNode, cpus: int) -> None:
        """Ends what is left of a node, and has another one in its place."""
        node.end()
        self.nodes.remove(node)
        self.add(cpus)

    def named(self, part: str) -> list[int]:
        """Processes in whose command line this stands, of any node: a raylet that dies leaves orphans."""
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _is(pid, part, self.folder)]

    def _start(self, name: str, **given: object) -> RayNode:
        given |= {"node_ip_address": "127.0.0.1", "object_store_memory": 80_000_000, "num_gpus": 0}
        given |= {"min_worker_port": 0, "max_worker_port": 0}
        log = Path(self.folder, f"{name}.log")
        with log.open("wb") as out:
            popen = subprocess.Popen(
                [sys.executable, "-c", _NODE, json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                env=self._environ,
            )
        assert popen.stdout is not None
        for line in popen.stdout:
            if line.startswith(b"address "):
                self.address = line.split()[1].decode()
                return RayNode(popen)
        raise AssertionError(log.read_text())


@contextlib.contextmanager
def cluster_of(nodes: int, cpus: int = 4) -> Iterator[RayCluster]:
    folder = tempfile.mkdtemp(prefix="or", dir="/tmp")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "LANG": "C.UTF-8",
        LOOPBACK: "0",
        "RAY_worker_niceness": "0",  # else workers come last on a busy machine, and are taken for silent
        "OUTFITTER_POOL_ROOT": folder,
    }
    cluster = RayCluster(folder, environ)
    try:
        for _ in range(nodes):
            cluster.add(cpus)
        yield cluster
    finally:
        for node in (*cluster.nodes, cluster.head):
            node.end()
        shutil.rmtree(folder, ignore_errors=True)
