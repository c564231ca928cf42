"""What /proc says about a server: its family of processes, their CPU time and their memory.

A "family" is the server with every process it keeps for itself (launchers, watchdogs, workers). It must be
taken while no command runs, because a command is a descendant too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

__all__ = ["busy_share", "cpu_of_all", "cpu_seconds", "cpu_spent", "family", "pss_kb", "rss_kb", "start_time"]

TICK = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """The process, its descendants, and strays that are still in its session."""
    parents: dict[int, int] = {}
    sessions: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))):
            parents[int(name)], sessions[int(name)] = int(fields[1]), int(fields[3])
    found = {pid}
    grew = True
    while grew:
        members = {p for p, parent in parents.items() if parent in found or sessions[p] == pid}
        grew = not members <= found
        found |= members
    return sorted(found & parents.keys())


def start_time(pid: int) -> int | None:
    """Tells a process from a later one with the same pid; None when it is gone or a zombie."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] != "Z" else None


def cpu_seconds(pids: list[int]) -> dict[int, float]:
    """User and system time of all threads of each, without reaped children: those were the commands."""
    return {pid: (int(f[11]) + int(f[12])) / TICK for pid in pids if (f := _stat(pid))}


def cpu_of_all(pid: int) -> float:
    """User and system time of a server, of what it keeps, and of every child that was reaped: the commands,
    and what they were started with."""
    found = [fields for one in family(pid) if (fields := _stat(one))]
    return sum(sum(map(int, fields[11:15])) for fields in found) / TICK


def cpu_spent(before: Mapping[int, float]) -> float:
    """Seconds since `cpu_seconds`, of all that are still there: a helper that has ended was idle."""
    after = cpu_seconds(list(before))
    return sum(seconds - before[pid] for pid, seconds in after.items())


def rss_kb(pids: list[int]) -> int:
    return sum(_memory_kb(pid, "Rss:") for pid in pids)


def pss_kb(pids: list[int]) -> int:
    """As `rss_kb`, but pages that several processes have count for each with its share."""
    return sum(_memory_kb(pid, "Pss:") for pid in pids)


def busy_share(seconds: float) -> float:
    """How much of all cores was in use while this process slept: other people's work."""
    idle, total = _cpu_times()
    time.sleep(seconds)
    idle_after, total_after = _cpu_times()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def _cpu_times() -> tuple[int, int]:
    with open("/proc/stat") as file:
        times = [int(word) for word in file.readline().split()[1:9]]
    return times[3] + times[4], sum(times)


def _stat(pid: int) -> list[str]:
    """The fields after the command name, from `state` on; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _memory_kb(pid: int, label: str) -> int:
    # smaps_rollup counts the pages; the figure in status is a batched per-CPU counter, off by some 100 kB.
    for name, wanted in (("smaps_rollup", label), ("status", "VmRSS:")):
        try:
            with open(f"/proc/{pid}/{name}") as file:
                for line in file:
                    if line.startswith(wanted):
                        return int(line.split()[1])
        except OSError:
            continue
    return 0
